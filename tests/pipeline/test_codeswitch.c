/* SPDX-License-Identifier: MIT
 *
 * Parts of speech and the likeliest sequence of languages, by hand; and what names of languages
 * allow.
 */
#include "pipeline/codeswitch.h"
#include "pipeline/language.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { EN = 0, ZH = 1, DE = 2, ES = 3, LEVELS = 2000 };

static float levels[LEVELS];

/* A voice of these spans; as loud everywhere. */
static vo_voice voice_of(vocis_span *spans, int n) {
    for (int i = 0; i < LEVELS; i++) levels[i] = 1;
    return (vo_voice){.levels = levels, .n = LEVELS, .spans = spans, .n_spans = n};
}

static void assert_part(vocis_span part, double start, double end) {
    if (fabs(part.start - start) > 1e-6 || fabs(part.end - end) > 1e-6)
        fail_msg("%.3f - %.3f instead of %.3f - %.3f", part.start, part.end, start, end);
}

static void test_parts(void **state) {
    vocis_span parts[VO_CODESWITCH_PARTS];
    vocis_span spans[] = {{1, 2}, {2.2, 3}, {3.8, 4}, {5.5, 5.8}, {7, 13}, {40, 41}};
    vo_voice voice = voice_of(spans, 6);
    levels[(int)(9.6 / 0.032)] = 0.1f; /* the quietest moment within 0.75 s of 10 */
    levels[(int)(9.0 / 0.032)] = 0;
    assert_int_equal(vo_codeswitch_parts(&voice, 0, 30, parts), 4);
    assert_part(parts[0], 1, 4);     /* a short pause, and a short word */
    assert_part(parts[1], 5.5, 5.8); /* stands alone */
    assert_part(parts[2], 7, 9.616);
    assert_part(parts[3], 9.616, 13);
    assert_int_equal(vo_codeswitch_parts(&voice, 12, 40.5, parts), 2);
    assert_part(parts[0], 12, 13);
    assert_part(parts[1], 40, 40.5);
    assert_int_equal(vo_codeswitch_parts(&voice, 20, 30, parts), 0);
}

/* More parts than there is room for: the last one takes the rest. */
static void test_many_parts(void **state) {
    vocis_span parts[VO_CODESWITCH_PARTS], spans[100];
    for (int i = 0; i < 100; i++) spans[i] = (vocis_span){2 * i, 2 * i + 0.5};
    vo_voice voice = voice_of(spans, 100);
    assert_int_equal(vo_codeswitch_parts(&voice, 0, 200, parts), VO_CODESWITCH_PARTS);
    assert_part(parts[0], 0, 0.5);
    assert_part(parts[VO_CODESWITCH_PARTS - 1], 2 * (VO_CODESWITCH_PARTS - 1), 198.5);
}

/* The path of parts of full weight that have the probability p of one language and share the rest.
 */
static void check_path(const vo_language_set *set, int before, int expected, const int *said,
                       const double *p, int n, const int *wanted) {
    float logprobs[VO_CODESWITCH_PARTS][VO_MAX_LANGUAGES];
    double weights[VO_CODESWITCH_PARTS];
    double initial[VO_MAX_LANGUAGES];
    int path[VO_CODESWITCH_PARTS];
    for (int l = 0; l < VO_MAX_LANGUAGES; l++)
        initial[l] = l == before || l == expected ? 0 : -vo_codeswitch_price(set);
    for (int i = 0; i < n; i++) {
        weights[i] = 1;
        for (int l = 0; l < VO_MAX_LANGUAGES; l++)
            logprobs[i][l] = (float)log(l == said[i] ? p[i] : (1 - p[i]) / (set->n - 1));
    }
    vo_codeswitch_path((const float(*)[VO_MAX_LANGUAGES])logprobs, weights, n, set, initial, path);
    for (int i = 0; i < n; i++) assert_int_equal(path[i], wanted[i]);
}

