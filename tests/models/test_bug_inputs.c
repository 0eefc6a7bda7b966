/* SPDX-License-Identifier: MIT
 *
 * Inputs on which other engines are known to fail, as a user would give them: guards and second
 * looks on, temperatures as they come, int8. Each test is named after its input. What a file may
 * look like is tested in audio/, how the program behaves in e2e/.
 */
#include "models/support_real.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/text.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { SECOND = VOCIS_SAMPLE_RATE, BASE = 0, TINY, N_MODELS };
#define LONGEST 95 /* seconds of an input */
#define JFK_TEXT                                                                                   \
    "And so my fellow Americans ask not what your country can do for you ask what you can do for " \
    "your country."
static const double PI = 3.14159265358979323846;
static const char film[] = "antirez__qwen-asr/samples/night_of_the_living_dead_1968/"
                           "89s_ill_come_back_down_as_soon_as.wav";
static const char music[] = "mackron__miniaudio/data/16-44100-stereo.flac";
static const char mandarin[] = "wenet-e2e__wenet/test/resources/aishell-BAC009S0724W0121.wav";

static vocis_engine *engine;
static vocis_session *sessions[N_MODELS];
static float *input; /* what the tests put together: [n_input] of LONGEST seconds */
static int64_t n_input;

static int open_all(void **state) {
    static const char *const names[] = {"base", "tiny.en"};
    vo_error err = {0};
    engine = real_engine(2, NULL);
    input = vo_alloc_array((size_t)LONGEST * SECOND, sizeof *input);
    if (!engine || !input) return -1;
    for (int i = 0; i < N_MODELS; i++) {
        vocis_model *model = NULL;
        if (!real_model(names[i]) || !real_data(film)) return 0;
        if (vo_model_load(engine, real_model(names[i]), "int8", &model, &err) != VO_OK ||
            vo_session_create(model, (vocis_session_params){.max_sequences = 5}, &sessions[i],
                              &err) != VO_OK)
            return -1;
    }
    return 0;
}

static int close_all(void **state) {
    for (int i = 0; i < N_MODELS; i++)
        if (sessions[i]) real_session_destroy(sessions[i]);
    real_engine_destroy(engine);
    vo_free(input);
    return 0;
}

/* ---- making inputs -------------------------------------------------------------------------- */

static int clear(void **state) {
    memset(input, 0, (size_t)LONGEST * SECOND * sizeof *input);
    n_input = 0;
    return 0;
}

static void put_pause(double seconds) {
    n_input += (int64_t)(seconds * SECOND);
    assert_true(n_input <= (int64_t)LONGEST * SECOND);
}

static void put_samples(const float *x, int64_t n) {
    const int64_t at = n_input;
    put_pause((double)n / SECOND);
    n_input = at + n;
    memcpy(input + at, x, (size_t)n * sizeof *x);
}

static void put_file(const char *path, double seconds) {
    vo_audio audio = real_audio(path);
    assert_non_null(audio.samples);
    const int64_t n = (int64_t)(seconds * SECOND);
    put_samples(audio.samples, audio.n_samples < n ? audio.n_samples : n);
    vo_audio_free(&audio);
}

static void put_jfk(void) {
    put_file(REAL_JFK, LONGEST);
}

static void put_clip(const char *name) {
    vo_audio clip = real_clip(name);
    put_samples(clip.samples, clip.n_samples);
    vo_audio_free(&clip);
}

/* Uniform noise over the seconds [from, to), the same every time. */
static void add_noise(double from, double to, float amplitude) {
    uint64_t state = 1;
    for (int64_t i = (int64_t)(from * SECOND); i < (int64_t)(to * SECOND); i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        input[i] += amplitude * (2 * (float)((double)(state >> 32) / 4294967296.0) - 1);
    }
}

/* Four plucked chords, over and over. */
static void add_chords(double from, double to, float amplitude) {
    static const double notes[4][3] = {
        {262, 330, 392}, {220, 262, 330}, {175, 220, 262}, {196, 247, 294}};
    for (int64_t i = (int64_t)(from * SECOND); i < (int64_t)(to * SECOND); i++) {
        const double t = (double)i / SECOND, since = fmod(t, 2);
        for (int k = 0; k < 12; k++) {
            const double pitch = notes[(int)(t / 2) % 4][k % 3];
            const int overtone = k / 3 + 1;
            input[i] +=
                amplitude / 4 *
                (float)(sin(2 * PI * pitch * overtone * since) / overtone * exp(-1.2 * since));
        }
    }
}

