/* SPDX-License-Identifier: MIT
 *
 * Attention over heads and batch, split over threads.
 */
#ifndef VO_BACKENDS_CPU_ATTENTION_H
#define VO_BACKENDS_CPU_ATTENTION_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "tensor/array.h"

/* Every position sees every other (encoder). q, k, v, out: [batch*t][heads*hd] with row strides. */
typedef struct vo_attend_full {
    int64_t batch, t, heads, hd;
    vo_compute compute; /* what its products may be in; the kernels and hd decide */
    float scale;
    const float *q, *k, *v;
    int64_t ldq, ldk, ldv;
    float *out;
    int64_t ldo;
} vo_attend_full;
/* Bytes of workspace: K and V of some heads of one batch item in panels, and scratch. Of args only
 * t, heads, hd and compute count. */
size_t vo_attend_full_workspace(const vo_attend_full *args, const vo_kernels *kernels, int threads);
void vo_attend_full_run(const vo_attend_full *args, const vo_kernels *kernels, vo_pool *pool,
                        void *workspace);

/* Queries against caches (decoder, self and cross). Query i belongs to sequence seq[i] and
 * sees its first len[i] positions. k, v: [heads][slots][hd] of f32, f16 or s8; position p of
 * sequence s lies in slot table[s*max_len + p], or s*max_len + p when table is NULL. */
typedef struct vo_attend_cached {
    int64_t rows, heads, hd, slots, max_len;
    float scale;
    const float *q;
    int64_t ldq;
    vo_dtype dtype; /* of the caches */
    const void *k, *v;
    const float *k_scales, *v_scales; /* s8: [heads][slots] */
    const int32_t *table, *seq, *len;
    float *out;
    int64_t ldo;
} vo_attend_cached;
size_t vo_attend_cached_workspace(int threads, int64_t max_len);
void vo_attend_cached_run(const vo_attend_cached *args, const vo_kernels *kernels, vo_pool *pool,
                          void *workspace);

/* The weights of one head instead of what they weigh: out [rows][max_len], 0 from len[i] on. k and
 * k_scales are those of the head: [slots][hd], [slots]; position p of sequence s lies in slot
 * s*max_len + p. */
typedef struct vo_weigh_cached {
    int64_t rows, hd, max_len;
    float scale;
    const float *q;
    int64_t ldq;
    vo_dtype dtype; /* of the cache */
    const void *k;
    const float *k_scales;
    const int32_t *seq, *len;
    float *out;
    int64_t ldo;
} vo_weigh_cached;
void vo_weigh_cached_run(const vo_weigh_cached *args, const vo_kernels *kernels, vo_pool *pool);

#endif
