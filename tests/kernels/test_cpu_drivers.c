/* SPDX-License-Identifier: MIT
 *
 * The drivers of backends/cpu (matmul.h, attention.h) at every level of this machine: against
 * plain loops in double, and bit for bit equal for any number of threads and for a row alone
 * or among others. Workspaces have exactly the stated size and end at an unmapped page.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/attention.h"
#include "backends/cpu/matmul.h"
#include "base/dequantize.h"
#include "base/memory.h"
#include "kernels/support_drivers.h"

#define EPS 0x1p-24

/* ---- products --------------------------------------------------------------------------- */

typedef struct gemm_case {
    int64_t m, n, k, lda;
    vo_dtype type; /* of the panels */
    bool bias, gelu;
    int residual; /* 0: none, 1: another array, 2: C itself */
} gemm_case;

typedef struct gemm_data {
    float *a, *w, *bias, *residual;
    int64_t ldc, c_floats;
    vo_packed packed;
} gemm_data;

static void round_bf16(float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = vo_bf16_to_f32(vo_f32_to_bf16(x[i]));
}

/* What a product in bf16 sees of a and of what was packed. */
static void gemm_data_round(gemm_data *d, const gemm_case *g) {
    if (g->type != VO_BF16 && g->type != VO_AFFINE) return;
    round_bf16(d->a, (g->m - 1) * g->lda + g->k);
    for (int64_t i = 0; i < g->n; i++) vo_packed_row(&d->packed, i, d->w + i * g->k);
    round_bf16(d->w, g->n * g->k);
}

/* a, w (values as the product sees them), bias, residual with row stride ldc */
static bool gemm_data_create(gemm_data *d, const gemm_case *g, const vo_kernels *k, vo_pool *pool) {
    vo_error err = {0};
    const int64_t count = g->n * g->k;
    const bool half = g->type == VO_F16;
    uint16_t *halves = check_halves(2, half ? count : 0);
    d->ldc = g->n + 3;
    d->c_floats = (g->m - 1) * d->ldc + g->n;
    d->a = check_floats(0, (g->m - 1) * g->lda + g->k);
    d->w = check_floats(1, count);
    d->bias = check_floats(3, g->n);
    d->residual = check_floats(4, d->c_floats);
    check_fill(d->a, (g->m - 1) * g->lda + g->k, -1, 1);
    check_fill(d->w, count, -1, 1);
    check_fill(d->bias, g->n, -1, 1);
    check_fill(d->residual, d->c_floats, -1, 1);
    for (int64_t i = 0; half && i < count; i++) {
        halves[i] = vo_f32_to_f16(d->w[i]);
        d->w[i] = vo_f16_to_f32(halves[i]);
    }
    vo_view view = {.name = "w", .dtype = half ? VO_F16 : VO_F32, .rank = 2};
    view.shape[0] = g->n;
    view.shape[1] = g->k;
    view.data = half ? (const void *)halves : (const void *)d->w;
    view.bytes = (size_t)count * (half ? 2 : 4);
    if (vo_packed_create(&d->packed, k, pool, &view, g->type, NULL, &err) == VO_OK) {
        gemm_data_round(d, g);
        return true;
    }
    check_fail("cannot pack: %s", err.message);
    return false;
}

/* rows row0..row0+m of the product into c, of which row 0 is the case's row 0 */
static void gemm_run(const gemm_case *g, const gemm_data *d, const vo_kernels *k, vo_pool *pool,
                     int64_t row0, int64_t m, float *c) {
    const vo_gemm job = {.m = m,
                         .a = d->a + row0 * g->lda,
                         .lda = g->lda,
                         .b = &d->packed,
                         .bias = g->bias ? d->bias : NULL,
                         .gelu = g->gelu,
                         .residual = g->residual == 0   ? NULL
                                     : g->residual == 1 ? d->residual + row0 * d->ldc
                                                        : c + row0 * d->ldc,
                         .ldr = d->ldc,
                         .c = c + row0 * d->ldc,
                         .ldc = d->ldc};
    void *workspace = drivers_workspace(vo_gemm_workspace(k, vo_pool_threads(pool), m, &d->packed));
    vo_gemm_run(&job, k, pool, workspace);
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
}

