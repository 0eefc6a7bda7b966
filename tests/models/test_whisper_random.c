/* SPDX-License-Identifier: MIT
 *
 * Tiny Whispers with random weights (English, multilingual, large-v3 shape) against what
 * openai-whisper made of them. Random weights choose badly and often: long outputs, timestamps
 * in odd places, special ids in the text, so every rule of decoding and of cutting windows into
 * segments is walked, which real speech does not do. Ids must be equal to the last one. One set
 * of models is a hash, so that nothing but goldens is needed; another is stored in float 16.
 */
#include "models/support_hash.h"
#include "models/support_real.h"

#include "base/memory.h"
#include "pipeline/prompt.h"
#include "text/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, WINDOW = 30 * SECOND, SAMPLE_LEN = 60, LONG_SAMPLE_LEN = 40 };

typedef struct fixture {
    const char *name;
    bool stored; /* model and arrays are files below VOCIS_TEST_DATA */
    vocis_engine *engine;
    vocis_session *session; /* NULL: the files are not there */
    json_t *golden;
    vo_audio jfk;
} fixture;

static const char *stored_path(const fixture *f, const char *suffix) {
    char name[96];
    snprintf(name, sizeof name, "golden/whisper_random/%s%s", f->name, suffix);
    return real_data(name);
}

static int open_fixture(void **state, const char *name, const char *model) {
    fixture *f = vo_alloc(sizeof *f);
    char golden[1024];
    f->name = name;
    f->stored = !model;
    *state = f;
    if (f->stored && !stored_path(f, ".json")) return 0;
    if (f->stored)
        snprintf(golden, sizeof golden, "%s", stored_path(f, ".json"));
    else
        snprintf(golden, sizeof golden, "tests/data/whisper/%s.json", name);
    f->golden = json_load_file(golden, 0, NULL);
    f->engine = real_engine(0, getenv("VOCIS_CPU"));
    f->session = real_session(f->engine, model ? model : stored_path(f, "_f16.safetensors"), 5);
    f->jfk = real_audio(REAL_JFK);
    return f->golden && f->session && f->jfk.samples ? 0 : -1;
}

static int open_hashed(void **state, const char *name, int n_mels, int n_vocab) {
    char path[] = "/tmp/vocis-hash-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || !hash_write_whisper(path, n_mels, n_vocab)) return -1;
    int failed = open_fixture(state, name, path);
    unlink(path); /* the map stays */
    return failed;
}

static int open_hashed_en(void **state) {
    return open_hashed(state, "en", 80, 51864);
}
static int open_hashed_multi(void **state) {
    return open_hashed(state, "multi", 80, 51865);
}
static int open_hashed_v3(void **state) {
    return open_hashed(state, "v3", 128, 51866);
}
static int open_en(void **state) {
    return open_fixture(state, "en", NULL);
}
static int open_multi(void **state) {
    return open_fixture(state, "multi", NULL);
}
static int open_v3(void **state) {
    return open_fixture(state, "v3", NULL);
}
static int close_fixture(void **state) {
    fixture *f = *state;
    vo_audio_free(&f->jfk);
    if (f->session) {
        real_session_destroy(f->session);
        real_engine_destroy(f->engine);
        json_decref(f->golden);
    }
    vo_free(f);
    return 0;
}

