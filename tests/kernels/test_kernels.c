/* SPDX-License-Identifier: MIT
 *
 * Every kernel of kernels.def at every level this machine has, against formulas in double
 * precision (or, where the result is defined to the bit, against that). One table made
 * from kernels.def names the test of each kernel: a kernel without a test does not compile.
 *
 *   test_kernels [--cpu LEVEL] [--kernel NAME] [--seed N] [--verbose] [--bench]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "kernels/support_attention.h"
#include "kernels/support_bench.h"
#include "kernels/support_check.h"
#include "kernels/support_low.h"

static bool verbose;

/* half a unit in the last place, relative */
#define EPS 0x1p-24

/* ---- element-wise --------------------------------------------------------------------- */

enum { TAILS = 70, LONG = 1003 };

/* lengths 0..69, then a long one */
static int64_t length_at(int i) {
    return i < TAILS ? i : LONG;
}

static void fill_kind(float *x, int64_t n, int kind) {
    const int start = check_below(21);
    for (int64_t i = 0; i < n; i++) {
        if (kind == 0)
            x[i] = check_uniform(-8, 8);
        else if (kind == 1)
            x[i] = check_any_finite();
        else
            x[i] = check_special((int)i + start);
    }
}

typedef void (*unary_fn)(int64_t n, const float *x, float *y);
typedef void (*binary_fn)(int64_t n, const float *a, const float *b, float *y);

/* how wrong got may be for f(x) = want */
typedef struct unary_rule {
    double (*f)(double x);
    bool (*ok)(float x, float got, double want);
} unary_rule;

static void check_intact(void) {
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
}

static void unary(unary_fn f, unary_rule rule) {
    for (int i = 0; i <= TAILS; i++) {
        for (int kind = 0; kind < 3; kind++) {
            const int64_t n = length_at(i);
            float *x = check_floats(0, n), *y = check_floats(1, n);
            fill_kind(x, n, kind);
            f(n, x, y);
            for (int64_t j = 0; j < n; j++)
                if (!rule.ok(x[j], y[j], rule.f((double)x[j])))
                    check_fail("n=%lld [%lld] f(%a) = %a, not %a", (long long)n, (long long)j,
                               (double)x[j], (double)y[j], rule.f((double)x[j]));
            float *in_place = check_floats(2, n);
            if (n) memcpy(in_place, x, (size_t)n * sizeof *x);
            f(n, in_place, in_place);
            if (n && memcmp(in_place, y, (size_t)n * sizeof *y))
                check_fail("n=%lld differs in place", (long long)n);
            check_intact();
        }
    }
}

/* the largest error over a sweep of all bit patterns */
static void sweep(unary_fn f, unary_rule rule, double (*error)(float got, double want)) {
    enum { CHUNK = 4096 };
    float *x = check_floats(0, CHUNK), *y = check_floats(1, CHUNK);
    double worst = 0;
    float worst_x = 0;
    uint32_t bits = (uint32_t)check_below(4093);
    for (int chunk = 0; chunk < 250; chunk++) {
        for (int i = 0; i < CHUNK; i++, bits += 4153) memcpy(&x[i], &bits, 4);
        f(CHUNK, x, y);
        for (int i = 0; i < CHUNK; i++) {
            const double want = rule.f((double)x[i]);
            if (!rule.ok(x[i], y[i], want))
                check_fail("f(%a) = %a, not %a", (double)x[i], (double)y[i], want);
            const double e = isnan(want) || isinf(want) ? 0 : error(y[i], want);
            if (e > worst && fabs(want) >= (double)FLT_MIN) {
                worst = e;
                worst_x = x[i];
            }
        }
    }
    if (verbose)
        printf("  %-8s %-12s worst error %.3g at %.9g\n", check.level, check.kernel, worst,
               (double)worst_x);
}

/* within some ulps, or below the smallest normal number flushed to zero */
static bool within_ulps(float got, double want, double ulps) {
    if (fabs(want) < (double)FLT_MIN && got == 0.0f) return true;
    return check_ulps(got, want) <= ulps;
}

static double error_absolute(float got, double want) {
    return fabs((double)got - want) / fmax(1, fabs(want));
}

static double gelu_value(double x) {
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}
static bool gelu_ok(float x, float got, double want) {
    if (x == -INFINITY) return isnan(got) || fabsf(got) < 1e-6f; /* -inf * 0 */
    return check_near((double)got, want, 3e-7 * fmax(1, fabs((double)x)));
}
static void test_gelu(const vo_kernels *k) {
    const unary_rule rule = {gelu_value, gelu_ok};
    unary(k->gelu, rule);
    sweep(k->gelu, rule, error_absolute);
}

static double relu_value(double x) {
    return x < 0 ? 0 : x;
}
static bool same_value(float x, float got, double want) {
    return check_near((double)got, (double)(float)want, 0);
}
static void test_relu(const vo_kernels *k) {
    unary(k->relu, (unary_rule){relu_value, same_value});
}

