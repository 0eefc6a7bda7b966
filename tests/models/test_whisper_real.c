/* SPDX-License-Identifier: MIT
 *
 * The yardstick: Whisper base and tiny.en with their real weights against openai-whisper on
 * real speech. Encoder output, language probabilities and logits within stated bounds;
 * token ids of every clip identical, greedy and beam 5. A difference must be a near tie: the
 * two candidates' logits closer than 1e-3 after the same tokens; at most two are allowed.
 */
#include "models/support_real.h"

#include "audio/audio.h"
#include "base/memory.h"
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

enum { MAX_EXCEPTIONS = 2 };
static const char *const jfk = "ggml-org__whisper.cpp/samples/jfk.wav";

typedef struct fixture {
    vocis_engine *engine;
    vocis_session *session;
    json_t *golden;
    const char *name;
} fixture;

static int open_fixture(void **state, const char *name) {
    fixture *f = vo_alloc(sizeof *f);
    char golden[64];
    snprintf(golden, sizeof golden, "golden/whisper_real/%s.json", name);
    f->name = name;
    *state = f;
    if (!real_model(name) || !real_data(golden)) return 0;
    f->golden = json_load_file(real_data(golden), 0, NULL);
    f->engine = real_engine(0, getenv("VOCIS_CPU"));
    f->session = real_session(f->engine, real_model(name), 5);
    return f->golden && f->session ? 0 : -1;
}
static int open_base(void **state) {
    return open_fixture(state, "base");
}
static int open_tiny(void **state) {
    return open_fixture(state, "tiny.en");
}
static int close_fixture(void **state) {
    fixture *f = *state;
    if (f->session) {
        real_session_destroy(f->session);
        real_engine_destroy(f->engine);
        json_decref(f->golden);
    }
    vo_free(f);
    return 0;
}

/* Encodes the Kennedy clip padded with silence to 30 s. */
static void encode_jfk(fixture *f) {
    vo_error err = {0};
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    assert_int_equal(vo_audio_load(real_data(jfk), &reading, &audio, &err), VO_OK);
    assert_int_equal(vo_mel_compute(f->session->model->mel, &f->engine->kernels, f->engine->pool,
                                    audio.samples, audio.n_samples, 480000 - audio.n_samples,
                                    vo_whisper_mel(f->session->workers->state), &err),
                     VO_OK);
    vo_audio_free(&audio);
    assert_int_equal(vo_whisper_encode(f->session->workers->state, 0, &err), VO_OK);
}

static void test_encoder(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    encode_jfk(f);
    char name[64];
    snprintf(name, sizeof name, "golden/whisper_real/%s_jfk_encoder.npy", f->name);
    int64_t n;
    float *golden = real_npy(real_data(name), &n);
    const float *have = vo_whisper_audio(f->session->workers->state);
    assert_int_equal(n, 1500 * f->session->model->whisper->dims.n_audio_state);
    double error = 0, norm = 0, worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)have[i] - (double)golden[i];
        error += d * d;
        norm += (double)golden[i] * (double)golden[i];
        worst = fmax(worst, fabs(d));
    }
    printf("%s encoder: relative error %.2e, largest difference %.2e\n", f->name,
           sqrt(error / norm), worst);
    assert_true(sqrt(error / norm) <= 1e-3);
    assert_true(worst <= 1e-3 * sqrt(norm / (double)n) * 10);
    vo_free(golden);
}

static void test_logits(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    encode_jfk(f);
    char name[64];
    snprintf(name, sizeof name, "golden/whisper_real/%s_jfk_logits.json", f->name);
    json_t *golden = json_load_file(real_data(name), 0, NULL);
    json_t *ids = json_object_get(golden, "input_ids");
    assert_true(json_array_size(ids) > 0);
    vo_error err = {0};
    vo_lm *lm = &f->session->lanes[0].lm;
    assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
    double worst = 0;
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int32_t id = (int32_t)json_integer_value(json_array_get(ids, i));
        vo_lm_input input = {0, 1, &id, 0};
        float *const *logits;
        assert_int_equal(lm->step(lm->self, &input, 1, &logits, &err), VO_OK);
        json_t *top = json_array_get(json_object_get(golden, "top20_ids"), i);
        json_t *values = json_array_get(json_object_get(golden, "top20_logits"), i);
        assert_int_equal(json_array_size(top), 20);
        for (size_t k = 0; k < 20; k++) {
            int64_t token = json_integer_value(json_array_get(top, k));
            worst =
                fmax(worst, fabs(logits[0][token] - json_number_value(json_array_get(values, k))));
        }
        double lse = json_number_value(json_array_get(json_object_get(golden, "logsumexp"), i));
        worst = fmax(worst, fabs(lse - vo_logsumexp(logits[0], lm->n_vocab)));
    }
    printf("%s logits: largest difference %.2e\n", f->name, worst);
    assert_true(worst <= 5e-3);
    json_decref(golden);
}

