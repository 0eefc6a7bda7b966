/* SPDX-License-Identifier: MIT
 *
 * Attention of whole windows in bf16, on AVX-512 with either of two multipliers. Scores S = Q K^T
 * and outputs O = P V have a query in each row; sums are f32. A block is 64 keys by two groups of
 * 16 queries. The groups take turns: while the scores of one become probabilities, a query at a
 * time, the other is multiplied, which adds its last block to its outputs and scores its next one.
 * So products and exponentials fill each other's waits, what one writes is old enough when the
 * other reads it (tiles cannot be read from the store buffer), and all that a block needs, keys and
 * values too, stays in L1: tiles are stored as 16 rows, which must not miss.
 *
 * Before it: vec_avx512.h, kernels/unroll.h, VO_FN, and, for scores with add = 0 and for outputs
 * with add = 1, c[16][16] = (add ? c : 0) + a[16][2 PAIRS] b[PAIRS][16][2] as
 *   product_load(add, a)           a: as packed below, for all products up to the next load
 *   product_half(add, half, b, c)  half of the pairs; other work lies between the halves
 *   product_end(add, a, b, c)      c changes here and not before
 */

enum {
    GROUP = VF_LANES, /* queries */
    GROUPS = VO_ATTEND_BF16_QUERIES / GROUP,
    KEYS = VO_ATTEND_BF16_KEYS,
    HD = VO_ATTEND_BF16_HD,
    PAIRS = 32, /* of keys, and of elements of a head: one shape of a serves both products */
    WIDE = VF_LANES,
    COLUMNS = KEYS / WIDE,
    A_SIZE = GROUP * 2 * PAIRS, /* a: [2][GROUP][PAIRS], halves of the pairs */
    B_SIZE = PAIRS * WIDE * 2,
    C_SIZE = GROUP * WIDE,
    V = KEYS * HD, /* from keys to values */
    UNIT = 2048,   /* exponents of 2 are 16 bits, of which 11 come after the point, */
    ONE = 24       /* and this one stands for a probability of 1 */
};
_Static_assert(KEYS == 2 * PAIRS && HD == KEYS, "one shape of a product");
_Static_assert(GROUP == 4 * COLUMNS, "two queries beside each product");

/* Of a group; it lies in the caller's scratch. */
typedef struct group {
    float scores[COLUMNS * C_SIZE]; /* [COLUMNS][GROUP][WIDE] */
    float out[COLUMNS * C_SIZE];    /* [HD / WIDE][GROUP][WIDE] */
    float sums[C_SIZE];             /* of the probabilities, [GROUP][WIDE] */
    float bias[GROUP];              /* of the exponents, in UNITs */
    uint16_t queries[A_SIZE];
    uint16_t p[A_SIZE];
} group;
_Static_assert(GROUPS * sizeof(group) + 64 <= VO_ATTEND_BF16_SCRATCH * sizeof(float), "scratch");

/* bf16 of 2^(x - 31) for 32 numbers x, whole multiples of 1 / UNIT, and 0 for 0. With f the
 * fraction, 2^f is 1 + f - f (1 - f) (0.3069 + 0.0794 f) within 2e-4; what does not fit is cut off,
 * in sums as well. */
static inline __m512i exp2_bits(__m512i x) {
    const __m512i f = _mm512_slli_epi16(x, 5), all = _mm512_set1_epi16(-1);
    const __m512i square = _mm512_mulhi_epu16(f, _mm512_xor_si512(f, all));
    const __m512i slope = _mm512_mulhi_epu16(f, _mm512_set1_epi16((short)(0.0794 * UNIT + 0.5)));
    const __m512i much = _mm512_add_epi16(slope, _mm512_set1_epi16((short)(0.3069 * UNIT + 0.5)));
    const __m512i bits = _mm512_sub_epi16(x, _mm512_mulhi_epu16(square, much));
    return _mm512_maskz_add_epi16(_mm512_test_epi16_mask(x, x), _mm512_srli_epi16(bits, 4),
                                  _mm512_set1_epi16(96 << 7));
}

