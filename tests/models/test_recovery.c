/* SPDX-License-Identifier: MIT
 *
 * Nothing is lost: on a recording of which Whisper base in int8 leaves out half a minute, all
 * speech that the voice detector hears has text in the end, with few words wrong, the same for any
 * number of windows side by side; and where nobody speaks there is no text.
 */
#include "models/support_real.h"

#include "base/memory.h"
#include "text/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, SECONDS = 245 /* of the recording */ };

static vocis_engine *engine;
static vocis_model *model;
static vo_audio audio;

static const char recording[] = "golden/whisper_real/visible.flac";

static int open_all(void **state) {
    vo_error err = {0};
    engine = real_engine(2, NULL);
    if (!engine) return -1;
    if (!real_model("base") || !real_data(recording)) return 0;
    audio = real_audio(real_data(recording));
    if (!audio.samples) return -1;
    return vo_model_load(engine, real_model("base"), "int8", &model, &err) == VO_OK ? 0 : -1;
}

static int close_all(void **state) {
    vo_model_destroy(model);
    vo_audio_free(&audio);
    real_engine_destroy(engine);
    return 0;
}

static vocis_transcribe_params params_of(vocis_chunking chunking, bool careful) {
    vocis_transcribe_params p = vo_transcribe_default_params();
    p.language = "en";
    p.beam_size = p.best_of = 1;
    p.chunking = chunking;
    p.recover = p.guard = careful;
    return p;
}

static vocis_result *run(const float *samples, int64_t n, int windows,
                         const vocis_transcribe_params *p) {
    vocis_result *result = real_run(model, samples, n, windows, p);
    double before = 0;
    for (int i = 0; i < result->n_segments; i++) { /* in order, whoever found them */
        assert_true(result->segments[i].start >= before);
        before = result->segments[i].start;
    }
    return result;
}

/* Sentences of clips that the reference jumps over. */
static void assert_found(const vocis_result *r) {
    static const char *const sentences[] = {"ask what you can do for your country", "everything is",
                                            "i am not afraid johnny"};
    char *plain = vo_normalize_english(r->text);
    assert_non_null(plain);
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++)
        if (!strstr(plain, sentences[i])) fail_msg("\"%s\" is not in \"%s\"", sentences[i], plain);
    vo_free(plain);
}

static void test_left_out(void **state) {
    if (!model) skip();
    for (int chunking = 0; chunking < 2; chunking++) {
        const vocis_transcribe_params p = params_of((vocis_chunking)chunking, true);
        vocis_result *r = run(audio.samples, SECONDS * SECOND, 1, &p);
        print_message("%.1f of %.1f s of speech lost, %.1f s recovered\n", r->coverage.lost,
                      r->coverage.speech, r->coverage.recovered);
        assert_true(r->coverage.known && r->coverage.speech > 150);
        assert_true(r->coverage.ratio >= 0.995);
        if (chunking == VOCIS_CHUNK_SEQUENTIAL) assert_true(r->coverage.recovered > 5);
        assert_found(r);
        if (chunking == VOCIS_CHUNK_SPEECH) {
            vocis_result *batched = run(audio.samples, SECONDS * SECOND, 3, &p);
            assert_string_equal(batched->text, r->text);
            assert_int_equal(batched->n_segments, r->n_segments);
            vo_result_destroy(batched);
        }
        vo_result_destroy(r);
    }
}

/* Without the second look the loss is still seen. */
static void test_loss_is_said(void **state) {
    if (!model) skip();
    vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, true);
    p.recover = false;
    p.clip_timestamps = (const double[]){0, 20};
    p.n_clip_timestamps = 2;
    vocis_result *r = run(audio.samples, 40 * SECOND, 1, &p);
    assert_true(r->coverage.skipped > 5);
    assert_true(r->coverage.ratio < 0.8);
    assert_true(r->account[r->n_account - 1].cover == VOCIS_COVER_SKIPPED);
    vo_result_destroy(r);
}

static void test_nobody(void **state) {
    if (!model) skip();
    float *x = vo_alloc_array(40 * SECOND, sizeof *x);
    assert_non_null(x);
    const vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, true);
    for (int noise = 0; noise < 2; noise++) {
        srand(1);
        for (int i = 0; noise && i < 40 * SECOND; i++)
            x[i] = 0.02f * (2 * (float)((double)rand() / RAND_MAX) - 1);
        vocis_result *r = run(x, 40 * SECOND, 1, &p);
        assert_string_equal(r->text, "");
        assert_int_equal(r->n_account, 1);
        assert_int_equal(r->account[0].cover, noise ? VOCIS_COVER_SOUND : VOCIS_COVER_QUIET);
        if (!noise) assert_int_equal(r->timings.windows, 0); /* silence costs nothing */
        vo_result_destroy(r);
    }
    vo_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_loss_is_said),
        cmocka_unit_test(test_nobody),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
