/* SPDX-License-Identifier: MIT
 *
 * When text disagrees with the script of its language, and which tokens are banned then.
 */
#include "pipeline/rescript.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static bool disagrees(const char *text, const char *language) {
    return vo_rescript_disagrees(text, strlen(text), vo_language_find(language));
}

static void test_disagreement(void **state) {
    assert_true(disagrees("The National Defenseyer,華帝!", "zh"));
    assert_true(disagrees("ご視聴ありがとうございました", "en"));
    assert_true(disagrees("Спасибо за просмотр", "de"));
    assert_false(disagrees("OK, 好的", "zh"));
    assert_false(disagrees("iPhone", "ja")); /* few letters */
    assert_false(disagrees("1996, 1997, 1998...", "ru"));
    assert_false(disagrees("我们用 Python 写程序，也用 C 写程序，都很好", "zh"));
    assert_false(disagrees("Dobar dan svima", "sr"));
    assert_false(disagrees("", "ru"));
}

/* Whether a text can still be written. */
static bool writable(const vo_rescript *r, const vo_tokenizer *tokenizer, const char *text) {
    vo_error err = {0};
    int32_t *ids;
    int n;
    bool banned = false;
    assert_int_equal(vo_tokenizer_encode(tokenizer, text, strlen(text), &ids, &n, &err), VO_OK);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < r->filter.n_ids; j++) banned |= ids[i] == r->filter.ids[j];
    vo_free(ids);
    return !banned;
}

static void test_banned(void **state) {
    vo_error err = {0};
    vo_tokenizer *tokenizer;
    vo_rescript r = {0};
    assert_int_equal(vo_tokenizer_create(51865, &tokenizer, &err), VO_OK);
    const int zh = vo_language_find("zh"), en = vo_language_find("en");
    assert_int_equal(vo_rescript_force(&r, tokenizer, zh, "text", &err), VO_OK);
    assert_int_equal(r.state, VO_SCRIPT_FORCED);
    assert_string_equal(r.before, "text");
    assert_true(writable(&r, tokenizer, "廣州市，佛地產 1996！"));
    assert_false(writable(&r, tokenizer, " text"));
    assert_false(writable(&r, tokenizer, "ありがとう"));
    assert_int_equal(vo_rescript_force(&r, tokenizer, en, "again", &err), VO_OK);
    assert_string_equal(r.before, "again");
    assert_true(writable(&r, tokenizer, " Text, 1996: naïve!"));
    assert_false(writable(&r, tokenizer, "спасибо"));
    for (int i = 0; i < r.filter.n_ids; i++)
        assert_true(r.filter.ids[i] < vo_tokenizer_ids(tokenizer)->eot);
    vo_rescript_reset(&r);
    assert_int_equal(r.state, VO_SCRIPT_FREE);
    assert_null(r.before);
    vo_rescript_free(&r);
    vo_tokenizer_destroy(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_disagreement),
                                       cmocka_unit_test(test_banned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
