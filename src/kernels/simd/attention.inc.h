/* SPDX-License-Identifier: MIT
 *
 * Attention on the level's GEMM tile. attend_block runs transposed: scores S^T = K Q^T and
 * outputs O^T = V^T P are GEMM tiles whose columns are queries, so the softmax between them
 * works on whole vectors, one query a lane, without a horizontal step, and no query feels its
 * neighbours.
 *
 * Before it: a vec_*.h, kernels/unroll.h, VO_FN, the tile's MR and NR, and
 *   v_scale_normal(x, n)  x * 2^n for integral n in -126..1 and x near 1
 */

enum { NV = NR / VF_LANES };

/* State of one block of NR queries; all arrays lie in the caller's scratch. */
typedef struct block_state {
    float *queries;   /* [hd][NR] */
    float *out;       /* [hd][NR] */
    float *scores;    /* [VO_ATTEND_KEYS][NR] */
    float *max, *sum; /* [NR]; the maximum times scale log2(e) */
} block_state;

/* 2^x for x < 1, relative error 2e-7, and 2^0 is 1. Below -126 the result stays at 2^-126. */
static inline vf exp2_below(vf x) {
    x = v_max(v_set(-126.0f), x);
    const vf n = v_round(x), f = v_sub(x, n);
    vf p = v_set(0x1.5bba16p-10f); /* minimax fit with the constant term held at 1 */
    p = v_fma(p, f, v_set(0x1.3cea8ap-7f));
    p = v_fma(p, f, v_set(0x1.c6b752p-5f));
    p = v_fma(p, f, v_set(0x1.ebf9bcp-3f));
    p = v_fma(p, f, v_set(0x1.62e42ap-1f));
    p = v_fma(p, f, v_set(1.0f));
    return v_scale_normal(p, n);
}

/* to[j][i] = from[i][j] for rows x columns of `from` */
static void transpose(int64_t rows, int64_t columns, const float *from, int64_t ld_from, float *to,
                      int64_t ld_to) {
    for (int64_t i = 0; i < rows; i += VF_LANES) {
        const int tall = rows - i < VF_LANES ? (int)(rows - i) : VF_LANES;
        for (int64_t j = 0; j < columns; j += VF_LANES) {
            const int wide = columns - j < VF_LANES ? (int)(columns - j) : VF_LANES;
            vf x[VF_LANES];
            for (int r = 0; r < VF_LANES; r++)
                x[r] = r < tall ? v_load_n(from + (i + r) * ld_from + j, wide) : v_set(0.0f);
            v_transpose(x);
            for (int c = 0; c < wide; c++) v_store_n(to + (j + c) * ld_to + i, x[c], tall);
        }
    }
}

/* The largest score of each query, four keys at a time to hide the latency. */
static inline void block_max(const float *scores, int64_t keys, vf max[NV]) {
    vf m[4][NV];
    VO_UNROLL for (int i = 0; i < 4; i++) {
        VO_UNROLL for (int j = 0; j < NV; j++) m[i][j] = v_load(scores + j * VF_LANES);
    }
    int64_t t = 0;
    for (; t + 4 <= keys; t += 4) {
        VO_UNROLL for (int i = 0; i < 4; i++) {
            VO_UNROLL for (int j = 0; j < NV; j++) m[i][j] =
                v_max(m[i][j], v_load(scores + (t + i) * NR + j * VF_LANES));
        }
    }
    for (; t < keys; t++) {
        VO_UNROLL for (int j = 0; j < NV; j++) m[0][j] =
            v_max(m[0][j], v_load(scores + t * NR + j * VF_LANES));
    }
    VO_UNROLL for (int j = 0; j < NV; j++) max[j] =
        v_max(v_max(m[0][j], m[1][j]), v_max(m[2][j], m[3][j]));
}

/* A block of scores becomes 2^(factor s - max); sums and outputs so far shrink to the new
 * maximum. The first block starts them, so that no infinity enters the arithmetic. */
static void online_softmax(const block_state *s, int64_t keys, int64_t hd, float factor,
                           bool first) {
    vf max[NV], minus[NV], sum[NV], shrink[NV];
    block_max(s->scores, keys, max);
    VO_UNROLL for (int j = 0; j < NV; j++) {
        const vf old = v_load(s->max + j * VF_LANES);
        max[j] = v_mul(max[j], v_set(factor));
        if (!first) max[j] = v_max(old, max[j]);
        shrink[j] = first ? v_set(0.0f) : exp2_below(v_sub(old, max[j]));
        minus[j] = v_sub(v_set(0.0f), max[j]);
        sum[j] = v_set(0.0f);
        v_store(s->max + j * VF_LANES, max[j]);
    }
    for (int64_t t = 0; t < keys; t++) {
        VO_UNROLL for (int j = 0; j < NV; j++) {
            float *p = s->scores + t * NR + j * VF_LANES;
            const vf e = exp2_below(v_fma(v_load(p), v_set(factor), minus[j]));
            v_store(p, e);
            sum[j] = v_add(sum[j], e);
        }
    }
    VO_UNROLL for (int j = 0; j < NV; j++) {
        float *p = s->sum + j * VF_LANES;
        v_store(p, first ? sum[j] : v_fma(v_load(p), shrink[j], sum[j]));
    }
    for (int64_t d = 0; d < hd && !first; d++) {
        VO_UNROLL for (int j = 0; j < NV; j++) {
            float *p = s->out + d * NR + j * VF_LANES;
            v_store(p, v_mul(v_load(p), shrink[j]));
        }
    }
}

/* Rows of the tile that starts at i of n. */
static int tile_rows(int64_t i, int64_t n) {
    return n - i < MR ? (int)(n - i) : MR;
}

void VO_FN(attend_block)(int64_t nq, int64_t nk, int64_t hd, float scale, const float *q,
                         int64_t ldq, const float *kp, const float *vp, float *out, int64_t ldo,
                         float *scratch) {
    block_state s;
    s.queries = scratch;
    s.out = s.queries + hd * NR;
    s.scores = s.out + hd * NR;
    s.max = s.scores + VO_ATTEND_KEYS * NR;
    s.sum = s.max + NR;
    for (int64_t i = 0; i < hd * NR && nq < NR; i++) s.queries[i] = 0.0f;
    for (int64_t i = 0; i < NR; i++) s.max[i] = 0.0f;
    transpose(nq, hd, q, ldq, s.queries, NR);
    for (int64_t t0 = 0; t0 < nk; t0 += VO_ATTEND_KEYS) {
        const int64_t keys = nk - t0 < VO_ATTEND_KEYS ? nk - t0 : VO_ATTEND_KEYS;
        for (int64_t t = 0; t < keys; t += MR) VO_FN(gemm_f32)
        (hd, kp + (t0 + t) * hd, s.queries, s.scores + t * NR, NR, tile_rows(t, keys), NR, 0);
        online_softmax(&s, keys, hd, scale * 0x1.715476p+0f, t0 == 0);
        for (int64_t d = 0; d < hd; d += MR) VO_FN(gemm_f32)
        (keys, vp + d * nk + t0 * MR, s.scores, s.out + d * NR, NR, tile_rows(d, hd), NR, t0 > 0);
    }
    VO_UNROLL for (int j = 0; j < NV; j++) {
        const vf inverse = v_div(v_set(1.0f), v_load(s.sum + j * VF_LANES));
        for (int64_t d = 0; d < hd; d++) {
            float *p = s.out + d * NR + j * VF_LANES;
            v_store(p, v_mul(v_load(p), inverse));
        }
    }
    transpose(hd, nq, s.out, NR, out, ldo);
}
