/* SPDX-License-Identifier: MIT
 *
 * Listening without a model: probabilities by script, positions by hand; and text that firms up.
 */
#include "base/harness.h"
#include "base/memory.h"
#include "pipeline/agree.h"
#include "pipeline/listen.h"

#include <string.h>

enum { W = VO_LISTEN_WINDOW, MAX_FOUND = 2000 };

/* Pauses of 8 windows end an utterance, 3 of which belong to it; 4 windows are speech. */
static vo_listen_rules rules(void) {
    return (vo_listen_rules){.threshold = 0.5,
                             .neg_threshold = 0.35,
                             .min_speech = 4 * W,
                             .min_silence = 8 * W,
                             .pad = 3 * W,
                             .max_length = 200 * W,
                             .step = 10 * W,
                             .ahead = true};
}

typedef struct listener {
    vo_listen listen;
    vo_utterance found[MAX_FOUND];
    int n, began[MAX_FOUND], n_began;
} listener;

/* Takes finals as they come and leaves other jobs alone. */
static void take_finals(listener *l) {
    for (vo_job job; (job = vo_listen_next(&l->listen)).kind == VO_JOB_FINAL;) {
        assert_true(l->n < MAX_FOUND);
        l->found[l->n++] = job.utterance;
        vo_listen_done(&l->listen, &job);
    }
}

static void hear(listener *l, double p, int windows) {
    vo_error err = {0};
    for (int i = 0; i < windows; i++) {
        int began;
        assert_int_equal(vo_listen_hear(&l->listen, p, &began, &err), VO_OK);
        if (began) l->began[l->n_began++] = began;
        take_finals(l);
    }
}

static void end(listener *l) {
    vo_error err = {0};
    assert_int_equal(vo_listen_end(&l->listen, l->listen.heard, &err), VO_OK);
    take_finals(l);
}

static listener *begin(vo_listen_rules r) {
    listener *l = vo_alloc(sizeof *l);
    assert_non_null(l);
    l->listen.rules = r;
    return l;
}

static void destroy(listener *l) {
    vo_listen_free(&l->listen);
    vo_free(l);
}

static void expect(const vo_utterance *u, int id, int64_t start, int64_t stop, int64_t quiet) {
    assert_int_equal(u->id, id);
    assert_int_equal(u->start, start);
    assert_int_equal(u->end, stop);
    assert_int_equal(u->quiet, quiet);
}

static void test_a_pause_ends_an_utterance(void **state) {
    listener *l = begin(rules());
    hear(l, 0.1, 40);
    hear(l, 0.9, 20);
    hear(l, 0.1, 7);
    assert_int_equal(l->n, 0); /* the pause could still be over */
    hear(l, 0.1, 1);
    assert_int_equal(l->n, 1);
    /* 400 ms before it belong to speech, which is 12.5 windows. */
    expect(&l->found[0], 1, 40 * W - 6400, 63 * W, 3 * W);
    hear(l, 0.9, 10);
    end(l);
    assert_int_equal(l->n, 2);
    /* It does not begin within the one before. */
    expect(&l->found[1], 2, 63 * W, 78 * W, 0);
    assert_int_equal(l->n_began, 2);
    destroy(l);
}

static void test_short_pauses_do_not(void **state) {
    listener *l = begin(rules());
    hear(l, 0.9, 10);
    hear(l, 0.1, 6);
    hear(l, 0.4, 1); /* between the thresholds the pause goes on */
    hear(l, 0.9, 10);
    hear(l, 0.4, 30); /* and does not begin */
    assert_int_equal(l->n, 0);
    hear(l, 0.1, 8);
    assert_int_equal(l->n, 1);
    expect(&l->found[0], 1, 0, 60 * W, 3 * W);
    destroy(l);
}

static void test_noise_is_no_utterance(void **state) {
    listener *l = begin(rules());
    hear(l, 0.1, 20);
    hear(l, 0.9, 3);
    hear(l, 0.1, 20);
    assert_int_equal(l->n, 0);
    assert_int_equal(l->n_began, 0);
    hear(l, 0.9, 4);
    hear(l, 0.1, 20);
    assert_int_equal(l->n, 1);
    assert_int_equal(l->found[0].id, 1);
    destroy(l);
}

