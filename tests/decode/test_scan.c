/* SPDX-License-Identifier: MIT
 *
 * Passes over logits against plain double arithmetic and sorting.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "decode/decode.h"
#include "decode/scan.h"
#include "decode/vmath.h"

enum { LARGE = 51865 };

static uint64_t random_state = 1;

static double uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}

/* Logits between low and 0; about one in `rare` is NaN or -inf (0: none). */
static void fill(float *x, int n, double low, int rare) {
    for (int i = 0; i < n; i++) {
        x[i] = (float)(uniform() * low);
        if (rare && uniform() * rare < 1) x[i] = uniform() < 0.5 ? NAN : -INFINITY;
    }
}

static double exact_logsumexp(const float *x, int n) {
    double max = -INFINITY, sum = 0;
    for (int i = 0; i < n; i++) max = (double)x[i] > max ? (double)x[i] : max;
    if (isinf(max)) return max;
    for (int i = 0; i < n; i++) sum += isnan(x[i]) ? 0 : exp((double)x[i] - max);
    return max + log(sum);
}

static void test_exp_is_close(void **state) {
    assert_true(vo_exp_scaled(0.0f, 1.0f) == 1.0f);
    assert_true(vo_exp_scaled(-INFINITY, 1.0f) == 0.0f);
    assert_true(vo_exp_scaled(NAN, 1.0f) == 0.0f);
    assert_true(vo_exp_scaled(-87.1f, 1.0f) == 0.0f);
    assert_true(vo_exp_scaled(-3e38f, 1e30f) == 0.0f);
    for (int i = 0; i < 86900; i++) {
        float x = (float)i * -1e-3f;
        double want = exp((double)x), got = (double)vo_exp_scaled(x, 1.0f);
        double bound = 3e-7 - 1e-7 * (double)x;
        if (!(fabs(got - want) <= bound * want)) {
            fail_msg("exp(%g) is off by %g", (double)x, got / want - 1);
        }
    }
}

static void test_logsumexp_is_close(void **state) {
    float *x = malloc(LARGE * sizeof(*x));
    assert_non_null(x);
    for (int n = 1; n <= 300; n++) {
        fill(x, n, n % 2 ? -5 : -60, n % 3 ? 4 : 0);
        double want = exact_logsumexp(x, n), got = (double)vo_logsumexp(x, n);
        /* the result itself is rounded to float */
        if (!(fabs(got - want) <= 5e-7 + 6e-8 * fabs(want) || got == want)) {
            fail_msg("n = %d: %.9g, not %.9g", n, got, want);
        }
    }
    for (int spread = 1; spread <= 100; spread *= 10) {
        fill(x, LARGE, -spread, 0);
        assert_true(fabs((double)vo_logsumexp(x, LARGE) - exact_logsumexp(x, LARGE)) < 2e-6);
    }
    assert_true(vo_logsumexp(x, 0) == -INFINITY);
    float special[3] = {NAN, -INFINITY, NAN};
    assert_true(vo_logsumexp(special, 3) == -INFINITY);
    special[0] = 1.5f;
    assert_true(vo_logsumexp(special, 3) == 1.5f);
    special[2] = INFINITY;
    assert_true(vo_logsumexp(special, 3) == INFINITY);
    free(x);
}

/* The next best token by definition: larger logit, or equal and smaller id. -1: none. */
static int exact_next(const float *x, int n, int former) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (!(x[i] > -INFINITY)) continue;
        if (former >= 0 && (x[i] > x[former] || (x[i] == x[former] && i <= former))) continue;
        if (best < 0 || x[i] > x[best]) best = i;
    }
    return best;
}

static void check_top(float *x, int n, int k) {
    vo_scan scan;
    vo_choice top[16];
    assert_true(vo_scan_init(&scan, n));
    vo_scan_logits(&scan, x);
    double logsumexp = exact_logsumexp(x, n);
    int count = vo_scan_top(&scan, x, k, top), former = -1;
    for (int c = 0; c < k; c++) {
        int want = exact_next(x, n, former);
        if (want < 0) {
            assert_int_equal(count, c);
            break;
        }
        if (c >= count || top[c].token != want) {
            fail_msg("n = %d, k = %d: choice %d is not %d", n, k, c, want);
        }
        assert_true(fabs(top[c].logprob - ((double)x[want] - logsumexp)) < 2e-6);
        former = want;
    }
    assert_true(count <= k);
    vo_scan_free(&scan);
}