static double sqrt_value(double x) {
    return sqrt(x);
}
static void test_sqrt(const vo_kernels *k) {
    unary(k->sqrt, (unary_rule){sqrt_value, same_value});
}

static double sigmoid_value(double x) {
    return 1 / (1 + exp(-x));
}
static bool sigmoid_ok(float x, float got, double want) {
    /* e^-x overflows a little before the quotient does */
    if (want < 0x1p-126 && want > 0 && got >= 0 && got < 0x1p-125f) return true;
    return within_ulps(got, want, 3);
}
static void test_sigmoid(const vo_kernels *k) {
    const unary_rule rule = {sigmoid_value, sigmoid_ok};
    unary(k->sigmoid, rule);
    sweep(k->sigmoid, rule, check_ulps);
}

static double tanh_value(double x) {
    return tanh(x);
}
static bool tanh_ok(float x, float got, double want) {
    return within_ulps(got, want, 2);
}
static void test_tanh(const vo_kernels *k) {
    const unary_rule rule = {tanh_value, tanh_ok};
    unary(k->tanh, rule);
    sweep(k->tanh, rule, check_ulps);
}

static double exp_value(double x) {
    return exp(x);
}
static bool exp_ok(float x, float got, double want) {
    return within_ulps(got, want, 1.2);
}
static void test_exp(const vo_kernels *k) {
    const unary_rule rule = {exp_value, exp_ok};
    unary(k->exp, rule);
    sweep(k->exp, rule, check_ulps);
}

static void binary(binary_fn f, bool multiply) {
    for (int i = 0; i <= TAILS; i++) {
        for (int kind = 0; kind < 3; kind++) {
            const int64_t n = length_at(i);
            float *a = check_floats(0, n), *b = check_floats(1, n), *y = check_floats(2, n);
            fill_kind(a, n, kind);
            fill_kind(b, n, kind);
            f(n, a, b, y);
            for (int64_t j = 0; j < n; j++)
                if (!check_same_bits(y[j], multiply ? a[j] * b[j] : a[j] + b[j]))
                    check_fail("n=%lld [%lld] f(%a, %a) = %a", (long long)n, (long long)j,
                               (double)a[j], (double)b[j], (double)y[j]);
            check_intact();
        }
    }
}

static void test_add(const vo_kernels *k) {
    binary(k->add, false);
}
static void test_mul(const vo_kernels *k) {
    binary(k->mul, true);
}

static void scaled(const vo_kernels *k, bool accumulate) {
    for (int i = 0; i <= TAILS; i++) {
        for (int kind = 0; kind < 3; kind++) {
            const int64_t n = length_at(i);
            const float s = check_uniform(-3, 3);
            float *x = check_floats(0, n), *y = check_floats(1, n), *before = check_floats(2, n);
            fill_kind(x, n, kind);
            fill_kind(before, n, kind);
            if (n) memcpy(y, before, (size_t)n * sizeof *y);
            if (accumulate)
                k->axpy(n, s, x, y);
            else
                k->scale(n, x, s, y);
            for (int64_t j = 0; j < n; j++)
                if (!check_same_bits(y[j], accumulate ? fmaf(s, x[j], before[j]) : s * x[j]))
                    check_fail("n=%lld [%lld] is %a", (long long)n, (long long)j, (double)y[j]);
            check_intact();
        }
    }
}

static void test_scale(const vo_kernels *k) {
    scaled(k, false);
}
static void test_axpy(const vo_kernels *k) {
    scaled(k, true);
}

static void test_f16_to_f32(const vo_kernels *k) {
    for (int64_t n = 0; n < TAILS; n++) {
        uint16_t *x = check_halves(0, n);
        float *y = check_floats(1, n);
        for (int64_t j = 0; j < n; j++) x[j] = (uint16_t)check_random();
        k->f16_to_f32(n, x, y);
        for (int64_t j = 0; j < n; j++)
            if (!check_same_bits(y[j], vo_f16_to_f32(x[j])))
                check_fail("%04x: %a", x[j], (double)y[j]);
        check_intact();
    }
    uint16_t *x = check_halves(0, 65536);
    float *y = check_floats(1, 65536);
    for (int i = 0; i < 65536; i++) x[i] = (uint16_t)i;
    k->f16_to_f32(65536, x, y);
    for (int i = 0; i < 65536; i++) {
        /* sign, exponent and fraction by the definition of the format */
        const int e = i >> 10 & 31, m = i & 1023;
        double want = e == 31 ? (m ? (double)NAN : (double)INFINITY)
                              : ldexp(e ? 1024 + m : m, (e ? e : 1) - 25);
        if (i >> 15) want = -want;
        if (!check_same_bits(y[i], (float)want)) check_fail("%04x: %a", i, (double)y[i]);
    }
}

