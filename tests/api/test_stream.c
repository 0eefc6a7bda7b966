/* SPDX-License-Identifier: MIT
 *
 * Streams by their public verbs, on a tiny model that knows no language: what comes out depends on
 * the samples alone, what is too much is skipped and said, and every end is clean.
 */
#include "api/inside.h"

#include "base/memory.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static vocis_engine *engine;
static vocis_model *model;
static vocis_session *session;
static vocis_audio jfk; /* 11 s with pauses of half a second and more */

static int begin(void **state) {
    if (inside_begin(state) != 0) return -1;
    engine = inside_engine(2);
    model = inside_model(engine);
    session = inside_session(model, 2);
    return vocis_audio_load("tests/data/audio/jfk.wav", vocis_audio_default_params(), &jfk, NULL);
}

static int end(void **state) {
    vocis_audio_free(&jfk);
    vocis_session_destroy(session);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
    return inside_end(state);
}

static vocis_stream_params quick(bool live) {
    vocis_stream_params p = vocis_stream_default_params();
    p.transcribe.language = "en";
    p.transcribe.max_tokens = 6;
    p.transcribe.beam_size = 1;
    p.transcribe.best_of = 1;
    p.transcribe.temperature_increment = 0;
    p.transcribe.no_speech_threshold = 2; /* noise of the model counts */
    p.transcribe.compression_ratio_threshold = NAN;
    p.transcribe.condition_on_previous_text = true;
    p.live = live;
    return p;
}

static vocis_stream *open_stream(vocis_stream_params params) {
    vocis_error err = {0};
    vocis_stream *stream = NULL;
    if (vocis_stream_create(session, params, &stream, &err) != VOCIS_OK)
        fail_msg("%s", err.message);
    return stream;
}

typedef struct seen {
    vo_buf text;
    int kinds[VOCIS_EVENT_END + 1];
    double skipped, last_skip;
    int utterance;
    size_t stable; /* length shown of the utterance that goes on */
} seen;

/* Everything of a final that a program could see. */
static void note(seen *l, const vocis_event *e) {
    l->kinds[e->kind]++;
    assert_true(e->start <= e->end || e->kind == VOCIS_EVENT_END);
    assert_true(e->heard >= e->end - 0.04);
    if (e->kind == VOCIS_EVENT_SPEECH_START) {
        assert_true(e->utterance > l->utterance);
        l->utterance = e->utterance;
        l->stable = 0;
    }
    if (e->kind == VOCIS_EVENT_PARTIAL) {
        assert_true(strlen(e->stable) >= l->stable || e->utterance != l->utterance);
        assert_non_null(e->rest);
        l->stable = strlen(e->stable);
    }
    if (e->kind == VOCIS_EVENT_SKIPPED) {
        assert_true(e->start >= l->last_skip);
        l->skipped += e->end - e->start;
        l->last_skip = e->end;
    }
    if (e->kind != VOCIS_EVENT_FINAL) return;
    const vocis_segment *s = e->segment;
    vo_buf_printf(&l->text, "%d %d %.6f %.6f %lld %g %g %s %s", e->utterance, s->id, s->start,
                  s->end, (long long)s->seek, (double)s->avg_logprob, (double)s->no_speech_prob,
                  e->language, s->text);
    for (int i = 0; i < s->n_tokens; i++) vo_buf_printf(&l->text, " %d", s->tokens[i]);
    vo_buf_puts(&l->text, "\n");
}

static void take_all(vocis_stream *stream, seen *l, bool to_end) {
    vocis_error err = {0};
    vocis_event event;
    do {
        if (vocis_stream_next(stream, to_end ? 60 : 0, &event, &err) != VOCIS_OK)
            fail_msg("%s", err.message);
        if (to_end) assert_int_not_equal(event.kind, VOCIS_EVENT_NONE);
        note(l, &event);
    } while (event.kind != VOCIS_EVENT_NONE && event.kind != VOCIS_EVENT_END);
}

static void push(vocis_stream *stream, const float *samples, int64_t n) {
    vocis_error err = {0};
    if (vocis_stream_push(stream, samples, n, &err) != VOCIS_OK) fail_msg("%s", err.message);
}

