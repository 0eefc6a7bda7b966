/* SPDX-License-Identifier: MIT
 *
 * What people complain about in other engines, tried on Whisper base with its real weights:
 * single words, many short turns, silence, noise, inputs of exactly one window; then every
 * option, errors, stopping, progress, and that decoding allocates nothing.
 */
#include "models/support_real.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "pipeline/prompt.h"
#include "text/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, MAX_IDS = 1024, COUNTRY = 1941 /* " country" */ };

static const char jfk_words[] = "And so my fellow Americans ask not what your country can do for "
                                "you, ask what you can do for your country.";
static const char spanish[] =
    "argmaxinc__WhisperKit/Tests/WhisperKitTests/Resources/es_test_clip.wav";
static const char mandarin[] = "wenet-e2e__wenet/test/resources/aishell-BAC009S0724W0121.wav";

typedef struct fixture {
    vocis_engine *engine;
    vocis_session *session; /* base; NULL without weights */
    vo_audio jfk;
    float *buffer; /* 40 s, zeroed by clear() */
} fixture;

static int open_fixture(void **state) {
    fixture *f = vo_alloc(sizeof *f);
    *state = f;
    f->jfk = real_audio(REAL_JFK);
    f->buffer = vo_alloc_array(40 * SECOND, sizeof *f->buffer);
    f->engine = real_engine(0, getenv("VOCIS_CPU"));
    if (!f->jfk.samples || !f->buffer || !f->engine) return -1;
    if (!real_model("base")) return 0;
    f->session = real_session(f->engine, real_model("base"), 5);
    return f->session ? 0 : -1;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    if (f->session) real_session_destroy(f->session);
    real_engine_destroy(f->engine);
    vo_audio_free(&f->jfk);
    vo_free(f->buffer);
    vo_free(f);
    return 0;
}

static float *clear(fixture *f) {
    memset(f->buffer, 0, 40 * SECOND * sizeof *f->buffer);
    return f->buffer;
}

/* The clip at the beginning of a silent buffer. */
static float *with_jfk(fixture *f) {
    float *x = clear(f);
    memcpy(x, f->jfk.samples, (size_t)f->jfk.n_samples * sizeof *x);
    return x;
}

static vocis_transcribe_params english(void) {
    vocis_transcribe_params p = real_params(1);
    p.language = "en";
    return p;
}

/* Uniform noise between -amplitude and amplitude, the same every time. */
static void add_noise(float *x, int64_t n, float amplitude) {
    uint64_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] += amplitude * (2 * (float)((double)(state >> 32) / 4294967296.0) - 1);
    }
}

/* What holds for every result: text is UTF-8, times rise and stay within the input. */
static void check_result(const vocis_result *r) {
    double before = 0;
    assert_true(vo_utf8_valid(r->text, strlen(r->text)));
    for (int i = 0; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        assert_int_equal(s->id, i);
        assert_true(s->n_tokens > 0);
        assert_true(s->start >= before && s->end >= s->start && s->end <= r->duration);
        before = s->start;
    }
}

static vocis_result *run(fixture *f, const float *samples, int64_t n,
                         const vocis_transcribe_params *p) {
    vo_error err = {0};
    vocis_result *result = NULL;
    if (vo_transcribe(f->session, samples, n, NULL, p, &result, &err) != VO_OK)
        fail_msg("%s", err.message);
    check_result(result);
    return result;
}

static void assert_words(const char *what, const char *want, const vocis_result *r, int errors) {
    int n = real_word_errors(want, r->text);
    if (n > errors) fail_msg("%s: %d word errors in \"%s\"", what, n, r->text);
}

static void run_words(fixture *f, const char *what, const float *samples, int64_t n,
                      const vocis_transcribe_params *p, const char *want) {
    vocis_result *r = run(f, samples, n, p);
    assert_words(what, want, r, 0);
    vo_result_destroy(r);
}