static void test_f32_to_f16(const vo_kernels *k) {
    for (int round = 0; round < 300; round++) {
        const int64_t n = round < TAILS ? round : 2000;
        float *x = check_floats(0, n);
        uint16_t *y = check_halves(1, n);
        for (int64_t j = 0; j < n; j++) {
            /* near the middle between two halves, over and under their range, anything */
            const float half = vo_f16_to_f32((uint16_t)check_random());
            const uint16_t next = (uint16_t)(vo_f32_to_f16(half) + 1);
            const int kind = check_below(4);
            x[j] = kind == 0 ? 0.5f * (half + vo_f16_to_f32(next)) * (1 + check_below(3) * 0x1p-23f)
                   : kind == 1 ? check_any_finite()
                   : kind == 2 ? check_uniform(-4, 4)
                               : check_special((int)j);
        }
        k->f32_to_f16(n, x, y);
        for (int64_t j = 0; j < n; j++) {
            const bool nan = isnan(x[j]) && isnan(vo_f16_to_f32(y[j]));
            if (!nan && y[j] != vo_f32_to_f16(x[j])) check_fail("%a: %04x", (double)x[j], y[j]);
        }
        check_intact();
    }
}

/* ---- rows ------------------------------------------------------------------------------- */

static const int64_t row_lengths[] = {384, 512, 768, 1024, 1280, 1500, 4099};
enum { ROW_LENGTHS = TAILS + sizeof row_lengths / sizeof *row_lengths };
static int64_t row_length_at(int i) {
    return i < TAILS ? i : row_lengths[i - TAILS];
}

/* kinds of rows for layer norm: usual, far from zero, constant, very large, tiny */
static void fill_row(float *x, int64_t n, int kind) {
    static const float offset[] = {0, 300, 7, 1e18f, 0}, width[] = {3, 1, 0, 1e17f, 1e-30f};
    check_fill(x, n, offset[kind] - width[kind], offset[kind] + width[kind]);
}

static void layer_norm_row(int64_t d, const float *x, const float *gamma, const float *beta,
                           double eps, const float *y) {
    double mean = 0, variance = 0, largest = 0;
    for (int64_t i = 0; i < d; i++) {
        mean += (double)x[i];
        if (fabs((double)x[i]) > largest) largest = fabs((double)x[i]);
    }
    mean /= (double)d;
    for (int64_t i = 0; i < d; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double inverse = 1 / sqrt(variance / (double)d + eps);
    for (int64_t i = 0; i < d; i++) {
        const double g = (double)gamma[i], b = (double)beta[i];
        const double want = ((double)x[i] - mean) * inverse * g + b;
        /* the mean is rounded to float; d/64 terms a lane are summed in float */
        const double tolerance = EPS * (4 * fabs(g) * inverse * largest +
                                        (8 + (double)d / 64) * (fabs(want - b)) + 2 * fabs(b)) +
                                 (double)FLT_MIN;
        if (!check_near((double)y[i], want, tolerance))
            check_fail("d=%lld [%lld] = %.9g, not %.9g", (long long)d, (long long)i, (double)y[i],
                       want);
    }
}

static void test_layer_norm(const vo_kernels *k) {
    for (int i = 1; i < ROW_LENGTHS; i++) {
        for (int kind = 0; kind < 5; kind++) {
            const int64_t d = row_length_at(i), rows = 1 + check_below(3);
            const int64_t ldx = d + check_below(3), ldy = d + check_below(3);
            float *x = check_floats(0, (rows - 1) * ldx + d), *gamma = check_floats(1, d);
            float *beta = check_floats(2, d), *y = check_floats(3, (rows - 1) * ldy + d);
            for (int64_t r = 0; r < rows; r++) fill_row(x + r * ldx, d, kind);
            check_fill(gamma, d, -2, 2);
            check_fill(beta, d, -1, 1);
            k->layer_norm(rows, d, x, ldx, gamma, beta, 1e-5f, y, ldy);
            for (int64_t r = 0; r < rows; r++)
                layer_norm_row(d, x + r * ldx, gamma, beta, (double)1e-5f, y + r * ldy);
            if (!check_gaps_intact(y, rows, d, ldy)) check_fail("wrote between rows");
            check_intact();
        }
    }
}

static void softmax_row(int64_t n, const float *x, const float *y) {
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if ((double)x[i] > max) max = (double)x[i];
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - max);
    for (int64_t i = 0; i < n; i++) {
        const double distance = (double)x[i] - max;
        const double want = max == -INFINITY ? 0 : exp(distance) / sum;
        const double relative = EPS * (10 + fmin(200, fabs(distance)));
        if (!check_near((double)y[i], want, want * relative + (double)FLT_MIN))
            check_fail("n=%lld [%lld] = %.9g, not %.9g", (long long)n, (long long)i, (double)y[i],
                       want);
    }
}

