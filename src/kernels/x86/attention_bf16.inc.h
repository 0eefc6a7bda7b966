/* SPDX-License-Identifier: MIT
 *
 * Attention of whole windows in bf16, on AVX-512 with either of two multipliers. Scores
 * S^T = K Q^T and outputs O^T = V^T P have a query in each lane, as in simd/attention.inc.h; all
 * sums and the softmax are f32. A block is 64 keys by 32 queries, so that all it needs stays in L1.
 * The exponentials take as long as the products: the two are woven together and fill each other's
 * waits. While a block becomes probabilities, eight keys at a time, the block before is added to
 * the outputs and the block after is scored.
 *
 * Before it: vec_avx512.h, kernels/unroll.h, VO_FN, and c[ROWS][QUERIES] (+)= a[ROWS][2 PAIRS] B as
 *   product_load(b)             b: [PAIRS][QUERIES][2], for all products up to the next load
 *   product_part(i, a, c, add)  one of four parts, which lie between other work
 *   product_end(a, b, c, add)   c changes here and not before
 */

enum {
    QUERIES = VO_ATTEND_BF16_QUERIES,
    KEYS = VO_ATTEND_BF16_KEYS,
    HD = VO_ATTEND_BF16_HD,
    PAIRS = 32, /* of keys, and of elements of a head: one shape of B serves both products */
    ROWS = 16,
    PARTS = 4,
    STEPS = PAIRS / PARTS,
    A_SIZE = ROWS * 2 * PAIRS,
    B_SIZE = PAIRS * QUERIES * 2,
    C_SIZE = ROWS * QUERIES
};
_Static_assert(KEYS == 2 * PAIRS && HD == 2 * PAIRS && QUERIES == 2 * VF_LANES, "one shape of B");

/* All arrays lie in the caller's scratch. */
typedef struct state {
    float *scores;       /* [KEYS][QUERIES] */
    float *out;          /* [HD + ROWS][QUERIES]; row HD: sums of probabilities */
    uint16_t *queries;   /* [PAIRS][QUERIES][2] */
    uint16_t *old, *new; /* probabilities of two blocks, [PAIRS][QUERIES][2] */
    uint16_t *ones;      /* [ROWS][2 PAIRS], zero but for the first row */
    vf max[2];           /* what is subtracted from scaled scores, whole numbers */
    float factor;        /* from scores to powers of two */
} state;

/* 2^x for x < 16 plus half a unit in the last place of a bf16, so that its upper half is 2^x
 * rounded to the nearest; the polynomial is off by 7.5e-5. Below -126 the result stays there:
 * denormals take two hundred times as long. */
static inline vf exp2_rounded(vf x) {
    x = v_max(v_set(-126.0f), x);
    const vf f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf p = v_set(0x1.3f96a4p-4f); /* minimax fit on [0, 1] */
    p = v_fma(p, f, v_set(0x1.cefc4cp-3f));
    p = v_fma(p, f, v_set(0x1.64444cp-1f));
    p = v_fma(p, f, v_set(0x1.fff632p-1f + 0x1p-8f));
    return _mm512_scalef_ps(p, x);
}

/* Probabilities of keys 2 pair and 2 pair + 1, next to each other for each query */
static inline void softmax_pair(const state *s, int pair) {
    const float *from = s->scores + 2 * pair * QUERIES;
    uint16_t *to = s->new + pair *(2 * QUERIES);
    VO_UNROLL for (int j = 0; j < 2; j++) {
        vf x[2];
        VO_UNROLL for (int i = 0; i < 2; i++) x[i] = exp2_rounded(_mm512_fmsub_ps(
            v_load(from + i * QUERIES + j * VF_LANES), v_set(s->factor), s->max[j]));
        const __m512i lower = _mm512_srli_epi32(_mm512_castps_si512(x[0]), 16);
        const __m512i upper = _mm512_castps_si512(x[1]);
        _mm512_storeu_si512(to + 2 * j * VF_LANES,
                            _mm512_mask_blend_epi16(0xaaaaaaaa, lower, upper));
    }
}

/* The largest scaled score of each query in this block, rounded up to a whole number: outputs that
 * shrink when it grows then do so by powers of two, exactly. */
