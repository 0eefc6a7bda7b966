/* SPDX-License-Identifier: MIT
 *
 * Channels and rates: what the mixture keeps, and what the resampler lets through.
 */
#include "support_audio.h"

#include <math.h>

enum { SECOND = 16000, N = 3 * SECOND };
static const double PI = 3.14159265358979323846;

/* Interleaves n samples of the clip under gains; a gain of NAN stands for another speaker. */
static float *interleave(const float *gains, int channels, int64_t n) {
    float *x = vo_alloc_array((size_t)(n * channels), sizeof(float));
    for (int64_t i = 0; i < n; i++)
        for (int c = 0; c < channels; c++)
            x[i * channels + c] = isnan(gains[c]) ? jfk()[i + 5 * SECOND] : gains[c] * jfk()[i];
    return x;
}

/* As a float WAV, so that warnings can be seen. */
static vo_audio mix_wav(const float *gains, int channels, int channel) {
    vo_buf buf = {0};
    vo_audio audio;
    vo_error err;
    vo_audio_params params = vo_audio_default_params();
    float *x = interleave(gains, channels, N);
    put_wav_head(&buf, 3, channels, 16000, 32, (uint32_t)(N * channels * 4));
    vo_buf_append(&buf, x, (size_t)(N * channels) * sizeof(float));
    params.channel = channel;
    assert_int_equal(load_bytes(&buf, 0, &params, &audio, &err), VO_OK);
    assert_int_equal(audio.n_samples, N);
    assert_int_equal(audio.source_channels, channels);
    vo_free(x);
    vo_buf_free(&buf);
    return audio;
}

static void test_same_in_both(void **state) {
    vo_audio audio = mix_wav((const float[]){1, 1}, 2, -1);
    assert_memory_equal(audio.samples, jfk(), N * sizeof(float));
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
}

static void test_mean_of_unlike(void **state) {
    vo_audio audio = mix_wav((const float[]){1, 0.25f}, 2, -1);
    for (int i = 0; i < N; i++) assert_true(fabsf(audio.samples[i] - 0.625f * jfk()[i]) <= 1e-7f);
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
}

/* One speaker on each side: both are heard, neither inverted. */
static void test_speaker_per_channel(void **state) {
    vo_audio audio = mix_wav((const float[]){1, NAN}, 2, -1);
    for (int i = 0; i < N; i++)
        assert_true(audio.samples[i] == 0.5f * jfk()[i] + 0.5f * jfk()[i + 5 * SECOND]);
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
    audio = mix_wav((const float[]){1, NAN}, 2, 1);
    assert_memory_equal(audio.samples, jfk() + 5 * SECOND, N * sizeof(float));
    vo_audio_free(&audio);
}

static void test_silent_channel(void **state) {
    vo_audio audio = mix_wav((const float[]){0, 1}, 2, -1);
    assert_memory_equal(audio.samples, jfk(), N * sizeof(float));
    assert_string_equal(audio.warning, "channel 1 is silent and was left out");
    vo_audio_free(&audio);
    audio = mix_wav((const float[]){1, 0.0009f, 0, 1}, 4, -1);
    assert_true(max_difference(audio.samples, jfk(), N) < 0.001);
    assert_string_equal(audio.warning, "2 of 4 channels are silent and were left out");
    vo_audio_free(&audio);
    /* -50 dB is quiet, not silent. */
    audio = mix_wav((const float[]){1, 0.00316f}, 2, -1);
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
}

static void test_anti_phase(void **state) {
    vo_audio audio = mix_wav((const float[]){1, -1}, 2, -1);
    assert_memory_equal(audio.samples, jfk(), N * sizeof(float));
    assert_string_equal(audio.warning,
                        "channels 1 and 2 cancel each other, channel 2 was inverted");
    vo_audio_free(&audio);
    audio = mix_wav((const float[]){-0.7f, 1}, 2, -1);
    assert_true(correlation(audio.samples, N, jfk(), N, 0) > 0.9999);
    assert_true(rms(audio.samples, N) > 0.8 * rms(jfk(), N));
    assert_non_null(strstr(audio.warning, "channel 1 was inverted"));
    vo_audio_free(&audio);
    /* A little crosstalk of opposite sign takes nothing away: left alone. */
    audio = mix_wav((const float[]){1, -0.1f}, 2, -1);
    assert_string_equal(audio.warning, "");
    assert_true(fabs(rms(audio.samples, N) / rms(jfk(), N) - 0.45) < 1e-4);
    vo_audio_free(&audio);
}

static void test_all_silent(void **state) {
    vo_audio audio = mix_wav((const float[]){0, 0}, 2, -1);
    assert_true(rms(audio.samples, N) == 0);
    assert_string_equal(audio.warning, "");
    vo_audio_free(&audio);
}

static void test_no_such_channel(void **state) {
    float *out, x[8] = {0};
    int64_t n;
    vo_error err = {0};
    assert_int_equal(vo_audio_convert(x, 4, 2, 16000, 2, &out, &n, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "channel 2 was asked for and there are 2"));
    assert_null(out);
}

/* A long recording: the decision about polarity falls before the end, silence is made good
 * over all blocks of the result. */
