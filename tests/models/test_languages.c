/* SPDX-License-Identifier: MIT
 *
 * Recordings in several languages: each stretch is written in its own and not translated, whatever
 * the first 30 s are in; a language that was given is obeyed and its misfit said; and what nobody
 * says has no language.
 */
#include "models/support_real.h"

#include "base/memory.h"
#include "pipeline/language.h"
#include "text/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, LONGEST = 80 * SECOND };

static const char spanish[] =
    "argmaxinc__WhisperKit/Tests/WhisperKitTests/Resources/es_test_clip.wav";
static const char mandarin[] = "wenet-e2e__wenet/test/resources/aishell-BAC009S0724W0121.wav";
static const char english[] = "golden/whisper_real/visible.flac";

static vocis_engine *engine;
static vocis_model *model;
static vo_audio es, zh, en;
static float *joined; /* [LONGEST] */
static int64_t n_joined;
static char warnings[1024];

static int open_all(void **state) {
    vo_error err = {0};
    engine = real_engine(2, NULL);
    joined = vo_alloc_array(LONGEST, sizeof *joined);
    if (!engine || !joined) return -1;
    if (!real_model("base") || !real_data(spanish) || !real_data(mandarin) || !real_data(english))
        return 0;
    es = real_audio(real_data(spanish));
    zh = real_audio(real_data(mandarin));
    en = real_audio(real_data(english));
    if (!es.samples || !zh.samples || !en.samples) return -1;
    return vo_model_load(engine, real_model("base"), "int8", &model, &err) == VO_OK ? 0 : -1;
}

static int close_all(void **state) {
    vo_model_destroy(model);
    vo_audio_free(&es);
    vo_audio_free(&zh);
    vo_audio_free(&en);
    vo_free(joined);
    real_engine_destroy(engine);
    return 0;
}

static void begin(void) {
    memset(joined, 0, LONGEST * sizeof *joined);
    n_joined = 0;
    warnings[0] = 0;
}

/* So many seconds of a clip, and half a second of silence. */
static void join(const vo_audio *clip, double from, double seconds) {
    const int64_t first = (int64_t)(from * SECOND);
    int64_t n = (int64_t)(seconds * SECOND);
    if (n > clip->n_samples - first) n = clip->n_samples - first;
    assert_true(n <= LONGEST - n_joined - SECOND / 2);
    memcpy(joined + n_joined, clip->samples + first, (size_t)n * sizeof *joined);
    n_joined += n + SECOND / 2;
}

static void join_noise(double seconds) {
    srand(1);
    for (int64_t end = n_joined + (int64_t)(seconds * SECOND); n_joined < end; n_joined++)
        joined[n_joined] = 0.02f * (2 * (float)((double)rand() / RAND_MAX) - 1);
}

static void on_warning(void *user, const char *sentence) {
    const size_t used = strlen(warnings);
    if (used < sizeof warnings - 1) strncat(warnings, sentence, sizeof warnings - used - 1);
}

static vocis_transcribe_params params_of(vocis_chunking chunking, const char *languages) {
    vocis_transcribe_params p = vo_transcribe_default_params();
    p.beam_size = p.best_of = 1;
    p.chunking = chunking;
    p.languages = languages;
    p.on_warning = on_warning;
    return p;
}

static vocis_result *run(int windows, const vocis_transcribe_params *p) {
    return real_run(model, joined, n_joined, windows, p);
}

/* The text in a language, and that all of it lies between two times. */
static char *text_in(const vocis_result *r, const char *language, double from, double to) {
    vo_buf text = {0};
    vo_buf_puts(&text, "");
    for (int i = 0; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        print_message("%6.2f %6.2f %s %.2f%s\n", s->start, s->end, s->language,
                      (double)s->language_probability, s->text);
        if (strcmp(s->language, language) != 0) continue;
        vo_buf_puts(&text, s->text);
        assert_true(s->start >= from && s->end <= to);
    }
    assert_false(text.failed);
    return text.data;
}

