/* SPDX-License-Identifier: MIT
 *
 * The integer vector of gemm_int8.inc.h and attention_s8.inc.h on AVX-512: sixteen times 32 bits.
 * The meaning of each name is in vec_int_avx2.h.
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

static inline __m512 vi_to_floats(vi x) {
    return _mm512_cvtepi32_ps(x);
}
static inline vi vi_fours(const vi x[4]) {
    const vi low = _mm512_or_si512(x[0], _mm512_slli_epi32(x[1], 8));
    const vi high = _mm512_or_si512(x[2], _mm512_slli_epi32(x[3], 8));
    return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}
static inline __m512 v_ceil(__m512 x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
static inline __m512 v_fraction(__m512 x) {
    return _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
static inline vi vi_times_power(__m512 p, __m512 x) {
    return _mm512_cvtps_epi32(_mm512_scalef_ps(p, x));
}

#endif
