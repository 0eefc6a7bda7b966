/* SPDX-License-Identifier: MIT
 *
 * Attention in less than f32 (see support_attention.h).
 */
#include "kernels/support_attention.h"

#include <string.h>

/* ---- a cache of f16 --------------------------------------------------------------------- */

/* Halves of size at most `size`, and what they are as floats. */
static void fill_halves(uint16_t *halves, float *floats, int64_t n, float size) {
    for (int64_t i = 0; i < n; i++) {
        halves[i] = vo_f32_to_f16(check_uniform(-size, size));
        floats[i] = vo_f16_to_f32(halves[i]);
    }
}

/* A random permutation, grown in place. */
static void shuffle(int32_t *table, int64_t n) {
    for (int32_t t = 0; t < (int32_t)n; t++) {
        const int other = check_below(t + 1);
        table[t] = table[other];
        table[other] = t;
    }
}

/* The kernel of f32, tested against sums in double, says what is right. */
static void cached_case(const vo_kernels *k, int64_t nq, int64_t len, int64_t hd, bool mapped,
                        float size) {
    const int64_t ldq = hd + check_below(3), ldo = hd + check_below(3);
    const int64_t out_floats = (nq - 1) * ldo + hd;
    const float scale = 1 / sqrtf((float)hd);
    float *q = check_floats(0, (nq - 1) * ldq + hd), *scores = check_floats(1, nq * len);
    uint16_t *keys = check_halves(2, len * hd), *values = check_halves(3, len * hd);
    float *floats = check_floats(4, 2 * len * hd), *out = check_floats(5, out_floats);
    int32_t *table = (int32_t *)(void *)check_floats(6, len);
    float *want = check_floats(7, out_floats);
    shuffle(table, len);
    if (!mapped) table = NULL;
    check_fill(q, (nq - 1) * ldq + hd, -size, size);
    fill_halves(keys, floats, len * hd, size);
    fill_halves(values, floats + len * hd, len * hd, 2);
    k->attend_cached(nq, len, hd, scale, q, ldq, floats, floats + len * hd, table, want, ldo,
                     scores);
    k->attend_cached_f16(nq, len, hd, scale, q, ldq, keys, values, table, out, ldo, scores);
    if (memcmp(out, want, (size_t)out_floats * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: not what floats give", (long long)nq, (long long)len,
                   (long long)hd);
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
    float *alone = check_floats(7, hd);
    k->attend_cached_f16(1, len, hd, scale, q + (nq - 1) * ldq, ldq, keys, values, table, alone,
                         ldo, scores);
    if (memcmp(alone, out + (nq - 1) * ldo, (size_t)hd * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)len, (long long)hd);
}

/* ---- a cache of s8 ---------------------------------------------------------------------- */

/* Queries and weights of 15 or 16 bits, which some levels use for heads of 64, move a score by up
 * to 1e-4 in the cases below. */
static double s8_bound(int64_t hd) {
    static const char *const levels[] = {"avx2", "avxvnni", "vnni", "bf16", "amx"};
    for (size_t i = 0; hd == 64 && i < sizeof levels / sizeof *levels; i++)
        if (!strcmp(check.level, levels[i])) return 2e-4;
    return 2e-5;
}

/* Against the plain C kernel, whose sums are in double. The first of several queries may be NaN:
 * its neighbours do not notice. */
static void s8_case(const vo_kernels *k, int64_t nq, int64_t len, int64_t hd, bool mapped,
                    bool spoilt) {
    const int64_t ldq = hd + check_below(3), ldo = hd + check_below(3);
    const int64_t out_floats = (nq - 1) * ldo + hd;
    const float scale = 1 / sqrtf((float)hd);
    float *q = check_floats(0, (nq - 1) * ldq + hd), *scores = check_floats(1, nq * len);
    int8_t *keys = (int8_t *)check_halves(2, (len * hd + 1) / 2);
    int8_t *values = (int8_t *)check_halves(3, (len * hd + 1) / 2);
    float *scales = check_floats(4, 2 * len), *out = check_floats(5, out_floats);
    int32_t *table = (int32_t *)(void *)check_floats(6, len);
    float *want = check_floats(7, out_floats);
    shuffle(table, len);
    if (!mapped) table = NULL;
    check_fill(q, (nq - 1) * ldq + hd, -1, 1);
    check_fill(scales, 2 * len, 0.001f, 0.02f);
    if (spoilt) q[0] = NAN;
    for (int64_t i = 0; i < len * hd; i++) {
        keys[i] = (int8_t)(check_below(255) - 127);
        values[i] = (int8_t)(check_below(255) - 127);
    }
    vo_ref_attend_cached_s8(nq, len, hd, scale, q, ldq, keys, scales, values, scales + len, table,
                            want, ldo, scores);
    k->attend_cached_s8(nq, len, hd, scale, q, ldq, keys, scales, values, scales + len, table, out,
                        ldo, scores);
    for (int64_t i = spoilt; i < nq; i++)
        for (int64_t d = 0; d < hd; d++)
            if (!check_near((double)out[i * ldo + d], (double)want[i * ldo + d], s8_bound(hd)))
                check_fail("nq=%lld len=%lld hd=%lld", (long long)nq, (long long)len,
                           (long long)hd);
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
    float *alone = check_floats(7, hd);
    k->attend_cached_s8(1, len, hd, scale, q + (nq - 1) * ldq, ldq, keys, scales, values,
                        scales + len, table, alone, ldo, scores);
    if (memcmp(alone, out + (nq - 1) * ldo, (size_t)hd * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)len, (long long)hd);
}

void test_attend_cached_s8(const vo_kernels *k) {
    static const int64_t lengths[] = {0, 1, 3, 8, 15, 16, 17, 65, 448, 1500};
    static const int64_t sizes[] = {4, 20, 64, 80};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t d = 0; d < sizeof sizes / sizeof *sizes; d++)
            for (int nq = 1; nq <= VO_SKINNY_ROWS; nq += 3)
                s8_case(k, nq, lengths[l], sizes[d], (nq + (int)l) % 2, nq == 4);
}