/* ---- running -------------------------------------------------------------------------------- */

static vocis_transcribe_params params_of(int beam_size) {
    vocis_transcribe_params p = vo_transcribe_default_params();
    p.language = "en";
    p.beam_size = beam_size;
    return p;
}

/* Text is UTF-8, and times rise and stay within the input, those of words too. */
static void check(const vocis_result *r) {
    double before = 0, word = 0;
    assert_true(vo_utf8_valid(r->text, strlen(r->text)));
    for (int i = 0; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        assert_true(s->start >= before && s->end >= s->start && s->end <= r->duration);
        before = s->start;
        for (int k = 0; k < s->n_words; k++) {
            const vocis_word *w = &s->words[k];
            if (w->start < word - 0.011 || w->end < w->start)
                fail_msg("\"%s\" is said at %g s, after %g s", w->text, w->start, word);
            assert_true(vo_utf8_valid(w->text, strlen(w->text)) && w->end <= r->duration);
            word = w->end;
        }
    }
}

static vocis_result *run(int model, const vocis_transcribe_params *p) {
    vo_error err = {0};
    vocis_result *r = NULL;
    if (vo_transcribe(sessions[model], input, n_input, NULL, p, &r, &err) != VO_OK)
        fail_msg("%s", err.message);
    check(r);
    return r;
}

/* Runs a model, greedily, and counts the words that are wrong. */
static void assert_text(int model, const char *what, const char *want, int errors) {
    const vocis_transcribe_params p = params_of(1);
    vocis_result *r = run(model, &p);
    const int n = real_word_errors(want, r->text);
    if (n > errors) fail_msg("%s: %d word errors in \"%s\"", what, n, r->text);
    vo_result_destroy(r);
}

static bool ready(void) {
    return sessions[BASE] && sessions[TINY];
}

/* ---- where windows and inputs end ----------------------------------------------------------- */

/* Six sentences, as far apart as the length asks for; the last ends with the input. */
static void speech_fills_a_window_and_no_phrase_is_added(void **state) {
    static const double lengths[] = {30, 30.02, 32};
    if (!ready()) skip();
    for (int i = 0; i < 3; i++) {
        clear(NULL);
        for (int k = 0; k < REAL_SENTENCES; k++) put_clip(real_sentences[k]);
        const double gap = (lengths[i] - (double)n_input / SECOND) / (REAL_SENTENCES - 1);
        clear(NULL);
        for (int k = 0; k < REAL_SENTENCES; k++) {
            if (k > 0) put_pause(gap);
            put_clip(real_sentences[k]);
        }
        assert_text(BASE, "base", real_sentences_text, 3);
        assert_text(TINY, "tiny.en", real_sentences_text, 5);
    }
}

static void noise_in_the_last_tenth_of_a_second(void **state) {
    static const float loud[] = {0.05f, 0.3f};
    if (!ready()) skip();
    for (int i = 0; i < 2; i++) {
        clear(NULL);
        put_jfk();
        add_noise((double)n_input / SECOND - 0.1, (double)n_input / SECOND, loud[i]);
        assert_text(BASE, "base", JFK_TEXT, 0);
        assert_text(TINY, "tiny.en", JFK_TEXT, 0);
    }
}

/* Silence, faint noise, music and a street follow; nothing is said any more. */
static void nothing_is_said_after_speech(void **state) {
    if (!ready()) skip();
    for (int kind = 0; kind < 4; kind++) {
        clear(NULL);
        put_jfk();
        const double end = (double)n_input / SECOND;
        if (kind == 2)
            put_file(real_data(music), 20);
        else if (kind == 3)
            put_file(real_data("speechbrain__speechbrain/tests/samples/noise/noise4.wav"), 20);
        else
            put_pause(kind == 0 ? 1.5 : 22);
        if (kind == 1) add_noise(0, end + 22, 5e-4f);
        assert_text(BASE, "base", JFK_TEXT, 0);
        assert_text(TINY, "tiny.en", JFK_TEXT, 0);
    }
}

