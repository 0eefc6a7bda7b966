/* SPDX-License-Identifier: MIT
 *
 * Holes are speech without text, and the account is a partition of the input: on examples, and on
 * random speech and text against a count in steps of 10 ms.
 */
#include "pipeline/coverage.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static vo_voice listen(vocis_span *spans, int n) {
    return (vo_voice){.spans = spans, .n_spans = n};
}

static vocis_segment segment(double start, double end) {
    return (vocis_segment){.start = start, .end = end, .text = " x"};
}

static void expect_holes(const vo_voice *voice, const vocis_segment *segments, int n, double from,
                         double to, const vocis_span *want, int n_want) {
    vocis_span *holes = NULL;
    int n_holes = -1;
    vo_error err = {0};
    assert_int_equal(vo_holes_find(voice, segments, n, from, to, &holes, &n_holes, &err), VO_OK);
    assert_int_equal(n_holes, n_want);
    for (int i = 0; i < n_want; i++) {
        assert_true(fabs(holes[i].start - want[i].start) < 1e-9);
        assert_true(fabs(holes[i].end - want[i].end) < 1e-9);
    }
    vo_free(holes);
}

static void test_holes(void **state) {
    vocis_span speech[] = {{1, 5}, {10, 20}, {21, 22}, {40, 40.2}, {50, 80}};
    const vo_voice voice = listen(speech, 5);
    const vocis_segment text[] = {segment(12, 14), segment(0.9, 4.9)}; /* in any order */
    /* 0.1 s beside text and a click of 0.2 s are no holes; those 1 s apart are one, but not across
     * text. */
    expect_holes(&voice, text, 2, 0, 45, (const vocis_span[]){{10, 11.7}, {14.3, 22}}, 2);
    /* Only what lies between the two times; joined ones must fit a window. */
    expect_holes(&voice, NULL, 0, 15, 60, (const vocis_span[]){{15, 22}, {50, 60}}, 2);
    expect_holes(&voice, NULL, 0, 22, 39, NULL, 0);
}

/* A voice may be in loud sound, if it is more than a bang. */
static void test_sounds(void **state) {
    vocis_span speech[] = {{1, 5}}, sounds[] = {{10, 14}, {20, 22}, {30, 36}};
    vo_voice voice = listen(speech, 1);
    const vocis_segment text[] = {segment(1, 5), segment(33, 35)};
    voice.sounds = sounds;
    voice.n_sounds = 3;
    expect_holes(&voice, text, 2, 0, 60, (const vocis_span[]){{10, 14}, {30, 32.7}}, 2);
    expect_holes(&voice, text, 2, 12, 60, (const vocis_span[]){{30, 32.7}}, 1);
}

static void test_long_pauses_between_words(void **state) {
    vocis_span speech[] = {{0, 10}};
    const vo_voice voice = listen(speech, 1);
    const vocis_word words[] = {{" a", 0, 1, 1, -1}, {" b", 1.9, 3, 1, -1}, {" c", 8, 10, 1, -1}};
    vocis_segment s = segment(0, 10);
    expect_holes(&voice, &s, 1, 0, 10, NULL, 0);
    s.words = words;
    s.n_words = 3;
    expect_holes(&voice, &s, 1, 0, 10, (const vocis_span[]){{3.3, 7.7}}, 1);
}

/* ---- the account ------------------------------------------------------------------------------
 */

static void check_partition(const vocis_result *r) {
    double at = 0;
    for (int i = 0; i < r->n_account; i++) {
        assert_true(r->account[i].start == at && r->account[i].end > at);
        assert_true(i == 0 || r->account[i].cover != r->account[i - 1].cover);
        at = r->account[i].end;
    }
    assert_true(at == r->duration);
}

static vocis_cover cover_at(const vocis_result *r, double t) {
    for (int i = 0; i < r->n_account; i++)
        if (t < r->account[i].end) return r->account[i].cover;
    fail_msg("nothing at %g", t);
    return VOCIS_COVER_UNKNOWN;
}

static vocis_result *result_of(const vocis_segment *segments, int n, double duration) {
    vocis_result *r = vo_result_create();
    assert_non_null(r);
    for (int i = 0; i < n; i++) assert_int_equal(vo_result_add(r, &segments[i], NULL), VO_OK);
    r->duration = duration;
    return r;
}

