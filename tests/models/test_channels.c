/* SPDX-License-Identifier: MIT
 *
 * Channels by their envelopes, with one clip as every voice: which recordings have a speaker in
 * each, and what comes over from one to another.
 */
#include "pipeline/channels.h"

#include "audio/audio.h"
#include "base/memory.h"
#include "models/support_real.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static vocis_engine *engine;
static vo_audio clip; /* 11 s; speech from 0.3 to 2.3, 3.3 to 4.5, 5.4 to 7.7, 8.2 to 10.6 s */

enum { SECOND = VOCIS_SAMPLE_RATE };

static int set_up(void **state) {
    vo_audio_params params = vo_audio_default_params();
    engine = real_engine(1, NULL);
    return engine && vo_audio_load(REAL_JFK, &params, &clip, NULL) == VO_OK ? 0 : -1;
}

static int tear_down(void **state) {
    vo_audio_free(&clip);
    real_engine_destroy(engine);
    return 0;
}

/* The clip's seconds [from, to), silence elsewhere, and a faint noise: vo_free. */
static float *part(double from, double to, float gain) {
    float *x = vo_alloc_array((size_t)clip.n_samples, sizeof *x);
    for (int64_t i = 0; i < clip.n_samples; i++) {
        const double at = (double)i / SECOND;
        x[i] = at >= from && at < to ? gain * clip.samples[i] : 0;
        x[i] += 1e-4f * ((float)rand() / (float)RAND_MAX - 0.5f);
    }
    return x;
}

static bool separate(const float *left, const float *right) {
    bool is = false;
    assert_int_equal(vo_channels_separate(engine, left, right, clip.n_samples, &is, NULL), VO_OK);
    return is;
}

static void test_separate(void **state) {
    float *all = part(0, 11, 1), *first = part(0, 5, 1), *second = part(5, 11, 1);
    float *faint = part(5, 11, 0.1f), *against = part(0, 11, -0.5f), *noise = part(0, 0, 0);
    float *bleed = part(0, 11, 0.03f), *late = part(0, 0, 0);
    for (int64_t i = 300; i < clip.n_samples; i++) late[i] = 0.7f * all[i - 300];
    assert_true(separate(first, second));
    assert_true(separate(second, first));
    assert_true(separate(first, faint)); /* a caller who is 20 dB weaker */
    assert_false(separate(all, all));
    assert_false(separate(all, against));
    assert_false(separate(all, bleed));
    assert_false(separate(all, late)); /* another microphone */
    assert_false(separate(all, noise));
    assert_false(separate(noise, noise));
    float *all_of_them[] = {all, first, second, faint, against, noise, bleed, late};
    for (int i = 0; i < 8; i++) vo_free(all_of_them[i]);
}

static double power(const float *x, double from, double to) {
    double sum = 0;
    for (int64_t i = (int64_t)(from * SECOND); i < (int64_t)(to * SECOND); i++)
        sum += (double)x[i] * (double)x[i];
    return sum / (to - from) / SECOND;
}

/* The left speaker has the first half, the right one the second; each is heard 20 dB weaker in
 * the other channel. */
static void test_gate(void **state) {
    float *left = part(0, 5, 1), *right = part(5, 11, 1);
    float *x = vo_alloc_array((size_t)clip.n_samples, sizeof *x);
    float *y = vo_alloc_array((size_t)clip.n_samples, sizeof *y);
    for (int64_t i = 0; i < clip.n_samples; i++) {
        x[i] = left[i] + 0.1f * right[i];
        y[i] = right[i] + 0.1f * left[i];
    }
    float *channels[] = {x, y};
    assert_int_equal(vo_channels_gate(channels, 2, clip.n_samples, NULL), VO_OK);
    assert_true(fabs(power(x, 0.5, 2.2) / power(left, 0.5, 2.2) - 1) < 0.05);
    assert_true(fabs(power(y, 5.6, 7.5) / power(right, 5.6, 7.5) - 1) < 0.05);
    assert_true(power(x, 5.6, 7.5) < 1e-6 * power(right, 5.6, 7.5));
    assert_true(power(y, 0.5, 2.2) < 1e-6 * power(left, 0.5, 2.2));
    vo_free(left);
    vo_free(right);
    vo_free(x);
    vo_free(y);
}

static void test_turns(void **state) {
    vocis_audio channels[2] = {{.samples = part(0, 5, 1), .n_samples = clip.n_samples},
                               {.samples = part(5, 11, 1), .n_samples = clip.n_samples}};
    vocis_turn *turns = NULL;
    int n = 0;
    vo_error err = {0};
    assert_int_equal(vo_channels_diarize(engine, channels, 2, &turns, &n, &err), VO_OK);
    assert_true(n >= 3);
    for (int i = 0; i < n; i++) assert_int_equal(turns[i].speaker, turns[i].start > 4.9);
    vo_free(turns);
    for (int after = 0, failed = 1; failed; after++) {
        err = (vo_error){0};
        const size_t before = vo_memory_get_stats().active_bytes;
        vo_memory_fail_after(after, true);
        vo_status status = vo_channels_diarize(engine, channels, 2, &turns, &n, &err);
        failed = vo_memory_fail_after(-1, false);
        assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
        if (!failed) vo_free(turns);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
        if (after > 8) after += after / 4; /* the network has many */
    }
    vo_free(channels[0].samples);
    vo_free(channels[1].samples);
    assert_int_equal(vo_channels_diarize(engine, channels, 0, &turns, &n, &err), VO_ERR_ARGUMENT);
    assert_int_equal(vo_channels_diarize(engine, channels, 65, &turns, &n, &err), VO_ERR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_separate), cmocka_unit_test(test_gate),
                                       cmocka_unit_test(test_turns)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