/* ---- nobody speaks -------------------------------------------------------------------------- */

static void assert_nothing(int model, const char *what, int beam_size, bool tries_once) {
    vocis_transcribe_params p = params_of(beam_size);
    vocis_result *r = run(model, &p);
    if (*r->text) fail_msg("%s: \"%s\"", what, r->text);
    if (tries_once) assert_int_equal(r->timings.fallbacks, 0);
    vo_result_destroy(r);
}

/* No text, and no second temperature, which would take most of the time. */
static void a_minute_of_noise(void **state) {
    if (!ready()) skip();
    for (int kind = 0; kind < 3; kind++) {
        clear(NULL);
        put_pause(60);
        add_noise(0, 60, kind == 0 ? 0.08f : 1e-3f);
        for (int64_t i = 0; kind == 1 && i < n_input; i++)
            input[i] += 0.01f * (float)sin(2 * PI * 50 * (double)i / SECOND);
        if (kind == 2) add_noise(20, 20.05, 0.5f);
        assert_nothing(TINY, "noise", 1, true);
    }
}

static void rooms_and_streets(void **state) {
    if (!ready()) skip();
    for (int i = 1; i <= 5; i++) {
        char path[80];
        snprintf(path, sizeof path, "speechbrain__speechbrain/tests/samples/noise/noise%d.wav", i);
        clear(NULL);
        put_file(real_data(path), 20);
        assert_nothing(BASE, path, 1, false);
        assert_nothing(TINY, path, 1, false);
    }
}

static void music_alone(void **state) {
    if (!ready()) skip();
    put_pause(20);
    add_chords(0, 20, 0.1f);
    assert_nothing(BASE, "chords", 1, true);
    assert_nothing(TINY, "chords", 1, true);
    clear(NULL);
    put_file(real_data(music), 25);
    assert_nothing(BASE, "music", 1, false);
    assert_nothing(TINY, "music", 1, false);
}

/* ---- speech and music ----------------------------------------------------------------------- */

/* Words stand where they are said, not where the music begins. */
static void music_before_speech(void **state) {
    if (!ready()) skip();
    put_pause(12);
    add_chords(0, 12, 0.1f);
    put_jfk();
    vocis_transcribe_params p = params_of(1);
    p.word_timestamps = true;
    for (int model = 0; model < N_MODELS; model++) {
        vocis_result *r = run(model, &p);
        assert_in_range(real_word_errors(JFK_TEXT, r->text), 0, 1);
        for (int i = 0; i < r->n_segments; i++)
            for (int k = 0; k < r->segments[i].n_words; k++)
                if (r->segments[i].words[k].start < 11.5)
                    fail_msg("\"%s\" at %g s", r->segments[i].words[k].text,
                             r->segments[i].words[k].start);
        vo_result_destroy(r);
    }
}

static float loudness(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return (float)sqrt(sum / (double)n);
}

/* As loud as the speech, which the voice detector hears a part of: the text stays. At 3 dB more it
 * hears nobody: the result says what was taken back and why. */
static void speech_that_drowns_in_music(void **state) {
    if (!ready()) skip();
    vo_audio jfk = real_audio(REAL_JFK);
    const vocis_transcribe_params p = params_of(1);
    for (int round = 0; round < 2; round++) {
        clear(NULL);
        put_file(real_data(music), 11);
        const float gain =
            (round ? 0.6f : 0.4f) * loudness(jfk.samples, n_input) / loudness(input, n_input);
        for (int64_t i = 0; i < n_input; i++) input[i] = gain * input[i] + 0.4f * jfk.samples[i];
        vocis_result *r = run(BASE, &p);
        print_message("%.1f s of speech are heard: \"%s\"\n", r->coverage.speech, r->text);
        if (round == 0) {
            assert_true(r->coverage.speech < 6);
            assert_in_range(real_word_errors(JFK_TEXT, r->text), 0, 8);
        } else {
            assert_true(r->coverage.speech == 0);
            assert_true(r->n_segments > 0 || r->n_removed > 0);
        }
        vo_result_destroy(r);
    }
    vo_audio_free(&jfk);
}

/* ---- loops and losses ----------------------------------------------------------------------- */

