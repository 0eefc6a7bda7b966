/* SPDX-License-Identifier: MIT
 *
 * Attention over heads and batch. The encoder's keys and values are packed into panels once per
 * batch item, for all heads, and then every block of queries of every head is a task. The
 * decoder's queries are tasks of up to VO_SKINNY_ROWS neighbours that see the same positions,
 * so that a cache is read once for all beams.
 */
#include "backends/cpu/attention.h"

#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t round16(int64_t n) {
    return ceil_div(n, 16) * 16;
}

/* ---- every position sees every other --------------------------------------------------- */

typedef enum arithmetic { IN_F32, IN_BF16, IN_S8 } arithmetic;

typedef struct full_job {
    const vo_attend_full *args;
    const vo_kernels *kernels;
    int64_t item;   /* of the batch */
    int64_t head0;  /* first of the heads in work */
    float *packed;  /* [heads_at_once][head_floats] */
    float *scratch; /* [threads][scratch_floats] */
    arithmetic in;
    int64_t keys_floats, head_floats, scratch_floats;
    int64_t block_floats; /* not of IN_F32 */
} full_job;

/* f32: a head is keys [ceil(t/mr)][hd][mr], then values [ceil(hd/mr)][t][mr]. */
static void set_sizes(full_job *job, const vo_kernels *kernels, int64_t t, int64_t hd) {
    job->keys_floats = round16(ceil_div(t, kernels->mr) * kernels->mr * hd);
    job->head_floats = job->keys_floats + round16(ceil_div(hd, kernels->mr) * kernels->mr * t);
    job->scratch_floats = round16(vo_attend_scratch(kernels, hd));
}
/* bf16 and s8: a head is a block for every VO_ATTEND_BF16_KEYS positions. */
static void set_low_sizes(full_job *job, size_t block, int64_t t) {
    job->block_floats = (int64_t)(block / sizeof(float));
    job->head_floats = ceil_div(t, VO_ATTEND_BF16_KEYS) * job->block_floats;
    job->scratch_floats = round16(VO_ATTEND_BF16_SCRATCH);
}

/* Products of bytes go with attention in bytes, and those of fewer bits where there is no bf16. */
static arithmetic arithmetic_of(const vo_attend_full *args, const vo_kernels *kernels) {
    if (args->hd != VO_ATTEND_BF16_HD || args->compute == VO_COMPUTE_F32) return IN_F32;
    if (args->compute == VO_COMPUTE_INT8 && kernels->attn_s8) return IN_S8;
    if (kernels->attn_bf16) return IN_BF16;
    return args->compute == VO_COMPUTE_INT4 && kernels->attn_s8 ? IN_S8 : IN_F32;
}

/* Enough heads to keep all threads busy; packing all of them would take as much memory as the keys
 * and values themselves. */
static int64_t heads_at_once(const vo_attend_full *args, int threads) {
    return min64(args->heads, 2 * (int64_t)threads);
}

static void set_full_sizes(full_job *job, const vo_attend_full *args, const vo_kernels *kernels) {
    job->in = arithmetic_of(args, kernels);
    if (job->in == IN_BF16)
        set_low_sizes(job, VO_ATTEND_BF16_BLOCK * sizeof(uint16_t), args->t);
    else if (job->in == IN_S8)
        set_low_sizes(job, sizeof(vo_attend_s8), args->t);
    else
        set_sizes(job, kernels, args->t, args->hd);
}

size_t vo_attend_full_workspace(const vo_attend_full *args, const vo_kernels *kernels,
                                int threads) {
    full_job job = {0};
    set_full_sizes(&job, args, kernels);
    return (size_t)(heads_at_once(args, threads) * job.head_floats + threads * job.scratch_floats) *
           sizeof(float);
}

static float *packed_head(const full_job *job, int64_t head) {
    return job->packed + (head - job->head0) * job->head_floats;
}

/* Rows [t0, t1) of V of one head into panels of mr columns. */
static void pack_values(const full_job *job, const float *v, int64_t t0, int64_t t1,
                        float *panels) {
    const vo_attend_full *a = job->args;
    const int64_t mr = job->kernels->mr;
    for (int64_t d = 0; d < a->hd; d += mr) {
        int64_t wide = min64(mr, a->hd - d);
        float *panel = panels + d * a->t;
        for (int64_t t = t0; t < t1; t++)
            for (int64_t j = 0; j < mr; j++)
                panel[t * mr + j] = j < wide ? v[t * a->ldv + d + j] : 0.0f;
    }
}

