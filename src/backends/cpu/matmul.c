/* SPDX-License-Identifier: MIT
 *
 * Products with packed weights. Few rows stream the panels of B once through the skinny
 * kernels; many rows are packed into tiles of mr rows first, then blocks of C are shared out
 * over the threads. A block is computed in scratch that stays in the cache, k block by
 * k block, and leaves for C with bias, activation and residual already applied; that is also
 * what lets the residual be C itself. Who computes an element never changes its sum.
 */
#include "backends/cpu/matmul.h"

#include <string.h>

#include "base/memory.h"

enum {
    K_BLOCK_BYTES = 32 * 1024,        /* of one panel: it should stay in L1 for a column of tiles */
    BLOCK_TILES = 96,                 /* most tiles of one block of C: its scratch stays in L2 */
    BLOCK_ROWS = 24,                  /* most tiles down one block of C */
    SKINNY_COLUMNS = 512,             /* most columns of one skinny task */
    PACKED_A_BYTES = 16 * 1024 * 1024 /* of A packed at a time */
};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- packing of weights ---------------------------------------------------------------- */

typedef struct pack_job {
    const vo_packed *packed;
    const vo_view *view;
    float *rows;      /* [threads][nr][k] for what must become f32, or NULL */
    vo_error *errors; /* [threads] */
} pack_job;

/* Bytes of one element in the panels. */
static size_t element_bytes(const vo_packed *packed) {
    return packed->dtype == VO_F16 ? 2 : 4;
}

/* One panel of f16 rows; the source may be unaligned. Small steps of k keep both sides in L1. */
static void pack_panel_f16(const vo_packed *packed, const unsigned char *rows, int count,
                           uint16_t *panel) {
    for (int64_t k0 = 0; k0 < packed->k; k0 += 32) {
        int64_t steps = min64(packed->k - k0, 32);
        for (int j = 0; j < packed->nr; j++) {
            uint16_t part[32] = {0};
            if (j < count) memcpy(part, rows + (j * packed->k + k0) * 2, (size_t)steps * 2);
            for (int64_t i = 0; i < steps; i++) panel[(k0 + i) * packed->nr + j] = part[i];
        }
    }
}

static void pack_panel_f32(const vo_packed *packed, const float *rows, int count, float *panel) {
    for (int64_t k0 = 0; k0 < packed->k; k0 += 16) {
        int64_t steps = min64(packed->k - k0, 16);
        for (int j = 0; j < packed->nr; j++)
            for (int64_t i = k0; i < k0 + steps; i++)
                panel[i * packed->nr + j] = j < count ? rows[j * packed->k + i] : 0.0f;
    }
}

static void pack_tile(void *arg, int64_t tile, int thread) {
    const pack_job *job = arg;
    const vo_packed *packed = job->packed;
    int64_t row = tile * packed->nr;
    int count = (int)min64(packed->n - row, packed->nr);
    char *panel = (char *)packed->data +
                  (size_t)tile * (size_t)(packed->k * packed->nr) * element_bytes(packed);
    if (packed->dtype == VO_F16) {
        const unsigned char *rows = job->view->data;
        pack_panel_f16(packed, rows + row * packed->k * 2, count, (uint16_t *)(void *)panel);
        return;
    }
    float *rows = job->rows + thread * packed->nr * packed->k;
    if (vo_dequantize_rows(job->view, row, count, rows, &job->errors[thread]) == VO_OK)
        pack_panel_f32(packed, rows, count, (float *)(void *)panel);
}

