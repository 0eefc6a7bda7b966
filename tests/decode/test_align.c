/* SPDX-License-Identifier: MIT
 *
 * Median filter and dynamic time warping against openai-whisper (tools/golden/words.py), scores
 * against sums in double, and all of it on weights that say where tokens are.
 */
#include "decode/align.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <jansson.h>

enum { MOST = 64 };

static json_t *load(void) {
    json_error_t why;
    json_t *golden = json_load_file("tests/data/decode/align.json", 0, &why);
    if (!golden) fail_msg("%s", why.text);
    return golden;
}

static int read_floats(const json_t *array, float *x) {
    const int n = (int)json_array_size(array);
    assert_in_range(n, 1, MOST);
    for (int i = 0; i < n; i++) x[i] = (float)json_number_value(json_array_get(array, (size_t)i));
    return n;
}

static void test_median(void **state) {
    json_t *golden = load(), *one;
    size_t i;
    json_array_foreach(json_object_get(golden, "median"), i, one) {
        float x[MOST], want[MOST], have[MOST], padded[MOST + 6];
        const int n = read_floats(json_object_get(one, "x"), x);
        assert_int_equal(read_floats(json_object_get(one, "y"), want), n);
        for (int k = 0; k < n; k++) have[k] = 3; /* it adds */
        vo_align_add_median7(x, n, padded, have);
        for (int k = 0; k < n; k++) assert_true(have[k] == want[k] + 3);
    }
    json_decref(golden);
}

/* A network of comparisons that sorts all zeros and ones right sorts everything right. */
static void test_median_of_ones(void **state) {
    for (int bits = 0; bits < 128; bits++) {
        float x[7], y[7] = {0}, padded[13];
        int ones = 0;
        for (int i = 0; i < 7; i++) ones += bits >> i & 1, x[i] = (float)(bits >> i & 1);
        vo_align_add_median7(x, 7, padded, y);
        assert_true(y[3] == (ones > 3 ? 1 : 0));
    }
}

static void test_scores(void **state) {
    enum { TOKENS = 9, FRAMES = 13 };
    float x[TOKENS * FRAMES], y[TOKENS * FRAMES];
    double sums[2 * FRAMES];
    uint32_t seed = 1;
    for (int i = 0; i < TOKENS * FRAMES; i++)
        x[i] = (float)((seed = seed * 1664525 + 1013904223) >> 8) / (1 << 24);
    for (int i = 0; i < TOKENS; i++) x[i * FRAMES + 4] = 0.25f; /* nothing to tell apart */
    memcpy(y, x, sizeof x);
    vo_align_standardize(y, TOKENS, FRAMES, sums);
    for (int t = 0; t < FRAMES; t++) {
        double mean = 0, square = 0;
        for (int i = 0; i < TOKENS; i++) mean += (double)x[i * FRAMES + t] / TOKENS;
        for (int i = 0; i < TOKENS; i++)
            square += pow((double)x[i * FRAMES + t] - mean, 2) / TOKENS;
        for (int i = 0; i < TOKENS; i++) {
            const double want = t == 4 ? 0 : ((double)x[i * FRAMES + t] - mean) / sqrt(square);
            assert_true(fabs((double)y[i * FRAMES + t] - want) < 1e-5);
        }
    }
}

static void test_dtw(void **state) {
    json_t *golden = load(), *one;
    size_t i;
    int ties = 0;
    json_array_foreach(json_object_get(golden, "dtw"), i, one) {
        static float x[MOST * MOST];
        const json_t *rows = json_object_get(one, "x"), *want = json_object_get(one, "start");
        const int n = (int)json_array_size(rows);
        int m = 0;
        int32_t start[MOST];
        vo_error err = {0};
        assert_in_range(n, 1, MOST);
        for (int k = 0; k < n; k++)
            m = read_floats(json_array_get(rows, (size_t)k), x + k * (k ? m : 0));
        assert_int_equal(vo_align_dtw(x, n, m, start, &err), VO_OK);
        assert_int_equal(json_array_size(want), n);
        for (int k = 0; k < n; k++) {
            assert_int_equal(start[k], json_integer_value(json_array_get(want, (size_t)k)));
            ties += k > 0 && start[k] == start[k - 1];
        }
    }
    assert_true(ties > 10);
    json_decref(golden);
}

/* Every token looks at its own frames in one head, and everywhere alike in the other. */
static void test_tokens(void **state) {
    enum { HEADS = 2, TOKENS = 6, FRAMES = 60 };
    static const int begins[TOKENS + 1] = {0, 5, 11, 20, 33, 47, FRAMES};
    static float weights[HEADS * TOKENS * FRAMES];
    int32_t start[4];
    vo_error err = {0};
    for (int i = 0; i < TOKENS; i++)
        for (int t = 0; t < FRAMES; t++) {
            weights[i * FRAMES + t] = t >= begins[i] && t < begins[i + 1] ? 0.08f : 0.001f;
            weights[(TOKENS + i) * FRAMES + t] = 1.0f / FRAMES;
        }
    assert_int_equal(vo_align_tokens(weights, HEADS, TOKENS, FRAMES, 1, 4, start, &err), VO_OK);
    assert_int_equal(start[0], 0); /* the path begins in the first corner */
    for (int i = 1; i < 4; i++) assert_int_equal(start[i], begins[i + 1]);
}

/* What a broken model gives. */
static void test_no_numbers(void **state) {
    enum { TOKENS = 4, FRAMES = 12 };
    float weights[TOKENS * FRAMES];
    int32_t start[TOKENS];
    vo_error err = {0};
    for (int kind = 0; kind < 3; kind++) {
        for (int i = 0; i < TOKENS * FRAMES; i++)
            weights[i] = kind == 0 ? NAN : kind == 1 ? INFINITY : i % 7 ? 0.1f : NAN;
        assert_int_equal(vo_align_tokens(weights, 1, TOKENS, FRAMES, 0, TOKENS, start, &err),
                         VO_OK);
        for (int i = 0; i < TOKENS; i++) {
            assert_in_range(start[i], 0, FRAMES - 1);
            assert_true(i == 0 || start[i] >= start[i - 1]);
        }
    }
}

static void test_no_memory(void **state) {
    float weights[12] = {0};
    int32_t start[3];
    const size_t before = vo_memory_get_stats().active_bytes;
    for (int n = 0;; n++) {
        vo_error err = {0};
        vo_memory_fail_after(n, true);
        const vo_status status = vo_align_tokens(weights, 1, 3, 4, 0, 3, start, &err);
        const bool failed = vo_memory_fail_after(-1, false);
        assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
        if (!failed) return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median),    cmocka_unit_test(test_median_of_ones),
        cmocka_unit_test(test_scores),    cmocka_unit_test(test_dtw),
        cmocka_unit_test(test_tokens),    cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