static void test_account(void **state) {
    vocis_span speech[] = {{1, 5}, {10, 14}, {30, 34}, {50, 55}};
    float probabilities[1875] = {0}, levels[1875] = {0}; /* 60 s */
    levels[20 * 1000 / 32] = 0.1f;                       /* something at 20 s */
    const vo_voice voice = {.probabilities = probabilities,
                            .levels = levels,
                            .n = 1875,
                            .n_samples = 60 * 16000,
                            .spans = speech,
                            .n_spans = 4};
    const vocis_segment text[] = {segment(1, 5), segment(31, 34)};
    vocis_result *r = result_of(text, 2, 60);
    const vocis_span asked[] = {{0, 40}, {45, 100}};
    assert_int_equal(vo_account(r, &voice, asked, 2, 52, NULL), VO_OK);
    check_partition(r);
    assert_int_equal(cover_at(r, 3), VOCIS_COVER_TEXT);
    assert_int_equal(cover_at(r, 5.2), VOCIS_COVER_TEXT); /* just beside */
    assert_int_equal(cover_at(r, 8), VOCIS_COVER_QUIET);
    assert_int_equal(cover_at(r, 12), VOCIS_COVER_LOST);
    assert_int_equal(cover_at(r, 20), VOCIS_COVER_SOUND);
    assert_int_equal(cover_at(r, 30.5), VOCIS_COVER_LOST); /* 0.7 s before the text */
    assert_int_equal(cover_at(r, 42), VOCIS_COVER_SKIPPED);
    assert_int_equal(cover_at(r, 51), VOCIS_COVER_LOST);
    assert_int_equal(cover_at(r, 53), VOCIS_COVER_SKIPPED); /* not reached */
    assert_true(r->coverage.known);
    assert_true(fabs(r->coverage.speech - 17) < 1e-9);
    assert_true(fabs(r->coverage.lost - (4 + 0.7 + 2)) < 1e-9);
    assert_true(fabs(r->coverage.skipped - 3) < 1e-9);
    assert_true(fabs(r->coverage.ratio - (17 - 9.7) / 17) < 1e-9);
    vo_result_destroy(r);
}

static void test_nobody_was_asked(void **state) {
    const vocis_segment text = segment(2, 3);
    vocis_result *r = result_of(&text, 1, 5);
    assert_int_equal(vo_account(r, NULL, (const vocis_span[]){{0, INFINITY}}, 1, 5, NULL), VO_OK);
    check_partition(r);
    assert_int_equal(cover_at(r, 1), VOCIS_COVER_UNKNOWN);
    assert_int_equal(cover_at(r, 2.5), VOCIS_COVER_TEXT);
    assert_false(r->coverage.known);
    assert_true(r->coverage.ratio == 1);
    vo_result_destroy(r);
}

/* Lost speech is what a count finds in steps of 10 ms, but for stretches that are too short. */
static void test_random(void **state) {
    enum { STEPS = 20000, MOST = 60 };
    srand(3);
    for (int round = 0; round < 200; round++) {
        vocis_span speech[MOST];
        vocis_segment text[MOST];
        static char heard[STEPS], said[STEPS];
        memset(heard, 0, sizeof heard);
        memset(said, 0, sizeof said);
        int n = 0, m = 0, at = 0;
        while (n < MOST && (at += 20 + rand() % 500) < STEPS - 1000) {
            const int end = at + 40 + rand() % 900;
            speech[n++] = (vocis_span){at / 100.0, end / 100.0};
            memset(heard + at, 1, (size_t)(end - at));
            at = end;
        }
        while (m < n / 2) {
            const int start = rand() % (STEPS - 1000), end = start + 1 + rand() % 900;
            text[m++] = segment(start / 100.0, end / 100.0);
            const int from = start > 30 ? start - 30 : 0;
            memset(said + from, 1, (size_t)(end + 30 - from));
        }
        float probabilities[STEPS / 3] = {0}, levels[STEPS / 3] = {0};
        const vo_voice voice = {.probabilities = probabilities,
                                .levels = levels,
                                .n = STEPS / 3,
                                .n_samples = STEPS * 160,
                                .spans = speech,
                                .n_spans = n};
        vocis_result *r = result_of(text, m, STEPS / 100.0);
        assert_int_equal(
            vo_account(r, &voice, (const vocis_span[]){{0, INFINITY}}, 1, INFINITY, NULL), VO_OK);
        check_partition(r);
        for (int i = 0, run = 0; i < STEPS; i++) {
            run = heard[i] && !said[i] ? run + 1 : 0;
            const vocis_cover c = cover_at(r, i / 100.0 + 0.005);
            assert_int_equal(c == VOCIS_COVER_TEXT, said[i]);
            if (run > 36) assert_int_equal(c, VOCIS_COVER_LOST);
            if (c == VOCIS_COVER_LOST) assert_true(heard[i] && !said[i]);
        }
        vo_result_destroy(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_sounds),
        cmocka_unit_test(test_long_pauses_between_words),
        cmocka_unit_test(test_account),
        cmocka_unit_test(test_nobody_was_asked),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
