/* SPDX-License-Identifier: MIT
 *
 * The spectrogram against the reference's (tools/golden/mel.py made tests/data/audio),
 * at every level this machine has and for several numbers of threads.
 */
#include "support_audio.h"

#include <math.h>
#include <time.h>

#include "audio/mel.h"

enum { PAD = 480000, STRIDE = 10 };
static const double ALLOWED = 2e-4; /* of the golden; 2e-5 is what is reached */

static vo_mel *make_mel(int n_mels) {
    vo_error err = {0};
    vo_mel *mel = vo_mel_create(n_mels, &err);
    if (!mel) fail_msg("%s", err.message);
    assert_int_equal(vo_mel_count(mel), n_mels);
    return mel;
}

static void test_filters(void **state) {
    for (int n_mels = 80; n_mels <= 128; n_mels += 48) {
        char path[64];
        int64_t shape[2];
        snprintf(path, sizeof(path), "tests/data/audio/mel_filters_%d.npy", n_mels);
        /* Rows of (filter, bin, weight): all that is not zero. */
        float *golden = read_npy(path, shape);
        float *filters = vo_mel_filters(n_mels);
        assert_int_equal(shape[1], 3);
        assert_true(shape[0] > 300);
        for (int64_t i = 0; i < shape[0]; i++) {
            float *f = &filters[(int)golden[3 * i] * VO_MEL_BINS + (int)golden[3 * i + 1]];
            if (fabsf(*f - golden[3 * i + 2]) > 1e-7f)
                fail_msg("filter %g, bin %g: %.9g instead of %.9g", golden[3 * i],
                         golden[3 * i + 1], *f, golden[3 * i + 2]);
            *f = 0;
        }
        for (int i = 0; i < n_mels * VO_MEL_BINS; i++) assert_true(fabsf(filters[i]) < 1e-7f);
        vo_free(filters);
        vo_free(golden);
    }
}

/* golden[n_mels][frames / stride], out[frames][n_mels] */
static double distance(const float *golden, const int64_t shape[2], int stride, const float *out,
                       int n_mels) {
    double most = 0;
    assert_int_equal(shape[0], n_mels);
    for (int64_t m = 0; m < shape[0]; m++)
        for (int64_t f = 0; f < shape[1]; f++) {
            double d = fabs((double)golden[m * shape[1] + f] - out[f * stride * n_mels + m]);
            if (!(d <= most)) most = d;
        }
    return most;
}

static void check(const char *path, int stride, int n_mels, int64_t pad, uint32_t flags) {
    int64_t shape[2];
    vo_kernels kernels;
    vo_error err = {0};
    float *golden = read_npy(path, shape);
    vo_mel *mel = make_mel(n_mels);
    const int64_t frames = (JFK_SAMPLES + pad) / VO_MEL_HOP;
    float *out = vo_alloc_array((size_t)(frames * n_mels), sizeof(float));
    vo_kernels_init(&kernels, flags);
    assert_true((shape[1] - 1) * stride < frames);
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, jfk(), JFK_SAMPLES, pad, out, &err),
                     VO_OK);
    double d = distance(golden, shape, stride, out, n_mels);
    print_message("%s, level %x: %.2g\n", path, flags, d);
    if (!(d <= ALLOWED)) fail_msg("%s, level %x: off by %g", path, flags, d);
    vo_free(out);
    vo_mel_destroy(mel);
    vo_free(golden);
}

static void test_goldens(void **state) {
    const uint32_t all = vo_cpu_detect();
    const uint32_t levels[] = {0, all & VO_CPU_AVX2, all & (VO_CPU_AVX2 | VO_CPU_AVX512), all};
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        check("tests/data/audio/jfk_mel80.npy", STRIDE, 80, 0, levels[i]);
        check("tests/data/audio/jfk_mel128.npy", STRIDE, 128, 0, levels[i]);
        check("tests/data/audio/jfk_mel80_pad30s.npy", STRIDE, 80, PAD, levels[i]);
    }
}

static void test_whole_goldens(void **state) {
    static const struct {
        const char *path;
        int n_mels;
        int64_t pad;
    } cases[] = {
        {"golden/whisper/jfk_mel80.npy", 80, 0},
        {"golden/whisper/jfk_mel128.npy", 128, 0},
        {"golden/whisper/jfk_mel80_pad30s_first1200.npy", 80, PAD},
        {"golden/whisper/jfk_mel128_pad30s_first1200.npy", 128, PAD},
    };
    for (int i = 0; i < 4; i++) {
        const char *path = data_path(cases[i].path);
        if (!path) {
            print_message("VOCIS_TEST_DATA is not set\n");
            skip();
        }
        char copy[1024];
        snprintf(copy, sizeof(copy), "%s", path);
        check(copy, 1, cases[i].n_mels, cases[i].pad, vo_cpu_detect());
    }
}

