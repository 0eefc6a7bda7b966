/* SPDX-License-Identifier: MIT
 *
 * Parameters and samples at and beyond the edge of sense: an answer or an error, the same
 * session afterwards, and nothing that depends on what it did before.
 */
#include "api/inside.h"

#include <math.h>
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

static int begin(void **state) {
    if (inside_begin(state) != 0) return -1;
    engine = inside_engine(2);
    model = inside_model(engine);
    session = inside_session(model, 5);
    return 0;
}

static int end(void **state) {
    vocis_session_destroy(session);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
    return inside_end(state);
}

/* Few tokens, one try. */
static vocis_transcribe_params quick(void) {
    vocis_transcribe_params params = vocis_transcribe_default_params();
    params.guard = false; /* it would take back what a random model says of noise */
    params.language = "en";
    params.max_tokens = 4;
    params.beam_size = 1;
    params.temperature_increment = 0;
    params.no_speech_threshold = NAN;
    return params;
}

static void check(vocis_transcribe_params params, const float *samples, int64_t n,
                  vocis_status wanted) {
    vocis_result *result = NULL;
    vocis_error err = {0};
    vocis_status status = vocis_transcribe(session, samples, n, params, &result, &err);
    if (status != wanted) fail_msg("%s: %s", vocis_status_name(status), err.message);
    assert_int_equal(result != NULL, wanted == VOCIS_OK);
    vocis_result_destroy(result);
}

static void test_samples(void **state) {
    const float *samples = inside_samples();
    check(quick(), samples, 0, VOCIS_OK);
    check(quick(), NULL, 0, VOCIS_OK);
    check(quick(), samples, 1, VOCIS_OK);
    check(quick(), samples, 159, VOCIS_OK);
    check(quick(), samples, 160, VOCIS_OK);
    check(quick(), NULL, 1, VOCIS_ERR_ARGUMENT);
    check(quick(), samples, -1, VOCIS_ERR_ARGUMENT);
    check(quick(), samples, INT64_MIN, VOCIS_ERR_ARGUMENT);
    int best = -1;
    float probabilities[128];
    assert_int_equal(vocis_detect_language(session, NULL, 1, NULL, &best, NULL),
                     VOCIS_ERR_ARGUMENT);
    assert_int_equal(vocis_detect_language(session, samples, -1, NULL, &best, NULL),
                     VOCIS_ERR_ARGUMENT);
    assert_int_equal(vocis_detect_language(session, NULL, 0, probabilities, &best, NULL), VOCIS_OK);
    assert_in_range(best, 0, vocis_language_count() - 1);
}

static void test_clips(void **state) {
    const double nonsense[] = {NAN, -1, INFINITY, 1e10};
    vocis_transcribe_params params = quick();
    const float *samples = inside_samples();
    for (int i = 0; i < 4; i++) {
        params.clip_timestamps = &nonsense[i];
        params.n_clip_timestamps = 1;
        check(params, samples, INSIDE_SAMPLES, VOCIS_ERR_ARGUMENT);
    }
    for (int n = -5; n <= 0; n++) {
        params.n_clip_timestamps = n;
        check(params, samples, INSIDE_SAMPLES, n < 0 ? VOCIS_ERR_ARGUMENT : VOCIS_OK);
    }
    const double backwards[] = {1.5, 0.5, 1, 1, 0, 0.25, 100, 200, 0};
    params.clip_timestamps = backwards;
    for (int n = 1; n <= 9; n++) {
        params.n_clip_timestamps = n;
        check(params, samples, INSIDE_SAMPLES, VOCIS_OK);
    }
}

static void test_numbers(void **state) {
    const float *samples = inside_samples();
    const float values[] = {NAN, INFINITY, -INFINITY, 0, -1, 1e30f, 1e-30f};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        float v = values[i];
        vocis_transcribe_params params = quick();
        params.max_initial_timestamp = v;
        check(params, samples, INSIDE_SAMPLES, VOCIS_OK);
        params = quick();
        params.compression_ratio_threshold = params.logprob_threshold = v;
        params.no_speech_threshold = v;
        params.temperature_increment = 1;
        check(params, samples, INSIDE_SAMPLES, VOCIS_OK);
        params = quick();
        params.temperature = v;
        check(params, samples, INSIDE_SAMPLES,
              v >= 0 && isfinite(v) ? VOCIS_OK : VOCIS_ERR_ARGUMENT);
        params = quick();
        params.temperature_increment = v;
        check(params, samples, INSIDE_SAMPLES, VOCIS_OK);
        params = quick();
        params.length_penalty = v;
        check(params, samples, INSIDE_SAMPLES, isinf(v) ? VOCIS_ERR_ARGUMENT : VOCIS_OK);
    }
    vocis_transcribe_params params = quick();
    params.max_tokens = -1;
    check(params, samples, INSIDE_SAMPLES, VOCIS_ERR_ARGUMENT);
    params.max_tokens = INT32_MAX;
    params.seed = UINT64_MAX;
    params.temperature = 1;
    check(params, samples, INSIDE_SAMPLES, VOCIS_OK);
    params = quick();
    params.suppress_tokens = "-1,51865";
    check(params, samples, INSIDE_SAMPLES, VOCIS_ERR_ARGUMENT);
    params.suppress_tokens = "99999999999999999999";
    check(params, samples, INSIDE_SAMPLES, VOCIS_ERR_ARGUMENT);
    params.suppress_tokens = "-1,51864";
    check(params, samples, INSIDE_SAMPLES, VOCIS_OK);
}

