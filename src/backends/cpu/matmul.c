/* SPDX-License-Identifier: MIT
 *
 * Products with packed weights. Few rows stream the panels of B once. Many rows are cut into
 * blocks whose packed copy of A stays in L2 while every panel of B passes by; a column of tiles
 * is finished before the next one (matmul_block.c). Who computes an element never changes its sum.
 */
#include "backends/cpu/matmul_block.h"

enum {
    BLOCK_ROWS = 336,          /* most rows of one block */
    BLOCK_BYTES = 1024 * 1024, /* most bytes of its packed A, if that allows BLOCK_LEAST rows */
    BLOCK_LEAST = 112,
    SHARED_TILES = 3,    /* with fewer tiles per thread, all threads share one packed A */
    SKINNY_COLUMNS = 512 /* most columns of one skinny task */
};

typedef struct gemm_job {
    vo_block_job part;   /* all of k */
    int64_t tall, wide;  /* block of C in tiles of mr x nr */
    int64_t blocks_down; /* blocks from top to bottom */
    char *shared_a;      /* [ceil(m/mr)] tiles of A, or NULL when each block packs its own */
    float *shared_scales;
    int64_t shared_rows; /* from group to group of those */
    char *scratch;       /* [threads][scratch_bytes] */
    int64_t scratch_bytes;
} gemm_job;

/* Most tiles of one block. */
static int64_t most_tall(const vo_block_job *part) {
    int64_t rows = BLOCK_BYTES / (vo_max64(part->k, 1) * part->form.a_bytes);
    return vo_min64(vo_max64(rows, BLOCK_LEAST), BLOCK_ROWS) / part->form.mr;
}

static int64_t c_bytes(const vo_kernels *kernels) {
    return vo_round_line(BLOCK_ROWS * kernels->nr * (int64_t)sizeof(float));
}
static int64_t sums_bytes(const vo_block_job *part) {
    if (part->b->dtype != VO_I8) return 0;
    return part->form.mr * part->kernels->nr * (int64_t)sizeof(int32_t);
}

static bool is_skinny(const vo_block_job *part, int64_t m) {
    return !part->form.narrow && m <= VO_SKINNY_ROWS;
}

/* Bytes of one thread: a column of C, sums, a converted block, A and its scales; or a skinny strip.
 */
static int64_t scratch_bytes(const vo_block_job *part, int64_t m) {
    int64_t strip = VO_SKINNY_ROWS * SKINNY_COLUMNS * (int64_t)sizeof(float);
    int64_t tall = vo_min64(most_tall(part), vo_ceil_div(m, part->form.mr));
    if (is_skinny(part, m)) return strip;
    return vo_max64(strip, c_bytes(part->kernels) + sums_bytes(part) + vo_converted_bytes(part) +
                               tall * vo_tile_bytes(part) +
                               vo_scale_bytes(part, tall * part->form.mr));
}

/* Tiles of A that all threads may share. */
static int64_t shared_tiles(vo_form f, int threads, int64_t m) {
    return vo_min64(vo_ceil_div(m, f.mr), vo_max64(1, (int64_t)SHARED_TILES * threads));
}

size_t vo_gemm_workspace(const vo_kernels *kernels, int threads, int64_t m, const vo_packed *b) {
    const vo_block_job part = vo_block_job_of(kernels, b);
    /* Fewer rows than m may take more: those that are shared. */
    int64_t shared = shared_tiles(part.form, threads, m);
    return (size_t)(scratch_bytes(&part, m) * threads + shared * vo_tile_bytes(&part) +
                    vo_scale_bytes(&part, shared * part.form.mr));
}

/* ---- few rows, f32 and f16: straight from A ---------------------------------------------- */

static void skinny_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_gemm *g = job->part.gemm;
    const vo_packed *b = g->b;
    const vo_kernels *kernels = job->part.kernels;
    int64_t first = tile * job->wide, panels = vo_min64(job->wide, vo_packed_panels(b) - first);
    int64_t column = first * b->nr, ldc = panels * b->nr;
    float *c = (float *)(void *)(job->scratch + thread * job->scratch_bytes);
    const void *panel = vo_packed_panel(b, first, 0);
    if (b->dtype == VO_F16)
        kernels->skinny_f16(b->k, panels, g->a, g->lda, panel, c, ldc, (int)g->m);
    else
        kernels->skinny_f32(b->k, panels, g->a, g->lda, panel, c, ldc, (int)g->m);
    vo_block_finish(&job->part, 0, g->m, column, vo_min64(ldc, b->n - column), c, ldc);
}

/* B is streamed once, in a few tasks per thread, each of a multiple of the panels that a kernel
 * takes at once. */
static void run_skinny(gemm_job *job, vo_pool *pool) {
    const vo_packed *b = job->part.b;
    const int64_t panels = vo_packed_panels(b), threads = vo_pool_threads(pool);
    int64_t wide = vo_ceil_div(panels, threads * 4);
    if (wide > 1) wide = vo_ceil_div(wide, 4) * 4;
    if (threads == 1 || vo_ceil_div(panels, wide) < threads) wide = vo_ceil_div(panels, threads);
    job->wide = vo_max64(1, vo_min64(wide, SKINNY_COLUMNS / b->nr));
    vo_pool_run(pool, vo_ceil_div(panels, job->wide), skinny_tile, job);
}