static void test_same_for_any_threads(void **state) {
    enum { FRAMES = (JFK_SAMPLES + PAD) / VO_MEL_HOP };
    const size_t bytes = (size_t)FRAMES * 80 * sizeof(float);
    float *one = vo_alloc(bytes), *many = vo_alloc(bytes);
    vo_mel *mel = make_mel(80);
    vo_kernels kernels;
    vo_error err = {0};
    vo_kernels_init(&kernels, vo_cpu_detect());
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, jfk(), JFK_SAMPLES, PAD, one, &err),
                     VO_OK);
    for (int threads = 1; threads <= 5; threads += 2) {
        vo_pool *pool = vo_pool_create(threads, &err);
        assert_non_null(pool);
        memset(many, 255, bytes);
        assert_int_equal(vo_mel_compute(mel, &kernels, pool, jfk(), JFK_SAMPLES, PAD, many, &err),
                         VO_OK);
        assert_memory_equal(one, many, bytes);
        vo_pool_destroy(pool);
    }
    vo_mel_destroy(mel);
    vo_free(one);
    vo_free(many);
}

/* Skipped silence has the value that computed silence has; so it does in the middle of a tile. */
static void test_silence(void **state) {
    enum { SAMPLES = 160 * 300, FRAMES = 300 };
    static float x[SAMPLES], out[FRAMES * 80];
    vo_mel *mel = make_mel(80);
    vo_kernels kernels;
    vo_error err = {0};
    vo_kernels_init(&kernels, 0);
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, x, SAMPLES, 0, out, &err), VO_OK);
    for (int i = 0; i < FRAMES * 80; i++) assert_true(fabsf(out[i] - -1.5f) < 1e-6f);
    /* One click: frames under it are heard, the others lie at the clamp, 8 below the loudest. */
    x[160 * 150] = 1;
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, x, SAMPLES, 0, out, &err), VO_OK);
    float top = out[0];
    for (int i = 0; i < FRAMES * 80; i++) top = out[i] > top ? out[i] : top;
    for (int f = 0; f < FRAMES; f++) {
        bool heard = f >= 149 && f <= 151;
        for (int m = 0; m < 80; m++)
            assert_true(heard ? out[f * 80 + m] > top - 1.5f : out[f * 80 + m] == top - 2);
    }
    vo_mel_destroy(mel);
}

/* Lengths around the window, the hop and the tile; the ends are mirrored as often as it takes. */
static void test_lengths(void **state) {
    static const int lengths[] = {0,   1,   2,   159, 160,   161,   199,   200,
                                  201, 399, 400, 401, 10239, 10240, 10241, 10400};
    vo_mel *mel = make_mel(80);
    vo_kernels kernels;
    vo_error err = {0};
    vo_kernels_init(&kernels, 0);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int64_t pad = 0; pad <= 200; pad += 100) {
            int64_t frames = (lengths[i] + pad) / VO_MEL_HOP;
            float *out = vo_alloc_array((size_t)frames * 80 + 1, sizeof(float));
            out[frames * 80] = 1234.5f; /* must stay */
            /* Exactly as long as it says, for the address sanitizer. */
            float *x = malloc((size_t)lengths[i] * sizeof(float) + 1);
            memcpy(x, jfk() + 20000, (size_t)lengths[i] * sizeof(float));
            assert_int_equal(vo_mel_compute(mel, &kernels, NULL, x, lengths[i], pad, out, &err),
                             VO_OK);
            for (int64_t k = 0; k < frames * 80; k++) assert_true(fabsf(out[k]) < 3);
            assert_true(out[frames * 80] == 1234.5f);
            free(x);
            vo_free(out);
        }
    }
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, NULL, -1, 0, NULL, &err), VO_ERR_ARGUMENT);
    vo_mel_destroy(mel);
    memset(&err, 0, sizeof(err));
    assert_null(vo_mel_create(0, &err));
    assert_int_equal(err.status, VO_ERR_ARGUMENT);
    assert_null(vo_mel_create(100000, NULL));
    vo_mel_destroy(NULL);
}

/* The last frames of a file without padding see its end mirrored; compared with a signal that
 * was mirrored by hand and lies in the middle of a longer one. */
static void test_mirrored_ends(void **state) {
    enum { SAMPLES = 160 * 20, LONG = SAMPLES + 2 * 160 * 5 };
    static float longer[LONG], a[20 * 80], b[30 * 80];
    const float *x = jfk() + 50000;
    vo_mel *mel = make_mel(80);
    vo_kernels kernels;
    vo_error err = {0};
    vo_kernels_init(&kernels, 0);
    for (int i = 0; i < LONG; i++) {
        int k = i - 160 * 5;
        if (k < 0) k = -k;
        if (k >= SAMPLES) k = 2 * (SAMPLES - 1) - k;
        longer[i] = x[k];
    }
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, x, SAMPLES, 0, a, &err), VO_OK);
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, longer, LONG, 0, b, &err), VO_OK);
    /* The longer one has frames of its own, so the two clamps may differ. */
    float low = a[0], least = b[0];
    for (int i = 0; i < 20 * 80; i++) low = a[i] < low ? a[i] : low;
    for (int i = 0; i < 30 * 80; i++) least = b[i] < least ? b[i] : least;
    if (least > low) low = least;
    int compared = 0;
    for (int i = 0; i < 20 * 80; i++) {
        if (a[i] <= low || b[5 * 80 + i] <= low) continue;
        assert_true(a[i] == b[5 * 80 + i]);
        compared++;
    }
    assert_true(compared > 10 * 80);
    vo_mel_destroy(mel);
}

