/* SPDX-License-Identifier: MIT
 *
 * Attention in plain C: softmax(scale q·K^T)·V with every sum in double. One query needs two
 * passes over the keys when the scores are computed twice instead of stored, so no scratch
 * limits its length.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ref/ref.h"

static double dot(int64_t n, const float *a, const float *b, int64_t stride_b) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i * stride_b];
    return sum;
}

/* The panel of key t at its first element, stride VO_REF_MR. */
static const float *key_of(const float *kp, int64_t hd, int64_t t) {
    return kp + (t / VO_REF_MR) * hd * VO_REF_MR + t % VO_REF_MR;
}

void vo_ref_attend_block(int64_t nq, int64_t nk, int64_t hd, float scale, const float *q,
                         int64_t ldq, const float *kp, const float *vp, float *out, int64_t ldo,
                         float *scratch) {
    (void)scratch;
    for (int64_t i = 0; i < nq; i++, q += ldq, out += ldo) {
        double max = -INFINITY;
        for (int64_t t = 0; t < nk; t++)
            max = fmax(max, scale * dot(hd, q, key_of(kp, hd, t), VO_REF_MR));
        for (int64_t d0 = 0; d0 < hd; d0 += VO_REF_MR) {
            const float *v = vp + (d0 / VO_REF_MR) * nk * VO_REF_MR;
            double sums[VO_REF_MR] = {0.0}, total = 0.0;
            for (int64_t t = 0; t < nk; t++) {
                double p = exp(scale * dot(hd, q, key_of(kp, hd, t), VO_REF_MR) - max);
                total += p;
                for (int j = 0; j < VO_REF_MR; j++) sums[j] += p * v[t * VO_REF_MR + j];
            }
            for (int64_t d = d0; d < hd && d < d0 + VO_REF_MR; d++)
                out[d] = (float)(sums[d - d0] / total);
        }
    }
}

static double rounded(float x) {
    return (double)vo_bf16_to_f32(vo_f32_to_bf16(x));
}

/* Where a packed block has element d of key t, and of its value */
static int key_at(int t, int d) {
    const int column = t / 32 * 2 + t % 8 / 4, lane = t % 32 / 8 * 4 + t % 4;
    return column * 16 * VO_ATTEND_BF16_HD + d / 2 * 32 + lane * 2 + d % 2;
}
static int value_at(int t, int d) {
    return VO_ATTEND_BF16_KEYS * (VO_ATTEND_BF16_HD + d / 16 * 16) + t / 2 * 32 + d % 16 * 2 +
           t % 2;
}

void vo_ref_attend_pack_bf16(int n, const float *k, int64_t ldk, const float *v, int64_t ldv,
                             uint16_t *block) {
    for (int t = 0; t < VO_ATTEND_BF16_KEYS; t++) {
        for (int d = 0; d < VO_ATTEND_BF16_HD; d++) {
            block[key_at(t, d)] = t < n ? vo_f32_to_bf16(k[t * ldk + d]) : 0;
            block[value_at(t, d)] = t < n ? vo_f32_to_bf16(v[t * ldv + d]) : 0;
        }
    }
}

/* Probabilities are rounded where they weigh values and where they are summed. */
void vo_ref_attend_block_bf16(int64_t nq, int64_t nk, float scale, const float *q, int64_t ldq,
                              const uint16_t *kv, float *out, int64_t ldo, float *scratch) {
    enum { KEYS = VO_ATTEND_BF16_KEYS, HD = VO_ATTEND_BF16_HD };
    for (int64_t i = 0; i < nq; i++, q += ldq, out += ldo) {
        double sums[HD] = {0.0}, total = 0.0, max = -INFINITY;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t t = 0; t < nk; t++) {
                const uint16_t *block = kv + t / KEYS * VO_ATTEND_BF16_BLOCK;
                const int n = (int)(t % KEYS);
                double score = 0.0;
                for (int d = 0; d < HD; d++)
                    score += rounded(q[d]) * (double)vo_bf16_to_f32(block[key_at(n, d)]);
                if (pass == 0) {
                    max = fmax(max, scale * score);
                    continue;
                }
                const double p = rounded((float)exp(scale * score - max));
                total += p;
                for (int d = 0; d < HD; d++)
                    sums[d] += p * (double)vo_bf16_to_f32(block[value_at(n, d)]);
            }
        }
        for (int d = 0; d < HD; d++) out[d] = (float)(sums[d] / total);
    }
}