/* A fresh C: what lies in it is the residual when that is C itself. */
static float *gemm_output(const gemm_case *g, const gemm_data *d, int slot) {
    float *c = check_floats(slot, d->c_floats);
    for (int64_t i = 0; g->residual == 2 && i < g->m; i++)
        memcpy(c + i * d->ldc, d->residual + i * d->ldc, (size_t)g->n * sizeof *c);
    return c;
}

static void gemm_compare(const gemm_case *g, const gemm_data *d, const float *c) {
    for (int64_t i = 0; i < g->m; i++) {
        for (int64_t j = 0; j < g->n; j++) {
            double sum = 0, size = 0;
            for (int64_t kk = 0; kk < g->k; kk++) {
                const double p = (double)d->a[i * g->lda + kk] * (double)d->w[j * g->k + kk];
                sum += p;
                size += fabs(p);
            }
            if (g->bias) sum += (double)d->bias[j];
            if (g->gelu) sum = 0.5 * sum * erfc(-sum * 0.70710678118654752440);
            if (g->residual) sum += (double)d->residual[i * d->ldc + j];
            const double tolerance = 1.2 * EPS * (double)(g->k + 2) * size + 8 * EPS * fabs(sum) +
                                     (g->gelu ? 1e-6 * fmax(1, size) : 4 * EPS);
            if (!check_near((double)c[i * d->ldc + j], sum, tolerance))
                check_fail("m=%d n=%d k=%d [%d,%d] = %.9g, not %.9g", (int)g->m, (int)g->n,
                           (int)g->k, (int)i, (int)j, (double)c[i * d->ldc + j], sum);
        }
    }
    if (!check_gaps_intact(c, g->m, g->n, d->ldc)) check_fail("wrote between rows");
}

/* All rows of few, the last and some others of many. */
static void check_rows_alone(const gemm_case *g, const gemm_data *d, const vo_kernels *k,
                             const float *together) {
    enum { MOST = 16 };
    float *c = gemm_output(g, d, 6);
    for (int64_t i = 0; i < g->m && i < MOST; i++) {
        const int64_t row = g->m <= MOST ? i : i == 0 ? g->m - 1 : check_below((int)g->m - 1);
        if (g->residual == 2) /* C was the residual, and may have been written already */
            memcpy(c + row * d->ldc, d->residual + row * d->ldc, (size_t)g->n * sizeof *c);
        gemm_run(g, d, k, drivers_pools[row % 2], row, 1, c);
        if (memcmp(c + row * d->ldc, together + row * d->ldc, (size_t)g->n * sizeof *c))
            check_fail("m=%d n=%d k=%d: row %d depends on its neighbours", (int)g->m, (int)g->n,
                       (int)g->k, (int)row);
    }
}

static void gemm_check(const vo_kernels *k, const gemm_case *g) {
    gemm_data d;
    if (!gemm_data_create(&d, g, k, drivers_pools[check_below(DRIVERS_POOLS)])) return;
    float *first = gemm_output(g, &d, 5);
    gemm_run(g, &d, k, drivers_pools[0], 0, g->m, first);
    gemm_compare(g, &d, first);
    for (int i = 1; i < DRIVERS_POOLS; i++) {
        float *c = gemm_output(g, &d, 6);
        gemm_run(g, &d, k, drivers_pools[i], 0, g->m, c);
        if (memcmp(c, first, (size_t)d.c_floats * sizeof *c))
            check_fail("m=%d n=%d k=%d differs with %d threads", (int)g->m, (int)g->n, (int)g->k,
                       vo_pool_threads(drivers_pools[i]));
    }
    check_rows_alone(g, &d, k, first);
    vo_packed_destroy(&d.packed);
}

