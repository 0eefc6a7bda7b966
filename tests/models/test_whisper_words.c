/* SPDX-License-Identifier: MIT
 *
 * Times of words against openai-whisper: on tiny models with hashed weights, and on real weights
 * and real speech, where a word must begin and end at the same position of audio. The reference's
 * goldens of real speech were made with its heads for unknown models, all of the upper half.
 */
#include "models/support_hash.h"
#include "models/support_real.h"

#include "base/memory.h"
#include "decode/align.h"
#include "models/whisper/alignment.h"
#include "text/words.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, MAX_TIMES = 4096 };

static vocis_session *open_session(vocis_engine *engine, const char *path, const char *compute,
                                   vocis_session_params sp) {
    vo_error err = {0};
    vocis_model *model;
    vocis_session *session = NULL;
    if (vo_model_load(engine, path, compute, &model, &err) != VO_OK ||
        vo_session_create(model, sp, &session, &err) != VO_OK)
        fail_msg("%s: %s", path, err.message);
    return session;
}

static vocis_transcribe_params word_params(void) {
    vocis_transcribe_params p = real_params(1);
    p.word_timestamps = true;
    p.language = "en";
    return p;
}

static vocis_result *transcribe(vocis_session *session, const float *samples, int64_t n,
                                const vocis_transcribe_params *p) {
    vo_error err = {0};
    vocis_result *result = NULL;
    if (vo_transcribe(session, samples, n, NULL, p, &result, &err) != VO_OK)
        fail_msg("%s", err.message);
    return result;
}

static double at(const json_t *array, size_t i) {
    assert_true(json_is_number(json_array_get(array, i)));
    return json_number_value(json_array_get(array, i));
}
static double number(const json_t *object, const char *key) {
    assert_true(json_is_number(json_object_get(object, key)));
    return json_number_value(json_object_get(object, key));
}

/* All heads of the upper half of the layers, as the reference has for models that it does not
 * know. */
static void use_upper_half(vocis_session *s) {
    vo_whisper *model = s->model->whisper;
    const vo_whisper_dims unknown = {.n_text_layer = model->dims.n_text_layer,
                                     .n_text_head = model->dims.n_text_head};
    vo_error err = {0};
    vo_weights *weights;
    char path[] = "/tmp/vocis-hash-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0 && hash_write_whisper(path, 80, 51864));
    assert_int_equal(vo_weights_open(path, &weights, &err), VO_OK);
    vo_free(model->alignment_heads);
    assert_int_equal(vo_whisper_find_alignment(weights, &unknown, &model->alignment_heads,
                                               &model->n_alignment_heads, &err),
                     VO_OK);
    assert_int_equal(model->n_alignment_heads,
                     (unknown.n_text_layer + 1) / 2 * unknown.n_text_head);
    assert_int_equal(model->alignment_heads[0], unknown.n_text_layer / 2);
    vo_weights_close(weights);
    unlink(path);
}

/* ---- hashed weights ------------------------------------------------------------------------- */

/* What a text's tokens look at, and how likely they are, piece by piece and after the decoder was
 * used for something else. */
