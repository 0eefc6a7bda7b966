/* SPDX-License-Identifier: MIT
 *
 * Every allocation of every call fails once, alone and together with all that follow: the call
 * says VOCIS_ERR_MEMORY, gives nothing back and keeps nothing.
 */
#include "api/inside.h"

#include "base/file.h"
#include "base/memory.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static vocis_engine *engine;
static vocis_model *model;
static vocis_session *session;
static vocis_result *result;
static int times_after;   /* which allocation fails in make_times */
static bool times_failed; /* whether it was asked for */

/* jansson asks the same counter while it makes documents. While it reads them it would give wrong
 * ones: its lexer drops characters for which it finds no memory. */
static bool json_may_fail;

static void *json_memory(size_t bytes) {
    void *asked = json_may_fail ? vo_alloc_uninitialized(1) : NULL;
    if (json_may_fail && !asked) return NULL;
    vo_free(asked);
    return malloc(bytes);
}

/* One call that makes something, and how to give that back. */
typedef struct trial {
    const char *name;
    vocis_status (*make)(void **made, vocis_error *err);
    void (*destroy)(void *made);
    enum { NOTHING, TEXT, PARTS } gives;
    bool slow; /* meets either kind of failure in turn, not both at each allocation */
} trial;

/* What a call makes when nothing fails, and how many failures it got over. */
typedef struct outcome {
    char *text;
    int failures, got_over;
} outcome;

static vocis_status make_engine(void **made, vocis_error *err) {
    vocis_engine_params params = vocis_engine_default_params();
    params.threads = 2;
    return vocis_engine_create(params, (vocis_engine **)made, err);
}
static void destroy_engine(void *made) {
    vocis_engine_destroy(made);
}

static vocis_status make_model(void **made, vocis_error *err) {
    return vocis_model_open(engine, inside_model_path(), vocis_model_default_params(),
                            (vocis_model **)made, err);
}
static void destroy_model(void *made) {
    vocis_model_destroy(made);
}

static vocis_status make_session(void **made, vocis_error *err) {
    vocis_session_params params = vocis_session_default_params();
    params.speculate = VOCIS_SPECULATE_DRAFT; /* so that there is all that a session can have */
    params.draft = model;
    return vocis_session_create(model, params, (vocis_session **)made, err);
}
static void destroy_session(void *made) {
    vocis_session_destroy(made);
}

static vocis_status transcribe(const char *journal, void **made, vocis_error *err) {
    const vocis_boost boost = {"Chaka Zulu", 1};
    vocis_transcribe_params params = vocis_transcribe_default_params();
    params.guard = false; /* it would take back what a random model says of noise */
    params.max_tokens = 6;
    params.initial_prompt = "Some words, to begin with.";
    params.prefix = "And";
    params.boost = &boost;
    params.n_boost = 1;
    params.temperature_increment = 0;
    params.no_speech_threshold = 1;
    params.journal = journal;
    return vocis_transcribe(session, inside_samples(), INSIDE_SAMPLES, params,
                            (vocis_result **)made, err);
}
static vocis_status make_result(void **made, vocis_error *err) {
    return transcribe(NULL, made, err);
}
/* With times of words, on a session of its own, as the first of them make a plan. */
static vocis_status make_times(void **made, vocis_error *err) {
    vocis_transcribe_params params = vocis_transcribe_default_params();
    vocis_session *own = inside_session(model, 1);
    params.guard = false;
    params.max_tokens = 6;
    params.beam_size = params.best_of = 1;
    params.temperature_increment = 0;
    params.no_speech_threshold = 1;
    params.word_timestamps = true;
    vo_memory_fail_after(times_after, times_after % 2);
    vocis_status status =
        vocis_transcribe(own, inside_samples(), INSIDE_SAMPLES, params, (vocis_result **)made, err);
    times_failed = vo_memory_fail_after(-1, false);
    vocis_session_destroy(own);
    return status;
}
static void destroy_result(void *made) {
    vocis_result_destroy(made);
}

