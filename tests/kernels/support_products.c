/* SPDX-License-Identifier: MIT
 *
 * The products of Whisper's encoder as the CPU backend runs them, one thread and two, beside the
 * peak of the multiplying instruction that the same core shows just before and after each run: a
 * machine whose speed drifts moves both.
 */
#include "kernels/support_bench.h"

#include "backends/cpu/matmul.h"
#include "base/clock.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 9, ROWS = 1500 };

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bench_unit unit_of(vo_dtype dtype) {
    return dtype == VO_BF16 ? BENCH_BF16 : dtype == VO_I8 ? BENCH_INT8 : BENCH_F32;
}

/* Median share of the peak of `threads` cores. */
static double share_of_peak(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool,
                            void *workspace, double *gflops) {
    const bench_unit unit = unit_of(gemm->b->dtype);
    const double flops = 2.0 * (double)gemm->m * (double)gemm->b->n * (double)gemm->b->k;
    double shares[RUNS], rates[RUNS], before = bench_peak(kernels->flags, unit);
    for (int i = 0; i < RUNS; i++) {
        const double start = vo_clock_seconds();
        vo_gemm_run(gemm, kernels, pool, workspace);
        rates[i] = flops / (vo_clock_seconds() - start) * 1e-9;
        const double after = bench_peak(kernels->flags, unit);
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
    const char *name = dtype == VO_F32   ? "f32"
                       : dtype == VO_F16 ? "f16"
                       : dtype == VO_I8  ? "int8"
                                         : "bf16";
    const vo_kernels *kernels = &level->kernels;
    vo_packed packed = {0};
    vo_view view = {.name = "w", .dtype = VO_F32, .rank = 2, .shape = {n, k}};
    if (dtype == VO_F16) view.dtype = VO_F16;
    view.bytes = (size_t)(n * k) * (dtype == VO_F16 ? 2 : 4);
    void *weights = vo_alloc(view.bytes);
    float *a = vo_alloc_array(ROWS, (size_t)k * sizeof *a);
    float *c = vo_alloc_array(ROWS, (size_t)n * sizeof *c);
    float *bias = vo_alloc_array((size_t)n, sizeof *bias);
    void *workspace = NULL;
    view.data = weights;
    bool ok = weights && a && c && bias &&
              vo_packed_create(&packed, kernels, pool, &view, dtype, NULL, NULL) == VO_OK;
    if (ok) workspace = vo_alloc(vo_gemm_workspace(kernels, vo_pool_threads(pool), ROWS, &packed));
    ok = ok && workspace;
    if (ok) {
        vo_gemm gemm = {.m = ROWS, .a = a, .lda = k, .b = &packed, .bias = bias, .c = c, .ldc = n};
        double gflops, share = share_of_peak(&gemm, kernels, pool, workspace, &gflops);
        printf("%-8s %-4s %5d x %4lld x %4lld %8d %10.1f %7.0f%%\n", level->name, name, ROWS,
               (long long)n, (long long)k, vo_pool_threads(pool), gflops, 100 * share);
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
    static const vo_dtype types[] = {VO_F32, VO_F16, VO_BF16, VO_I8};
    printf("\n%-8s %-4s %-19s %8s %10s %8s\n", "level", "", "rows x n x k", "threads", "GFLOP/s",
           "of peak");
    for (int i = 0; i < n_levels; i++) {
        if (bench_peak(levels[i].kernels.flags, BENCH_F32) <= 0) continue;
        for (int threads = 1; threads <= 2; threads++) {
            vo_pool *pool = vo_pool_create(threads, NULL);
            if (!pool) return 2;
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
                for (size_t t = 0; t < sizeof types / sizeof *types; t++)
                    if (!bench_one(&levels[i], pool, types[t], shapes[s][0], shapes[s][1]))
                        return 2;
            vo_pool_destroy(pool);
        }
    }
    return 0;
}
