/* SPDX-License-Identifier: MIT
 *
 * Products with packed weights: block to the caches, split over threads, call the tile kernels.
 */
#ifndef VO_BACKENDS_CPU_MATMUL_H
#define VO_BACKENDS_CPU_MATMUL_H

#include "backends/cpu/packed.h"

typedef struct vo_gemm {
    int64_t m;
    const float *a; /* [m][k], row stride lda; rows may overlap (convolution) */
    int64_t lda;
    const vo_packed *b;
    const float *bias;     /* [n] or NULL */
    int gelu;              /* applied after the bias: 0, VO_GELU or VO_GELU_NEAR */
    const float *residual; /* [m][n] added last, or NULL; may be c itself */
    int64_t ldr;
    float *c; /* [m][n], row stride ldc */
    int64_t ldc;
} vo_gemm;

/* Bytes of workspace that vo_gemm_run needs for up to m rows against b (constant per plan). */
size_t vo_gemm_workspace(const vo_kernels *kernels, int threads, int64_t m, const vo_packed *b);
/* Runs on all threads of the pool; allocates nothing. Bits depend on k-order only. A is used as
 * f32 with f32 and f16 weights; it is rounded to bf16 with bf16 and 4-bit ones,
 * and to int8 (one scale a row) with those. */
void vo_gemm_run(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool, void *workspace);

#endif