static double number(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static double row_distance(const float *have, json_t *golden, int64_t d) {
    double worst = 0;
    assert_int_equal(json_array_size(golden), d);
    for (int64_t i = 0; i < d; i++)
        worst = fmax(worst, fabs(have[i] - json_number_value(json_array_get(golden, (size_t)i))));
    return worst;
}

static void test_encoder(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    real_encode(f->session, f->jfk.samples, f->jfk.n_samples);
    const float *have = vo_whisper_audio(f->session->workers->state);
    int64_t n, d = f->session->model->whisper->dims.n_audio_state;
    double worst = row_distance(have + 1499 * d, json_object_get(f->golden, "encoder_row_1499"), d);
    for (int64_t i = 0; i < 4; i++) {
        json_t *row = json_array_get(json_object_get(f->golden, "encoder_first_rows"), (size_t)i);
        worst = fmax(worst, row_distance(have + i * d, row, d));
    }
    if (f->stored) {
        float *golden = real_npy(stored_path(f, "_encoder_every10th.npy"), &n);
        assert_int_equal(n, 150 * d);
        for (int64_t i = 0; i < n; i++)
            worst = fmax(worst, fabs((double)have[i / d * 10 * d + i % d] - (double)golden[i]));
        vo_free(golden);
    }
    double sum = 0;
    for (int64_t i = 0; i < 1500 * d; i++) sum += fabsf(have[i]);
    printf("%s encoder: largest difference %.1e\n", f->name, worst);
    assert_true(worst <= 1e-3);
    assert_true(fabs(sum / number(f->golden, "encoder_abs_sum") - 1) <= 1e-4);
}

static void test_logits(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    real_encode(f->session, f->jfk.samples, f->jfk.n_samples);
    int32_t ids[32];
    int n = real_json_ids(json_object_get(f->golden, "prompt_tokens"), ids, 32);
    assert_true(n > 0);
    vo_error err = {0};
    vo_lm *lm = &f->session->lanes[0].lm;
    float *const *logits;
    int64_t count;
    assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
    assert_int_equal(lm->step(lm->self, &(vo_lm_input){0, n, ids, 0}, 1, &logits, &err), VO_OK);
    double worst = row_distance(logits[0], json_object_get(f->golden, "last_logits_first16"), 16);
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(f->golden, "last_logits_top10"), i, pair) {
        int64_t id = json_integer_value(json_array_get(pair, 0));
        worst = fmax(worst, fabs(logits[0][id] - json_number_value(json_array_get(pair, 1))));
    }
    assert_int_equal(i, 10);
    if (f->stored) {
        float *golden = real_npy(stored_path(f, "_logits_last.npy"), &count);
        assert_int_equal(count, lm->n_vocab);
        for (int64_t k = 0; k < count; k++)
            worst = fmax(worst, fabs((double)logits[0][k] - (double)golden[k]));
        vo_free(golden);
    }
    printf("%s logits: largest difference %.1e\n", f->name, worst);
    assert_true(worst <= 1e-3);
}

static void test_language(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    json_t *golden = json_object_get(f->golden, "detect_language");
    vo_error err = {0};
    float p[128];
    int best;
    assert_int_equal(
        vo_detect_language(f->session, f->jfk.samples, f->jfk.n_samples, p, &best, &err), VO_OK);
    const vo_whisper_ids *ids = vo_tokenizer_ids(f->session->model->tokenizer);
    if (!ids->multilingual) {
        assert_null(golden);
        assert_int_equal(best, 0);
        return;
    }
    assert_int_equal(ids->first_language + best, number(golden, "token"));
    double sum = 0;
    for (int i = 0; i < ids->n_languages; i++) sum += p[i];
    assert_true(fabs(sum - 1) < 1e-5);
    size_t i;
    json_t *pair;
    json_array_foreach(json_object_get(golden, "top5"), i, pair) {
        int index = vo_language_find(json_string_value(json_array_get(pair, 0)));
        assert_true(index >= 0);
        assert_true(fabs(p[index] - json_number_value(json_array_get(pair, 1))) <= 1e-5);
    }
    assert_int_equal(i, 5);
}

/* ---- one window: whisper.decode() ------------------------------------------------------------ */

/* The options of a golden as parameters of a transcription. */
static vocis_transcribe_params golden_params(json_t *options) {
    vocis_transcribe_params p = real_params(1);
    const char *key;
    json_t *value;
    p.language = "en";
    p.max_tokens = SAMPLE_LEN;
    p.no_speech_threshold = NAN; /* decode() judges nothing */
    json_object_foreach(options, key, value) {
        if (!strcmp(key, "without_timestamps"))
            p.without_timestamps = json_is_true(value);
        else if (!strcmp(key, "beam_size"))
            p.beam_size = (int)json_integer_value(value);
        else if (!strcmp(key, "patience"))
            p.patience = (float)json_number_value(value);
        else if (!strcmp(key, "length_penalty"))
            p.length_penalty = (float)json_number_value(value);
        else if (!strcmp(key, "prompt"))
            p.initial_prompt = json_string_value(value);
        else if (!strcmp(key, "prefix"))
            p.prefix = json_string_value(value);
        else if (!strcmp(key, "suppress_tokens"))
            p.suppress_tokens = json_string_value(value);
        else if (!strcmp(key, "suppress_blank"))
            p.suppress_blank = json_is_true(value);
        else
            fail_msg("the golden uses an option that this test does not know: %s", key);
    }
    return p;
}

