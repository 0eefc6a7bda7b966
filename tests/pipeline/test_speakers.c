/* SPDX-License-Identifier: MIT
 *
 * Turns meet words: who gets what, where segments are cut, and that a failure keeps the result
 * whole.
 */
#include "pipeline/diarize.h"

#include "base/memory.h"
#include "pipeline/result.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static const vocis_turn turns[] = {{0, 2, 0}, {2.2, 4, 1}, {4.2, 5, 0}, {20, 21, 2}};

static void add(vocis_result *r, double start, double end, const char *text,
                const vocis_word *words, int n) {
    const int32_t tokens[] = {1, 2};
    const float logprobs[] = {-1, -2};
    const vocis_segment s = {.start = start,
                             .end = end,
                             .text = text,
                             .tokens = tokens,
                             .token_logprobs = logprobs,
                             .n_tokens = 2,
                             .words = words,
                             .n_words = n,
                             .speaker = -1};
    assert_int_equal(vo_result_add(r, &s, NULL), VO_OK);
}

static void test_segments(void **state) {
    vocis_result *r = vo_result_create();
    add(r, 0, 1, " a", NULL, 0);
    add(r, 1.5, 3.5, " most of it is in the second turn", NULL, 0);
    add(r, 0, 5, " speaker 0 has 2.8 s of it in two turns", NULL, 0);
    add(r, 6.5, 8, " near the third turn", NULL, 0);
    add(r, 10, 11, " near nothing", NULL, 0);
    add(r, 20.5, 20.5, " no length", NULL, 0);
    assert_int_equal(vo_assign_speakers(r, turns, 4, NULL), VO_OK);
    static const int want[] = {0, 1, 0, 0, -1, 2};
    assert_int_equal(r->n_segments, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(r->segments[i].speaker, want[i]);
    assert_int_equal(r->segments[1].n_tokens, 2);
    vo_result_destroy(r);
}

static vocis_result *with_words(void) {
    static const vocis_word words[] = {{" One", 0.1, 0.5, 1, -1},
                                       {" two.", 0.6, 2.1, 1, -1},
                                       {" Three", 2.3, 3, 1, -1},
                                       {" four.", 3.1, 3.9, 1, -1},
                                       {" Five.", 4.3, 4.8, 1, -1}};
    vocis_result *r = vo_result_create();
    add(r, 0, 5, " One two. Three four. Five.", words, 5);
    add(r, 20, 21, " Six.", NULL, 0);
    assert_int_equal(vo_result_finish(r, NULL), VO_OK);
    return r;
}

static void test_words(void **state) {
    vocis_result *r = with_words();
    assert_int_equal(vo_assign_speakers(r, turns, 4, NULL), VO_OK);
    static const struct {
        const char *text;
        double start, end;
        int speaker, words;
    } want[] = {{" One two.", 0, 2.1, 0, 2},
                {" Three four.", 2.3, 3.9, 1, 2},
                {" Five.", 4.3, 5, 0, 1},
                {" Six.", 20, 21, 2, 0}};
    assert_int_equal(r->n_segments, 4);
    for (int i = 0; i < 4; i++) {
        const vocis_segment *s = &r->segments[i];
        assert_int_equal(s->id, i);
        assert_string_equal(s->text, want[i].text);
        assert_true(fabs(s->start - want[i].start) < 1e-9 && fabs(s->end - want[i].end) < 1e-9);
        assert_int_equal(s->speaker, want[i].speaker);
        assert_int_equal(s->n_words, want[i].words);
        for (int k = 0; k < s->n_words; k++) assert_int_equal(s->words[k].speaker, want[i].speaker);
    }
    assert_int_equal(r->segments[0].n_tokens, 0);
    assert_int_equal(r->segments[3].n_tokens, 2);
    assert_string_equal(r->text, "One two. Three four. Five. Six.");
    vo_result_destroy(r);
}

/* With one speaker nothing is cut, and tokens stay. */
static void test_one_speaker(void **state) {
    const vocis_turn one = {0, 30, 3};
    vocis_result *r = with_words();
    assert_int_equal(vo_assign_speakers(r, &one, 1, NULL), VO_OK);
    assert_int_equal(r->n_segments, 2);
    assert_int_equal(r->segments[0].speaker, 3);
    assert_int_equal(r->segments[0].words[4].speaker, 3);
    assert_int_equal(r->segments[0].n_tokens, 2);
    vo_result_destroy(r);
}

static void test_nonsense(void **state) {
    static const vocis_turn bad[] = {{0, 1, -1}, {0, NAN, 0}, {-INFINITY, 1, 0}, {0, 1, 1 << 30}};
    vocis_result *r = with_words();
    for (int i = 0; i < 4; i++)
        assert_int_equal(vo_assign_speakers(r, &bad[i], 1, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_assign_speakers(r, NULL, 1, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_assign_speakers(r, NULL, 0, NULL), VO_OK);
    assert_int_equal(r->segments[1].speaker, -1);
    vo_result_destroy(r);
}

static void test_no_memory(void **state) {
    int failures = 0;
    for (int after = 0;; after++) {
        vo_error err = {0};
        vocis_result *r = with_words();
        vo_memory_fail_after(after, false);
        const vo_status status = vo_assign_speakers(r, turns, 4, &err);
        const bool failed = vo_memory_fail_after(-1, false);
        assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
        assert_string_equal(r->text, "One two. Three four. Five. Six.");
        assert_true(r->n_segments == 2 || r->n_segments == 4);
        vo_result_destroy(r);
        if (!failed) break;
        failures++;
    }
    assert_true(failures > 5);
    assert_int_equal(vo_memory_get_stats().active_bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),    cmocka_unit_test(test_words),
        cmocka_unit_test(test_one_speaker), cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