/* Equal to plain C, in bytes and scale, and nothing is written beyond. */
void test_f32_to_s8(const vo_kernels *k) {
    for (int64_t n = 1; n < 140; n++)
        for (int kind = 0; kind < 4; kind++) {
            float *x = check_floats(0, n), scale = -1, want_scale = -1;
            int8_t *y = (int8_t *)check_halves(1, (n + 2) / 2), want[140];
            check_fill(x, n, -3, 3);
            for (int64_t i = 0; kind == 1 && i < n; i++) x[i] = 0;
            for (int64_t i = 0; kind == 2 && i < n; i++) x[i] *= 1e-36f;
            if (kind == 3) x[check_below((int)n)] = 1e30f;
            y[n] = 77;
            vo_ref_f32_to_s8(n, x, want, &want_scale);
            k->f32_to_s8(n, x, y, &scale);
            if (scale != want_scale || memcmp(y, want, (size_t)n) || y[n] != 77)
                check_fail("n=%lld kind=%d", (long long)n, kind);
        }
}

void test_attend_cached_f16(const vo_kernels *k) {
    static const int64_t lengths[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 63, 64, 65, 130, 448, 1500};
    static const int64_t heads[] = {64, 128, 80, 20, 13, 1, 64};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++)
            cached_case(k, 1 + check_below(VO_SKINNY_ROWS), lengths[i], heads[j], (i + j) & 1,
                        j == 1 ? 30 : 2);
    for (int nq = 1; nq <= VO_SKINNY_ROWS; nq++)
        for (int mapped = 0; mapped < 2; mapped++) cached_case(k, nq, 100, 64, mapped, 2);
}

/* ---- weights alone ---------------------------------------------------------------------- */

