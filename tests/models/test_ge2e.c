/* SPDX-License-Identifier: MIT
 *
 * The speaker encoder against Resemblyzer (tools/golden/speaker.py), damaged weights, and turns of
 * two voices end to end.
 */
#include "models/ge2e/ge2e.h"

#include "audio/audio.h"
#include "base/memory.h"
#include "models/support_real.h"
#include "pipeline/channels.h"
#include "pipeline/diarize.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { WINDOW = VO_GE2E_FRAMES * VO_GE2E_MELS, DIM = VO_GE2E_HIDDEN, SECOND = VOCIS_SAMPLE_RATE };

static vocis_engine *engine;
static vo_audio clip;

static int set_up(void **state) {
    vo_audio_params params = vo_audio_default_params();
    engine = real_engine(2, NULL);
    return engine && vo_audio_load(REAL_JFK, &params, &clip, NULL) == VO_OK ? 0 : -1;
}

static int tear_down(void **state) {
    vo_audio_free(&clip);
    real_engine_destroy(engine);
    return 0;
}

static void mel_of(int64_t first, int64_t frames, float *out) {
    vo_error err = {0};
    vo_mel *mel = vo_mel_create(VO_GE2E_MELS, &err);
    assert_int_equal(
        vo_mel_power(mel, &engine->kernels, clip.samples, clip.n_samples, first, frames, out, &err),
        VO_OK);
    vo_mel_destroy(mel);
}

static void test_mel(void **state) {
    int64_t count = 0;
    float *want = real_npy("tests/data/ge2e/jfk_mel40.npy", &count), have[50 * VO_GE2E_MELS];
    assert_non_null(want);
    assert_int_equal(count, 50 * VO_GE2E_MELS);
    mel_of(0, 50, have);
    for (int64_t i = 0; i < count; i++)
        assert_true(fabsf(have[i] - want[i]) <= 1e-4f * want[i] + 1e-8f);
    vo_free(want);
    /* Beyond both ends there is silence. */
    mel_of(-10, 5, have);
    mel_of(clip.n_samples / 160 + 5, 5, have + 5 * VO_GE2E_MELS);
    for (int i = 0; i < 10 * VO_GE2E_MELS; i++) assert_true(have[i] == 0);
}

static void run(const vocis_engine *e, const float *mels, int64_t n, float *voices) {
    vo_error err = {0};
    vo_ge2e *model = NULL;
    vo_ge2e_state *s = NULL;
    assert_int_equal(vo_ge2e_load_builtin(&model, &err), VO_OK);
    assert_int_equal(vo_ge2e_state_create(model, &e->runtime, &s, &err), VO_OK);
    assert_int_equal(vo_ge2e_run(s, mels, n, voices, &err), VO_OK);
    vo_ge2e_state_destroy(s);
    vo_ge2e_destroy(model);
}

static double cosine(const float *a, const float *b) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < DIM; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* Rows of 257: the first sample of a window, its voice; row 0 is the mean of all. */
static void test_voices(void **state) {
    int64_t count = 0;
    float *want = real_npy("tests/data/ge2e/jfk_voices.npy", &count);
    assert_non_null(want);
    const int64_t n = count / 257 - 1;
    assert_int_equal(n, 13);
    float *mels = vo_alloc_array((size_t)n * WINDOW, sizeof *mels);
    float *voices = vo_alloc_array((size_t)n * DIM, sizeof *voices), mean[DIM] = {0};
    double worst = 0;
    for (int64_t i = 0; i < n; i++)
        mel_of((int64_t)want[(i + 1) * 257] / 160, VO_GE2E_FRAMES, mels + i * WINDOW);
    run(engine, mels, n, voices);
    for (int64_t i = 0; i < n; i++) {
        worst = fmax(worst, 1 - cosine(voices + i * DIM, want + (i + 1) * 257 + 1));
        for (int k = 0; k < DIM; k++) mean[k] += voices[i * DIM + k];
        assert_true(fabs(cosine(voices + i * DIM, voices + i * DIM) - 1) < 1e-6);
    }
    print_message("cosine distance: %.2g of a window, %.2g of the clip\n", worst,
                  1 - cosine(mean, want + 1));
    assert_true(worst < 1e-4);
    assert_true(1 - cosine(mean, want + 1) < 1e-4);
    vo_free(want);
    vo_free(mels);
    vo_free(voices);
}

