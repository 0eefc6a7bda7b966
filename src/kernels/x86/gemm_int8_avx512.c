/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX-512BW without VNNI: as on AVX2, with twice the width and registers.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

/* 24 sums, 1 of A, the ones; the rest is for products on their way. */
enum { MR = 12, NR = VO_AVX512_NR, W = 16, MAX = 63, ZERO = 64, SPLIT = 1 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx512.h"

#define FOURS VO_INT8_FOURS

static inline vi vi_pairs(vi a, vi b) {
    return _mm512_maddubs_epi16(a, b);
}
/* Additions are not the intrinsics: gcc would gather terms, and run out of registers. */
static inline vi vi_add_pairs(vi p, vi a, const int8_t *b) {
    const vi product = vi_pairs(a, vi_load(b));
    __asm__("vpaddw %1, %0, %0" : "+v"(p) : "v"(product));
    return p;
}
static inline vi vi_add_wide(vi sum, vi p) {
    p = _mm512_madd_epi16(p, _mm512_set1_epi16(1));
    __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(p));
    return sum;
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avx512(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