/* One window from the same parts as the pipeline's DECODE state, to see every id: transcribing
 * gives away only what lies before the last pair of timestamps. */
static void decode_window(fixture *f, const vocis_transcribe_params *p, vo_decode_result *decoded,
                          float *no_speech) {
    vo_error err = {0};
    const vo_tokenizer *tokenizer = f->session->model->tokenizer;
    const vo_whisper_ids *ids = vo_tokenizer_ids(tokenizer);
    vo_token_list all = {0}, prefix = {0}, prompt = {0}, listed = {0}, space = {0};
    int sot;
    if (p->initial_prompt)
        assert_int_equal(vo_encode_spaced(tokenizer, p->initial_prompt, &all, &err), VO_OK);
    if (p->prefix) assert_int_equal(vo_encode_spaced(tokenizer, p->prefix, &prefix, &err), VO_OK);
    assert_int_equal(vo_parse_suppress(tokenizer, p->suppress_tokens, &listed, &err), VO_OK);
    assert_int_equal(vo_encode_spaced(tokenizer, "", &space, &err), VO_OK);
    assert_int_equal(vo_tokens_append(&space, &ids->eot, 1, &err), VO_OK);
    assert_int_equal(vo_build_prompt(f->session, p, &all, all.n, 0, ids->first_language, &prefix,
                                     &prompt, &sot, &err),
                     VO_OK);
    vo_suppress_filter blank = {space.ids, space.n, true}, list = {listed.ids, listed.n, false};
    vo_timestamp_filter times = {ids->eot, ids->no_timestamps, ids->timestamp_begin, 50};
    vo_logit_filter filters[3];
    vo_decode_params d = vo_decode_default_params();
    d.filters = filters;
    if (p->suppress_blank) filters[d.n_filters++] = vo_filter_suppress(&blank);
    if (listed.n) filters[d.n_filters++] = vo_filter_suppress(&list);
    if (!p->without_timestamps) filters[d.n_filters++] = vo_filter_timestamps(&times);
    d.eot = ids->eot;
    d.max_tokens = p->max_tokens;
    d.beam_size = p->beam_size;
    d.patience = p->patience;
    d.length_penalty = p->length_penalty;
    vo_lm *lm = &f->session->lanes[0].lm;
    float *const *logits;
    assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
    assert_int_equal(
        lm->step(lm->self, &(vo_lm_input){0, sot + 1, prompt.ids, 0}, 1, &logits, &err), VO_OK);
    *no_speech = expf(logits[0][ids->no_speech] - vo_logsumexp(logits[0], ids->n_vocab));
    int fed = sot + 1 < prompt.n ? sot + 1 : sot;
    assert_int_equal(lm->rewind(lm->self, 0, fed, &err), VO_OK);
    assert_int_equal(
        vo_decode(f->session->lanes[0].decoder, prompt.ids, prompt.n, fed, &d, decoded, &err),
        VO_OK);
    vo_tokens_free(&all);
    vo_tokens_free(&prefix);
    vo_tokens_free(&prompt);
    vo_tokens_free(&listed);
    vo_tokens_free(&space);
}