/* All token ids of a golden run in one list. */
static int golden_ids(json_t *run, int32_t *ids, int capacity) {
    int n = 0;
    size_t i, k;
    json_t *segment, *id;
    json_array_foreach(json_object_get(run, "segments"), i, segment)
        json_array_foreach(json_object_get(segment, "tokens"), k, id) if (n < capacity) ids[n++] =
            (int32_t)json_integer_value(id);
    return n;
}

/* The goldens were made with word times, which empty a segment whose words take no time; the
 * reference run without them has the ids and the text that ours has. What is empty in `run` is
 * therefore left out of ours too. */
static bool is_compared(json_t *run, int segment) {
    json_t *golden = json_array_get(json_object_get(run, "segments"), (size_t)segment);
    return !golden || json_array_size(json_object_get(golden, "tokens")) > 0;
}

static int result_ids(const vocis_result *result, json_t *run, int32_t *ids, int capacity) {
    int n = 0;
    for (int i = 0; i < result->n_segments; i++)
        for (int k = 0; is_compared(run, i) && k < result->segments[i].n_tokens && n < capacity;
             k++)
            ids[n++] = result->segments[i].tokens[k];
    return n;
}

static void result_text(const vocis_result *result, json_t *run, vo_buf *text) {
    vo_buf_puts(text, "");
    for (int i = 0; i < result->n_segments; i++)
        if (is_compared(run, i)) vo_buf_puts(text, result->segments[i].text);
}

/* ---- near ties ------------------------------------------------------------------------------ */

/* The window of mel that starts at frame `seek` of a recording, encoded. */
static void encode_window(fixture *f, const char *path, int64_t seek) {
    vo_error err = {0};
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    assert_int_equal(vo_audio_load(path, &reading, &audio, &err), VO_OK);
    int64_t n_mels = f->session->model->whisper->dims.n_mels;
    int64_t content = audio.n_samples / VO_MEL_HOP,
            size = content - seek < 3000 ? content - seek : 3000;
    float *mel = vo_alloc_array((size_t)(content + 3000), (size_t)n_mels * sizeof *mel);
    float *window = vo_whisper_mel(f->session->workers->state);
    assert_int_equal(vo_mel_compute(f->session->model->mel, &f->engine->kernels, f->engine->pool,
                                    audio.samples, audio.n_samples, 480000, mel, &err),
                     VO_OK);
    memset(window, 0, (size_t)(3000 * n_mels) * sizeof *window);
    memcpy(window, mel + seek * n_mels, (size_t)(size * n_mels) * sizeof *window);
    vo_free(mel);
    vo_audio_free(&audio);
    assert_int_equal(vo_whisper_encode(f->session->workers->state, 0, &err), VO_OK);
}

/* How far apart the logits of `ours` and `theirs` are where the result's token number `at` was
 * chosen, all before being equal. */
static double logit_gap(fixture *f, const char *path, const vocis_transcribe_params *params,
                        const vocis_result *result, int at, int32_t theirs) {
    vo_error err = {0};
    vo_token_list all = {0}, none = {0}, prompt = {0}, window = {0};
    int segment = 0, sot_index, left = at;
    while (segment + 1 < result->n_segments && left >= result->segments[segment].n_tokens)
        left -= result->segments[segment++].n_tokens;
    int64_t seek = result->segments[segment].seek;
    for (int i = 0; i <= segment; i++) {
        const vocis_segment *s = &result->segments[i];
        vo_token_list *list = s->seek == seek ? &window : &all;
        vo_tokens_append(list, s->tokens, i == segment ? left : s->n_tokens, &err);
    }
    const vo_whisper_ids *ids = vo_tokenizer_ids(f->session->model->tokenizer);
    int32_t language = ids->first_language + vo_language_find(result->language);
    assert_int_equal(
        vo_build_prompt(f->session, params, &all, 0, 0, language, &none, &prompt, &sot_index, &err),
        VO_OK);
    vo_tokens_append(&prompt, window.ids, window.n, &err);
    encode_window(f, path, seek);
    vo_lm *lm = &f->session->lanes[0].lm;
    vo_lm_input input = {0, prompt.n, prompt.ids, 0};
    float *const *logits;
    assert_int_equal(lm->rewind(lm->self, 0, 0, &err), VO_OK);
    assert_int_equal(lm->step(lm->self, &input, 1, &logits, &err), VO_OK);
    int32_t ours = left < result->segments[segment].n_tokens
                       ? result->segments[segment].tokens[left]
                       : ids->eot;
    double gap = fabs((double)logits[0][ours] - (double)logits[0][theirs]);
    vo_tokens_free(&all);
    vo_tokens_free(&prompt);
    vo_tokens_free(&window);
    return gap;
}

