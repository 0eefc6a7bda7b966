/* SPDX-License-Identifier: MIT
 *
 * Silero VAD: probabilities and time stamps against the reference package, and what a stream
 * promises: cutting it differently, other threads or another level change nothing, and nothing
 * is allocated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "audio/audio.h"
#include "base/memory.h"
#include "models/silero/silero.h"
#include "models/support_real.h"
#include "pipeline/speech.h"

static vocis_engine *engine;

static int set_up(void **state) {
    (void)state;
    engine = real_engine(1, NULL);
    return engine ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    real_engine_destroy(engine);
    return 0;
}

static vo_audio load(const char *path) {
    vo_error err = {0};
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    if (vo_audio_load(path, &reading, &audio, &err) != VO_OK) fail_msg("%s", err.message);
    return audio;
}

/* The audio of a golden at 16 kHz; false when the data folder has not got it. */
static bool load_clip(const char *name, const json_t *clip, vo_audio *audio) {
    const char *file = json_string_value(json_object_get(clip, "file"));
    if (json_integer_value(json_object_get(clip, "sr")) != VO_SILERO_RATE) return false;
    const char *path = real_data(file);
    if (!path) {
        print_message("%s: no %s\n", name, file);
        return false;
    }
    *audio = load(path);
    return true;
}

static json_t *golden(const char *name) {
    char relative[256];
    snprintf(relative, sizeof relative, "golden/silero/%s", name);
    const char *path = real_data(relative);
    return path ? json_load_file(path, 0, NULL) : NULL;
}

typedef struct stream {
    vo_silero *model;
    vo_silero_state *state;
} stream;

/* weights NULL: those inside the library. */
static stream open_stream(const vocis_engine *e, const char *weights) {
    vo_error err = {0};
    stream s = {0};
    vo_weights *file = NULL;
    vo_status status = weights ? vo_weights_open(weights, &file, &err) : VO_OK;
    if (status == VO_OK)
        status =
            weights ? vo_silero_load(file, &s.model, &err) : vo_silero_load_builtin(&s.model, &err);
    if (status == VO_OK)
        status = vo_silero_state_create(s.model, &e->runtime, e->pool, &s.state, &err);
    if (status != VO_OK) fail_msg("%s", err.message);
    return s;
}

static void close_stream(stream *s) {
    vo_silero_state_destroy(s->state);
    vo_silero_destroy(s->model);
}

/* All windows, the last one filled up with zeros: [*n], vo_free. */
static float *run_all(const stream *s, const float *samples, int64_t n_samples, int64_t *n) {
    vo_error err = {0};
    *n = (n_samples + VO_SILERO_WINDOW - 1) / VO_SILERO_WINDOW;
    float *padded = vo_alloc_array((size_t)(*n * VO_SILERO_WINDOW), sizeof *padded);
    float *p = vo_alloc_array((size_t)*n, sizeof *p);
    memcpy(padded, samples, (size_t)n_samples * sizeof *padded);
    assert_int_equal(vo_silero_run(s->state, padded, *n, p, &err), VO_OK);
    vo_free(padded);
    return p;
}

/* ---- the network --------------------------------------------------------------------------- */

static void expect_probabilities(const char *name, const float *p, int64_t n, const json_t *want) {
    double worst = 0;
    assert_int_equal(n, json_array_size(want));
    for (int64_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)p[i] - json_real_value(json_array_get(want, (size_t)i))));
    if (!(worst <= 1e-5)) fail_msg("%s: a probability is wrong by %.3g", name, worst);
}

static void test_probabilities(void **state) {
    (void)state;
    json_t *all = golden("silero_golden.json");
    if (!all) skip();
    stream s = open_stream(engine, NULL);
    const char *name;
    json_t *clip;
    int clips = 0;
    json_object_foreach(all, name, clip) {
        vo_audio audio;
        if (!load_clip(name, clip, &audio)) continue;
        clips++;
        assert_int_equal(audio.n_samples, json_integer_value(json_object_get(clip, "samples")));
        vo_silero_reset(s.state);
        int64_t n;
        float *p = run_all(&s, audio.samples, audio.n_samples, &n);
        expect_probabilities(name, p, n, json_object_get(json_object_get(clip, "probs"), "v6.2.1"));
        vo_free(p);
        vo_audio_free(&audio);
    }
    assert_true(clips >= 5);
    close_stream(&s);
    json_decref(all);
}