/* usual, wide, huge, some -inf, all -inf, all equal */
static void fill_scores(float *x, int64_t n, int kind) {
    static const float width[] = {4, 80, 1e30f, 5, 1, 0};
    check_fill(x, n, -width[kind], width[kind]);
    for (int64_t i = 0; i < n; i++)
        if (kind == 4 || (kind == 3 && check_below(2))) x[i] = -INFINITY;
}

static void test_softmax(const vo_kernels *k) {
    for (int i = 1; i < ROW_LENGTHS + 1; i++) {
        for (int kind = 0; kind < 6; kind++) {
            const int64_t n = i < ROW_LENGTHS ? row_length_at(i) : 51865;
            const int64_t rows = 1 + check_below(3);
            const int64_t ldx = n + check_below(3), ldy = n + check_below(3);
            float *x = check_floats(0, (rows - 1) * ldx + n);
            float *y = check_floats(1, (rows - 1) * ldy + n);
            for (int64_t r = 0; r < rows; r++) fill_scores(x + r * ldx, n, kind);
            k->softmax(rows, n, x, ldx, y, ldy);
            for (int64_t r = 0; r < rows; r++) softmax_row(n, x + r * ldx, y + r * ldy);
            if (!check_gaps_intact(y, rows, n, ldy)) check_fail("wrote between rows");
            check_intact();
        }
    }
}

/* variant: bias, GELU (one of two), residual; then where the result goes: elsewhere, to c, to the
 * residual */
static void epilogue_case(const vo_kernels *k, int64_t rows, int64_t n, int variant) {
    const bool has_bias = variant & 1, has_residual = variant & 4;
    const int gelu = variant & 2 ? 1 + check_below(2) : 0;
    const double error = gelu == VO_GELU_NEAR ? 1e-4 : gelu ? 1.1e-5 : 1e-6;
    const int64_t ldc = n + check_below(3), ldr = n + check_below(3);
    float *c = check_floats(0, (rows - 1) * ldc + n), *before = check_floats(1, 2 * rows * n);
    float *bias = check_floats(2, n), *residual = check_floats(3, (rows - 1) * ldr + n);
    float *y = variant / 8 == 0   ? check_floats(4, (rows - 1) * ldc + n)
               : variant / 8 == 1 ? c
                                  : residual;
    const int64_t ldy = y == residual ? ldr : ldc;
    check_fill(bias, n, -3, 3);
    for (int64_t r = 0; r < rows; r++) {
        check_fill(c + r * ldc, n, -6, 6);
        check_fill(residual + r * ldr, n, -6, 6);
        memcpy(before + r * n, c + r * ldc, (size_t)n * sizeof *c);
        memcpy(before + (rows + r) * n, residual + r * ldr, (size_t)n * sizeof *c);
    }
    k->epilogue(rows, n, c, ldc, has_bias ? bias : NULL, gelu, has_residual ? residual : NULL, ldr,
                y, ldy);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) {
            double want = (double)(before[r * n + j] + (has_bias ? bias[j] : 0.0f));
            if (gelu) want = gelu_value(want);
            if (has_residual) want += (double)before[(rows + r) * n + j];
            if (!check_near((double)y[r * ldy + j], want, 1e-6 * fabs(want) + error))
                check_fail("rows=%lld n=%lld variant %d", (long long)rows, (long long)n, variant);
        }
    }
    if (!check_gaps_intact(y, rows, n, ldy)) check_fail("wrote between rows");
    check_intact();
}

static void test_epilogue(const vo_kernels *k) {
    for (int64_t n = 1; n < TAILS; n++)
        for (int variant = 0; variant < 24; variant++)
            epilogue_case(k, 1 + check_below(3), n, variant);
}

/* ---- GEMM ------------------------------------------------------------------------------- */

static const int64_t depths[] = {1, 2, 3, 4, 5, 8, 17, 64, 129, 400};
enum { DEPTHS = sizeof depths / sizeof *depths };

/* kind 0: usual numbers; 1: any exponent within the range of products; 2: special values */
static float gemm_value(int kind, int64_t i) {
    if (kind == 0) return check_uniform(-1, 1);
    if (kind == 1) return ldexpf(check_uniform(-1, 1), check_below(80) - 40);
    return check_special((int)i);
}

/* B as f32 and, for the f16 kernels, as halves; returns the f32 that the kernel sees */
static float *fill_b(int64_t count, int kind, bool half, uint16_t **halves) {
    float *b = check_floats(1, count);
    *halves = check_halves(2, half ? count : 0);
    for (int64_t i = 0; i < count; i++) {
        b[i] = gemm_value(kind, i);
        if (!half) continue;
        (*halves)[i] = vo_f32_to_f16(b[i]);
        b[i] = vo_f16_to_f32((*halves)[i]);
    }
    return b;
}

