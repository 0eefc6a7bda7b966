/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AMX: tdpbusd takes 64 steps of k at once.
 */
#include "kernels/ask.h"
#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { MR = VO_AMX_MR, NR = VO_AVX512_NR, MAX = 127, ZERO = 128 };

#include "kernels/simd/int8.inc.h"

#define VO_PRODUCT _tile_dpbusd
#include "kernels/x86/gemm_amx.inc.h"

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate,
                 const void *next, int64_t next_bytes) {
    tiles_of(k / VO_INT8_K, a, b, c, m, accumulate, next, next_bytes);
}

void vo_int8_init_amx(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
