/* SPDX-License-Identifier: MIT
 *
 * One network in many containers: whatever the file, what comes out is what its numbers say.
 * Quantised ggml files against logits of the reference on the same de-quantised weights; Whisper
 * base as CTranslate2, Hugging Face, MLX and ggml in float 16 and 32 gives one list of ids, and
 * in fewer bits the same words. Codes of four bits are what their numbers are.
 */
#include "models/support_real.h"

#include "base/memory.h"
#include "text/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { MAX_IDS = 512, N_CLIPS = 3 };
static const char *const clips[N_CLIPS] = {
    "ggml-org__whisper.cpp/samples/jfk.wav",
    "antirez__qwen-asr/samples/night_of_the_living_dead_1968/5s_were_better_off_up_here.wav",
    "argmaxinc__WhisperKit/Tests/WhisperKitTests/Resources/es_test_clip.wav"};
static const char jfk_words[] = "And so my fellow Americans ask not what your country can do for "
                                "you, ask what you can do for your country.";

/* ---- ggml, tiny random models ---------------------------------------------------------------- */

static void check_ggml(vocis_engine *engine, const char *name, json_t *golden,
                       const vo_audio *jfk) {
    char relative[96];
    snprintf(relative, sizeof relative, "golden/whisper_ggml/%s", name);
    vocis_session *session = real_session(engine, real_data(relative), 1);
    assert_non_null(session);
    real_encode(session, jfk->samples, jfk->n_samples);
    const float *audio = vo_whisper_audio(session->workers->state);
    double sum = 0, worst = 0;
    for (int64_t i = 0; i < 1500 * session->model->whisper->dims.n_audio_state; i++)
        sum += fabsf(audio[i]);
    double want_sum = json_number_value(json_object_get(golden, "encoder_abs_sum"));
    int32_t ids[32];
    int n = real_json_ids(json_object_get(golden, "prompt_tokens"), ids, 32);
    assert_true(n > 0);
    vo_error err = {0};
    float *const *logits;
    vo_lm *lm = &session->lanes[0].lm;
    assert_int_equal(lm->step(lm->self, &(vo_lm_input){0, n, ids, 0}, 1, &logits, &err), VO_OK);
    size_t i;
    json_t *value;
    json_array_foreach(json_object_get(golden, "logits_every_500th"), i, value) worst =
        fmax(worst, fabs(logits[0][500 * i] - json_number_value(value)));
    assert_int_equal(i, (lm->n_vocab + 499) / 500);
    json_array_foreach(json_object_get(golden, "logits_top10"), i, value) {
        int64_t id = json_integer_value(json_array_get(value, 0));
        worst = fmax(worst, fabs(logits[0][id] - json_number_value(json_array_get(value, 1))));
    }
    assert_int_equal(i, 10);
    printf("%s: logits within %.1e, encoder sum within %.1e\n", name, worst,
           fabs(sum / want_sum - 1));
    assert_true(fabs(sum / want_sum - 1) <= 1e-4);
    assert_true(worst <= 1e-3);
    real_session_destroy(session);
}

static void test_ggml(void **state) {
    (void)state;
    if (!real_data("golden/whisper_ggml/README.json")) skip();
    json_t *readme = json_load_file(real_data("golden/whisper_ggml/README.json"), 0, NULL);
    json_t *file;
    const char *name;
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    vo_audio jfk = real_audio(REAL_JFK);
    assert_non_null(jfk.samples);
    int n = 0;
    json_object_foreach(json_object_get(readme, "files"), name, file) {
        check_ggml(engine, name, file, &jfk);
        n++;
    }
    assert_int_equal(n, 6);
    vo_audio_free(&jfk);
    real_engine_destroy(engine);
    json_decref(readme);
}

/* ---- Whisper base ---------------------------------------------------------------------------- */

typedef struct outcome {
    int32_t ids[N_CLIPS][MAX_IDS];
    int n[N_CLIPS];
    int errors; /* in the words of the Kennedy clip */
    double seconds;
} outcome;

static vocis_session *open_named(vocis_engine *engine, const char *name) {
    vocis_session *session = real_model(name) ? real_session(engine, real_model(name), 1) : NULL;
    if (!session) fail_msg("%s could not be opened", name);
    return session;
}