static const char *journal_path(void) {
    static char path[64];
    snprintf(path, sizeof path, "/tmp/vocis-journal-%ld", (long)getpid());
    return path;
}
static vocis_status make_journal(void **made, vocis_error *err) {
    unlink(journal_path());
    return transcribe(journal_path(), made, err);
}
/* After make_journal, which leaves a whole one. */
static vocis_status make_resumed(void **made, vocis_error *err) {
    return transcribe(journal_path(), made, err);
}

static vocis_status make_json(void **made, vocis_error *err) {
    size_t size;
    json_may_fail = true;
    vocis_status status =
        vocis_result_write(result, "json", vocis_write_default_params(), (char **)made, &size, err);
    json_may_fail = false;
    return status;
}
static vocis_status make_vtt(void **made, vocis_error *err) {
    size_t size;
    vocis_write_params params = vocis_write_default_params();
    params.subtitle_style = "broadcast";
    return vocis_result_write(result, "vtt", params, (char **)made, &size, err);
}
static vocis_status make_facts(void **made, vocis_error *err) {
    return vocis_model_inspect("tests/data/formats/tiny/safetensors/openai.bin", true,
                               (char **)made, err);
}
/* A folder is made whole or not at all; the rest of the work is the same for every type. */
static vocis_status make_folder(void **made, vocis_error *err) {
    char folder[64];
    snprintf(folder, sizeof folder, "/tmp/vocis-test-%ld", (long)getpid());
    vocis_status status = vocis_model_convert(engine, inside_model_path(), folder,
                                              vocis_convert_default_params(), err);
    assert_int_equal(access(folder, F_OK), status == VOCIS_OK ? 0 : -1);
    if (status == VOCIS_OK) assert_int_equal(vo_remove_tree(folder, NULL), VO_OK);
    return status;
}
static void destroy_folder(void *made) {}
static vocis_status make_spans(void **made, vocis_error *err) {
    int n;
    return vocis_detect_speech(engine, inside_samples(), INSIDE_SAMPLES,
                               vocis_speech_default_params(), (vocis_span **)made, &n, err);
}
static vocis_status make_audio(void **made, vocis_error *err) {
    vocis_audio audio;
    vocis_status status =
        vocis_audio_load("tests/data/audio/jfk.wav", vocis_audio_default_params(), &audio, err);
    *made = audio.samples;
    return status;
}

/* The call tells by NULL alone. */
static vocis_status make_words(void **made, vocis_error *err) {
    *made =
        vocis_normalize("Mr. O'Neil paid two and a half hundred and one pounds, $2 and 7 cents, "
                        "[laughs] one oh one times, in the nineteen eighties; colour!",
                        "en");
    if (*made) return VOCIS_OK;
    *err = (vocis_error){VOCIS_ERR_MEMORY, "no memory"};
    return VOCIS_ERR_MEMORY;
}
static vocis_status make_rate(void **made, vocis_error *err) {
    vocis_error_rate rate;
    vocis_status status = vocis_compare("one two three", "one three four", false, &rate, err);
    return status == VOCIS_OK ? vocis_compare("abcd", "abed", true, &rate, err) : status;
}

/* Fails allocation after allocation until the call gets through without one failing. */
enum { ONE, ALL_THAT_FOLLOW, IN_TURN };
static void try_all(const trial *t, int what_fails, outcome *o) {
    for (int n = 0;; n++) {
        size_t before = vocis_memory_get().active_bytes;
        void *made = NULL;
        vocis_error err = {0};
        vo_memory_fail_after(n, (what_fails == IN_TURN ? n % 2 : what_fails) == ALL_THAT_FOLLOW);
        vocis_status status = t->make(&made, &err);
        bool failed = vo_memory_fail_after(-1, false);
        if (status != VOCIS_OK && status != VOCIS_ERR_MEMORY)
            fail_msg("%s, allocation %d: %s (%s)", t->name, n, vocis_status_name(status),
                     err.message);
        assert_int_equal(err.status, status);
        if (status != VOCIS_OK) assert_true(strlen(err.message) > 0);
        if (status != VOCIS_OK && t->gives != PARTS) assert_null(made);
        if (status == VOCIS_OK && t->gives == TEXT) assert_string_equal(made, o->text);
        t->destroy(made);
        assert_int_equal(vocis_memory_get().active_bytes, before);
        if (!failed) return;
        o->failures++;
        if (status == VOCIS_OK) o->got_over++;
    }
}