/* One tile: VO_ATTEND_KEYS positions of one head. */
static void pack_tile(void *arg, int64_t tile, int thread) {
    (void)thread;
    const full_job *job = arg;
    const vo_attend_full *a = job->args;
    const int64_t mr = job->kernels->mr, chunks = ceil_div(a->t, VO_ATTEND_KEYS);
    int64_t head = job->head0 + tile / chunks, t0 = tile % chunks * VO_ATTEND_KEYS;
    int64_t t1 = min64(a->t, t0 + VO_ATTEND_KEYS);
    const float *k = a->k + job->item * a->t * a->ldk + head * a->hd;
    const float *v = a->v + job->item * a->t * a->ldv + head * a->hd;
    float *packed = packed_head(job, head);
    for (int64_t t = t0; t < t1; t += mr)
        job->kernels->gemm_pack_a(a->hd, (int)min64(mr, t1 - t), k + t * a->ldk, a->ldk,
                                  packed + t * a->hd);
    pack_values(job, v, t0, t1, packed + job->keys_floats);
}

static void full_tile(void *arg, int64_t tile, int thread) {
    const full_job *job = arg;
    const vo_attend_full *a = job->args;
    const int64_t block = job->kernels->attn_queries, blocks = ceil_div(a->t, block);
    int64_t head = job->head0 + tile / blocks, i = tile % blocks * block;
    int64_t row = job->item * a->t + i;
    const float *packed = packed_head(job, head);
    job->kernels->attend_block(min64(block, a->t - i), a->t, a->hd, a->scale,
                               a->q + row * a->ldq + head * a->hd, a->ldq, packed,
                               packed + job->keys_floats, a->out + row * a->ldo + head * a->hd,
                               a->ldo, job->scratch + thread * job->scratch_floats);
}

static void *low_block(const full_job *job, int64_t head, int64_t block) {
    return packed_head(job, head) + block * job->block_floats;
}

static void pack_low_tile(void *arg, int64_t tile, int thread) {
    const full_job *job = arg;
    const vo_attend_full *a = job->args;
    const int64_t blocks = ceil_div(a->t, VO_ATTEND_BF16_KEYS);
    int64_t head = job->head0 + tile / blocks, block = tile % blocks,
            t = block * VO_ATTEND_BF16_KEYS;
    const int n = (int)min64(VO_ATTEND_BF16_KEYS, a->t - t);
    const float *k = a->k + (job->item * a->t + t) * a->ldk + head * a->hd;
    const float *v = a->v + (job->item * a->t + t) * a->ldv + head * a->hd;
    if (job->in == IN_BF16)
        job->kernels->attend_pack_bf16(n, k, a->ldk, v, a->ldv, low_block(job, head, block));
    else
        job->kernels->attend_pack_s8(n, k, a->ldk, v, a->ldv, low_block(job, head, block));
}

static void low_tile(void *arg, int64_t tile, int thread) {
    const full_job *job = arg;
    const vo_attend_full *a = job->args;
    const int64_t block = VO_ATTEND_BF16_QUERIES, blocks = ceil_div(a->t, block);
    int64_t head = job->head0 + tile / blocks, i = tile % blocks * block;
    int64_t row = job->item * a->t + i, nq = min64(block, a->t - i);
    const float *q = a->q + row * a->ldq + head * a->hd;
    float *out = a->out + row * a->ldo + head * a->hd;
    float *scratch = job->scratch + thread * job->scratch_floats;
    if (job->in == IN_S8) {
        job->kernels->attend_block_s8(nq, a->t, a->scale, q, a->ldq, low_block(job, head, 0), out,
                                      a->ldo, scratch);
        return;
    }
    job->kernels->tiles_begin();
    job->kernels->attend_block_bf16(nq, a->t, a->scale, q, a->ldq, low_block(job, head, 0), out,
                                    a->ldo, scratch);
    job->kernels->tiles_end();
}

void vo_attend_full_run(const vo_attend_full *args, const vo_kernels *kernels, vo_pool *pool,
                        void *workspace) {
    full_job job = {.args = args, .kernels = kernels, .packed = workspace};
    set_full_sizes(&job, args, kernels);
    const bool low = job.in != IN_F32;
    const int64_t keys = low ? VO_ATTEND_BF16_KEYS : VO_ATTEND_KEYS;
    const int64_t queries = low ? VO_ATTEND_BF16_QUERIES : kernels->attn_queries;
    const int64_t group = heads_at_once(args, vo_pool_threads(pool));
    job.scratch = job.packed + group * job.head_floats;
    for (; job.item < args->batch; job.item++)
        for (job.head0 = 0; job.head0 < args->heads; job.head0 += group) {
            const int64_t heads = min64(group, args->heads - job.head0);
            vo_pool_run(pool, heads * ceil_div(args->t, keys), low ? pack_low_tile : pack_tile,
                        &job);
            vo_pool_run(pool, heads * ceil_div(args->t, queries), low ? low_tile : full_tile, &job);
        }
}

/* ---- a cache --------------------------------------------------------------------------- */

typedef struct cached_job {
    const vo_attend_cached *args;
    const vo_kernels *kernels;
    float *scores; /* [threads][scores_floats] */
    int64_t scores_floats;
    int64_t group; /* most queries of one task */
} cached_job;