static void test_long_speech_is_cut_in_its_longest_late_pause(void **state) {
    listener *l = begin(rules());
    hear(l, 0.9, 20); /* windows 0 to 20 */
    hear(l, 0.1, 7);  /* the longest, but early */
    hear(l, 0.9, 100);
    hear(l, 0.1, 6); /* 127 to 133: the longest of the later half */
    hear(l, 0.9, 20);
    hear(l, 0.1, 4); /* 153 to 157 */
    hear(l, 0.9, 60);
    assert_int_equal(l->n, 1);
    expect(&l->found[0], 1, 0, 130 * W, 3 * W);
    assert_int_equal(l->listen.start, 133 * W - 3 * W);
    assert_int_equal(l->listen.n_pauses, 1); /* 153 to 157 may be where it is cut next */
    hear(l, 0.9, 120);
    assert_int_equal(l->n, 2);
    expect(&l->found[1], 2, 130 * W, 155 * W, 2 * W);
    destroy(l);
}

static void test_speech_without_pauses_is_cut_anywhere(void **state) {
    listener *l = begin(rules());
    hear(l, 0.9, 1000);
    end(l);
    assert_true(l->n >= 5);
    for (int i = 0; i < l->n; i++) {
        assert_true(l->found[i].end - l->found[i].start <= 200 * W);
        assert_int_equal(l->found[i].start, i ? l->found[i - 1].end : 0);
    }
    assert_int_equal(l->found[l->n - 1].end, 1000 * W);
    destroy(l);
}

/* What is decoded of an utterance never overlaps, is never too long, and holds all windows of
 * certain speech but short noise; and looking ahead changes nothing. */
static void test_random_speech(void **state) {
    uint64_t seed = 1;
    for (int round = 0; round < 200; round++) {
        listener *a = begin(rules()), *b = begin(rules());
        b->listen.rules.ahead = false;
        b->listen.rules.step = 0;
        char *speech = vo_alloc(3000);
        int at = 0;
        while (at < 2900) {
            const int n = (int)(next_random(&seed) % (round % 2 ? 40 : 14)) + 1;
            const double p = (double)(next_random(&seed) % 100) / 100;
            hear(a, p, n);
            hear(b, p, n);
            memset(speech + at, p >= 0.5, (size_t)n);
            at += n;
            const vo_job job = vo_listen_next(&a->listen);
            if (next_random(&seed) % 2) vo_listen_done(&a->listen, &job);
            assert_true(vo_listen_needs(&a->listen) <= a->listen.heard);
            assert_true(a->listen.heard - vo_listen_needs(&a->listen) <= 200 * W + 6400);
        }
        end(a);
        end(b);
        assert_int_equal(a->n, b->n);
        for (int i = 0; i < a->n; i++) {
            const vo_utterance *u = &a->found[i];
            expect(&b->found[i], i + 1, u->start, u->end, u->quiet);
            assert_int_equal(u->id, i + 1);
            assert_true(u->start < u->end && u->end - u->start <= 200 * W);
            assert_true(i == 0 || u->start >= u[-1].end);
            for (int64_t w = u->start / W; w < u->end / W; w++) speech[w] = 0;
        }
        for (int i = 0, run = 0; i < at; i++) {
            run = speech[i] ? run + 1 : 0;
            assert_true(run < 5);
        }
        vo_free(speech);
        destroy(a);
        destroy(b);
    }
}

static void test_jobs_by_urgency(void **state) {
    vo_error err = {0};
    int began;
    listener *l = begin(rules());
    hear(l, 0.9, 9);
    assert_int_equal(vo_listen_next(&l->listen).kind, VO_JOB_NONE);
    hear(l, 0.9, 1);
    vo_job partial = vo_listen_next(&l->listen);
    assert_int_equal(partial.kind, VO_JOB_PARTIAL);
    expect(&partial.utterance, 1, 0, 10 * W, 0);
    vo_listen_done(&l->listen, &partial);
    assert_int_equal(vo_listen_next(&l->listen).kind, VO_JOB_NONE);
    hear(l, 0.9, 10);
    partial = vo_listen_next(&l->listen);
    assert_int_equal(partial.kind, VO_JOB_PARTIAL);
    hear(l, 0.1, 2);
    assert_int_equal(vo_listen_next(&l->listen).kind, VO_JOB_NONE); /* no text of a pause */
    assert_false(vo_listen_is_stale(&l->listen, &partial));
    hear(l, 0.1, 1);
    vo_job ahead = vo_listen_next(&l->listen);
    assert_int_equal(ahead.kind, VO_JOB_AHEAD);
    expect(&ahead.utterance, 1, 0, 23 * W, 3 * W);
    assert_true(vo_listen_is_stale(&l->listen, &partial));
    hear(l, 0.9, 1); /* speech goes on */
    assert_true(vo_listen_is_stale(&l->listen, &ahead));
    hear(l, 0.1, 3);
    ahead = vo_listen_next(&l->listen);
    expect(&ahead.utterance, 1, 0, 27 * W, 3 * W);
    vo_listen_done(&l->listen, &ahead);
    assert_int_equal(vo_listen_next(&l->listen).kind, VO_JOB_NONE); /* once a pause */
    for (int i = 0; i < 5; i++)
        assert_int_equal(vo_listen_hear(&l->listen, 0.1, &began, &err), VO_OK);
    const vo_job final = vo_listen_next(&l->listen);
    assert_int_equal(final.kind, VO_JOB_FINAL);
    const vo_utterance *u = &ahead.utterance;
    expect(&final.utterance, u->id, u->start, u->end, u->quiet);
    assert_false(vo_listen_is_stale(&l->listen, &ahead)); /* it became just this */
    destroy(l);
}

