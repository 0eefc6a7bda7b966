/* SPDX-License-Identifier: MIT
 *
 * Attention over a cache, written once for any vector and for caches of f32, f16 and s8: what is
 * narrower is widened as it is loaded, and all arithmetic is f32; scales of s8 rows go into scores.
 * The work is bound by reading the cache. So rows are asked for long before they are used, and
 * several queries share a block of them while it is in L1, in its wide form.
 *
 * Before it: a vec_*.h, kernels/unroll.h, VO_FN, and
 *   v_sum_each(x)  the vector whose lane i is the sum of the lanes of x[i]
 */

enum {
    CACHED_ROWS = VF_LANES < 8 ? 8 : VF_LANES, /* of a block: as many chains of sums */
    CACHED_HD = 64,                            /* the usual size of a head */
    CACHED_AHEAD = 32,                         /* rows between what is used and what is asked for */
    MIX_WIDE = 64 / VF_LANES < 8 ? 64 / VF_LANES : 8, /* vectors of a row at a time */
    MIX_QUERIES = 8 / MIX_WIDE                        /* eight chains hide the latency of fma */
};

/* n <= CACHED_ROWS rows of hd elements: row i is rows[i] of base, or i when rows is NULL; rows that
 * may be asked for in advance end before `end`. cell: bytes of an element, 4 for f32, 2 for f16, 1
 * for s8. What is constant in a caller is so in everything inlined into it. */
typedef struct cached_block {
    const void *base;
    const int32_t *rows;
    int64_t hd;
    int64_t end;
    int n, cell;
} cached_block;

/* The block at position t of len. */
VO_INLINE cached_block cached_take(const int cell, const void *base, const int32_t *table,
                                   int64_t t, int64_t len, int64_t hd) {
    const char *start = (const char *)base + (table ? 0 : t * hd * cell);
    const int n = len - t < CACHED_ROWS ? (int)(len - t) : CACHED_ROWS;
    return (cached_block){start, table ? table + t : NULL, hd, table ? len - t : INT64_MAX, n,
                          cell};
}

VO_INLINE int64_t cached_at(const cached_block *b, int row) {
    return (b->rows ? b->rows[row] : row) * b->hd;
}
VO_INLINE vf cached_load(const cached_block *b, int64_t i) {
    if (b->cell == 1) return v_load_s8((const int8_t *)b->base + i);
    return b->cell == 2 ? v_load_f16((const uint16_t *)b->base + i)
                        : v_load((const float *)b->base + i);
}
VO_INLINE vf cached_load_n(const cached_block *b, int64_t i, int n) {
    if (b->cell == 1) return v_load_s8_n((const int8_t *)b->base + i, n);
    return b->cell == 2 ? v_load_f16_n((const uint16_t *)b->base + i, n)
                        : v_load_n((const float *)b->base + i, n);
}

/* Asks for the row CACHED_AHEAD rows after row `row`; without a table it need not exist. One at a
 * time between the arithmetic, because a burst fills the queue of outstanding reads; into L2,
 * because the queue of L1 is a short one. */
VO_INLINE void cached_prefetch(const cached_block *b, int row) {
    if (CACHED_AHEAD + row >= b->end) return;
    const int64_t size = b->cell, at = cached_at(b, CACHED_AHEAD + row);
    for (int64_t i = 0; i < b->hd; i += 64 / size)
        __builtin_prefetch((const char *)b->base + (at + i) * size, 0, 2);
}

/* Scores of one query with the first n rows of the block, one accumulator per row; the last row is
 * repeated for those that are missing. */
VO_INLINE void cached_scores(const cached_block *k, const int n, float scale, const float *q,
                             float *scores) {
    vf sum[CACHED_ROWS];
    VO_UNROLL for (int i = 0; i < CACHED_ROWS; i++) sum[i] = v_set(0.0f);
    int64_t d = 0;
    for (; d + VF_LANES <= k->hd; d += VF_LANES) {
        const vf x = v_load(q + d);
        for (int64_t i = d / VF_LANES; i < CACHED_ROWS; i += k->hd / VF_LANES)
            cached_prefetch(k, (int)i);
        VO_UNROLL for (int i = 0; i < CACHED_ROWS; i++) sum[i] =
            v_fma(x, cached_load(k, cached_at(k, i < n ? i : n - 1) + d), sum[i]);
    }
    if (d < k->hd) {
        const int rest = (int)(k->hd - d);
        const vf x = v_load_n(q + d, rest);
        VO_UNROLL for (int i = 0; i < CACHED_ROWS; i++) sum[i] =
            v_fma(x, cached_load_n(k, cached_at(k, i < n ? i : n - 1) + d, rest), sum[i]);
    }
    VO_UNROLL for (int i = 0; i < CACHED_ROWS; i += VF_LANES) {
        const int wide = n - i < VF_LANES ? n - i : VF_LANES;
        if (wide > 0) v_store_n(scores + i, v_mul(v_set(scale), v_sum_each(sum + i)), wide);
    }
}