/* A prompt of half the context before every window, and samples that never end: the caches of all
 * rows are full when the next window begins with one row. */
static void test_caches_are_emptied(void **state) {
    enum { SECONDS = 65, WORDS = 400 };
    static float samples[SECONDS * VOCIS_SAMPLE_RATE];
    static char prompt[3 * WORDS + 1];
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        samples[i] = inside_samples()[i % INSIDE_SAMPLES];
    for (int i = 0; i < WORDS; i++) memcpy(prompt + 3 * i, " so", 3);
    vocis_transcribe_params params = vocis_transcribe_default_params();
    params.guard = false; /* it would take back what a random model says of noise */
    params.language = "en";
    params.initial_prompt = prompt;
    params.carry_initial_prompt = true;
    params.beam_size = 1;
    params.temperature_increment = 1;
    params.logprob_threshold = 1; /* never reached: each window ends with samples */
    params.no_speech_threshold = NAN;
    check(params, samples, SECONDS * VOCIS_SAMPLE_RATE, VOCIS_OK);
}

/* Timestamps that nobody asked for: text comes first, then pairs of times in any order. */
static void test_unwanted_times(void **state) {
    enum { FIRST = 1500, LAST = 50363 };
    static char listed[7 * (LAST - FIRST + 1) + 1];
    size_t used = 0;
    for (int id = FIRST; id <= LAST; id++)
        used += (size_t)snprintf(listed + used, sizeof listed - used, "%d,", id);
    vocis_transcribe_params params = quick();
    params.suppress_tokens = listed;
    params.without_timestamps = true;
    params.temperature = 1;
    params.max_tokens = 40;
    for (params.seed = 0; params.seed < 5; params.seed++) {
        vocis_result *result = NULL;
        assert_int_equal(
            vocis_transcribe(session, inside_samples(), INSIDE_SAMPLES, params, &result, NULL),
            VOCIS_OK);
        int n = vocis_result_segment_count(result);
        assert_true(n > 0);
        for (int i = 0; i < n; i++) {
            const vocis_segment *s = vocis_result_segment(result, i);
            assert_true(s->start >= 0 && s->start <= INSIDE_SECONDS);
        }
        vocis_result_destroy(result);
    }
}

/* Samples that are no numbers count as silence. */
static void test_no_numbers(void **state) {
    static float samples[2][INSIDE_SAMPLES];
    char *documents[2];
    for (int k = 0; k < 2; k++) {
        const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f};
        vocis_result *result = NULL;
        memcpy(samples[k], inside_samples(), sizeof samples[k]);
        for (int i = 0; i < 400; i++) samples[k][(i * 71) % INSIDE_SAMPLES] = k ? bad[i % 4] : 0;
        assert_int_equal(
            vocis_transcribe(session, samples[k], INSIDE_SAMPLES, quick(), &result, NULL),
            VOCIS_OK);
        assert_true(vocis_result_segment_count(result) > 0);
        size_t size;
        assert_int_equal(vocis_result_write(result, "srt", vocis_write_default_params(),
                                            &documents[k], &size, NULL),
                         VOCIS_OK);
        vocis_result_destroy(result);
    }
    assert_string_equal(documents[0], documents[1]);
    vocis_free(documents[0]);
    vocis_free(documents[1]);
}

/* What should have been made is NULL or empty, whatever was there. */
static void test_nothing_is_left(void **state) {
    char rubbish, *text = &rubbish;
    vocis_engine *e = (vocis_engine *)(void *)&rubbish;
    vocis_model *m = (vocis_model *)(void *)&rubbish;
    vocis_session *s = (vocis_session *)(void *)&rubbish;
    vocis_audio audio;
    size_t size;
    int n;
    vocis_span *spans = (vocis_span *)(void *)&rubbish;
    memset(&audio, 0x55, sizeof audio);
    vocis_engine_params ep = vocis_engine_default_params();
    ep.threads = -1;
    assert_int_not_equal(vocis_engine_create(ep, &e, NULL), VOCIS_OK);
    assert_null(e);
    vocis_model_params mp = vocis_model_default_params();
    mp.offline = true;
    assert_int_not_equal(vocis_model_open(engine, "no such model", mp, &m, NULL), VOCIS_OK);
    assert_null(m);
    assert_int_not_equal(vocis_model_find(engine, "no such model", mp, &text, NULL), VOCIS_OK);
    assert_null(text);
    text = &rubbish;
    assert_int_not_equal(vocis_model_inspect("no such file", false, &text, NULL), VOCIS_OK);
    assert_null(text);
    assert_int_not_equal(vocis_session_create(model, (vocis_session_params){0}, &s, NULL),
                         VOCIS_OK);
    assert_null(s);
    assert_int_not_equal(
        vocis_audio_load("no such file", vocis_audio_default_params(), &audio, NULL), VOCIS_OK);
    assert_null(audio.samples);
    assert_string_equal(audio.warning, "");
    text = &rubbish;
    assert_int_not_equal(
        vocis_result_write(NULL, "txt", vocis_write_default_params(), &text, &size, NULL),
        VOCIS_OK);
    assert_null(text);
    assert_int_not_equal(
        vocis_detect_speech(engine, NULL, 1, vocis_speech_default_params(), &spans, &n, NULL),
        VOCIS_OK);
    assert_null(spans);
    assert_int_equal(n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),         cmocka_unit_test(test_clips),
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_caches_are_emptied),
        cmocka_unit_test(test_unwanted_times),  cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