/* The same network with the weights of another file. */
static void test_other_weights(void **state) {
    (void)state;
    json_t *other = golden("jfk_other_containers.json");
    const char *path = real_data("snakers4__silero-vad/v6.2.1/silero_vad_16k.safetensors");
    if (!other || !path) skip();
    stream s = open_stream(engine, path);
    vo_audio audio = load("tests/data/audio/jfk.wav");
    int64_t n;
    float *p = run_all(&s, audio.samples, audio.n_samples, &n);
    expect_probabilities("other weights", p, n, json_object_get(other, "safetensors_16k"));
    vo_free(p);
    vo_audio_free(&audio);
    close_stream(&s);
    json_decref(other);
}

static void test_streams(void **state) {
    (void)state;
    vo_error err = {0};
    vo_audio audio = load("tests/data/audio/jfk.wav");
    stream s = open_stream(engine, NULL);
    int64_t n;
    float *whole = run_all(&s, audio.samples, audio.n_samples, &n), *p = vo_alloc((size_t)n * 4);
    n = audio.n_samples / VO_SILERO_WINDOW;
    vo_silero_reset(s.state);
    uint64_t before = vo_memory_get_stats().allocations;
    /* Pieces of 0, 1, 2, ... windows. */
    int64_t size = 0;
    for (int64_t at = 0; at < n; at += size, size++) {
        if (size > n - at) size = n - at;
        assert_int_equal(
            vo_silero_run(s.state, audio.samples + at * VO_SILERO_WINDOW, size, p + at, &err),
            VO_OK);
    }
    assert_int_equal(vo_memory_get_stats().allocations, before);
    assert_memory_equal(p, whole, (size_t)n * sizeof *p);
    /* Without a reset the stream goes on: other numbers. */
    assert_int_equal(vo_silero_run(s.state, audio.samples, 1, p, &err), VO_OK);
    assert_true(p[0] != whole[0]);
    close_stream(&s);
    /* Three threads. */
    vocis_engine *three = real_engine(3, NULL);
    s = open_stream(three, NULL);
    assert_int_equal(vo_silero_run(s.state, audio.samples, n, p, &err), VO_OK);
    assert_memory_equal(p, whole, (size_t)n * sizeof *p);
    close_stream(&s);
    real_engine_destroy(three);
    vo_free(p);
    vo_free(whole);
    vo_audio_free(&audio);
}

static void test_not_finite(void **state) {
    (void)state;
    vo_error err = {0};
    float samples[3 * VO_SILERO_WINDOW] = {0}, clean[3], dirty[3];
    for (int i = 0; i < 3 * VO_SILERO_WINDOW; i++) samples[i] = 0.1f * sinf(0.05f * (float)i);
    samples[100] = samples[700] = 0;
    stream s = open_stream(engine, NULL);
    assert_int_equal(vo_silero_run(s.state, samples, 3, clean, &err), VO_OK);
    vo_silero_reset(s.state);
    samples[100] = NAN;
    samples[700] = -INFINITY;
    assert_int_equal(vo_silero_run(s.state, samples, 3, dirty, &err), VO_OK);
    assert_memory_equal(clean, dirty, sizeof clean);
    close_stream(&s);
}

static void test_wrong_weights(void **state) {
    (void)state;
    vo_error err = {0};
    vo_weights *file;
    vo_silero *model = NULL;
    assert_int_equal(vo_weights_open("tests/data/formats/tiny/safetensors/silero.bin", &file, &err),
                     VO_OK);
    assert_int_equal(vo_silero_load(file, &model, &err), VO_ERR_FORMAT);
    assert_null(model);
    assert_non_null(strstr(err.message, "Silero"));
    vo_silero_destroy(NULL);
    vo_silero_state_destroy(NULL);
}

/* ---- the rules ----------------------------------------------------------------------------- */

static const struct {
    const char *name;
    float threshold, max_speech;
    int min_silence_ms, pad_ms;
    bool last;
} rule_sets[] = {{"default", 0.5f, INFINITY, 100, 30, false},
                 {"thr0.3_minsil500_pad200", 0.3f, INFINITY, 500, 200, false},
                 {"max5s", 0.5f, 5, 100, 30, false},
                 {"max5s_legacy", 0.5f, 5, 100, 30, true}};

static void expect_ranges(const char *name, const vo_speech_range *ranges, int n,
                          const json_t *want) {
    if ((size_t)n != json_array_size(want))
        fail_msg("%s: %d ranges, not %zu", name, n, json_array_size(want));
    for (int i = 0; i < n; i++) {
        const json_t *w = json_array_get(want, (size_t)i);
        int64_t begin = json_integer_value(json_object_get(w, "start"));
        int64_t end = json_integer_value(json_object_get(w, "end"));
        if (ranges[i].begin != begin || ranges[i].end != end)
            fail_msg("%s: range %d is %lld to %lld, not %lld to %lld", name, i,
                     (long long)ranges[i].begin, (long long)ranges[i].end, (long long)begin,
                     (long long)end);
    }
}