static void gemm_shapes(const vo_kernels *k) {
    static const vo_dtype types[] = {VO_F32, VO_F16, VO_AFFINE, VO_BF16};
    static const int64_t m[] = {1, 2, 8, 9, 15, 31, 70, 370}, n[] = {1, 17, 64, 100, 193};
    static const int64_t depth[] = {1, 7, 64, 257};
    for (int i = 0; i < 8; i++) {
        for (int j = 0; j < 5; j++) {
            const int64_t kk = depth[check_below(4)];
            const gemm_case g = {.m = m[i],
                                 .n = n[j],
                                 .k = kk,
                                 .lda = kk + check_below(4),
                                 .type = types[(i + j) % 4],
                                 .bias = check_below(2) != 0,
                                 .gelu = check_below(2) != 0,
                                 .residual = check_below(3)};
            gemm_check(k, &g);
        }
    }
    /* more than one block of k; rows that overlap, as in a convolution */
    const gemm_case deep = {.m = 40, .n = 70, .k = 3000, .lda = 3000, .type = VO_F16, .bias = true};
    const gemm_case codes = {.m = 70, .n = 70, .k = 1500, .lda = 1501, .type = VO_AFFINE};
    const gemm_case overlapping = {.m = 50, .n = 70, .k = 240, .lda = 160, .gelu = true};
    gemm_check(k, &deep);
    gemm_check(k, &codes);
    gemm_check(k, &overlapping);
}

static void test_gemm(void **state) {
    (void)state;
    drivers_at_all_levels("vo_gemm_run", gemm_shapes);
}

static void packed_rows(const vo_kernels *k) {
    for (int half = 0; half < 2; half++) {
        const gemm_case g = {.m = 1, .n = 77, .k = 45, .lda = 45, .type = half ? VO_F16 : VO_F32};
        gemm_data d;
        if (!gemm_data_create(&d, &g, k, drivers_pools[1])) return;
        float *row = check_floats(5, g.k);
        for (int64_t i = 0; i < g.n; i++) {
            vo_packed_row(&d.packed, i, row);
            if (memcmp(row, d.w + i * g.k, (size_t)g.k * sizeof *row))
                check_fail("row %d of a packed matrix differs", (int)i);
        }
        vo_packed_destroy(&d.packed);
    }
}

static void test_packed_row(void **state) {
    (void)state;
    drivers_at_all_levels("vo_packed_row", packed_rows);
}

/* A bf16 of that is a number of f16, too: smaller ones would lose bits. */
static float uniform_of_f16(float most) {
    float x;
    do x = check_uniform(-most, most);
    while (fabsf(x) < 0x1p-14f);
    return x;
}

/* A view as MLX has it: codes, scales and biases in the first three slots. */
static vo_view affine_view(int64_t n, int64_t k, int group, vo_dtype scale_dtype) {
    const int64_t groups = k / group, codes = n * k / 8;
    uint32_t *q = (uint32_t *)(void *)check_floats(0, codes);
    uint16_t *scales = check_halves(1, n * groups), *biases = check_halves(2, n * groups);
    for (int64_t i = 0; i < codes; i++) q[i] = (uint32_t)check_random();
    for (int64_t i = 0; i < n * groups; i++) {
        const float scale = uniform_of_f16(0.1f), bias = uniform_of_f16(1);
        scales[i] = scale_dtype == VO_F16 ? vo_f32_to_f16(scale) : vo_f32_to_bf16(scale);
        biases[i] = scale_dtype == VO_F16 ? vo_f32_to_f16(bias) : vo_f32_to_bf16(bias);
    }
    return (vo_view){.name = "codes",
                     .dtype = VO_AFFINE,
                     .rank = 2,
                     .shape = {n, k},
                     .data = q,
                     .bytes = (size_t)codes * 4,
                     .scales = scales,
                     .biases = biases,
                     .scale_dtype = scale_dtype,
                     .group_size = group,
                     .bits = 4};
}