/* Film dialogue, with and without times, with the text before as context: no sentence stands three
 * times in a row, and both ways give the same words but for a few. */
static void a_minute_and_a_half_with_and_without_times(void **state) {
    if (!ready()) skip();
    put_file(real_data(film), LONGEST);
    vocis_transcribe_params p = params_of(1);
    vocis_result *with = run(TINY, &p);
    p.without_timestamps = true;
    vocis_result *without = run(TINY, &p);
    for (int i = 2; i < with->n_segments; i++)
        assert_false(strcmp(with->segments[i].text, with->segments[i - 1].text) == 0 &&
                     strcmp(with->segments[i].text, with->segments[i - 2].text) == 0);
    const int n = real_word_errors(with->text, without->text);
    if (n > 60) fail_msg("%d words differ: \"%s\" \"%s\"", n, with->text, without->text);
    assert_true(with->coverage.ratio > 0.97 && without->coverage.ratio > 0.97);
    vo_result_destroy(with);
    vo_result_destroy(without);
}

/* Six times the same sentence, really spoken: no loop. */
static void a_sentence_that_is_said_again_and_again(void **state) {
    if (!ready()) skip();
    char want[600] = "";
    for (int i = 0; i < 6; i++) {
        put_clip("bambatse_07_haggard_0054");
        put_pause(0.5);
        strcat(want, "so that she may be sure she is told exactly what passes? ");
    }
    const vocis_transcribe_params p = params_of(1);
    for (int model = 0; model < N_MODELS; model++) {
        vocis_result *r = run(model, &p);
        int said = 0;
        for (const char *at = r->text; (at = strstr(at, "she may be sure")); at++) said++;
        /* two misheard words in each */
        if (said != 6 || real_word_errors(want, r->text) > 12) fail_msg("\"%s\"", r->text);
        assert_true(r->coverage.lost < 0.5);
        vo_result_destroy(r);
    }
}

/* Names in the prompt cost no words, whatever they have to do with the speech. */
static void a_prompt_that_does_not_belong(void **state) {
    static const char *const prompts[] = {"Vocis",
                                          "Glossary: Vocis, Kubernetes, ComfyUI, PostgreSQL."};
    static const struct {
        const char *clip, *text;
    } clips[] = {{"nada_lily_02_haggard_0216",
                  "they had broken down the ferns with their feet and trampled the grass."},
                 {"swag_03_tompkins_0380", "or vice versa"},
                 {"shortstories_06_gaskell_0676", "and cover himself as well as he could with his "
                                                  "clothes."}};
    if (!ready()) skip();
    vocis_transcribe_params p = params_of(1);
    for (int i = 0; i < 3; i++) {
        clear(NULL);
        put_clip(clips[i].clip);
        for (int k = 0; k < 2; k++) {
            p.initial_prompt = prompts[k];
            vocis_result *r = run(k, &p);
            if (real_word_errors(clips[i].text, r->text) > 1)
                fail_msg("\"%s\" with \"%s\"", r->text, prompts[k]);
            vo_result_destroy(r);
        }
    }
}

/* ---- parts, rates, scripts ------------------------------------------------------------------ */

static void the_first_two_seconds(void **state) {
    static const double clip[] = {0, 2};
    if (!ready()) skip();
    put_jfk();
    vocis_transcribe_params p = params_of(1);
    p.clip_timestamps = clip;
    p.n_clip_timestamps = 2;
    p.word_timestamps = true;
    for (int model = 0; model < N_MODELS; model++) {
        vocis_result *r = run(model, &p);
        const int n = real_word_errors("And so my fellow Americans", r->text);
        if (n > 1) fail_msg("\"%s\"", r->text);
        assert_true(r->segments[r->n_segments - 1].end <= 2.5);
        assert_true(r->coverage.skipped > 5);
        vo_result_destroy(r);
    }
}

/* Bytes of 16-bit samples as a stream. */
typedef struct pcm {
    const int16_t *samples;
    int64_t n, at;
} pcm;

static int64_t read_pcm(void *user, void *data, size_t size) {
    pcm *p = user;
    const int64_t left = p->n - p->at, want = (int64_t)(size / sizeof *p->samples);
    const int64_t n = want < left ? want : left;
    memcpy(data, p->samples + p->at, (size_t)n * sizeof *p->samples);
    p->at += n;
    return n * (int64_t)sizeof *p->samples;
}