static void check_alignment(vocis_session *s, const vo_audio *jfk, const json_t *golden) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(s->model->tokenizer);
    const json_t *text = json_object_get(golden, "ids"), *words = json_object_get(golden, "words");
    const int n_text = (int)json_array_size(text), first = ids->multilingual ? 4 : 2;
    const int n = first + n_text + 1, n_seen = (int)(jfk->n_samples / 320);
    int32_t tokens[128], start[128];
    float probabilities[128];
    vo_error err = {0};
    assert_true(n > 64 && n <= 128); /* several pieces */
    tokens[0] = ids->sot;
    tokens[1] = ids->first_language;
    tokens[2] = ids->transcribe;
    tokens[first - 1] = ids->no_timestamps;
    for (int i = 0; i < n_text; i++) tokens[first + i] = (int32_t)at(text, (size_t)i);
    tokens[n - 1] = ids->eot;
    const int heads = s->model->whisper->n_alignment_heads;
    float *weights = vo_alloc_array((size_t)(heads * n * n_seen), sizeof *weights);
    real_encode(s, jfk->samples, jfk->n_samples);
    vo_whisper_alignment job = {.feed = {.n_tokens = n, .tokens = tokens},
                                .n_seen = n_seen,
                                .first = first,
                                .n_scored = n_text,
                                .n_text_ids = ids->eot,
                                .weights = weights,
                                .probabilities = probabilities};
    for (int run = 0; run < 2; run++) {
        assert_int_equal(vo_whisper_align(s->workers->state, &job, &err), VO_OK);
        assert_int_equal(vo_kv_length(vo_whisper_cache(s->workers->state), 0), 0);
        for (int i = 0; i < heads * n; i++) {
            double sum = 0;
            for (int t = 0; t < n_seen; t++) sum += (double)weights[i * n_seen + t];
            assert_true(fabs(sum - 1) < 1e-4);
        }
        assert_int_equal(
            vo_align_tokens(weights, heads, n, n_seen, first - 1, n_text + 1, start, &err), VO_OK);
        assert_int_equal(json_array_size(words), n_text);
        for (int i = 0; i < n_text; i++) { /* a word a token */
            const json_t *word = json_array_get(words, (size_t)i);
            assert_true(start[i] / 50.0 == at(word, 1) && start[i + 1] / 50.0 == at(word, 2));
            assert_true(fabs((double)probabilities[i] / at(word, 3) - 1) < 2e-3);
        }
    }
    job.n_seen = 0;
    assert_int_equal(vo_whisper_align(s->workers->state, &job, &err), VO_ERR_ARGUMENT);
    vo_free(weights);
}

static void check_words(const vocis_segment *s, const json_t *words, double duration,
                        double p_error) {
    assert_int_equal(s->n_words, json_array_size(words));
    assert_non_null(s->words);
    for (int i = 0; i < s->n_words; i++) {
        const json_t *w = json_array_get(words, (size_t)i);
        assert_string_equal(s->words[i].text, json_string_value(json_array_get(w, 0)));
        if (fabs(s->words[i].start - fmin(duration, at(w, 1))) > 1e-4 ||
            fabs(s->words[i].end - fmin(duration, at(w, 2))) > 1e-4)
            fail_msg("\"%s\" from %g to %g instead of %g to %g", s->words[i].text,
                     s->words[i].start, s->words[i].end, at(w, 1), at(w, 2));
        assert_true(fabs((double)s->words[i].probability - at(w, 3)) <= p_error);
    }
}

/* Every segment of the golden but those that the reference has emptied. */
static void check_segments(const vocis_result *r, const json_t *segments, double p_error) {
    int n = 0;
    for (size_t i = 0; i < json_array_size(segments); i++) {
        const json_t *want = json_array_get(segments, i);
        int32_t ids[256];
        const int n_ids = real_json_ids(json_object_get(want, "tokens"), ids, 256);
        if (n_ids == 0) continue;
        assert_true(n < r->n_segments);
        const vocis_segment *s = &r->segments[n++];
        real_assert_ids("a segment", s->tokens, s->n_tokens, ids, n_ids);
        assert_int_equal(s->seek, (int64_t)number(want, "seek"));
        assert_true(fabs(s->start - fmin(r->duration, number(want, "start"))) < 1e-3);
        assert_true(fabs(s->end - fmin(r->duration, number(want, "end"))) < 1e-3);
        check_words(s, json_object_get(want, "words"), r->duration, p_error);
    }
    assert_int_equal(r->n_segments, n);
}