/* Codes of a file stay what they are, and their panels become bf16 as their values would. */
static void packed_codes(const vo_kernels *k) {
    static const int groups[] = {32, 64, 128};
    enum { N = 41, K = 384 };
    vo_error err = {0};
    for (int i = 0; i < 6; i++) {
        const vo_view view = affine_view(N, K, groups[i / 2], i & 1 ? VO_F16 : VO_BF16);
        float *want = check_floats(3, (int64_t)N * K), *row = check_floats(4, K);
        uint16_t *panel = check_halves(5, (int64_t)K * k->nr);
        vo_packed packed;
        if (!vo_packed_keeps(&view) ||
            vo_packed_create(&packed, k, drivers_pools[1], &view, VO_AFFINE, NULL, &err) != VO_OK ||
            vo_dequantize_rows(&view, 0, N, want, &err) != VO_OK) {
            check_fail("cannot pack: %s", err.message);
            continue;
        }
        for (int64_t j = 0; j < N; j++) {
            const int64_t p = j / k->nr, at = j % k->nr;
            vo_packed_row(&packed, j, row);
            if (memcmp(row, want + j * K, K * sizeof *row))
                check_fail("row %d of a packed matrix differs", (int)j);
            if (at == 0)
                k->int4_to_bf16(K, packed.group, vo_packed_panel(&packed, p, 0),
                                vo_packed_affine(&packed, p, 0), panel);
            for (int64_t kk = 0; kk < K; kk++)
                if (panel[(kk / 2 * k->nr + at) * 2 + kk % 2] != vo_f32_to_bf16(row[kk]))
                    check_fail("[%d,%d] of a panel differs", (int)j, (int)kk);
        }
        vo_packed_destroy(&packed);
    }
}

static void test_codes_are_kept(void **state) {
    (void)state;
    drivers_at_all_levels("vo_packed_create with codes", packed_codes);
}

/* n steps of a row that became codes: the step is that of their range, ends are cut by one step at
 * most, and each code is the nearest, but for the rounding of f16. */
static void check_group(const float *w, const float *got, int64_t n, float scale, float bias) {
    float low = w[0], high = w[0], end = bias + 15 * scale;
    for (int64_t i = 0; i < n; i++) {
        low = fminf(low, w[i]);
        high = fmaxf(high, w[i]);
    }
    const float step = fabsf(scale), tiny = 2e-7f, round = 0x1p-11f * (fabsf(low) + fabsf(high));
    if (step > (high - low) / 15 * 1.07f + tiny)
        check_fail("a step of %g for %g to %g", (double)step, (double)low, (double)high);
    for (int64_t i = 0; i < n; i++) {
        const float inside = fminf(fmaxf(w[i], fminf(bias, end)), fmaxf(bias, end));
        if (!(fabsf(w[i] - inside) <= 1.02f * step + tiny + round) ||
            !(fabsf(got[i] - inside) <= 0.5f * step + tiny + round))
            check_fail("%g became %g, %g + %g q", (double)w[i], (double)got[i], (double)bias,
                       (double)scale);
    }
}

static void quantised_rows(const vo_kernels *k) {
    static const int64_t depth[] = {1, 31, 64, 65, 200};
    enum { N = 35 };
    vo_error err = {0};
    for (int i = 0; i < 5; i++) {
        const int64_t d = depth[i];
        float *w = check_floats(0, N * d), *row = check_floats(1, d);
        check_fill(w, N * d, -1, 1);
        for (int64_t j = 0; j < d; j++) {
            w[2 * d + j] = 0;
            w[3 * d + j] = 0.5f;
            w[4 * d + j] = fabsf(w[j]) + 1; /* far from zero */
        }
        const vo_view view = {.name = "w",
                              .rank = 2,
                              .shape = {N, d},
                              .data = w,
                              .bytes = (size_t)(N * d) * sizeof *w};
        vo_packed packed;
        if (vo_packed_create(&packed, k, drivers_pools[2], &view, VO_AFFINE, NULL, &err) != VO_OK) {
            check_fail("cannot pack: %s", err.message);
            continue;
        }
        for (int64_t j = 0; j < N; j++) {
            vo_packed_row(&packed, j, row);
            for (int64_t k0 = 0; k0 < d; k0 += packed.group) {
                const uint16_t *affine = vo_packed_affine(&packed, j / k->nr, k0) + j % k->nr;
                check_group(w + j * d + k0, row + k0, d - k0 < packed.group ? d - k0 : packed.group,
                            vo_f16_to_f32(affine[0]), vo_f16_to_f32(affine[k->nr]));
            }
        }
        vo_packed_destroy(&packed);
    }
}

