/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for AVX2 + FMA: a tile of 6x16, widened to floats.
 */
#if !defined(__AVX2__) || !defined(__FMA__)
#error "this file must be built with the AVX2 flags"
#endif

#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { MR = VO_AVX2_MR, NR = VO_AVX2_NR };

static inline __m256i load_pairs(const uint16_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}
static inline vf widen_even(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(load_pairs(p), 16));
}
/* The mask stays in memory: the tile needs all registers, and gcc would rather give up a sum. */
static inline vf widen_odd(const uint16_t *p) {
    static const uint16_t upper[16] = {0, 0xffff, 0, 0xffff, 0, 0xffff, 0, 0xffff,
                                       0, 0xffff, 0, 0xffff, 0, 0xffff, 0, 0xffff};
    const uint16_t *mask = upper;
    __asm__("" : "+r"(mask) : "r"(p));
    return _mm256_castsi256_ps(_mm256_and_si256(load_pairs(p), load_pairs(mask)));
}

static inline void prefetch(const char *p) {
    _mm_prefetch(p, _MM_HINT_T0);
}

/* To the nearest even: what is cut off, plus the last bit that stays, carries when it passes half.
 * A NaN keeps its sign and its upper bits and is quiet. */
static inline void store_bf16(uint16_t *p, vf x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i round = _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i y = _mm256_add_epi32(bits, round);
    y = _mm256_blendv_epi8(y, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
    y = _mm256_srli_epi32(y, 16);
    const __m128i low = _mm256_castsi256_si128(y), high = _mm256_extracti128_si256(y, 1);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(low, high));
}

#define VO_FN(name) vo_avx2_##name
#include "kernels/simd/gemm_bf16.inc.h"
