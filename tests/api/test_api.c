/* SPDX-License-Identifier: MIT
 *
 * The public header alone: what it promises about errors, NULL, defaults and ownership. The
 * tests that need a model look for tiny.en in $VOCIS_TEST_MODELS.
 */
#include "vocis.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLIP    "tests/data/audio/jfk.wav"
#define NOTHING "tests/data/no such thing"

static vocis_engine *engine;
static vocis_model *model;

/* ---- without a model ------------------------------------------------------------------------ */

static void test_null_is_destroyed(void **state) {
    vocis_engine_destroy(NULL);
    vocis_model_destroy(NULL);
    vocis_session_destroy(NULL);
    vocis_result_destroy(NULL);
    vocis_audio_free(NULL);
    vocis_free(NULL);
    vocis_audio empty = {0};
    vocis_audio_free(&empty);
}

static void test_names(void **state) {
    assert_true(strlen(vocis_version()) >= 5);
    for (int i = 0; i <= VOCIS_ERR_INTERNAL; i++) {
        assert_true(strlen(vocis_status_name((vocis_status)i)) > 0);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(vocis_status_name((vocis_status)i),
                                    vocis_status_name((vocis_status)j));
    }
    assert_non_null(vocis_status_name((vocis_status)99));
}

static void test_engine_errors(void **state) {
    vocis_engine *none = NULL;
    vocis_error err = {0};
    vocis_engine_params params = vocis_engine_default_params();
    params.cpu = "abacus";
    assert_int_equal(vocis_engine_create(params, &none, &err), VOCIS_ERR_ARGUMENT);
    assert_null(none);
    assert_int_equal(err.status, VOCIS_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "abacus"));
    /* the first failure stays */
    params.cpu = NULL;
    params.threads = -1;
    assert_int_equal(vocis_engine_create(params, &none, &err), VOCIS_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "abacus"));
    assert_int_equal(vocis_engine_create(params, &none, NULL), VOCIS_ERR_ARGUMENT);
}

static void test_engine(void **state) {
    vocis_engine *e = NULL;
    vocis_engine_params params = vocis_engine_default_params();
    params.threads = 3;
    params.cpu = "c";
    assert_int_equal(vocis_engine_create(params, &e, NULL), VOCIS_OK);
    assert_int_equal(vocis_engine_threads(e), 3);
    assert_non_null(vocis_engine_cpu(e));
    vocis_engine_destroy(e);
}

static void test_memory_returns(void **state) {
    size_t before = vocis_memory_get().active_bytes;
    vocis_engine *e = NULL;
    assert_int_equal(vocis_engine_create(vocis_engine_default_params(), &e, NULL), VOCIS_OK);
    assert_true(vocis_memory_get().active_bytes > before);
    vocis_engine_destroy(e);
    assert_int_equal(vocis_memory_get().active_bytes, before);
    assert_true(vocis_memory_get().peak_bytes > before);
}

static void test_model_errors(void **state) {
    vocis_model *none = NULL;
    vocis_error err = {0};
    vocis_model_params params = vocis_model_default_params();
    char *path = NULL;
    params.offline = true;
    params.cache_dir = "tests/data";
    assert_int_equal(vocis_model_open(engine, "basse", params, &none, &err), VOCIS_ERR_NOT_FOUND);
    assert_null(none);
    assert_non_null(strstr(err.message, "basse"));
    assert_int_equal(vocis_model_find(NULL, "basse", params, &path, NULL), VOCIS_ERR_NOT_FOUND);
    assert_null(path);
    err = (vocis_error){0};
    assert_int_not_equal(vocis_model_open(engine, CLIP, params, &none, &err), VOCIS_OK);
    assert_null(none);
    assert_non_null(strstr(err.message, "jfk.wav"));
    err = (vocis_error){0};
    assert_int_not_equal(vocis_model_open(engine, "tests/data", params, &none, &err), VOCIS_OK);
    assert_null(none);
    assert_int_equal(vocis_model_find(engine, CLIP, params, &path, NULL), VOCIS_OK);
    assert_string_equal(path, CLIP);
    vocis_free(path);
}

