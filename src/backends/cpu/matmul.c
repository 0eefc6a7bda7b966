/* SPDX-License-Identifier: MIT
 *
 * Products with packed weights. Few rows stream the panels of B once through the skinny
 * kernels. Many rows are cut into blocks whose packed copy of A stays in L2 while every panel
 * of B passes by; a column of tiles is computed in scratch, k block by k block, and leaves for
 * C with bias, activation and residual already applied, which is also what lets the residual
 * be C itself. What the next step needs is prefetched during this one. Who computes an element
 * never changes its sum.
 */
#include "backends/cpu/matmul.h"

#include <string.h>

#include "base/dequantize.h"
#include "base/memory.h"

enum {
    K_BLOCK_BYTES = 32 * 1024, /* of one panel: it should stay in L1 for a column of tiles */
    BLOCK_ROWS = 336,          /* most rows of one block */
    BLOCK_BYTES = 1024 * 1024, /* most bytes of its packed A, if that allows BLOCK_LEAST rows */
    BLOCK_LEAST = 112,
    SHARED_TILES = 3,     /* with fewer tiles per thread, all threads share one packed A */
    SKINNY_COLUMNS = 512, /* most columns of one skinny task */
    LINE = 64             /* bytes of a cache line */
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
    int64_t k_block;     /* steps of k at a time */
    int64_t tall, wide;  /* block of C in tiles of mr x nr */
    int64_t blocks_down; /* blocks from top to bottom */
    float *shared_a;     /* [ceil(m/mr)][k][mr], or NULL when each block packs its own */
    float *scratch;      /* [threads][scratch_floats] */
    int64_t scratch_floats;
} gemm_job;

/* Where a block is being computed. */
typedef struct block {
    int64_t tile0, rows; /* its first tile of A, its rows */
    float *a;            /* [tall][k][mr] */
    bool pack;           /* a is yet to be filled */
    int64_t last_panel;  /* exclusive */
    float *c;            /* [tall*mr][nr]: one column of tiles */
    float *converted;    /* [k_block][nr]: one block of halves as floats */
} block;

/* Steps of k such that one block of a panel takes K_BLOCK_BYTES, evenly spread over k. */
static int64_t k_block_size(const vo_kernels *kernels, int64_t k) {
    int64_t most = K_BLOCK_BYTES / (kernels->nr * (int64_t)sizeof(float));
    return max64(1, ceil_div(k, max64(1, ceil_div(k, most))));
}

/* Most tiles of one block. */
static int64_t most_tall(const vo_kernels *kernels, int64_t k) {
    int64_t rows = BLOCK_BYTES / (max64(k, 1) * (int64_t)sizeof(float));
    return min64(max64(rows, BLOCK_LEAST), BLOCK_ROWS) / kernels->mr;
}

static int64_t round16(int64_t n) {
    return ceil_div(n, 16) * 16;
}
static int64_t c_floats(const vo_kernels *kernels) {
    return round16(BLOCK_ROWS * kernels->nr);
}
static int64_t converted_floats(const vo_kernels *kernels, int64_t k) {
    return round16(k_block_size(kernels, k) * kernels->nr);
}

/* Floats of one thread: a column of C, a converted block, A; or one skinny strip. */
static int64_t scratch_floats(const vo_kernels *kernels, int64_t m, int64_t k) {
    int64_t strip = VO_SKINNY_ROWS * SKINNY_COLUMNS;
    if (m <= VO_SKINNY_ROWS) return strip;
    int64_t a = min64(most_tall(kernels, k), ceil_div(m, kernels->mr)) * kernels->mr * k;
    return max64(strip, c_floats(kernels) + converted_floats(kernels, k) + round16(a));
}

size_t vo_gemm_workspace(const vo_kernels *kernels, int threads, int64_t m, int64_t n, int64_t k) {
    (void)n;
    int64_t floats = scratch_floats(kernels, m, k) * threads;
    if (m > VO_SKINNY_ROWS)
        floats +=
            min64(ceil_div(m, kernels->mr), (int64_t)SHARED_TILES * threads) * kernels->mr * k;
    return (size_t)floats * sizeof(float);
}