/* Whole numbers of at most 127, and their scale */
static float pack_s8(int n, const float *x, int64_t step, int8_t *q) {
    float largest = 0.0f;
    for (int i = 0; i < n; i++)
        if (!(fabsf(x[i * step]) <= largest) && !isnan(largest)) largest = fabsf(x[i * step]);
    if (!isfinite(largest)) return largest;
    const float scale = largest < VO_INT8_TINY ? 0.0f : largest / 127;
    for (int i = 0; i < n && scale > 0; i++) q[i] = (int8_t)lrintf(x[i * step] * (127 / largest));
    return scale;
}

void vo_ref_attend_pack_s8(int n, const float *k, int64_t ldk, const float *v, int64_t ldv,
                           vo_attend_s8 *block) {
    enum { KEYS = VO_ATTEND_BF16_KEYS, HD = VO_ATTEND_BF16_HD };
    memset(block, 0, sizeof *block);
    for (int t = 0; t < n; t++) block->k_scales[t] = pack_s8(HD, k + t * ldk, 1, block->k + t * HD);
    for (int d = 0; d < HD; d++) block->v_scales[d] = pack_s8(n, v + d, ldv, block->v + d * KEYS);
    for (int i = 0; i < KEYS; i++)
        block->poison += 0.0f * block->k_scales[i] + 0.0f * block->v_scales[i];
}

/* Only keys and values are rounded. */
void vo_ref_attend_block_s8(int64_t nq, int64_t nk, float scale, const float *q, int64_t ldq,
                            const vo_attend_s8 *kv, float *out, int64_t ldo, float *scratch) {
    enum { KEYS = VO_ATTEND_BF16_KEYS, HD = VO_ATTEND_BF16_HD };
    for (int64_t i = 0; i < nq; i++, q += ldq, out += ldo) {
        double sums[HD] = {0.0}, total = 0.0, max = -INFINITY;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t t = 0; t < nk; t++) {
                const vo_attend_s8 *block = kv + t / KEYS;
                const int64_t key = t % KEYS;
                double score = 0.0;
                for (int d = 0; d < HD; d++) score += (double)q[d] * block->k[key * HD + d];
                score *= (double)scale * (double)block->k_scales[key];
                if (pass == 0) {
                    max = fmax(max, score);
                    continue;
                }
                const double p = exp(score - max);
                total += p + (double)block->poison;
                for (int d = 0; d < HD; d++)
                    sums[d] += p * (double)block->v_scales[d] * block->v[d * KEYS + key];
            }
        }
        for (int d = 0; d < HD; d++) out[d] = (float)(sums[d] / total);
    }
}

/* A cache of any type: element d of row t. */
typedef struct cache {
    vo_dtype dtype; /* VO_F32, VO_F16 or VO_I8 */
    const void *data;
    const float *scales; /* VO_I8 */
    int64_t hd;
} cache;

static double cached(const cache *c, int64_t row, int64_t d) {
    const int64_t i = row * c->hd + d;
    if (c->dtype == VO_I8) return (double)c->scales[row] * (double)((const int8_t *)c->data)[i];
    return c->dtype == VO_F16 ? (double)vo_f16_to_f32(((const uint16_t *)c->data)[i])
                              : (double)((const float *)c->data)[i];
}