static void test_inspect(void **state) {
    char *json = NULL;
    vocis_error err = {0};
    const char *good = "tests/data/formats/tiny/safetensors/openai.bin";
    assert_int_equal(vocis_model_inspect(good, true, &json, &err), VOCIS_OK);
    assert_non_null(strstr(json, "\"safetensors\""));
    assert_non_null(strstr(json, "\"tensors\""));
    vocis_free(json);
    json = NULL;
    assert_int_equal(vocis_model_inspect(NOTHING, false, &json, &err), VOCIS_ERR_NOT_FOUND);
    assert_null(json);
    assert_int_not_equal(vocis_model_inspect(CLIP, false, &json, NULL), VOCIS_OK);
    assert_null(json);
}

static void test_known_models(void **state) {
    vocis_known_model m;
    bool base = false;
    for (int i = 0; i < vocis_known_model_count(); i++) {
        assert_int_equal(vocis_known_model_get(i, &m), VOCIS_OK);
        assert_true(m.bytes > 0 && m.name[0] && m.licence[0]);
        base |= strcmp(m.name, "base") == 0;
    }
    assert_true(base);
    assert_int_not_equal(vocis_known_model_get(-1, &m), VOCIS_OK);
    assert_int_not_equal(vocis_known_model_get(vocis_known_model_count(), &m), VOCIS_OK);
    assert_null(vocis_known_model_path("no such model", NULL));
}

static void test_languages(void **state) {
    assert_true(vocis_language_count() >= 99);
    assert_string_equal(vocis_language_code(0), "en");
    assert_string_equal(vocis_language_name(0), "english");
    assert_null(vocis_language_code(-1));
    assert_null(vocis_language_name(vocis_language_count()));
    assert_string_equal(vocis_language_code(vocis_language_find("GERMAN")), "de");
    assert_string_equal(vocis_language_code(vocis_language_find("Castilian")), "es");
    assert_int_equal(vocis_language_find("klingon"), -1);
    assert_int_equal(vocis_language_find(NULL), -1);
}

/* `left` bytes of silence, then the end or a failure. */
typedef struct source {
    int64_t left;
    bool fails;
} source;

static int64_t read_source(void *user, void *data, size_t size) {
    source *s = user;
    int64_t n = s->left < (int64_t)size ? s->left : (int64_t)size;
    if (n > 777) n = 777; /* odd pieces, as from a pipe */
    if (n == 0 && s->fails) return -1;
    memset(data, 0, (size_t)n);
    s->left -= n;
    return n;
}

static void test_audio(void **state) {
    vocis_audio audio = {0};
    vocis_audio_params params = vocis_audio_default_params();
    vocis_error err = {0};
    assert_int_equal(vocis_audio_load(CLIP, params, &audio, &err), VOCIS_OK);
    assert_int_equal(audio.n_samples, 11 * VOCIS_SAMPLE_RATE);
    assert_true(fabs(audio.duration - 11) < 1e-9);
    assert_string_equal(audio.warning, "");
    vocis_audio_free(&audio);
    assert_null(audio.samples);
    assert_int_equal(vocis_audio_load(NOTHING, params, &audio, &err), VOCIS_ERR_NOT_FOUND);
    assert_null(audio.samples);
    params.max_seconds = 5;
    assert_int_equal(vocis_audio_load(CLIP, params, &audio, NULL), VOCIS_ERR_LIMIT);
}