/* out[i][d..d + wide * VF_LANES) += sum over the rows of p[i][t] v[t] for i < queries; wide and
 * queries are constants. */
VO_INLINE void mix_columns(const cached_block *v, const int wide, const int queries, const float *p,
                           int64_t ldp, int64_t d, float *out, int64_t ldo) {
    vf sum[8];
    VO_UNROLL for (int i = 0; i < queries * wide; i++) sum[i] =
        v_load(out + i / wide * ldo + d + i % wide * VF_LANES);
    for (int t = 0; t < v->n; t++) {
        const int64_t row = cached_at(v, t) + d;
        if (d == 0) cached_prefetch(v, t);
        VO_UNROLL for (int j = 0; j < wide; j++) {
            const vf x = cached_load(v, row + j * VF_LANES);
            VO_UNROLL for (int i = 0; i < queries; i++) sum[i * wide + j] =
                v_fma(v_set(p[i * ldp + t]), x, sum[i * wide + j]);
        }
    }
    VO_UNROLL for (int i = 0; i < queries * wide; i++)
        v_store(out + i / wide * ldo + d + i % wide * VF_LANES, sum[i]);
}

VO_INLINE void cached_mix(const cached_block *v, const int queries, const float *p, int64_t ldp,
                          float *out, int64_t ldo) {
    int64_t d = 0;
    for (; d + MIX_WIDE * VF_LANES <= v->hd; d += MIX_WIDE * VF_LANES)
        mix_columns(v, MIX_WIDE, queries, p, ldp, d, out, ldo);
    for (; d + VF_LANES <= v->hd; d += VF_LANES) mix_columns(v, 1, queries, p, ldp, d, out, ldo);
    if (d == v->hd) return;
    const int rest = (int)(v->hd - d);
    for (int i = 0; i < queries; i++) {
        vf sum = v_load_n(out + i * ldo + d, rest);
        for (int t = 0; t < v->n; t++)
            sum = v_fma(v_set(p[i * ldp + t]), cached_load_n(v, cached_at(v, t) + d, rest), sum);
        v_store_n(out + i * ldo + d, sum, rest);
    }
}

/* The block in f32, its rows one after the other. wide: [n][hd] */
VO_INLINE cached_block cached_widen(const cached_block *b, float *wide) {
    for (int t = 0; t < b->n; t++) {
        const int64_t row = cached_at(b, t);
        float *to = wide + t * b->hd;
        int64_t d = 0;
        cached_prefetch(b, t);
        for (; d + VF_LANES <= b->hd; d += VF_LANES) v_store(to + d, cached_load(b, row + d));
        if (d < b->hd)
            v_store_n(to + d, cached_load_n(b, row + d, (int)(b->hd - d)), (int)(b->hd - d));
    }
    return (cached_block){wide, NULL, b->hd, 0, b->n, 4};
}

VO_INLINE void block_scores(const cached_block *k, int64_t nq, float scale, const float *q,
                            int64_t ldq, float *scores, int64_t lds) {
    for (int64_t i = 0; i < nq; i++)
        if (k->n == CACHED_ROWS)
            cached_scores(k, CACHED_ROWS, scale, q + i * ldq, scores + i * lds);
        else
            cached_scores(k, k->n, scale, q + i * ldq, scores + i * lds);
}

/* A block is widened once when several queries share it. */
VO_INLINE bool is_shared(const int cell, int64_t nq, int64_t hd) {
    return cell < 4 && nq > 1 && hd <= CACHED_HD;
}

/* Scores of all queries with all positions: [nq][len], stride lds. */
VO_INLINE void all_scores(const int cell, int64_t nq, int64_t len, int64_t hd, float scale,
                          const float *q, int64_t ldq, const void *k, const int32_t *table,
                          float *scores, int64_t lds) {
    float wide[CACHED_ROWS * CACHED_HD];
    for (int64_t t = 0; t < len; t += CACHED_ROWS) {
        const cached_block block = cached_take(cell, k, table, t, len, hd);
        if (is_shared(cell, nq, hd)) {
            const cached_block copy = cached_widen(&block, wide);
            block_scores(&copy, nq, scale, q, ldq, scores + t, lds);
        } else {
            block_scores(&block, nq, scale, q, ldq, scores + t, lds);
        }
    }
}

VO_INLINE void block_mix(const cached_block *v, int64_t nq, const float *p, int64_t len, float *out,
                         int64_t ldo) {
    int64_t i = 0;
    for (; i + MIX_QUERIES <= nq; i += MIX_QUERIES)
        cached_mix(v, MIX_QUERIES, p + i * len, len, out + i * ldo, ldo);
    for (; i < nq; i++) cached_mix(v, 1, p + i * len, len, out + i * ldo, ldo);
}