/* The finals of the clip, pushed in pieces of that many samples. */
static char *finals(int64_t piece, bool live) {
    vocis_stream *stream = open_stream(quick(live));
    seen l = {0};
    for (int64_t at = 0; at < jfk.n_samples; at += piece) {
        push(stream, jfk.samples + at, jfk.n_samples - at < piece ? jfk.n_samples - at : piece);
        if (at / piece % 16 == 0) take_all(stream, &l, false);
    }
    vocis_stream_finish(stream);
    take_all(stream, &l, true);
    assert_int_equal(l.kinds[VOCIS_EVENT_END], 1);
    assert_int_equal(l.kinds[VOCIS_EVENT_SPEECH_START], l.kinds[VOCIS_EVENT_SPEECH_END]);
    assert_true(l.kinds[VOCIS_EVENT_SPEECH_START] >= 3);
    assert_true(l.kinds[VOCIS_EVENT_FINAL] >= l.kinds[VOCIS_EVENT_SPEECH_START]);
    if (!live) assert_int_equal(l.kinds[VOCIS_EVENT_PARTIAL], 0);
    vocis_event again;
    assert_int_equal(vocis_stream_next(stream, 0, &again, NULL), VOCIS_OK);
    assert_int_equal(again.kind, VOCIS_EVENT_END);
    vocis_stream_destroy(stream);
    return l.text.data;
}

static void test_finals_depend_on_samples_alone(void **state) {
    static const int64_t pieces[] = {1, 160, 511, 4000, 112000};
    char *expected = finals(jfk.n_samples, false);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char *have = finals(pieces[i], false);
        assert_string_equal(have, expected);
        vo_free(have);
    }
    char *live = finals(1000, true);
    assert_string_equal(live, expected);
    vo_free(live);
    vo_free(expected);
}

/* 20 minutes at once, while at most 35 s may wait. */
static void test_overload_is_said(void **state) {
    vocis_stream_params params = quick(true);
    params.max_backlog = 5;
    vocis_stream *stream = open_stream(params);
    seen l = {0};
    for (int i = 0; i < 110; i++) push(stream, jfk.samples, jfk.n_samples);
    vocis_stream_finish(stream);
    take_all(stream, &l, true);
    assert_true(l.kinds[VOCIS_EVENT_SKIPPED] >= 1);
    assert_true(l.skipped > 600 && l.skipped < 1210);
    assert_true(l.kinds[VOCIS_EVENT_FINAL] >= 1); /* the newest sound was heard */
    vo_buf_free(&l.text);
    vocis_stream_destroy(stream);
}

/* Nothing is skipped, and nothing grows, when push waits. Results come and go meanwhile, and the
 * means to find words are made when they are first needed: so the least of six rounds is compared
 * with that of the next six, in which 4 MB of samples come. */
static void test_a_long_stream_takes_no_more_memory(void **state) {
    vocis_stream *stream = open_stream(quick(false));
    seen l = {0};
    size_t least[4] = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (int i = 0; i < 24; i++) {
        push(stream, jfk.samples, jfk.n_samples);
        take_all(stream, &l, false);
        vo_buf_clear(&l.text);
        const size_t active = vocis_memory_get().active_bytes;
        if (active < least[i / 6]) least[i / 6] = active;
    }
    assert_true(least[3] < least[2] + (2 << 20));
    vocis_stream_finish(stream);
    take_all(stream, &l, true);
    assert_int_equal(l.kinds[VOCIS_EVENT_SKIPPED], 0);
    assert_true(l.kinds[VOCIS_EVENT_FINAL] > 50);
    vo_buf_free(&l.text);
    vocis_stream_destroy(stream);
}

static void test_what_makes_no_sense(void **state) {
    static const float sample = 0;
    vocis_stream_params params[9];
    for (int i = 0; i < 9; i++) params[i] = quick(true);
    params[0].step = NAN;
    params[1].step = -1;
    params[2].max_backlog = NAN;
    params[3].speech.threshold = 0;
    params[4].speech.speech_pad_ms = 501;
    params[5].speech.min_silence_ms = 0;
    params[6].speech.max_speech_seconds = NAN;
    params[7].transcribe.language = "klingon";
    params[8].transcribe.beam_size = 9;
    for (int i = 0; i < 9; i++) {
        vocis_error err = {0};
        vocis_stream *stream = NULL;
        assert_int_equal(vocis_stream_create(session, params[i], &stream, &err),
                         VOCIS_ERR_ARGUMENT);
        assert_null(stream);
        assert_true(err.message[0]);
    }
    vocis_stream *stream = open_stream(quick(true));
    assert_int_equal(vocis_stream_push(stream, NULL, 1, NULL), VOCIS_ERR_ARGUMENT);
    assert_int_equal(vocis_stream_push(stream, &sample, -1, NULL), VOCIS_ERR_ARGUMENT);
    push(stream, NULL, 0);
    vocis_stream_finish(stream);
    vocis_stream_finish(stream);
    assert_int_equal(vocis_stream_push(stream, &sample, 1, NULL), VOCIS_ERR_ARGUMENT);
    vocis_event event;
    assert_int_equal(vocis_stream_next(stream, 10, &event, NULL), VOCIS_OK);
    assert_int_equal(event.kind, VOCIS_EVENT_END);
    vocis_stream_destroy(stream);
    vocis_stream_destroy(NULL);
}

