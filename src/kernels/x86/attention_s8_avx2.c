/* SPDX-License-Identifier: MIT
 *
 * Attention in bytes for AVX2. vpmaddubsw adds two products in 16 bits, and two of its results are
 * added there before they are widened: 4 times 127 times 64 fits.
 */
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file needs the compiler flags of AVX2 (CMakeLists.txt gives them by file name)"
#endif

#include <float.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/vec_int_avx2.h"
#include "kernels/x86/x86.h"

enum { Q_MAX = 63, Q_ZERO = 64, K_MAX = 64, P_MAX = 127, V_MAX = 64, TALL = 4, STEPS = 2 };

static const int16_t ones[16]
    __attribute__((aligned(32))) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* In this order: compilers would gather terms, and run out of registers. */
static inline void dots(vi sum[2], const vi y[STEPS][2], const int8_t *a) {
    const vi x[2] = {vi_repeat(a), vi_repeat(a + 4)};
    VO_UNROLL for (int j = 0; j < 2; j++) {
        vi p, more;
        __asm__("vpmaddubsw %4, %2, %0\n\tvpmaddubsw %5, %3, %1\n\tvpaddw %1, %0, %0"
                : "=&x"(p), "=&x"(more)
                : "x"(y[0][j]), "x"(y[1][j]), "x"(x[0]), "x"(x[1]));
        __asm__("vpmaddwd %1, %0, %0" : "+x"(p) : "m"(*(const vi *)ones));
        __asm__("vpaddd %1, %0, %0" : "+x"(sum[j]) : "x"(p));
    }
}

static inline vi vi_sum_bytes(vi sum, vi p) {
    const vi pairs = _mm256_maddubs_epi16(p, _mm256_set1_epi8(1));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

#define VO_FN(name) vo_avx2_##name
#include "kernels/x86/attention_s8.inc.h"