static void prefetch(const void *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const char *)from + i, 0, 2);
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

/* Rows of A in tile `tile`, at least one. */
static int tile_rows(const gemm_job *job, int64_t tile) {
    return (int)min64(job->kernels->mr, job->gemm->m - tile * job->kernels->mr);
}

/* Steps [k0, k0+steps) of one tile of A into the whole tile `to`. */
static void pack_a(const gemm_job *job, int64_t tile, int64_t k0, int64_t steps, float *to) {
    const vo_gemm *g = job->gemm;
    job->kernels->gemm_pack_a(steps, tile_rows(job, tile),
                              g->a + tile * job->kernels->mr * g->lda + k0, g->lda,
                              to + k0 * job->kernels->mr);
}

static void prefetch_a(const gemm_job *job, int64_t tile, int64_t k0, int64_t steps) {
    const vo_gemm *g = job->gemm;
    const int64_t row = tile * job->kernels->mr;
    for (int i = 0; i < tile_rows(job, tile); i++)
        prefetch(g->a + (row + i) * g->lda + k0, steps * (int64_t)sizeof(float));
}

static void pack_a_tile(void *arg, int64_t tile, int thread) {
    (void)thread;
    const gemm_job *job = arg;
    int64_t k = job->gemm->b->k;
    pack_a(job, tile, 0, k, job->shared_a + tile * k * job->kernels->mr);
}

/* One panel times the block's tiles for steps [k0, k0+steps). Halves that several tiles use are
 * converted once. */
static void panel_step(const gemm_job *job, const block *at, int64_t panel, int64_t k0,
                       int64_t steps) {
    const vo_packed *b = job->gemm->b;
    const vo_kernels *kernels = job->kernels;
    const int mr = kernels->mr, nr = kernels->nr;
    const int64_t tiles = ceil_div(at->rows, mr);
    const void *from = panel_at(b, panel, k0);
    bool half = b->dtype == VO_F16;
    /* B continues in memory with the next step, up to the end of the last panel. */
    const char *next = panel_at(b, panel, k0 + steps);
    const int64_t bytes = min64(steps * nr * (int64_t)element_bytes(b),
                                (const char *)panel_at(b, at->last_panel, 0) - next);
    const int64_t share = ceil_div(ceil_div(bytes, tiles), LINE) * LINE;
    if (half && tiles > 1) {
        kernels->f16_to_f32(steps * nr, from, at->converted);
        from = at->converted;
        half = false;
    }
    for (int64_t i = 0; i < tiles; i++) {
        float *a = at->a + i * b->k * mr;
        float *c = at->c + i * mr * nr;
        const int m = tile_rows(job, at->tile0 + i);
        if (at->pack) {
            pack_a(job, at->tile0 + i, k0, steps, a);
            if (i + 1 < tiles) prefetch_a(job, at->tile0 + i + 1, k0, steps);
        }
        if (i * share < bytes) prefetch(next + i * share, min64(share, bytes - i * share));
        if (half)
            kernels->gemm_f16(steps, a + k0 * mr, from, c, nr, m, nr, k0 > 0);
        else
            kernels->gemm_f32(steps, a + k0 * mr, from, c, nr, m, nr, k0 > 0);
        /* Tile by tile, so that the stores to C drain during the next tile's sums. */
        if (k0 + steps >= b->k)
            finish(job, (at->tile0 + i) * mr, m, panel * nr, min64(nr, b->n - panel * nr), c, nr);
    }
}