static void test_quantised_rows(void **state) {
    (void)state;
    drivers_at_all_levels("vo_packed_create in four bits", quantised_rows);
}

/* The most that a sign makes of a half of a run, in whole numbers where `scale` is given. */
static float largest_sum(const float *row, int64_t n, float scale) {
    float largest = 0;
    for (int64_t k0 = 0; k0 < n; k0 += 4 * VO_INT8_FOURS) {
        float sums[2][2] = {{0}};
        for (int64_t kk = k0; kk < n && kk < k0 + 4 * VO_INT8_FOURS; kk++)
            sums[kk / 2 % 2][row[kk] < 0] += fabsf(row[kk]) / scale;
        for (int i = 0; i < 4; i++) largest = fmaxf(largest, sums[i / 2][i % 2]);
    }
    return largest;
}

/* Rows as int8 obey the rule of kernels.h where it applies, with a scale no larger than it takes.
 */
static void bytes_of_rows(const vo_kernels *k) {
    enum { N = 37, K = 200 };
    vo_error err = {0};
    float *w = check_floats(0, (int64_t)N * K), *row = check_floats(1, K);
    check_fill(w, (int64_t)N * K, -1, 1);
    for (int64_t j = 0; j < K; j++) {
        w[2 * K + j] = 0;
        w[3 * K + j] = 0.5f;
        w[4 * K + j] = j & 1 ? -3.0f : 3.0f;
        w[5 * K + j] = j < 190 ? 0.01f * w[j] : 1;
        w[6 * K + j] = j == 77 ? 1 : 0.1f * w[j];
    }
    const vo_view view = {
        .name = "w", .rank = 2, .shape = {N, K}, .data = w, .bytes = (size_t)N * K * sizeof *w};
    vo_packed packed;
    if (vo_packed_create(&packed, k, drivers_pools[1], &view, VO_I8, NULL, &err) != VO_OK) {
        check_fail("cannot pack: %s", err.message);
        return;
    }
    for (int64_t j = 0; j < N; j++, w += K) {
        float largest = 0, scale = packed.scales[j];
        vo_packed_row(&packed, j, row);
        for (int64_t kk = 0; kk < K; kk++) {
            largest = fmaxf(largest, fabsf(w[kk]));
            if (!check_near((double)row[kk], (double)w[kk], 0.5001 * (double)scale))
                check_fail("[%d,%d] is %g, not %g", (int)j, (int)kk, (double)row[kk],
                           (double)w[kk]);
        }
        if (largest == 0) continue;
        float least = largest / 127;
        if (k->int8_max < 127) {
            least = fmaxf(least, largest_sum(w, K, 1) / (float)VO_INT8_ROOM);
            if (!(largest_sum(row, K, scale) <= (float)VO_INT8_ROOM + 0.01f))
                check_fail("row %d: sums reach %g", (int)j, (double)largest_sum(row, K, scale));
        }
        if (!(scale <= (k->int8_max < 127 ? 1.03f : 1.0001f) * least))
            check_fail("row %d: a scale of %g instead of %g", (int)j, (double)scale, (double)least);
    }
    vo_packed_destroy(&packed);
}

static void test_bytes_of_rows(void **state) {
    (void)state;
    drivers_at_all_levels("vo_packed_create in int8", bytes_of_rows);
}

