/* SPDX-License-Identifier: MIT
 *
 * Attention of whole windows in bytes. Scores S^T = K Q^T and outputs O^T = V^T P have a query in
 * each lane, so that one shape of a product serves both: bytes of keys or values, four of which
 * become a lane each, times unsigned bytes of queries or probabilities. Every key, every query and
 * every dimension of a block's values has a scale of its own; probabilities are steps of the
 * largest of their block, not of all keys: a thousand small ones would vanish beside a single large
 * one. The softmax and the sums over blocks are f32.
 *
 * Before it: vec_*.h, vec_int_*.h, VO_FN, and
 *   Q_MAX, Q_ZERO            a byte of a query is a whole number within +-Q_MAX plus Q_ZERO
 *   K_MAX, P_MAX, V_MAX      the largest of the others; probabilities are not negative
 *   TALL, STEPS              keys of a tile, and fours that go to dots() together
 *   dots(sum, y, a)          sum[VECTORS] += y[STEPS][VECTORS] a[STEPS], fours of bytes
 *   vi_sum_bytes(sum, p)     sum += the four bytes of each lane
 */
#include "kernels/simd/bytes.inc.h"

enum {
    KEYS = VO_ATTEND_BF16_KEYS,
    HD = VO_ATTEND_BF16_HD,
    NQ = 16, /* queries at a time */
    VECTORS = NQ / VF_LANES,
    FOURS = KEYS / 4
};
_Static_assert(KEYS == HD, "one shape of a product");

/* P_MAX 2^x as a whole number, for x <= 0; relative error 8e-5 before it is rounded */
static inline vi probability(vf x) {
    const vf f = v_fraction(x);
    vf p = v_set(P_MAX * 0x1.3f96a4p-4f); /* minimax fit of 2^f on [0, 1] */
    p = v_fma(p, f, v_set(P_MAX * 0x1.cefc4cp-3f));
    p = v_fma(p, f, v_set(P_MAX * 0x1.64444ap-1f));
    p = v_fma(p, f, v_set(P_MAX * 0x1.fff632p-1f));
    return vi_times_power(p, x);
}

/* All arrays lie in the caller's scratch. */
typedef struct state {
    float *scores;      /* [KEYS][NQ] */
    float *out;         /* [HD][NQ] */
    uint8_t *p;         /* probabilities, [FOURS][NQ][4] */
    uint8_t *queries;   /* [FOURS][NQ][4] */
    vf factor[VECTORS]; /* from scores to powers of two */
    vf max[VECTORS];    /* what is subtracted from scaled scores, whole numbers */
    vf sum[VECTORS];
    vf poison[VECTORS]; /* 0, or NaN once a scale was not finite */
} state;

/* sum[TALL][VECTORS] += a[TALL][KEYS] b[FOURS][NQ][4] */
static inline void product(const int8_t *a, const uint8_t *b, vi sum[TALL][VECTORS]) {
    for (int u = 0; u < FOURS; u += STEPS) {
        vi y[STEPS][VECTORS];
        VO_UNROLL for (int i = 0; i < STEPS * VECTORS; i++) y[i / VECTORS][i % VECTORS] =
            vi_load(b + (u * VECTORS + i) * (int)sizeof(vi));
        VO_UNROLL for (int i = 0; i < TALL; i++) dots(sum[i], y, a + i * KEYS + 4 * u);
    }
}

/* Scores of a block's keys, and the largest of each query among the first n */
VO_INLINE void score(const state *s, int n, const vo_attend_s8 *block, vf max[VECTORS]) {
    VO_UNROLL for (int j = 0; j < VECTORS; j++) max[j] = v_set(-FLT_MAX);
    for (int t = 0; t < n; t += TALL) {
        vi sum[TALL][VECTORS];
        VO_UNROLL for (int i = 0; i < TALL; i++) {
            VO_UNROLL for (int j = 0; j < VECTORS; j++) sum[i][j] = vi_repeat(block->start + t + i);
        }
        product(block->k + t * HD, s->queries, sum);
        VO_UNROLL for (int i = 0; i < TALL; i++) {
            VO_UNROLL for (int j = 0; j < VECTORS; j++) {
                const vf x = v_mul(vi_to_floats(sum[i][j]), v_set(block->k_scales[t + i]));
                v_store(s->scores + (t + i) * NQ + j * VF_LANES, x);
                if (t + i < n) max[j] = v_max(max[j], x);
            }
        }
    }
}