/* What one call reads; scales are those of s8, else NULL. */
typedef struct cached_pair {
    const void *k, *v;
    const float *k_scales, *v_scales;
    const int32_t *table;
} cached_pair;

/* scores[i][t] *= scales[row of t] */
VO_INLINE void scale_scores(int64_t nq, int64_t len, const float *scales, const int32_t *table,
                            float *scores, int64_t lds) {
    for (int64_t i = 0; i < nq; i++)
        if (table)
            for (int64_t t = 0; t < len; t++) scores[i * lds + t] *= scales[table[t]];
        else
            for (int64_t t = 0; t < len; t++) scores[i * lds + t] *= scales[t];
}

VO_INLINE void attend_cache(const int cell, int64_t nq, int64_t len, int64_t hd, float scale,
                            const float *q, int64_t ldq, const cached_pair *kv,
                            const int32_t *table, float *out, int64_t ldo, float *scores) {
    float wide[CACHED_ROWS * CACHED_HD];
    all_scores(cell, nq, len, hd, scale, q, ldq, kv->k, table, scores, len);
    if (cell == 1) scale_scores(nq, len, kv->k_scales, table, scores, len);
    VO_FN(softmax)(nq, len, scores, len, scores, len);
    if (cell == 1) scale_scores(nq, len, kv->v_scales, table, scores, len);
    for (int64_t i = 0; i < nq; i++)
        for (int64_t d = 0; d < hd; d++) out[i * ldo + d] = 0.0f;
    for (int64_t t = 0; t < len; t += CACHED_ROWS) {
        const cached_block block = cached_take(cell, kv->v, table, t, len, hd);
        if (is_shared(cell, nq, hd)) {
            const cached_block copy = cached_widen(&block, wide);
            block_mix(&copy, nq, scores + t, len, out, ldo);
        } else {
            block_mix(&block, nq, scores + t, len, out, ldo);
        }
    }
}

/* The usual shape has code of its own, in which every address is a constant away from one. */
VO_INLINE void attend_any_cache(const int cell, int64_t nq, int64_t len, int64_t hd, float scale,
                                const float *q, int64_t ldq, const cached_pair *kv, float *out,
                                int64_t ldo, float *scores) {
    if (hd == CACHED_HD && !kv->table)
        attend_cache(cell, nq, len, CACHED_HD, scale, q, ldq, kv, NULL, out, ldo, scores);
    else
        attend_cache(cell, nq, len, hd, scale, q, ldq, kv, kv->table, out, ldo, scores);
}

void VO_FN(attend_cached)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                          int64_t ldq, const float *k, const float *v, const int32_t *table,
                          float *out, int64_t ldo, float *scores) {
    const cached_pair kv = {k, v, NULL, NULL, table};
    attend_any_cache(4, nq, len, hd, scale, q, ldq, &kv, out, ldo, scores);
}

void VO_FN(attend_cached_f16)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                              int64_t ldq, const uint16_t *k, const uint16_t *v,
                              const int32_t *table, float *out, int64_t ldo, float *scores) {
    const cached_pair kv = {k, v, NULL, NULL, table};
    attend_any_cache(2, nq, len, hd, scale, q, ldq, &kv, out, ldo, scores);
}

void VO_FN(attend_cached_s8)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                             int64_t ldq, const int8_t *k, const float *k_scales, const int8_t *v,
                             const float *v_scales, const int32_t *table, float *out, int64_t ldo,
                             float *scores) {
    const cached_pair kv = {k, v, k_scales, v_scales, table};
    attend_any_cache(1, nq, len, hd, scale, q, ldq, &kv, out, ldo, scores);
}

VO_INLINE void weigh_cache(const int cell, int64_t nq, int64_t len, int64_t hd, float scale,
                           const float *q, int64_t ldq, const void *k, const float *k_scales,
                           float *out, int64_t ldo) {
    if (hd == CACHED_HD)
        all_scores(cell, nq, len, CACHED_HD, scale, q, ldq, k, NULL, out, ldo);
    else
        all_scores(cell, nq, len, hd, scale, q, ldq, k, NULL, out, ldo);
    if (cell == 1) scale_scores(nq, len, k_scales, NULL, out, ldo);
    VO_FN(softmax)(nq, len, out, ldo, out, ldo);
}

void VO_FN(weigh_cached)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                         int64_t ldq, const float *k, float *out, int64_t ldo) {
    weigh_cache(4, nq, len, hd, scale, q, ldq, k, NULL, out, ldo);
}

void VO_FN(weigh_cached_f16)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                             int64_t ldq, const uint16_t *k, float *out, int64_t ldo) {
    weigh_cache(2, nq, len, hd, scale, q, ldq, k, NULL, out, ldo);
}

void VO_FN(weigh_cached_s8)(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                            int64_t ldq, const int8_t *k, const float *k_scales, float *out,
                            int64_t ldo) {
    weigh_cache(1, nq, len, hd, scale, q, ldq, k, k_scales, out, ldo);
}
