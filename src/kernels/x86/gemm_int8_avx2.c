/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX2: products u8 x s8 are added in pairs of 16 bits (vpmaddubsw), which
 * saturate, so A has 7 bits: 127 * 127 * 2 fits. Weights are scaled so that the pairs of several
 * steps fit together (kernels.h): these are added before they are widened, 9 instructions for four
 * steps instead of 12. Two rows share what is loaded of B, else loads are the limit: 8 sums, 4 of
 * pairs, 2 of B, 1 of A and a product on its way. The ones are read from memory.
 */
#include <immintrin.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { MR = 4, NR = VO_AVX2_NR, W = 8, MAX = 63, ZERO = 64, SPLIT = 1 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx2.h"

#define FOURS VO_INT8_FOURS
enum { TOGETHER = 2 };

/* Not the intrinsics: compilers would gather terms or load ahead, and run out of registers. */
#define LOAD_B "vmovups %[b0], %[y0]\n\tvmovups %[b1], %[y1]\n\t"
#define SET(row)                                                                                   \
    "vpbroadcastd %[a" #row "], %[x]\n\t"                                                          \
    "vpmaddubsw %[y0], %[x], %[p" #row "0]\n\t"                                                    \
    "vpmaddubsw %[y1], %[x], %[p" #row "1]\n\t"
#define ADD(row)                                                                                   \
    "vpbroadcastd %[a" #row "], %[x]\n\t"                                                          \
    "vpmaddubsw %[y0], %[x], %[product]\n\t"                                                       \
    "vpaddw %[product], %[p" #row "0], %[p" #row "0]\n\t"                                          \
    "vpmaddubsw %[y1], %[x], %[product]\n\t"                                                       \
    "vpaddw %[product], %[p" #row "1], %[p" #row "1]\n\t"
#define SCRATCH   [y0] "=&x"(y0), [y1] "=&x"(y1), [x] "=&x"(x), [product] "=&x"(product)
#define ROW(row)  [p##row##0] MODE(p##row##0), [p##row##1] MODE(p##row##1)
#define OF_B      [b0] "m"(*(const vi *)b), [b1] "m"(*(const vi *)(b + 32))
#define OF_A(row) [a##row] "m"(*(const int32_t *)(const void *)(a + (row)*VO_INT8_K))

static inline vi vi_add_wide(vi sum, vi p) {
    static const int16_t ones[16]
        __attribute__((aligned(32))) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    __asm__("vpmaddwd %2, %1, %1\n\tvpaddd %1, %0, %0"
            : "+x"(sum), "+x"(p)
            : "m"(*(const vi *)ones));
    return sum;
}

VO_INLINE void vi_add_rows(const int rows, const uint8_t *a, const int8_t *b, vi sum[2][2]) {
    vi p00, p01, p10, p11, y0, y1, x, product;
#define MODE "=&x"
    if (rows == 1)
        __asm__(LOAD_B SET(0) : ROW(0), SCRATCH : OF_B, OF_A(0));
    else
        __asm__(LOAD_B SET(0) SET(1) : ROW(0), ROW(1), SCRATCH : OF_B, OF_A(0), OF_A(1));
#undef MODE
#define MODE "+x"
    VO_UNROLL for (int f = 1; f < FOURS; f++) {
        a += 4;
        b += 4 * NR;
        if (rows == 1)
            __asm__(LOAD_B ADD(0) : ROW(0), SCRATCH : OF_B, OF_A(0));
        else
            __asm__(LOAD_B ADD(0) ADD(1) : ROW(0), ROW(1), SCRATCH : OF_B, OF_A(0), OF_A(1));
    }
#undef MODE
    sum[0][0] = vi_add_wide(sum[0][0], p00);
    sum[0][1] = vi_add_wide(sum[0][1], p01);
    if (rows == 1) return;
    sum[1][0] = vi_add_wide(sum[1][0], p10);
    sum[1][1] = vi_add_wide(sum[1][1], p11);
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avx2(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
