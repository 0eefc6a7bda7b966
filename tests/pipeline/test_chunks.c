/* SPDX-License-Identifier: MIT
 *
 * Chunks cover all speech, do not overlap, fit a window, are as few as possible, and are cut at
 * the longest pauses.
 */
#include "pipeline/chunks.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { WINDOW = 3000, ROOM = 2798 }; /* frames of a chunk, and of speech in it */

static vo_chunk *merge(const vocis_span *spans, int n_spans, double duration, int *n) {
    vo_chunk *chunks = NULL;
    vo_error err = {0};
    assert_int_equal(vo_chunks_merge(spans, n_spans, duration, WINDOW, &chunks, n, &err), VO_OK);
    return chunks;
}

static void test_nothing(void **state) {
    int n = 7;
    assert_null(merge(NULL, 0, 10, &n));
    assert_int_equal(n, 0);
}

static void test_padding(void **state) {
    const vocis_span spans[] = {{0.1, 1.0}, {40.0, 41.0}, {80.0, 99.95}};
    int n;
    vo_chunk *c = merge(spans, 3, 100, &n);
    assert_int_equal(n, 3);
    assert_int_equal(c[0].start, 0);
    assert_int_equal(c[0].end, 200);
    assert_int_equal(c[0].quiet, 100);
    assert_int_equal(c[1].start, 3900);
    assert_int_equal(c[1].end, 4200);
    assert_int_equal(c[2].end, 10000);
    assert_int_equal(c[2].quiet, 5);
    vo_free(c);
}

static void test_close_neighbours_meet_halfway(void **state) {
    const vocis_span spans[] = {{0, 20}, {20.3, 40}};
    int n;
    vo_chunk *c = merge(spans, 2, 40, &n);
    assert_int_equal(n, 2);
    assert_int_equal(c[0].end, 2015);
    assert_int_equal(c[0].quiet, 15);
    assert_int_equal(c[1].start, 2015);
    vo_free(c);
}

/* Two cuts are possible with two chunks; the longer pause is taken. */
static void test_the_longest_pause_is_cut(void **state) {
    const vocis_span spans[] = {{0, 14}, {15, 25}, {25.2, 28}, {28.3, 42}};
    int n;
    vo_chunk *c = merge(spans, 4, 42, &n);
    assert_int_equal(n, 2);
    assert_int_equal(c[0].end, 1450);
    assert_int_equal(c[1].start, 1450);
    vo_free(c);
}

static int fewest(const vocis_span *spans, int n) {
    int count = 0;
    for (int i = 0; i < n;) { /* greedy filling is optimal in number */
        int from = i++;
        while (i < n && spans[i].end - spans[from].start <= ROOM / 100.0) i++;
        count++;
    }
    return count;
}

static void test_random_speech(void **state) {
    enum { MOST = 60 };
    srand(1);
    for (int round = 0; round < 500; round++) {
        vocis_span spans[MOST];
        const int n_spans = 1 + rand() % MOST;
        double t = rand() % 300 / 100.0;
        for (int i = 0; i < n_spans; i++) {
            spans[i].start = t;
            t += 0.1 + rand() % (round % 2 ? 400 : 2780) / 100.0;
            spans[i].end = t;
            t += 0.16 + (rand() % 4 ? rand() % 50 : rand() % 1000) / 100.0;
        }
        int n, at = 0;
        vo_chunk *c = merge(spans, n_spans, t, &n);
        assert_int_equal(n, fewest(spans, n_spans));
        for (int i = 0; i < n; i++) {
            assert_true(c[i].start >= (i ? c[i - 1].end : 0) && c[i].end > c[i].start);
            assert_true(c[i].end - c[i].start <= WINDOW && c[i].quiet >= 0 && c[i].quiet <= 100);
            while (at < n_spans && spans[at].end <= (double)c[i].end / 100) {
                assert_true(spans[at].start >= (double)c[i].start / 100 - 1e-9);
                assert_true(spans[at].end <= (double)(c[i].end - c[i].quiet) / 100 + 1e-9);
                at++;
            }
        }
        assert_int_equal(at, n_spans);
        vo_free(c);
    }
}

/* ---- sound ---------------------------------------------------------------------------------- */

enum { STEPS = 2000 }; /* 64 s */

/* Speech until 10 and from 54 s on; from 11 s to `end`, sound. */
static bool holds_sound(float everywhere, float sound, double end) {
    static float probabilities[STEPS], levels[STEPS];
    vo_voice voice = {.probabilities = probabilities,
                      .bands = levels,
                      .n = STEPS,
                      .n_samples = (int64_t)STEPS * VO_SILERO_WINDOW};
    vo_chunk *chunks = NULL;
    vo_error err = {0};
    int n = 0;
    bool held = false;
    for (int i = 0; i < STEPS; i++) {
        const double t = i * VO_VOICE_STEP;
        const bool spoken = t < 10 || t >= 54;
        const bool loud = t >= 11 && t < end;
        probabilities[i] = spoken ? 0.9f : 0.01f;
        levels[i] = spoken ? 0.1f : loud ? sound : everywhere;
    }
    vocis_span speech[] = {{0, 10}, {54, 64}};
    voice.spans = speech;
    voice.n_spans = 2;
    assert_int_equal(vo_voice_find_sounds(&voice, &err), VO_OK);
    assert_int_equal(vo_chunks_find(&voice, WINDOW, &chunks, &n, &err), VO_OK);
    vo_free(voice.loud);
    vo_free(voice.sounds);
    for (int i = 0; i < n; i++)
        held |= chunks[i].start <= 1110 && (double)chunks[i].end >= end * 100 - 10;
    vo_free(chunks);
    return held;
}

/* A voice may be in it that the detector does not hear. */
static void test_loud_sound(void **state) {
    assert_true(holds_sound(0.001f, 0.05f, 16));
    assert_true(holds_sound(0.001f, 0.05f, 38));
    assert_false(holds_sound(0.001f, 0.05f, 50)); /* music */
    assert_false(holds_sound(0.001f, 0.01f, 16)); /* too soft beside the speech */
    assert_false(holds_sound(0.04f, 0.05f, 16));  /* it always sounds like that */
    assert_true(holds_sound(0.02f, 0.05f, 16));   /* and here it does not */
}

static void test_quietest(void **state) {
    float levels[] = {1, 0.5f, 0.2f, 0.1f, 0.3f, 0.05f};
    const vo_voice voice = {.levels = levels, .n = 6};
    const double step = VO_VOICE_STEP;
    assert_true(vo_voice_quietest(&voice, 0, 5 * step) == 3.5 * step);
    assert_true(vo_voice_quietest(&voice, -1, 9) == 5.5 * step);
    assert_true(vo_voice_quietest(&voice, 10, 12) == 11);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_close_neighbours_meet_halfway),
        cmocka_unit_test(test_the_longest_pause_is_cut),
        cmocka_unit_test(test_random_speech),
        cmocka_unit_test(test_loud_sound),
        cmocka_unit_test(test_quietest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
