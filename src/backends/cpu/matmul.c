/* SPDX-License-Identifier: MIT
 *
 * Products with packed weights. Few rows stream the panels of B once. Many rows are cut into
 * blocks whose packed copy of A stays in L2 while every panel of B passes by; a column of tiles
 * is computed in scratch, k block by k block, and leaves for C with bias, activation and residual
 * already applied, which is also what lets the residual be C itself. What the next step needs is
 * prefetched during this one. Who computes an element never changes its sum.
 */
#include "backends/cpu/matmul.h"

enum {
    K_BLOCK_BYTES = 32 * 1024,  /* of one panel: it should stay in L1 for a column of tiles */
    K_BLOCK_NARROW = 16 * 1024, /* the same beside tiles of A that are as large */
    BLOCK_ROWS = 336,           /* most rows of one block */
    BLOCK_BYTES = 1024 * 1024,  /* most bytes of its packed A, if that allows BLOCK_LEAST rows */
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
static int64_t round_line(int64_t bytes) {
    return ceil_div(bytes, LINE) * LINE;
}

/* What the type of B decides. */
typedef struct form {
    bool narrow;    /* bf16, int8 or int4: A is packed whole, by kernels of its own */
    int mr;         /* rows of a tile */
    int a_bytes;    /* of an element of packed A */
    int b_bytes;    /* of an element of B as the tile kernel reads it */
    int64_t k_step; /* k blocks are multiples of it */
} form;

static form form_of(const vo_kernels *kernels, const vo_packed *b) {
    switch (b->dtype) {
    case VO_BF16:
        return (form){true, kernels->mr_bf16, 2, 2, VO_BF16_K};
    case VO_AFFINE: /* expanded to bf16 */
        return (form){true, kernels->mr_bf16, 2, 2, b->group};
    case VO_I8:
        return (form){true, kernels->mr_int8, 1, 1, VO_INT8_K};
    default: /* halves are converted */
        return (form){false, kernels->mr, 4, 4, 1};
    }
}

typedef struct gemm_job {
    const vo_gemm *gemm;
    const vo_kernels *kernels;
    form form;
    int64_t k_block;     /* steps of k at a time */
    int64_t tall, wide;  /* block of C in tiles of mr x nr */
    int64_t blocks_down; /* blocks from top to bottom */
    char *shared_a;      /* [ceil(m/mr)] tiles of A, or NULL when each block packs its own */
    float *shared_scales;
    char *scratch; /* [threads][scratch_bytes] */
    int64_t scratch_bytes;
} gemm_job;

/* Where a block is being computed. */
typedef struct block {
    int64_t tile0, rows; /* its first tile of A, its rows */
    char *a;             /* [tall] packed tiles */
    float *scales;       /* int8: [tall*mr], one a row of A */
    bool pack;           /* a is yet to be filled */
    int64_t last_panel;  /* exclusive */
    float *c;            /* [tall*mr][nr]: one column of tiles; int8 sums before they are scaled */
    void *converted;     /* [k_block][nr]: halves as floats, or 4-bit codes as bf16 */
} block;

/* Steps of k such that one block of a panel takes K_BLOCK_BYTES, evenly spread over k. */
static int64_t k_block_size(const vo_kernels *kernels, const vo_packed *b) {
    const form f = form_of(kernels, b);
    int64_t bytes = f.narrow ? K_BLOCK_NARROW : K_BLOCK_BYTES;
    int64_t most = max64(1, bytes / (kernels->nr * (int64_t)f.b_bytes));
    int64_t even = ceil_div(b->padded, max64(1, ceil_div(b->padded, most)));
    return max64(1, ceil_div(even, f.k_step)) * f.k_step;
}

/* Bytes of one packed tile of A. */
static int64_t tile_bytes(form f, const vo_packed *b) {
    return round_line(b->padded * f.mr * f.a_bytes);
}

/* Most tiles of one block. */
static int64_t most_tall(form f, const vo_packed *b) {
    int64_t rows = BLOCK_BYTES / (max64(b->padded, 1) * f.a_bytes);
    return min64(max64(rows, BLOCK_LEAST), BLOCK_ROWS) / f.mr;
}

static int64_t c_bytes(const vo_kernels *kernels) {
    return round_line(BLOCK_ROWS * kernels->nr * (int64_t)sizeof(float));
}
static int64_t converted_bytes(const vo_kernels *kernels, const vo_packed *b) {
    if (b->dtype != VO_F16 && b->dtype != VO_AFFINE) return 0;
    return round_line(k_block_size(kernels, b) * kernels->nr * form_of(kernels, b).b_bytes);
}
static int64_t scale_bytes(form f, int64_t tiles) {
    return round_line(tiles * f.mr * (int64_t)sizeof(float));
}

static bool is_skinny(const gemm_job *job) {
    return !job->form.narrow && job->gemm->m <= VO_SKINNY_ROWS;
}

/* Bytes of one thread: a column of C, a converted block, A and its scales; or a skinny strip. */
static int64_t scratch_bytes(const vo_kernels *kernels, int64_t m, const vo_packed *b) {
    const form f = form_of(kernels, b);
    int64_t strip = VO_SKINNY_ROWS * SKINNY_COLUMNS * (int64_t)sizeof(float);
    int64_t tall = min64(most_tall(f, b), ceil_div(m, f.mr));
    if (m <= VO_SKINNY_ROWS && !f.narrow) return strip;
    return max64(strip, c_bytes(kernels) + converted_bytes(kernels, b) + tall * tile_bytes(f, b) +
                            scale_bytes(f, tall));
}

/* Tiles of A that all threads may share. */
static int64_t shared_tiles(form f, int threads, int64_t m) {
    return min64(ceil_div(m, f.mr), max64(1, (int64_t)SHARED_TILES * threads));
}

size_t vo_gemm_workspace(const vo_kernels *kernels, int threads, int64_t m, const vo_packed *b) {
    const form f = form_of(kernels, b);
    /* Fewer rows than m may take more: those that are shared. */
    int64_t shared = shared_tiles(f, threads, m);
    return (size_t)(scratch_bytes(kernels, m, b) * threads + shared * tile_bytes(f, b) +
                    scale_bytes(f, shared));
}

static void prefetch(const void *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch((const char *)from + i, 0, 2);
}

/* A finished block c[rows][columns] leaves for C at (row, column). */
static void finish(const gemm_job *job, int64_t row, int64_t rows, int64_t column, int64_t columns,
                   const float *c, int64_t ldc) {
    const vo_gemm *g = job->gemm;
    const float *bias = g->bias ? g->bias + column : NULL;
    const float *residual = g->residual ? g->residual + row * g->ldr + column : NULL;
    job->kernels->epilogue(rows, columns, c, ldc, bias, g->gelu, residual, g->ldr,
                           g->c + row * g->ldc + column, g->ldc);
}

/* ---- few rows, f32 and f16: straight from A ---------------------------------------------- */

static void skinny_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_gemm *g = job->gemm;
    const vo_packed *b = g->b;
    int64_t first = tile * job->wide, panels = min64(job->wide, vo_packed_panels(b) - first);
    int64_t column = first * b->nr, ldc = panels * b->nr;
    float *c = (float *)(void *)(job->scratch + thread * job->scratch_bytes);
    const void *panel = vo_packed_panel(b, first, 0);
    if (b->dtype == VO_F16)
        job->kernels->skinny_f16(b->k, panels, g->a, g->lda, panel, c, ldc, (int)g->m);
    else
        job->kernels->skinny_f32(b->k, panels, g->a, g->lda, panel, c, ldc, (int)g->m);
    finish(job, 0, g->m, column, min64(ldc, b->n - column), c, ldc);
}

