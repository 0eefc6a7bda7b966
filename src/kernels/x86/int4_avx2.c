/* SPDX-License-Identifier: MIT
 *
 * 4-bit codes to bf16 on AVX2.
 */
#if !defined(__AVX2__) || !defined(__FMA__)
#error "this file must be built with the AVX2 flags"
#endif

#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { NR = VO_AVX2_NR };

typedef __m256i vw;

static inline vw load_words(const uint32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline vf lowest(vw words) {
    return _mm256_cvtepi32_ps(_mm256_and_si256(words, _mm256_set1_epi32(15)));
}
static inline vw shift(vw words) {
    return _mm256_srli_epi32(words, 4);
}

/* As in int4_avx512.c. */
static inline void store_pairs(uint16_t *p, vf even, vf odd) {
    const __m256i e = _mm256_castps_si256(even), o = _mm256_castps_si256(odd);
    const __m256i upper = _mm256_blend_epi16(_mm256_srli_epi32(e, 16), o, 0xaa);
    const __m256i lower = _mm256_blend_epi16(e, _mm256_slli_epi32(o, 16), 0xaa);
    const __m256i half =
        _mm256_or_si256(_mm256_and_si256(upper, _mm256_set1_epi16(1)), _mm256_set1_epi16(0x7ffe));
    const __m256i carry = _mm256_srli_epi16(_mm256_avg_epu16(lower, half), 15);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm256_add_epi16(upper, carry));
}

static inline void prefetch(const char *p) {
    _mm_prefetch(p, _MM_HINT_T0);
}

#define VO_FN(name) vo_avx2_##name
#include "kernels/simd/int4.inc.h"
