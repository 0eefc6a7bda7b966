/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX-512 VNNI: vpdpbusd adds four products to a 32-bit sum without saturation,
 * so A has 8 bits. 28 sums, 2 of B and 1 of A in 32 registers.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { MR = 14, NR = VO_AVX512_NR, W = 16, MAX = 127, ZERO = 128, SPLIT = 4 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx512.h"

/* Not the intrinsic: around it gcc 12 keeps the sums in memory. */
static inline vi vi_dot(vi sum, vi a, vi b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_vnni(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