static void check_rules(const char *clip, const json_t *golden_clip, const char *version) {
    vo_error err = {0};
    const json_t *list = json_object_get(json_object_get(golden_clip, "probs"), version);
    const json_t *stamps = json_object_get(json_object_get(golden_clip, "timestamps"), version);
    size_t n = json_array_size(list);
    float *p = vo_alloc_array(n, sizeof *p);
    for (size_t i = 0; i < n; i++) p[i] = (float)json_real_value(json_array_get(list, i));
    for (size_t i = 0; i < sizeof rule_sets / sizeof *rule_sets; i++) {
        vocis_speech_params params = {.threshold = rule_sets[i].threshold,
                                      .min_speech_ms = 250,
                                      .min_silence_ms = rule_sets[i].min_silence_ms,
                                      .speech_pad_ms = rule_sets[i].pad_ms,
                                      .max_speech_seconds = rule_sets[i].max_speech};
        vo_speech_rules rules = vo_speech_make_rules(&params);
        rules.cut_at_last_silence = rule_sets[i].last;
        rules.rate = (int)json_integer_value(json_object_get(golden_clip, "sr"));
        rules.window = rules.rate * VO_SILERO_WINDOW / VO_SILERO_RATE;
        vo_speech_range *ranges = NULL;
        int n_ranges = 0;
        char name[128];
        snprintf(name, sizeof name, "%s %s %s", clip, version, rule_sets[i].name);
        assert_int_equal(vo_speech_find(p, (int64_t)n,
                                        json_integer_value(json_object_get(golden_clip, "samples")),
                                        &rules, &ranges, &n_ranges, &err),
                         VO_OK);
        expect_ranges(name, ranges, n_ranges, json_object_get(stamps, rule_sets[i].name));
        vo_free(ranges);
    }
    vo_free(p);
}

static void test_rules(void **state) {
    (void)state;
    json_t *all = golden("silero_golden.json");
    if (!all) skip();
    const char *name, *version;
    json_t *clip, *probabilities;
    int checked = 0;
    json_object_foreach(all, name, clip) {
        json_object_foreach(json_object_get(clip, "probs"), version, probabilities) {
            check_rules(name, clip, version);
            checked++;
        }
    }
    assert_int_equal(checked, 21);
    json_decref(all);
}

/* 100 windows of silence, with speech in [from, to). */
static int find_in(int from, int to, int from2, int to2, vocis_speech_params params,
                   vo_speech_range *first) {
    vo_error err = {0};
    float p[100];
    for (int i = 0; i < 100; i++)
        p[i] = (i >= from && i < to) || (i >= from2 && i < to2) ? 0.9f : 0.1f;
    vo_speech_range *ranges = NULL;
    int n = 0;
    vo_speech_rules rules = vo_speech_make_rules(&params);
    assert_int_equal(vo_speech_find(p, 100, 100 * 512 - 5, &rules, &ranges, &n, &err), VO_OK);
    if (n) *first = ranges[0];
    vo_free(ranges);
    return n;
}