static int64_t scores_floats(int64_t max_len) {
    return round16(VO_SKINNY_ROWS * max_len);
}

size_t vo_attend_cached_workspace(int threads, int64_t max_len) {
    return (size_t)(threads * scores_floats(max_len)) * sizeof(float);
}

/* A run of rows with the same view is cut into groups; the first row of a group does the work of
 * all: as many as this, 0 for the others. */
static int64_t rows_of_group(const int32_t *seq, const int32_t *len, int64_t rows, int64_t group,
                             int64_t row) {
    int64_t first = row, count = 1;
    while (first > 0 && seq[first - 1] == seq[row] && len[first - 1] == len[row]) first--;
    if ((row - first) % group != 0) return 0;
    while (count < group && row + count < rows && seq[row + count] == seq[row] &&
           len[row + count] == len[row])
        count++;
    return count;
}

/* One tile: one row of one head. */
static void cached_tile(void *arg, int64_t tile, int thread) {
    const cached_job *job = arg;
    const vo_attend_cached *a = job->args;
    int64_t head = tile / a->rows, row = tile % a->rows;
    const int64_t count = rows_of_group(a->seq, a->len, a->rows, job->group, row);
    if (!count) return;
    int64_t start = a->seq[row] * a->max_len, base = head * a->slots * a->hd;
    const int32_t *table = a->table ? a->table + start : NULL;
    /* Without a table the sequence's positions are neighbours. */
    if (!table) base += start * a->hd;
    const float *q = a->q + row * a->ldq + head * a->hd;
    float *out = a->out + row * a->ldo + head * a->hd;
    float *scores = job->scores + thread * job->scores_floats;
    const int64_t scales = head * a->slots + (table ? 0 : start);
    if (a->dtype == VO_I8)
        job->kernels->attend_cached_s8(count, a->len[row], a->hd, a->scale, q, a->ldq,
                                       (const int8_t *)a->k + base, a->k_scales + scales,
                                       (const int8_t *)a->v + base, a->v_scales + scales, table,
                                       out, a->ldo, scores);
    else if (a->dtype == VO_F16)
        job->kernels->attend_cached_f16(count, a->len[row], a->hd, a->scale, q, a->ldq,
                                        (const uint16_t *)a->k + base,
                                        (const uint16_t *)a->v + base, table, out, a->ldo, scores);
    else
        job->kernels->attend_cached(count, a->len[row], a->hd, a->scale, q, a->ldq,
                                    (const float *)a->k + base, (const float *)a->v + base, table,
                                    out, a->ldo, scores);
}

void vo_attend_cached_run(const vo_attend_cached *args, const vo_kernels *kernels, vo_pool *pool,
                          void *workspace) {
    cached_job job = {.args = args, .kernels = kernels, .scores = workspace};
    job.scores_floats = scores_floats(args->max_len);
    /* Sharing a cache is worth less than keeping every thread busy. */
    job.group = args->rows * args->heads / vo_pool_threads(pool);
    if (job.group < 1) job.group = 1;
    if (job.group > VO_SKINNY_ROWS) job.group = VO_SKINNY_ROWS;
    vo_pool_run(pool, args->rows * args->heads, cached_tile, &job);
}

/* ---- what a head looks at ---------------------------------------------------------------- */

typedef struct weigh_job {
    const vo_weigh_cached *args;
    const vo_kernels *kernels;
} weigh_job;

static void weigh_tile(void *arg, int64_t row, int thread) {
    (void)thread;
    const weigh_job *job = arg;
    const vo_weigh_cached *a = job->args;
    const int64_t count = rows_of_group(a->seq, a->len, a->rows, VO_SKINNY_ROWS, row);
    if (!count) return;
    const int64_t len = a->len[row], start = a->seq[row] * a->max_len, base = start * a->hd;
    const float *q = a->q + row * a->ldq;
    float *out = a->out + row * a->ldo;
    if (a->dtype == VO_I8)
        job->kernels->weigh_cached_s8(count, len, a->hd, a->scale, q, a->ldq,
                                      (const int8_t *)a->k + base, a->k_scales + start, out,
                                      a->ldo);
    else if (a->dtype == VO_F16)
        job->kernels->weigh_cached_f16(count, len, a->hd, a->scale, q, a->ldq,
                                       (const uint16_t *)a->k + base, out, a->ldo);
    else
        job->kernels->weigh_cached(count, len, a->hd, a->scale, q, a->ldq,
                                   (const float *)a->k + base, out, a->ldo);
    for (int64_t i = 0; i < count; i++)
        memset(out + i * a->ldo + len, 0, (size_t)(a->max_len - len) * sizeof *out);
}

void vo_weigh_cached_run(const vo_weigh_cached *args, const vo_kernels *kernels, vo_pool *pool) {
    weigh_job job = {args, kernels};
    vo_pool_run(pool, args->rows, weigh_tile, &job);
}
