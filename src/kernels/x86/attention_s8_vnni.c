/* SPDX-License-Identifier: MIT
 *
 * Attention in bytes for AVX-512 VNNI: vpdpbusd adds four products to a 32-bit sum, and repeats
 * four bytes in memory for all lanes by itself.
 */
#if !defined(__AVX512VNNI__)
#error "this file must be built with the flags of AVX512_VNNI"
#endif

#include <float.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/vec_int_avx512.h"
#include "kernels/x86/x86.h"

enum { Q_MAX = 127, Q_ZERO = 128, K_MAX = 127, P_MAX = 255, V_MAX = 127, TALL = 16, STEPS = 1 };

/* Not the intrinsic: around it gcc 12 keeps the sums in memory. */
static inline void dots(vi *sum, const vi y[STEPS][1], const int8_t *a) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0"
            : "+v"(*sum)
            : "v"(y[0][0]), "m"(*(const int32_t *)(const void *)a));
}

static inline vi vi_sum_bytes(vi sum, vi p) {
    return _mm512_dpbusd_epi32(sum, p, _mm512_set1_epi8(1));
}

#define VO_FN(name) vo_vnni_##name
#include "kernels/x86/attention_s8.inc.h"
