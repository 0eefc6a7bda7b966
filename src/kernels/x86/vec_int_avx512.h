/* SPDX-License-Identifier: MIT
 *
 * The integer vector of gemm_int8.inc.h on AVX-512: sixteen times 32 bits.
 */
#ifndef VO_KERNELS_X86_VEC_INT_AVX512_H
#define VO_KERNELS_X86_VEC_INT_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef __m512i vi;

static inline vi vi_zero(void) {
    return _mm512_setzero_si512();
}
static inline vi vi_load(const void *p) {
    return _mm512_loadu_si512(p);
}
static inline void vi_store(void *p, vi x) {
    _mm512_storeu_si512(p, x);
}
static inline vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
static inline vi vi_repeat(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return _mm512_set1_epi32(four);
}

#endif