/* The error of an int8 product of inputs with these sizes of columns, relative to what it is. */
static double int8_error(const vo_kernels *k, const gemm_case *g, const float *a, const float *w,
                         const float *sizes) {
    const vo_view view = {.name = "w",
                          .rank = 2,
                          .shape = {g->n, g->k},
                          .data = w,
                          .bytes = (size_t)(g->n * g->k) * sizeof *w};
    vo_error err = {0};
    gemm_data d = {.a = (float *)a, .ldc = g->n};
    double error = 0, size = 0;
    if (vo_packed_create(&d.packed, k, drivers_pools[1], &view, VO_I8, sizes, &err) != VO_OK) {
        check_fail("cannot pack: %s", err.message);
        return 0;
    }
    float *c = check_floats(4, g->m * g->n);
    gemm_run(g, &d, k, drivers_pools[2], 0, g->m, c);
    for (int64_t i = 0; i < g->m * g->n; i++) {
        double want = 0;
        for (int64_t kk = 0; kk < g->k; kk++)
            want += (double)a[i / g->n * g->lda + kk] * (double)w[i % g->n * g->k + kk];
        error += ((double)c[i] - want) * ((double)c[i] - want);
        size += want * want;
    }
    vo_packed_destroy(&d.packed);
    return sqrt(error / size);
}

/* Columns of sizes that differ a thousandfold cost int8 its precision, unless it knows them. Rows
 * longer than a group have several scales. */
static void sized_columns(const vo_kernels *k) {
    const gemm_case g = {
        .m = 45, .n = 50, .k = 2 * VO_INT8_GROUP + 70, .lda = 2 * VO_INT8_GROUP + 71};
    float *a = check_floats(0, g.m * g.lda), *w = check_floats(1, g.n * g.k);
    float *sizes = check_floats(2, g.k);
    check_fill(a, g.m * g.lda, -1, 1);
    check_fill(w, g.n * g.k, -1, 1);
    check_fill(sizes, g.k, -3.5f, 3.5f);
    const double even = int8_error(k, &g, a, w, NULL), bound = k->int8_max < 127 ? 0.02 : 0.01;
    if (!(even < bound)) check_fail("columns of one size: error %g", even);
    for (int64_t kk = 0; kk < g.k; kk++) {
        sizes[kk] = expf(sizes[kk]);
        for (int64_t i = 0; i < g.m; i++) a[i * g.lda + kk] *= sizes[kk];
        for (int64_t j = 0; j < g.n; j++) w[j * g.k + kk] /= sqrtf(sizes[kk]);
    }
    const double unknown = int8_error(k, &g, a, w, NULL), known = int8_error(k, &g, a, w, sizes);
    if (!(known < 0.7 * unknown)) check_fail("error %g with sizes, %g without", known, unknown);
}

static void test_sized_columns(void **state) {
    (void)state;
    drivers_at_all_levels("vo_gemm_run in int8", sized_columns);
}

/* A row that holds no number may not stain the others. */
static void stain(const vo_kernels *k) {
    const gemm_case g = {.m = 20, .n = 40, .k = 33, .lda = 33};
    gemm_data d;
    if (!gemm_data_create(&d, &g, k, drivers_pools[0])) return;
    for (int64_t i = 0; i < g.k; i++) d.a[7 * g.lda + i] = i & 1 ? INFINITY : NAN;
    float *c = gemm_output(&g, &d, 5);
    gemm_run(&g, &d, k, drivers_pools[1], 0, g.m, c);
    for (int64_t i = 0; i < g.m; i++)
        for (int64_t j = 0; j < g.n; j++)
            if ((i == 7) != (bool)isnan(c[i * d.ldc + j])) check_fail("row %d", (int)i);
    vo_packed_destroy(&d.packed);
}

static void test_nan_stays_in_its_row(void **state) {
    (void)state;
    drivers_at_all_levels("vo_gemm_run with NaN", stain);
}

/* ---- attention -------------------------------------------------------------------------- */

/* One query against len keys in double: key t at k[row(t) * ldk]. want: [hd]; returns the error
 * allowed. */
