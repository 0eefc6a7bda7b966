/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX-VNNI, which processors without AVX-512 have: vpdpbusd adds four products to
 * a 32-bit sum without saturation, so A has 8 bits. 12 sums, 2 of B and 1 of A.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { MR = 6, NR = VO_AVX2_NR, W = 8, MAX = 127, ZERO = 128, SPLIT = 4 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx2.h"

/* Not the intrinsic: around it gcc 12 keeps the sums in memory. */
static inline vi vi_dot(vi sum, vi a, vi b) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avxvnni(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