static void test_top_equals_sorting(void **state) {
    float x[2000];
    for (int n = 1; n < 2000; n += n < 140 ? 1 : 61) {
        for (int kind = 0; kind < 4; kind++) {
            fill(x, n, -20, kind % 2 ? 3 : 0);
            /* coarse values give many equal ones, within blocks and across */
            if (kind >= 2) {
                for (int i = 0; i < n; i++) x[i] = floorf(x[i] * 0.25f);
            }
            check_top(x, n, 1);
            check_top(x, n, 2 + n % 9);
        }
    }
    for (int i = 0; i < 2000; i++) x[i] = 3.0f;
    check_top(x, 2000, 6);
    for (int i = 0; i < 2000; i++) x[i] = i == 1999 ? -4.0f : NAN;
    check_top(x, 2000, 6);
    x[1999] = -INFINITY;
    check_top(x, 2000, 6);
}

static void test_infinite_logits_become_finite(void **state) {
    float x[100];
    vo_scan scan;
    vo_choice top[3];
    fill(x, 100, -5, 0);
    x[40] = x[90] = INFINITY;
    assert_true(vo_scan_init(&scan, 100));
    vo_scan_logits(&scan, x);
    assert_true(isfinite(scan.logsumexp));
    assert_int_equal(vo_scan_top(&scan, x, 3, top), 3);
    assert_int_equal(top[0].token, 40);
    assert_int_equal(top[1].token, 90);
    assert_true(isfinite(top[0].logprob) && top[2].logprob < -1e30);
    vo_scan_temper(&scan, x, 0.7f);
    assert_int_equal(vo_scan_draw(&scan, x, 0.7f, 0.4).token, 40);
    assert_int_equal(vo_scan_draw(&scan, x, 0.7f, 0.6).token, 90);
    vo_scan_free(&scan);
}

/* Chi-square of draws against softmax(logits / T). */
static void check_draws(float temperature) {
    enum { N = 150, DRAWS = 200000 };
    float x[N];
    int hits[N] = {0};
    double p[N], total = 0, chi = 0;
    fill(x, N, -6 * (double)temperature, 10);
    vo_scan scan;
    assert_true(vo_scan_init(&scan, N));
    vo_scan_logits(&scan, x);
    vo_scan_temper(&scan, x, temperature);
    for (int i = 0; i < N; i++) {
        p[i] = isnan(x[i]) ? 0 : exp((double)x[i] / (double)temperature);
        total += p[i];
    }
    for (int d = 0; d < DRAWS; d++) {
        vo_choice choice = vo_scan_draw(&scan, x, temperature, uniform());
        hits[choice.token]++;
        assert_true(fabs(choice.logprob - ((double)x[choice.token] - scan.logsumexp)) < 1e-9);
    }
    int freedom = -1;
    for (int i = 0; i < N; i++) {
        if (p[i] <= 0) {
            assert_int_equal(hits[i], 0);
            continue;
        }
        double want = DRAWS * p[i] / total;
        chi += (hits[i] - want) * (hits[i] - want) / want;
        freedom++;
    }
    /* five standard deviations of the chi-square distribution */
    if (fabs(chi - freedom) > 5 * sqrt(2.0 * freedom)) {
        fail_msg("chi-square %g at %d degrees of freedom", chi, freedom);
    }
    vo_scan_free(&scan);
}

static void test_draws_follow_softmax(void **state) {
    check_draws(1.0f);
    check_draws(0.3f);
    check_draws(5.0f);
}

static void test_draw_at_the_edges(void **state) {
    float x[200];
    vo_scan scan;
    assert_true(vo_scan_init(&scan, 200));
    for (int i = 0; i < 200; i++) x[i] = -INFINITY;
    x[70] = -2.0f;
    x[130] = -3.0f;
    vo_scan_logits(&scan, x);
    vo_scan_temper(&scan, x, 1.0f);
    assert_int_equal(vo_scan_draw(&scan, x, 1.0f, 0.0).token, 70);
    assert_int_equal(vo_scan_draw(&scan, x, 1.0f, 1.0 - 0x1p-53).token, 130);
    /* so cold that 1 / T overflows: the best token, always */
    vo_scan_temper(&scan, x, 1e-42f);
    assert_int_equal(vo_scan_draw(&scan, x, 1e-42f, 1.0 - 0x1p-53).token, 70);
    vo_scan_free(&scan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_close),
        cmocka_unit_test(test_logsumexp_is_close),
        cmocka_unit_test(test_top_equals_sorting),
        cmocka_unit_test(test_infinite_logits_become_finite),
        cmocka_unit_test(test_draws_follow_softmax),
        cmocka_unit_test(test_draw_at_the_edges),
    };
    return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
