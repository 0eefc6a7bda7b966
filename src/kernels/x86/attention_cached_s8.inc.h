/* SPDX-License-Identifier: MIT
 *
 * Attention over a cache of s8 in integers: keys and values are multiplied as they are stored, by
 * queries and weights of 15 or 16 bits. Widening them to floats takes longer than reading them.
 * Heads have 64 values; others and the longest caches go to VO_OTHERWISE, which can do all.
 *
 * Before it: a vec_*.h, kernels/ask.h, kernels/unroll.h, VO_FN, VO_OTHERWISE, and
 *   Q_MAX, W_MAX    the largest value of a query and of a weight
 *   W_SUM           the most that weights of one query may add up to
 *   LEN_MAX         the longest cache that sums have room for
 *   TOGETHER        rows that are widened together; they make a group of a block
 *   s8_query        what a query becomes, with its `scale`; take_query(query, q, up) fills in the
 *                   rest, q times up rounded
 *   s8_sums         sums of one query over values; zeros to begin with
 *   s8_wide         a group of rows as sums want it: widen(rows, &wide)
 *   s8_weights      weights of a block: take_weights(w, up), w times up rounded
 *   row_scores(k, q, ahead)  products of a query and the rows of a block, times the query's scale;
 *                   asks for the rows from `ahead` on, one a product
 *   mix_group(wide, g, weights, sums)  adds a group's rows times their weights
 *   write_out(sums, scale, out)
 */
#include "kernels/simd/load.inc.h"

enum {
    HD = 64,
    ROWS = VF_LANES, /* of a block: their scores are one vector */
    AHEAD = 32       /* rows between what is used and what is asked for */
};

/* Rows that lie side by side; those from n on are zeros, and `copy` is where they lie if they are
 * gathered. */
typedef struct s8_rows {
    const int8_t *at;
    const int8_t *ahead; /* the rows that are read AHEAD rows later; they need not exist */
    int n;
    int8_t copy[ROWS * HD];
} s8_rows;

/* After the last row comes `next`. */
static inline void take_rows(s8_rows *rows, const int8_t *base, const int32_t *table, int64_t t,
                             int64_t len, const int8_t *next) {
    const int64_t later = t + AHEAD;
    rows->ahead = later < len ? base + later * HD : next + (later - len) * HD;
    rows->n = len - t < ROWS ? (int)(len - t) : ROWS;
    rows->at = base + t * HD;
    if (!table && rows->n == ROWS) return;
    for (int i = 0; i < ROWS; i++)
        if (i < rows->n)
            memcpy(rows->copy + i * HD, base + (table ? table[t + i] : t + i) * (int64_t)HD, HD);
        else
            memset(rows->copy + i * HD, 0, HD);
    rows->at = rows->copy;
}

/* Masks are slow on some processors, and hardly ever needed. */
static inline void store_some(float *p, vf x, int n) {
    if (n == ROWS)
        v_store(p, x);
    else
        v_store_n(p, x, n);
}

/* 1 / scale, or 0 where that says nothing: what is smaller than all floats is as good as zero. */
static inline float inverse_of(float scale) {
    const float inverse = 1.0f / scale;
    return isfinite(inverse) ? inverse : 0.0f;
}

/* A query with a value that is not finite has the scale NaN. */
static void scale_query(s8_query *query, const float *q) {
    vf max = v_abs(v_load(q));
    for (int d = VF_LANES; d < HD; d += VF_LANES) max = v_max_bits(max, v_abs(v_load(q + d)));
    const float scale = v_hmax_bits(max) / (float)Q_MAX;
    *query = (s8_query){.scale = NAN};
    if (!isfinite(scale)) return;
    take_query(query, q, inverse_of(scale));
    query->scale = scale;
}

static void all_scores(int64_t nq, int64_t len, float scale, const s8_query *q, const int8_t *k,
                       const float *k_scales, const int8_t *v, const int32_t *table,
                       float *scores) {
    s8_rows rows;
    for (int64_t t = 0; t < len; t += ROWS) {
        float scales[ROWS];
        take_rows(&rows, k, table, t, len, v);
        for (int i = 0; i < rows.n; i++) scales[i] = scale * k_scales[table ? table[t + i] : t + i];
        for (int64_t i = 0; i < nq; i++)
            store_some(scores + i * len + t,
                       v_mul(row_scores(rows.at, q + i, i ? rows.at : rows.ahead),
                             load_most(scales, rows.n)),
                       rows.n);
    }
}

/* Weights of a row times the row's scale, in place. What 1 is in whole numbers, or NaN where one is
 * not finite. */
static float scale_weights(int64_t len, const float *v_scales, const int32_t *table, float *w) {
    vf max = v_set(0.0f), sum = v_set(0.0f);
    for (int64_t t = 0; t < len; t += ROWS) {
        const int n = len - t < ROWS ? (int)(len - t) : ROWS;
        float gathered[ROWS];
        for (int i = 0; table && i < n; i++) gathered[i] = v_scales[table[t + i]];
        const vf x = v_mul(load_most(w + t, n), load_most(table ? gathered : v_scales + t, n));
        store_some(w + t, x, n);
        max = v_max_bits(max, v_abs(x));
        sum = v_add(sum, v_abs(x));
    }
    const float total = v_sum(sum);
    return isfinite(total) ? fmaxf(v_hmax_bits(max) / (float)W_MAX, total / (float)W_SUM) : NAN;
}

/* w: [len], in steps of scale */
static void mix(int64_t len, const float *w, float scale, const int8_t *k, const int8_t *v,
                const int32_t *table, float *out) {
    const float up = inverse_of(scale);
    s8_sums sums = {0};
    s8_rows rows;
    for (int64_t t = 0; t < len; t += ROWS) {
        take_rows(&rows, v, table, t, len, k + len * HD);
        const s8_weights weights = take_weights(load_most(w + t, rows.n), up);
        VO_UNROLL for (int g = 0; g < ROWS / TOGETHER; g++) {
            const int from = g * TOGETHER * HD;
            s8_wide wide;
            VO_UNROLL for (int i = 0; i < TOGETHER; i++) vo_ask_line(rows.ahead + from + i * HD);
            widen(rows.at + from, &wide);
            mix_group(&wide, g, &weights, &sums);
        }
    }
    write_out(&sums, scale, out);
}

void VO_FN(attend_cached_s8)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                             int64_t ldq, const int8_t *k, const float *k_scales, const int8_t *v,
                             const float *v_scales, const int32_t *table, float *out, int64_t ldo,
                             float *scores) {
    s8_query queries[VO_SKINNY_ROWS];
    if (hd != HD || len > LEN_MAX) {
        VO_OTHERWISE(attend_cached_s8)
        (nq, len, hd, scale, q, ldq, k, k_scales, v, v_scales, table, out, ldo, scores);
        return;
    }
    for (int64_t i = 0; i < nq; i++) scale_query(queries + i, q + i * ldq);
    all_scores(nq, len, scale, queries, k, k_scales, v, table, scores);
    VO_OTHERWISE(softmax)(nq, len, scores, len, scores, len);
    for (int64_t i = 0; i < nq; i++) {
        float *w = scores + i * len, step = scale_weights(len, v_scales, table, w);
        if (!isfinite(queries[i].scale)) step = NAN;
        mix(len, w, step, k, v, table, out + i * ldo);
    }
}
