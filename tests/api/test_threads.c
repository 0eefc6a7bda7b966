/* SPDX-License-Identifier: MIT
 *
 * One engine and one model for many threads: sessions that run at once, that are made at once (so
 * that the weights are prepared by whoever comes first), and that are stopped give what one
 * alone gives.
 */
#include "api/inside.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { THREADS = 3, ROUNDS = 2 };

static vocis_engine *engine;
static vocis_model *model;

static int begin(void **state) {
    if (inside_begin(state) != 0) return -1;
    engine = inside_engine(2);
    return 0;
}

static int end(void **state) {
    vocis_engine_destroy(engine);
    return inside_end(state);
}

/* What one thread does, and what came of it: cmocka's checks are for the main thread. */
typedef struct worker {
    int kind; /* settings: workers of different kinds disturb each other most */
    bool stops;
    char *documents[ROUNDS]; /* NULL where something failed */
    atomic_int polls;
} worker;

static bool on_abort(void *user) {
    worker *w = user;
    return atomic_fetch_add(&w->polls, 1) > 3 && w->stops;
}

static vocis_transcribe_params settings(worker *w) {
    vocis_transcribe_params params = vocis_transcribe_default_params();
    params.guard = false; /* it would take back what a random model says of noise */
    params.max_tokens = 12;
    params.no_speech_threshold = 2;
    params.language = w->kind == 2 ? "de" : NULL;
    params.beam_size = w->kind == 1 ? 1 : 3;
    params.temperature = w->kind == 1 ? 0.5f : 0;
    params.temperature_increment = 0;
    params.on_abort = on_abort;
    params.user = w;
    return params;
}

static void *work(void *user) {
    worker *w = user;
    vocis_session *session = NULL;
    vocis_session_params params = vocis_session_default_params();
    if (vocis_session_create(model, params, &session, NULL) != VOCIS_OK) return NULL;
    for (int i = 0; i < ROUNDS; i++) {
        vocis_result *result = NULL;
        size_t size;
        vocis_status status =
            vocis_transcribe(session, inside_samples(), INSIDE_SAMPLES, settings(w), &result, NULL);
        if (status == VOCIS_OK)
            vocis_result_write(result, "tsv", vocis_write_default_params(), &w->documents[i], &size,
                               NULL);
        vocis_result_destroy(result);
    }
    vocis_session_destroy(session);
    return NULL;
}

/* Kinds 0, 1, 2, one after the other. */
static void work_alone(worker workers[THREADS]) {
    model = inside_model(engine);
    for (int i = 0; i < THREADS; i++) {
        workers[i].kind = i;
        work(&workers[i]);
        for (int k = 0; k < ROUNDS; k++) assert_non_null(workers[i].documents[k]);
        assert_string_equal(workers[i].documents[0], workers[i].documents[1]);
        assert_true(strlen(workers[i].documents[0]) > strlen("start\tend\ttext\n"));
    }
    vocis_model_destroy(model);
}

static void work_together(worker workers[THREADS]) {
    pthread_t threads[THREADS];
    model = inside_model(engine); /* nothing is prepared yet */
    for (int i = 0; i < THREADS; i++) {
        workers[i].kind = i;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    vocis_model_destroy(model);
}

static void free_documents(worker workers[THREADS]) {
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < ROUNDS; k++) vocis_free(workers[i].documents[k]);
}

static void test_sessions(void **state) {
    worker alone[THREADS] = {0}, together[THREADS] = {0};
    work_alone(alone);
    work_together(together);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < ROUNDS; k++) {
            assert_non_null(together[i].documents[k]);
            assert_string_equal(together[i].documents[k], alone[i].documents[0]);
        }
    free_documents(alone);
    free_documents(together);
}

/* A neighbour that is stopped, again and again, changes nothing. */
static void test_stopped_neighbour(void **state) {
    worker alone[THREADS] = {0}, together[THREADS] = {0};
    work_alone(alone);
    together[1].stops = true;
    work_together(together);
    for (int i = 0; i < THREADS; i++) {
        if (i == 1) {
            assert_null(together[i].documents[0]);
            assert_true(atomic_load(&together[i].polls) > 3);
        } else {
            assert_non_null(together[i].documents[0]);
            assert_string_equal(together[i].documents[0], alone[i].documents[0]);
        }
    }
    free_documents(alone);
    free_documents(together);
}

static void *find_speech(void *user) {
    int *n = user;
    vocis_span *spans = NULL;
    *n = -1;
    if (vocis_detect_speech(engine, inside_samples(), INSIDE_SAMPLES, vocis_speech_default_params(),
                            &spans, n, NULL) != VOCIS_OK)
        *n = -1;
    vocis_free(spans);
    return NULL;
}

/* The calls that need no session. */
static void test_engine(void **state) {
    pthread_t threads[THREADS];
    int alone, together[THREADS];
    find_speech(&alone);
    assert_true(alone >= 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_speech, &together[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(together[i], alone);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_stopped_neighbour),
        cmocka_unit_test(test_engine),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