/* Speech, the same backwards, speech, 7 s of silence, speech. */
static float *long_input(const vo_audio *jfk, int64_t *n) {
    const int64_t one = jfk->n_samples;
    *n = 4 * one + 7 * SECOND;
    float *x = vo_alloc_array((size_t)*n, sizeof *x);
    for (int part = 0; part < 3; part++)
        memcpy(x + (part == 0   ? 0
                    : part == 1 ? 2 * one
                                : 3 * one + 7 * SECOND),
               jfk->samples, (size_t)one * sizeof *x);
    for (int64_t i = 0; i < one; i++) x[one + i] = jfk->samples[one - 1 - i];
    return x;
}

static void hashed(const char *name, int n_mels, int n_vocab) {
    char path[] = "/tmp/vocis-hash-XXXXXX";
    json_t *golden = json_load_file("tests/data/whisper/words.json", 0, NULL);
    const json_t *mine = json_object_get(golden, name);
    const int fd = mkstemp(path);
    assert_non_null(mine);
    assert_true(fd >= 0 && close(fd) == 0 && hash_write_whisper(path, n_mels, n_vocab));
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    vocis_session *session = real_session(engine, path, 5);
    unlink(path);
    vo_audio jfk = real_audio(REAL_JFK);
    int64_t n;
    float *x = long_input(&jfk, &n);
    vocis_transcribe_params p = word_params();
    p.no_speech_threshold = NAN;
    p.max_tokens = 40;
    check_alignment(session, &jfk, json_object_get(mine, "alignment"));
    vocis_result *r = transcribe(session, x, n, &p);
    check_segments(r, json_object_get(mine, "words"), 1e-5);
    vo_result_destroy(r);
    p.hallucination_silence_threshold = 1;
    r = transcribe(session, x, n, &p);
    check_segments(r, json_object_get(mine, "silence"), 1e-5);
    vo_result_destroy(r);
    vo_free(x);
    vo_audio_free(&jfk);
    real_session_destroy(session);
    real_engine_destroy(engine);
    json_decref(golden);
}

static void test_hashed_en(void **state) {
    hashed("en", 80, 51864);
}
static void test_hashed_multi(void **state) {
    hashed("multi", 80, 51865);
}
static void test_hashed_v3(void **state) {
    hashed("v3", 128, 51866);
}

/* ---- real weights --------------------------------------------------------------------------- */

/* Differences from the golden, in seconds, of all words of clips until the texts part. */
typedef struct differences {
    double error[MAX_TIMES];
    int n, equal;
} differences;