/* Sets n, k and bytes from the shape; the product of all sizes is checked here, once. */
static vo_status pack_sizes(vo_packed *packed, const vo_view *view, vo_error *err) {
    int64_t elements = 0, panels = 0;
    packed->n = view->rank > 1 ? view->shape[0] : 1;
    if (view->rank < 1 || !vo_count_elements(view->shape, view->rank, &elements) || elements == 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix must have rows and columns.");
    packed->k = elements / packed->n;
    panels = ceil_div(packed->n, packed->nr);
    int64_t dims[3] = {panels, packed->k * packed->nr, (int64_t)element_bytes(packed)}, bytes = 0;
    if (packed->k > INT32_MAX || !vo_count_elements(dims, 3, &bytes))
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix is too large to be packed.");
    packed->bytes = (size_t)bytes;
    return VO_OK;
}

vo_status vo_packed_create(vo_packed *packed, const vo_kernels *kernels, vo_pool *pool,
                           const vo_view *view, vo_error *err) {
    int threads = vo_pool_threads(pool);
    pack_job job = {packed, view, NULL, NULL};
    memset(packed, 0, sizeof(*packed));
    packed->dtype = view->dtype == VO_F16 ? VO_F16 : VO_F32;
    packed->nr = kernels->nr;
    vo_status status = pack_sizes(packed, view, err);
    if (status != VO_OK) goto fail;
    packed->data = vo_alloc_uninitialized(packed->bytes);
    job.errors = vo_alloc_array((size_t)threads, sizeof(*job.errors));
    if (packed->dtype == VO_F32)
        job.rows =
            vo_alloc_array((size_t)threads * (size_t)packed->nr, (size_t)packed->k * sizeof(float));
    if (!packed->data || !job.errors || (packed->dtype == VO_F32 && !job.rows)) {
        status = vo_fail(err, VO_ERR_MEMORY, "Out of memory for %zu bytes of packed weights.",
                         packed->bytes);
        goto fail;
    }
    vo_pool_run(pool, ceil_div(packed->n, packed->nr), pack_tile, &job);
    for (int i = 0; i < threads && status == VO_OK; i++)
        if (job.errors[i].status != VO_OK)
            status = vo_fail(err, job.errors[i].status, "%s", job.errors[i].message);
fail:
    vo_free(job.rows);
    vo_free(job.errors);
    if (status != VO_OK) vo_packed_destroy(packed);
    return status;
}

void vo_packed_destroy(vo_packed *packed) {
    if (!packed) return;
    vo_free(packed->data);
    memset(packed, 0, sizeof(*packed));
}

/* The start of panel p. */
static const void *panel_at(const vo_packed *packed, int64_t p, int64_t k0) {
    return (const char *)packed->data +
           (size_t)((p * packed->k + k0) * packed->nr) * element_bytes(packed);
}

void vo_packed_row(const vo_packed *packed, int64_t i, float *out) {
    const void *panel = panel_at(packed, i / packed->nr, 0);
    int64_t j = i % packed->nr;
    for (int64_t kk = 0; kk < packed->k; kk++) {
        if (packed->dtype == VO_F16)
            out[kk] = vo_f16_to_f32(((const uint16_t *)panel)[kk * packed->nr + j]);
        else
            out[kk] = ((const float *)panel)[kk * packed->nr + j];
    }
}

/* ---- the product ----------------------------------------------------------------------- */

typedef struct gemm_job {
    const vo_gemm *gemm;
    const vo_kernels *kernels;
    int64_t row0, rows;  /* the rows of this pass over A */
    int64_t k_block;     /* steps of k at a time */
    int64_t tall, wide;  /* block of C in tiles of mr x nr */
    int64_t blocks_down; /* blocks from top to bottom */
    float *packed_a;     /* [ceil(rows/mr)][k][mr] */
    float *scratch;      /* [threads][scratch_floats] */
    int64_t scratch_floats;
} gemm_job;

/* Steps of k such that one block of a panel takes K_BLOCK_BYTES, evenly spread over k. */
static int64_t k_block_size(const vo_kernels *kernels, int64_t k) {
    int64_t most = K_BLOCK_BYTES / (kernels->nr * (int64_t)sizeof(float));
    return max64(1, ceil_div(k, max64(1, ceil_div(k, most))));
}

/* Most tiles of A that are packed at a time. */
static int64_t tiles_at_once(const vo_kernels *kernels, int64_t m, int64_t k) {
    int64_t tiles = PACKED_A_BYTES / (max64(k, 1) * kernels->mr * (int64_t)sizeof(float));
    return min64(max64(tiles, 4 * BLOCK_ROWS), ceil_div(m, kernels->mr));
}

/* Floats for a block of C and a converted block of one panel, or for a skinny strip. */
static int64_t scratch_floats(const vo_kernels *kernels, int64_t k) {
    int64_t block = (int64_t)BLOCK_TILES * kernels->mr * kernels->nr;
    int64_t panel = k_block_size(kernels, k) * kernels->nr;
    return ceil_div(max64(block + panel, (int64_t)VO_SKINNY_ROWS * SKINNY_COLUMNS), 16) * 16;
}

size_t vo_gemm_workspace(const vo_kernels *kernels, int threads, int64_t m, int64_t n, int64_t k) {
    (void)n;
    int64_t floats = scratch_floats(kernels, k) * threads;
    if (m > VO_SKINNY_ROWS) floats += tiles_at_once(kernels, m, k) * kernels->mr * k;
    return (size_t)floats * sizeof(float);
}

/* A finished block c[rows][columns] leaves for C at (row, column). */
static void finish(const gemm_job *job, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   float *c, int64_t ldc) {
    const vo_gemm *g = job->gemm;
    const float *bias = g->bias ? g->bias + column : NULL;
    const float *residual = g->residual ? g->residual + row * g->ldr + column : NULL;
    if (bias || g->gelu || residual)
        job->kernels->epilogue(rows, columns, c, ldc, bias, g->gelu, residual, g->ldr);
    for (int64_t i = 0; i < rows; i++)
        memcpy(g->c + (row + i) * g->ldc + column, c + i * ldc, (size_t)columns * sizeof(float));
}

static void skinny_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_gemm *g = job->gemm;
    const vo_packed *b = g->b;
    int64_t first = tile * job->wide, panels = min64(job->wide, ceil_div(b->n, b->nr) - first);
    int64_t column = first * b->nr, ldc = panels * b->nr;
    float *c = job->scratch + thread * job->scratch_floats;
    const void *panel = panel_at(b, first, 0);
    if (b->dtype == VO_F16)
        job->kernels->skinny_f16(b->k, panels, g->a, g->lda, panel, c, ldc, (int)g->m);
    else
        job->kernels->skinny_f32(b->k, panels, g->a, g->lda, panel, c, ldc, (int)g->m);
    finish(job, 0, g->m, column, min64(ldc, b->n - column), c, ldc);
}

