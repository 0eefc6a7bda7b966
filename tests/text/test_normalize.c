/* SPDX-License-Identifier: MIT
 *
 * The normalisers against the reference, and their promise to survive any text in linear time.
 */
#include "text/support_text.h"

#include "base/clock.h"
#include "base/memory.h"
#include "text/text.h"
#include "text/unicode.h"

static void check(char *result, const char *expected, const char *input) {
    assert_non_null(result);
    if (strcmp(result, expected) != 0)
        fail_msg("\"%s\" became\n\"%s\", not\n\"%s\"", input, result, expected);
    vo_free(result);
}

static void check_case(const json_t *one, const char *key) {
    const char *text = get_string(one, key);
    check(vo_normalize_english(text), get_string(one, "english"), text);
    check(vo_normalize_basic(text, false, false), get_string(one, "basic"), text);
    check(vo_normalize_basic(text, true, false), get_string(one, "basic_no_diacritics"), text);
    check(vo_normalize_basic(text, false, true), get_string(one, "basic_split_letters"), text);
}

static void normalizes_as_reference(void **state) {
    json_t *golden = load_json("tests/data/text/normalizer_golden.json"), *one;
    size_t i;
    assert_int_equal(json_array_size(golden), 78);
    json_array_foreach(golden, i, one) check_case(one, "in");
    json_decref(golden);
}

static void normalizes_random_as_reference(void **state) {
    json_t *golden = load_json("tests/data/text/random.json"), *one;
    size_t i;
    assert_int_equal(json_array_size(json_object_get(golden, "cases")), 500);
    json_array_foreach(json_object_get(golden, "cases"), i, one) check_case(one, "text");
    json_decref(golden);
}

static void survives_invalid_text(void **state) {
    check(vo_normalize_english(""), "", "");
    check(vo_normalize_basic("", true, true), "", "");
    check(vo_normalize_english("and a half"), "", "and a half");
    check(vo_normalize_english("a\xff\xc3"), "a", "invalid bytes");
    check(vo_normalize_basic("\xe2\x82", false, false), " ", "a cut character");
}

static double time_normalizers(const char *unit, size_t bytes) {
    vo_buf text = {0};
    while (text.size < bytes) vo_buf_puts(&text, unit);
    assert_false(text.failed);
    double start = vo_clock_seconds();
    char *english = vo_normalize_english(text.data);
    char *basic = vo_normalize_basic(text.data, false, true);
    double seconds = vo_clock_seconds() - start;
    assert_non_null(english);
    assert_non_null(basic);
    vo_free(english);
    vo_free(basic);
    vo_buf_free(&text);
    return seconds;
}

/* Each of these makes a careless step quadratic, which takes minutes at this length. */
static void takes_linear_time(void **state) {
    static const char *const units[] = {
        "a",         "[",
        "(",         "<",
        " ",         " '",
        "and ",      "and a ",
        "1 ",        "$1",
        "nine ",     "\xcc\x81\xcc\x96",
        "\xce\xa3'", "hundred nine ",
        "1,1",       ".",
        "$0",        "%",
        "double ",   "\xe1\x84\x80",
    };
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double seconds = time_normalizers(units[i], 300000);
        if (seconds > 20) fail_msg("\"%s\" repeated took %.1f s", units[i], seconds);
    }
}

/* The classes for which the reference relies on Python, at their corners. */
static void classifies_like_python(void **state) {
    static const uint32_t spaces[] = {9, 13, 28, 31, 32, 0x85, 0xa0, 0x1680, 0x2028, 0x3000};
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++)
        assert_true(vo_is_python_space(spaces[i]));
    assert_false(vo_is_python_space(0x200b));
    assert_false(vo_is_white_space(28));
    assert_true(vo_is_word(0xb2) && vo_is_word('_') && vo_is_word(0x4e00));
    assert_false(vo_is_word(0x301) || vo_is_word('-'));
    assert_true(vo_is_digit(0x663) && !vo_is_digit(0xb2));
    static const uint32_t zeros[] = {'0', 0x660, 0x6f0, 0x966, 0x9e6, 0x1040, 0xff10, 0x1d7ce};
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++)
        for (int d = 0; d < 10; d++) assert_int_equal(vo_digit_value(zeros[i] + (uint32_t)d), d);
    vo_buf out = {0};
    const char *text =
        "\xce\x91\xce\xa3 \xce\x91\xce\xa3\xce\x91 \xc4\xb0 \xce\xa3"; /* ΑΣ ΑΣΑ İ Σ */
    vo_append_lower(text, strlen(text), &out);
    assert_string_equal(out.data, "\xce\xb1\xcf\x82 \xce\xb1\xcf\x83\xce\xb1 i\xcc\x87 \xcf\x83");
    vo_buf_free(&out);
}

typedef struct totals {
    int texts;
    vo_error_rate sum;
} totals;

static void is_stable(void *user, const char *text) {
    char *once = vo_normalize_basic(text, true, false);
    assert_non_null(once);
    check(vo_normalize_basic(once, true, false), once, text);
    vo_free(once);
    ++*(int *)user;
}

static void sum_errors(const json_t *runs, const char *run, totals *t) {
    json_t *file;
    size_t i;
    json_array_foreach(json_object_get(runs, "files"), i, file) {
        const char *reference = json_string_value(json_object_get(file, "reference"));
        const char *text = json_string_value(json_object_get(json_object_get(file, run), "text"));
        if (!reference || !text) continue;
        vo_error_rate rate;
        vo_error err = {0};
        char *a = vo_normalize_english(reference), *b = vo_normalize_english(text);
        assert_int_equal(vo_word_errors(a, b, &rate, &err), VO_OK);
        t->sum.substitutions += rate.substitutions;
        t->sum.deletions += rate.deletions;
        t->sum.insertions += rate.insertions;
        t->sum.reference += rate.reference;
        t->texts++;
        vo_free(a);
        vo_free(b);
    }
}

/* The word error rates that the reference's normaliser gives for the recorded runs. */
static void measures_real_transcripts(void **state) {
    char path[1024];
    json_t *runs = load_json(test_data("golden/whisper_real/base.json", path));
    int n = 0;
    visit_texts(runs, is_stable, &n);
    totals t = {0};
    sum_errors(runs, "greedy", &t);
    double rate = 100.0 * (double)(t.sum.substitutions + t.sum.deletions + t.sum.insertions) /
                  (double)t.sum.reference;
    print_message("%d texts; base greedy: %d clips, WER %.2f %%\n", n, t.texts, rate);
    assert_true(t.texts >= 70);
    assert_true(rate > 11.8 && rate < 12.0);
    json_decref(runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(normalizes_as_reference), cmocka_unit_test(normalizes_random_as_reference),
        cmocka_unit_test(survives_invalid_text),   cmocka_unit_test(takes_linear_time),
        cmocka_unit_test(classifies_like_python),  cmocka_unit_test(measures_real_transcripts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
