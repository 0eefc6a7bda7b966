/* SPDX-License-Identifier: MIT
 *
 * Attention on NEON. attend_block runs transposed: scores S^T = K Q^T and outputs
 * O^T = V^T P are GEMM tiles whose columns are queries, so the softmax between them works on
 * whole vectors, one query a lane, without a horizontal step.
 */
#if !defined(__ARM_NEON)
#error "this file needs NEON"
#endif

#include <math.h>

#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/simd/math.inc.h"
#include "kernels/unroll.h"

enum { MR = VO_NEON_MR, NR = VO_NEON_NR, NV = NR / VF_LANES, CACHE_BLOCK = 64 };

/* State of one block of NR queries; all arrays lie in the caller's scratch. */
typedef struct block_state {
    float *queries;   /* [hd][NR], scaled */
    float *out;       /* [hd][NR] */
    float *scores;    /* [VO_ATTEND_KEYS][NR] */
    float *max, *sum; /* [NR] */
} block_state;

/* One block of scores becomes e^(s - max); sums and outputs so far shrink to the new maximum. */
static void online_softmax(const block_state *s, int64_t keys, int64_t hd) {
    for (int j = 0; j < NR; j += VF_LANES) {
        const vf old = v_load(s->max + j);
        vf max = old;
        for (int64_t t = 0; t < keys; t++) max = v_max(max, v_load(s->scores + t * NR + j));
        const vf shrink = v_exp(v_sub(old, max));
        vf sum = v_set(0.0f);
        for (int64_t t = 0; t < keys; t++) {
            float *p = s->scores + t * NR + j;
            const vf e = v_exp(v_sub(v_load(p), max));
            v_store(p, e);
            sum = v_add(sum, e);
        }
        v_store(s->max + j, max);
        v_store(s->sum + j, v_fma(v_load(s->sum + j), shrink, sum));
        for (int64_t d = 0; d < hd; d++) {
            float *p = s->out + d * NR + j;
            v_store(p, v_mul(v_load(p), shrink));
        }
    }
}

/* rows of a tile that exist: the panel that starts at i may be the last one */
static int tile_rows(int64_t i, int64_t n) {
    return n - i < MR ? (int)(n - i) : MR;
}

void vo_neon_attend_block(int64_t nq, int64_t nk, int64_t hd, float scale, const float *q,
                          int64_t ldq, const float *kp, const float *vp, float *out, int64_t ldo,
                          float *scratch) {
    block_state s;
    s.queries = scratch;
    s.out = s.queries + hd * NR;
    s.scores = s.out + hd * NR;
    s.max = s.scores + VO_ATTEND_KEYS * NR;
    s.sum = s.max + NR;
    for (int64_t d = 0; d < hd; d++) {
        for (int j = 0; j < NR; j++) {
            s.queries[d * NR + j] = j < nq ? scale * q[j * ldq + d] : 0.0f;
            s.out[d * NR + j] = 0.0f;
        }
    }
    for (int j = 0; j < NR; j++) {
        s.max[j] = -INFINITY;
        s.sum[j] = 0.0f;
    }
    for (int64_t t0 = 0; t0 < nk; t0 += VO_ATTEND_KEYS) {
        const int64_t keys = nk - t0 < VO_ATTEND_KEYS ? nk - t0 : VO_ATTEND_KEYS;
        for (int64_t t = 0; t < keys; t += MR)
            vo_neon_gemm_f32(hd, kp + (t0 + t) * hd, s.queries, s.scores + t * NR, NR,
                             tile_rows(t, keys), NR, 0);
        online_softmax(&s, keys, hd);
        for (int64_t d = 0; d < hd; d += MR)
            vo_neon_gemm_f32(keys, vp + d * nk + t0 * MR, s.scores, s.out + d * NR, NR,
                             tile_rows(d, hd), NR, 1);
    }
    for (int64_t j = 0; j < nq; j++) {
        const float inverse = 1.0f / s.sum[j];
        for (int64_t d = 0; d < hd; d++) out[j * ldo + d] = s.out[d * NR + j] * inverse;
    }
}

/* lane sums of q * k over hd, not yet added up */
static inline vf dot_lanes(int64_t hd, const float *q, const float *k) {
    vf a = v_set(0.0f), b = a;
    int64_t d = 0;
    for (; d + 2 * VF_LANES <= hd; d += 2 * VF_LANES) {
        a = v_fma(v_load(q + d), v_load(k + d), a);
        b = v_fma(v_load(q + d + VF_LANES), v_load(k + d + VF_LANES), b);
    }
    for (; d < hd; d += VF_LANES) {
        const int rest = hd - d < VF_LANES ? (int)(hd - d) : VF_LANES;
        a = v_fma(v_load_n(q + d, rest), v_load_n(k + d, rest), a);
    }
    return v_add(a, b);
}