static void gemm_case(const vo_kernels *k, bool half, int64_t depth, int m, int n, int accumulate,
                      int kind) {
    const int mr = k->mr, nr = k->nr;
    const int64_t ldc = n + check_below(4);
    uint16_t *halves;
    float *a = check_floats(0, depth * mr), *b = fill_b(depth * nr, kind, half, &halves);
    float *c = check_floats(3, (m - 1) * ldc + n), *before = check_floats(4, m * n);
    for (int64_t i = 0; i < depth * mr; i++) a[i] = i % mr < m ? gemm_value(kind, i) : 0.0f;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) before[i * n + j] = c[i * ldc + j] = check_uniform(-1, 1);
    if (half)
        k->gemm_f16(depth, a, halves, c, ldc, m, n, accumulate);
    else
        k->gemm_f32(depth, a, b, c, ldc, m, n, accumulate);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float want = accumulate ? before[i * n + j] : 0.0f;
            for (int64_t kk = 0; kk < depth; kk++)
                want = fmaf(a[kk * mr + i], b[kk * nr + j], want);
            if (!check_same_bits(c[i * ldc + j], want))
                check_fail("k=%lld m=%d n=%d accumulate=%d [%d,%d] = %a, not %a", (long long)depth,
                           m, n, accumulate, i, j, (double)c[i * ldc + j], (double)want);
        }
    }
    if (!check_gaps_intact(c, m, n, ldc)) check_fail("m=%d n=%d wrote between rows", m, n);
    check_intact();
}

static void gemm(const vo_kernels *k, bool half) {
    for (int m = 1; m <= k->mr; m++)
        for (int n = 1; n <= k->nr; n++)
            for (int accumulate = 0; accumulate < 2; accumulate++)
                gemm_case(k, half, 1 + check_below(9), m, n, accumulate, 0);
    for (int d = 0; d < DEPTHS; d++)
        for (int kind = 0; kind < 3; kind++) {
            gemm_case(k, half, depths[d], k->mr, k->nr, d & 1, kind);
            gemm_case(k, half, depths[d], 1 + check_below(k->mr), 1 + check_below(k->nr), 0, kind);
        }
}

static void test_gemm_f32(const vo_kernels *k) {
    gemm(k, false);
}
static void test_gemm_f16(const vo_kernels *k) {
    gemm(k, true);
}

static void skinny_case(const vo_kernels *k, bool half, int64_t depth, int64_t panels, int m,
                        int kind) {
    const int64_t nr = k->nr, n = panels * nr;
    const int64_t lda = depth + check_below(3), ldc = n + check_below(3);
    uint16_t *halves;
    float *a = check_floats(0, (m - 1) * lda + depth);
    float *b = fill_b(depth * n, kind, half, &halves), *c = check_floats(3, (m - 1) * ldc + n);
    for (int64_t i = 0; i < (m - 1) * lda + depth; i++) a[i] = gemm_value(kind, i);
    if (half)
        k->skinny_f16(depth, panels, a, lda, halves, c, ldc, m);
    else
        k->skinny_f32(depth, panels, a, lda, b, c, ldc, m);
    for (int i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            const float *column = b + j / nr * depth * nr + j % nr;
            float want = 0;
            for (int64_t kk = 0; kk < depth; kk++)
                want = fmaf(a[i * lda + kk], column[kk * nr], want);
            if (!check_same_bits(c[i * ldc + j], want))
                check_fail("k=%lld panels=%lld m=%d [%d,%lld] = %a, not %a", (long long)depth,
                           (long long)panels, m, i, (long long)j, (double)c[i * ldc + j],
                           (double)want);
        }
    }
    if (!check_gaps_intact(c, m, n, ldc)) check_fail("m=%d wrote between rows", m);
    check_intact();
}

static void skinny(const vo_kernels *k, bool half) {
    for (int m = 1; m <= VO_SKINNY_ROWS; m++) {
        for (int64_t panels = 1; panels <= 9; panels++)
            skinny_case(k, half, depths[check_below(DEPTHS - 1)], panels, m, 0);
        for (int d = 0; d < DEPTHS; d++) skinny_case(k, half, depths[d], 2, m, d % 3);
    }
}

static void test_skinny_f32(const vo_kernels *k) {
    skinny(k, false);
}
static void test_skinny_f16(const vo_kernels *k) {
    skinny(k, true);
}

static void test_gemm_pack_a(const vo_kernels *k) {
    const int mr = k->mr;
    for (int m = 1; m <= mr; m++) {
        for (int64_t depth = 1; depth < 70; depth++) {
            const int64_t lda = depth + check_below(3);
            float *a = check_floats(0, (m - 1) * lda + depth),
                  *packed = check_floats(1, depth * mr);
            check_fill(a, (m - 1) * lda + depth, -1, 1);
            k->gemm_pack_a(depth, m, a, lda, packed);
            for (int64_t i = 0; i < depth * mr; i++) {
                const float want = i % mr < m ? a[i % mr * lda + i / mr] : 0.0f;
                if (packed[i] != want) check_fail("m=%d k=%lld", m, (long long)depth);
            }
            check_intact();
        }
    }
}