/* Probabilities of a block's n keys relative to 2^-bias, and their sums; the others have none. */
VO_INLINE void softmax(const state *s, int n, const vf bias[VECTORS], vi sum[VECTORS]) {
    VO_UNROLL for (int j = 0; j < VECTORS; j++) sum[j] = vi_zero();
    for (int t = 0; t < KEYS; t += 4) {
        VO_UNROLL for (int j = 0; j < VECTORS; j++) {
            vi p[4];
            VO_UNROLL for (int i = 0; i < 4; i++) {
                const vf x = v_load(s->scores + (t + i) * NQ + j * VF_LANES);
                p[i] = probability(v_fma(x, s->factor[j], bias[j]));
            }
            for (int i = 0; i < 4 && t + 4 > n; i++)
                if (t + i >= n) p[i] = vi_zero();
            const vi bytes = vi_fours(p);
            vi_store(s->p + t * NQ + j * (int)sizeof(vi), bytes);
            sum[j] = vi_sum_bytes(sum[j], bytes);
        }
    }
}

/* n keys and their values join the outputs. */
VO_INLINE void add_block(state *s, int n, const vo_attend_s8 *block, bool first) {
    vf bias[VECTORS], grow[VECTORS], shrink[VECTORS];
    vi sum[VECTORS];
    score(s, n, block, bias);
    VO_UNROLL for (int j = 0; j < VECTORS; j++) {
        /* Up to a whole number: outputs grow and shrink by powers of two, exactly. */
        const vf max = v_ceil(v_mul(bias[j], s->factor[j]));
        const vf larger = first ? max : v_max(s->max[j], max), least = v_set(-252.0f);
        grow[j] = v_ldexp(v_set(1.0f), v_max(least, v_sub(max, larger)));
        shrink[j] =
            first ? v_set(0.0f) : v_ldexp(v_set(1.0f), v_max(least, v_sub(s->max[j], larger)));
        s->max[j] = larger;
        s->poison[j] = v_add(s->poison[j], v_set(block->poison));
        bias[j] = v_sub(v_set(0.0f), max);
    }
    softmax(s, n, bias, sum);
    VO_UNROLL for (int j = 0; j < VECTORS; j++) s->sum[j] =
        v_fma(vi_to_floats(sum[j]), grow[j], v_mul(s->sum[j], shrink[j]));
    for (int d = 0; d < HD; d += TALL) {
        vi y[TALL][VECTORS];
        VO_UNROLL for (int i = 0; i < TALL * VECTORS; i++) y[i / VECTORS][i % VECTORS] = vi_zero();
        product(block->v + d * KEYS, s->p, y);
        VO_UNROLL for (int i = 0; i < TALL; i++) {
            VO_UNROLL for (int j = 0; j < VECTORS; j++) {
                float *out = s->out + (d + i) * NQ + j * VF_LANES;
                const vf factor = v_mul(grow[j], v_set(block->v_scales[d + i]));
                v_store(out, v_fma(vi_to_floats(y[i][j]), factor, v_mul(v_load(out), shrink[j])));
            }
        }
    }
}

/* Queries as bytes with a scale each; those that q lacks have the scale 0. */
static void pack_queries(state *s, int nq, float scale, const float *q, int64_t ldq) {
    float factor[NQ] = {0.0f};
    memset(s->queries, Q_ZERO, HD * NQ);
    for (int i = 0; i < nq; i++, q += ldq) {
        uint8_t bytes[HD];
        const float inverse = inverse_scale(largest_of(HD, q), Q_MAX, &factor[i]);
        factor[i] *= scale * 0x1.715476p+0f; /* log2(e) */
        for (int d = 0; d < HD; d += BYTES_FLOATS)
            store_bytes(q + d, HD - d, v_set(inverse), Q_ZERO, bytes + d);
        for (int four = 0; four < FOURS; four++)
            memcpy(s->queries + (four * NQ + i) * 4, bytes + 4 * four, 4);
    }
    for (int j = 0; j < VECTORS; j++) {
        s->factor[j] = v_load(factor + j * VF_LANES);
        s->poison[j] = v_mul(s->factor[j], v_set(0.0f));
    }
}

