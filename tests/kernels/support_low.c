/* SPDX-License-Identifier: MIT
 *
 * Tests of the GEMM kernels in bf16, int8 and int4 (see support_low.h). How a level lays out A is
 * its own affair, so what was packed is looked at through the product.
 *
 * int8 is exact everywhere. bf16 is exact where a level follows the rule of sums; a level with bf16
 * instructions is held to a bound made from the size of the terms, against sums in double.
 */
#include "kernels/support_low.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* half a unit in the last place, relative */
#define EPS 0x1p-24

static const int64_t depths[] = {1, 2, 31, 32, 33, 63, 64, 65, 96, 128, 200, 257, 512};
enum { DEPTHS = sizeof depths / sizeof *depths };

static int64_t round_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

static void check_intact(void) {
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
}

/* Plain C has panels of its own width, so that no other level may keep one of these kernels. */
static void check_own(const vo_kernels *k, bool own) {
    if (k->nr != VO_REF_NR && !own) check_fail("the level still has the plain C kernel");
}

/* ---- bf16: one tile of A against one panel of B ------------------------------------------ */

typedef struct bf16_case {
    const vo_kernels *k;
    int64_t depth, padded, lda;
    int m, nr, accumulate;
    float *a;         /* [m][lda] */
    uint16_t *packed; /* [padded][mr] */
    uint16_t *b;      /* [padded/2][nr][2] */
    float *before;    /* [mr][nr] */
    float *c;         /* [mr][nr] */
} bf16_case;

/* Whether the level flushes denormals and orders sums in its own way. */
static bool has_bf16_instructions(const vo_kernels *k) {
    return (k->flags & (VO_CPU_AVX512_BF16 | VO_CPU_AMX)) != 0;
}

static uint16_t b_at(const bf16_case *t, int64_t kk, int j) {
    return t->b[(kk / 2 * t->nr + j) * 2 + kk % 2];
}

enum { USUAL, WIDE, SPECIAL, ANY, TINY, SPARSE, KINDS };

static float value_of(int kind, int64_t i) {
    switch (kind) {
    case WIDE:
        return ldexpf(check_uniform(-1, 1), check_below(80) - 40);
    case SPECIAL: /* few, since one is enough to spoil a sum */
        return check_below(40) ? check_uniform(-1, 1) : check_special((int)i + check_below(21));
    case ANY:
        return check_any_finite();
    case TINY: /* around the smallest normal numbers and their square roots */
        return ldexpf(check_uniform(-1, 1), -(check_below(2) ? 63 : 126) + check_below(8) - 4);
    case SPARSE:
        return check_below(4) ? 0.0f : check_uniform(-1, 1);
    default:
        return check_uniform(-1, 1);
    }
}

static void bf16_fill(bf16_case *t, const vo_kernels *k, int64_t depth, int m, int kind) {
    t->k = k;
    t->depth = depth;
    t->padded = round_up(depth, VO_BF16_K);
    t->lda = depth + check_below(3);
    t->m = m;
    t->nr = k->nr;
    const int mr = k->mr_bf16;
    t->a = check_floats(0, (m - 1) * t->lda + depth);
    t->packed = check_halves(1, t->padded * mr);
    t->b = check_halves(2, t->padded * t->nr);
    t->before = check_floats(3, (int64_t)mr * t->nr);
    t->c = check_floats(4, (int64_t)mr * t->nr);
    for (int64_t i = 0; i < (m - 1) * t->lda + depth; i++) t->a[i] = value_of(kind, i);
    for (int64_t kk = 0; kk < t->padded; kk++)
        for (int j = 0; j < t->nr; j++)
            t->b[(kk / 2 * t->nr + j) * 2 + kk % 2] =
                kk < depth ? vo_f32_to_bf16(value_of(kind, kk * t->nr + j)) : 0;
    check_fill(t->before, (int64_t)mr * t->nr, -1, 1);
    k->bf16_pack_a(depth, m, t->a, t->lda, t->packed);
}

/* c (+)= steps [from, to) of the product of m rows */
static void bf16_run(const bf16_case *t, int64_t from, int64_t to, int m, float *c,
                     int accumulate) {
    t->k->tiles_begin();
    t->k->gemm_bf16(to - from, t->packed + from * t->k->mr_bf16, t->b + from * t->nr, c, m,
                    accumulate, c, 777);
    t->k->tiles_end();
}