/* The same bits alone, in a batch and on another number of threads. */
static void test_company(void **state) {
    enum { N = VO_GE2E_BATCH + 3 };
    float *mels = vo_alloc_array((size_t)N * WINDOW, sizeof *mels);
    float *voices = vo_alloc_array((size_t)N * DIM, sizeof *voices), alone[DIM];
    for (int i = 0; i < N - 1; i++) mel_of(50 * i, VO_GE2E_FRAMES, mels + (int64_t)i * WINDOW);
    run(engine, mels, N, voices);
    vocis_engine *single = real_engine(1, NULL);
    for (int i = 0; i < N; i += 6) {
        run(single, mels + (int64_t)i * WINDOW, 1, alone);
        assert_memory_equal(alone, voices + (int64_t)i * DIM, sizeof alone);
    }
    real_engine_destroy(single);
    vo_free(mels);
    vo_free(voices);
}

/* ---- weights -------------------------------------------------------------------------------- */

/* A safetensors file with one change: what `from` is becomes `to`, of the same length. */
static vo_status load_changed(const char *from, const char *to, size_t cut, vo_error *err) {
    char *data;
    size_t size;
    vo_weights *weights = NULL;
    vo_ge2e *model = NULL;
    assert_int_equal(vo_file_read("src/models/ge2e/ge2e.safetensors", 1 << 24, &data, &size, NULL),
                     VO_OK);
    if (from) {
        char *at = NULL;
        for (size_t i = 8; i < 4096 && !at; i++)
            if (memcmp(data + i, from, strlen(from)) == 0) at = data + i;
        assert_non_null(at);
        memcpy(at, to, strlen(to));
    }
    vo_status status = vo_weights_open_memory(data, size - cut, "test", &weights, err);
    if (status == VO_OK) status = vo_ge2e_load(weights, &model, err);
    vo_ge2e_destroy(model);
    vo_free(data);
    return status;
}

static void test_damaged_weights(void **state) {
    static const char *const changes[][2] = {{"lstm.2.weight_hh", "lstm.3.weight_hh"},
                                             {"linear.bias", "linear.bies"},
                                             {"[1024,40]", "[512,80] "},
                                             {"[1024,40]", "[40,1024]"},
                                             {"[0,131072]", "[0,131071]"},
                                             {"\"F16\"", "\"BF1\""},
                                             {"[256,256]", "[65536]  "}};
    vo_error err = {0};
    const size_t before = vo_memory_get_stats().active_bytes;
    assert_int_equal(load_changed(NULL, NULL, 0, &err), VO_OK);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        err = (vo_error){0};
        const vo_status status = load_changed(changes[i][0], changes[i][1], 0, &err);
        if (status != VO_ERR_FORMAT && status != VO_ERR_UNSUPPORTED)
            fail_msg("%s: status %d", changes[i][1], (int)status);
        assert_true(err.message[0] != '\0');
    }
    for (size_t cut = 1; cut < 2861504; cut *= 3) {
        err = (vo_error){0};
        assert_int_equal(load_changed(NULL, NULL, cut, &err), VO_ERR_FORMAT);
    }
    assert_int_equal(vo_memory_get_stats().active_bytes, before);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static vo_status diarize(const float *samples, int64_t n_samples, int min, int max,
                         vocis_turn **turns, int *n) {
    vo_error err = {0};
    const vocis_diarize_params p = {.min_speakers = min, .max_speakers = max};
    return vo_diarize(engine, samples, n_samples, &p, turns, n, &err);
}

static void test_one_voice(void **state) {
    vocis_turn *turns;
    int n;
    assert_int_equal(diarize(clip.samples, clip.n_samples, 0, 0, &turns, &n), VO_OK);
    assert_true(n >= 3);
    for (int i = 0; i < n; i++) {
        assert_int_equal(turns[i].speaker, 0);
        assert_true(turns[i].start < turns[i].end && turns[i].end <= 11);
        assert_true(i == 0 || turns[i - 1].end <= turns[i].start);
    }
    vo_free(turns);
    float *silence = vo_alloc_array(3 * SECOND, sizeof *silence);
    assert_int_equal(diarize(silence, 3 * SECOND, 2, 2, &turns, &n), VO_OK);
    assert_int_equal(n, 0);
    assert_null(turns);
    vo_free(silence);
    assert_int_equal(diarize(NULL, 0, 0, 0, &turns, &n), VO_OK);
    assert_int_equal(diarize(clip.samples, 9, 0, 0, &turns, &n), VO_OK);
    assert_int_equal(diarize(clip.samples, 9, 3, 2, &turns, &n), VO_ERR_ARGUMENT);
    assert_int_equal(diarize(clip.samples, 9, 257, 0, &turns, &n), VO_ERR_ARGUMENT);
    assert_int_equal(diarize(NULL, 9, 0, 0, &turns, &n), VO_ERR_ARGUMENT);
}