/* One kernel on a cache of its type. */
static void weigh(const vo_kernels *k, vo_dtype type, int64_t nq, int64_t len, int64_t hd,
                  const float *q, int64_t ldq, const void *keys, const float *scales, float *out,
                  int64_t ldo) {
    const float scale = 1 / sqrtf((float)hd);
    if (type == VO_I8)
        k->weigh_cached_s8(nq, len, hd, scale, q, ldq, keys, scales, out, ldo);
    else if (type == VO_F16)
        k->weigh_cached_f16(nq, len, hd, scale, q, ldq, keys, out, ldo);
    else
        k->weigh_cached(nq, len, hd, scale, q, ldq, keys, out, ldo);
}

/* Random keys of a type, and their values in double. */
static const void *weigh_keys(vo_dtype type, int64_t len, int64_t hd, float size, float *scales,
                              double *values) {
    float *floats = type == VO_F32 ? check_floats(1, len * hd) : NULL;
    uint16_t *halves = type == VO_F16 ? check_halves(1, len * hd) : NULL;
    int8_t *bytes = type == VO_I8 ? (int8_t *)check_halves(1, (len * hd + 1) / 2) : NULL;
    for (int64_t i = 0; i < len * hd; i++) {
        const float x = check_uniform(-size, size);
        if (floats) values[i] = (double)(floats[i] = x);
        if (halves) values[i] = (double)vo_f16_to_f32(halves[i] = vo_f32_to_f16(x));
        if (bytes) bytes[i] = (int8_t)(check_below(255) - 127);
        if (bytes) values[i] = (double)scales[i / hd] * bytes[i];
    }
    return floats ? (const void *)floats : halves ? (const void *)halves : (const void *)bytes;
}

/* Against sums in double: an error of a score is one of the weight, relative to it. */
static void weigh_case(const vo_kernels *k, vo_dtype type, int64_t nq, int64_t len, int64_t hd,
                       float size) {
    static double values[1500 * 128], want[1500];
    const int64_t ldq = hd + check_below(3), ldo = len + check_below(3);
    float *q = check_floats(0, (nq - 1) * ldq + hd), *scales = check_floats(2, len);
    float *out = check_floats(3, (nq - 1) * ldo + len), *alone = check_floats(4, len);
    check_fill(q, (nq - 1) * ldq + hd, -size, size);
    check_fill(scales, len, 0.001f, 0.02f);
    const void *keys = weigh_keys(type, len, hd, size, scales, values);
    weigh(k, type, nq, len, hd, q, ldq, keys, scales, out, ldo);
    for (int64_t i = 0; i < nq; i++) {
        double max = -INFINITY, total = 0, norm = 0;
        for (int64_t t = 0; t < len; t++) {
            double sum = 0, sizes = 0;
            for (int64_t d = 0; d < hd; d++) {
                const double product = (double)q[i * ldq + d] * values[t * hd + d];
                sum += product;
                sizes += fabs(product);
            }
            want[t] = sum / (double)sqrtf((float)hd);
            max = fmax(max, want[t]);
            norm = fmax(norm, sizes / sqrt((double)hd));
        }
        for (int64_t t = 0; t < len; t++) total += exp(want[t] - max);
        for (int64_t t = 0; t < len; t++) {
            const double p = exp(want[t] - max) / total;
            const double relative = 4e-6 + 2 * norm * ((double)hd + 3) * 0x1p-24;
            if (!check_near((double)out[i * ldo + t], p, p * relative + 1e-12))
                check_fail("nq=%lld len=%lld hd=%lld: %g instead of %g", (long long)nq,
                           (long long)len, (long long)hd, (double)out[i * ldo + t], p);
        }
    }
    if (!check_gaps_intact(out, nq, len, ldo)) check_fail("wrote between rows");
    weigh(k, type, 1, len, hd, q + (nq - 1) * ldq, ldq, keys, scales, alone, len);
    if (memcmp(alone, out + (nq - 1) * ldo, (size_t)len * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)len, (long long)hd);
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
}

static void weigh_cases(const vo_kernels *k, vo_dtype type) {
    static const int64_t lengths[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 65, 550, 1500};
    static const int64_t heads[] = {64, 64, 128, 80, 20, 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++)
            weigh_case(k, type, 1 + check_below(VO_SKINNY_ROWS), lengths[i], heads[j],
                       j == 1 ? 6 : 2);
    for (int nq = 1; nq <= VO_SKINNY_ROWS; nq++) weigh_case(k, type, nq, 100, 64, 2);
}

