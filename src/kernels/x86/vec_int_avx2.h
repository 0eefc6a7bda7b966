/* SPDX-License-Identifier: MIT
 *
 * The integer vector of gemm_int8.inc.h on AVX2: eight times 32 bits.
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

#endif