static void check_decoded(fixture *f, const char *name, json_t *golden) {
    vocis_transcribe_params p = golden_params(json_object_get(golden, "options"));
    vo_decode_result decoded;
    float no_speech;
    int32_t want[SAMPLE_LEN];
    decode_window(f, &p, &decoded, &no_speech);
    int n = real_json_ids(json_object_get(golden, "tokens"), want, SAMPLE_LEN);
    real_assert_ids(name, decoded.tokens, decoded.n_tokens, want, n);
    assert_true(fabs(decoded.avg_logprob - number(golden, "avg_logprob")) <= 1e-4);
    assert_true(fabs(no_speech / number(golden, "no_speech_prob") - 1) <= 1e-3);
    char *text = vo_tokenizer_decode(f->session->model->tokenizer, want, n);
    size_t length;
    const char *stripped = vo_strip(text, &length);
    const char *expected = json_string_value(json_object_get(golden, "text"));
    assert_int_equal(length, strlen(expected));
    assert_memory_equal(stripped, expected, length);
    assert_true(
        fabs(vo_compression_ratio(stripped, length) - number(golden, "compression_ratio")) <= 1e-9);
    vo_free(text);
}

/* The segments that transcribe() makes of one window's ids: cut between two timestamps; what
 * follows the last cut is left for the next window; without a cut all is one segment. */
static int ids_of_segments(const fixture *f, const int32_t *ids, int n, int32_t *out) {
    const vo_tokenizer *tokenizer = f->session->model->tokenizer;
    int32_t begin = vo_tokenizer_ids(tokenizer)->timestamp_begin;
    int from = 0, kept = 0;
    for (int i = 1; i <= n; i++) {
        bool cut = i < n && ids[i - 1] >= begin && ids[i] >= begin;
        bool last = i == n && (from == 0 || (ids[n - 1] >= begin && ids[n - 2] < begin));
        if (!cut && !last) continue;
        size_t length;
        char *text = vo_tokenizer_decode(tokenizer, ids + from, i - from);
        vo_strip(text, &length);
        vo_free(text);
        if (length > 0 && (from == 0 || ids[from] != ids[i - 1])) {
            memcpy(out + kept, ids + from, (size_t)(i - from) * sizeof *ids);
            kept += i - from;
        }
        from = i;
    }
    return kept;
}

/* The same window through the whole pipeline. */
static void check_transcribed(fixture *f, const char *name, json_t *golden) {
    vocis_transcribe_params p = golden_params(json_object_get(golden, "options"));
    int32_t tokens[SAMPLE_LEN], want[SAMPLE_LEN], have[SAMPLE_LEN];
    int n_have = 0, n = real_json_ids(json_object_get(golden, "tokens"), tokens, SAMPLE_LEN);
    n = ids_of_segments(f, tokens, n, want);
    float *padded = vo_alloc_array(WINDOW, sizeof *padded);
    memcpy(padded, f->jfk.samples, (size_t)f->jfk.n_samples * sizeof *padded);
    vo_error err = {0};
    vocis_result *result;
    assert_int_equal(vo_transcribe(f->session, padded, WINDOW, NULL, &p, &result, &err), VO_OK);
    for (int i = 0; i < result->n_segments && result->segments[i].seek == 0; i++) {
        const vocis_segment *s = &result->segments[i];
        assert_true(n_have + s->n_tokens <= SAMPLE_LEN);
        memcpy(have + n_have, s->tokens, (size_t)s->n_tokens * sizeof *have);
        n_have += s->n_tokens;
    }
    real_assert_ids(name, have, n_have, want, n);
    vo_result_destroy(result);
    vo_free(padded);
}

static void test_decode(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    static const char *const cases[] = {"greedy_ts",     "greedy_nots",
                                        "beam5",         "beam5_patience2_lp0.6",
                                        "greedy_prompt", "greedy_nosuppress"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *golden = json_object_get(f->golden, cases[i]);
        assert_non_null(golden);
        real_encode(f->session, f->jfk.samples, f->jfk.n_samples);
        check_decoded(f, cases[i], golden);
        check_transcribed(f, cases[i], golden);
    }
}

/* ---- several windows: transcribe() ----------------------------------------------------------- */