void test_weigh_cached(const vo_kernels *k) {
    weigh_cases(k, VO_F32);
}
void test_weigh_cached_f16(const vo_kernels *k) {
    weigh_cases(k, VO_F16);
}
void test_weigh_cached_s8(const vo_kernels *k) {
    weigh_cases(k, VO_I8);
}

/* ---- bf16 ------------------------------------------------------------------------------- */

enum { KEYS = VO_ATTEND_BF16_KEYS, HD = VO_ATTEND_BF16_HD, BLOCK = VO_ATTEND_BF16_BLOCK };

/* What element i of a packed block is: kernels.def has its order. */
static uint16_t packed_at(int n, const float *k, int64_t ldk, const float *v, int64_t ldv, int i) {
    const bool key = i < KEYS * HD;
    const int column = i % (KEYS * HD) / (16 * HD), pair = i % (16 * HD) / 32;
    const int lane = i % 32 / 2, second = i % 2;
    const int t =
        key ? column / 2 * 32 + lane / 4 * 8 + column % 2 * 4 + lane % 4 : 2 * pair + second;
    const int d = key ? 2 * pair + second : 16 * column + lane;
    if (t >= n) return 0;
    return vo_f32_to_bf16(key ? k[t * ldk + d] : v[t * ldv + d]);
}

void test_attend_pack_bf16(const vo_kernels *k) {
    for (int n = 1; n <= KEYS; n++) {
        const int64_t ldk = HD + check_below(5), ldv = HD + check_below(5);
        float *keys = check_floats(0, (n - 1) * ldk + HD),
              *values = check_floats(1, (n - 1) * ldv + HD);
        uint16_t *block = check_halves(2, BLOCK);
        check_fill(keys, (n - 1) * ldk + HD, -3, 3);
        check_fill(values, (n - 1) * ldv + HD, -3, 3);
        k->attend_pack_bf16(n, keys, ldk, values, ldv, block);
        for (int i = 0; i < BLOCK; i++)
            if (block[i] != packed_at(n, keys, ldk, values, ldv, i))
                check_fail("n=%d: element %d is %04x, not %04x", n, i, block[i],
                           packed_at(n, keys, ldk, values, ldv, i));
        if (!check_slots_intact()) check_fail("wrote before the start of an array");
    }
}

typedef struct attention {
    int64_t nq, nk, ldq, ldo;
    float scale;
    float *q, *keys, *values, *out, *scratch; /* keys, values: [nk][HD] */
    uint16_t *kv;
} attention;

/* What softmax meets: 0: much the same scores; 1: one key that outweighs all, another for each
 * query; 2, 3: scores that rise or fall from key to key by 2^198 in all; 4: one score for all; 5:
 * scores far below 0, which is what keys that do not exist would have. */
static void fill(const attention *a, int kind) {
    check_fill(a->q, (a->nq - 1) * a->ldq + HD, -1.5f, 1.5f);
    check_fill(a->keys, a->nk * HD, -1.5f, 1.5f);
    check_fill(a->values, a->nk * HD, -1, 1);
    for (int64_t i = 0; kind == 1 && i < a->nq; i++)
        for (int64_t d = 0, t = check_below((int)a->nk); d < HD; d++)
            a->q[i * a->ldq + d] = 1.7f * a->keys[t * HD + d];
    for (int64_t t = 0; (kind == 2 || kind == 3) && t < a->nk; t++)
        a->keys[t * HD] = 1100 * (float)(kind == 2 ? t : a->nk - t) / (float)a->nk;
    for (int64_t i = 0; (kind == 2 || kind == 3) && i < a->nq; i++) a->q[i * a->ldq] = 1;
    for (int64_t i = 0; kind == 4 && i < a->nq; i++)
        for (int64_t d = 0; d < HD; d++) a->q[i * a->ldq + d] = 0;
    for (int64_t t = 0; kind == 5 && t < a->nk; t++) a->keys[t * HD] = -900;
    for (int64_t i = 0; kind == 5 && i < a->nq; i++) a->q[i * a->ldq] = 1;
}