/* ---- many rows --------------------------------------------------------------------------- */

static void pack_shared_tile(void *arg, int64_t tile, int thread) {
    (void)thread;
    const gemm_job *job = arg;
    vo_block_pack(&job->part, tile, job->shared_a + tile * vo_tile_bytes(&job->part),
                  job->shared_scales + tile * job->part.form.mr, job->shared_rows);
}

static void block_tile(void *arg, int64_t tile, int thread) {
    const gemm_job *job = arg;
    const vo_block_job *part = &job->part;
    const vo_form f = part->form;
    char *scratch = job->scratch + thread * job->scratch_bytes;
    int64_t panel = tile / job->blocks_down * job->wide;
    vo_block at = {.tile0 = tile % job->blocks_down * job->tall, .pack = !job->shared_a};
    at.rows = vo_min64(job->tall * f.mr, part->gemm->m - at.tile0 * f.mr);
    at.last_panel = vo_min64(panel + job->wide, vo_packed_panels(part->b));
    at.c = (float *)(void *)scratch;
    scratch += c_bytes(part->kernels);
    at.sums = (int32_t *)(void *)scratch;
    scratch += sums_bytes(part);
    at.converted = scratch;
    scratch += vo_converted_bytes(part);
    at.scales = (float *)(void *)scratch;
    at.scale_rows = job->tall * f.mr;
    at.a = scratch + vo_scale_bytes(part, at.scale_rows);
    if (job->shared_a) {
        at.a = job->shared_a + at.tile0 * vo_tile_bytes(part);
        at.scales = job->shared_scales + at.tile0 * f.mr;
        at.scale_rows = job->shared_rows;
    }
    if (f.narrow) part->kernels->tiles_begin();
    for (; panel < at.last_panel; panel++) vo_block_panel(part, &at, panel, false, true);
    if (f.narrow) part->kernels->tiles_end();
}

/* Time of the slowest thread, in tiles, when blocks are dealt out evenly. The constants are the
 * cost of reading and converting a panel and of starting a block. */
static double makespan(int64_t blocks, int64_t tall, int64_t wide, int threads) {
    double one = (double)wide * ((double)tall + 0.35) + 0.15 * (double)tall + 0.1;
    return (double)vo_ceil_div(blocks, threads) * one;
}

/* All columns in one block, rows in as few equal blocks per thread as the caches allow. */
static void choose_tall(gemm_job *job, int threads) {
    int64_t down = vo_ceil_div(job->part.gemm->m, job->part.form.mr);
    int64_t most = most_tall(&job->part);
    double best = 1e300;
    job->wide = vo_packed_panels(job->part.b);
    int64_t first = vo_ceil_div(vo_ceil_div(down, most), threads);
    for (int64_t rounds = first; rounds < first + 4; rounds++) {
        int64_t tall = vo_ceil_div(down, rounds * threads);
        double time = makespan(vo_ceil_div(down, tall), tall, job->wide, threads);
        if (time < best) {
            best = time;
            job->tall = tall;
        }
    }
    job->blocks_down = vo_ceil_div(down, job->tall);
}

/* Few rows: blocks in both directions over one packed A. */
static void choose_grid(gemm_job *job, int threads) {
    int64_t down = vo_ceil_div(job->part.gemm->m, job->part.form.mr);
    int64_t across = vo_packed_panels(job->part.b);
    int64_t most = vo_min64(down, BLOCK_ROWS / job->part.form.mr);
    double best = 1e300;
    for (int64_t wide = 1; wide <= 16 && wide <= across; wide *= 2) {
        for (int64_t parts = vo_ceil_div(down, most); parts <= down; parts *= 2) {
            int64_t tall = vo_ceil_div(down, parts);
            int64_t blocks = vo_ceil_div(down, tall) * vo_ceil_div(across, wide);
            double time = makespan(blocks, tall, wide, threads);
            if (time < best) {
                best = time;
                job->tall = tall;
                job->wide = wide;
            }
        }
    }
    job->blocks_down = vo_ceil_div(down, job->tall);
}

void vo_gemm_run(const vo_gemm *gemm, const vo_kernels *kernels, vo_pool *pool, void *workspace) {
    const vo_packed *b = gemm->b;
    const int threads = vo_pool_threads(pool);
    gemm_job job = {.part = vo_block_job_of(kernels, b), .scratch = workspace};
    const vo_form f = job.part.form;
    job.part.gemm = gemm;
    job.scratch_bytes = scratch_bytes(&job.part, gemm->m);
    if (gemm->m <= 0) return;
    if (is_skinny(&job.part, gemm->m)) {
        run_skinny(&job, pool);
        return;
    }
    const int64_t down = vo_ceil_div(gemm->m, f.mr);
    if (down <= shared_tiles(f, threads, gemm->m)) {
        job.shared_a = job.scratch + job.scratch_bytes * threads;
        job.shared_scales = (float *)(void *)(job.shared_a + down * vo_tile_bytes(&job.part));
        job.shared_rows = down * f.mr;
        choose_grid(&job, threads);
        vo_pool_run(pool, down, pack_shared_tile, &job);
    } else {
        choose_tall(&job, threads);
    }
    vo_pool_run(pool, job.blocks_down * vo_ceil_div(vo_packed_panels(b), job.wide), block_tile,
                &job);
}