typedef struct tally {
    int clips, equal, exceptions;
    int64_t ours, theirs, words; /* word errors */
    double language;             /* largest difference of a probability */
} tally;

static void count_errors(const char *reference, const char *text, int64_t *errors, int64_t *words) {
    vo_error err = {0};
    vo_error_rate rate = {0};
    char *r = vo_normalize_english(reference), *h = vo_normalize_english(text);
    assert_int_equal(vo_word_errors(r, h, &rate, &err), VO_OK);
    *errors += rate.substitutions + rate.deletions + rate.insertions;
    if (words) *words += rate.reference;
    vo_free(r);
    vo_free(h);
}

static void compare_language(fixture *f, json_t *file, const char *path, tally *t) {
    json_t *golden = json_object_get(file, "language");
    if (!json_is_object(golden)) return;
    vo_error err = {0};
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    float p[128];
    int best;
    assert_int_equal(vo_audio_load(path, &reading, &audio, &err), VO_OK);
    assert_int_equal(vo_detect_language(f->session, audio.samples, audio.n_samples, p, &best, &err),
                     VO_OK);
    vo_audio_free(&audio);
    const char *code;
    json_t *value;
    json_object_foreach(golden, code, value) {
        double d = fabs((double)p[vo_language_find(code)] - json_number_value(value));
        t->language = fmax(t->language, d);
    }
}

/* The most probable language of the golden, "en" for English-only models. */
static const char *best_language(json_t *file) {
    const char *code, *best = "en";
    double most = 0;
    json_t *value;
    json_object_foreach(json_object_get(file, "language"), code, value) {
        if (json_number_value(value) <= most) continue;
        most = json_number_value(value);
        best = code;
    }
    return best;
}

static void compare_clip(fixture *f, json_t *file, const char *mode, int beam, tally *t) {
    json_t *run = json_object_get(file, mode);
    const char *relative = json_string_value(json_object_get(file, "file"));
    const char *reference = json_string_value(json_object_get(file, "reference"));
    if (beam == 1 && json_object_get(file, "greedy_without_words"))
        run = json_object_get(file, "greedy_without_words");
    if (!run || !relative || !reference) return;
    static int32_t want[20000], have[20000];
    char path[1024];
    snprintf(path, sizeof path, "%s", real_data(relative));
    vocis_transcribe_params params = real_params(beam);
    /* Detection is compared by itself; the reference's choice then saves encoding twice. */
    if (beam == 1) compare_language(f, file, path, t);
    params.language = best_language(file);
    vocis_result *result = real_transcribe(f->session, path, &params);
    assert_non_null(result);
    int n_want = golden_ids(run, want, 20000), n_have = result_ids(result, run, have, 20000),
        same = 0;
    while (same < n_want && same < n_have && want[same] == have[same]) same++;
    t->clips++;
    if (same == n_want && same == n_have) {
        t->equal++;
    } else {
        int32_t theirs =
            same < n_want ? want[same] : vo_tokenizer_ids(f->session->model->tokenizer)->eot;
        double gap = beam == 1 ? logit_gap(f, path, &params, result, same, theirs) : NAN;
        t->exceptions++;
        printf("%s %s %s: %d of %d ids, then %d instead of %d, logits %.1e apart\n", f->name, mode,
               relative, same, n_want, same < n_have ? have[same] : -1, theirs, gap);
        if (beam == 1) assert_true(gap < 1e-3);
    }
    vo_buf text = {0};
    result_text(result, run, &text);
    count_errors(reference, text.data ? text.data : "", &t->ours, &t->words);
    count_errors(reference, json_string_value(json_object_get(run, "text")), &t->theirs, NULL);
    vo_buf_free(&text);
    vo_result_destroy(result);
}