static void assert_refused(fixture *f, vocis_session *session, const vocis_transcribe_params *p,
                           const char *part) {
    vo_error err = {0};
    vocis_result *result = NULL;
    assert_int_equal(
        vo_transcribe(session, f->jfk.samples, f->jfk.n_samples, NULL, p, &result, &err),
        VO_ERR_ARGUMENT);
    assert_null(result);
    if (!strstr(err.message, part)) fail_msg("\"%s\" lacks \"%s\"", err.message, part);
}

/* ---- short, silent and noisy input ----------------------------------------------------------- */

/* A word of half a second to a second is heard, not dropped. */
static void test_single_words(void **state) {
    fixture *f = *state;
    static const struct {
        double from, to;
        const char *text;
    } words[] = {{0, 0.8, "and so"}, {5.75, 6.3, "country"}, {9.95, 10.9, "country"}};
    if (!f->session) skip();
    vocis_transcribe_params p = english();
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        run_words(f, "single word", f->jfk.samples + (int64_t)(words[i].from * SECOND),
                  (int64_t)((words[i].to - words[i].from) * SECOND), &p, words[i].text);
}

static int64_t append_clip(float *to, const char *name) {
    vo_audio clip = real_clip(name);
    memcpy(to, clip.samples, (size_t)clip.n_samples * sizeof *to);
    int64_t n = clip.n_samples;
    vo_audio_free(&clip);
    return n;
}

/* Nine turns of 0.4 to 1.8 s with half a second between: all are kept. */
static void test_short_turns(void **state) {
    fixture *f = *state;
    static const struct {
        const char *clip, *word; /* one that nothing else says */
    } turns[] = {{"bambatse_20_haggard_0331", "then"},
                 {"swag_03_tompkins_0380", "vice versa"},
                 {"presentpictureofnsw_02_mann_1095", "in a great measure"},
                 {"roots_27_morris_0352", "journey"},
                 {"bambatse_19_haggard_0301", "gold"},
                 {"hartmann_01_fawcett_0317", "further news"},
                 {"roots_36_morris_0278", "facing him"},
                 {"shortstories_05_gaskell_0338", "what was that"},
                 {"roots_17_morris_0032", "handled it"}};
    if (!f->session || !real_data("ggml-org__whisper.cpp/wer_testing")) skip();
    float *x = clear(f);
    int64_t n = 0;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++)
        n += append_clip(x + n, turns[i].clip) + SECOND / 2;
    vocis_transcribe_params p = english();
    vocis_result *r = run(f, x, n, &p);
    char *text = vo_normalize_english(r->text);
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++)
        if (!strstr(text, turns[i].word)) fail_msg("\"%s\" is lost: %s", turns[i].word, text);
    vo_free(text);
    vo_result_destroy(r);
}

static void assert_empty(fixture *f, const float *samples, int64_t n, const char *language) {
    vocis_transcribe_params p = real_params(1);
    p.temperature_increment = 0.2f;
    p.best_of = 5;
    p.language = language;
    vocis_result *r = run(f, samples, n, &p);
    if (r->n_segments) fail_msg("%.2f s without speech: \"%s\"", r->duration, r->text);
    assert_string_equal(r->text, "");
    vo_result_destroy(r);
}

static void test_no_speech(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    float *x = clear(f);
    int64_t n = (int64_t)(6.64 * SECOND);
    assert_empty(f, x, n, NULL);
    add_noise(x, n, 1e-3f);
    assert_empty(f, x, n, NULL);
}

/* No samples, or fewer than one frame: nothing to hear and nothing to fail on. */
static void test_no_samples(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    vocis_transcribe_params p = real_params(1);
    for (int64_t n = 0; n <= 159; n += 159) {
        vocis_result *r = run(f, f->jfk.samples, n, &p);
        assert_int_equal(r->n_segments, 0);
        assert_null(r->language);
        vo_result_destroy(r);
    }
    assert_empty(f, f->jfk.samples, 0, "en");
    float probabilities[128];
    int best = -1;
    vo_error err = {0};
    assert_int_equal(vo_detect_language(f->session, NULL, 0, probabilities, &best, &err), VO_OK);
    assert_in_range(best, 0, 98);
}