/* ---- attention -------------------------------------------------------------------------- */

/* Compares one query's output with sums in double. Key t is keys[row t], row t being
 * table[t] or t. The error allowed follows from that of a score (a sum of hd products) and
 * of a sum of len weights. */
static void attention_row(int64_t len, int64_t hd, float scale, const float *q, const float *keys,
                          const float *values, const int32_t *table, const float *out) {
    static double score[4096];
    double max = -INFINITY, products = 0, total = 0, largest = 0;
    for (int64_t t = 0; t < len; t++) {
        const float *key = keys + (table ? table[t] : t) * hd;
        double sum = 0, size = 0;
        for (int64_t d = 0; d < hd; d++) {
            sum += (double)q[d] * (double)key[d];
            size += fabs((double)q[d] * (double)key[d]);
        }
        score[t] = (double)scale * sum;
        if (size > products) products = size;
        if (score[t] > max) max = score[t];
    }
    for (int64_t t = 0; t < len; t++) total += score[t] = exp(score[t] - max);
    for (int64_t t = 0; t < len * hd; t++)
        if (fabs((double)values[t]) > largest) largest = fabs((double)values[t]);
    const double score_error = fabs((double)scale) * products * (double)(hd + 2) * EPS;
    const double tolerance = largest * (2 * score_error + ((double)len + 8) * EPS);
    for (int64_t d = 0; d < hd; d++) {
        double want = 0;
        for (int64_t t = 0; t < len; t++)
            want += score[t] * (double)values[(table ? table[t] : t) * hd + d];
        want = len ? want / total : 0;
        if (!check_near((double)out[d], want, tolerance))
            check_fail("len=%lld hd=%lld [%lld] = %.9g, not %.9g (+- %.2g)", (long long)len,
                       (long long)hd, (long long)d, (double)out[d], want, tolerance);
    }
}

/* K and V in panels as attend_block takes them */
static void pack_keys(const vo_kernels *k, int64_t nk, int64_t hd, const float *keys,
                      const float *values, float *kp, float *vp) {
    const int64_t mr = k->mr;
    for (int64_t t = 0; t < nk; t += mr)
        k->gemm_pack_a(hd, (int)(nk - t < mr ? nk - t : mr), keys + t * hd, hd, kp + t * hd);
    for (int64_t d = 0; d < (hd + mr - 1) / mr * mr; d++)
        for (int64_t t = 0; t < nk; t++)
            vp[d / mr * nk * mr + t * mr + d % mr] = d < hd ? values[t * hd + d] : 0.0f;
}