static void test_audio_stream(void **state) {
    vocis_audio audio = {0};
    vocis_audio_params params = vocis_audio_default_params();
    vocis_error err = {0};
    source s = {.left = 2 * VOCIS_SAMPLE_RATE};
    params.raw_rate = VOCIS_SAMPLE_RATE;
    assert_int_equal(vocis_audio_load_stream(read_source, &s, "pipe", params, &audio, &err),
                     VOCIS_OK);
    assert_int_equal(audio.n_samples, VOCIS_SAMPLE_RATE);
    vocis_audio_free(&audio);
    params.raw_format = "mu-law";
    assert_int_equal(vocis_audio_load_stream(read_source, &s, "pipe", params, &audio, &err),
                     VOCIS_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "mu-law"));
    /* a read that fails is no end of the input */
    params.raw_format = "s16le";
    s = (source){.left = 100, .fails = true};
    err = (vocis_error){0};
    assert_int_equal(vocis_audio_load_stream(read_source, &s, "pipe", params, &audio, &err),
                     VOCIS_ERR_IO);
    assert_non_null(strstr(err.message, "pipe"));
    assert_null(audio.samples);
    vocis_audio_free(&audio);
    err = (vocis_error){0};
    s = (source){.fails = true};
    assert_int_equal(vocis_audio_load_stream(read_source, &s, "pipe", vocis_audio_default_params(),
                                             &audio, &err),
                     VOCIS_ERR_IO);
    assert_non_null(strstr(err.message, "pipe"));
}

static void test_text(void **state) {
    vocis_error_rate rate;
    char *text = vocis_normalize("Mr. Smith's  COLOUR isn't grey!", "en");
    assert_string_equal(text, "mister smith is color is not gray");
    vocis_free(text);
    text = vocis_normalize("\xc3\x9c"
                           "ber, Berg!",
                           "de");
    assert_string_equal(text, "\xc3\xbc"
                              "ber berg ");
    vocis_free(text);
    assert_int_equal(vocis_compare("a b c d", "a x c d e", false, &rate, NULL), VOCIS_OK);
    assert_int_equal(rate.substitutions, 1);
    assert_int_equal(rate.insertions, 1);
    assert_int_equal(rate.deletions, 0);
    assert_int_equal(rate.reference, 4);
    assert_int_equal(vocis_compare("abc", "ac", true, &rate, NULL), VOCIS_OK);
    assert_int_equal(rate.deletions, 1);
}

/* ---- with a model --------------------------------------------------------------------------- */

static void need_model(void) {
    const char *folder = getenv("VOCIS_TEST_MODELS");
    char path[1024];
    vocis_error err = {0};
    if (!folder) {
        print_message("VOCIS_TEST_MODELS is not set: no model to test with\n");
        skip();
    }
    if (model) return;
    snprintf(path, sizeof path, "%s/tiny.en", folder);
    if (vocis_model_open(engine, path, vocis_model_default_params(), &model, &err) != VOCIS_OK)
        fail_msg("%s", err.message);
}

static vocis_session *open_session(int rows) {
    vocis_session *session = NULL;
    vocis_session_params params = vocis_session_default_params();
    params.max_sequences = rows;
    assert_int_equal(vocis_session_create(model, params, &session, NULL), VOCIS_OK);
    return session;
}

static vocis_transcribe_params greedy(void) {
    vocis_transcribe_params params = vocis_transcribe_default_params();
    params.beam_size = 1;
    params.best_of = 1;
    params.temperature_increment = 0;
    return params;
}

static void test_session_errors(void **state) {
    need_model();
    vocis_session *none = NULL;
    vocis_session_params params = {.max_sequences = 0};
    assert_int_equal(vocis_session_create(model, params, &none, NULL), VOCIS_ERR_ARGUMENT);
    assert_null(none);
    vocis_session *session = open_session(1);
    vocis_result *result = NULL;
    vocis_error err = {0};
    float silence[16] = {0};
    vocis_transcribe_params p = greedy();
    p.beam_size = 2;
    assert_int_equal(vocis_transcribe(session, silence, 16, p, &result, &err), VOCIS_ERR_ARGUMENT);
    p = greedy();
    p.language = "klingon";
    assert_int_equal(vocis_transcribe(session, silence, 16, p, &result, NULL), VOCIS_ERR_ARGUMENT);
    p = greedy();
    p.task = VOCIS_TRANSLATE;
    assert_int_equal(vocis_transcribe(session, silence, 16, p, &result, NULL), VOCIS_ERR_ARGUMENT);
    p = greedy();
    assert_int_equal(vocis_transcribe_file(session, NOTHING, p, &result, NULL),
                     VOCIS_ERR_NOT_FOUND);
    assert_null(result);
    /* the session is as good as before */
    assert_int_equal(vocis_transcribe(session, silence, 0, p, &result, NULL), VOCIS_OK);
    assert_int_equal(vocis_result_segment_count(result), 0);
    assert_string_equal(vocis_result_text(result), "");
    vocis_result_destroy(result);
    vocis_benchmark b;
    assert_int_equal(vocis_session_benchmark(session, 0, &b, NULL), VOCIS_ERR_ARGUMENT);
    vocis_session_destroy(session);
}