/* One element in double, and how far off a float sum of the same terms may be. */
static bool bf16_element_near(const bf16_case *t, int i, int j, double got) {
    double sum = t->accumulate ? (double)t->before[i * t->nr + j] : 0, size = fabs(sum);
    double flushed = 0;
    bool spoilt = false; /* a flushed denormal times an infinity is NaN, or is not */
    for (int64_t kk = 0; kk < t->depth; kk++) {
        const double x = (double)vo_bf16_to_f32(vo_f32_to_bf16(t->a[i * t->lda + kk]));
        const double y = (double)vo_bf16_to_f32(b_at(t, kk, j)), term = x * y;
        const bool tiny =
            fabs((double)t->a[i * t->lda + kk]) < (double)FLT_MIN || fabs(y) < (double)FLT_MIN;
        sum += term;
        if (isfinite(term)) size += fabs(term);
        if (isfinite(term) && tiny) flushed += fabs(term);
        spoilt |= isinf(term) && tiny;
    }
    /* Finite terms of such a size may overflow on their way, in an order of their own. */
    const bool may_overflow = size > (double)FLT_MAX * (1 - EPS * (double)t->padded);
    if (spoilt || (may_overflow && !isnan(sum))) return true;
    if (!isfinite(sum)) return check_near(got, sum, 0);
    /* A term meets at most one rounding for each of the others, two for each block of AMX (the
     * two halves of its pairs, and C); a result below the normal numbers is flushed each time. */
    const double roundings = (double)(t->padded + 2 * (t->padded / VO_BF16_K) + 1);
    const double tolerance = roundings * EPS * 1.001 * size + flushed + roundings * (double)FLT_MIN;
    return check_near(got, sum, tolerance);
}

static float bf16_element_exact(const bf16_case *t, int i, int j) {
    float sum = t->accumulate ? t->before[i * t->nr + j] : 0.0f;
    for (int64_t kk = 0; kk < t->padded; kk++) {
        const float x = kk < t->depth ? t->a[i * t->lda + kk] : 0.0f;
        sum = fmaf(vo_bf16_to_f32(vo_f32_to_bf16(x)), vo_bf16_to_f32(b_at(t, kk, j)), sum);
    }
    return sum;
}

static void bf16_compare(const bf16_case *t, int kind) {
    const bool exact = !has_bf16_instructions(t->k);
    for (int i = 0; i < t->m; i++) {
        for (int j = 0; j < t->nr; j++) {
            const float got = t->c[i * t->nr + j];
            if (exact && !check_same_bits(got, bf16_element_exact(t, i, j)))
                check_fail("k=%lld m=%d kind %d [%d,%d] = %a, not %a", (long long)t->depth, t->m,
                           kind, i, j, (double)got, (double)bf16_element_exact(t, i, j));
            if (!bf16_element_near(t, i, j, (double)got))
                check_fail("k=%lld m=%d kind %d [%d,%d] = %a is too far off", (long long)t->depth,
                           t->m, kind, i, j, (double)got);
        }
    }
}

/* rows of c and of other, from these rows on, are the same bits */
static bool same_rows(const bf16_case *t, const float *c, const float *other, int rows) {
    for (int i = 0; i < rows * t->nr; i++)
        if (!check_same_bits(c[i], other[i])) return false;
    return true;
}

/* Neither a split of k nor fewer rows nor the place of a row changes a bit. */
static void bf16_invariant(bf16_case *t) {
    const int64_t size = (int64_t)t->k->mr_bf16 * t->nr, steps = t->padded / VO_BF16_K;
    float *c = check_floats(5, size);
    if (steps > 1) {
        const int64_t split = (1 + check_below((int)steps - 1)) * VO_BF16_K;
        memcpy(c, t->before, (size_t)size * sizeof *c);
        bf16_run(t, 0, split, t->m, c, t->accumulate);
        bf16_run(t, split, t->padded, t->m, c, 1);
        if (!same_rows(t, t->c, c, t->m))
            check_fail("k=%lld m=%d: depends on a split at %lld", (long long)t->depth, t->m,
                       (long long)split);
    }
    const int fewer = 1 + check_below(t->m);
    memcpy(c, t->before, (size_t)size * sizeof *c);
    bf16_run(t, 0, t->padded, fewer, c, t->accumulate);
    if (!same_rows(t, t->c, c, fewer))
        check_fail("k=%lld: %d rows are not the same among %d", (long long)t->depth, fewer, t->m);
    const int row = check_below(t->m);
    t->packed = check_halves(1, t->padded * t->k->mr_bf16);
    t->k->bf16_pack_a(t->depth, 1, t->a + row * t->lda, t->lda, t->packed);
    memcpy(c, t->before + row * t->nr, (size_t)t->nr * sizeof *c);
    bf16_run(t, 0, t->padded, 1, c, t->accumulate);
    if (!same_rows(t, t->c + row * t->nr, c, 1))
        check_fail("k=%lld: row %d of %d is another alone", (long long)t->depth, row, t->m);
}