/* B is streamed once, in a few tasks per thread, each of a multiple of the panels that a kernel
 * takes at once. */
static void run_skinny(gemm_job *job, vo_pool *pool) {
    const int64_t panels = vo_packed_panels(job->gemm->b), threads = vo_pool_threads(pool);
    int64_t wide = ceil_div(panels, threads * 4);
    if (wide > 1) wide = ceil_div(wide, 4) * 4;
    if (threads == 1 || ceil_div(panels, wide) < threads) wide = ceil_div(panels, threads);
    job->wide = max64(1, min64(wide, SKINNY_COLUMNS / job->gemm->b->nr));
    vo_pool_run(pool, ceil_div(panels, job->wide), skinny_tile, job);
}

/* ---- packing A -------------------------------------------------------------------------- */

/* Rows of A in tile `tile`, at least one. */
static int tile_rows(const gemm_job *job, int64_t tile) {
    return (int)min64(job->form.mr, job->gemm->m - tile * job->form.mr);
}

/* Steps [k0, k0+steps) of one tile of A, f32, into the whole tile `to`. */
static void pack_a(const gemm_job *job, int64_t tile, int64_t k0, int64_t steps, char *to) {
    const vo_gemm *g = job->gemm;
    job->kernels->gemm_pack_a(steps, tile_rows(job, tile), g->a + tile * job->form.mr * g->lda + k0,
                              g->lda, (float *)(void *)to + k0 * job->form.mr);
}