static void run_skinny(gemm_job *job, vo_pool *pool) {
    const vo_packed *b = job->gemm->b;
    int64_t panels = ceil_div(b->n, b->nr), threads = vo_pool_threads(pool);
    /* A few tasks per thread, each a multiple of the panels that a kernel takes at once. */
    int64_t wide = ceil_div(panels, threads * 4);
    if (wide > 1) wide = ceil_div(wide, 4) * 4;
    if (threads == 1 || ceil_div(panels, wide) < threads) wide = ceil_div(panels, threads);
    job->wide = max64(1, min64(wide, SKINNY_COLUMNS / b->nr));
    vo_pool_run(pool, ceil_div(panels, job->wide), skinny_tile, job);
}

static void pack_a_tile(void *arg, int64_t tile, int thread) {
    (void)thread;
    const gemm_job *job = arg;
    int mr = job->kernels->mr;
    int m = (int)min64(job->rows - tile * mr, mr);
    int64_t k = job->gemm->b->k;
    job->kernels->gemm_pack_a(k, m, job->gemm->a + (job->row0 + tile * mr) * job->gemm->lda,
                              job->gemm->lda, job->packed_a + tile * k * mr);
}

/* One panel times one column of tiles for steps [k0, k0+steps): c[rows][nr] of stride ldc. A
 * panel of halves that several tiles use is converted once, into `converted`. */
static void panel_column(const gemm_job *job, int64_t panel, int64_t tile0, int64_t rows,
                         int64_t k0, int64_t steps, float *converted, float *c, int64_t ldc) {
    const vo_packed *b = job->gemm->b;
    const vo_kernels *kernels = job->kernels;
    const int mr = kernels->mr, nr = kernels->nr;
    const void *from = panel_at(b, panel, k0);
    bool half = b->dtype == VO_F16;
    if (half && rows > mr) {
        kernels->f16_to_f32(steps * nr, from, converted);
        from = converted;
        half = false;
    }
    for (int64_t i = 0; i < rows; i += mr) {
        const float *a = job->packed_a + ((tile0 + i / mr) * b->k + k0) * mr;
        const int m = (int)min64(rows - i, mr);
        if (half)
            kernels->gemm_f16(steps, a, from, c + i * ldc, ldc, m, nr, k0 > 0);
        else
            kernels->gemm_f32(steps, a, from, c + i * ldc, ldc, m, nr, k0 > 0);
    }
}

