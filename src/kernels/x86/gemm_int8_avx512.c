/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX-512BW without VNNI: as on AVX2, with twice the width and registers.
 */
#include <immintrin.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

/* 24 sums, 1 of A, the ones; the rest is for products on their way. */
enum { MR = 12, NR = VO_AVX512_NR, W = 16, MAX = 63, ZERO = 64, SPLIT = 1 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx512.h"

#define FOURS VO_INT8_FOURS
enum { TOGETHER = 1 };

/* Additions are not the intrinsics: gcc would gather terms, and run out of registers. */
VO_INLINE void vi_add_rows(const int rows, const uint8_t *a, const int8_t *b, vi sum[1][2]) {
    vi p[2];
    __asm__ volatile("" : "+r"(b)); /* may be another for each row, or gcc loads B once for all */
    VO_UNROLL for (int f = 0; f < FOURS; f++) {
        const vi x = vi_repeat(a + 4 * f);
        VO_UNROLL for (int j = 0; j < 2; j++) {
            const vi product = _mm512_maddubs_epi16(x, vi_load(b + (2 * f + j) * 4 * W));
            if (f == 0)
                p[j] = product;
            else
                __asm__("vpaddw %1, %0, %0" : "+v"(p[j]) : "v"(product));
        }
    }
    VO_UNROLL for (int j = 0; j < 2; j++) {
        const vi wide = _mm512_madd_epi16(p[j], _mm512_set1_epi16(1));
        __asm__("vpaddd %1, %0, %0" : "+v"(sum[0][j]) : "v"(wide));
    }
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avx512(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
