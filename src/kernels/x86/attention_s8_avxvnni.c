/* SPDX-License-Identifier: MIT
 *
 * Attention in bytes for AVX-VNNI, which processors without AVX-512 have.
 */
#include <float.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/vec_int_avx2.h"
#include "kernels/x86/x86.h"

enum { Q_MAX = 127, Q_ZERO = 128, K_MAX = 127, P_MAX = 255, V_MAX = 127, TALL = 4, STEPS = 1 };

/* Not the intrinsic: around it gcc 12 keeps the sums in memory. */
static inline vi dot(vi sum, vi y, vi x) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(y), "x"(x));
    return sum;
}

static inline void dots(vi sum[2], const vi y[STEPS][2], const int8_t *a) {
    const vi x = vi_repeat(a);
    VO_UNROLL for (int j = 0; j < 2; j++) sum[j] = dot(sum[j], y[0][j], x);
}

static inline vi vi_sum_bytes(vi sum, vi p) {
    return dot(sum, p, _mm256_set1_epi8(1));
}

#define VO_FN(name) vo_avxvnni_##name
#include "kernels/x86/attention_s8.inc.h"