static void attend_block_case(const vo_kernels *k, int64_t nq, int64_t nk, int64_t hd, float size) {
    const int64_t mr = k->mr, ldq = hd + check_below(3), ldo = hd + check_below(3);
    const float scale = 1 / sqrtf((float)hd);
    float *q = check_floats(0, (nq - 1) * ldq + hd), *keys = check_floats(1, nk * hd);
    float *values = check_floats(2, nk * hd);
    float *kp = check_floats(3, (nk + mr - 1) / mr * mr * hd);
    float *vp = check_floats(4, (hd + mr - 1) / mr * mr * nk);
    float *out = check_floats(5, (nq - 1) * ldo + hd);
    float *scratch = check_floats(6, vo_attend_scratch(k, hd));
    check_fill(q, (nq - 1) * ldq + hd, -size, size);
    check_fill(keys, nk * hd, -size, size);
    check_fill(values, nk * hd, -2, 2);
    pack_keys(k, nk, hd, keys, values, kp, vp);
    k->attend_block(nq, nk, hd, scale, q, ldq, kp, vp, out, ldo, scratch);
    for (int64_t i = 0; i < nq; i++)
        attention_row(nk, hd, scale, q + i * ldq, keys, values, NULL, out + i * ldo);
    if (!check_gaps_intact(out, nq, hd, ldo)) check_fail("wrote between rows");
    check_intact();
    /* the last query alone gives the same bits */
    float *alone = check_floats(7, hd);
    k->attend_block(1, nk, hd, scale, q + (nq - 1) * ldq, ldq, kp, vp, alone, ldo, scratch);
    if (memcmp(alone, out + (nq - 1) * ldo, (size_t)hd * sizeof *out))
        check_fail("nq=%lld nk=%lld hd=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)nk, (long long)hd);
}

static void test_attend_block(const vo_kernels *k) {
    static const int64_t lengths[] = {1, 2, 7, 8, 15, 64, 167, 168, 169, 337, 500};
    static const int64_t heads[] = {64, 64, 128, 80, 8, 13, 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++)
            attend_block_case(k, 1 + check_below(k->attn_queries), lengths[i], heads[j],
                              j == 1 ? 30 : 2);
    for (int nq = 1; nq <= k->attn_queries; nq++) attend_block_case(k, nq, 41, 64, 2);
}

static void attend_cached_case(const vo_kernels *k, int64_t nq, int64_t len, int64_t hd,
                               bool mapped, float size) {
    const int64_t ldq = hd + check_below(3), ldo = hd + check_below(3);
    const float scale = 1 / sqrtf((float)hd);
    float *q = check_floats(0, (nq - 1) * ldq + hd), *keys = check_floats(1, len * hd);
    float *values = check_floats(2, len * hd), *out = check_floats(3, (nq - 1) * ldo + hd);
    float *scores = check_floats(4, nq * len);
    int32_t *table = (int32_t *)(void *)check_floats(5, len);
    for (int32_t t = 0; t < (int32_t)len; t++) { /* a random permutation, grown in place */
        const int other = check_below(t + 1);
        table[t] = table[other];
        table[other] = t;
    }
    if (!mapped) table = NULL;
    check_fill(q, (nq - 1) * ldq + hd, -size, size);
    check_fill(keys, len * hd, -size, size);
    check_fill(values, len * hd, -2, 2);
    k->attend_cached(nq, len, hd, scale, q, ldq, keys, values, table, out, ldo, scores);
    for (int64_t i = 0; i < nq; i++)
        attention_row(len, hd, scale, q + i * ldq, keys, values, table, out + i * ldo);
    if (!check_gaps_intact(out, nq, hd, ldo)) check_fail("wrote between rows");
    float *alone = check_floats(6, hd);
    k->attend_cached(1, len, hd, scale, q + (nq - 1) * ldq, ldq, keys, values, table, alone, ldo,
                     scores);
    if (memcmp(alone, out + (nq - 1) * ldo, (size_t)hd * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)len, (long long)hd);
    check_intact();
}

static void test_attend_cached(const vo_kernels *k) {
    static const int64_t lengths[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 63, 64, 65, 130, 448, 1500};
    static const int64_t heads[] = {64, 128, 80, 20, 13, 1};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++)
            attend_cached_case(k, 1 + check_below(VO_SKINNY_ROWS), lengths[i], heads[j],
                               (i + j) & 1, j == 1 ? 30 : 2);
    for (int nq = 1; nq <= VO_SKINNY_ROWS; nq++) attend_cached_case(k, nq, 100, 64, nq & 1, 2);
}

/* ---- spectrum --------------------------------------------------------------------------- */

enum { WINDOW = 400, BINS = 201 };

/* noise, a tone, an impulse train, silence, loud noise */
static void fill_signal(float *x, int64_t n, int kind) {
    for (int64_t i = 0; i < n; i++) {
        x[i] = check_uniform(-0.5f, 0.5f);
        if (kind == 1) x[i] = 0.9f * sinf(0.3f * (float)i) + 1e-3f * x[i];
        if (kind == 2) x[i] = i % 123 == 0 ? 1.0f : 0.0f;
        if (kind == 3) x[i] = 0;
        if (kind == 4) x[i] *= 1e6f;
    }
}

/* |DFT| of one frame in double; returns the frame's norm and its largest amplitude */
static double stft_frame_reference(const float *x, const float *window, double *amplitude,
                                   double *peak) {
    static double cosine[WINDOW];
    if (cosine[0] == 0)
        for (int i = 0; i < WINDOW; i++) cosine[i] = cos(6.283185307179586476925 * i / WINDOW);
    double y[WINDOW], energy = 0;
    for (int i = 0; i < WINDOW; i++) {
        y[i] = (double)x[i] * (double)window[i];
        energy += y[i] * y[i];
    }
    *peak = 0;
    for (int k = 0; k < BINS; k++) {
        double re = 0, im = 0;
        for (int i = 0; i < WINDOW; i++) {
            re += y[i] * cosine[i * k % WINDOW];
            im += y[i] * cosine[(i * k + 100) % WINDOW];
        }
        amplitude[k] = sqrt(re * re + im * im);
        if (amplitude[k] > *peak) *peak = amplitude[k];
    }
    return sqrt(energy);
}

/* Rounding spreads over all bins in proportion to the frame's norm; the last butterflies also
 * leak from the loudest bin into a few others. */
static void stft_frame(const float *x, const float *window, const float *power, double *worst) {
    double amplitude[BINS], peak;
    const double norm = stft_frame_reference(x, window, amplitude, &peak);
    const double delta = EPS * (6 * norm + 2 * peak);
    for (int k = 0; k < BINS; k++) {
        const double want = amplitude[k] * amplitude[k], error = fabs((double)power[k] - want);
        const double tolerance = 2 * amplitude[k] * delta + delta * delta + 2 * EPS * want;
        if (!(error <= tolerance))
            check_fail("bin %d is %.9g, not %.9g (+- %.2g)", k, (double)power[k], want, tolerance);
        if (peak > 0) *worst = fmax(*worst, fabs(sqrt((double)power[k]) - amplitude[k]) / peak);
    }
}