static void assert_holds(const vocis_result *r, const char *language, double from, double to,
                         const char *words) {
    char *text = text_in(r, language, from, to);
    if (!strstr(text, words)) fail_msg("\"%s\" is not in \"%s\"", words, text);
    vo_free(text);
}

static const char libri_vox[] = "Todas las grabaciones de LibriVox son del dominio público";
static const char estate[] = "產中間協會"; /* of the property agents' association */

/* English for 40 s, then Mandarin, then Spanish. */
static void test_each_its_own(void **state) {
    if (!model) skip();
    begin();
    join(&en, 60, 40);
    join(&zh, 0, 10);
    join(&es, 0, 10);
    for (int i = 0; i < 2; i++) {
        const vocis_transcribe_params p = i == 0 ? params_of(VOCIS_CHUNK_SEQUENTIAL, "en,zh,es")
                                                 : params_of(VOCIS_CHUNK_SPEECH, "all");
        vocis_result *r = run(1, &p);
        assert_string_equal(r->language, "en");
        assert_holds(r, "en", 0, 42, "blossomed in full freshness like a rose in spring");
        assert_holds(r, "zh", 40, 46, estate);
        /* of all languages a last part may be another, and then stands alone */
        assert_holds(r, "es", 44, 54, i == 0 ? libri_vox : "Todas las grabaciones de LibriVox");
        vo_result_destroy(r);
    }
}

/* The same with as many windows side by side. */
static void test_any_company(void **state) {
    if (!model) skip();
    begin();
    join(&es, 0, 10);
    join(&zh, 0, 10);
    join(&en, 130, 12);
    join(&es, 0, 10);
    const vocis_transcribe_params p = params_of(VOCIS_CHUNK_SPEECH, "Spanish, en,chinese");
    vocis_result *one = run(1, &p), *three = run(3, &p);
    assert_int_equal(one->n_segments, three->n_segments);
    for (int i = 0; i < one->n_segments; i++) {
        assert_string_equal(one->segments[i].text, three->segments[i].text);
        assert_string_equal(one->segments[i].language, three->segments[i].language);
    }
    assert_holds(one, "zh", 7.5, 13.5, estate);
    vo_result_destroy(one);
    vo_result_destroy(three);
}

/* Neither recover nor guard: the rest is as in the reference. */
static void test_without_second_looks(void **state) {
    if (!model) skip();
    begin();
    join(&zh, 0, 10);
    join(&es, 0, 10);
    vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, "es,zh");
    p.recover = p.guard = false;
    p.word_timestamps = true;
    vocis_result *r = run(1, &p);
    assert_holds(r, "zh", 0, 5, estate);
    assert_holds(r, "es", 4, 13, "LibriVox");
    vo_result_destroy(r);
}

/* A language that is given is obeyed, and whoever speaks another one is said so. */
static void test_given(void **state) {
    if (!model) skip();
    begin();
    join(&es, 0, 10);
    vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, NULL);
    p.language = "en";
    vocis_result *r = run(1, &p);
    assert_string_equal(r->language, "en");
    for (int i = 0; i < r->n_segments; i++) assert_string_equal(r->segments[i].language, "en");
    assert_non_null(strstr(warnings, "sound like spanish"));
    assert_non_null(strstr(warnings, "en,es"));
    vo_result_destroy(r);
    p.language = "es";
    warnings[0] = 0;
    r = run(1, &p);
    assert_string_equal(warnings, "");
    assert_non_null(strstr(r->text, libri_vox));
    vo_result_destroy(r);
}

/* Text before the window leads the decoder away from the language that is spoken. */
static void test_script(void **state) {
    if (!model) skip();
    begin();
    join(&zh, 0, 10);
    vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, NULL);
    p.language = "zh";
    p.initial_prompt = "Hello, welcome to my lecture. Today we talk about housing policy in China.";
    p.temperature_increment = 0; /* one attempt */
    p.guard = false;
    vocis_result *led = run(1, &p);
    assert_null(strstr(led->text, estate));
    p.guard = true;
    vocis_result *r = run(1, &p);
    assert_holds(r, "zh", 0, 5, estate);
    assert_int_equal(r->n_removed, 1);
    assert_string_equal(r->removed[0].reason, "other script");
    assert_string_equal(r->removed[0].text, led->text);
    vo_result_destroy(r);
    /* When the other way is not likely either, the first one stays. */
    p.logprob_threshold = -0.01f;
    r = run(1, &p);
    assert_string_equal(r->text, led->text);
    assert_int_equal(r->n_removed, 0);
    vo_result_destroy(r);
    vo_result_destroy(led);
}