static void test_path(void **state) {
    vo_language_set three = {.n = 3};
    three.has[EN] = three.has[ZH] = three.has[ES] = true;
    /* a sure change in both directions, one that is not sure, and the language before */
    check_path(&three, EN, EN, (int[]){EN, EN, ES, ES, ES, ZH},
               (double[]){.9, .9, .99, .99, .9, .999}, 6, (int[]){EN, EN, ES, ES, ES, ZH});
    check_path(&three, EN, EN, (int[]){EN, ES, EN}, (double[]){.9, .6, .9}, 3, (int[]){EN, EN, EN});
    check_path(&three, EN, EN, (int[]){ES}, (double[]){.7}, 1, (int[]){EN});
    check_path(&three, ES, ES, (int[]){ES}, (double[]){.7}, 1, (int[]){ES});
    check_path(&three, EN, EN, (int[]){ES}, (double[]){.99}, 1, (int[]){ES});
    /* where a change was heard before, either side costs nothing */
    check_path(&three, EN, ES, (int[]){ES}, (double[]){.7}, 1, (int[]){ES});
    check_path(&three, EN, ES, (int[]){EN}, (double[]){.7}, 1, (int[]){EN});
    /* a language that is not allowed is none, however sure */
    check_path(&three, EN, EN, (int[]){DE, DE}, (double[]){.99, .99}, 2, (int[]){EN, EN});
    /* the more languages, the surer a change must be */
    vo_language_set all = {.n = 99};
    for (int i = 0; i < all.n; i++) all.has[i] = true;
    check_path(&all, EN, EN, (int[]){EN, ES, EN}, (double[]){.9, .999, .9}, 3, (int[]){EN, EN, EN});
    check_path(&all, EN, EN, (int[]){EN, ES, ES}, (double[]){.9, .999, .999}, 3,
               (int[]){EN, ES, ES});
}

static void check_set(const char *language, const char *languages, int n, const char *refusal) {
    const vo_whisper_ids many = {.multilingual = true, .n_languages = 99}, one = {0};
    vocis_transcribe_params p = vo_transcribe_default_params();
    vo_language_set set;
    vo_error err = {0};
    p.language = language;
    p.languages = languages;
    const vo_whisper_ids *ids =
        refusal && strcmp(refusal, "this model knows English only") == 0 ? &one : &many;
    if (refusal) {
        assert_int_equal(vo_language_allow(&p, ids, &set, &err), VO_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, refusal));
        return;
    }
    assert_int_equal(vo_language_allow(&p, ids, &set, &err), VO_OK);
    assert_int_equal(set.n, n);
    assert_int_equal(vo_language_only(&set), n == 1 ? ES : -1);
}

static void test_names(void **state) {
    check_set(NULL, NULL, 99, NULL);
    check_set(NULL, "all", 99, NULL);
    check_set(NULL, "auto", 99, NULL);
    check_set(NULL, "en,zh", 2, NULL);
    check_set(NULL, " Spanish , haitian creole,es,", 2, NULL);
    check_set(NULL, "es", 1, NULL);
    check_set("Spanish", NULL, 1, NULL);
    check_set("es", "es", 0, "not both");
    check_set(NULL, "", 0, "no language");
    check_set(NULL, "en,klingon", 0, "\"klingon\" is not known");
    check_set(NULL, "en,yue", 0, "\"yue\"");
    check_set(NULL, "en,de", 0, "this model knows English only");
}

static void test_restrict(void **state) {
    float p[VO_MAX_LANGUAGES] = {0.1f, 0.2f, 0.6f, 0.1f};
    vo_language_set set = {.n = 2};
    set.has[EN] = set.has[ZH] = true;
    assert_int_equal(vo_language_restrict(p, &set), ZH);
    assert_true(fabsf(p[EN] - 1.0f / 3) < 1e-6f && fabsf(p[ZH] - 2.0f / 3) < 1e-6f && p[DE] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),    cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_path),     cmocka_unit_test(test_names),
        cmocka_unit_test(test_restrict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
