/* SPDX-License-Identifier: MIT
 *
 * A column of tiles is computed in scratch, k block by k block, and leaves for C with bias,
 * activation and residual already applied, which is also what lets the residual be C itself. What
 * the next step needs is prefetched during this one.
 */
#include "backends/cpu/matmul_block.h"

enum {
    K_BLOCK_BYTES = 32 * 1024, /* of one panel: it should stay in L1 for a column of tiles */
    K_BLOCK_NARROW = 16 * 1024 /* the same beside tiles of A that are as large */
};

vo_form vo_form_of(const vo_kernels *kernels, const vo_packed *b) {
    switch (b->dtype) {
    case VO_BF16:
        return (vo_form){true, kernels->mr_bf16, 2, 2, VO_BF16_K};
    case VO_AFFINE: /* expanded to bf16 */
        return (vo_form){true, kernels->mr_bf16, 2, 2, b->group};
    case VO_I8:
        return (vo_form){true, kernels->mr_int8, 1, 1, VO_INT8_K};
    default: /* halves are converted */
        return (vo_form){false, kernels->mr, 4, 4, 1};
    }
}

/* Steps of k such that one block of a panel takes K_BLOCK_BYTES, evenly spread over k. */
static int64_t k_block_size(const vo_kernels *kernels, const vo_packed *b) {
    const vo_form f = vo_form_of(kernels, b);
    if (b->dtype == VO_I8) return VO_INT8_GROUP;
    int64_t bytes = f.narrow ? K_BLOCK_NARROW : K_BLOCK_BYTES;
    int64_t most = vo_max64(1, bytes / (kernels->nr * (int64_t)f.b_bytes));
    int64_t even = vo_ceil_div(b->padded, vo_max64(1, vo_ceil_div(b->padded, most)));
    return vo_max64(1, vo_ceil_div(even, f.k_step)) * f.k_step;
}

vo_block_job vo_block_job_of(const vo_kernels *kernels, const vo_packed *b) {
    return (vo_block_job){.b = b,
                          .kernels = kernels,
                          .form = vo_form_of(kernels, b),
                          .k_block = k_block_size(kernels, b),
                          .k = b->padded};
}

int64_t vo_tile_bytes(const vo_block_job *job) {
    return vo_round_line(job->k * job->form.mr * job->form.a_bytes);
}
int64_t vo_scale_bytes(const vo_block_job *job, int64_t rows) {
    return vo_round_line(vo_ceil_div(job->k, VO_INT8_GROUP) * rows * (int64_t)sizeof(float));
}
int64_t vo_converted_bytes(const vo_block_job *job) {
    if (job->b->dtype != VO_F16 && job->b->dtype != VO_AFFINE) return 0;
    return vo_round_line(job->k_block * job->kernels->nr * job->form.b_bytes);
}

/* ---- packing A -------------------------------------------------------------------------- */

int vo_tile_rows(const vo_block_job *job, int64_t tile) {
    return (int)vo_min64(job->form.mr, job->gemm->m - tile * job->form.mr);
}

static void prefetch(const void *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += VO_LINE) __builtin_prefetch((const char *)from + i, 0, 2);
}

/* Columns of A that there are. */
static int64_t columns_of(const vo_block_job *job) {
    return vo_min64(job->k, job->b->k - job->first);
}

/* Steps [k0, k0+steps) of one tile of A, f32, into the whole tile `to`. */
static void pack_f32(const vo_block_job *job, int64_t tile, int64_t k0, int64_t steps, char *to) {
    const vo_gemm *g = job->gemm;
    job->kernels->gemm_pack_a(steps, vo_tile_rows(job, tile),
                              g->a + tile * job->form.mr * g->lda + k0, g->lda,
                              (float *)(void *)to + k0 * job->form.mr);
}

/* Groups of k, each with scales of its own. */
static void pack_int8(const vo_block_job *job, int64_t tile, uint8_t *to, float *scales,
                      int64_t rows) {
    const vo_gemm *g = job->gemm;
    const float *a = g->a + tile * job->form.mr * g->lda;
    const float *factors = job->b->factors ? job->b->factors + job->first : NULL;
    const int64_t k = columns_of(job);
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_GROUP, scales += rows)
        job->kernels->int8_pack_a(vo_min64(VO_INT8_GROUP, k - k0), vo_tile_rows(job, tile), a + k0,
                                  g->lda, factors ? factors + k0 : NULL, to + k0 * job->form.mr,
                                  scales);
}