/* Nothing that the first 30 s hold says what is spoken after them. */
static void test_late(void **state) {
    if (!model) skip();
    begin();
    join_noise(35);
    join(&es, 0, 10);
    vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, NULL);
    vocis_result *r = run(1, &p);
    assert_string_equal(r->language, "es");
    assert_true(r->language_detected && (double)r->language_probability > 0.9);
    assert_holds(r, "es", 30, 44, libri_vox); /* its window begins there */
    vo_result_destroy(r);
}

static void test_nobody(void **state) {
    if (!model) skip();
    for (int chunking = 0; chunking < 2; chunking++) {
        begin();
        join_noise(6.64);
        const vocis_transcribe_params p = params_of((vocis_chunking)chunking, NULL);
        vocis_result *r = run(1, &p);
        assert_string_equal(r->text, "");
        assert_int_equal(r->n_segments, 0);
        assert_null(r->language);
        vo_result_destroy(r);
    }
}

/* A part that is the whole window is what the window itself says. */
static void test_whole_window(void **state) {
    if (!model) skip();
    vocis_session *session = NULL;
    vo_error err = {0};
    float p[VO_MAX_LANGUAGES] = {0};
    const float *const *logits;
    int best;
    const vocis_session_params sp = {.max_sequences = 1, .max_windows = 2};
    assert_int_equal(vo_session_create(model, sp, &session, &err), VO_OK);
    assert_int_equal(vo_detect_language(session, zh.samples, zh.n_samples, p, &best, &err), VO_OK);
    const vo_whisper_ids *ids = vo_tokenizer_ids(model->tokenizer);
    const vo_whisper_positions parts[] = {{0, 1500}, {100, 50}, {0, 1500}}, beyond = {1400, 101};
    vo_whisper_state *heard = session->workers->state;
    assert_int_equal(vo_whisper_listen(heard, 0, ids->sot, parts, 3, &logits, &err), VO_OK);
    for (int k = 0; k < 3; k += 2) {
        const float *x = logits[k] + ids->first_language;
        const float norm = vo_logsumexp(x, ids->n_languages);
        for (int i = 0; i < ids->n_languages; i++) assert_true(expf(x[i] - norm) == p[i]);
    }
    assert_true(logits[0][0] != logits[1][0]);
    assert_int_equal(vo_whisper_listen(heard, 0, ids->sot, &beyond, 1, &logits, &err),
                     VO_ERR_ARGUMENT);
    vo_session_destroy(session);
}

static void test_refused(void **state) {
    if (!model) skip();
    static const char *const wrong[][3] = {{"en", "en,es", "not both"},
                                           {NULL, "en,klingon", "klingon"},
                                           {NULL, "yue", "does not know"},
                                           {NULL, "", "no language"}};
    begin();
    n_joined = SECOND;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        vocis_transcribe_params p = params_of(VOCIS_CHUNK_SEQUENTIAL, wrong[i][1]);
        vocis_session *session = NULL;
        vocis_result *r = NULL;
        vo_error err = {0};
        p.language = wrong[i][0];
        const vocis_session_params sp = {.max_sequences = 1};
        assert_int_equal(vo_session_create(model, sp, &session, &err), VO_OK);
        assert_int_equal(vo_transcribe(session, joined, n_joined, NULL, &p, &r, &err),
                         VO_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, wrong[i][2]));
        assert_null(r);
        vo_session_destroy(session);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_its_own),
        cmocka_unit_test(test_any_company),
        cmocka_unit_test(test_without_second_looks),
        cmocka_unit_test(test_given),
        cmocka_unit_test(test_script),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_whole_window),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