static void test_skipping(void **state) {
    vo_error err = {0};
    int began;
    listener *l = begin(rules());
    for (int i = 0; i < 100; i++) { /* an utterance of 10 windows every 20; nobody decodes */
        const double p = i % 20 < 10 ? 0.9 : 0.1;
        assert_int_equal(vo_listen_hear(&l->listen, p, &began, &err), VO_OK);
    }
    assert_int_equal(l->listen.n_closed, 5);
    const int64_t third = l->listen.closed[2].start;
    vo_listen_skip(&l->listen, vo_listen_needs(&l->listen));
    assert_int_equal(l->listen.n_closed, 5);
    vo_listen_skip(&l->listen, third);
    assert_int_equal(l->listen.n_closed, 3);
    assert_int_equal(vo_listen_needs(&l->listen), third);
    hear(l, 0.9, 10);
    vo_listen_skip(&l->listen, 500 * W);
    assert_int_equal(vo_listen_next(&l->listen).kind, VO_JOB_NONE);
    assert_int_equal(l->listen.heard, 500 * W);
    hear(l, 0.9, 10);
    end(l);
    assert_int_equal(l->found[l->n - 1].start, 500 * W);
    destroy(l);
}

/* ---- agreement ----------------------------------------------------------------------------- */

static void agree(vo_agreement *a, const char *continuation, const char *stable, const char *rest) {
    vo_error err = {0};
    assert_int_equal(vo_agree(a, continuation, &err), VO_OK);
    assert_string_equal(a->stable, stable);
    assert_string_equal(a->rest, rest);
}

static void test_two_hypotheses_agree(void **state) {
    vo_agreement a = {0};
    agree(&a, " And so", "", " And so");
    agree(&a, " And so my fellow", " And so", " my fellow");
    agree(&a, " my friend", " And so my", " friend");
    agree(&a, " fellow Americans", " And so my", " fellow Americans");
    agree(&a, " fellow American", " And so my fellow", " American");
    agree(&a, "", " And so my fellow", "");
    agree(&a, " Americans.", " And so my fellow", " Americans.");
    agree(&a, " Americans.", " And so my fellow Americans.", "");
    vo_agreement_clear(&a);
    assert_null(a.stable);
}

static void test_scripts_without_blanks(void **state) {
    vo_agreement a = {0};
    agree(&a, "今天天汽", "", "今天天汽");
    agree(&a, "今天天气很好", "今天天", "气很好");
    agree(&a, "气很好 ok", "今天天气很好", " ok");
    vo_agreement_clear(&a);
    agree(&a, "\xff\xe4\xbd", "", "\xff\xe4\xbd"); /* text of a model can be broken */
    agree(&a, "\xff\xe4\xbd x", "\xff\xe4\xbd", " x");
    vo_agreement_clear(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pause_ends_an_utterance),
        cmocka_unit_test(test_short_pauses_do_not),
        cmocka_unit_test(test_noise_is_no_utterance),
        cmocka_unit_test(test_long_speech_is_cut_in_its_longest_late_pause),
        cmocka_unit_test(test_speech_without_pauses_is_cut_anywhere),
        cmocka_unit_test(test_random_speech),
        cmocka_unit_test(test_jobs_by_urgency),
        cmocka_unit_test(test_skipping),
        cmocka_unit_test(test_two_hypotheses_agree),
        cmocka_unit_test(test_scripts_without_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