/* q, keys and values rounded as the kernel does */
static void round_all(const attention *a) {
    float *const arrays[] = {a->q, a->keys, a->values};
    const int64_t sizes[] = {(a->nq - 1) * a->ldq + HD, a->nk * HD, a->nk * HD};
    for (int i = 0; i < 3; i++)
        for (int64_t j = 0; j < sizes[i]; j++)
            arrays[i][j] = vo_bf16_to_f32(vo_f32_to_bf16(arrays[i][j]));
}

/* want: [HD] of query i in double, with the error that rounded probabilities and sums of floats may
 * cause: each weighs the distance of its value from the result. */
static void attend(const attention *a, int64_t i, double *want, double *tolerance) {
    static double p[2048];
    double max = -INFINITY, total = 0, products = 0;
    for (int64_t t = 0; t < a->nk; t++) {
        double sum = 0, size = 0;
        for (int64_t d = 0; d < HD; d++) {
            const double product = (double)a->q[i * a->ldq + d] * (double)a->keys[t * HD + d];
            sum += product;
            size += fabs(product);
        }
        p[t] = (double)a->scale * sum;
        max = fmax(max, p[t]);
        products = fmax(products, (double)a->scale * size);
    }
    for (int64_t t = 0; t < a->nk; t++) total += p[t] = exp(p[t] - max);
    /* half a unit of bf16, the exponents and powers, and the scores before and after they are
     * scaled */
    const double each = 0x1p-8 + 4e-4 + products * (HD + 4) * 0x1p-24;
    for (int64_t d = 0; d < HD; d++) {
        double spread = 0, size = 0, lost = 0;
        want[d] = 0;
        for (int64_t t = 0; t < a->nk; t++) want[d] += p[t] / total * (double)a->values[t * HD + d];
        for (int64_t t = 0; t < a->nk; t++) {
            const double share = p[t] / total * fabs((double)a->values[t * HD + d] - want[d]);
            spread += share;
            if (p[t] < 0x1p-22) lost += share; /* at most: below 2^-24 of a first maximum */
            size += p[t] / total * fabs((double)a->values[t * HD + d]);
        }
        /* The last but one: sums of floats */
        tolerance[d] =
            each * (1 + 2 * each) * spread + lost + size * (double)a->nk * 0x1p-23 + 1e-30;
    }
}

static void compare(const attention *a, int kind) {
    double want[HD], tolerance[HD];
    for (int64_t i = 0; i < a->nq; i++) {
        attend(a, i, want, tolerance);
        for (int64_t d = 0; d < HD; d++)
            if (!check_near((double)a->out[i * a->ldo + d], want[d], tolerance[d]))
                check_fail("nk=%lld kind %d query %lld [%lld] = %.9g, not %.9g (+- %.2g)",
                           (long long)a->nk, kind, (long long)i, (long long)d,
                           (double)a->out[i * a->ldo + d], want[d], tolerance[d]);
    }
}

/* |out - want| / |want| over all queries, of values that were not rounded before */
static double relative_error(const attention *a) {
    double want[HD], tolerance[HD], error = 0, size = 0;
    for (int64_t i = 0; i < a->nq; i++) {
        attend(a, i, want, tolerance);
        for (int64_t d = 0; d < HD; d++) {
            error += pow((double)a->out[i * a->ldo + d] - want[d], 2);
            size += pow(want[d], 2);
        }
    }
    return sqrt(error / size);
}

static void run(const vo_kernels *k, const attention *a, int64_t first, int64_t nq, float *out) {
    k->tiles_begin();
    k->attend_block_bf16(nq, a->nk, a->scale, a->q + first * a->ldq, a->ldq, a->kv, out, a->ldo,
                         a->scratch);
    k->tiles_end();
}

