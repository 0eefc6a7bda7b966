/* SPDX-License-Identifier: MIT
 *
 * Products with packed weights: pack once, block to the caches, split over threads, call the
 * tile kernels.
 */
#ifndef VO_BACKENDS_CPU_MATMUL_H
#define VO_BACKENDS_CPU_MATMUL_H

#include "base/pool.h"
#include "kernels/kernels.h"

/* A weight matrix [n][k] in panels (kernels.h). f16 sources stay f16, all others become f32.
 * Immutable after creation; safe to share between threads. */
typedef struct vo_packed {
    vo_dtype dtype; /* VO_F32 or VO_F16 */
    int64_t n, k;
    int nr;
    void *data; /* ceil(n/nr) panels of k*nr elements */
    size_t bytes;
} vo_packed;

/* Packs the rows of view (shape [n][k], or [n][...] flattened) in parallel. */
vo_status vo_packed_create(vo_packed *packed, const vo_kernels *kernels, vo_pool *pool,
                           const vo_view *view, vo_error *err);
void vo_packed_destroy(vo_packed *packed); /* zeroed ones are allowed */
/* Row i of the original matrix (an embedding look-up): out[k]. */
void vo_packed_row(const vo_packed *packed, int64_t i, float *out);

typedef struct vo_gemm {
    int64_t m;
    const float *a; /* [m][k], row stride lda; rows may overlap (convolution) */
    int64_t lda;
    const vo_packed *b;
    const float *bias;     /* [n] or NULL */
    int gelu;              /* applied after the bias */
    const float *residual; /* [m][n] added last, or NULL; may be c itself */
    int64_t ldr;
    float *c; /* [m][n], row stride ldc */
    int64_t ldc;
} vo_gemm;

/* Bytes of workspace that vo_gemm_run needs for up to m rows (constant per plan). */
size_t vo_gemm_workspace(const vo_kernels *kernels, int threads, int64_t m, int64_t n, int64_t k);
/* Runs on all threads of the pool; allocates nothing. Bits depend on k-order only. */
void vo_gemm_run(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool, void *workspace);

#endif
