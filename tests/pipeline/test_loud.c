/* SPDX-License-Identifier: MIT
 *
 * Levels of an input, in all and where speech is loudest.
 */
#include "pipeline/speech.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { N = 8000 }; /* half a second, 15 windows and a part of one */

/* Level in the band of a tone, against its level in all; of the windows that see no end */
static double share_in_band(double hertz) {
    static float samples[N];
    for (int i = 0; i < N; i++)
        samples[i] = (float)(0.5 * sin(2 * 3.14159265358979 * hertz * i / VO_SILERO_RATE));
    vo_voice voice = {.n = N / VO_SILERO_WINDOW + 1, .n_samples = N};
    assert_int_equal(vo_voice_find_levels(&voice, samples, NULL), VO_OK);
    double least = 9, most = 0;
    for (int64_t i = 1; i + 2 < voice.n; i++) {
        const double share = (double)(voice.bands[i] / voice.levels[i]);
        assert_float_equal(voice.levels[i], 0.3535, 0.03);
        least = fmin(least, share);
        most = fmax(most, share);
    }
    assert_float_equal(least, most, 0.02);
    vo_voice_free(&voice);
    return most;
}

static void test_band(void **state) {
    (void)state;
    assert_true(share_in_band(30) < 0.02); /* a rumble, */
    assert_true(share_in_band(100) < 0.2); /* a hum, */
    assert_true(share_in_band(400) > 0.8); /* voices */
    assert_true(share_in_band(1000) > 0.8);
    assert_true(share_in_band(3000) > 0.6);
    assert_true(share_in_band(7500) < 0.1); /* and a hiss */
}

static void test_ends(void **state) {
    (void)state;
    float samples[VO_SILERO_WINDOW + 1] = {0};
    vo_voice voice = {.n = 2, .n_samples = VO_SILERO_WINDOW + 1};
    samples[3] = NAN;
    samples[4] = -INFINITY;
    samples[VO_SILERO_WINDOW] = 0.5f; /* all of the last window */
    assert_int_equal(vo_voice_find_levels(&voice, samples, NULL), VO_OK);
    assert_float_equal(voice.levels[0], 0, 0);
    assert_float_equal(voice.levels[1], 0.5, 1e-6);
    assert_true(voice.bands[0] > 0 && voice.bands[0] < 0.02f); /* it sees the next window */
    assert_float_equal(voice.bands[1], 0.25 - 0.5 / 49, 1e-4);
    vo_voice_free(&voice);
    voice = (vo_voice){0};
    assert_int_equal(vo_voice_find_levels(&voice, samples, NULL), VO_OK);
    vo_voice_free(&voice);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_band), cmocka_unit_test(test_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
