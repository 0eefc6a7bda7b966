/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX2: products u8 x s8 are added in pairs of 16 bits (vpmaddubsw), which
 * saturate, so A has 7 bits: 127 * 127 * 2 fits. The pairs are then widened and added. 10 sums, 2
 * of B, 1 of A, the ones and 2 products on their way fill the 16 registers.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { MR = 5, NR = VO_AVX2_NR, W = 8, MAX = 63, ZERO = 64, SPLIT = 1 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx2.h"

static inline vi vi_dot(vi sum, vi a, vi b) {
    const vi pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1));
    sum = _mm256_add_epi32(sum, pairs);
    __asm__("" : "+x"(sum)); /* or gcc gathers the terms of several steps, and has no registers */
    return sum;
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avx2(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
