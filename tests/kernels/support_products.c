/* SPDX-License-Identifier: MIT
 *
 * The products of Whisper's encoder as the CPU backend runs them, one thread and two, beside the
 * multiply-add peak that the same core shows just before and after each run: a machine whose speed
 * drifts moves both.
 */
#include "kernels/support_bench.h"

#include "backends/cpu/matmul.h"
#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 15, ROWS = 1500 };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median share of the peak of `threads` cores. */
static double share_of_peak(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool,
                            void *workspace, double *gflops) {
    const double flops = 2.0 * (double)gemm->m * (double)gemm->b->n * (double)gemm->b->k;
    double shares[RUNS], rates[RUNS], before = bench_fma_peak(kernels->flags);
    for (int i = 0; i < RUNS; i++) {
        const double start = vo_clock_seconds();
        vo_gemm_run(gemm, kernels, pool, workspace);
        rates[i] = flops / (vo_clock_seconds() - start) * 1e-9;
        const double after = bench_fma_peak(kernels->flags);
        shares[i] = rates[i] / (0.5 * (before + after) * vo_pool_threads(pool));
        before = after;
    }
    qsort(shares, RUNS, sizeof *shares, ascending);
    qsort(rates, RUNS, sizeof *rates, ascending);
    *gflops = rates[RUNS / 2];
    return shares[RUNS / 2];
}

static bool bench_one(const check_level *level, vo_pool *pool, vo_dtype dtype, int64_t n,
                      int64_t k) {
    const vo_kernels *kernels = &level->kernels;
    vo_packed packed = {0};
    vo_view view = {.name = "w", .dtype = dtype, .rank = 2, .shape = {n, k}};
    view.bytes = (size_t)(n * k) * (dtype == VO_F16 ? 2 : 4);
    void *weights = vo_alloc(view.bytes);
    float *a = vo_alloc_array(ROWS, (size_t)k * sizeof *a);
    float *c = vo_alloc_array(ROWS, (size_t)n * sizeof *c);
    float *bias = vo_alloc_array((size_t)n, sizeof *bias);
    void *workspace = NULL;
    view.data = weights;
    bool ok = weights && a && c && bias &&
              vo_packed_create(&packed, kernels, pool, &view, dtype, NULL) == VO_OK;
    if (ok) workspace = vo_alloc(vo_gemm_workspace(kernels, vo_pool_threads(pool), ROWS, &packed));
    ok = ok && workspace;
    if (ok) {
        vo_gemm gemm = {.m = ROWS, .a = a, .lda = k, .b = &packed, .bias = bias, .c = c, .ldc = n};
        double gflops, share = share_of_peak(&gemm, kernels, pool, workspace, &gflops);
        printf("%-8s %-4s %5d x %4lld x %4lld %8d %10.1f %7.0f%%\n", level->name,
               dtype == VO_F16 ? "f16" : "f32", ROWS, (long long)n, (long long)k,
               vo_pool_threads(pool), gflops, 100 * share);
    }
    vo_packed_destroy(&packed);
    vo_free(weights);
    vo_free(a);
    vo_free(c);
    vo_free(bias);
    vo_free(workspace);
    return ok;
}

int bench_products(const check_level *levels, int n_levels) {
    static const int64_t shapes[][2] = {{512, 512},  {1536, 512}, {2048, 512},
                                        {512, 2048}, {1152, 384}, {384, 1536}};
    printf("\n%-8s %-4s %-19s %8s %10s %8s\n", "level", "", "rows x n x k", "threads", "GFLOP/s",
           "of peak");
    for (int i = 0; i < n_levels; i++) {
        if (bench_fma_peak(levels[i].kernels.flags) <= 0) continue;
        for (int threads = 1; threads <= 2; threads++) {
            vo_pool *pool = vo_pool_create(threads, NULL);
            if (!pool) return 2;
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                if (!bench_one(&levels[i], pool, VO_F32, shapes[s][0], shapes[s][1]) ||
                    !bench_one(&levels[i], pool, VO_F16, shapes[s][0], shapes[s][1]))
                    return 2;
            vo_pool_destroy(pool);
        }
    }
    return 0;
}
