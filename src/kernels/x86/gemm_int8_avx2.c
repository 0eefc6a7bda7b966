/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AVX2: products u8 x s8 are added in pairs of 16 bits (vpmaddubsw), which
 * saturate, so A has 7 bits: 127 * 127 * 2 fits. Weights are scaled so that the pairs of several
 * steps fit together (kernels.h): these are added before they are widened, 9 instructions for four
 * steps instead of 12. 10 sums, 2 of pairs, 1 of A and products on their way; B and the ones are
 * read from memory, which the additions hide.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { MR = 5, NR = VO_AVX2_NR, W = 8, MAX = 63, ZERO = 64, SPLIT = 1 };

#include "kernels/simd/int8.inc.h"
#include "kernels/x86/vec_int_avx2.h"

#define FOURS VO_INT8_FOURS

static inline vi vi_pairs(vi a, vi b) {
    return _mm256_maddubs_epi16(a, b);
}
/* Not the intrinsics: compilers would gather terms, and run out of registers. */
static inline vi vi_add_pairs(vi p, vi a, const int8_t *b) {
    vi product;
    __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
            : "+x"(p), "=&x"(product)
            : "x"(a), "m"(*(const vi *)b));
    return p;
}
/* The ones stay in memory, which leaves clang a register for its products on their way. */
static inline vi vi_add_wide(vi sum, vi p) {
    static const int16_t ones[16]
        __attribute__((aligned(32))) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    __asm__("vpmaddwd %1, %0, %0" : "+x"(p) : "m"(*(const vi *)ones));
    __asm__("vpaddd %1, %0, %0" : "+x"(sum) : "x"(p));
    return sum;
}

#include "kernels/x86/gemm_int8.inc.h"

void vo_int8_init_avx2(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