/* One whole tile of A as bf16 or int8; scales: those of the tile. */
static void pack_narrow(const gemm_job *job, int64_t tile, char *to, float *scales) {
    const vo_gemm *g = job->gemm;
    const float *a = g->a + tile * job->form.mr * g->lda;
    if (g->b->dtype == VO_I8)
        job->kernels->int8_pack_a(g->b->k, tile_rows(job, tile), a, g->lda, (uint8_t *)to, scales);
    else
        job->kernels->bf16_pack_a(g->b->k, tile_rows(job, tile), a, g->lda, (uint16_t *)(void *)to);
}

static void prefetch_a(const gemm_job *job, int64_t tile, int64_t k0, int64_t steps) {
    const vo_gemm *g = job->gemm;
    const int64_t row = tile * job->form.mr;
    for (int i = 0; i < tile_rows(job, tile); i++)
        prefetch(g->a + (row + i) * g->lda + k0, steps * (int64_t)sizeof(float));
}

static void pack_shared_tile(void *arg, int64_t tile, int thread) {
    (void)thread;
    const gemm_job *job = arg;
    char *to = job->shared_a + tile * tile_bytes(job->form, job->gemm->b);
    if (job->form.narrow)
        pack_narrow(job, tile, to, job->shared_scales + tile * job->form.mr);
    else
        pack_a(job, tile, 0, job->gemm->b->k, to);
}

/* Packs what the next tile product reads, if it has not been yet. */
static void pack_for(const gemm_job *job, const block *at, int64_t i, int64_t tiles, int64_t k0,
                     int64_t steps) {
    char *a = at->a + i * tile_bytes(job->form, job->gemm->b);
    if (!at->pack) return;
    if (job->form.narrow) {
        if (k0 == 0) pack_narrow(job, at->tile0 + i, a, at->scales + i * job->form.mr);
        return;
    }
    pack_a(job, at->tile0 + i, k0, steps, a);
    if (i + 1 < tiles) prefetch_a(job, at->tile0 + i + 1, k0, steps);
}

/* ---- blocks ------------------------------------------------------------------------------ */

/* One tile of A times one panel for `steps` of k, into a dense tile of C. */
static void tile_product(const gemm_job *job, vo_dtype dtype, int64_t steps, const void *a,
                         const void *b, float *c, int m, bool accumulate) {
    const vo_kernels *kernels = job->kernels;
    const int nr = kernels->nr;
    switch (dtype) {
    case VO_BF16:
        kernels->gemm_bf16(steps, a, b, c, m, accumulate);
        break;
    case VO_I8:
        kernels->gemm_int8(steps, a, b, (int32_t *)(void *)c, m, accumulate);
        break;
    case VO_F16:
        kernels->gemm_f16(steps, a, b, c, nr, m, nr, accumulate);
        break;
    default:
        kernels->gemm_f32(steps, a, b, c, nr, m, nr, accumulate);
    }
}

/* A finished tile of C: int8 sums become floats, then it leaves. */
static void finish_tile(const gemm_job *job, const block *at, int64_t i, int64_t panel, float *c) {
    const vo_packed *b = job->gemm->b;
    const int64_t column = panel * b->nr, columns = min64(b->nr, b->n - column);
    const int m = tile_rows(job, at->tile0 + i);
    if (b->dtype == VO_I8)
        job->kernels->int8_scale(m, (int)columns, (const int32_t *)(void *)c,
                                 at->scales + i * job->form.mr, b->scales + column,
                                 b->zero + column, c);
    finish(job, (at->tile0 + i) * job->form.mr, m, column, columns, c, b->nr);
}

/* Steps [k0, k0+steps) of a panel as a tile kernel reads them, and their type. Halves are converted
 * when several tiles use them; codes always, so that one row gets the sums of many. */