/* scores[t] = scale q·k[t]; returns the largest. */
static double score_row(int64_t len, float scale, const float *q, const cache *k,
                        const int32_t *table, float *scores) {
    double max = -INFINITY;
    for (int64_t t = 0; t < len; t++) {
        double sum = 0.0;
        for (int64_t d = 0; d < k->hd; d++)
            sum += (double)q[d] * cached(k, table ? table[t] : t, d);
        scores[t] = (float)(scale * sum);
        max = fmax(max, scores[t]);
    }
    return max;
}

static void attend_row(int64_t len, float scale, const float *q, const cache *k, const cache *v,
                       const int32_t *table, float *out, float *scores) {
    const double max = score_row(len, scale, q, k, table, scores);
    double total = 0.0;
    for (int64_t t = 0; t < len; t++) total += exp(scores[t] - max);
    for (int64_t d = 0; d < v->hd; d++) {
        double sum = 0.0;
        for (int64_t t = 0; t < len; t++)
            sum += exp(scores[t] - max) * cached(v, table ? table[t] : t, d);
        out[d] = len ? (float)(sum / total) : 0.0f;
    }
}

static void attend_rows(int64_t nq, int64_t len, float scale, const float *q, int64_t ldq, cache k,
                        cache v, const int32_t *table, float *out, int64_t ldo, float *scores) {
    for (int64_t i = 0; i < nq; i++)
        attend_row(len, scale, q + i * ldq, &k, &v, table, out + i * ldo, scores + i * len);
}

void vo_ref_attend_cached(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                          int64_t ldq, const float *k, const float *v, const int32_t *table,
                          float *out, int64_t ldo, float *scores) {
    attend_rows(nq, len, scale, q, ldq, (cache){VO_F32, k, NULL, hd}, (cache){VO_F32, v, NULL, hd},
                table, out, ldo, scores);
}

void vo_ref_attend_cached_f16(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                              int64_t ldq, const uint16_t *k, const uint16_t *v,
                              const int32_t *table, float *out, int64_t ldo, float *scores) {
    attend_rows(nq, len, scale, q, ldq, (cache){VO_F16, k, NULL, hd}, (cache){VO_F16, v, NULL, hd},
                table, out, ldo, scores);
}

void vo_ref_attend_cached_s8(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                             int64_t ldq, const int8_t *k, const float *k_scales, const int8_t *v,
                             const float *v_scales, const int32_t *table, float *out, int64_t ldo,
                             float *scores) {
    attend_rows(nq, len, scale, q, ldq, (cache){VO_I8, k, k_scales, hd},
                (cache){VO_I8, v, v_scales, hd}, table, out, ldo, scores);
}

static void weigh_rows(int64_t nq, int64_t len, float scale, const float *q, int64_t ldq, cache k,
                       float *out, int64_t ldo) {
    for (int64_t i = 0; i < nq; i++, q += ldq, out += ldo) {
        const double max = score_row(len, scale, q, &k, NULL, out);
        double total = 0.0;
        for (int64_t t = 0; t < len; t++) total += exp(out[t] - max);
        for (int64_t t = 0; t < len; t++) out[t] = (float)(exp(out[t] - max) / total);
    }
}

void vo_ref_weigh_cached(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                         int64_t ldq, const float *k, float *out, int64_t ldo) {
    weigh_rows(nq, len, scale, q, ldq, (cache){VO_F32, k, NULL, hd}, out, ldo);
}

void vo_ref_weigh_cached_f16(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                             int64_t ldq, const uint16_t *k, float *out, int64_t ldo) {
    weigh_rows(nq, len, scale, q, ldq, (cache){VO_F16, k, NULL, hd}, out, ldo);
}

void vo_ref_weigh_cached_s8(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                            int64_t ldq, const int8_t *k, const float *k_scales, float *out,
                            int64_t ldo) {
    weigh_rows(nq, len, scale, q, ldq, (cache){VO_I8, k, k_scales, hd}, out, ldo);
}
