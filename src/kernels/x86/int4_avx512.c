/* SPDX-License-Identifier: MIT
 *
 * 4-bit codes to bf16 on AVX-512: a permutation of the sixteen values looks at four bits of its
 * index only, so it picks a code out of a word and makes it a float at once.
 */
#if !defined(__AVX512F__) || !defined(__AVX512BW__)
#error "this file must be built with the AVX-512 flags"
#endif

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { NR = VO_AVX512_NR };

typedef __m512i vw;

static inline vw load_words(const uint32_t *p) {
    return _mm512_loadu_si512(p);
}
static inline vf lowest(vw words) {
    const vf values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(words, values);
}
static inline vw shift(vw words) {
    return _mm512_srli_epi32(words, 4);
}

/* Upper and lower halves apart: the upper ones gain 1 where the lower one, plus 0x7fff, plus their
 * last bit, passes 16 bits. An average adds one more and keeps the carry. */
static inline void store_pairs(uint16_t *p, vf even, vf odd) {
    const __m512i e = _mm512_castps_si512(even), o = _mm512_castps_si512(odd);
    const __m512i upper = _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(e, 16), o);
    const __m512i lower = _mm512_mask_blend_epi16(0xaaaaaaaa, e, _mm512_slli_epi32(o, 16));
    const __m512i half = _mm512_ternarylogic_epi32(upper, _mm512_set1_epi16(1),
                                                   _mm512_set1_epi16(0x7ffe), 0xea /* a&b | c */);
    const __m512i carry = _mm512_srli_epi16(_mm512_avg_epu16(lower, half), 15);
    _mm512_storeu_si512(p, _mm512_add_epi16(upper, carry));
}

static inline void prefetch(const char *p) {
    _mm_prefetch(p, _MM_HINT_T0);
}

#define VO_FN(name) vo_avx512_##name
#include "kernels/simd/int4.inc.h"