static const void *readable(const gemm_job *job, const block *at, int64_t panel, int64_t k0,
                            int64_t steps, vo_dtype *dtype) {
    const vo_packed *b = job->gemm->b;
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

/* One panel times the block's tiles for steps [k0, k0+steps). */
static void panel_step(const gemm_job *job, const block *at, int64_t panel, int64_t k0,
                       int64_t steps) {
    const vo_packed *b = job->gemm->b;
    const int mr = job->form.mr, nr = job->kernels->nr;
    const int64_t tiles = ceil_div(at->rows, mr), size = tile_bytes(job->form, b);
    vo_dtype dtype;
    const void *from = readable(job, at, panel, k0, steps, &dtype);
    /* B continues in memory with the next step, up to the end of the last panel. */
    const char *next = vo_packed_panel(b, panel, k0 + steps);
    const int64_t bytes = min64(vo_packed_bytes(b, steps * nr),
                                (const char *)vo_packed_panel(b, at->last_panel, 0) - next);
    const int64_t share = round_line(ceil_div(bytes, tiles));
    for (int64_t i = 0; i < tiles; i++) {
        float *c = at->c + i * mr * nr;
        pack_for(job, at, i, tiles, k0, steps);
        if (i * share < bytes) prefetch(next + i * share, min64(share, bytes - i * share));
        tile_product(job, dtype, steps, at->a + i * size + k0 * mr * job->form.a_bytes, from, c,
                     tile_rows(job, at->tile0 + i), k0 > 0);
        /* Tile by tile, so that the stores to C drain during the next tile's sums. */
        if (k0 + steps >= b->padded) finish_tile(job, at, i, panel, c);
    }
}

static void block_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_packed *b = job->gemm->b;
    const form f = job->form;
    char *scratch = job->scratch + thread * job->scratch_bytes;
    int64_t panel = tile / job->blocks_down * job->wide;
    block at = {.tile0 = tile % job->blocks_down * job->tall, .pack = !job->shared_a};
    at.rows = min64(job->tall * f.mr, job->gemm->m - at.tile0 * f.mr);
    at.last_panel = min64(panel + job->wide, vo_packed_panels(b));
    at.c = (float *)(void *)scratch;
    scratch += c_bytes(job->kernels);
    at.converted = scratch;
    scratch += converted_bytes(job->kernels, b);
    at.scales = (float *)(void *)scratch;
    at.a = scratch + scale_bytes(f, job->tall);
    if (job->shared_a) {
        at.a = job->shared_a + at.tile0 * tile_bytes(f, b);
        at.scales = job->shared_scales + at.tile0 * f.mr;
    }
    if (f.narrow) job->kernels->tiles_begin();
    for (; panel < at.last_panel; panel++) {
        int64_t k0 = 0;
        do {
            int64_t steps = min64(job->k_block, b->padded - k0);
            panel_step(job, &at, panel, k0, steps);
            k0 += steps;
        } while (k0 < b->padded);
        at.pack = false;
    }
    if (f.narrow) job->kernels->tiles_end();
}

/* Time of the slowest thread, in tiles, when blocks are dealt out evenly. The constants are the
 * cost of reading and converting a panel and of starting a block. */
static double makespan(int64_t blocks, int64_t tall, int64_t wide, int threads) {
    double one = (double)wide * ((double)tall + 0.35) + 0.15 * (double)tall + 0.1;
    return (double)ceil_div(blocks, threads) * one;
}

/* All columns in one block, rows in as few equal blocks per thread as the caches allow. */
static void choose_tall(gemm_job *job, int threads) {
    int64_t down = ceil_div(job->gemm->m, job->form.mr);
    int64_t most = most_tall(job->form, job->gemm->b);
    double best = 1e300;
    job->wide = vo_packed_panels(job->gemm->b);
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
    int64_t down = ceil_div(job->gemm->m, job->form.mr);
    int64_t across = vo_packed_panels(job->gemm->b);
    int64_t most = min64(down, BLOCK_ROWS / job->form.mr);
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
    job.form = form_of(kernels, b);
    job.scratch_bytes = scratch_bytes(kernels, gemm->m, b);
    if (gemm->m <= 0) return;
    if (is_skinny(&job)) {
        run_skinny(&job, pool);
        return;
    }
    job.k_block = k_block_size(kernels, b);
    int64_t down = ceil_div(gemm->m, job.form.mr);
    if (down <= shared_tiles(job.form, threads, gemm->m)) {
        job.shared_a = job.scratch + job.scratch_bytes * threads;
        job.shared_scales = (float *)(void *)(job.shared_a + down * tile_bytes(job.form, b));
        choose_grid(&job, threads);
        vo_pool_run(pool, down, pack_shared_tile, &job);
    } else {
        choose_tall(&job, threads);
    }
    vo_pool_run(pool, job.blocks_down * ceil_div(vo_packed_panels(b), job.wide), block_tile, &job);
}
