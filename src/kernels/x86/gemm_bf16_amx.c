/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for AMX: tdpbf16ps takes 32 steps of k at once.
 */
#include "kernels/x86/vec_avx512bf16.h"
#include "kernels/x86/x86.h"

#include "kernels/ask.h"
#include "kernels/simd/bf16.inc.h"
#include "kernels/unroll.h"

#define VO_PRODUCT _tile_dpbf16ps
#include "kernels/x86/gemm_amx.inc.h"

void vo_amx_gemm_bf16(int64_t k, const uint16_t *a, const uint16_t *b, float *c, int m,
                      int accumulate, const void *next, int64_t next_bytes) {
    tiles_of(k / VO_BF16_K, a, b, c, m, accumulate, next, next_bytes);
}

void vo_amx_bf16_pack_a(int64_t k, int m, const float *a, int64_t lda, uint16_t *packed) {
    bf16_pack(VO_AMX_MR, k, m, a, lda, packed);
}