static double attend_one(int64_t len, int64_t hd, double scale, const float *q, const float *k,
                         int64_t ldk, const float *v, int64_t ldv, const int32_t *table,
                         double *want) {
    static double p[2048];
    double max = -INFINITY, total = 0, products = 0, largest = 0;
    for (int64_t t = 0; t < len; t++) {
        const float *key = k + (table ? table[t] : t) * ldk;
        double sum = 0, size = 0;
        for (int64_t d = 0; d < hd; d++) {
            sum += (double)q[d] * (double)key[d];
            size += fabs((double)q[d] * (double)key[d]);
        }
        p[t] = scale * sum;
        if (p[t] > max) max = p[t];
        if (size > products) products = size;
    }
    for (int64_t t = 0; t < len; t++) total += p[t] = exp(p[t] - max);
    for (int64_t d = 0; d < hd; d++) want[d] = 0;
    for (int64_t t = 0; t < len; t++) {
        const float *value = v + (table ? table[t] : t) * ldv;
        for (int64_t d = 0; d < hd; d++) {
            want[d] += p[t] / total * (double)value[d];
            if (fabs((double)value[d]) > largest) largest = fabs((double)value[d]);
        }
    }
    return largest * (2 * scale * products * (double)(hd + 2) + (double)len + 8) * EPS;
}

static void compare_row(int64_t hd, const float *out, const double *want, double tolerance,
                        const char *what) {
    for (int64_t d = 0; d < hd; d++)
        if (!check_near((double)out[d], want[d], tolerance))
            check_fail("%s [%d] = %.9g, not %.9g", what, (int)d, (double)out[d], want[d]);
}

static void full_case(const vo_kernels *k, int64_t batch, int64_t t, int64_t heads, int64_t hd) {
    const int64_t width = heads * hd, ld = 3 * width + 5, ldo = width + 2, rows = batch * t;
    float *qkv = check_floats(0, rows * ld), *first = check_floats(1, (rows - 1) * ldo + width);
    double want[128];
    check_fill(qkv, rows * ld, -1.5f, 1.5f);
    vo_attend_full job = {.batch = batch,
                          .t = t,
                          .heads = heads,
                          .hd = hd,
                          .scale = 1 / sqrtf((float)hd),
                          .q = qkv,
                          .k = qkv + width,
                          .v = qkv + 2 * width,
                          .ldq = ld,
                          .ldk = ld,
                          .ldv = ld,
                          .ldo = ldo};
    for (int i = 0; i < DRIVERS_POOLS; i++) {
        float *out = i ? check_floats(2, (rows - 1) * ldo + width) : first;
        job.out = out;
        vo_attend_full_run(&job, k, drivers_pools[i],
                           drivers_workspace(vo_attend_full_workspace(
                               &job, k, vo_pool_threads(drivers_pools[i]))));
        if (!check_slots_intact() || !check_gaps_intact(out, rows, width, ldo))
            check_fail("wrote outside its rows");
        if (memcmp(out, first, (size_t)((rows - 1) * ldo + width) * sizeof *out))
            check_fail("t=%d hd=%d differs with %d threads", (int)t, (int)hd,
                       vo_pool_threads(drivers_pools[i]));
    }
    for (int64_t row = 0; row < rows; row++) {
        const float *item = qkv + row / t * t * ld;
        for (int64_t h = 0; h < heads; h++) {
            const double tolerance =
                attend_one(t, hd, (double)job.scale, qkv + row * ld + h * hd, item + width + h * hd,
                           ld, item + 2 * width + h * hd, ld, NULL, want);
            compare_row(hd, first + row * ldo + h * hd, want, tolerance, "full attention");
        }
    }
}

static void full_shapes(const vo_kernels *k) {
    static const int64_t lengths[] = {1, 5, 33, 168, 200}; /* the last has a part of a block */
    for (int i = 0; i < 5; i++) full_case(k, 1 + i % 2, lengths[i], 1 + i % 3, i == 2 ? 20 : 64);
}

static void test_attend_full(void **state) {
    (void)state;
    drivers_at_all_levels("vo_attend_full_run", full_shapes);
}

