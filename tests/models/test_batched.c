/* SPDX-License-Identifier: MIT
 *
 * On real weights and real speech: windows decoded side by side give what each gives alone, bit for
 * bit, for any number of windows and threads and in every arithmetic; and the words are right.
 */
#include "base/memory.h"
#include "models/support_real.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static const char speech[] = "golden/whisper_real/visible.flac";
enum { SECONDS = 70 }; /* of it: three chunks */

/* Some begin words that are spoken and break, so that rows go back in the midst of others. */
static const vocis_boost listed[] = {{"Theremin", 2}, {"Youngstown", 2}, {"Ice cream parlour", 2},
                                     {"Barbra", 2},   {"Johnny Reb", 2}, {"Whatsoever", 2},
                                     {"It'll", 2},    {"cemetery", 2},   {"Andrea Doria", 2}};

static vocis_result *run(const char *compute, int threads, vocis_session_params sp, int beam,
                         float increment) {
    vo_error err = {0};
    vocis_engine *engine = real_engine(threads, NULL);
    vocis_model *model;
    vocis_session *session;
    vocis_result *result = NULL;
    vocis_transcribe_params params = real_params(beam);
    params.best_of = 5;
    params.language = "en";
    params.temperature_increment = increment;
    params.chunking = VOCIS_CHUNK_SPEECH;
    if (strcmp(compute, "f32") != 0) {
        params.boost = listed;
        params.n_boost = (int)(sizeof listed / sizeof *listed);
    }
    if (increment > 0) params.logprob_threshold = -0.2f; /* so that some windows fall back */
    assert_non_null(engine);
    assert_int_equal(vo_model_load(engine, real_model("base"), compute, &model, &err), VO_OK);
    assert_int_equal(vo_session_create(model, sp, &session, &err), VO_OK);
    vo_audio audio = real_audio(real_data(speech));
    assert_true(audio.n_samples > SECONDS * VOCIS_SAMPLE_RATE);
    assert_int_equal(vo_transcribe(session, audio.samples, SECONDS * VOCIS_SAMPLE_RATE, NULL,
                                   &params, &result, &err),
                     VO_OK);
    vo_audio_free(&audio);
    real_session_destroy(session);
    real_engine_destroy(engine);
    return result;
}

static void assert_same(const char *what, const vocis_result *a, const vocis_result *b) {
    print_message("%s: %d segments\n", what, a->n_segments);
    assert_int_equal(a->n_segments, b->n_segments);
    for (int i = 0; i < a->n_segments; i++) {
        const vocis_segment *x = &a->segments[i], *y = &b->segments[i];
        assert_string_equal(x->text, y->text);
        assert_int_equal(x->n_tokens, y->n_tokens);
        assert_memory_equal(x->tokens, y->tokens, (size_t)x->n_tokens * sizeof *x->tokens);
        assert_memory_equal(x->token_logprobs, y->token_logprobs,
                            (size_t)x->n_tokens * sizeof *x->token_logprobs);
        assert_true(x->start == y->start && x->end == y->end && x->temperature == y->temperature);
        assert_true(i == 0 || x->start >= a->segments[i - 1].start);
    }
}

static void compare(const char *compute, int beam, float increment) {
    if (!real_model("base") || !real_data(speech)) skip();
    vocis_result *alone =
        run(compute, 1, (vocis_session_params){.max_sequences = 5}, beam, increment);
    assert_true(alone->n_segments >= 6);
    static const struct {
        int threads, windows, workers;
    } cases[] = {{1, 2, 1}, {2, 3, 1}, {2, 8, 2}, {4, 3, 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[64];
        vocis_result *batched = run(compute, cases[i].threads,
                                    (vocis_session_params){.max_sequences = 5,
                                                           .max_windows = cases[i].windows,
                                                           .max_workers = cases[i].workers},
                                    beam, increment);
        snprintf(what, sizeof what, "%s, beam %d, %d threads, %d windows, %d workers", compute,
                 beam, cases[i].threads, cases[i].windows, cases[i].workers);
        assert_same(what, batched, alone);
        if (increment > 0) assert_true(batched->timings.fallbacks > 0);
        vo_result_destroy(batched);
    }
    vo_result_destroy(alone);
}

static void test_greedy_f32(void **state) {
    compare("f32", 1, 0);
}
static void test_greedy_bf16(void **state) {
    compare("bf16", 1, 0);
}
static void test_fallback_int8(void **state) {
    compare("int8", 1, 0.4f);
}
static void test_beams_int8(void **state) {
    compare("int8", 5, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_f32),
        cmocka_unit_test(test_greedy_bf16),
        cmocka_unit_test(test_fallback_int8),
        cmocka_unit_test(test_beams_int8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