/* Speech that fills a window exactly, nearly, and a little more than that: every word and
 * nothing after the last one. */
static void test_full_window(void **state) {
    fixture *f = *state;
    static const double lengths[] = {29.42, 30.0, 31.0};
    if (!f->session || !real_data("ggml-org__whisper.cpp/wer_testing")) skip();
    vocis_transcribe_params p = english();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        float *x = clear(f);
        int64_t n = 0, total = (int64_t)(lengths[i] * SECOND + 0.5);
        for (int k = 0; k < REAL_SENTENCES; k++) n += append_clip(x, real_sentences[k]);
        int64_t gap = (total - n) / (REAL_SENTENCES - 1);
        clear(f);
        n = 0;
        for (int k = 0; k < REAL_SENTENCES; k++) n += append_clip(x + n, real_sentences[k]) + gap;
        vocis_result *r = run(f, x, total, &p);
        char *text = vo_normalize_english(r->text);
        static const char last[] = "could with his clothes";
        size_t length = strlen(text);
        if (length < strlen(last) || strcmp(text + length - strlen(last), last) != 0)
            fail_msg("%.2f s end with \"%s\"", lengths[i], r->text);
        assert_words("full window", real_sentences_text, r, 1);
        vo_free(text);
        vo_result_destroy(r);
    }
}

/* Noise at the very end costs no sentence, silence after speech adds none. */
static void test_tails(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    vocis_transcribe_params p = english();
    int64_t n = f->jfk.n_samples, tenth = SECOND / 10;
    float *x = with_jfk(f);
    add_noise(x + n - tenth, tenth, 0.3f);
    run_words(f, "noise in the last 0.1 s", x, n, &p, jfk_words);
    x = with_jfk(f);
    for (int seconds = 1; seconds <= 3; seconds++)
        run_words(f, "silence after speech", x, n + seconds * SECOND, &p, jfk_words);
}

/* ---- options --------------------------------------------------------------------------------- */

static void test_clip_timestamps(void **state) {
    fixture *f = *state;
    static const double clips[] = {3, 7.7, 7.7, 9};
    if (!f->session) skip();
    vocis_transcribe_params p = english();
    p.clip_timestamps = clips;
    p.n_clip_timestamps = 4;
    vocis_result *r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
    assert_words("clips", "ask not what your country can do for you ask what you", r, 0);
    assert_int_equal(r->n_segments, 2);
    assert_int_equal(r->segments[0].seek, 300);
    assert_int_equal(r->segments[1].seek, 770);
    assert_true(r->segments[0].start >= 3 && r->segments[1].start >= 7.7);
    vo_result_destroy(r);
    p.n_clip_timestamps = 1; /* to the end */
    r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
    assert_words("clip without end",
                 "ask not what your country can do for you ask what you can do for your country", r,
                 0);
    vo_result_destroy(r);
    static const double bad[] = {-1};
    p.clip_timestamps = bad;
    assert_refused(f, f->session, &p, "clip timestamp");
}

/* A name in the prompt is spelled as it is there. */
static void test_initial_prompt(void **state) {
    fixture *f = *state;
    static const char file[] = "antirez__qwen-asr/samples/test_speech.wav";
    if (!f->session || !real_data(file)) skip();
    vocis_transcribe_params p = english();
    vocis_result *r = real_transcribe(f->session, real_data(file), &p);
    assert_non_null(r);
    assert_null(strstr(r->text, "Voxtrail"));
    vo_result_destroy(r);
    p.initial_prompt = "Voxtrail.";
    r = real_transcribe(f->session, real_data(file), &p);
    assert_non_null(r);
    assert_words("prompted", "Hello, this is a test of the Voxtrail speech to text system.", r, 0);
    vo_result_destroy(r);
}