static void add_clip(vocis_session *s, const json_t *clip, differences *d) {
    const vocis_transcribe_params base = word_params();
    vocis_transcribe_params p = base;
    p.language = NULL;
    vocis_result *r =
        real_transcribe(s, real_data(json_string_value(json_object_get(clip, "file"))), &p);
    assert_non_null(r);
    const json_t *segments = json_object_get(json_object_get(clip, "greedy"), "segments");
    int segment = 0, word = 0;
    for (size_t i = 0; i < json_array_size(segments); i++) {
        const json_t *words = json_object_get(json_array_get(segments, i), "words");
        for (size_t k = 0; k < json_array_size(words); k++) {
            const json_t *want = json_array_get(words, k);
            while (segment < r->n_segments && word == r->segments[segment].n_words)
                segment++, word = 0;
            if (segment == r->n_segments) break;
            const vocis_word *have = &r->segments[segment].words[word++];
            if (strcmp(have->text, json_string_value(json_object_get(want, "word")))) goto end;
            assert_true(d->n + 2 <= MAX_TIMES);
            d->error[d->n++] = fabs(have->start - number(want, "start"));
            d->error[d->n++] = fabs(have->end - number(want, "end"));
        }
    }
end:
    vo_result_destroy(r);
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Clips whose names hold one of the parts: short ones, one of two windows, other languages. */
static void compare_clips(const char *model, const char *compute, int least, bool exact) {
    static const char *const parts[] = {"astralplane_03",
                                        "hartmann_12_fawcett_0088",
                                        "roots_19",
                                        "dont_worry_about_him",
                                        "45s_right_through",
                                        "es_test_clip",
                                        "aishell"};
    char name[64];
    snprintf(name, sizeof name, "golden/whisper_real/%s.json", model);
    if (!real_model(model) || !real_data(name)) skip();
    json_t *golden = json_load_file(real_data(name), 0, NULL), *clip;
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    vocis_session *session = open_session(
        engine, real_model(model), compute,
        (vocis_session_params){.max_sequences = 1, .max_windows = 1, .max_workers = 1});
    use_upper_half(session);
    static differences d;
    d = (differences){0};
    size_t i;
    json_array_foreach(json_object_get(golden, "files"), i, clip) {
        const char *file = json_string_value(json_object_get(clip, "file"));
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            if (strstr(file, parts[k])) add_clip(session, clip, &d);
    }
    qsort(d.error, (size_t)d.n, sizeof *d.error, ascending);
    while (d.equal < d.n && d.error[d.equal] < 1e-6) d.equal++;
    assert_true(d.n >= least);
    printf("%s %s: %d of %d times equal, median %.3f s, 95 %% %.3f s, largest %.3f s\n", model,
           compute, d.equal, d.n, d.error[d.n / 2], d.error[d.n * 95 / 100], d.error[d.n - 1]);
    assert_true(d.error[d.n / 2] <= 0.06 && d.error[d.n * 95 / 100] <= 0.2);
    if (exact) assert_int_equal(d.equal, d.n);
    real_session_destroy(session);
    real_engine_destroy(engine);
    json_decref(golden);
}

static void test_base(void **state) {
    compare_clips("base", "f32", 300, true);
}
static void test_tiny(void **state) {
    compare_clips("tiny.en", "f32", 200, true);
}
static void test_base_bf16(void **state) {
    compare_clips("base", "bf16", 150, false);
}
static void test_base_int8(void **state) {
    compare_clips("base", "int8", 100, false);
}

/* Another engine's path for tiny.en with the heads that its publisher names. */
static void another_engine(vocis_session *s, const char *name) {
    char path[96];
    snprintf(path, sizeof path, "OpenNMT__CTranslate2/tests/data/audio/%s_alignments.json", name);
    json_t *golden = json_load_file(real_data(path), 0, NULL);
    const json_t *ids = json_object_get(golden, "text_tokens");
    const json_t *steps = json_object_get(golden, "expected_alignments");
    const vo_whisper_ids *special = vo_tokenizer_ids(s->model->tokenizer);
    const int n_text = (int)json_array_size(ids), n = n_text + 3;
    const int n_seen = (int)number(golden, "num_frames") / 2;
    int32_t tokens[64] = {special->sot, special->no_timestamps}, start[64];
    float probabilities[64];
    vo_error err = {0};
    assert_in_range(n, 10, 64);
    for (int i = 0; i < n_text; i++) tokens[2 + i] = (int32_t)at(ids, (size_t)i);
    tokens[n - 1] = special->eot;
    snprintf(path, sizeof path, "OpenNMT__CTranslate2/tests/data/audio/%s.npy", name);
    int64_t count;
    float *samples = real_npy(real_data(path), &count);
    real_encode(s, samples, count);
    const int heads = s->model->whisper->n_alignment_heads;
    float *weights = vo_alloc_array((size_t)(heads * n * n_seen), sizeof *weights);
    const vo_whisper_alignment job = {.feed = {.n_tokens = n, .tokens = tokens},
                                      .n_seen = n_seen,
                                      .first = 2,
                                      .n_scored = n_text,
                                      .n_text_ids = special->eot,
                                      .weights = weights,
                                      .probabilities = probabilities};
    assert_int_equal(vo_whisper_align(s->workers->state, &job, &err), VO_OK);
    assert_int_equal(vo_align_tokens(weights, heads, n, n_seen, 1, n_text + 1, start, &err), VO_OK);
    double sum = 0;
    for (int i = 0; i < n_text; i++) sum += (double)probabilities[i];
    assert_true(fabs(sum - number(golden, "expected_text_token_probs_sum")) < 1e-2);
    int row = -1, off = 0;
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i);
        if ((int)at(step, 0) == row) continue;
        row = (int)at(step, 0);
        assert_in_range(row, 0, n_text);
        off += abs(start[row] - (int)at(step, 1));
    }
    print_message("%s: %d positions off in all\n", name, off);
    assert_int_equal(row, n_text);
    assert_true(off <= 2);
    vo_free(weights);
    vo_free(samples);
    json_decref(golden);
}