static void block_case(const vo_kernels *k, int64_t nq, int64_t nk, int kind) {
    attention a = {.nq = nq, .nk = nk, .ldq = HD + check_below(3), .ldo = HD + check_below(3)};
    const int64_t blocks = (nk + KEYS - 1) / KEYS;
    a.scale = 0.125f;
    a.q = check_floats(0, (nq - 1) * a.ldq + HD);
    a.keys = check_floats(1, nk * HD);
    a.values = check_floats(2, nk * HD);
    a.kv = check_halves(3, blocks * BLOCK);
    a.out = check_floats(4, (nq - 1) * a.ldo + HD);
    a.scratch = check_floats(5, VO_ATTEND_BF16_SCRATCH);
    fill(&a, kind);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t t = b * KEYS, n = nk - t < KEYS ? nk - t : KEYS;
        k->attend_pack_bf16((int)n, a.keys + t * HD, HD, a.values + t * HD, HD, a.kv + b * BLOCK);
    }
    run(k, &a, 0, nq, a.out);
    if (!check_gaps_intact(a.out, nq, HD, a.ldo)) check_fail("wrote between rows");
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
    if (kind < 2 && nk > 1 && relative_error(&a) > 1e-2)
        check_fail("nk=%lld kind %d: off by %.2g of the result", (long long)nk, kind,
                   relative_error(&a));
    float *alone = check_floats(6, HD);
    run(k, &a, nq - 1, 1, alone);
    if (memcmp(alone, a.out + (nq - 1) * a.ldo, HD * sizeof *alone))
        check_fail("nq=%lld nk=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)nk);
    round_all(&a);
    compare(&a, kind);
}

void test_attend_block_bf16(const vo_kernels *k) {
    static const int64_t lengths[] = {1, 2, 16, 63, 64, 65, 127, 128, 129, 500, 1500};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind < 6; kind++)
            block_case(k, 1 + check_below(lengths[i] < 500 ? VO_ATTEND_BF16_QUERIES : 4),
                       lengths[i], kind);
    for (int nq = 1; nq <= VO_ATTEND_BF16_QUERIES; nq++) block_case(k, nq, 70, nq % 6);
}

/* ---- s8 --------------------------------------------------------------------------------- */

/* The largest of keys and values, of queries, and of probabilities */
typedef struct steps {
    double kv, q, p;
} steps;

static steps steps_of(const vo_kernels *k) {
    return k->int8_max == 63 ? (steps){64, 63, 127} : (steps){127, 127, 255};
}

/* n rows of HD with stride ld */
static float *rows_of(int slot, int n, int64_t ld, float size) {
    float *x = check_floats(slot, (n - 1) * ld + HD);
    check_fill(x, (n - 1) * ld + HD, -size, size);
    return x;
}

static double largest_size(const float *x, int64_t step, int n) {
    double largest = 0;
    for (int i = 0; i < n; i++)
        if (fabs((double)x[i * step]) > largest) largest = fabs((double)x[i * step]);
    return largest;
}

/* Of n numbers each is the nearest, with a scale that lets the largest reach `most`; the others are
 * 0. */
static void check_packed_s8(const float *x, int64_t step, int n, double most, float scale,
                            const int8_t *q) {
    const double largest = largest_size(x, step, n);
    const double want = largest < (double)VO_INT8_TINY ? 0 : largest / most;
    if (!check_near((double)scale, want, 1e-6 * want))
        check_fail("n=%d: a scale of %g, not %g", n, (double)scale, want);
    for (int i = 0; i < 64; i++) {
        const double value = i < n ? (double)x[i * step] : 0;
        if (scale > 0 ? !check_near(q[i], value / (double)scale, 0.502) : q[i] != 0)
            check_fail("n=%d: [%d] is %d of %g, not %g", n, i, q[i], (double)scale, value);
    }
}