/* out / sums, with a query in each row again */
static void unpack_out(const state *s, int nq, float *out, int64_t ldo) {
    for (int i0 = 0; i0 < nq; i0 += VF_LANES) {
        const int j = i0 / VF_LANES;
        const vf inverse = v_add(v_div(v_set(1.0f), s->sum[j]), s->poison[j]);
        for (int d = 0; d < HD; d += VF_LANES) {
            vf x[VF_LANES];
            for (int i = 0; i < VF_LANES; i++)
                x[i] = v_mul(v_load(s->out + (d + i) * NQ + i0), inverse);
            v_transpose(x);
            for (int i = 0; i < VF_LANES && i0 + i < nq; i++)
                v_store(out + (i0 + i) * ldo + d, x[i]);
        }
    }
}

void VO_FN(attend_block_s8)(int64_t nq, int64_t nk, float scale, const float *q, int64_t ldq,
                            const vo_attend_s8 *kv, float *out, int64_t ldo, float *scratch) {
    state s;
    s.scores = scratch + (64 - (uintptr_t)scratch % 64) % 64 / sizeof(float);
    s.out = s.scores + KEYS * NQ;
    s.p = (uint8_t *)(void *)(s.out + HD * NQ);
    s.queries = s.p + KEYS * NQ;
    for (; nq > 0; nq -= NQ, q += NQ * ldq, out += NQ * ldo) {
        const int rows = nq < NQ ? (int)nq : NQ;
        pack_queries(&s, rows, scale, q, ldq);
        memset(s.out, 0, HD * NQ * sizeof *s.out);
        for (int j = 0; j < VECTORS; j++) s.max[j] = s.sum[j] = v_set(0.0f);
        const int64_t whole = nk / KEYS;
        for (int64_t b = 0; b < whole; b++) add_block(&s, KEYS, kv + b, b == 0);
        if (whole * KEYS < nk) add_block(&s, (int)(nk % KEYS), kv + whole, whole == 0);
        unpack_out(&s, rows, out, ldo);
    }
}

/* ---- packing ------------------------------------------------------------------------------ */

static void pack_keys(int n, const float *k, int64_t ldk, vo_attend_s8 *block) {
    for (int t = 0; t < n; t++, k += ldk) {
        int8_t *row = block->k + t * HD;
        const vf inverse = v_set(inverse_scale(largest_of(HD, k), K_MAX, &block->k_scales[t]));
        for (int d = 0; d < HD; d += BYTES_FLOATS)
            store_bytes(k + d, HD - d, inverse, 0, (uint8_t *)row + d);
        int sum = 0;
        for (int d = 0; d < HD; d++) sum += row[d];
        block->start[t] = -Q_ZERO * sum;
    }
}

/* VF_LANES dimensions from d on */
static void pack_values(int n, const float *v, int64_t ldv, int d, vo_attend_s8 *block) {
    enum { WIDE = 4 * VF_LANES };
    float largest[VF_LANES], inverse[VF_LANES];
    vf most = v_set(0.0f);
    for (int t = 0; t < n; t++) most = v_max_bits(most, v_abs(v_load(v + t * ldv + d)));
    v_store(largest, most);
    for (int i = 0; i < VF_LANES; i++)
        inverse[i] = inverse_scale(largest[i], V_MAX, &block->v_scales[d + i]);
    for (int t = 0; t < KEYS; t += WIDE) {
        vf x[4][VF_LANES];
        for (int i = 0; i < WIDE; i++)
            x[i / VF_LANES][i % VF_LANES] =
                t + i < n ? v_mul(v_load(v + (t + i) * ldv + d), v_load(inverse)) : v_set(0.0f);
        for (int j = 0; j < 4; j++) v_transpose(x[j]);
        for (int i = 0; i < VF_LANES; i++) {
            const vf row[4] = {x[0][i], x[1][i], x[2][i], x[3][i]};
            v_store_bytes((uint8_t *)block->v + (d + i) * KEYS + t, row, 0);
        }
    }
}

void VO_FN(attend_pack_s8)(int n, const float *k, int64_t ldk, const float *v, int64_t ldv,
                           vo_attend_s8 *block) {
    memset(block, 0, sizeof *block);
    pack_keys(n, k, ldk, block);
    for (int d = 0; d < HD; d += VF_LANES) pack_values(n, v, ldv, d, block);
    for (int i = 0; i < KEYS; i++)
        block->poison += 0.0f * block->k_scales[i] + 0.0f * block->v_scales[i];
}