/* Sequences of different lengths; the first rows share one view, as beams of one window do. */
static void cached_case(const vo_kernels *k, int64_t rows, int64_t max_len, bool mapped) {
    enum { HEADS = 3, HD = 64, SEQUENCES = 4 };
    const int64_t slots = SEQUENCES * max_len, width = HEADS * HD, ldq = width + 1;
    float *q = check_floats(0, rows * ldq), *keys = check_floats(1, HEADS * slots * HD);
    float *values = check_floats(2, HEADS * slots * HD), *first = check_floats(3, rows * width);
    int32_t *table = (int32_t *)(void *)check_floats(4, slots), seq[16], len[16];
    double want[HD];
    check_fill(q, rows * ldq, -1.5f, 1.5f);
    check_fill(keys, HEADS * slots * HD, -1.5f, 1.5f);
    check_fill(values, HEADS * slots * HD, -1.5f, 1.5f);
    for (int64_t i = 0; i < slots; i++) table[i] = check_below((int)slots);
    for (int64_t i = 0; i < rows; i++) {
        seq[i] = i < rows / 2 ? 1 : check_below(SEQUENCES);
        len[i] = i < rows / 2 ? (int32_t)max_len : 1 + check_below((int)max_len);
    }
    vo_attend_cached job = {.rows = rows,
                            .heads = HEADS,
                            .hd = HD,
                            .slots = slots,
                            .max_len = max_len,
                            .scale = 0.125f,
                            .q = q,
                            .ldq = ldq,
                            .k = keys,
                            .v = values,
                            .table = mapped ? table : NULL,
                            .seq = seq,
                            .len = len,
                            .ldo = width};
    for (int i = 0; i < DRIVERS_POOLS; i++) {
        float *out = job.out = i ? check_floats(5, rows * width) : first;
        vo_attend_cached_run(&job, k, drivers_pools[i],
                             drivers_workspace(vo_attend_cached_workspace(
                                 vo_pool_threads(drivers_pools[i]), max_len)));
        if (!check_slots_intact()) check_fail("wrote before the start of an array");
        if (memcmp(out, first, (size_t)(rows * width) * sizeof *out))
            check_fail("rows=%d differs with %d threads", (int)rows,
                       vo_pool_threads(drivers_pools[i]));
    }
    for (int64_t i = 0; i < rows; i++) {
        vo_attend_cached one = job;
        one.rows = 1;
        one.q = q + i * ldq;
        one.seq = seq + i;
        one.len = len + i;
        one.out = check_floats(5, width);
        vo_attend_cached_run(&one, k, drivers_pools[1],
                             drivers_workspace(vo_attend_cached_workspace(
                                 vo_pool_threads(drivers_pools[1]), max_len)));
        if (memcmp(one.out, first + i * width, (size_t)width * sizeof *first))
            check_fail("row %d of %d depends on its neighbours", (int)i, (int)rows);
        for (int64_t h = 0; h < HEADS; h++) {
            const int64_t base = (h * slots + (mapped ? 0 : seq[i] * max_len)) * HD;
            const double tolerance =
                attend_one(len[i], HD, (double)job.scale, q + i * ldq + h * HD, keys + base, HD,
                           values + base, HD, mapped ? table + seq[i] * max_len : NULL, want);
            compare_row(HD, first + i * width + h * HD, want, tolerance, "cached attention");
        }
    }
}

static void cached_shapes(const vo_kernels *k) {
    static const int64_t rows[] = {1, 2, 5, 8, 13}, lengths[] = {1, 7, 40, 65, 448};
    for (int i = 0; i < 5; i++)
        for (int mapped = 0; mapped < 2; mapped++) cached_case(k, rows[i], lengths[i], mapped);
}

static void test_attend_cached(void **state) {
    (void)state;
    drivers_at_all_levels("vo_attend_cached_run", cached_shapes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_packed_row),
        cmocka_unit_test(test_codes_are_kept),
        cmocka_unit_test(test_quantised_rows),
        cmocka_unit_test(test_bytes_of_rows),
        cmocka_unit_test(test_sized_columns),
        cmocka_unit_test(test_nan_stays_in_its_row),
        cmocka_unit_test(test_attend_full),
        cmocka_unit_test(test_attend_cached),
    };
    return cmocka_run_group_tests(tests, drivers_set_up, drivers_tear_down);
}