static void test_another_engine(void **state) {
    if (!real_model("tiny.en") || !real_data("OpenNMT__CTranslate2")) skip();
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    vocis_session *s = real_session(engine, real_model("tiny.en"), 1);
    another_engine(s, "jfk");
    another_engine(s, "mr_quilter");
    real_session_destroy(s);
    real_engine_destroy(engine);
}

/* ---- silence and company -------------------------------------------------------------------- */

/* Speech with silence between, which models fill with text that nobody said. */
static void test_silence(void **state) {
    if (!real_model("base")) skip();
    json_t *golden = json_load_file("tests/data/whisper/words_silence.json", 0, NULL), *run;
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    vocis_session *session = real_session(engine, real_model("base"), 1);
    vo_audio jfk = real_audio(REAL_JFK);
    size_t i, k;
    int64_t last = 0; /* where the last window of the run before began */
    bool moved = false;
    json_array_foreach(json_object_get(golden, "runs"), i, run) {
        json_t *parts = json_object_get(run, "parts"), *part;
        float *x = vo_alloc_array(120 * SECOND, sizeof *x);
        int64_t n = 0;
        json_array_foreach(parts, k, part) {
            const bool speech = strcmp(json_string_value(part), "jfk") == 0;
            if (speech) memcpy(x + n, jfk.samples, (size_t)jfk.n_samples * sizeof *x);
            n += speech ? jfk.n_samples : (int64_t)(strtod(json_string_value(part), NULL) * SECOND);
            assert_true(n <= 120 * SECOND);
        }
        vocis_transcribe_params p = word_params();
        p.no_speech_threshold = NAN;
        if (json_is_number(json_object_get(run, "threshold")))
            p.hallucination_silence_threshold = (float)number(run, "threshold");
        vocis_result *r = transcribe(session, x, n, &p);
        check_segments(r, json_object_get(run, "segments"), 2e-3);
        const int64_t seek = r->segments[r->n_segments - 1].seek;
        moved = moved || (i > 0 && seek != last);
        last = seek;
        vo_result_destroy(r);
        vo_free(x);
    }
    assert_true(moved); /* the threshold does something here */
    vo_audio_free(&jfk);
    real_session_destroy(session);
    real_engine_destroy(engine);
    json_decref(golden);
}

static vocis_result *in_company(const char *compute, int threads, vocis_session_params sp,
                                vocis_chunking chunking) {
    vocis_engine *engine = real_engine(threads, NULL);
    vocis_session *session = open_session(engine, real_model("base"), compute, sp);
    vo_audio audio = real_audio(real_data("golden/whisper_real/visible.flac"));
    vocis_transcribe_params p = word_params();
    p.chunking = chunking;
    vocis_result *r = transcribe(session, audio.samples, 50 * SECOND, &p);
    vo_audio_free(&audio);
    real_session_destroy(session);
    real_engine_destroy(engine);
    return r;
}

static void assert_same_words(const vocis_result *a, const vocis_result *b) {
    int words = 0;
    assert_int_equal(a->n_segments, b->n_segments);
    for (int i = 0; i < a->n_segments; i++) {
        const vocis_segment *x = &a->segments[i], *y = &b->segments[i];
        assert_true(x->start == y->start && x->end == y->end);
        assert_int_equal(x->n_words, y->n_words);
        for (int k = 0; k < x->n_words; k++, words++) {
            const vocis_word *v = &x->words[k], *w = &y->words[k];
            assert_string_equal(v->text, w->text);
            assert_true(v->start == w->start && v->end == w->end);
            assert_true(v->probability == w->probability);
            assert_true(v->start <= v->end && v->end <= a->duration);
        }
    }
    assert_true(words > 80);
}

