/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX-512BW without VNNI: as on AVX2, with twice the width and registers.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

/* 24 sums, 2 of B, 1 of A, the ones; the rest is for products on their way. */
enum { MR = 12, NR = VO_AVX512_NR, W = 16, MAX = 63, ZERO = 64, SPLIT = 1 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx512.h"

static inline vi vi_dot(vi sum, vi a, vi b) {
    const vi pairs = _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1));
    sum = _mm512_add_epi32(sum, pairs);
    __asm__("" : "+v"(sum)); /* or gcc gathers the terms of several steps, and has no registers */
    return sum;
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avx512(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