/* Whatever comes in, what goes out is finite. */
static void test_huge_samples(void **state) {
    enum { SAMPLES = 160 * 10 };
    static float x[SAMPLES], out[10 * 80];
    vo_mel *mel = make_mel(80);
    vo_kernels kernels;
    vo_error err = {0};
    vo_kernels_init(&kernels, vo_cpu_detect());
    static const float values[] = {1e9f, 1e30f, INFINITY, NAN};
    for (int v = 0; v < 4; v++) {
        for (int i = 0; i < SAMPLES; i++) x[i] = i % 7 ? values[v] : -values[v];
        assert_int_equal(vo_mel_compute(mel, &kernels, NULL, x, SAMPLES, 0, out, &err), VO_OK);
        for (int i = 0; i < 10 * 80; i++) assert_true(isfinite(out[i]));
    }
    vo_mel_destroy(mel);
}

/* Processor time of this thread: what others do on the machine does not count. */
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A figure for the eye: 30 s of sound, and 30 s of nothing, on one core. */
static void test_speed(void **state) {
    enum { SAMPLES = 480000 };
    float *x = vo_alloc_array(SAMPLES, sizeof(float));
    float *out = vo_alloc_array((size_t)6000 * 80, sizeof(float));
    vo_mel *mel = make_mel(80);
    vo_kernels kernels;
    vo_error err = {0};
    double best = 1e9, both = 1e9;
    for (int i = 0; i < SAMPLES; i++) x[i] = jfk()[i % JFK_SAMPLES];
    vo_kernels_init(&kernels, vo_cpu_detect());
    for (int i = 0; i < 8; i++) {
        double t0 = thread_seconds();
        vo_mel_compute(mel, &kernels, NULL, x, SAMPLES, 0, out, &err);
        double t1 = thread_seconds();
        vo_mel_compute(mel, &kernels, NULL, x, SAMPLES, PAD, out, &err);
        double t2 = thread_seconds();
        if (t1 - t0 < best) best = t1 - t0;
        if (t2 - t1 < both) both = t2 - t1;
    }
    print_message("30 s of sound: %.2f ms, 30 s of padding: %.2f ms\n", best * 1e3,
                  (both - best) * 1e3);
    assert_true(both < 1.7 * best);
    vo_mel_destroy(mel);
    vo_free(x);
    vo_free(out);
}

/* Frames read on demand are those of the whole spectrogram, bit for bit, at any place. */
static void test_frames_on_demand(void **state) {
    (void)state;
    enum { ALL = (JFK_SAMPLES + PAD) / VO_MEL_HOP };
    static const int64_t first[] = {0, 1, 17, 1000, ALL - 30, ALL},
                         count[] = {1, 40, 333, 130, 30, 0};
    vo_error err = {0};
    vo_kernels kernels;
    vo_kernels_init(&kernels, vo_cpu_detect());
    vo_mel *mel = vo_mel_create(80, &err);
    float *whole = vo_alloc_array(ALL, 80 * sizeof *whole),
          *part = vo_alloc_array(ALL, 80 * sizeof *part);
    vo_spectrogram kept;
    assert_int_equal(vo_mel_compute(mel, &kernels, NULL, jfk(), JFK_SAMPLES, PAD, whole, &err),
                     VO_OK);
    assert_int_equal(
        vo_spectrogram_create(mel, &kernels, NULL, jfk(), JFK_SAMPLES, PAD, &kept, &err), VO_OK);
    assert_true(kept.stored < JFK_SAMPLES / VO_MEL_HOP + 3);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        assert_int_equal(vo_spectrogram_read(&kept, first[i], count[i], part, &err), VO_OK);
        assert_memory_equal(part, whole + first[i] * 80, (size_t)count[i] * 80 * sizeof *part);
    }
    assert_int_equal(vo_spectrogram_read(&kept, ALL - 3, 4, part, &err), VO_ERR_ARGUMENT);
    vo_spectrogram_free(&kept);
    vo_free(whole);
    vo_free(part);
    vo_mel_destroy(mel);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_on_demand),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_whole_goldens),
        cmocka_unit_test(test_same_for_any_threads),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_mirrored_ends),
        cmocka_unit_test(test_huge_samples),
        cmocka_unit_test(test_speed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