static inline void block_max(const state *s, vf max[2]) {
    vf m[4][2];
    VO_UNROLL for (int i = 0; i < 4; i++) {
        VO_UNROLL for (int j = 0; j < 2; j++) m[i][j] =
            v_load(s->scores + i * QUERIES + j * VF_LANES);
    }
    for (int t = 4; t < KEYS; t += 4) {
        VO_UNROLL for (int i = 0; i < 4; i++) {
            VO_UNROLL for (int j = 0; j < 2; j++) m[i][j] =
                v_max(m[i][j], v_load(s->scores + (t + i) * QUERIES + j * VF_LANES));
        }
    }
    VO_UNROLL for (int j = 0; j < 2; j++) {
        const vf most = v_max(v_max(m[0][j], m[1][j]), v_max(m[2][j], m[3][j]));
        max[j] = _mm512_roundscale_ps(v_mul(v_set(s->factor), most),
                                      _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
    }
}

/* Where the block's maximum exceeds what is subtracted by more than 8, this is raised to it. So
 * probabilities stay below 2^8, and after the first block outputs rarely have to shrink: by
 * 2^shrink, when the result is true. */
static inline bool raise_max(state *s, vf shrink[2]) {
    vf max[2];
    __mmask16 raised[2];
    block_max(s, max);
    VO_UNROLL for (int j = 0; j < 2; j++) {
        const vf old = s->max[j];
        raised[j] = v_less(v_add(old, v_set(8.0f)), max[j]);
        s->max[j] = v_select(raised[j], max[j], old);
        shrink[j] = v_select(raised[j], v_sub(old, max[j]), v_set(0.0f));
    }
    return (raised[0] | raised[1]) != 0;
}

static void shrink_out(const state *s, const vf shrink[2]) {
    for (int d = 0; d <= HD; d++) {
        VO_UNROLL for (int j = 0; j < 2; j++) {
            float *p = s->out + d * QUERIES + j * VF_LANES;
            v_store(p, _mm512_scalef_ps(v_load(p), shrink[j]));
        }
    }
}

/* ---- products --------------------------------------------------------------------------- */

typedef struct product {
    const uint16_t *a, *b; /* a is NULL: none */
    float *c;
    int add;
} product;

/* Outputs d.. += v^T of these values, d in units of ROWS; after the last of them the sums */
static inline product product_out(const state *s, const uint16_t *v, int d) {
    const uint16_t *a = d < HD / ROWS ? v + d * A_SIZE : s->ones;
    return (product){v ? a : NULL, s->old, s->out + d * C_SIZE, 1};
}

static inline product product_scores(const state *s, const uint16_t *k, int t) {
    return (product){k ? k + t * A_SIZE : NULL, s->queries, s->scores + t * C_SIZE, 0};
}

static inline void part(const product *p, const int i) {
    if (p->a) product_part(i, p->a, p->c, p->add);
}
static inline void end(const product *p) {
    if (p->a) product_end(p->a, p->b, p->c, p->add);
}
static inline void parts(const product *p) {
    VO_UNROLL for (int i = 0; i < PARTS; i++) part(p, i);
}

/* The softmax of the block whose scores are there. v: values of the block before, k: keys of the
 * block after, or NULL. There are 5 + 4 products for STEPS = 8: the first one covers the search for
 * the maximum. Scores may replace those that their own step has read. */
static inline void weave(state *s, const uint16_t *v, const uint16_t *k) {
    vf shrink[2];
    uint16_t *const swap = s->old;
    s->old = s->new;
    s->new = swap;
    if (v) product_load(s->old);
    product p = product_out(s, v, 0);
    parts(&p);
    const bool raised = raise_max(s, shrink);
    end(&p);
    for (int step = 0; step < STEPS; step++) {
        if (step == STEPS / 2 && k) product_load(s->queries);
        p = step < STEPS / 2 ? product_out(s, v, step + 1) : product_scores(s, k, step - STEPS / 2);
        VO_UNROLL for (int i = 0; i < PARTS; i++) {
            part(&p, i);
            softmax_pair(s, step * PARTS + i);
        }
        end(&p);
    }
    if (raised) shrink_out(s, shrink);
}

/* ---- a block of queries ------------------------------------------------------------------- */

/* 32 floats as bf16 */
static inline vf load_bf16(const float *x) {
    return (vf)_mm512_cvtne2ps_pbh(v_load(x + VF_LANES), v_load(x));
}

/* queries[pair][query], zero where q has no row */
static inline void pack_queries(const state *s, int64_t nq, const float *q, int64_t ldq) {
    for (int i0 = 0; i0 < QUERIES; i0 += VF_LANES) {
        for (int d = 0; d < HD; d += 2 * VF_LANES) {
            vf pairs[VF_LANES];
            for (int i = 0; i < VF_LANES; i++)
                pairs[i] = i0 + i < nq ? load_bf16(q + (i0 + i) * ldq + d) : v_set(0.0f);
            v_transpose(pairs);
            for (int i = 0; i < VF_LANES; i++)
                _mm512_storeu_ps(s->queries + ((d / 2 + i) * QUERIES + i0) * 2, pairs[i]);
        }
    }
}

/* out / sums, with a query in each row again */
static inline void unpack_out(const state *s, int64_t nq, float *out, int64_t ldo) {
    for (int i0 = 0; i0 < nq; i0 += VF_LANES) {
        const vf inverse = v_div(v_set(1.0f), v_load(s->out + HD * QUERIES + i0));
        for (int d = 0; d < HD; d += VF_LANES) {
            vf x[VF_LANES];
            for (int i = 0; i < VF_LANES; i++)
                x[i] = v_mul(v_load(s->out + (d + i) * QUERIES + i0), inverse);
            v_transpose(x);
            for (int i = 0; i < VF_LANES && i0 + i < nq; i++)
                v_store(out + (i0 + i) * ldo + d, x[i]);
        }
    }
}

/* Divides scratch among the arrays, on cache lines of their own, and fills those that start filled.
 */
static inline void begin(state *s, float scale, float *scratch) {
    const __m512i zero = _mm512_setzero_si512(), ones = _mm512_set1_epi16(0x3f80);
    s->scores = scratch + (64 - (uintptr_t)scratch % 64) % 64 / sizeof(float);
    s->out = s->scores + KEYS * QUERIES;
    s->queries = (uint16_t *)(void *)(s->out + (HD + ROWS) * QUERIES);
    s->old = s->queries + B_SIZE;
    s->new = s->old + B_SIZE;
    s->ones = s->new + B_SIZE;
    s->factor = scale * 0x1.715476p+0f; /* log2(e) */
    s->max[0] = s->max[1] = v_set(-INFINITY);
    for (int i = 0; i < (HD + ROWS) * QUERIES; i += 16) _mm512_storeu_si512(s->out + i, zero);
    for (int i = 0; i < A_SIZE; i += 32)
        _mm512_storeu_si512(s->ones + i, i < 2 * PAIRS ? ones : zero);
}

void VO_FN(attend_block_bf16)(int64_t nq, int64_t nk, float scale, const float *q, int64_t ldq,
                              const uint16_t *kv, float *out, int64_t ldo, float *scratch) {
    enum { V = KEYS * HD, BLOCK = VO_ATTEND_BF16_BLOCK };
    state s;
    product p;
    begin(&s, scale, scratch);
    pack_queries(&s, nq, q, ldq);
    product_load(s.queries);
    for (int i = 0; i < KEYS / ROWS; i++) {
        p = product_scores(&s, kv, i);
        parts(&p);
        end(&p);
    }
    for (int64_t t = 0; t < nk; t += KEYS, kv += BLOCK) {
        for (int64_t i = (nk - t) * QUERIES; i < KEYS * QUERIES; i += VF_LANES)
            v_store(s.scores + i, v_set(-INFINITY)); /* keys that do not exist */
        weave(&s, t > 0 ? kv - BLOCK + V : NULL, nk - t > KEYS ? kv + BLOCK : NULL);
    }
    s.old = s.new;
    product_load(s.old);
    for (int i = 0; i <= HD / ROWS; i++) {
        p = product_out(&s, kv - BLOCK + V, i);
        parts(&p);
        end(&p);
    }
    unpack_out(&s, nq, out, ldo);
}