/* Probabilities of a query; they are added to its sum unless one was too large. */
static inline int softmax_query(group *g, int query, float scale) {
    const vf factor = v_set(scale), bias = v_set(g->bias[query]);
    const __m512i ones = _mm512_set1_epi16(0x3f80), too_large = _mm512_set1_epi16(-1);
    const float *from = g->scores + query * WIDE;
    vf sum = v_load(g->sums + query * WIDE);
    __m512i x[2];
    VO_UNROLL for (int half = 0; half < 2; half++) {
        const float *s = from + 2 * half * C_SIZE;
        x[half] = _mm512_packus_epi32(_mm512_cvtps_epi32(v_fma(v_load(s), factor, bias)),
                                      _mm512_cvtps_epi32(v_fma(v_load(s + C_SIZE), factor, bias)));
        const __m512i p = exp2_bits(x[half]);
        _mm512_storeu_si512(g->p + half * (A_SIZE / 2) + query * PAIRS, p);
        sum = _mm512_dpbf16_ps(sum, (__m512bh)p, (__m512bh)ones);
    }
    if (_mm512_cmpeq_epu16_mask(_mm512_max_epu16(x[0], x[1]), too_large)) return 1 << query;
    v_store(g->sums + query * WIDE, sum);
    return 0;
}

/* Makes the largest score of a query ONE, up to a whole number. Its outputs and sums before this
 * block shrink by a power of two, exactly. */
static void set_bias(group *g, int query, float scale) {
    vf m = v_load(g->scores + query * WIDE);
    for (int i = 1; i < COLUMNS; i++) m = v_max(m, v_load(g->scores + i * C_SIZE + query * WIDE));
    const float top = scale * _mm512_reduce_max_ps(m);
    const float bias = UNIT * (ONE - ceilf(top / UNIT));
    const vf shrink = v_set((bias - g->bias[query]) / UNIT);
    g->bias[query] = bias;
    float *rows[HD / WIDE + 1] = {g->sums + query * WIDE};
    for (int i = 0; i < HD / WIDE; i++) rows[i + 1] = g->out + i * C_SIZE + query * WIDE;
    for (int i = 0; i <= HD / WIDE; i++)
        v_store(rows[i], _mm512_scalef_ps(v_load(rows[i]), shrink));
}

/* ---- products --------------------------------------------------------------------------- */

static inline void product(const int add, const uint16_t *a, const uint16_t *b, float *c) {
    product_half(add, 0, b, c);
    product_half(add, 1, b, c);
    product_end(add, a, b, c);
}

/* A product for the other group, if b is not NULL, beside two queries of the softmax */
static inline int step(const int add, group *other, const uint16_t *b, int i, group *g, int query,
                       float scale) {
    const uint16_t *a = add ? other->p : other->queries;
    float *c = (add ? other->out : other->scores) + i * C_SIZE;
    int raised = 0;
    VO_UNROLL for (int half = 0; half < 2; half++) {
        if (b) product_half(add, half, b + i * B_SIZE, c);
        raised |= softmax_query(g, query + half, scale);
    }
    if (b) product_end(add, a, b + i * B_SIZE, c);
    return raised;
}

/* The softmax of a group whose scores are there. For the other group, k: keys of its next block, v:
 * values of its last one, or NULL. */
static inline void take_turn(group *g, group *other, const uint16_t *k, const uint16_t *v,
                             float scale) {
    int raised = 0;
    product_load(0, other->queries);
    for (int i = 0; i < COLUMNS; i++) raised |= step(0, other, k, i, g, 2 * i, scale);
    product_load(1, other->p);
    for (int i = 0; i < COLUMNS; i++) raised |= step(1, other, v, i, g, 2 * (COLUMNS + i), scale);
    for (int i = 0; raised >> i; i++) {
        if (!(raised >> i & 1)) continue;
        set_bias(g, i, scale);
        softmax_query(g, i, scale);
    }
}

