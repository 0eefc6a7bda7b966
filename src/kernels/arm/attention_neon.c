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

enum { MR = VO_NEON_MR, NR = VO_NEON_NR };

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

static inline vf v_sum_each(const vf x[4]) {
    return vpaddq_f32(vpaddq_f32(x[0], x[1]), vpaddq_f32(x[2], x[3]));
}

#define VO_FN(name) vo_neon_##name
#include "kernels/simd/attention_cached.inc.h"