/* Kennedy, another man, Kennedy. */
static void test_two_voices(void **state) {
    const char *path = real_data("wenet-e2e__wenet/test/resources/librispeech-1995-1837-0001.wav");
    if (!path) skip();
    vo_audio other = real_audio(path);
    const int64_t a = 5 * SECOND, b = other.n_samples, c = clip.n_samples - a;
    float *x = vo_alloc_array((size_t)(a + b + c), sizeof *x);
    memcpy(x, clip.samples, (size_t)a * sizeof *x);
    memcpy(x + a, other.samples, (size_t)b * sizeof *x);
    memcpy(x + a + b, clip.samples + a, (size_t)c * sizeof *x);
    for (int told = 0; told < 2; told++) {
        vocis_turn *turns;
        int n;
        assert_int_equal(diarize(x, a + b + c, told * 2, told * 2, &turns, &n), VO_OK);
        for (int i = 0; i < n; i++) {
            const double middle = (turns[i].start + turns[i].end) / 2;
            const bool second = middle > 5 && middle < 5 + (double)b / SECOND;
            assert_int_equal(turns[i].speaker, second);
        }
        assert_true(n >= 4);
        vo_free(turns);
    }
    vo_free(x);
    vo_audio_free(&other);
}

static void test_no_memory(void **state) {
    const size_t before = vo_memory_get_stats().active_bytes;
    vocis_turn *turns;
    int n, failures = 0;
    for (int after = 0;; after += 1 + after / 4) {
        vo_memory_fail_after(after, true);
        const vo_status status = diarize(clip.samples, 3 * SECOND, 0, 0, &turns, &n);
        const bool failed = vo_memory_fail_after(-1, false);
        assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
        assert_true(!failed || !turns);
        vo_free(turns);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
        if (!failed) break;
        failures++;
    }
    assert_true(failures > 12);
}

/* ---- a speaker in each channel, with a real model ------------------------------------------- */

static void test_stereo(void **state) {
    const char *model = real_model("base");
    if (!model) skip();
    vocis_session *session = real_session(engine, model, 1);
    const char *path = real_data("SYSTRAN__faster-whisper/tests/data/stereo_diarization.wav");
    if (!path) skip();
    vocis_audio channels[2] = {0};
    for (int c = 0; c < 2; c++) {
        vo_error err = {0};
        vo_audio one;
        vo_audio_params params = vo_audio_default_params();
        params.channel = c;
        assert_int_equal(vo_audio_load(path, &params, &one, &err), VO_OK);
        channels[c] = (vocis_audio){.samples = one.samples, .n_samples = one.n_samples};
    }
    bool separate = false;
    assert_int_equal(vo_channels_separate(engine, channels[0].samples, channels[1].samples,
                                          channels[0].n_samples, &separate, NULL),
                     VO_OK);
    assert_true(separate);
    vocis_transcribe_params params = real_params(1);
    vocis_result *result = NULL;
    vo_error err = {0};
    params.language = "en";
    assert_int_equal(vo_transcribe_channels(session, channels, 2, &params, &result, &err), VO_OK);
    char text[2][512] = {"", ""};
    for (int i = 0; i < result->n_segments; i++) {
        const vocis_segment *s = &result->segments[i];
        assert_true(s->speaker == 0 || s->speaker == 1);
        assert_int_equal(s->id, i);
        strncat(text[s->speaker], s->text, 500 - strlen(text[s->speaker]));
    }
    /* The transcripts of faster-whisper's own test. */
    assert_int_equal(real_word_errors("He began a confused complaint against the wizard, who had "
                                      "vanished behind the curtain on the left.",
                                      text[0]),
                     0);
    assert_int_equal(real_word_errors("The horizon seems extremely distant.", text[1]), 0);
    vo_result_destroy(result);
    for (int c = 0; c < 2; c++) vo_free(channels[c].samples);
    real_session_destroy(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mel),       cmocka_unit_test(test_voices),
        cmocka_unit_test(test_company),   cmocka_unit_test(test_damaged_weights),
        cmocka_unit_test(test_one_voice), cmocka_unit_test(test_two_voices),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_stereo),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
