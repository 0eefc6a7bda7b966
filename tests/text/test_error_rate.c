/* SPDX-License-Identifier: MIT
 *
 * Error rates against jiwer's totals and against a plain edit distance, and the compression
 * ratio against Python's zlib.
 */
#include "text/support_text.h"

#include "base/clock.h"
#include "base/memory.h"
#include "text/text.h"

static int64_t total(const vo_error_rate *r) {
    return r->substitutions + r->deletions + r->insertions;
}

static void counts_as_jiwer(void **state) {
    json_t *golden = load_json("tests/data/text/errors.json"), *one;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(golden, "cases")), 60);
    json_array_foreach(json_object_get(golden, "cases"), i, one) {
        const char *a = get_string(one, "reference"), *b = get_string(one, "hypothesis");
        vo_error_rate rate;
        vo_error err = {0};
        assert_int_equal(vo_word_errors(a, b, &rate, &err), VO_OK);
        assert_int_equal(total(&rate), json_integer_value(json_object_get(one, "word_errors")));
        assert_int_equal(vo_char_errors(a, b, &rate, &err), VO_OK);
        assert_int_equal(total(&rate), json_integer_value(json_object_get(one, "char_errors")));
        double ratio = json_number_value(json_object_get(one, "ratio"));
        assert_true(vo_compression_ratio(a, strlen(a)) == ratio);
    }
    json_decref(golden);
}

static void check_words(const char *a, const char *b, int s, int d, int i, int n) {
    vo_error_rate rate;
    vo_error err = {0};
    assert_int_equal(vo_word_errors(a, b, &rate, &err), VO_OK);
    assert_int_equal(rate.substitutions, s);
    assert_int_equal(rate.deletions, d);
    assert_int_equal(rate.insertions, i);
    assert_int_equal(rate.reference, n);
}

static void counts_each_kind(void **state) {
    check_words("", "", 0, 0, 0, 0);
    check_words("", "a b", 0, 0, 2, 0);
    check_words(" a\tb ", "", 0, 2, 0, 2);
    check_words("a b c", "a b c", 0, 0, 0, 3);
    check_words("a b c", "a x c", 1, 0, 0, 3);
    check_words("a b c", "a c", 0, 1, 0, 3);
    check_words("a c", "a b c", 0, 0, 1, 2);
    check_words("a b", "b c", 2, 0, 0, 2); /* not one deletion and one insertion */
    check_words("a b c d", "b c d e", 0, 1, 1, 4);
    check_words("one two three four", "two three five four six", 0, 1, 2, 4);
    vo_error_rate rate;
    vo_error err = {0};
    assert_int_equal(vo_char_errors(" na\xc3\xafve ", "naive", &rate, &err), VO_OK);
    assert_int_equal(rate.substitutions, 1);
    assert_int_equal(rate.reference, 5);
    assert_int_equal(vo_char_errors("ab\xff", "ab", &rate, &err), VO_OK);
    assert_int_equal(rate.deletions, 1);
}

/* The definition: the full table, each cell the least (errors, then most substitutions). */
typedef struct cell {
    int errors, substitutions;
} cell;

static cell better(cell x, cell y) {
    if (x.errors != y.errors) return x.errors < y.errors ? x : y;
    return x.substitutions >= y.substitutions ? x : y;
}

static cell plain_distance(const char *a, const char *b) {
    static cell table[130][130];
    size_t n = strlen(a), m = strlen(b);
    for (size_t i = 0; i <= n; i++) {
        for (size_t j = 0; j <= m; j++) {
            cell best = {i == 0 && j == 0 ? 0 : 1 << 20, 0};
            if (i)
                best =
                    better(best, (cell){table[i - 1][j].errors + 1, table[i - 1][j].substitutions});
            if (j)
                best =
                    better(best, (cell){table[i][j - 1].errors + 1, table[i][j - 1].substitutions});
            if (i && j) {
                int wrong = a[i - 1] != b[j - 1];
                best = better(best, (cell){table[i - 1][j - 1].errors + wrong,
                                           table[i - 1][j - 1].substitutions + wrong});
            }
            table[i][j] = best;
        }
    }
    return table[n][m];
}

static void counts_as_the_definition(void **state) {
    uint32_t seed = 99;
    for (int k = 0; k < 500; k++) {
        char text[2][130];
        for (int t = 0; t < 2; t++) {
            seed = seed * 1664525 + 1013904223;
            size_t n = (seed >> 16) % 128;
            for (size_t i = 0; i < n; i++) {
                seed = seed * 1664525 + 1013904223;
                text[t][i] = (char)('a' + (seed >> 16) % (unsigned)(2 + k % 7));
            }
            text[t][n] = '\0';
        }
        vo_error_rate rate;
        vo_error err = {0};
        assert_int_equal(vo_char_errors(text[0], text[1], &rate, &err), VO_OK);
        cell expected = plain_distance(text[0], text[1]);
        assert_int_equal(total(&rate), expected.errors);
        assert_int_equal(rate.substitutions, expected.substitutions);
        assert_int_equal(rate.reference - rate.deletions + rate.insertions, strlen(text[1]));
        assert_true(rate.deletions >= 0 && rate.insertions >= 0);
    }
}

static void compares_long_texts(void **state) {
    vo_buf a = {0}, b = {0};
    uint32_t seed = 7;
    int changed = 0;
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525 + 1013904223;
        vo_buf_printf(&a, "%u ", seed >> 20);
        bool change = i % 16 == 5;
        changed += change;
        if (change)
            vo_buf_puts(&b, "wrong ");
        else
            vo_buf_printf(&b, "%u ", seed >> 20);
    }
    vo_error_rate rate;
    vo_error err = {0};
    size_t before = vo_memory_get_stats().active_bytes;
    double start = vo_clock_seconds();
    assert_int_equal(vo_word_errors(a.data, b.data, &rate, &err), VO_OK);
    assert_int_equal(rate.substitutions, changed);
    assert_int_equal(total(&rate), changed);
    vo_buf_clear(&b);
    for (int i = 0; i < 20000; i++) {
        seed = seed * 1664525 + 1013904223;
        vo_buf_printf(&b, "%u ", seed >> 20);
    }
    assert_int_equal(vo_word_errors(a.data, b.data, &rate, &err), VO_OK);
    assert_true(total(&rate) > 15000 && total(&rate) <= 20000);
    print_message("20000 words twice: %.2f s\n", vo_clock_seconds() - start);
    assert_true(vo_memory_get_stats().active_bytes <= before + b.capacity);
    assert_true(vo_memory_get_stats().peak_bytes < 64u << 20); /* the table would take 1.6 GB */
    vo_buf_free(&a);
    vo_buf_free(&b);
}

static void measures_compression(void **state) {
    assert_true(vo_compression_ratio("", 0) == 0);
    assert_true(vo_compression_ratio("a", 1) == 1.0 / 9);
    char *text = vo_alloc(1000000);
    assert_non_null(text);
    memset(text, 'x', 1000000);
    /* len(zlib.compress(b"x" * 1000000)) == 991 */
    assert_true(vo_compression_ratio(text, 1000000) == 1000000.0 / 991);
    vo_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_as_jiwer),          cmocka_unit_test(counts_each_kind),
        cmocka_unit_test(counts_as_the_definition), cmocka_unit_test(compares_long_texts),
        cmocka_unit_test(measures_compression),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