static void test_edges(void **state) {
    (void)state;
    vocis_speech_params p = {0.5f, 250, 100, 30, INFINITY};
    vo_speech_range r = {0};
    assert_int_equal(find_in(0, 0, 0, 0, p, &r), 0);
    assert_int_equal(find_in(10, 17, 0, 0, p, &r), 0); /* 224 ms are too short */
    assert_int_equal(find_in(10, 18, 0, 0, p, &r), 1); /* 256 ms are not */
    assert_int_equal(r.begin, 10 * 512 - 480);
    assert_int_equal(r.end, 18 * 512 + 480);
    assert_int_equal(find_in(0, 100, 0, 0, p, &r), 1); /* padding stays inside */
    assert_int_equal(r.begin, 0);
    assert_int_equal(r.end, 100 * 512 - 5);
    assert_int_equal(find_in(10, 30, 33, 60, p, &r), 1); /* a gap of 96 ms joins */
    assert_int_equal(find_in(10, 30, 35, 60, p, &r), 2);
    assert_int_equal(r.end, 30 * 512 + 480);
    p.speech_pad_ms = 100; /* two pads do not fit into 160 ms: each gets half */
    assert_int_equal(find_in(10, 30, 35, 60, p, &r), 2);
    assert_int_equal(r.end, 30 * 512 + 5 * 256);
    p = (vocis_speech_params){0.5f, 250, 100, 0, 1};
    /* Cut where there is no silence; the last piece is too short. */
    assert_int_equal(find_in(0, 100, 0, 0, p, &r), 3);
    assert_int_equal(r.end, 31 * 512);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static const vocis_speech_params defaults = {0.5f, 250, 100, 30, INFINITY};

static void test_detect(void **state) {
    (void)state;
    /* What the package gives for this clip. */
    static const double want[][2] = {
        {5152, 36320}, {52256, 71136}, {86048, 122848}, {130592, 169952}};
    vo_error err = {0};
    vo_audio audio = load("tests/data/audio/jfk.wav");
    vocis_span *spans = NULL;
    int n = 0;
    assert_int_equal(
        vo_detect_speech(engine, audio.samples, audio.n_samples, &defaults, &spans, &n, &err),
        VO_OK);
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++) {
        assert_true(spans[i].start == want[i][0] / 16000);
        assert_true(spans[i].end == want[i][1] / 16000);
    }
    vo_free(spans);
    vo_audio_free(&audio);
}

static void test_detect_goldens(void **state) {
    (void)state;
    json_t *all = golden("silero_golden.json");
    if (!all) skip();
    const char *name;
    json_t *clip;
    int clips = 0;
    json_object_foreach(all, name, clip) {
        vo_audio audio;
        if (!load_clip(name, clip, &audio)) continue;
        clips++;
        const json_t *sets = json_object_get(json_object_get(clip, "timestamps"), "v6.2.1");
        for (size_t i = 0; i < 3; i++) {
            vo_error err = {0};
            vocis_speech_params params = {rule_sets[i].threshold, 250, rule_sets[i].min_silence_ms,
                                          rule_sets[i].pad_ms, rule_sets[i].max_speech};
            vocis_span *spans = NULL;
            int n = 0;
            assert_int_equal(
                vo_detect_speech(engine, audio.samples, audio.n_samples, &params, &spans, &n, &err),
                VO_OK);
            vo_speech_range *ranges = vo_alloc_array((size_t)n, sizeof *ranges);
            for (int k = 0; k < n; k++)
                ranges[k] = (vo_speech_range){llround(spans[k].start * 16000),
                                              llround(spans[k].end * 16000)};
            expect_ranges(name, ranges, n, json_object_get(sets, rule_sets[i].name));
            vo_free(ranges);
            vo_free(spans);
        }
        vo_audio_free(&audio);
    }
    assert_true(clips >= 5);
    json_decref(all);
}

static void test_detect_arguments(void **state) {
    (void)state;
    vo_error err = {0};
    vocis_span *spans = NULL;
    int n = 7;
    float few[10] = {0};
    assert_int_equal(vo_detect_speech(engine, NULL, 0, &defaults, &spans, &n, &err), VO_OK);
    assert_int_equal(n, 0);
    assert_null(spans);
    assert_int_equal(vo_detect_speech(engine, few, 10, &defaults, &spans, &n, &err), VO_OK);
    assert_int_equal(n, 0);
    static const vocis_speech_params wrong[] = {{0, 250, 100, 30, 9},    {1.5f, 250, 100, 30, 9},
                                                {NAN, 250, 100, 30, 9},  {0.5f, -1, 100, 30, 9},
                                                {0.5f, 250, -1, 30, 9},  {0.5f, 250, 100, -1, 9},
                                                {0.5f, 250, 100, 30, 0}, {0.5f, 250, 100, 30, NAN}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (vo_error){0};
        assert_int_equal(vo_detect_speech(engine, few, 10, &wrong[i], &spans, &n, &err),
                         VO_ERR_ARGUMENT);
        assert_true(err.message[0] != 0);
    }
    err = (vo_error){0};
    assert_int_equal(vo_detect_speech(engine, few, -1, &defaults, &spans, &n, &err),
                     VO_ERR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probabilities),  cmocka_unit_test(test_other_weights),
        cmocka_unit_test(test_streams),        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_wrong_weights),  cmocka_unit_test(test_rules),
        cmocka_unit_test(test_edges),          cmocka_unit_test(test_detect),
        cmocka_unit_test(test_detect_goldens), cmocka_unit_test(test_detect_arguments),
    };
    return cmocka_run_group_tests_name("models: silero", tests, set_up, tear_down);
}