void vo_block_pack(const vo_block_job *job, int64_t tile, char *to, float *scales, int64_t rows) {
    const vo_gemm *g = job->gemm;
    if (job->b->dtype == VO_I8)
        pack_int8(job, tile, (uint8_t *)to, scales, rows);
    else if (job->form.narrow)
        job->kernels->bf16_pack_a(columns_of(job), vo_tile_rows(job, tile),
                                  g->a + tile * job->form.mr * g->lda, g->lda,
                                  (uint16_t *)(void *)to);
    else
        pack_f32(job, tile, 0, job->b->k, to);
}

static void prefetch_a(const vo_block_job *job, int64_t tile, int64_t k0, int64_t steps) {
    const vo_gemm *g = job->gemm;
    const int64_t row = tile * job->form.mr;
    for (int i = 0; i < vo_tile_rows(job, tile); i++)
        prefetch(g->a + (row + i) * g->lda + k0, steps * (int64_t)sizeof(float));
}

static int64_t tiles_of(const vo_block_job *job, const vo_block *at) {
    return vo_ceil_div(at->rows, job->form.mr);
}

/* Packs what the next tile product reads, if it has not been yet. */
static void pack_for(const vo_block_job *job, const vo_block *at, int64_t i, int64_t k0,
                     int64_t steps) {
    const int64_t tiles = tiles_of(job, at);
    char *a = at->a + i * vo_tile_bytes(job);
    if (!at->pack) return;
    if (job->form.narrow) {
        if (k0 == 0)
            vo_block_pack(job, at->tile0 + i, a, at->scales + i * job->form.mr, at->scale_rows);
        return;
    }
    pack_f32(job, at->tile0 + i, k0, steps, a);
    if (i + 1 < tiles) prefetch_a(job, at->tile0 + i + 1, k0, steps);
}

/* ---- products ---------------------------------------------------------------------------- */

/* Steps [k0, k0+steps) of B in a panel as a tile kernel reads them, and their type. Halves are
 * converted when several tiles use them; codes always, so that one row gets the sums of many. */
static const void *readable(const vo_block_job *job, const vo_block *at, int64_t panel, int64_t k0,
                            int64_t steps, vo_dtype *dtype) {
    const vo_packed *b = job->b;
    const void *from = vo_packed_panel(b, panel, k0);
    *dtype = b->dtype;
    if (b->dtype == VO_F16 && at->rows > job->form.mr) {
        job->kernels->f16_to_f32(steps * b->nr, from, at->converted);
        *dtype = VO_F32;
        return at->converted;
    }
    if (b->dtype == VO_AFFINE) {
        job->kernels->int4_to_bf16(steps, b->group, from, vo_packed_affine(b, panel, k0),
                                   at->converted);
        *dtype = VO_BF16;
        return at->converted;
    }
    return from;
}

/* What a product asks for, since the one after it reads it. */
typedef struct next_bytes {
    const char *from;
    int64_t bytes;
} next_bytes;

/* Tile i of A times one panel for a group of k: whole numbers, which become floats in c. */
static void int8_product(const vo_block_job *job, const vo_block *at, int64_t i, int64_t panel,
                         int64_t k0, int64_t steps, const void *b, float *c, bool add,
                         next_bytes next) {
    const int nr = job->kernels->nr, m = vo_tile_rows(job, at->tile0 + i);
    const int64_t column = panel * nr, columns = vo_min64(nr, job->b->n - column);
    const char *a = at->a + i * vo_tile_bytes(job) + k0 * job->form.mr;
    const int64_t group = k0 / VO_INT8_GROUP, first = (job->first + k0) / VO_INT8_GROUP;
    const float *scales = at->scales + group * at->scale_rows + i * job->form.mr;
    job->kernels->gemm_int8(steps, (const uint8_t *)a, b, at->sums, m, 0, next.from, next.bytes);
    job->kernels->int8_scale(m, (int)columns, at->sums, scales, job->b->scales + column,
                             vo_packed_zero(job->b, panel, first), c, add);
}