typedef struct calls {
    int segments, progress, aborts, stop_after;
    const float *samples;
    int64_t n, at;
} calls;

static void on_segment(void *user, const vocis_segment *segment) {
    assert_int_equal(segment->id, ((calls *)user)->segments++);
    assert_true(segment->n_tokens > 0 && segment->end > segment->start);
}
static void on_progress(void *user, double done, double total) {
    ((calls *)user)->progress++;
    assert_true(done >= 0 && done <= total);
}
static bool on_abort(void *user) {
    calls *c = user;
    return c->stop_after > 0 && ++c->aborts > c->stop_after;
}
static int64_t pull(void *user, float *samples, int64_t size) {
    calls *c = user;
    int64_t n = c->n - c->at < size ? c->n - c->at : size;
    if (n > 999) n = 999;
    memcpy(samples, c->samples + c->at, (size_t)n * sizeof *samples);
    c->at += n;
    return n;
}
static int64_t pull_nothing(void *user, float *samples, int64_t size) {
    return -1;
}

static void test_transcribe(void **state) {
    need_model();
    calls c = {0};
    vocis_session *session = open_session(1);
    vocis_result *file = NULL, *pulled = NULL, *aborted = NULL, *owned = NULL;
    vocis_audio audio = {0};
    vocis_transcribe_params p = greedy();
    p.on_segment = on_segment;
    p.on_progress = on_progress;
    p.on_abort = on_abort;
    p.user = &c;
    assert_int_equal(vocis_transcribe_file(session, CLIP, p, &file, NULL), VOCIS_OK);
    assert_non_null(strstr(vocis_result_text(file), "ask not what your country can do for you"));
    assert_true(c.segments > 0 && c.progress > 0);
    assert_int_equal(vocis_result_segment_count(file), c.segments);
    assert_null(vocis_result_segment(file, -1));
    assert_null(vocis_result_segment(file, c.segments));
    assert_string_equal(vocis_result_language(file), "en");
    assert_true(fabs(vocis_result_duration(file) - 11) < 1e-9);
    assert_true(vocis_result_timings(file).tokens > 10);

    assert_int_equal(vocis_audio_load(CLIP, vocis_audio_default_params(), &audio, NULL), VOCIS_OK);
    c = (calls){.samples = audio.samples, .n = audio.n_samples};
    assert_int_equal(vocis_transcribe_pull(session, pull, &c, p, &pulled, NULL), VOCIS_OK);
    assert_string_equal(vocis_result_text(pulled), vocis_result_text(file));
    vocis_error err = {0};
    vocis_result *none = NULL;
    assert_int_equal(vocis_transcribe_pull(session, pull_nothing, &c, p, &none, &err),
                     VOCIS_ERR_IO);
    assert_null(none);

    c = (calls){.stop_after = 3};
    assert_int_equal(vocis_transcribe(session, audio.samples, audio.n_samples, p, &aborted, NULL),
                     VOCIS_ERR_ABORTED);
    vocis_transcribe_params wrong = p;
    wrong.beam_size = 99;
    assert_int_equal(vocis_transcribe_audio(session, &audio, wrong, &owned, NULL),
                     VOCIS_ERR_ARGUMENT);
    assert_non_null(audio.samples); /* not yet taken */
    c = (calls){0};
    assert_int_equal(vocis_transcribe_audio(session, &audio, p, &owned, NULL), VOCIS_OK);
    assert_string_equal(vocis_result_text(owned), vocis_result_text(file));
    assert_null(audio.samples);
    vocis_result_destroy(owned);
    vocis_result_destroy(aborted);
    vocis_result_destroy(pulled);
    vocis_result_destroy(file);
    vocis_audio_free(&audio);
    vocis_session_destroy(session);
}

