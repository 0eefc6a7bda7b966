/* SPDX-License-Identifier: MIT
 *
 * The way of live sound: the ring between two threads, devices that are lost and come back, and
 * samples that leave a decoder as they are made.
 */
#include "support_audio.h"

#include "audio/capture.h"
#include "base/clock.h"
#include "base/thread.h"

#include <math.h>
#include <stdatomic.h>

/* ---- ring ---------------------------------------------------------------------------------- */

static vo_ring *ring_of(int64_t samples) {
    vo_error err = {0};
    vo_ring *ring = vo_ring_create(samples, &err);
    if (!ring) fail_msg("%s", err.message);
    return ring;
}

static void test_ring_keeps_order(void **state) {
    vo_ring *ring = ring_of(8);
    float next_in = 0, next_out = 0;
    for (int round = 0; round < 100; round++) {
        float in[8], out[8];
        const int n = round % 8 + 1;
        for (int i = 0; i < n; i++) in[i] = next_in++;
        assert_int_equal(vo_ring_write(ring, in, n), n);
        assert_int_equal(vo_ring_read(ring, out, 8), n);
        for (int i = 0; i < n; i++) assert_true(out[i] == next_out++);
    }
    assert_int_equal(vo_ring_lost(ring), 0);
    vo_ring_destroy(ring);
}