void test_attend_pack_s8(const vo_kernels *k) {
    const double most = steps_of(k).kv;
    for (int n = 1; n <= KEYS; n++) {
        const int64_t ldk = HD + check_below(5), ldv = HD + check_below(5);
        float *keys = rows_of(0, n, ldk, ldexpf(1, check_below(40) - 20));
        const float *values = rows_of(1, n, ldv, n % 9 ? 3 : n % 2 ? 0 : 1e-35f);
        vo_attend_s8 *block = (vo_attend_s8 *)(void *)check_floats(2, sizeof *block / 4);
        for (int d = 0; d < HD; d++) keys[n / 2 * ldk + d] *= n % 7 ? 100 : 0;
        k->attend_pack_s8(n, keys, ldk, values, ldv, block);
        for (int t = 0; t < KEYS; t++)
            check_packed_s8(t < n ? keys + t * ldk : keys, 1, t < n ? HD : 0, most,
                            block->k_scales[t], block->k + t * HD);
        for (int d = 0; d < HD; d++)
            check_packed_s8(values + d, ldv, n, most, block->v_scales[d], block->v + d * KEYS);
        if (!(block->poison == 0)) check_fail("n=%d: poisoned", n);
        if (!check_slots_intact()) check_fail("wrote before the start of an array");
    }
}

/* The largest probability of the block that has key t */
static double top_of_block(const double *p, int64_t nk, int64_t t) {
    double top = 0;
    for (int64_t i = t - t % KEYS; i < nk && i < t - t % KEYS + KEYS; i++) top = fmax(top, p[i]);
    return top;
}

/* The most that rounding may do to query i: half a step in each number of a score shifts it, half a
 * step in a probability adds to it, half a step in a value moves the result. */
static void bound_s8(const attention *a, steps most, int64_t i, const double *want, double *bound) {
    static double p[2048], shift[2048], top[2048];
    const float *q = a->q + i * a->ldq;
    double most_q = 0, all_q = 0, max = -INFINITY, total = 0, largest = 0;
    for (int64_t d = 0; d < HD; d++) {
        most_q = fmax(most_q, fabs((double)q[d]));
        all_q += fabs((double)q[d]);
    }
    for (int64_t t = 0; t < a->nk; t++) {
        double sum = 0, all_k = 0, most_k = 0;
        for (int64_t d = 0; d < HD; d++) {
            const double x = (double)a->keys[t * HD + d];
            sum += (double)q[d] * x;
            all_k += fabs(x);
            most_k = fmax(most_k, fabs(x));
        }
        p[t] = (double)a->scale * sum;
        max = fmax(max, p[t]);
        shift[t] = (double)a->scale *
                   (most_q * all_k / most.q + most_k * all_q / most.kv +
                    HD * most_q * most_k / (2 * most.q * most.kv)) /
                   2;
        largest = fmax(largest, shift[t]);
    }
    for (int64_t t = 0; t < a->nk; t++) total += p[t] = exp(p[t] - max);
    for (int64_t t = 0; t < a->nk; t++) top[t] = top_of_block(p, a->nk, t);
    for (int64_t d = 0; d < HD; d++) {
        double spread = 0, most_v = 0;
        /* The largest probability of a block is at least half of what P_MAX stands for. All
         * probabilities are relative to their sum, which moves by as much. */
        for (int64_t t = 0; t < a->nk; t++) {
            const double away = fabs((double)a->values[t * HD + d] - want[d]);
            spread += away / total *
                      (p[t] * expm1(shift[t] + largest) + exp(largest) * 1.1 / most.p * top[t]);
            most_v = fmax(most_v, fabs((double)a->values[t * HD + d]));
        }
        bound[d] = spread * 1.02 + most_v / (2 * most.kv) + 1e-4 * most_v;
    }
}