static void bf16_product(const vo_kernels *k, int64_t depth, int m, int accumulate, int kind) {
    bf16_case t = {.accumulate = accumulate};
    bf16_fill(&t, k, depth, m, kind);
    memcpy(t.c, t.before, (size_t)(k->mr_bf16 * t.nr) * sizeof *t.c);
    bf16_run(&t, 0, t.padded, m, t.c, accumulate);
    bf16_compare(&t, kind);
    bf16_invariant(&t);
    check_intact();
}

void test_gemm_bf16(const vo_kernels *k) {
    check_own(k, k->gemm_bf16 != vo_ref_gemm_bf16);
    for (int m = 1; m <= k->mr_bf16; m++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            bf16_product(k, 1 + check_below(150), m, accumulate, USUAL);
    for (int d = 0; d < DEPTHS; d++)
        for (int kind = 0; kind < KINDS; kind++) {
            bf16_product(k, depths[d], k->mr_bf16, d & 1, kind);
            bf16_product(k, depths[d], 1 + check_below(k->mr_bf16), 0, kind);
        }
}

/* B = the unit matrix from step `first` on: C is then a piece of what was packed. Only that step
 * of A is not zero in each column, so that specials do not meet. */
static void bf16_pack_window(bf16_case *t, int64_t first) {
    memset(t->b, 0, (size_t)(t->padded * t->nr) * sizeof *t->b);
    for (int j = 0; j < t->nr && first + j < t->padded; j++)
        t->b[((first + j) / 2 * t->nr + j) * 2 + (first + j) % 2] = vo_f32_to_bf16(1.0f);
    bf16_run(t, 0, t->padded, t->k->mr_bf16, t->c, 0);
    for (int i = t->m * t->nr; i < t->k->mr_bf16 * t->nr; i++)
        if (t->c[i] != 0.0f) check_fail("m=%d: row %d is not zero", t->m, i / t->nr);
    for (int i = 0; i < t->m; i++) {
        for (int j = 0; j < t->nr && first + j < t->depth; j++) {
            const float x = t->a[i * t->lda + first + j], got = t->c[i * t->nr + j];
            const float want = vo_bf16_to_f32(vo_f32_to_bf16(x));
            const bool flushed = has_bf16_instructions(t->k) && got == 0.0f &&
                                 (fabsf(x) < FLT_MIN || fabsf(want) < FLT_MIN);
            /* A zero loses its sign when other zeros are added. */
            if (got != want && !check_same_bits(got, want) && !flushed)
                check_fail("m=%d k=%lld [%d,%lld]: %a became %a, not %a", t->m, (long long)t->depth,
                           i, (long long)(first + j), (double)x, (double)got, (double)want);
        }
    }
}

static float from_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Finite values of every kind, and ties between two bf16, which may all stand side by side. */
static float finite_value(int64_t i) {
    const uint32_t tie = (uint32_t)check_random() << 16 | 0x8000;
    const int kind = check_below(KINDS + 2);
    const float x = kind < KINDS    ? value_of(kind, i)
                    : kind == KINDS ? check_special((int)i)
                                    : from_bits(tie);
    return isfinite(vo_bf16_to_f32(vo_f32_to_bf16(x))) ? x : 1.0f;
}

/* Infinities; NaN whose bits are at the ends of their range, where rounding would make another
 * number of them; what is near to the largest bf16. */
static float last_value(int i) {
    const uint32_t bits = (uint32_t)check_random();
    if (i % 3 == 0) return check_special(i);
    if (i % 3 == 1) return from_bits((bits & 0x8000ffff) | (i & 1 ? 0x7fff0000 : 0x7f800001));
    return from_bits((bits & 0x8000ffff) | 0x7f7e0000 | (uint32_t)check_below(2) << 16);
}

void test_bf16_pack_a(const vo_kernels *k) {
    check_own(k, k->bf16_pack_a != vo_ref_bf16_pack_a);
    bf16_case t = {.accumulate = 0};
    for (int m = 1; m <= k->mr_bf16; m++) {
        for (int64_t depth = 1; depth < 70; depth += 1 + check_below(4)) {
            bf16_fill(&t, k, depth, m, USUAL);
            for (int64_t i = 0; i < (m - 1) * t.lda + depth; i++) t.a[i] = finite_value(i);
            k->bf16_pack_a(depth, m, t.a, t.lda, t.packed);
            for (int64_t first = 0; first < depth; first += t.nr) bf16_pack_window(&t, first);
            check_intact();
        }
    }
    for (int i = 0; i < 300; i++) { /* one step, since they do not go with others */
        bf16_fill(&t, k, 1, 1, USUAL);
        t.a[0] = last_value(i);
        k->bf16_pack_a(1, 1, t.a, t.lda, t.packed);
        bf16_pack_window(&t, 0);
    }
}

/* ---- int8 --------------------------------------------------------------------------------- */

typedef struct int8_case {
    const vo_kernels *k;
    int64_t depth, padded, lda;
    int m, nr;
    float *a;        /* [m][lda] */
    uint8_t *packed; /* [padded][mr] */
    float *scales;   /* [mr] */
    int8_t *b;       /* [padded/4][nr][4] */
    int32_t *before; /* [mr][nr] */
    int32_t *c;      /* [mr][nr] */
} int8_case;

/* With factors or without: the case's numbers become the products, which is what counts later. */
static void int8_pack(int8_case *t) {
    const bool scaled = t->depth <= VO_INT8_GROUP && check_below(2);
    float *factors = check_floats(5, t->depth);
    check_fill(factors, t->depth, 0.01f, 1);
    t->k->int8_pack_a(t->depth, t->m, t->a, t->lda, scaled ? factors : NULL, t->packed, t->scales);
    for (int i = 0; scaled && i < t->m; i++)
        for (int64_t kk = 0; kk < t->depth; kk++) t->a[i * t->lda + kk] *= factors[kk];
}

enum { ROW_USUAL, ROW_WIDE, ROW_ZERO, ROW_TINY, ROW_HALVES, ROW_DENORMAL, ROW_KINDS };

/* usual; of any size; zeros; about VO_INT8_TINY; half-way cases of rounding; denormals */
static void fill_row(float *x, int64_t n, int kind, int int8_max) {
    const float size = kind == ROW_WIDE ? ldexpf(1.0f, check_below(200) - 80) : 1.0f;
    for (int64_t i = 0; i < n; i++) {
        x[i] = size * check_uniform(-1, 1);
        if (kind == ROW_ZERO) x[i] = check_below(2) ? 0.0f : -0.0f;
        if (kind == ROW_TINY) x[i] *= 1.1f * VO_INT8_TINY;
        if (kind == ROW_DENORMAL) x[i] *= 0x1p-130f;
        if (kind == ROW_HALVES) x[i] = 0.5f * (float)(check_below(4 * int8_max + 1) - 2 * int8_max);
    }
    if (kind == ROW_HALVES && check_below(2)) x[check_below((int)n)] = (float)int8_max;
}

/* One column of B, b[4 nr (kk / 4) + kk % 4]. Where kernels add in 16 bits, the rule of kernels.h
 * is filled: half a run starts with values of any size until their sign has no room. */
static void fill_column(const vo_kernels *k, int8_t *b, int64_t depth, bool extreme, int sign) {
    int room[2][2] = {{0}}; /* by half, by sign */
    for (int64_t kk = 0; kk < depth; kk++) {
        if (kk % (4 * VO_INT8_FOURS) == 0)
            for (int i = 0; i < 4; i++) room[i / 2][i % 2] = VO_INT8_ROOM;
        int x = extreme ? 127 * sign : check_below(255) - 127;
        int *left = &room[kk / 2 % 2][x < 0];
        if (k->int8_max < 127) {
            if (abs(x) > *left) x = x < 0 ? -*left : *left;
            *left -= abs(x);
        }
        b[kk / 4 * 4 * k->nr + kk % 4] = (int8_t)x;
    }
}

static void int8_fill(int8_case *t, const vo_kernels *k, int64_t depth, int m, bool extreme) {
    t->k = k;
    t->depth = depth;
    t->padded = round_up(depth, VO_INT8_K);
    t->lda = depth + check_below(3);
    t->m = m;
    t->nr = k->nr;
    const int64_t mr = k->mr_int8, count = (m - 1) * t->lda + depth;
    t->a = check_floats(0, count);
    t->packed = (uint8_t *)check_halves(1, t->padded * mr / 2);
    t->b = (int8_t *)check_halves(2, t->padded * t->nr / 2);
    t->before = (int32_t *)(void *)check_floats(3, mr * t->nr);
    t->c = (int32_t *)(void *)check_floats(4, mr * t->nr);
    t->scales = check_floats(6, mr);
    for (int i = 0; i < m; i++)
        fill_row(t->a + i * t->lda, depth, check_below(ROW_KINDS), k->int8_max);
    for (int64_t i = 0; i < count && extreme; i++) t->a[i] = check_below(9) ? 1.0f : -1.0f;
    memset(t->b, 0, (size_t)(t->padded * t->nr));
    for (int j = 0; j < t->nr; j++) fill_column(k, t->b + 4 * j, depth, extreme, j & 1 ? 1 : -1);
    for (int64_t i = 0; i < mr * t->nr; i++) t->before[i] = check_below(2000001) - 1000000;
    int8_pack(t);
}

static float largest_of(const int8_case *t, int row) {
    float largest = 0;
    for (int64_t kk = 0; kk < t->depth; kk++)
        largest = fmaxf(largest, fabsf(t->a[row * t->lda + kk]));
    return largest;
}

/* the u8 that stands for a[row][kk] */
static int quantised(const int8_case *t, int row, int64_t kk, float largest) {
    const float max = (float)t->k->int8_max;
    if (largest < VO_INT8_TINY) return t->k->int8_zero;
    const float q = rintf(t->a[row * t->lda + kk] * (max / largest));
    return (int)fminf(fmaxf(q, -max), max) + t->k->int8_zero;
}

static void int8_run(const int8_case *t, int64_t from, int64_t to, int m, int32_t *c,
                     int accumulate) {
    t->k->tiles_begin();
    t->k->gemm_int8(to - from, t->packed + from * t->k->mr_int8, t->b + from * t->nr, c, m,
                    accumulate, c, 777);
    t->k->tiles_end();
}

static void int8_compare(const int8_case *t, int m, const int32_t *c, int accumulate) {
    for (int i = 0; i < m; i++) {
        const float largest = i < t->m ? largest_of(t, i) : 0.0f; /* the rest is zero */
        for (int j = 0; j < t->nr; j++) {
            int32_t want = accumulate ? t->before[i * t->nr + j] : 0;
            for (int64_t kk = 0; kk < t->depth; kk++)
                want += quantised(t, i, kk, largest) * t->b[(kk / 4 * t->nr + j) * 4 + kk % 4];
            if (c[i * t->nr + j] != want)
                check_fail("k=%lld m=%d [%d,%d] = %d, not %d", (long long)t->depth, m, i, j,
                           c[i * t->nr + j], want);
        }
    }
}

static void int8_product(const vo_kernels *k, int64_t depth, int m, int accumulate, bool extreme) {
    int8_case t;
    int8_fill(&t, k, depth, m, extreme);
    const size_t bytes = (size_t)(k->mr_int8 * t.nr) * sizeof *t.c;
    memcpy(t.c, t.before, bytes);
    int8_run(&t, 0, t.padded, m, t.c, accumulate);
    int8_compare(&t, m, t.c, accumulate);
    const int64_t steps = t.padded / VO_INT8_K;
    const int64_t split = check_below((int)steps) * VO_INT8_K;
    const int fewer = 1 + check_below(m);
    memcpy(t.c, t.before, bytes);
    if (split) int8_run(&t, 0, split, fewer, t.c, accumulate);
    int8_run(&t, split, t.padded, fewer, t.c, split ? 1 : accumulate);
    int8_compare(&t, fewer, t.c, accumulate);
    check_intact();
}

void test_gemm_int8(const vo_kernels *k) {
    check_own(k, k->gemm_int8 != vo_ref_gemm_int8);
    for (int m = 1; m <= k->mr_int8; m++)
        for (int accumulate = 0; accumulate < 2; accumulate++)
            int8_product(k, 1 + check_below(200), m, accumulate, false);
    for (int d = 0; d < DEPTHS; d++) {
        int8_product(k, depths[d], k->mr_int8, d & 1, false);
        int8_product(k, depths[d], 1 + check_below(k->mr_int8), 0, false);
        int8_product(k, depths[d], k->mr_int8, 0, true); /* pairs of products as large as can be */
    }
}

/* Each q by a column of B that has one 1, with int8_zero from where B is zero. */
void test_int8_pack_a(const vo_kernels *k) {
    check_own(k, k->int8_pack_a != vo_ref_int8_pack_a);
    int8_case t;
    for (int m = 1; m <= k->mr_int8; m++) {
        for (int64_t depth = 1; depth < 140; depth += 1 + check_below(9)) {
            int8_fill(&t, k, depth, m, false);
            for (int i = 0; i < k->mr_int8; i++) {
                const float largest = i < m ? largest_of(&t, i) : 0.0f;
                const float want = largest < VO_INT8_TINY ? 0.0f : largest / (float)k->int8_max;
                if (!check_same_bits(t.scales[i], want))
                    check_fail("m=%d k=%lld: scale %d is %a, not %a", m, (long long)depth, i,
                               (double)t.scales[i], (double)want);
            }
            for (int64_t first = 0; first < depth; first += t.nr) {
                memset(t.b, 0, (size_t)(t.padded * t.nr));
                for (int64_t j = 0; j < t.nr && first + j < depth; j++)
                    t.b[((first + j) / 4 * t.nr + j) * 4 + (first + j) % 4] = 1;
                int8_run(&t, 0, t.padded, k->mr_int8, t.c, 0);
                int8_compare(&t, k->mr_int8, t.c, 0);
            }
            check_intact();
        }
    }
    for (int i = 0; i < 200; i++) { /* a row that is not finite shows in its scale */
        int8_fill(&t, k, 1 + check_below(100), k->mr_int8, false);
        const int row = check_below(k->mr_int8), at = check_below((int)t.depth);
        t.a[row * t.lda + at] = i & 1 ? NAN : check_below(2) ? INFINITY : -INFINITY;
        int8_pack(&t);
        for (int r = 0; r < k->mr_int8; r++)
            if (isfinite(t.scales[r]) != (r != row))
                check_fail("k=%lld: scale %d is %g, row %d is not finite", (long long)t.depth, r,
                           (double)t.scales[r], row);
        check_intact();
    }
}

void test_int8_scale(const vo_kernels *k) {
    const int nr = k->nr;
    check_own(k, k->int8_scale != vo_ref_int8_scale);
    for (int n = 1; n <= nr; n++) {
        for (int64_t rows = 1; rows <= VO_MAX_LOW_MR; rows += 1 + check_below(8)) {
            const int64_t size = (rows - 1) * nr + n;
            int32_t *c = (int32_t *)(void *)check_floats(0, size);
            int32_t *zero = (int32_t *)(void *)check_floats(1, n);
            float *scales = check_floats(2, rows), *columns = check_floats(3, n);
            float *y = check_floats(4, size);
            for (int64_t i = 0; i < size; i++)
                if (i % nr < n) c[i] = (int32_t)(check_random() >> 40) - (1 << 23);
            for (int j = 0; j < n; j++) zero[j] = (int32_t)(check_random() >> 40) - (1 << 23);
            check_fill(scales, rows, 0, 1);
            check_fill(columns, n, 0, 1);
            const int add = check_below(2);
            float *before = check_floats(5, size);
            check_fill(before, size, -1e6f, 1e6f);
            for (int64_t i = 0; i < size; i++)
                if (i % nr < n) y[i] = before[i];
            k->int8_scale(rows, n, c, scales, columns, zero, y, add);
            for (int64_t i = 0; i < size; i++) {
                const int j = (int)(i % nr);
                if (j >= n) continue;
                const float sum = (float)(c[i] - zero[j]), factor = scales[i / nr] * columns[j];
                const float want = add ? fmaf(sum, factor, before[i]) : sum * factor;
                if (!check_same_bits(y[i], want))
                    check_fail("n=%d [%lld,%d] = %a, not %a", n, (long long)(i / nr), j,
                               (double)y[i], (double)want);
            }
            if (!check_gaps_intact(y, rows, n, nr)) check_fail("n=%d wrote beyond its columns", n);
            check_intact();
        }
    }
}

/* ---- int4 --------------------------------------------------------------------------------- */

/* Scales of every size, now and then an infinity or the one NaN that is allowed. */
static uint16_t int4_scale(void) {
    const uint16_t sign = check_below(2) ? 0x8000 : 0;
    if (check_below(50) == 0) return (uint16_t)(check_below(2) ? 0x7c00 | sign : 0x7e00);
    if (check_below(2)) return (uint16_t)(check_below(0x7c00) | sign);
    return vo_f32_to_f16(check_uniform(-0.1f, 0.1f));
}

static void int4_case(const vo_kernels *k, int64_t depth, int64_t group) {
    const int64_t groups = (depth + group - 1) / group;
    const int nr = k->nr;
    uint16_t *scales = check_halves(0, groups * 2 * nr), *y = check_halves(1, depth * nr);
    uint32_t *codes = (uint32_t *)(void *)check_floats(2, depth / 8 * nr);
    for (int64_t i = 0; i < groups * 2 * nr; i++) scales[i] = int4_scale();
    for (int64_t i = 0; i < depth / 8 * nr; i++) codes[i] = (uint32_t)check_random();
    k->int4_to_bf16(depth, group, codes, scales, y);
    for (int64_t kk = 0; kk < depth; kk++) {
        for (int j = 0; j < nr; j++) {
            const float scale = vo_f16_to_f32(scales[(kk / group * 2) * nr + j]);
            const float bias = vo_f16_to_f32(scales[(kk / group * 2 + 1) * nr + j]);
            const int q = codes[kk / 8 * nr + j] >> 4 * (kk % 8) & 15;
            const float want = vo_bf16_to_f32(vo_f32_to_bf16((float)q * scale + bias));
            const float got = vo_bf16_to_f32(y[(kk / 2 * nr + j) * 2 + kk % 2]);
            if (!check_same_bits(got, want))
                check_fail("k=%lld group=%lld [%lld,%d]: %d * %a + %a = %a, not %a",
                           (long long)depth, (long long)group, (long long)kk, j, q, (double)scale,
                           (double)bias, (double)got, (double)want);
        }
    }
    check_intact();
}

void test_int4_to_bf16(const vo_kernels *k) {
    check_own(k, k->int4_to_bf16 != vo_ref_int4_to_bf16);
    for (int i = 0; i < 60; i++)
        int4_case(k, (1 + check_below(20)) * VO_BF16_K, (1 + check_below(4)) * VO_BF16_K);
}

/* ---- tile registers ----------------------------------------------------------------------- */

/* Many products may follow one tiles_begin, of both types. */
void test_tiles_begin(const vo_kernels *k) {
    bf16_case t = {.accumulate = 0};
    bf16_fill(&t, k, 64, k->mr_bf16, USUAL);
    const int64_t size = (int64_t)k->mr_bf16 * t.nr;
    float *again = check_floats(5, size);
    k->tiles_begin();
    for (int i = 0; i < 2; i++) {
        k->gemm_bf16(t.padded, t.packed, t.b, t.c, 1, 0, NULL, 0);
        k->gemm_bf16(t.padded, t.packed, t.b, t.c, t.m, 0, NULL, 0);
        k->gemm_bf16(t.padded, t.packed, t.b, again, t.m, 0, NULL, 0);
        if (!same_rows(&t, t.c, again, t.m)) check_fail("the second product is another");
    }
    k->tiles_end();
    bf16_compare(&t, USUAL);
    int8_case q;
    int8_fill(&q, k, 128, k->mr_int8, false);
    k->tiles_begin();
    for (int i = 0; i < 2; i++) {
        k->gemm_int8(q.padded, q.packed, q.b, q.c, 1, 0, NULL, 0);
        k->gemm_int8(q.padded, q.packed, q.b, q.c, q.m, 0, NULL, 0);
    }
    k->tiles_end();
    int8_compare(&q, q.m, q.c, 0);
    check_intact();
}

#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("amx-tile"))) static bool tiles_are_released(void) {
    unsigned char config[64], zero[64] = {0};
    _tile_storeconfig(config);
    return memcmp(config, zero, sizeof zero) == 0;
}
#else
static bool tiles_are_released(void) {
    return true;
}
#endif

/* Tiles that stay configured cost every switch of threads 8 KB. */
void test_tiles_end(const vo_kernels *k) {
    k->tiles_begin();
    k->tiles_end();
    if ((k->flags & VO_CPU_AMX) && !tiles_are_released()) check_fail("tiles are still configured");
    k->tiles_begin();
    k->tiles_end();
}