static void test_company(void **state) {
    if (!real_model("base") || !real_data("golden/whisper_real/visible.flac")) skip();
    static const char *const computes[] = {"int8", "f32"};
    for (int i = 0; i < 2; i++) {
        vocis_result *alone = in_company(
            computes[i], 1,
            (vocis_session_params){.max_sequences = 1, .max_windows = 1, .max_workers = 1},
            VOCIS_CHUNK_SPEECH);
        vocis_result *batched = in_company(
            computes[i], 2,
            (vocis_session_params){.max_sequences = 2, .max_windows = 3, .max_workers = 1 + i},
            VOCIS_CHUNK_SPEECH);
        assert_same_words(batched, alone);
        vo_result_destroy(alone);
        vo_result_destroy(batched);
    }
    vocis_result *one = in_company(
        "int8", 1, (vocis_session_params){.max_sequences = 1, .max_windows = 1, .max_workers = 1},
        VOCIS_CHUNK_SEQUENTIAL);
    vocis_result *two = in_company(
        "int8", 2, (vocis_session_params){.max_sequences = 5, .max_windows = 1, .max_workers = 1},
        VOCIS_CHUNK_SEQUENTIAL);
    assert_same_words(two, one);
    vo_result_destroy(one);
    vo_result_destroy(two);
}

/* ---- heads ---------------------------------------------------------------------------------- */

/* The sizes of every published model lead to the heads that its publisher names. */
static void test_published_heads(void **state) {
    static const struct {
        const char *name;
        int vocabulary, mels;
    } models[] = {{"tiny.en", 51864, 80},   {"tiny", 51865, 80},           {"base.en", 51864, 80},
                  {"base", 51865, 80},      {"small.en", 51864, 80},       {"small", 51865, 80},
                  {"medium.en", 51864, 80}, {"medium", 51865, 80},         {"large-v2", 51865, 80},
                  {"large-v3", 51866, 128}, {"large-v3-turbo", 51866, 128}};
    if (!real_data("golden/whisper/alignment_heads.json")) skip();
    json_t *golden = json_load_file(real_data("golden/whisper/alignment_heads.json"), 0, NULL);
    char path[] = "/tmp/vocis-hash-XXXXXX";
    const int fd = mkstemp(path);
    vo_weights *weights;
    vo_error err = {0};
    assert_true(fd >= 0 && close(fd) == 0 && hash_write_whisper(path, 80, 51864));
    assert_int_equal(vo_weights_open(path, &weights, &err), VO_OK);
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const json_t *model = json_object_get(golden, models[i].name);
        const json_t *want = json_object_get(model, "heads");
        const vo_whisper_dims dims = {.n_vocab = models[i].vocabulary,
                                      .n_mels = models[i].mels,
                                      .n_text_layer = (int)number(model, "n_text_layer"),
                                      .n_text_head = (int)number(model, "n_text_head")};
        int64_t *heads;
        int n;
        assert_int_equal(vo_whisper_find_alignment(weights, &dims, &heads, &n, &err), VO_OK);
        assert_int_equal(n, json_array_size(want));
        for (int k = 0; k < n; k++) {
            const json_t *pair = json_array_get(want, (size_t)k);
            assert_true(heads[2 * k] == (int64_t)at(pair, 0));
            assert_true(heads[2 * k + 1] == (int64_t)at(pair, 1));
        }
        vo_free(heads);
    }
    vo_weights_close(weights);
    unlink(path);
    json_decref(golden);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hashed_en),
        cmocka_unit_test(test_hashed_multi),
        cmocka_unit_test(test_hashed_v3),
        cmocka_unit_test(test_base),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_base_bf16),
        cmocka_unit_test(test_base_int8),
        cmocka_unit_test(test_another_engine),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_company),
        cmocka_unit_test(test_published_heads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