static void block_case_s8(const vo_kernels *k, int64_t nq, int64_t nk, int kind) {
    attention a = {.nq = nq, .nk = nk, .ldq = HD + check_below(3), .ldo = HD + check_below(3)};
    const int64_t blocks = (nk + KEYS - 1) / KEYS;
    double want[HD], bound[HD];
    a.scale = 0.125f;
    a.q = check_floats(0, (nq - 1) * a.ldq + HD);
    a.keys = check_floats(1, nk * HD);
    a.values = check_floats(2, nk * HD);
    vo_attend_s8 *kv = (vo_attend_s8 *)(void *)check_floats(3, blocks * (int64_t)sizeof *kv / 4);
    a.out = check_floats(4, (nq - 1) * a.ldo + HD);
    a.scratch = check_floats(5, VO_ATTEND_BF16_SCRATCH);
    fill(&a, kind);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t t = b * KEYS, n = nk - t < KEYS ? nk - t : KEYS;
        k->attend_pack_s8((int)n, a.keys + t * HD, HD, a.values + t * HD, HD, kv + b);
    }
    k->attend_block_s8(nq, nk, a.scale, a.q, a.ldq, kv, a.out, a.ldo, a.scratch);
    if (!check_gaps_intact(a.out, nq, HD, a.ldo)) check_fail("wrote between rows");
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
    for (int64_t i = 0; i < nq; i++) {
        attend(&a, i, want, bound);
        bound_s8(&a, steps_of(k), i, want, bound);
        for (int64_t d = 0; d < HD; d++)
            if (!check_near((double)a.out[i * a.ldo + d], want[d], bound[d]))
                check_fail("nk=%lld kind %d query %lld [%lld] = %.9g, not %.9g (+- %.2g)",
                           (long long)nk, kind, (long long)i, (long long)d,
                           (double)a.out[i * a.ldo + d], want[d], bound[d]);
    }
    if (kind < 2 && nk > 1 && relative_error(&a) > (k->int8_max == 63 ? 0.12 : 0.06))
        check_fail("nk=%lld kind %d: off by %.2g of the result", (long long)nk, kind,
                   relative_error(&a));
    float *alone = check_floats(6, HD);
    k->attend_block_s8(1, nk, a.scale, a.q + (nq - 1) * a.ldq, a.ldq, kv, alone, a.ldo, a.scratch);
    if (memcmp(alone, a.out + (nq - 1) * a.ldo, HD * sizeof *alone))
        check_fail("nq=%lld nk=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)nk);
}

/* What is not a number, or infinite, must not look like a result. */
static void poisoned_s8(const vo_kernels *k, int kind) {
    enum { NQ = 3, NK = 200, COUNT = NK * HD };
    float *q = rows_of(0, NQ, HD, 1), *keys = rows_of(1, NK, HD, 1),
          *values = rows_of(2, NK, HD, 1);
    vo_attend_s8 *kv = (vo_attend_s8 *)(void *)check_floats(3, 4 * (int64_t)sizeof *kv / 4);
    float *out = check_floats(4, NQ * HD), *scratch = check_floats(5, VO_ATTEND_BF16_SCRATCH);
    float *const where[] = {q + HD, keys, values};
    where[kind % 3][check_below(kind % 3 ? COUNT : HD)] = kind & 1 ? NAN : -INFINITY;
    for (int64_t t = 0; t < NK; t += KEYS)
        k->attend_pack_s8(NK - t < KEYS ? (int)(NK - t) : KEYS, keys + t * HD, HD, values + t * HD,
                          HD, kv + t / KEYS);
    k->attend_block_s8(NQ, NK, 0.125f, q, HD, kv, out, HD, scratch);
    for (int i = 0; i < NQ; i++)
        for (int d = 0; d < HD; d++)
            if (!isnan(out[i * HD + d]) != (kind % 3 == 0 && i != 1))
                check_fail("kind %d: query %d [%d] = %g", kind, i, d, (double)out[i * HD + d]);
}

void test_attend_block_s8(const vo_kernels *k) {
    static const int64_t lengths[] = {1, 2, 16, 63, 64, 65, 127, 128, 129, 500, 1500};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int kind = 0; kind < 6; kind++)
            block_case_s8(k, 1 + check_below(lengths[i] < 500 ? VO_ATTEND_BF16_QUERIES : 4),
                          lengths[i], kind);
    for (int nq = 1; nq <= VO_ATTEND_BF16_QUERIES; nq++) block_case_s8(k, nq, 70, nq % 6);
    for (int kind = 0; kind < 60; kind++) poisoned_s8(k, kind);
}