static void block_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_packed *b = job->gemm->b;
    const int64_t mr = job->kernels->mr, nr = job->kernels->nr;
    int64_t panel = tile / job->blocks_down * job->wide;
    block at = {.tile0 = tile % job->blocks_down * job->tall};
    at.rows = min64(job->tall * mr, job->gemm->m - at.tile0 * mr);
    at.last_panel = min64(panel + job->wide, ceil_div(b->n, nr));
    at.c = job->scratch + thread * job->scratch_floats;
    at.converted = at.c + c_floats(job->kernels);
    at.a = at.converted + converted_floats(job->kernels, b->k);
    at.pack = !job->shared_a;
    if (job->shared_a) at.a = job->shared_a + at.tile0 * b->k * mr;
    for (; panel < at.last_panel; panel++) {
        int64_t k0 = 0;
        do {
            int64_t steps = min64(job->k_block, b->k - k0);
            panel_step(job, &at, panel, k0, steps);
            k0 += steps;
        } while (k0 < b->k);
        at.pack = false;
    }
}

/* Time of the slowest thread, in tiles, when blocks are dealt out evenly. The constants are the
 * cost of reading and converting a panel and of starting a block. */
static double makespan(int64_t blocks, int64_t tall, int64_t wide, int threads) {
    double one = (double)wide * ((double)tall + 0.35) + 0.15 * (double)tall + 0.1;
    return (double)ceil_div(blocks, threads) * one;
}

/* All columns in one block, rows in as few equal blocks per thread as the caches allow. */
static void choose_tall(gemm_job *job, int threads) {
    int64_t down = ceil_div(job->gemm->m, job->kernels->mr);
    int64_t most = most_tall(job->kernels, job->gemm->b->k);
    double best = 1e300;
    job->wide = ceil_div(job->gemm->b->n, job->kernels->nr);
    int64_t first = ceil_div(ceil_div(down, most), threads);
    for (int64_t rounds = first; rounds < first + 4; rounds++) {
        int64_t tall = ceil_div(down, rounds * threads);
        double time = makespan(ceil_div(down, tall), tall, job->wide, threads);
        if (time < best) {
            best = time;
            job->tall = tall;
        }
    }
    job->blocks_down = ceil_div(down, job->tall);
}

/* Few rows: blocks in both directions over one packed A. */
static void choose_grid(gemm_job *job, int threads) {
    int64_t down = ceil_div(job->gemm->m, job->kernels->mr);
    int64_t across = ceil_div(job->gemm->b->n, job->kernels->nr);
    int64_t most = min64(down, BLOCK_ROWS / job->kernels->mr);
    double best = 1e300;
    for (int64_t wide = 1; wide <= 16 && wide <= across; wide *= 2) {
        for (int64_t parts = ceil_div(down, most); parts <= down; parts *= 2) {
            int64_t tall = ceil_div(down, parts);
            int64_t blocks = ceil_div(down, tall) * ceil_div(across, wide);
            double time = makespan(blocks, tall, wide, threads);
            if (time < best) {
                best = time;
                job->tall = tall;
                job->wide = wide;
            }
        }
    }
    job->blocks_down = ceil_div(down, job->tall);
}

void vo_gemm_run(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool, void *workspace) {
    const vo_packed *b = gemm->b;
    int threads = vo_pool_threads(pool);
    gemm_job job = {.gemm = gemm, .kernels = kernels, .scratch = workspace};
    job.scratch_floats = scratch_floats(kernels, gemm->m, b->k);
    if (gemm->m <= 0) return;
    if (gemm->m <= VO_SKINNY_ROWS) {
        run_skinny(&job, pool);
        return;
    }
    job.k_block = k_block_size(kernels, b->k);
    int64_t down = ceil_div(gemm->m, kernels->mr);
    if (down <= (int64_t)SHARED_TILES * threads) {
        job.shared_a = job.scratch + job.scratch_floats * threads;
        choose_grid(&job, threads);
        vo_pool_run(pool, down, pack_a_tile, &job);
    } else {
        choose_tall(&job, threads);
    }
    vo_pool_run(pool, job.blocks_down * ceil_div(ceil_div(b->n, b->nr), job.wide), block_tile,
                &job);
}
