/* SPDX-License-Identifier: MIT
 *
 * Phrases as a caller may give them, with Whisper's own vocabulary: what is refused, what is left
 * out, and which tokens a phrase becomes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "pipeline/boost.h"

static vo_tokenizer *tokenizer;

static int begin(void **state) {
    return vo_tokenizer_create(51865, &tokenizer, NULL) == VO_OK ? 0 : -1;
}

static int end(void **state) {
    vo_tokenizer_destroy(tokenizer);
    return 0;
}

static vo_boost *make(const char *phrase, float weight, int n) {
    static vocis_boost list[1000];
    vo_boost *boost = NULL;
    vo_error err = {0};
    for (int i = 0; i < n; i++) list[i] = (vocis_boost){phrase, weight};
    if (vo_boost_phrases(tokenizer, list, n, &boost, &err) != VO_OK) fail_msg("%s", err.message);
    return boost;
}

/* How far below the best token `text` may lie as the beginning of a phrase; -1: it begins none. */
static float budget_of(const vo_boost *boost, const char *text) {
    static float logits[51865];
    int32_t *ids;
    int n;
    if (!boost) return -1;
    assert_int_equal(vo_tokenizer_encode(tokenizer, text, strlen(text), &ids, &n, NULL), VO_OK);
    for (int i = 0; i < 51865; i++) logits[i] = -1000;
    logits[ids[0]] = 0;
    const vo_boost_state state = {0};
    vo_boost_option option;
    n = vo_boost_options(boost, &state, logits, 0, 0, NULL, 0, &option, 1);
    if (n) assert_int_equal(option.token, ids[0]);
    vo_free(ids);
    return n ? option.slack : -1;
}

static void expect(const char *phrase, const char *text, float budget) {
    vo_boost *boost = make(phrase, 1, 1);
    const float found = budget_of(boost, text);
    if (!(fabsf(found - budget) < 1e-3f))
        fail_msg("\"%s\" at \"%s\": %g", phrase, text, (double)found);
    vo_boost_destroy(boost);
}

static void test_spellings(void **state) {
    expect("Chaka", " Chaka", 4);
    expect("Chaka", "Chaka", 4);
    expect("Chaka", " chaka", -1);
    expect("chaka", " Chaka", 4);
    expect("  Chaka\t\n Zulu ", " Chaka Zulu", 4);
    expect("felony", " felony", 2); /* one token */
    expect("\xe6\x9d\xb1\xe4\xba\xac\xe9\x83\xbd", "\xe6\x9d\xb1\xe4\xba\xac\xe9\x83\xbd", 4);
    expect("\xd0\xa7\xd0\xb0\xd0\xba\xd0\xb0", " \xd0\xa7\xd0\xb0\xd0\xba\xd0\xb0", 4);
}

static void test_what_is_left_out(void **state) {
    const char *nothing[] = {"",       " \t ",  "...",      ",,,,,", "\xe2\x99\xaa", "the",
                             "of the", "then,", "of, the.", "The",   "and"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        vo_boost *boost = make(nothing[i], 1, 1);
        assert_null(boost);
        vo_boost_destroy(boost);
    }
    assert_null(make("Chaka", 0, 1));
    assert_null(make(NULL, 0, 0));
}

static void test_long_lists_and_weights(void **state) {
    vo_boost *boost = make("Chaka", 1, 1000);
    const float many = budget_of(boost, " Chaka");
    vo_boost_destroy(boost);
    assert_true(fabs((double)many - (4 - 0.5 * log(10))) < 1e-3);
    boost = make("Chaka", 2, 100);
    assert_true(fabsf(budget_of(boost, " Chaka") - 8) < 1e-3f);
    vo_boost_destroy(boost);
}

static void test_what_is_refused(void **state) {
    char text[VOCIS_MAX_BOOST_BYTES + 2];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '\0';
    const vocis_boost bad[] = {{NULL, 1},           {text, 1},     {"\xff", 1},    {"a\xc3", 1},
                               {"\xed\xa0\x80", 1}, {"Chaka", -1}, {"Chaka", NAN}, {"Chaka", 4.1f}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        vo_boost *boost = NULL;
        vo_error err = {0};
        const vocis_boost list[] = {{"fine", 1}, bad[i]};
        assert_int_equal(vo_boost_phrases(tokenizer, list, 2, &boost, &err), VO_ERR_ARGUMENT);
        assert_null(boost);
        assert_non_null(strstr(err.message, "phrase 2"));
    }
    vo_boost *boost = NULL;
    const vocis_boost one = {"fine", 1};
    assert_int_equal(vo_boost_phrases(tokenizer, &one, -1, &boost, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_boost_phrases(tokenizer, NULL, 1, &boost, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_boost_phrases(tokenizer, &one, VOCIS_MAX_BOOST + 1, &boost, NULL),
                     VO_ERR_ARGUMENT);
    text[VOCIS_MAX_BOOST_BYTES] = '\0';
    boost = make(text, 1, 1);
    assert_non_null(boost);
    vo_boost_destroy(boost);
}

static void test_memory_may_be_short(void **state) {
    const vocis_boost list[] = {{"Chaka Zulu", 1}, {"faltered", 1}};
    const size_t before = vo_memory_get_stats().active_bytes;
    vo_status status = VO_ERR_MEMORY;
    int failures = 0;
    for (; status != VO_OK; failures++) {
        vo_boost *boost = NULL;
        vo_memory_fail_after(failures, false);
        status = vo_boost_phrases(tokenizer, list, 2, &boost, NULL);
        vo_memory_fail_after(-1, false);
        assert_true(status == VO_OK || (status == VO_ERR_MEMORY && !boost));
        vo_boost_destroy(boost);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
    }
    assert_true(failures > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_what_is_left_out),
        cmocka_unit_test(test_long_lists_and_weights),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_memory_may_be_short),
    };
    return cmocka_run_group_tests_name("boost", tests, begin, end);
}