/* jfk, jfk backwards, jfk, 7 s of silence, jfk. */
static float *long_input(const fixture *f, int64_t *n) {
    int64_t m = f->jfk.n_samples, silence = 7 * SECOND;
    float *x = vo_alloc_array((size_t)(4 * m + silence), sizeof *x);
    for (int64_t i = 0; i < m; i++) {
        x[i] = x[2 * m + i] = x[3 * m + silence + i] = f->jfk.samples[i];
        x[2 * m - 1 - i] = f->jfk.samples[i];
    }
    *n = 4 * m + silence;
    return x;
}

static void test_long(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    int64_t n;
    float *samples = long_input(f, &n);
    vocis_transcribe_params p = real_params(1);
    p.language = "en";
    p.no_speech_threshold = NAN;
    p.max_tokens = LONG_SAMPLE_LEN;
    vo_error err = {0};
    vocis_result *result;
    assert_int_equal(vo_transcribe(f->session, samples, n, NULL, &p, &result, &err), VO_OK);
    json_t *golden = json_object_get(json_object_get(f->golden, "transcribe_long"), "segments");
    json_t *segment;
    size_t i;
    int at = 0;
    assert_true(json_array_size(golden) > 0);
    json_array_foreach(golden, i, segment) {
        int32_t want[LONG_SAMPLE_LEN];
        int n_want = real_json_ids(json_object_get(segment, "tokens"), want, LONG_SAMPLE_LEN);
        if (n_want == 0) continue; /* the reference keeps what it emptied */
        assert_true(at < result->n_segments);
        const vocis_segment *s = &result->segments[at++];
        real_assert_ids("long", s->tokens, s->n_tokens, want, n_want);
        assert_int_equal(s->seek, number(segment, "seek"));
        /* Ours never leave the input. */
        double start = fmin(number(segment, "start"), result->duration);
        double end = fmin(number(segment, "end"), result->duration);
        assert_true(fabs(s->start - start) <= 1e-6 && fabs(s->end - end) <= 1e-6);
        assert_true(fabs(s->avg_logprob - number(segment, "avg_logprob")) <= 1e-4);
        assert_true(fabs(s->compression_ratio - number(segment, "compression_ratio")) <= 1e-6);
        assert_true(fabs(s->no_speech_prob / number(segment, "no_speech_prob") - 1) <= 1e-3);
    }
    assert_int_equal(at, result->n_segments);
    vo_result_destroy(result);
    vo_free(samples);
}

/* A model that says nothing but <|0.00|><|0.00|>... asks for a window of no length again and
 * again: the window must move all the same. */
static void test_window_moves(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    const vo_whisper_ids *ids = vo_tokenizer_ids(f->session->model->tokenizer);
    vo_buf list = {0};
    for (int32_t id = 0; id < ids->n_vocab; id++)
        if (id != ids->timestamp_begin) vo_buf_printf(&list, id ? ",%d" : "%d", (int)id);
    vocis_transcribe_params p = real_params(1);
    p.language = "en";
    p.without_timestamps = true;
    p.suppress_tokens = list.data;
    p.no_speech_threshold = NAN;
    p.max_tokens = 4;
    vo_error err = {0};
    vocis_result *result;
    assert_int_equal(
        vo_transcribe(f->session, f->jfk.samples, f->jfk.n_samples, NULL, &p, &result, &err),
        VO_OK);
    assert_int_equal(result->n_segments, 0);
    assert_int_equal(result->timings.windows, 1);
    vo_result_destroy(result);
    vo_buf_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder),  cmocka_unit_test(test_logits),
        cmocka_unit_test(test_language), cmocka_unit_test(test_decode),
        cmocka_unit_test(test_long),     cmocka_unit_test(test_window_moves)};
    int failed = cmocka_run_group_tests_name("hashed en", tests, open_hashed_en, close_fixture);
    failed += cmocka_run_group_tests_name("hashed multi", tests, open_hashed_multi, close_fixture);
    failed += cmocka_run_group_tests_name("hashed v3", tests, open_hashed_v3, close_fixture);
    failed += cmocka_run_group_tests_name("en", tests, open_en, close_fixture);
    failed += cmocka_run_group_tests_name("multi", tests, open_multi, close_fixture);
    failed += cmocka_run_group_tests_name("v3", tests, open_v3, close_fixture);
    return failed != 0;
}