static void test_damaged_samples(void **state) {
    float *bad = vo_alloc_array(48000, sizeof *bad);
    for (int i = 0; i < 48000; i++) bad[i] = i % 3 ? (i % 2 ? NAN : INFINITY) : 1e30f;
    vocis_stream *stream = open_stream(quick(false));
    seen l = {0};
    push(stream, bad, 48000);
    push(stream, jfk.samples, jfk.n_samples);
    vocis_stream_finish(stream);
    take_all(stream, &l, true);
    assert_true(l.kinds[VOCIS_EVENT_FINAL] >= 3); /* the detector is not deaf for ever */
    vo_buf_free(&l.text);
    vo_free(bad);
    vocis_stream_destroy(stream);
}

static void test_destroyed_in_the_middle(void **state) {
    for (int i = 0; i < 12; i++) {
        vocis_stream *stream = open_stream(quick(i % 2));
        push(stream, jfk.samples, jfk.n_samples * i / 12);
        vocis_event event;
        assert_int_equal(vocis_stream_next(stream, 0.005 * i, &event, NULL), VOCIS_OK);
        vocis_stream_destroy(stream);
    }
}

static void *push_all(void *arg) {
    vocis_stream *stream = arg;
    for (int round = 0; round < 3; round++)
        for (int64_t at = 0; at < jfk.n_samples; at += 800)
            if (vocis_stream_push(stream, jfk.samples + at,
                                  jfk.n_samples - at < 800 ? jfk.n_samples - at : 800, NULL))
                return stream;
    vocis_stream_finish(stream);
    return NULL;
}

static void test_one_thread_pushes_and_one_takes(void **state) {
    vocis_stream *stream = open_stream(quick(false));
    seen l = {0};
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_create(&thread, NULL, push_all, stream), 0);
    take_all(stream, &l, true);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_true(l.kinds[VOCIS_EVENT_SPEECH_END] >= 9);
    vo_buf_free(&l.text);
    vocis_stream_destroy(stream);
}

/* Wherever memory ends: what fails says so, and what is there is given back. */
static void test_memory_ends(void **state) {
    int failures = 0;
    for (int64_t after = 0; after < 3000; after += after < 120 ? 1 : 290) {
        vocis_stream *stream = NULL;
        vocis_error err = {0};
        vocis_event event = {0};
        const size_t before = vocis_memory_get().active_bytes;
        vo_memory_fail_after(after, true);
        vocis_status status = vocis_stream_create(session, quick(false), &stream, &err);
        if (status == VOCIS_OK) status = vocis_stream_push(stream, jfk.samples, 100000, &err);
        if (status == VOCIS_OK) vocis_stream_finish(stream);
        while (status == VOCIS_OK && event.kind != VOCIS_EVENT_END)
            status = vocis_stream_next(stream, 10, &event, &err);
        vocis_stream_destroy(stream);
        vo_memory_fail_after(-1, false);
        if (status != VOCIS_OK) assert_int_equal(status, VOCIS_ERR_MEMORY);
        failures += status != VOCIS_OK;
        assert_int_equal(vocis_memory_get().active_bytes, before);
    }
    assert_true(failures > 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finals_depend_on_samples_alone),
        cmocka_unit_test(test_overload_is_said),
        cmocka_unit_test(test_a_long_stream_takes_no_more_memory),
        cmocka_unit_test(test_what_makes_no_sense),
        cmocka_unit_test(test_damaged_samples),
        cmocka_unit_test(test_destroyed_in_the_middle),
        cmocka_unit_test(test_one_thread_pushes_and_one_takes),
        cmocka_unit_test(test_memory_ends),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