static void block_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_packed *b = job->gemm->b;
    const int64_t mr = job->kernels->mr, nr = job->kernels->nr;
    int64_t tile0 = tile % job->blocks_down * job->tall;
    int64_t rows = min64(job->tall * mr, job->rows - tile0 * mr);
    int64_t first = tile / job->blocks_down * job->wide;
    int64_t panels = min64(job->wide, ceil_div(b->n, nr) - first), ldc = panels * nr;
    float *c = job->scratch + thread * job->scratch_floats;
    float *converted = c + (int64_t)BLOCK_TILES * mr * nr;
    int64_t k0 = 0;
    do {
        int64_t steps = min64(job->k_block, b->k - k0);
        for (int64_t p = 0; p < panels; p++) {
            panel_column(job, first + p, tile0, rows, k0, steps, converted, c + p * nr, ldc);
            int64_t column = (first + p) * nr;
            if (k0 + steps >= b->k)
                finish(job, job->row0 + tile0 * mr, rows, column, min64(nr, b->n - column),
                       c + p * nr, ldc);
        }
        k0 += steps;
    } while (k0 < b->k);
}

/* Time of the slowest thread, in tiles, when blocks are dealt out evenly. The constants are the
 * cost of converting and reading a panel and of starting a block. */
static double makespan(int64_t tiles_down, int64_t tiles_across, int64_t tall, int64_t wide,
                       int threads) {
    int64_t blocks = ceil_div(tiles_down, tall) * ceil_div(tiles_across, wide);
    double block = (double)wide * ((double)tall + 0.35) + 0.15 * (double)tall + 0.1;
    return (double)ceil_div(blocks, threads) * block;
}

/* The shape of the blocks of C for which the slowest thread ends first. */
static void choose_blocks(gemm_job *job, int threads) {
    int64_t down = ceil_div(job->rows, job->kernels->mr);
    int64_t across = ceil_div(job->gemm->b->n, job->kernels->nr);
    double best = 1e300;
    for (int64_t wide = 1; wide <= 8 && wide <= across; wide *= 2) {
        int64_t most = min64(min64(down, BLOCK_ROWS), BLOCK_TILES / wide);
        /* Only heights that divide the rows into equal blocks are worth a try. */
        for (int64_t parts = ceil_div(down, most); parts <= down; parts++) {
            int64_t tall = ceil_div(down, parts);
            double time = makespan(down, across, tall, wide, threads);
            if (time < best) {
                best = time;
                job->tall = tall;
                job->wide = wide;
            }
            if (tall * 4 < most || tall == 1) break;
        }
    }
    job->blocks_down = ceil_div(down, job->tall);
}

void vo_gemm_run(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool, void *workspace) {
    const vo_packed *b = gemm->b;
    int threads = vo_pool_threads(pool);
    gemm_job job = {.gemm = gemm, .kernels = kernels, .scratch = workspace};
    job.scratch_floats = scratch_floats(kernels, b->k);
    if (gemm->m <= 0) return;
    if (gemm->m <= VO_SKINNY_ROWS) {
        run_skinny(&job, pool);
        return;
    }
    job.packed_a = job.scratch + job.scratch_floats * threads;
    job.k_block = k_block_size(kernels, b->k);
    /* Equal passes rather than a short last one. */
    int64_t tiles = ceil_div(gemm->m, kernels->mr);
    int64_t passes = ceil_div(tiles, tiles_at_once(kernels, gemm->m, b->k));
    int64_t step = ceil_div(tiles, passes) * kernels->mr;
    for (; job.row0 < gemm->m; job.row0 += step) {
        job.rows = min64(step, gemm->m - job.row0);
        choose_blocks(&job, threads);
        vo_pool_run(pool, ceil_div(job.rows, kernels->mr), pack_a_tile, &job);
        vo_pool_run(pool, job.blocks_down * ceil_div(ceil_div(b->n, b->nr), job.wide), block_tile,
                    &job);
    }
}