/* Replaces the input by what is left of it at 8 kHz. */
static void through_a_telephone(void) {
    int16_t *half = vo_alloc_array((size_t)n_input / 2, sizeof *half);
    assert_non_null(half);
    for (int64_t i = 0; i < n_input / 2; i++) {
        double sum = 0; /* a low pass: sinc in a Hann window */
        for (int k = -32; k <= 32; k++) {
            const int64_t at = 2 * i + k;
            const double x = PI * k * 0.47, w = 0.5 + 0.5 * cos(PI * k / 33);
            if (at >= 0 && at < n_input) sum += input[at] * (k ? sin(x) / x : 1) * w * 0.47;
        }
        half[i] = (int16_t)lrint(fmax(-32768, fmin(32767, sum * 32768)));
    }
    pcm p = {half, n_input / 2, 0};
    const vo_source source = {read_pcm, &p, "telephone"};
    vo_audio_params params = vo_audio_default_params();
    vo_audio audio = {0};
    vo_error err = {0};
    params.raw_rate = 8000;
    assert_int_equal(vo_audio_load_source(&source, &params, &audio, &err), VO_OK);
    clear(NULL);
    put_samples(audio.samples, audio.n_samples);
    vo_audio_free(&audio);
    vo_free(half);
}

/* The words of 16 kHz, each within 0.3 s. */
static void a_recording_at_8_khz(void **state) {
    if (!ready()) skip();
    vocis_transcribe_params p = params_of(5);
    p.word_timestamps = true;
    put_jfk();
    vocis_result *wide = run(BASE, &p);
    through_a_telephone();
    vocis_result *narrow = run(BASE, &p);
    assert_in_range(real_word_errors(wide->text, narrow->text), 0, 1);
    const vocis_segment *a = &wide->segments[0], *b = &narrow->segments[0];
    int n = 0;
    for (int i = 0; i < a->n_words && i < b->n_words; i++, n++)
        if (fabs(a->words[i].start - b->words[i].start) > 0.3 ||
            fabs(a->words[i].end - b->words[i].end) > 0.3)
            fail_msg("\"%s\" %g to %g s, not %g to %g", b->words[i].text, b->words[i].start,
                     b->words[i].end, a->words[i].start, a->words[i].end);
    assert_in_range(n, 8, 22);
    vo_result_destroy(wide);
    vo_result_destroy(narrow);
}

/* A decode that ends in the middle of a character: UTF-8 and JSON stay valid. */
static void characters_of_several_tokens(void **state) {
    if (!ready()) skip();
    put_file(real_data(mandarin), LONGEST);
    vocis_transcribe_params p = params_of(1);
    p.language = "zh";
    p.word_timestamps = true;
    for (p.max_tokens = 3; p.max_tokens < 9; p.max_tokens++) {
        vocis_result *r = run(BASE, &p);
        const vocis_write_params w = {.json_tokens = true};
        vo_error err = {0};
        char *document = NULL;
        size_t size = 0;
        json_error_t why;
        assert_int_equal(vo_result_write(r, "json", w, &document, &size, &err), VO_OK);
        json_t *json = json_loadb(document, size, 0, &why);
        if (!json) fail_msg("%s", why.text);
        json_decref(json);
        vo_free(document);
        vo_result_destroy(r);
    }
}

int main(void) {
#define INPUT(name) cmocka_unit_test_setup(name, clear)
    const struct CMUnitTest tests[] = {
        INPUT(speech_fills_a_window_and_no_phrase_is_added),
        INPUT(noise_in_the_last_tenth_of_a_second),
        INPUT(nothing_is_said_after_speech),
        INPUT(a_minute_of_noise),
        INPUT(rooms_and_streets),
        INPUT(music_alone),
        INPUT(music_before_speech),
        INPUT(speech_that_drowns_in_music),
        INPUT(a_minute_and_a_half_with_and_without_times),
        INPUT(a_sentence_that_is_said_again_and_again),
        INPUT(a_prompt_that_does_not_belong),
        INPUT(the_first_two_seconds),
        INPUT(a_recording_at_8_khz),
        INPUT(characters_of_several_tokens),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