static void stft_case(const vo_kernels *k, int64_t frames, int64_t hop, int kind, double *worst) {
    const int64_t ldp = BINS + check_below(3), n = (frames - 1) * hop + WINDOW;
    float *x = check_floats(0, n), *window = check_floats(1, WINDOW);
    float *power = check_floats(2, (frames - 1) * ldp + BINS);
    float *scratch = check_floats(3, VO_STFT_SCRATCH), *alone = check_floats(4, BINS);
    fill_signal(x, n, kind);
    for (int i = 0; i < WINDOW; i++) /* a Hann window, bent so that its symmetry hides nothing */
        window[i] = (0.5f - 0.5f * cosf(6.2831853f * (float)i / WINDOW)) * (1 + 0.001f * (float)i);
    k->stft400_power(frames, x, hop, window, power, ldp, scratch);
    for (int64_t f = 0; f < frames; f++) stft_frame(x + f * hop, window, power + f * ldp, worst);
    if (!check_gaps_intact(power, frames, BINS, ldp)) check_fail("wrote between rows");
    check_intact();
    const int64_t last = frames - 1;
    k->stft400_power(1, x + last * hop, hop, window, alone, ldp, scratch);
    if (memcmp(alone, power + last * ldp, BINS * sizeof *alone))
        check_fail("frames=%lld: a frame depends on its neighbours", (long long)frames);
}

static void test_stft400_power(const vo_kernels *k) {
    static const int64_t hops[] = {160, 1, 133, 400};
    double worst = 0;
    for (int64_t frames = 1; frames < 36; frames++)
        stft_case(k, frames, hops[frames % 4], (int)frames % 5, &worst);
    if (verbose)
        printf("  %-8s %-12s worst amplitude error %.3g of the peak\n", check.level, check.kernel,
               worst);
}

/* ---- main ------------------------------------------------------------------------------- */

static const struct kernel_test {
    const char *name;
    void (*run)(const vo_kernels *kernels);
} tests[] = {
#define VO_KERNEL(name, args) {#name, test_##name},
#include "kernels/kernels.def"
#undef VO_KERNEL
};

typedef struct options {
    const char *cpu, *kernel;
    uint64_t seed;
    bool bench;
} options;

static bool parse(int argc, char **argv, options *o) {
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--bench"))
            o->bench = true;
        else if (!strcmp(argv[i], "--verbose"))
            verbose = true;
        else if (value && !strcmp(argv[i], "--cpu"))
            o->cpu = argv[++i];
        else if (value && !strcmp(argv[i], "--kernel"))
            o->kernel = argv[++i];
        else if (value && !strcmp(argv[i], "--seed"))
            o->seed = strtoull(argv[++i], NULL, 0);
        else
            return false;
    }
    return true;
}

/* Every level starts from the same seed, so that a failure repeats alone. */
static int run_tests(const options *o, const check_level *level) {
    int ran = 0;
    check.level = level->name;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (o->kernel && strcmp(o->kernel, tests[i].name)) continue;
        const int before = check.failures;
        check.kernel = tests[i].name;
        check_seed(o->seed + i);
        tests[i].run(&level->kernels);
        if (check.failures > before)
            printf("%s %s: %d wrong\n", level->name, tests[i].name, check.failures - before);
        ran++;
    }
    return ran;
}

int main(int argc, char **argv) {
    options o = {.seed = (uint64_t)(vo_clock_seconds() * 1e9)};
    check_level levels[8];
    vo_error err = {0};
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: %s [--cpu LEVEL] [--kernel NAME] [--seed N] [--verbose] [--bench]\n",
                argv[0]);
        return 2;
    }
    const int n = check_levels(o.cpu, levels, &err);
    if (n < 0 || !check_slots_open()) {
        fprintf(stderr, "%s\n", n < 0 ? err.message : "no memory for the guarded arrays");
        return 2;
    }
    check_catch_crashes();
    if (o.bench) return bench_kernels(levels, n, o.kernel);
    printf("seed %llu\n", (unsigned long long)o.seed);
    fflush(stdout);
    int ran = 0;
    for (int i = 0; i < n; i++) {
        const double start = vo_clock_seconds();
        const int count = run_tests(&o, &levels[i]);
        printf("%-8s %d kernels, %.1f s\n", levels[i].name, count, vo_clock_seconds() - start);
        ran += count;
    }
    if (!ran) fprintf(stderr, "no kernel is named %s\n", o.kernel);
    printf(check.failures ? "%d failures\n" : "all right\n", check.failures);
    return check.failures || !ran;
}