static void run_model(vocis_engine *engine, const char *name, int n_clips, outcome *out) {
    vocis_session *session = open_named(engine, name);
    vocis_transcribe_params params = real_params(1);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < n_clips; i++) {
        vocis_result *result = real_transcribe(session, real_data(clips[i]), &params);
        assert_non_null(result);
        out->n[i] = real_result_ids(result, out->ids[i], MAX_IDS);
        out->seconds += result->timings.total;
        assert_true(out->n[i] > 0);
        if (i == 0) out->errors = real_word_errors(jfk_words, result->text);
        vo_result_destroy(result);
    }
    printf("%s: %d word errors, %.2f s\n", name, out->errors, out->seconds);
    real_session_destroy(session);
}

/* tools/convert makes the others of base; when one is missing the test is skipped as a whole. */
static bool have_models(const char *const *names, size_t n) {
    bool have = real_model("base") && real_data(clips[0]);
    for (size_t i = 0; have && i < n; i++)
        if (!real_model(names[i])) {
            printf("%s is not there\n", names[i]);
            have = false;
        }
    return have;
}

/* Every file of 16 or 32 bits holds the same numbers, so everything must be the same. */
static void test_same_ids(void **state) {
    (void)state;
    static const char *const same[] = {"base-hf", "base-mlx", "base-ggml-f16.bin", "base-ct2-f32"};
    if (!have_models(same, sizeof same / sizeof same[0])) skip();
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    outcome *base = vo_alloc(2 * sizeof *base), *other = base + 1;
    run_model(engine, "base", N_CLIPS, base);
    assert_int_equal(base->errors, 0);
    for (size_t m = 0; m < sizeof same / sizeof same[0]; m++) {
        run_model(engine, same[m], N_CLIPS, other);
        for (int i = 0; i < N_CLIPS; i++)
            real_assert_ids(same[m], other->ids[i], other->n[i], base->ids[i], base->n[i]);
    }
    vo_free(base);
    real_engine_destroy(engine);
}

/* Fewer bits change logits but not one of the 22 words. */
static void test_fewer_bits(void **state) {
    (void)state;
    static const char *const names[] = {"base-ct2-bf16", "base-ct2-int16", "base-ct2-int8",
                                        "base-mlx-q8", "base-mlx-q4"};
    if (!have_models(names, sizeof names / sizeof names[0])) skip();
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    outcome *out = vo_alloc(sizeof *out);
    for (size_t m = 0; m < sizeof names / sizeof names[0]; m++) {
        run_model(engine, names[m], 1, out);
        assert_int_equal(out->errors, 0);
    }
    vo_free(out);
    real_engine_destroy(engine);
}

/* What the encoder makes of jfk.wav; the caller frees it. */
static float *encoded(vocis_engine *engine, const char *name, const char *compute, int64_t *count) {
    vo_error err = {0};
    vocis_model *model;
    vocis_session *session;
    assert_int_equal(vo_model_load(engine, real_model(name), compute, &model, &err), VO_OK);
    assert_int_equal(
        vo_session_create(model, (vocis_session_params){.max_sequences = 1}, &session, &err),
        VO_OK);
    vo_audio jfk = real_audio(REAL_JFK);
    real_encode(session, jfk.samples, jfk.n_samples);
    vo_audio_free(&jfk);
    const vo_whisper_dims *dims = &model->whisper->dims;
    *count = (int64_t)dims->n_audio_ctx * dims->n_audio_state;
    float *copy = vo_alloc_array((size_t)*count, sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, vo_whisper_audio(session->workers->state), (size_t)*count * sizeof *copy);
    real_session_destroy(session);
    return copy;
}

/* Codes that a file has are computed with as they are: the same bits as from its numbers in bf16,
 * into which they are expanded. */
static void test_codes_stay_codes(void **state) {
    (void)state;
    static const char *const names[] = {"base-mlx-q4"};
    if (!have_models(names, 1)) skip();
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    int64_t n, n_codes;
    float *bf16 = encoded(engine, names[0], "bf16", &n);
    float *codes = encoded(engine, names[0], "int4", &n_codes);
    assert_int_equal(n, n_codes);
    assert_memory_equal(bf16, codes, (size_t)n * sizeof *bf16);
    vo_free(bf16);
    vo_free(codes);
    real_engine_destroy(engine);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ggml), cmocka_unit_test(test_same_ids),
                                       cmocka_unit_test(test_fewer_bits),
                                       cmocka_unit_test(test_codes_stay_codes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