static void test_ring_counts_what_it_drops(void **state) {
    const float in[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    float out[10];
    vo_ring *ring = ring_of(8);
    assert_int_equal(vo_ring_write(ring, in, 6), 6);
    assert_int_equal(vo_ring_write(ring, in + 6, 4), 2);
    assert_int_equal(vo_ring_lost(ring), 2);
    assert_int_equal(vo_ring_write(ring, in, 3), 0);
    assert_int_equal(vo_ring_lost(ring), 5);
    assert_int_equal(vo_ring_read(ring, out, 10), 8);
    for (int i = 0; i < 8; i++) assert_true(out[i] == in[i]);
    assert_int_equal(vo_ring_read(ring, out, 10), 0);
    assert_int_equal(vo_ring_write(ring, in, 0), 0);
    assert_int_equal(vo_ring_read(ring, out, -1), 0);
    vo_ring_destroy(ring);
    vo_error err = {0};
    assert_null(vo_ring_create(0, &err));
    assert_int_equal(err.status, VO_ERR_MEMORY);
}

enum { COUNTED = 200000 };

static void write_numbers(void *arg) {
    vo_ring *ring = arg;
    for (int64_t at = 0; at < COUNTED;) {
        float block[37];
        int64_t n = COUNTED - at < 37 ? COUNTED - at : 37;
        for (int64_t i = 0; i < n; i++) block[i] = (float)(at + i);
        at += vo_ring_write(ring, block, n);
    }
}

static void test_ring_between_threads(void **state) {
    vo_error err = {0};
    vo_ring *ring = ring_of(64);
    vo_thread *writer = vo_thread_create(write_numbers, ring, &err);
    assert_non_null(writer);
    for (int64_t at = 0; at < COUNTED;) {
        float block[50];
        const int64_t n = vo_ring_read(ring, block, 50);
        for (int64_t i = 0; i < n; i++) assert_true(block[i] == (float)(at + i));
        at += n;
    }
    vo_thread_join(writer);
    vo_ring_destroy(ring);
}

/* ---- devices ------------------------------------------------------------------------------- */

/* Obeys the test: no thread, no clock. */
typedef struct toy {
    vo_device device;
    vo_ring *ring;
    int rate, opened, closed, refuse;
    bool running, ended;
    bool *destroyed;
} toy;

static vo_status toy_open(vo_device *device, vo_ring *ring, int *rate, vo_error *err) {
    toy *t = (toy *)device;
    if (t->refuse > 0) {
        t->refuse--;
        return vo_fail(err, VO_ERR_NOT_FOUND, "unplugged");
    }
    t->opened++;
    t->ring = ring;
    t->running = true;
    *rate = t->rate;
    return VO_OK;
}
static bool toy_running(vo_device *device) {
    return ((toy *)device)->running;
}
static bool toy_ended(vo_device *device) {
    return ((toy *)device)->ended;
}
static void toy_close(vo_device *device) {
    ((toy *)device)->closed++;
    ((toy *)device)->ring = NULL;
}
static void toy_destroy(vo_device *device) {
    *((toy *)device)->destroyed = true;
    vo_free(device);
}

static toy *toy_create(int rate, bool *destroyed) {
    toy *t = vo_alloc(sizeof *t);
    assert_non_null(t);
    *destroyed = false;
    t->device = (vo_device){.open = toy_open,
                            .is_running = toy_running,
                            .has_ended = toy_ended,
                            .close = toy_close,
                            .destroy = toy_destroy};
    t->rate = rate;
    t->destroyed = destroyed;
    return t;
}

static vo_capture *capture_of(vo_device *device) {
    vo_error err = {0};
    vo_capture *c = NULL;
    if (vo_capture_create(device, &c, &err) != VO_OK) fail_msg("%s", err.message);
    return c;
}

static void test_a_device_that_is_lost_comes_back(void **state) {
    bool destroyed;
    float in[160], out[16000];
    toy *t = toy_create(16000, &destroyed);
    vo_capture *c = capture_of(&t->device);
    for (int i = 0; i < 160; i++) in[i] = (float)(i + 1);
    vo_ring_write(t->ring, in, 160);
    assert_int_equal(vo_capture_read(c, out, 16000, 1), 160);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(vo_capture_read(c, out, 16000, 0), 0);

    t->running = false;
    t->refuse = 1; /* at once it is not there, half a second later it is */
    const double begin = vo_clock_seconds();
    int64_t silence = 0;
    while (t->opened < 2 && vo_clock_seconds() - begin < 20) {
        const int64_t n = vo_capture_read(c, out, 16000, 0.05);
        assert_true(n >= 0);
        for (int64_t i = 0; i < n; i++) assert_true(out[i] == 0);
        silence += n;
    }
    const double away = vo_clock_seconds() - begin;
    assert_int_equal(t->opened, 2);
    assert_int_equal(t->closed, 1);
    assert_true(away >= 0.5);
    /* Silence as long as it was away: what the caller's clock says, but for a last piece. */
    assert_true((double)silence <= away * 16000 + 1);
    assert_true((double)silence >= (away - 0.3) * 16000);
    const vo_capture_stats stats = vo_capture_get_stats(c);
    assert_int_equal(stats.losses, 1);
    assert_true(stats.connected);

    vo_ring_write(t->ring, in, 160);
    assert_int_equal(vo_capture_read(c, out, 16000, 1), 160);
    assert_memory_equal(in, out, sizeof in);
    t->ended = true;
    assert_int_equal(vo_capture_read(c, out, 16000, 1), -1);
    vo_capture_destroy(c);
    assert_true(destroyed);
}

static void test_a_silent_device_is_lost(void **state) {
    bool destroyed;
    float out[1600];
    toy *t = toy_create(16000, &destroyed);
    vo_capture *c = capture_of(&t->device);
    const double begin = vo_clock_seconds();
    while (t->opened < 2 && vo_clock_seconds() - begin < 20) vo_capture_read(c, out, 1600, 0.05);
    assert_int_equal(t->opened, 2);
    assert_true(vo_clock_seconds() - begin >= 2);
    vo_capture_destroy(c);
}

static void test_overruns_are_counted(void **state) {
    bool destroyed;
    float *block = vo_alloc_array(48000, sizeof *block);
    toy *t = toy_create(48000, &destroyed);
    vo_capture *c = capture_of(&t->device);
    for (int i = 0; i < 40; i++) vo_ring_write(t->ring, block, 48000);
    const int64_t lost = vo_capture_get_stats(c).lost_samples;
    assert_true(lost >= 16000 * 29 && lost < 16000 * 30 + 1);
    vo_capture_destroy(c);
    vo_free(block);
}

/* 440 Hz at 48 kHz is 440 Hz at 16 kHz. */
static void test_other_rates_are_converted(void **state) {
    enum { N = 48000 };
    const double turn = 2 * 3.14159265358979323846 * 440;
    bool destroyed;
    float *in = vo_alloc_array(N, sizeof *in), *out = vo_alloc_array(N, sizeof *out);
    toy *t = toy_create(48000, &destroyed);
    vo_capture *c = capture_of(&t->device);
    for (int i = 0; i < N; i++) in[i] = (float)sin(turn * i / 48000);
    vo_ring_write(t->ring, in, N);
    int64_t have = 0;
    for (int64_t n = 1; n > 0; have += n) n = vo_capture_read(c, out + have, 100, 0);
    assert_true(have > 15000 && have <= 16000);
    for (int64_t i = 0; i < 8000; i++)
        assert_true(fabs((double)out[4000 + i] - sin(turn * (double)(4000 + i) / 16000)) < 0.01);
    vo_capture_destroy(c);
    vo_free(in);
    vo_free(out);
}

static void test_a_device_that_is_not_there(void **state) {
    bool destroyed;
    vo_error err = {0};
    vo_capture *c = NULL;
    toy *t = toy_create(16000, &destroyed);
    t->refuse = 1;
    assert_int_equal(vo_capture_create(&t->device, &c, &err), VO_ERR_NOT_FOUND);
    assert_null(c);
    assert_true(destroyed);
}

static void test_portaudio_answers(void **state) {
    vo_error err = {0};
    vo_input_device *devices = NULL;
    vo_device *device = NULL;
    vo_capture *c = NULL;
    int n = -1;
    assert_int_equal(vo_portaudio_list(&devices, &n, &err), VO_OK);
    assert_true(n >= 0);
    vo_free(devices);
    assert_int_equal(vo_portaudio_create("no such microphone", &device, &err), VO_OK);
    assert_int_equal(vo_capture_create(device, &c, &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no such microphone"));
}

static void test_a_file_plays_in_real_time(void **state) {
    enum { N = 8000 };
    vo_error err = {0};
    vo_buf buf = {0};
    vo_device *device = NULL;
    float *out = vo_alloc_array(N + 1600, sizeof *out);
    put_jfk_wav(&buf, N);
    assert_int_equal(vo_playback_create(temp_file("half.wav", &buf), &device, &err), VO_OK);
    const double begin = vo_clock_seconds();
    vo_capture *c = capture_of(device);
    int64_t have = 0, n;
    while ((n = vo_capture_read(c, out + have, 1600, 1)) > 0 && have <= N) have += n;
    assert_int_equal(n, -1);
    assert_int_equal(have, N);
    assert_true(max_difference(out, jfk(), N) == 0);
    assert_true(vo_clock_seconds() - begin >= 0.49);
    vo_capture_destroy(c);
    vo_free(out);
    vo_buf_free(&buf);
    assert_int_equal(vo_playback_create("no/such/file.wav", &device, &err), VO_ERR_NOT_FOUND);
}

/* ---- samples as they are decoded ----------------------------------------------------------- */

typedef struct sunk {
    float *samples;
    int64_t n, largest, stop_after;
} sunk;

static bool sink(void *user, const float *samples, int64_t n) {
    sunk *s = user;
    s->samples = vo_realloc(s->samples, (size_t)(s->n + n) * sizeof *samples);
    memcpy(s->samples + s->n, samples, (size_t)n * sizeof *samples);
    s->n += n;
    if (n > s->largest) s->largest = n;
    return !s->stop_after || s->n < s->stop_after;
}

static void same_as_whole(const vo_buf *buf, size_t piece) {
    vo_error err = {0};
    vo_audio whole = must_load(buf), told = {0};
    sunk got = {0};
    vo_audio_params params = vo_audio_default_params();
    params.sink = sink;
    params.sink_user = &got;
    if (load_bytes(buf, piece, &params, &told, &err) != VO_OK) fail_msg("%s", err.message);
    assert_null(told.samples);
    assert_int_equal(got.n, whole.n_samples);
    assert_int_equal(told.n_samples, whole.n_samples);
    assert_true(max_difference(got.samples, whole.samples, got.n) < 1e-6);
    assert_true(told.duration == whole.duration);
    assert_string_equal(told.format, whole.format);
    vo_free(got.samples);
    vo_audio_free(&whole);
}

static void test_samples_leave_as_they_come(void **state) {
    static const int formats[] = {SF_FORMAT_WAV | SF_FORMAT_PCM_16,
                                  SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_AIFF | SF_FORMAT_PCM_16};
    enum { N = 4 * 44100 };
    float *x = vo_alloc_array(2 * N, sizeof *x);
    for (int i = 0; i < N; i++) {
        x[2 * i] = jfk()[i % JFK_SAMPLES];
        x[2 * i + 1] = 0.5f * x[2 * i];
    }
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int channels = 1; channels <= 2; channels++) {
            vo_buf buf = {0};
            encode(&buf, formats[f], 44100, channels, x, N);
            same_as_whole(&buf, 0);
            same_as_whole(&buf, 777);
            vo_buf_free(&buf);
        }
    vo_free(x);
}

/* One channel is silent, or against the other: the first second says so. */
static void test_channels_are_judged_at_once(void **state) {
    enum { N = 3 * 16000 };
    float *x = vo_alloc_array(2 * N, sizeof *x);
    for (int against = 0; against < 2; against++) {
        vo_buf buf = {0};
        for (int i = 0; i < N; i++) {
            x[2 * i] = jfk()[i];
            x[2 * i + 1] = against ? -jfk()[i] : 0;
        }
        encode(&buf, SF_FORMAT_WAV | SF_FORMAT_FLOAT, 16000, 2, x, N);
        vo_error err = {0};
        vo_audio told = {0};
        sunk got = {0};
        vo_audio_params params = vo_audio_default_params();
        params.sink = sink;
        params.sink_user = &got;
        assert_int_equal(load_bytes(&buf, 0, &params, &told, &err), VO_OK);
        assert_int_equal(got.n, N);
        assert_true(fabs(rms(got.samples, N) / rms(jfk(), N) - 1) < 0.01);
        vo_free(got.samples);
        vo_buf_free(&buf);
    }
    vo_free(x);
}

/* A live source is not waited for longer than it takes to say 20 ms. */
static void test_a_stream_is_read_in_small_pieces(void **state) {
    vo_error err = {0};
    vo_buf buf = {0};
    vo_audio told = {0};
    sunk got = {0};
    vo_audio_params params = vo_audio_default_params();
    params.sink = sink;
    params.sink_user = &got;
    put_jfk_wav(&buf, 48000);
    assert_int_equal(load_bytes(&buf, 0, &params, &told, &err), VO_OK);
    assert_int_equal(got.n, 48000);
    assert_in_range(got.largest, 1, 16000 / 50 + 1);
    vo_free(got.samples);

    got = (sunk){.stop_after = 1000};
    assert_int_equal(load_bytes(&buf, 0, &params, &told, &err), VO_ERR_ABORTED);
    assert_in_range(got.n, 1000, 1400);
    vo_free(got.samples);
    vo_buf_free(&buf);
}

static int tear_down(void **state) {
    temp_cleanup();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_keeps_order),
        cmocka_unit_test(test_ring_counts_what_it_drops),
        cmocka_unit_test(test_ring_between_threads),
        cmocka_unit_test(test_a_device_that_is_lost_comes_back),
        cmocka_unit_test(test_a_silent_device_is_lost),
        cmocka_unit_test(test_overruns_are_counted),
        cmocka_unit_test(test_other_rates_are_converted),
        cmocka_unit_test(test_a_device_that_is_not_there),
        cmocka_unit_test(test_portaudio_answers),
        cmocka_unit_test(test_a_file_plays_in_real_time),
        cmocka_unit_test(test_samples_leave_as_they_come),
        cmocka_unit_test(test_channels_are_judged_at_once),
        cmocka_unit_test(test_a_stream_is_read_in_small_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