static void try_both(const trial *t) {
    outcome o = {0};
    void *made = NULL;
    assert_int_equal(t->make(&made, NULL), VOCIS_OK);
    if (t->gives == TEXT) o.text = made;
    if (t->slow) {
        try_all(t, IN_TURN, &o);
    } else {
        try_all(t, ONE, &o);
        try_all(t, ALL_THAT_FOLLOW, &o);
    }
    print_message("%s: %d failures, got over %d\n", t->name, o.failures, o.got_over);
    t->destroy(made);
}

static void test_calls(void **state) {
    static const trial trials[] = {
        {"engine", make_engine, destroy_engine, NOTHING, false},
        {"model", make_model, destroy_model, NOTHING, false},
        {"facts", make_facts, vocis_free, TEXT, false},
        {"folder", make_folder, destroy_folder, NOTHING, true},
        {"spans", make_spans, vocis_free, NOTHING, false},
        {"audio", make_audio, vocis_free, NOTHING, false},
        {"result", make_result, destroy_result, PARTS, true},
        {"journal", make_journal, destroy_result, PARTS, true},
        {"resumed", make_resumed, destroy_result, PARTS, true},
        {"words", make_words, vocis_free, TEXT, false},
        {"rate", make_rate, vocis_free, NOTHING, false},
        {"json", make_json, vocis_free, TEXT, false},
        {"vtt", make_vtt, vocis_free, TEXT, false},
    };
    engine = inside_engine(1);
    model = inside_model(engine);
    session = inside_session(model, 5);
    assert_int_equal(make_result((void **)&result, NULL), VOCIS_OK);
    assert_true(vocis_result_segment_count(result) > 0);
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) try_both(&trials[i]);
    unlink(journal_path());
    vocis_result_destroy(result);
    vocis_session_destroy(session);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
}

/* Sessions prepare the weights of their model, which it keeps: what the first failures left
 * prepared is not asked for again, so that every model meets one failure only. */
static void test_sessions(void **state) {
    enum { STEP = 7 }; /* coprime to what one layer needs */
    vocis_error err = {0};
    int failures = 0;
    engine = inside_engine(1);
    size_t before = vocis_memory_get().active_bytes;
    for (int n = 0;; n += STEP) {
        void *made = NULL;
        model = inside_model(engine);
        vo_memory_fail_after(n, n % 2);
        err = (vocis_error){0};
        vocis_status status = make_session(&made, &err);
        vo_memory_fail_after(-1, false);
        if (status != VOCIS_OK) {
            assert_int_equal(status, VOCIS_ERR_MEMORY);
            assert_null(made);
            /* the model is as good as before */
            assert_int_equal(make_session(&made, NULL), VOCIS_OK);
        }
        destroy_session(made);
        vocis_model_destroy(model);
        assert_int_equal(vocis_memory_get().active_bytes, before);
        if (status == VOCIS_OK) break;
        failures++;
    }
    assert_true(failures > 10);
    vocis_engine_destroy(engine);
}

static void test_times(void **state) {
    int failures = 0;
    engine = inside_engine(1);
    model = inside_model(engine);
    times_after = -1;
    do {
        const size_t before = vocis_memory_get().active_bytes;
        vocis_error err = {0};
        void *made = NULL;
        const vocis_status status = make_times(&made, &err);
        if (times_after == 0) assert_null(made);
        if (status != VOCIS_OK) assert_int_equal(status, VOCIS_ERR_MEMORY);
        if (status == VOCIS_OK) {
            const vocis_segment *segment = vocis_result_segment(made, 0);
            assert_true(segment && segment->words);
        }
        destroy_result(made);
        if (times_after >= 0) assert_int_equal(vocis_memory_get().active_bytes, before);
        failures += times_failed;
        times_after++;
    } while (times_after == 0 || times_failed);
    print_message("times of words: %d failures\n", failures);
    assert_true(failures > 30);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_times),
    };
    json_set_alloc_funcs(json_memory, free);
    return cmocka_run_group_tests(tests, inside_begin, inside_end);
}