/* prompt: previous tokens 1000, 1001 ... of which n_initial are the initial prompt. */
static void check_prompt(fixture *f, const vocis_transcribe_params *p, int n, int n_initial,
                         int reset, const int32_t *want, int n_want, int want_sot) {
    vo_error err = {0};
    vo_token_list all = {0}, prefix = {0}, prompt = {0};
    int32_t language = vo_tokenizer_ids(f->session->model->tokenizer)->first_language;
    int sot = -1;
    for (int32_t id = 1000; id < 1000 + n; id++)
        assert_int_equal(vo_tokens_append(&all, &id, 1, &err), VO_OK);
    if (p->prefix)
        assert_int_equal(vo_encode_spaced(f->session->model->tokenizer, p->prefix, &prefix, &err),
                         VO_OK);
    assert_int_equal(vo_build_prompt(f->session, p, &all, n_initial, reset, language, &prefix,
                                     &prompt, &sot, &err),
                     VO_OK);
    real_assert_ids("prompt", prompt.ids, prompt.n, want, n_want);
    assert_int_equal(sot, want_sot);
    vo_tokens_free(&all);
    vo_tokens_free(&prefix);
    vo_tokens_free(&prompt);
}

/* What stands before a window's text, id by id. */
static void test_prompt_ids(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    enum { PREV = 50361, SOT = 50258, EN, TRANSLATE = 50358, TRANSCRIBE, NO_TIMES = 50363 };
    const int32_t start[] = {SOT, EN, TRANSCRIBE}, room = 223;
    int32_t want[300] = {PREV};
    vocis_transcribe_params p = english();
    check_prompt(f, &p, 0, 0, 0, start, 3, 0);
    check_prompt(f, &p, 50, 10, 50, start, 3, 0); /* forgotten */
    for (int32_t i = 0; i < room; i++) want[1 + i] = 1300 - room + i;
    memcpy(want + 1 + room, start, sizeof start);
    check_prompt(f, &p, 300, 10, 0, want, 1 + room + 3, 1 + room); /* the end of it */
    p.carry_initial_prompt = true;
    for (int32_t i = 0; i < 10; i++) want[1 + i] = 1000 + i;
    check_prompt(f, &p, 300, 10, 0, want, 1 + room + 3, 1 + room);
    memcpy(want + 11, start, sizeof start);
    check_prompt(f, &p, 300, 10, 300, want, 14, 11); /* carried though the rest is forgotten */
    p = english();
    p.task = VOCIS_TRANSLATE;
    p.without_timestamps = true;
    p.prefix = " And so ";
    const int32_t forced[] = {SOT, EN, TRANSLATE, NO_TIMES, 400, 370};
    check_prompt(f, &p, 0, 0, 0, forced, 6, 0);
}

/* The text goes on where the prefix ends; the same words with and without timestamps. */
static void test_prefix(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    vocis_transcribe_params p = english();
    p.without_timestamps = true;
    run_words(f, "without timestamps", f->jfk.samples, f->jfk.n_samples, &p, jfk_words);
    p.prefix = "And so my fellow Americans,";
    run_words(f, "prefix", f->jfk.samples, f->jfk.n_samples, &p,
              "ask not what your country can do for you, ask what you can do for your country.");
}

static void test_translate(void **state) {
    fixture *f = *state;
    if (!f->session || !real_data(spanish)) skip();
    vocis_transcribe_params p = real_params(1);
    p.language = "Spanish";
    vocis_result *r = real_transcribe(f->session, real_data(spanish), &p);
    assert_non_null(r);
    assert_string_equal(r->language, "es");
    assert_true(r->language_probability == 1.0f && !r->language_detected);
    assert_non_null(strstr(r->text, "Todas las grabaciones"));
    vo_result_destroy(r);
    p.task = VOCIS_TRANSLATE;
    p.language = NULL;
    r = real_transcribe(f->session, real_data(spanish), &p);
    assert_non_null(r);
    assert_string_equal(r->language, "es");
    assert_true(r->language_probability > 0.5f && r->language_detected);
    assert_non_null(strstr(r->text, "recording"));
    assert_non_null(strstr(r->text, "public domain"));
    assert_int_equal(r->task, VOCIS_TRANSLATE);
    vo_result_destroy(r);
}