static void score(group *g, const uint16_t *k) {
    product_load(0, g->queries);
    for (int i = 0; i < COLUMNS; i++)
        product(0, g->queries, k + i * B_SIZE, g->scores + i * C_SIZE);
}

static void add_values(group *g, const uint16_t *v) {
    product_load(1, g->p);
    for (int i = 0; i < COLUMNS; i++) product(1, g->p, v + i * B_SIZE, g->out + i * C_SIZE);
}

/* ---- a block of queries ------------------------------------------------------------------- */

/* 32 floats as bf16 */
static inline vf load_bf16(const float *x) {
    return (vf)_mm512_cvtne2ps_pbh(v_load(x + VF_LANES), v_load(x));
}

/* The order of keys in columns is the one that packus_epi32 puts right. */
static inline int key_of(int column, int lane) {
    return column / 2 * PAIRS + lane / 4 * 8 + column % 2 * 4 + lane % 4;
}

/* A group of n queries, none of them if n < 1 */
static void begin(group *g, int64_t n, const float *q, int64_t ldq) {
    for (int i = 0; i < GROUP; i++) {
        for (int half = 0; half < 2; half++)
            _mm512_storeu_ps(g->queries + half * (A_SIZE / 2) + i * PAIRS,
                             i < n ? load_bf16(q + i * ldq + half * PAIRS) : v_set(0.0f));
        v_store(g->sums + i * WIDE, v_set(0.0f));
        g->bias[i] = 0.0f;
    }
    for (int i = 0; i < COLUMNS * C_SIZE; i += WIDE) v_store(g->out + i, v_set(0.0f));
}

/* Scores of keys that do not exist: there are n. */
static void hide_keys(group *g, int64_t n) {
    for (int i = 0; i < COLUMNS; i++) {
        __mmask16 hidden = 0;
        for (int lane = 0; lane < WIDE; lane++)
            hidden |= (__mmask16)((key_of(i, lane) >= n) << lane);
        for (int query = 0; query < GROUP; query++)
            _mm512_mask_storeu_ps(g->scores + i * C_SIZE + query * WIDE, hidden, v_set(-INFINITY));
    }
}

static void prepare(group *g, int64_t t, int64_t nk, float scale) {
    if (nk - t < KEYS) hide_keys(g, nk - t);
    for (int i = 0; i < GROUP && t == 0; i++) set_bias(g, i, scale);
}

static void end(const group *g, int64_t n, float *out, int64_t ldo) {
    for (int i = 0; i < GROUP && i < n; i++) {
        const vf inverse = v_set(1.0f / _mm512_reduce_add_ps(v_load(g->sums + i * WIDE)));
        for (int d = 0; d < HD / WIDE; d++)
            v_store(out + i * ldo + d * WIDE,
                    v_mul(v_load(g->out + d * C_SIZE + i * WIDE), inverse));
    }
}

void VO_FN(attend_block_bf16)(int64_t nq, int64_t nk, float scale, const float *q, int64_t ldq,
                              const uint16_t *kv, float *out, int64_t ldo, float *scratch) {
    enum { BLOCK = VO_ATTEND_BF16_BLOCK };
    group *g = (group *)(void *)(scratch + (64 - (uintptr_t)scratch % 64) % 64 / sizeof(float));
    scale *= 0x1.715476p+0f * UNIT; /* log2(e) */
    for (int i = 0; i < GROUPS; i++) begin(g + i, nq - i * GROUP, q + i * GROUP * ldq, ldq);
    score(g, kv);
    for (int64_t t = 0; t < nk; t += KEYS, kv += BLOCK) {
        prepare(g, t, nk, scale);
        take_turn(g, g + 1, kv, t > 0 ? kv - BLOCK + V : NULL, scale);
        prepare(g + 1, t, nk, scale);
        take_turn(g + 1, g, nk - t > KEYS ? kv + BLOCK : NULL, kv + V, scale);
    }
    add_values(g + 1, kv - BLOCK + V);
    for (int i = 0; i < GROUPS; i++) end(g + i, nq - i * GROUP, out + i * GROUP * ldo, ldo);
}
