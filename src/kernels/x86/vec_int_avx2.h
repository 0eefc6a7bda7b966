/* SPDX-License-Identifier: MIT
 *
 * The integer vector of gemm_int8.inc.h and attention_s8.inc.h on AVX2: eight times 32 bits.
 *
 *   vi_repeat(p)          four bytes in every lane
 *   vi_fours(x)           x[0] + 256 x[1] + ..., for bytes
 *   v_fraction(x)         x - floor(x)
 *   vi_times_power(p, x)  p 2^floor(x) as a whole number, for p below 512 and x <= 0
 */
#ifndef VO_KERNELS_X86_VEC_INT_AVX2_H
#define VO_KERNELS_X86_VEC_INT_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef __m256i vi;

static inline vi vi_zero(void) {
    return _mm256_setzero_si256();
}
static inline vi vi_load(const void *p) {
    return _mm256_loadu_si256(p);
}
static inline void vi_store(void *p, vi x) {
    _mm256_storeu_si256(p, x);
}
static inline vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
static inline vi vi_repeat(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline __m256 vi_to_floats(vi x) {
    return _mm256_cvtepi32_ps(x);
}
static inline vi vi_fours(const vi x[4]) {
    const vi low = _mm256_or_si256(x[0], _mm256_slli_epi32(x[1], 8));
    const vi high = _mm256_or_si256(x[2], _mm256_slli_epi32(x[3], 8));
    return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
}
static inline __m256 v_ceil(__m256 x) {
    return _mm256_ceil_ps(x);
}
static inline __m256 v_fraction(__m256 x) {
    return _mm256_sub_ps(x, _mm256_floor_ps(x));
}
/* Below 2^-24 nothing is left of p. */
static inline vi vi_times_power(__m256 p, __m256 x) {
    const vi n = _mm256_cvtps_epi32(_mm256_floor_ps(_mm256_max_ps(x, _mm256_set1_ps(-24.0f))));
    const vi bits = _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23));
    return _mm256_cvtps_epi32(_mm256_castsi256_ps(bits));
}

#endif