static inline const float *cached_row(const float *base, const int32_t *table, int64_t t,
                                      int64_t hd) {
    return base + (table ? table[t] : t) * hd;
}

/* scores[t0..t1) of one query */
static void cached_scores(int64_t t0, int64_t t1, int64_t hd, float scale, const float *q,
                          const float *k, const int32_t *table, float *scores) {
    int64_t t = t0;
    for (; t + 4 <= t1; t += 4) {
        vf s[4];
        for (int i = 0; i < 4; i++) s[i] = dot_lanes(hd, q, cached_row(k, table, t + i, hd));
        const vf sum = vpaddq_f32(vpaddq_f32(s[0], s[1]), vpaddq_f32(s[2], s[3]));
        v_store(scores + t, v_mul(v_set(scale), sum));
    }
    for (; t < t1; t++) scores[t] = scale * v_sum(dot_lanes(hd, q, cached_row(k, table, t, hd)));
}

/* scores become probabilities */
static void cached_softmax(int64_t len, float *scores) {
    const vf least = v_set(-INFINITY), zero = v_set(0.0f);
    vf max = least, sum = zero;
    for (int64_t t = 0; t < len; t += VF_LANES) {
        const int rest = len - t < VF_LANES ? (int)(len - t) : VF_LANES;
        max = v_max(max, v_select(v_first(rest), v_load_n(scores + t, rest), least));
    }
    max = v_set(v_hmax(max));
    for (int64_t t = 0; t < len; t += VF_LANES) {
        const int rest = len - t < VF_LANES ? (int)(len - t) : VF_LANES;
        const vf e = v_exp(v_sub(v_load_n(scores + t, rest), max));
        v_store_n(scores + t, e, rest);
        sum = v_add(sum, v_select(v_first(rest), e, zero));
    }
    const float inverse = 1.0f / v_sum(sum);
    for (int64_t t = 0; t < len; t++) scores[t] *= inverse;
}

/* out[d..d+4*wide) += sum over t0..t1 of p[t] v[t]; wide is a constant */
static inline __attribute__((always_inline)) void mix_columns(int wide, int64_t t0, int64_t t1,
                                                              int64_t hd, const float *p,
                                                              const float *v, const int32_t *table,
                                                              float *out) {
    vf acc[8];
    VO_UNROLL
    for (int i = 0; i < wide; i++) acc[i] = v_load(out + i * VF_LANES);
    for (int64_t t = t0; t < t1; t++) {
        const float *row = cached_row(v, table, t, hd);
        VO_UNROLL
        for (int i = 0; i < wide; i++)
            acc[i] = v_fma(v_set(p[t]), v_load(row + i * VF_LANES), acc[i]);
    }
    VO_UNROLL
    for (int i = 0; i < wide; i++) v_store(out + i * VF_LANES, acc[i]);
}

static void cached_mix(int64_t t0, int64_t t1, int64_t hd, const float *p, const float *v,
                       const int32_t *table, float *out) {
    int64_t d = 0;
    for (; d + 8 * VF_LANES <= hd; d += 8 * VF_LANES)
        mix_columns(8, t0, t1, hd, p, v + d, table, out + d);
    for (; d + VF_LANES <= hd; d += VF_LANES) mix_columns(1, t0, t1, hd, p, v + d, table, out + d);
    for (; d < hd; d++)
        for (int64_t t = t0; t < t1; t++)
            out[d] = fmaf(p[t], cached_row(v, table, t, hd)[d], out[d]);
}

/* Keys and values are taken in blocks that stay in L1 while all queries use them. */
void vo_neon_attend_cached(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                           int64_t ldq, const float *k, const float *v, const int32_t *table,
                           float *out, int64_t ldo, float *scores) {
    for (int64_t t0 = 0; t0 < len; t0 += CACHE_BLOCK) {
        const int64_t t1 = len - t0 < CACHE_BLOCK ? len : t0 + CACHE_BLOCK;
        for (int64_t i = 0; i < nq; i++)
            cached_scores(t0, t1, hd, scale, q + i * ldq, k, table, scores + i * len);
    }
    for (int64_t i = 0; i < nq; i++) {
        if (len > 0) cached_softmax(len, scores + i * len);
        for (int64_t d = 0; d < hd; d++) out[i * ldo + d] = 0.0f;
    }
    for (int64_t t0 = 0; t0 < len; t0 += CACHE_BLOCK) {
        const int64_t t1 = len - t0 < CACHE_BLOCK ? len : t0 + CACHE_BLOCK;
        for (int64_t i = 0; i < nq; i++)
            cached_mix(t0, t1, hd, scores + i * len, v, table, out + i * ldo);
    }
}