static void test_bad_arguments(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    vocis_transcribe_params p = real_params(1);
    p.language = "klingon";
    assert_refused(f, f->session, &p, "klingon");
    p.language = "yue"; /* since large-v3 only */
    assert_refused(f, f->session, &p, "yue");
    p = english();
    p.beam_size = 6; /* the session holds 5 */
    assert_refused(f, f->session, &p, "between 1 and 5");
    p = english();
    p.suppress_tokens = "12,x";
    assert_refused(f, f->session, &p, "suppress_tokens");
    p.suppress_tokens = "51865";
    assert_refused(f, f->session, &p, "suppress_tokens");
    p = english();
    p.temperature = NAN;
    assert_refused(f, f->session, &p, "temperature");
}

static void test_english_only(void **state) {
    fixture *f = *state;
    if (!real_model("tiny.en")) skip();
    vocis_session *session = real_session(f->engine, real_model("tiny.en"), 1);
    assert_non_null(session);
    vocis_transcribe_params p = real_params(1);
    p.language = "de";
    assert_refused(f, session, &p, "English only");
    p = real_params(1);
    p.task = VOCIS_TRANSLATE;
    assert_refused(f, session, &p, "cannot translate");
    p = real_params(1);
    vo_error err = {0};
    vocis_result *r;
    assert_int_equal(vo_transcribe(session, f->jfk.samples, f->jfk.n_samples, NULL, &p, &r, &err),
                     VO_OK);
    assert_string_equal(r->language, "en");
    assert_false(r->language_detected);
    assert_words("tiny.en", jfk_words, r, 0);
    vo_result_destroy(r);
    real_session_destroy(session);
}