static void test_beyond_the_look_ahead(void **state) {
    enum { CHANNELS = 64, FRAMES = 20 * SECOND };
    float *x = vo_alloc_array((size_t)FRAMES * CHANNELS, sizeof(float)), *out;
    int64_t n;
    vo_error err = {0};
    for (int64_t i = 0; i < FRAMES; i++) {
        x[i * CHANNELS] = jfk()[i % JFK_SAMPLES];
        x[i * CHANNELS + 63] = -jfk()[i % JFK_SAMPLES];
    }
    assert_int_equal(vo_audio_convert(x, FRAMES, CHANNELS, 16000, -1, &out, &n, &err), VO_OK);
    assert_int_equal(n, FRAMES);
    for (int64_t i = 0; i < n; i++) assert_true(out[i] == jfk()[i % JFK_SAMPLES]);
    vo_free(out);
    vo_free(x);
}

/* Amplitude of one frequency in the middle of x (Hann window). */
static double tone(const float *x, int64_t n, double hz) {
    double re = 0, im = 0, sum = 0;
    for (int64_t i = n / 8; i < n - n / 8; i++) {
        double at = (double)(i - n / 8) / (double)(n - n / 8 - n / 8);
        double w = 0.5 - 0.5 * cos(2 * PI * at);
        re += w * x[i] * cos(2 * PI * hz * (double)i / SECOND);
        im += w * x[i] * sin(2 * PI * hz * (double)i / SECOND);
        sum += w;
    }
    return 2 * sqrt(re * re + im * im) / sum;
}

static void test_tones_through_the_resampler(void **state) {
    static const int rates[] = {8000, 11025, 22050, 32000, 44100, 48000, 96000, 192000};
    for (int r = 0; r < 8; r++) {
        int64_t frames = 2 * rates[r], n;
        float *x = vo_alloc_array((size_t)frames, sizeof(float)), *out;
        vo_error err = {0};
        for (int64_t i = 0; i < frames; i++) {
            double t = (double)i / rates[r];
            x[i] = (float)(0.3 * sin(2 * PI * 1000 * t) + 0.2 * sin(2 * PI * 3500 * t));
            if (rates[r] > 20000) x[i] += (float)(0.3 * sin(2 * PI * 9000 * t));
        }
        assert_int_equal(vo_audio_convert(x, frames, 1, rates[r], -1, &out, &n, &err), VO_OK);
        assert_true(llabs(n - 2 * SECOND) <= 1);
        assert_true(fabs(tone(out, n, 1000) - 0.3) < 3e-4);
        assert_true(fabs(tone(out, n, 3500) - 0.2) < 1e-3);
        /* 9 kHz would fold to 7 kHz: at least 100 dB down. */
        if (rates[r] > 20000) assert_true(tone(out, n, 7000) < 3e-6);
        vo_free(out);
        vo_free(x);
    }
}

/* The resampler delays nothing: a click stays in its place. */
static void test_time_is_kept(void **state) {
    static float x[48000];
    float *out;
    int64_t n, top = 0;
    vo_error err = {0};
    x[24000] = 1;
    assert_int_equal(vo_audio_convert(x, 48000, 1, 48000, -1, &out, &n, &err), VO_OK);
    for (int64_t i = 0; i < n; i++)
        if (out[i] > out[top]) top = i;
    assert_int_equal(top, 8000);
    vo_free(out);
}

static void test_odd_arguments(void **state) {
    float *out, x[4] = {1, NAN, 3, 4};
    int64_t n;
    vo_error err = {0};
    assert_int_equal(vo_audio_convert(x, 0, 1, 44100, -1, &out, &n, &err), VO_OK);
    assert_int_equal(n, 0);
    assert_non_null(out);
    vo_free(out);
    assert_int_equal(vo_audio_convert(x, 4, 1, 16000, -1, &out, &n, &err), VO_OK);
    assert_int_equal(n, 4);
    assert_true(out[0] == 1 && out[1] == 0 && out[3] == 4);
    vo_free(out);
    assert_int_equal(vo_audio_convert(x, 1, 4, 16000, 2, &out, &n, &err), VO_OK);
    assert_true(n == 1 && out[0] == 3);
    vo_free(out);
    assert_int_equal(vo_audio_convert(x, -1, 1, 16000, -1, &out, &n, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_audio_convert(x, 4, 0, 16000, -1, &out, &n, NULL), VO_ERR_FORMAT);
    assert_int_equal(vo_audio_convert(x, 4, 1, 0, -1, &out, &n, NULL), VO_ERR_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_in_both),
        cmocka_unit_test(test_mean_of_unlike),
        cmocka_unit_test(test_speaker_per_channel),
        cmocka_unit_test(test_silent_channel),
        cmocka_unit_test(test_anti_phase),
        cmocka_unit_test(test_all_silent),
        cmocka_unit_test(test_no_such_channel),
        cmocka_unit_test(test_beyond_the_look_ahead),
        cmocka_unit_test(test_tones_through_the_resampler),
        cmocka_unit_test(test_time_is_kept),
        cmocka_unit_test(test_odd_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