/* Tile i of A times one panel for `steps` of k, into a dense tile of C. */
static void tile_product(const vo_block_job *job, const vo_block *at, int64_t i, vo_dtype dtype,
                         int64_t k0, int64_t steps, const void *b, float *c, bool add,
                         next_bytes next) {
    const vo_kernels *kernels = job->kernels;
    const int nr = kernels->nr, m = vo_tile_rows(job, at->tile0 + i);
    const void *a = at->a + i * vo_tile_bytes(job) + k0 * job->form.mr * job->form.a_bytes;
    switch (dtype) {
    case VO_BF16:
        kernels->gemm_bf16(steps, a, b, c, m, add, next.from, next.bytes);
        break;
    case VO_F16:
        prefetch(next.from, next.bytes);
        kernels->gemm_f16(steps, a, b, c, nr, m, nr, add);
        break;
    default:
        prefetch(next.from, next.bytes);
        kernels->gemm_f32(steps, a, b, c, nr, m, nr, add);
    }
}

void vo_block_finish(const vo_block_job *job, int64_t row, int64_t rows, int64_t column,
                     int64_t columns, const float *c, int64_t ldc) {
    const vo_gemm *g = job->gemm;
    const float *bias = g->bias ? g->bias + column : NULL;
    const float *residual = g->residual ? g->residual + row * g->ldr + column : NULL;
    job->kernels->epilogue(rows, columns, c, ldc, bias, g->gelu, residual, g->ldr,
                           g->c + row * g->ldc + column - job->c_column, g->ldc);
}

/* A finished tile of C leaves, tile by tile, so that stores drain during the next one's sums. */
static void finish_tile(const vo_block_job *job, const vo_block *at, int64_t i, int64_t panel,
                        const float *c) {
    const int64_t tile = at->tile0 + i, nr = job->b->nr, column = panel * nr;
    vo_block_finish(job, tile * job->form.mr, vo_tile_rows(job, tile), column,
                    vo_min64(nr, job->b->n - column), c, nr);
}

/* What the step after steps [k0, k0+steps) of a panel reads; nothing after the last. */
static next_bytes next_step(const vo_block_job *job, const vo_block *at, int64_t panel, int64_t k0,
                            int64_t steps) {
    const int64_t bytes = vo_packed_bytes(job->b, steps * job->kernels->nr);
    if (k0 + steps < job->k)
        return (next_bytes){vo_packed_panel(job->b, panel, job->first + k0 + steps), bytes};
    if (panel + 1 < at->last_panel)
        return (next_bytes){vo_packed_panel(job->b, panel + 1, job->first), bytes};
    return (next_bytes){NULL, 0};
}

static next_bytes share_of(next_bytes all, int64_t share, int64_t i) {
    const int64_t before = vo_min64(i * share, all.bytes);
    return (next_bytes){all.from ? all.from + before : NULL, vo_min64(share, all.bytes - before)};
}

/* One panel times the block's tiles for steps [k0, k0+steps). */
static void panel_step(const vo_block_job *job, const vo_block *at, int64_t panel, int64_t k0,
                       int64_t steps, bool add, bool finish) {
    const int mr = job->form.mr, nr = job->kernels->nr;
    const int64_t tiles = tiles_of(job, at);
    vo_dtype dtype;
    const void *from = readable(job, at, panel, job->first + k0, steps, &dtype);
    const next_bytes next = next_step(job, at, panel, k0, steps);
    const int64_t share = vo_round_line(vo_ceil_div(next.bytes, tiles));
    for (int64_t i = 0; i < tiles; i++) {
        float *c = at->c + i * mr * nr;
        pack_for(job, at, i, k0, steps);
        const next_bytes some = share_of(next, share, i);
        if (dtype == VO_I8)
            int8_product(job, at, i, panel, k0, steps, from, c, add, some);
        else
            tile_product(job, at, i, dtype, k0, steps, from, c, add, some);
        if (finish) finish_tile(job, at, i, panel, c);
    }
}

void vo_block_panel(const vo_block_job *job, vo_block *at, int64_t panel, bool add, bool finish) {
    int64_t k0 = 0;
    do {
        const int64_t steps = vo_min64(job->k_block, job->k - k0);
        panel_step(job, at, panel, k0, steps, add || k0 > 0, finish && k0 + steps >= job->k);
        k0 += steps;
    } while (k0 < job->k);
    at->pack = false;
}