static void compare_all(fixture *f, const char *mode, int beam, int at_least) {
    tally t = {0};
    size_t i;
    json_t *file;
    json_array_foreach(json_object_get(f->golden, "files"), i, file)
        compare_clip(f, file, mode, beam, &t);
    double ours = 100.0 * (double)t.ours / (double)t.words,
           theirs = 100.0 * (double)t.theirs / (double)t.words;
    printf("%s %s: %d of %d clips identical; word errors %.2f %%, reference %.2f %%; language "
           "probabilities within %.1e\n",
           f->name, mode, t.equal, t.clips, ours, theirs, t.language);
    assert_true(t.clips >= at_least);
    assert_true(t.exceptions <= MAX_EXCEPTIONS);
    assert_true(fabs(ours - theirs) <= 0.05 + 1e-9);
    assert_true(t.language <= 1e-3);
}

static void test_greedy(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    compare_all(f, "greedy", 1, 72);
}

static void test_beam(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    compare_all(f, "beam5", 5, 70);
}

/* The joined recording of 7.7 minutes: the reference's ids up to a near tie, and its words. */
static void test_visible(void **state) {
    fixture *f = *state;
    if (!f->session) skip();
    json_t *golden = json_load_file(real_data("golden/whisper_real/base_visible.json"), 0, NULL);
    json_t *truth = json_load_file(real_data("golden/whisper_real/visible.json"), 0, NULL);
    json_t *run = json_object_get(json_object_get(golden, "runs"), "greedy"), *clip;
    static int32_t want[20000], have[20000];
    char path[1024];
    snprintf(path, sizeof path, "%s", real_data("golden/whisper_real/visible.flac"));
    vocis_transcribe_params params = real_params(1);
    vocis_result *result = real_transcribe(f->session, path, &params);
    assert_non_null(result);
    int n_want = golden_ids(run, want, 20000), n_have = result_ids(result, run, have, 20000),
        same = 0;
    while (same < n_want && same < n_have && want[same] == have[same]) same++;
    vo_buf reference = {0};
    size_t i;
    json_t *clips = json_is_array(truth) ? truth : json_object_get(truth, "clips");
    json_array_foreach(clips, i, clip) {
        const char *text = json_string_value(json_object_get(clip, "text"));
        if (!text) text = json_string_value(json_object_get(clip, "reference"));
        assert_non_null(text);
        vo_buf_printf(&reference, "%s ", text);
    }
    int64_t ours = 0, theirs = 0, words = 0;
    count_errors(reference.data, result->text, &ours, &words);
    count_errors(reference.data, json_string_value(json_object_get(run, "text")), &theirs, NULL);
    double a = 100.0 * (double)ours / (double)words, b = 100.0 * (double)theirs / (double)words;
    printf("visible: %d of %d ids before the first difference; word errors %.2f %%, reference %.2f "
           "%%\n",
           same, n_want, a, b);
    if (same < n_want || same < n_have) {
        double gap = logit_gap(f, path, &params, result, same,
                               same < n_want ? want[same]
                                             : vo_tokenizer_ids(f->session->model->tokenizer)->eot);
        printf("visible: then logits %.1e apart\n", gap);
        assert_true(gap < 1e-3);
    }
    assert_true(fabs(a - b) <= 1.0);
    vo_buf_free(&reference);
    vo_result_destroy(result);
    json_decref(golden);
    json_decref(truth);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const struct CMUnitTest base[] = {cmocka_unit_test(test_encoder), cmocka_unit_test(test_logits),
                                      cmocka_unit_test(test_greedy), cmocka_unit_test(test_beam),
                                      cmocka_unit_test(test_visible)};
    const struct CMUnitTest tiny[] = {cmocka_unit_test(test_encoder), cmocka_unit_test(test_logits),
                                      cmocka_unit_test(test_greedy), cmocka_unit_test(test_beam)};
    /* One fixture per model, set up once for its group. */
    int failed = cmocka_run_group_tests_name("base", base, open_base, close_fixture);
    failed += cmocka_run_group_tests_name("tiny.en", tiny, open_tiny, close_fixture);
    return failed != 0;
}