static void test_write(void **state) {
    need_model();
    static const char *const formats[] = {"txt", "srt", "vtt", "tsv", "json", "csv", "lrc"};
    vocis_session *session = open_session(1);
    vocis_result *result = NULL;
    vocis_error err = {0};
    char *document = NULL;
    size_t size;
    assert_int_equal(vocis_transcribe_file(session, CLIP, greedy(), &result, NULL), VOCIS_OK);
    /* a result outlives its session */
    vocis_session_destroy(session);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        assert_int_equal(vocis_result_write(result, formats[i], vocis_write_default_params(),
                                            &document, &size, &err),
                         VOCIS_OK);
        assert_int_equal(strlen(document), size);
        assert_non_null(strstr(document, "country"));
        vocis_free(document);
        document = NULL;
    }
    vocis_write_params params = vocis_write_default_params();
    params.subtitle_style = "broadcast";
    assert_int_equal(vocis_result_write(result, "srt", params, &document, &size, &err), VOCIS_OK);
    for (char *line = strtok(document, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(strlen(line) <= 42);
    vocis_free(document);
    document = NULL;
    params.subtitle_style = "none of them";
    assert_int_equal(vocis_result_write(result, "srt", params, &document, &size, NULL),
                     VOCIS_ERR_ARGUMENT);
    assert_int_equal(
        vocis_result_write(result, "pdf", vocis_write_default_params(), &document, &size, &err),
        VOCIS_ERR_ARGUMENT);
    assert_null(document);
    vocis_result_destroy(result);
}

static void test_benchmark(void **state) {
    need_model();
    vocis_session *session = open_session(5);
    vocis_benchmark b;
    assert_int_equal(vocis_session_benchmark(session, 1, &b, NULL), VOCIS_OK);
    assert_true(b.peak_gflops > 0 && b.mel_seconds > 0 && b.encode_seconds > 0);
    /* the sizes of tiny: 4 layers of 384, 1500 positions, 80 mel bands */
    double t = 1500, w = 384;
    double work = 4 * (24 * t * w * w + 4 * t * t * w) + 4 * 4 * t * w * w + 2 * 3000 * w * 240 +
                  2 * 1500 * w * 1152;
    assert_true(fabs(b.encode_gflops - work / 1e9) < 1e-6);
    assert_true(b.read_gbs > 0);
    assert_true(b.steps[0].seconds > 0 && b.steps[1].seconds > 0);
    assert_true(b.steps[1].rows == 5 && b.steps[1].windows == 1);
    assert_true(b.steps[1].megabytes > 1 && b.steps[1].megabytes == b.steps[0].megabytes);
    assert_int_equal(b.steps[4].rows, 16);
    assert_true(b.steps[4].seconds == 0); /* the session has five rows and one window */
    vocis_session_destroy(session);
}

static int open_engine(void **state) {
    return vocis_engine_create(vocis_engine_default_params(), &engine, NULL);
}
static int close_engine(void **state) {
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_is_destroyed),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_engine_errors),
        cmocka_unit_test(test_engine),
        cmocka_unit_test(test_memory_returns),
        cmocka_unit_test(test_model_errors),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_known_models),
        cmocka_unit_test(test_languages),
        cmocka_unit_test(test_audio),
        cmocka_unit_test(test_audio_stream),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_session_errors),
        cmocka_unit_test(test_transcribe),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_benchmark),
    };
    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