static bool has_token(const vocis_result *r, int32_t id) {
    int32_t ids[MAX_IDS];
    int n = real_result_ids(r, ids, MAX_IDS);
    for (int i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

static void test_suppress_tokens(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    vocis_transcribe_params p = english();
    vocis_result *r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
    assert_true(has_token(r, COUNTRY));
    vo_result_destroy(r);
    p.suppress_tokens = "-1,1941";
    r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
    assert_false(has_token(r, COUNTRY));
    assert_words("without one word", jfk_words, r, 4);
    vo_result_destroy(r);
}

/* ---- sampling and fallback ------------------------------------------------------------------- */

static void test_sampling(void **state) {
    fixture *f = *state;
    int32_t ids[3][MAX_IDS];
    int n[3];
    if (!f->session) skip();
    vocis_transcribe_params p = english();
    p.temperature = 0.8f;
    p.best_of = 2;
    for (int i = 0; i < 3; i++) {
        p.seed = i < 2 ? 7 : 8;
        vocis_result *r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
        n[i] = real_result_ids(r, ids[i], MAX_IDS);
        assert_true(r->segments[0].temperature == 0.8f);
        vo_result_destroy(r);
    }
    real_assert_ids("the same seed", ids[1], n[1], ids[0], n[0]);
    assert_true(n[2] != n[0] || memcmp(ids[2], ids[0], (size_t)n[0] * sizeof **ids) != 0);
}

/* A hard clip, then thresholds that no temperature can meet. */
static void test_fallback(void **state) {
    fixture *f = *state;
    if (!f->session || !real_data(mandarin)) skip();
    vocis_transcribe_params p = real_params(1);
    p.language = "zh";
    p.task = VOCIS_TRANSLATE;
    p.temperature_increment = 0.2f;
    vocis_result *r = real_transcribe(f->session, real_data(mandarin), &p);
    assert_non_null(r);
    assert_true(r->timings.fallbacks >= 1);
    assert_true(r->n_segments == 0 || r->segments[0].temperature > 0);
    vo_result_destroy(r);
    p = english();
    p.temperature_increment = 0.5f;
    p.logprob_threshold = 0;
    r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
    assert_int_equal(r->timings.fallbacks, 2);
    assert_true(r->segments[0].temperature == 1.0f);
    vo_result_destroy(r);
    p.logprob_threshold = NAN; /* off, and speech is not repetitive */
    r = run(f, f->jfk.samples, f->jfk.n_samples, &p);
    assert_int_equal(r->timings.fallbacks, 0);
    vo_result_destroy(r);
}

/* ---- callbacks, memory ----------------------------------------------------------------------- */

enum { MAX_CALLS = 32 };
typedef struct observer {
    int segments, polls, abort_at; /* poll at which to stop; 0: never */
    bool abort_after_segment;
    double done[MAX_CALLS];
    uint64_t allocations[MAX_CALLS];
    size_t active[MAX_CALLS];
    int calls, segments_before[MAX_CALLS];
} observer;

static void see_segment(void *user, const vocis_segment *segment) {
    observer *o = user;
    assert_int_equal(segment->id, o->segments);
    o->segments++;
}

static void see_progress(void *user, double done, double total) {
    observer *o = user;
    assert_true(done <= total && o->calls < MAX_CALLS);
    if (o->calls) assert_true(done > o->done[o->calls - 1]);
    vo_memory_stats stats = vo_memory_get_stats();
    o->segments_before[o->calls] = o->segments;
    o->allocations[o->calls] = stats.allocations;
    o->active[o->calls] = stats.active_bytes;
    o->done[o->calls++] = done;
}

static bool ask_abort(void *user) {
    observer *o = user;
    o->polls++;
    return (o->abort_at && o->polls >= o->abort_at) || (o->abort_after_segment && o->segments);
}

static vocis_transcribe_params observed(observer *o) {
    vocis_transcribe_params p = english();
    p.on_segment = see_segment;
    p.on_progress = see_progress;
    p.on_abort = ask_abort;
    p.user = o;
    return p;
}

/* Three times the clip: two windows. */
static int64_t three_times(fixture *f) {
    float *x = clear(f);
    for (int i = 0; i < 3; i++)
        memcpy(x + i * f->jfk.n_samples, f->jfk.samples, (size_t)f->jfk.n_samples * sizeof *x);
    return 3 * f->jfk.n_samples;
}

/* Progress rises to the end; a second window allocates its text and nothing else. */
static void test_second_window(void **state) {
    fixture *f = *state;
    observer o = {0};
    if (!f->session) skip();
    int64_t n = three_times(f);
    vocis_transcribe_params p = observed(&o);
    vocis_result *r = run(f, f->buffer, n, &p);
    assert_int_equal(o.segments, r->n_segments);
    assert_true(o.calls >= 3);
    assert_true(o.done[0] == 0 && o.done[o.calls - 1] > r->duration - 0.01);
    assert_true(o.polls >= r->timings.steps);
    for (int i = 2; i < o.calls; i++) {
        uint64_t made = o.allocations[i] - o.allocations[i - 1];
        int segments = o.segments_before[i] - o.segments_before[i - 1];
        int64_t kept = (int64_t)(o.active[i] - o.active[i - 1]);
        printf("window %d: %d segments, %d allocations, %d bytes kept\n", i, segments, (int)made,
               (int)kept);
        assert_true(made <= 4 + 8 * (uint64_t)segments);
        assert_true(kept <= 4096 * (segments + 1));
    }
    vo_result_destroy(r);
}

/* Once warm, model steps allocate nothing: one row, five rows, after a fork. */
static void test_steps_allocate_nothing(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    vo_error err = {0};
    vo_lm *lm = &f->session->lanes[0].lm;
    float *const *logits;
    const int32_t start[] = {50258, 50259, 50359}, word = COUNTRY;
    const int parents[] = {0, 0, 0, 0, 0};
    vo_lm_input rows[5];
    for (int i = 0; i < 5; i++) rows[i] = (vo_lm_input){i, 1, &word, 0};
    vo_whisper_state *s = f->session->workers->state;
    const vo_whisper_dims *dims = &f->session->model->whisper->dims;
    const size_t mel_bytes = 2 * (size_t)dims->n_audio_ctx * (size_t)dims->n_mels * sizeof(float);
    void *mel = vo_alloc(mel_bytes);
    assert_non_null(mel);
    uint64_t before = 0;
    for (int round = 0; round < 2; round++) {
        if (round == 1) before = vo_memory_get_stats().allocations;
        memcpy(vo_whisper_mel(s), mel, mel_bytes);
        assert_int_equal(vo_whisper_encode(s, 0, &err), VO_OK);
        assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
        assert_int_equal(lm->step(lm->self, &(vo_lm_input){0, 3, start, 0}, 1, &logits, &err),
                         VO_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(lm->step(lm->self, rows, 1, &logits, &err), VO_OK);
        assert_int_equal(lm->fork(lm->self, parents, 5, &err), VO_OK);
        for (int i = 0; i < 3; i++)
            assert_int_equal(lm->step(lm->self, rows, 5, &logits, &err), VO_OK);
    }
    assert_int_equal(vo_memory_get_stats().allocations - before, 0);
    vo_free(mel);
}

static void test_abort(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    int64_t n = three_times(f);
    vo_error err = {0};
    vocis_result *r;
    observer early = {.abort_at = 1}, within = {.abort_at = 10},
             between = {.abort_after_segment = true};
    vocis_transcribe_params p = observed(&early);
    assert_int_equal(vo_transcribe(f->session, f->buffer, n, NULL, &p, &r, &err), VO_ERR_ABORTED);
    assert_null(r);
    p = observed(&within);
    err = (vo_error){0};
    assert_int_equal(vo_transcribe(f->session, f->buffer, n, NULL, &p, &r, &err), VO_ERR_ABORTED);
    assert_null(r); /* in the first window: nothing was finished */
    assert_int_equal(within.polls, 10);
    p = observed(&between);
    err = (vo_error){0};
    assert_int_equal(vo_transcribe(f->session, f->buffer, n, NULL, &p, &r, &err), VO_ERR_ABORTED);
    assert_non_null(r);
    check_result(r);
    assert_int_equal(r->n_segments, between.segments);
    assert_int_equal(strncmp(r->text, "And so my fellow Americans", 26), 0);
    assert_true(r->segments[r->n_segments - 1].end <= 30);
    vo_result_destroy(r);
    /* The session is as good as new. */
    p = english();
    run_words(f, "after stopping", f->jfk.samples, f->jfk.n_samples, &p, jfk_words);
}

/* One packed copy of the weights (145 MB), caches, activations and logits of a session; a
 * transcription adds its spectrogram and text only. */
static void test_memory(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    size_t before = vo_memory_get_stats().active_bytes;
    vo_memory_reset_peak();
    vocis_session *session = real_session(f->engine, real_model("base"), 5);
    assert_non_null(session);
    size_t idle = vo_memory_get_stats().active_bytes - before;
    vocis_transcribe_params p = english();
    p.beam_size = 5;
    vo_error err = {0};
    vocis_result *r;
    assert_int_equal(vo_transcribe(session, f->jfk.samples, f->jfk.n_samples, NULL, &p, &r, &err),
                     VO_OK);
    assert_words("beam 5", jfk_words, r, 0);
    size_t peak = vo_memory_get_stats().peak_bytes - before;
    printf("base: model and session of 5 rows %.1f MB, peak while transcribing %.1f MB\n",
           (double)idle / 1e6, (double)peak / 1e6);
    assert_true(idle < 290e6 && peak - idle < 20e6);
    vo_result_destroy(r);
    real_session_destroy(session);
    assert_int_equal(vo_memory_get_stats().active_bytes, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single_words),    cmocka_unit_test(test_short_turns),
        cmocka_unit_test(test_no_speech),       cmocka_unit_test(test_no_samples),
        cmocka_unit_test(test_full_window),     cmocka_unit_test(test_tails),
        cmocka_unit_test(test_clip_timestamps), cmocka_unit_test(test_initial_prompt),
        cmocka_unit_test(test_prompt_ids),      cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_translate),       cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_english_only),    cmocka_unit_test(test_suppress_tokens),
        cmocka_unit_test(test_sampling),        cmocka_unit_test(test_fallback),
        cmocka_unit_test(test_second_window),   cmocka_unit_test(test_steps_allocate_nothing),
        cmocka_unit_test(test_abort),           cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
