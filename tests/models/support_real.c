/* SPDX-License-Identifier: MIT
 *
 * What the tests on real weights share.
 */
#include "models/support_real.h"

#include "backends/registry.h"
#include "base/file.h"
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

static const char *below(const char *variable, const char *relative, char *path, size_t size) {
    const char *root = getenv(variable);
    if (!root || !*root) return NULL;
    snprintf(path, size, "%s/%s", root, relative);
    return vo_path_exists(path) ? path : NULL;
}

const char *real_data(const char *relative) {
    static char path[1024];
    return below("VOCIS_TEST_DATA", relative, path, sizeof path);
}

const char *real_model(const char *name) {
    static char path[1024];
    return below("VOCIS_TEST_MODELS", name, path, sizeof path);
}

vo_audio real_clip(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "ggml-org__whisper.cpp/wer_testing/6097_5_mins/audio/%s.wav", name);
    vo_audio clip = real_audio(real_data(path));
    assert_non_null(clip.samples);
    return clip;
}

const char *const real_sentences[REAL_SENTENCES] = {
    "hartmann_12_fawcett_0088",       "nada_lily_12_haggard_0523", "nada_lily_02_haggard_0216",
    "glitteringplain_11_morris_0037", "nada_lily_17_haggard_0378", "shortstories_06_gaskell_0676"};
const char real_sentences_text[] =
    "it was entering the lion's den possibly only to find a victim before becoming one myself; "
    "and their leaves are so thick that in certain places the light is as that of night when "
    "the moon is young. they had broken down the ferns with their feet and trampled the grass. "
    "and they clapped their hands together and kissed each other for joy of the new lover; and "
    "because the Slaughterer had named her for his wife. and cover himself as well as he could "
    "with his clothes.";

vocis_result *real_run(vocis_model *model, const float *samples, int64_t n_samples, int windows,
                       const vocis_transcribe_params *params) {
    vocis_session *session = NULL;
    vocis_result *result = NULL;
    vo_error err = {0};
    const vocis_session_params sp = {.max_sequences = 1, .max_windows = windows};
    if (vo_session_create(model, sp, &session, &err) != VO_OK) fail_msg("%s", err.message);
    if (vo_transcribe(session, samples, n_samples, NULL, params, &result, &err) != VO_OK)
        fail_msg("%s", err.message);
    vo_session_destroy(session);
    return result;
}

vocis_engine *real_engine(int threads, const char *cpu) {
    vo_error err = {0};
    uint32_t mask = UINT32_MAX;
    vocis_engine *engine = vo_alloc(sizeof *engine);
    if (!engine || (cpu && vo_cpu_level_mask(cpu, &mask, &err) != VO_OK)) return NULL;
    engine->cpu_flags = vo_cpu_detect() & mask;
    vo_kernels_init(&engine->kernels, engine->cpu_flags);
    engine->pool = vo_pool_create(threads, &err);
    if (!engine->pool ||
        vo_runtime_create(&engine->kernels, engine->pool, &engine->runtime, &err) != VO_OK)
        return NULL;
    return engine;
}

void real_engine_destroy(vocis_engine *engine) {
    vo_runtime_destroy(&engine->runtime);
    vo_pool_destroy(engine->pool);
    vo_free(engine);
}

vocis_session *real_session(vocis_engine *engine, const char *model_path, int rows) {
    vo_error err = {0};
    vocis_model *model;
    vocis_session *session;
    if (vo_model_load(engine, model_path, "f32", &model, &err) != VO_OK ||
        vo_session_create(model, (vocis_session_params){.max_sequences = rows}, &session, &err) !=
            VO_OK) {
        fprintf(stderr, "%s: %s\n", model_path, err.message);
        return NULL;
    }
    return session;
}

void real_session_destroy(vocis_session *session) {
    vocis_model *model = session->model;
    vo_session_destroy(session);
    vo_model_destroy(model);
}

vocis_transcribe_params real_params(int beam_size) {
    vocis_transcribe_params params = vo_transcribe_default_params();
    params.beam_size = beam_size;
    params.best_of = 1;
    params.temperature_increment = 0;
    params.recover = params.guard = false;
    return params;
}

vocis_result *real_transcribe(vocis_session *session, const char *path,
                              const vocis_transcribe_params *params) {
    vo_error err = {0};
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    vocis_result *result = NULL;
    if (vo_audio_load(path, &reading, &audio, &err) != VO_OK ||
        vo_transcribe(session, audio.samples, audio.n_samples, NULL, params, &result, &err) !=
            VO_OK)
        fprintf(stderr, "%s: %s\n", path, err.message);
    vo_audio_free(&audio);
    return result;
}

vo_audio real_audio(const char *path) {
    vo_error err = {0};
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    if (vo_audio_load(path, &reading, &audio, &err) != VO_OK)
        fprintf(stderr, "%s: %s\n", path, err.message);
    return audio;
}

void real_encode(vocis_session *s, const float *samples, int64_t n_samples) {
    vo_error err = {0};
    int64_t window = 30 * VOCIS_SAMPLE_RATE;
    assert_true(n_samples <= window);
    assert_int_equal(vo_mel_compute(s->model->mel, &s->model->engine->kernels,
                                    s->model->engine->pool, samples, n_samples, window - n_samples,
                                    vo_whisper_mel(s->workers->state), &err),
                     VO_OK);
    assert_int_equal(vo_whisper_encode(s->workers->state, 0, &err), VO_OK);
}

int real_json_ids(const json_t *array, int32_t *ids, int capacity) {
    int n = 0;
    size_t i;
    json_t *id;
    json_array_foreach(array, i, id) {
        if (n < capacity) ids[n++] = (int32_t)json_integer_value(id);
    }
    return n;
}

int real_result_ids(const vocis_result *result, int32_t *ids, int capacity) {
    int n = 0;
    for (int i = 0; i < result->n_segments; i++)
        for (int k = 0; k < result->segments[i].n_tokens && n < capacity; k++)
            ids[n++] = result->segments[i].tokens[k];
    return n;
}

void real_assert_ids(const char *what, const int32_t *have, int n_have, const int32_t *want,
                     int n_want) {
    int same = 0;
    while (same < n_have && same < n_want && have[same] == want[same]) same++;
    if (same == n_have && same == n_want) return;
    fail_msg("%s: %d ids, %d wanted; id %d is %d instead of %d", what, n_have, n_want, same,
             same < n_have ? (int)have[same] : -1, same < n_want ? (int)want[same] : -1);
}

int real_word_errors(const char *reference, const char *text) {
    vo_error err = {0};
    vo_error_rate rate = {0};
    char *r = vo_normalize_english(reference), *h = vo_normalize_english(text);
    assert_int_equal(vo_word_errors(r, h, &rate, &err), VO_OK);
    vo_free(r);
    vo_free(h);
    return (int)(rate.substitutions + rate.deletions + rate.insertions);
}

float *real_npy(const char *path, int64_t *count) {
    char *data;
    size_t size;
    if (vo_file_read(path, (size_t)1 << 30, &data, &size, NULL) != VO_OK || size < 10) return NULL;
    size_t header = (unsigned char)data[8] | (size_t)(unsigned char)data[9] << 8;
    *count = (int64_t)((size - 10 - header) / sizeof(float));
    memmove(data, data + 10 + header, size - 10 - header);
    return (float *)(void *)data;
}
