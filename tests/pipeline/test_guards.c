/* SPDX-License-Identifier: MIT
 *
 * Loops are found, and only loops, but for what somebody does say again and again; text where
 * nobody speaks, or more than can be said, goes unless the model is sure of it.
 */
#include "pipeline/guards.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { MOST = 256 };

/* count times the phrase first, first + 1 ...; returns the new number of tokens. */
static int put(int32_t *tokens, int n, int32_t first, int period, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < period; k++) tokens[n++] = first + k;
    return n;
}

static void test_loops(void **state) {
    int32_t t[MOST];
    vo_loop loop;
    int n = put(t, 0, 1000, 40, 1); /* all different */
    assert_false(vo_loop_find(t, n, &loop));
    n = put(t, n, 10, 6, 3);
    n = put(t, n, 2000, 5, 1);
    assert_true(vo_loop_find(t, n, &loop));
    assert_int_equal(loop.from, 40);
    assert_int_equal(loop.period, 6);
    assert_int_equal(loop.times, 3);
    /* People do say "no, no, no, no", and a short phrase four times. */
    assert_false(vo_loop_find(t, put(t, 0, 7, 2, 4), &loop));
    assert_false(vo_loop_find(t, put(t, 0, 7, 3, 4), &loop));
    assert_false(vo_loop_find(t, put(t, 0, 7, 6, 2), &loop));
    assert_true(vo_loop_find(t, put(t, 0, 7, 1, 8), &loop));
    assert_int_equal(loop.period, 1);
    assert_int_equal(loop.times, 8);
    assert_true(vo_loop_find(t, put(t, 0, 7, 3, 5), &loop));
    /* The last round may be cut off. */
    n = put(t, 0, 7, 8, 3);
    assert_true(vo_loop_find(t, n + put(t + n, 0, 7, 5, 1), &loop));
    assert_int_equal(loop.period, 8);
    assert_int_equal(loop.times, 3);
    assert_false(vo_loop_find(t, 0, &loop));
    assert_false(vo_loop_find(t, 1, &loop));
}

/* What is found repeats itself as it says, in random tokens of a small alphabet. */
static void test_random_loops(void **state) {
    srand(5);
    int found = 0;
    for (int round = 0; round < 3000; round++) {
        int32_t t[MOST];
        const int n = rand() % 60, letters = 2 + rand() % 4;
        for (int i = 0; i < n; i++) t[i] = rand() % letters;
        vo_loop loop;
        if (!vo_loop_find(t, n, &loop)) continue;
        found++;
        assert_true(loop.from >= 0 && loop.from + loop.period * loop.times <= n);
        for (int i = loop.from + loop.period; i < loop.from + loop.period * loop.times; i++)
            assert_int_equal(t[i], t[i - loop.period]);
    }
    assert_true(found > 20);
}

static vocis_segment segment(double start, double end, const char *text, float logprob,
                             float no_speech) {
    return (vocis_segment){.start = start,
                           .end = end,
                           .text = text,
                           .avg_logprob = logprob,
                           .no_speech_prob = no_speech};
}

/* What the detector says of so many seconds */
static vo_voice voice_of(float *p, float *levels, int64_t n, int seconds, vocis_span *spans,
                         int n_spans) {
    return (vo_voice){.probabilities = p,
                      .levels = levels,
                      .n = n,
                      .n_samples = (int64_t)seconds * 16000,
                      .spans = spans,
                      .n_spans = n_spans};
}

static void test_unspoken(void **state) {
    float p[625] = {0}, levels[625] = {0}; /* 20 s */
    vocis_span speech[] = {{10, 12}};
    for (int i = 312; i < 375; i++) p[i] = 0.9f;
    p[500] = 0.4f;                                   /* 16 s: something like a voice */
    for (int i = 0; i < 469; i++) levels[i] = 0.01f; /* 15 s of sound */
    const vo_voice voice = voice_of(p, levels, 625, 20, speech, 1);
    const vocis_segment unsure = segment(4, 6, " Thank you.", -0.7f, 0.1f),
                        silent = segment(4, 6, " Thank you.", -0.2f, 0.5f),
                        sure = segment(4, 6, " La la la", -0.2f, 0.1f),
                        nothing = segment(17, 18, " La la la", -0.2f, 0.1f),
                        spoken = segment(10.5, 11, " Yes.", -0.9f, 0.5f),
                        beside = segment(12.5, 13, " Yes.", -0.9f, 0.5f),
                        murmured = segment(15.5, 16.5, " Hm.", -0.9f, 0.5f),
                        hopeless = segment(15.5, 16.5, " Hm.", -1.1f, 0.1f),
                        mute = segment(15.5, 16.5, " Hm.", -0.9f, 0.7f),
                        behind = segment(25, 26, " Bye.", -0.9f, 0.5f);
    assert_true(vo_guard_is_unspoken(&unsure, &voice));
    assert_true(vo_guard_is_unspoken(&silent, &voice));
    assert_false(vo_guard_is_unspoken(&sure, &voice));
    assert_true(vo_guard_is_unspoken(&nothing, &voice));
    assert_false(vo_guard_is_unspoken(&spoken, &voice));
    assert_false(vo_guard_is_unspoken(&beside, &voice));
    assert_false(vo_guard_is_unspoken(&murmured, &voice));
    assert_true(vo_guard_is_unspoken(&hopeless, &voice));
    assert_true(vo_guard_is_unspoken(&mute, &voice));
    assert_true(vo_guard_is_unspoken(&behind, &voice));
}

/* As many utterances as rounds, alike in length: somebody says it again and again. */
static void test_spoken_loops(void **state) {
    float p[1], levels[1];
    vocis_span even[] = {{0, 1.7}, {2.4, 4.0}, {4.7, 6.3}, {7.0, 8.9}},
               uneven[] = {{0, 1.7}, {2.4, 3.0}, {4.7, 6.3}, {7.0, 8.9}},
               pairs[] = {{0, 0.5}, {1, 2}, {3, 3.5}, {4, 5}, {6, 6.5}, {7, 8}}, on[] = {{0, 8.9}},
               breath[] = {{0, 4}, {4.2, 8.9}};
    vo_voice voice = voice_of(p, levels, 0, 10, even, 4);
    assert_true(vo_loop_is_spoken(&voice, 0, 9, 4));
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 3));
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 5));
    assert_true(vo_loop_is_spoken(&voice, 2, 9, 3)); /* part of them */
    assert_false(vo_loop_is_spoken(&voice, 20, 30, 3));
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 0));
    voice.spans = uneven;
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 4));
    voice.spans = pairs; /* a sentence with a pause in it */
    voice.n_spans = 6;
    assert_true(vo_loop_is_spoken(&voice, 0, 9, 3));
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 6));
    voice.spans = on; /* one long speech, of something else */
    voice.n_spans = 1;
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 3));
    voice.spans = breath;
    voice.n_spans = 2;
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 2));
    voice.n_spans = 0;
    assert_false(vo_loop_is_spoken(&voice, 0, 9, 3));
}

/* More characters than the speech has room for; a letter of any script counts once. */
static void test_too_fast(void **state) {
    float p[1], levels[1];
    vocis_span speech[] = {{10, 10.5}};
    const vo_voice voice = voice_of(p, levels, 0, 20, speech, 1);
    char text[400] = "", wide[400] = "";
    for (int i = 0; i < 61; i++) strcat(text, "x");
    for (int i = 0; i < 60; i++) strcat(wide, "\u5e02");
    vocis_segment s = segment(9.5, 11, text, -0.6f, 0);
    assert_true(vo_guard_is_too_fast(&s, &voice));
    s.text = wide;
    assert_false(vo_guard_is_too_fast(&s, &voice));
    s.text = text + 1;
    assert_false(vo_guard_is_too_fast(&s, &voice));
    s.text = text;
    s.avg_logprob = -0.4f; /* the model is sure */
    assert_false(vo_guard_is_too_fast(&s, &voice));
}

/* Where it is loud the detector may be deaf: it takes a model that doubts its text more. */
static void test_loud(void **state) {
    float p[625] = {0}, levels[625] = {0}; /* 20 s */
    bool loud[625] = {0};
    for (int i = 125; i < 250; i++) loud[i] = true; /* 4 to 8 s */
    for (int i = 0; i < 625; i++) levels[i] = 0.01f;
    const vo_voice voice = {
        .probabilities = p, .levels = levels, .n = 625, .n_samples = 20 * 16000, .loud = loud};
    char text[100] = "";
    for (int i = 0; i < 99; i++) strcat(text, "x");
    const vocis_segment unsure = segment(4, 6, text, -0.7f, 0.5f),
                        hopeless = segment(4, 6, text, -1.1f, 0.5f),
                        mute = segment(4, 6, text, -0.7f, 0.7f),
                        outside = segment(7.5, 12, text, -0.7f, 0.5f),
                        early = segment(1, 7, "Not said before 5 s", -0.7f, 0.5f),
                        late = segment(1, 9, "Not said before 7 s", -0.7f, 0.5f);
    assert_false(vo_guard_is_unspoken(&unsure, &voice));
    assert_true(vo_guard_is_unspoken(&hopeless, &voice));
    assert_true(vo_guard_is_unspoken(&mute, &voice));
    assert_true(vo_guard_is_unspoken(&outside, &voice));
    assert_false(vo_guard_is_unspoken(&early, &voice));
    assert_true(vo_guard_is_unspoken(&late, &voice));
    assert_false(vo_guard_is_too_fast(&unsure, &voice)); /* 99 letters in 3 s */
    assert_true(vo_guard_is_too_fast(&outside, &voice));
}

static void test_echo(void **state) {
    enum { EOT = 1000 };
    float p[1], levels[1];
    vocis_span speech[] = {{8, 10.6}};
    const vo_voice voice = voice_of(p, levels, 0, 20, speech, 1);
    const int32_t before[] = {EOT + 1, 7, 8, EOT + 2, 1, 2, EOT + 9, 3, 4, 5},
                  tokens[] = {EOT + 1, 1, 2, 3, 4, 5, EOT + 8};
    vocis_segment s = segment(10, 12, " We could strengthen", 0, 0); /* 20 letters in 0.6 s */
    s.tokens = tokens;
    s.n_tokens = 7;
    assert_true(vo_guard_is_echo(&s, before, 10, EOT, 10, &voice));
    assert_false(vo_guard_is_echo(&s, before, 9, EOT, 10, &voice));
    assert_false(vo_guard_is_echo(&s, before, 0, EOT, 10, &voice));
    assert_false(vo_guard_is_echo(&s, before, 10, EOT, 9, &voice));     /* time to say it again */
    assert_false(vo_guard_is_echo(&s, before + 6, 4, EOT, 10, &voice)); /* more than before */
    s.tokens = tokens + 3;
    s.n_tokens = 4;
    assert_false(vo_guard_is_echo(&s, before, 10, EOT, 10, &voice)); /* three words */
    s.tokens = tokens + 2;
    s.n_tokens = 5;
    assert_true(vo_guard_is_echo(&s, before, 10, EOT, 10, &voice));
}

static void test_said(void **state) {
    const vocis_segment s[] = {segment(0, 3, " We went there,", 0, 0),
                               segment(3, 5, " Mr. Cooper!", 0, 0),
                               segment(60, 62, " Nothing else.", 0, 0)};
    const vocis_segment same = segment(2, 4, " there mr cooper", 0, 0),
                        more = segment(2, 4, " there mr coopers", 0, 0),
                        long_one = segment(9, 12, " So we went there, Mr Cooper, you see", 0, 0),
                        part = segment(2, 4, " here", 0, 0), /* of a word is not said */
        far = segment(2, 4, " nothing else", 0, 0);
    assert_true(vo_guard_is_said(&same, s, 3));
    assert_false(vo_guard_is_said(&more, s, 3));
    assert_true(vo_guard_is_said(&long_one, s, 3)); /* five of eight in a row */
    assert_false(vo_guard_is_said(&part, s, 3));
    assert_false(vo_guard_is_said(&far, s, 3));
    assert_false(vo_guard_is_said(&s[0], s, 3)); /* itself does not count */
}

/* ---- whole segments ---------------------------------------------------------------------------
 */

static const int32_t one_two[] = {1, 2, 3, 4, 5, 6};
static const float logprobs[MOST];

/* With words of a second each, if there are any. */
static void add(vocis_result *r, double start, double end, const char *text, const int32_t *tokens,
                int n, int n_words) {
    static const char *const texts[] = {" I", " will", " not", " go", " there"};
    vocis_segment s = segment(start, end, text, -0.2f, 0);
    vocis_word words[10];
    for (int i = 0; i < n_words; i++)
        words[i] = (vocis_word){.text = texts[i % 5], .start = start + i, .end = start + i + 1};
    s.words = n_words > 0 ? words : NULL;
    s.n_words = n_words;
    s.tokens = tokens;
    s.token_logprobs = logprobs;
    s.n_tokens = n;
    assert_int_equal(vo_result_add(r, &s, NULL), VO_OK);
}

static void test_segments(void **state) {
    vo_tokenizer *tokenizer = NULL;
    vo_error err = {0};
    assert_int_equal(vo_tokenizer_create(51865, &tokenizer, &err), VO_OK);
    float p[3125] = {0}, levels[3125] = {0}; /* 100 s */
    vocis_span speech[] = {{0, 60}};
    const vo_voice voice = voice_of(p, levels, 3125, 100, speech, 1);
    vocis_result *r = vo_result_create();
    int32_t *ids = NULL, looped[MOST];
    int n = 0, m = 0;
    const char phrase[] = " I will not go there";
    assert_int_equal(vo_tokenizer_encode(tokenizer, phrase, strlen(phrase), &ids, &n, &err), VO_OK);
    assert_true(n >= 5);
    looped[m++] = 50364; /* a time */
    for (int i = 0; i < 6; i++) {
        memcpy(looped + m, ids, (size_t)n * sizeof *ids);
        m += n;
    }
    add(r, 0, 2, " Hello.", one_two, 6, 0);
    for (int i = 0; i < 4; i++) add(r, 2 + i, 3 + i, " I don't know now.", one_two, 6, 0);
    add(r, 10, 40, " I will not go there I will not go there", looped, m, 0);
    add(r, 42, 52, " I will not go there I will not go there", looped, m, 10);
    add(r, 85, 95, " I will not go there.", looped, m, 0); /* where nobody speaks */
    vocis_segment nobody = segment(80, 82, " Thanks for watching!", -0.8f, 0.6f);
    assert_int_equal(vo_result_add(r, &nobody, NULL), VO_OK);
    assert_int_equal(vo_guard_segments(r, &voice, tokenizer, &err), VO_OK);
    assert_int_equal(r->n_segments, 4);
    assert_string_equal(r->segments[0].text, " Hello.");
    assert_string_equal(r->segments[1].text, " I don't know now.");
    assert_string_equal(r->segments[2].text, phrase);
    assert_int_equal(r->segments[2].n_tokens, n + 1);
    assert_true(r->segments[2].end > 10 && r->segments[2].end < 20);
    assert_string_equal(r->segments[3].text, phrase);
    assert_int_equal(r->segments[3].n_words, 5);
    assert_true(r->segments[3].end == 47);
    assert_int_equal(r->n_removed, 7);
    for (int i = 0; i < 6; i++) assert_string_equal(r->removed[i].reason, "loop");
    assert_true(r->removed[4].start == 47 && r->removed[4].end == 52);
    assert_string_equal(r->removed[6].reason, "nobody speaks");
    assert_string_equal(r->removed[6].text, " Thanks for watching!");
    vo_free(ids);
    vo_result_destroy(r);
    vo_tokenizer_destroy(tokenizer);
}

/* Speech from 10 s on, softly from 9.9 s. */
static void test_starts(void **state) {
    (void)state;
    float p[1000] = {0}, levels[1000] = {0};
    for (int i = 309; i < 1000; i++) p[i] = i < 313 ? 0.2f : 0.9f;
    vocis_span speech[] = {{1, 7.2}, {10, 32}};
    const vo_voice voice = voice_of(p, levels, 1000, 32, speech, 2);
    const double times[][3] = {{8, 10.5, 9.888}, /* early: start, end, start that is right */
                               {7, 10.5, 9.888}, /* from the end of the speech before */
                               {7, 8.5, 7},      /* that is where it was said */
                               {6, 10.5, 6},     /* more of it is there than an end */
                               {9.6, 10.4, 9.6}, /* a little early */
                               {12, 12.5, 12},   /* in speech */
                               {40, 41, 40}};    /* after all speech */
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        vocis_word words[] = {{.text = " One", .start = times[i][0], .end = times[i][1]},
                              {.text = " two", .start = times[i][1], .end = times[i][1] + 1}};
        vocis_segment s = segment(times[i][0], times[i][1] + 1, " One two", -0.2f, 0);
        vocis_result *r = vo_result_create();
        s.words = words;
        s.n_words = 2;
        assert_int_equal(vo_result_add(r, &s, NULL), VO_OK);
        vo_guard_starts(r, &voice);
        assert_float_equal(r->segments[0].words[0].start, times[i][2], 1e-6);
        assert_float_equal(r->segments[0].start, times[i][2], 1e-6);
        assert_float_equal(r->segments[0].words[0].end, times[i][1], 0);
        vo_result_destroy(r);
    }
}

/* Words of a sentence in the pause before speech from 10 s on, as the model stretches them. */
static void test_stretched(void **state) {
    (void)state;
    float p[1000] = {0}, levels[1000] = {0};
    for (int i = 313; i < 1000; i++) p[i] = 0.9f;
    vocis_span speech[] = {{1, 7.2}, {10.016, 32}};
    const double onset = 10.016;
    static const struct {
        double times[3][2];
        bool loud, moves;
        double sound; /* that begins then, or 0 */
    } cases[] = {
        {{{7.5, 9}, {9, 10.2}, {10.2, 10.7}}, false, true, 0},
        {{{7.1, 9.5}, {9.5, 9.8}, {9.8, 10.5}}, false, true, 0},  /* from the end of speech */
        {{{7.5, 9}, {9, 10.2}, {10.2, 10.7}}, true, false, 0},    /* that may be its voice */
        {{{7.5, 8}, {9, 10.2}, {10.2, 10.7}}, false, false, 0},   /* not in a row */
        {{{8.9, 9.1}, {9.1, 9.8}, {9.8, 10.5}}, false, false, 0}, /* no longer than words are */
        {{{7.5, 8.6}, {8.6, 9.2}, {9.2, 9.9}}, false, true, 8.4},
        {{{7.5, 8.5}, {8.5, 9.5}, {9.5, 10}}, false, false, 0}, /* they never reach the voice */
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool loud[1000] = {false};
        for (int i = 240; i < 313; i++) loud[i] = cases[c].loud;
        vo_voice voice = voice_of(p, levels, 1000, 32, speech, 2);
        vocis_span sounds[] = {{cases[c].sound, 9.9}};
        voice.loud = loud;
        voice.sounds = sounds;
        voice.n_sounds = cases[c].sound > 0;
        const double begins = voice.n_sounds ? cases[c].sound : onset;
        vocis_word words[3] = {{.text = " One"}, {.text = " two"}, {.text = " three"}};
        for (int i = 0; i < 3; i++)
            words[i].start = cases[c].times[i][0], words[i].end = cases[c].times[i][1];
        vocis_segment s = segment(words[0].start, words[2].end, " One two three", -0.2f, 0);
        vocis_result *r = vo_result_create();
        s.words = words;
        s.n_words = 3;
        assert_int_equal(vo_result_add(r, &s, NULL), VO_OK);
        vo_guard_starts(r, &voice);
        const vocis_word *w = r->segments[0].words;
        assert_float_equal(w[0].start, cases[c].moves ? begins : words[0].start, 1e-6);
        assert_float_equal(r->segments[0].start, w[0].start, 1e-6);
        assert_float_equal(w[2].end, words[2].end, 1e-6);
        for (int i = 0; i < 3; i++) assert_true(w[i].end - w[i].start > 0.1);
        for (int i = 0; cases[c].moves && i < 2; i++)
            assert_float_equal(w[i].end, w[i + 1].start, 1e-6);
        vo_result_destroy(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),        cmocka_unit_test(test_random_loops),
        cmocka_unit_test(test_too_fast),     cmocka_unit_test(test_echo),
        cmocka_unit_test(test_spoken_loops), cmocka_unit_test(test_unspoken),
        cmocka_unit_test(test_said),         cmocka_unit_test(test_segments),
        cmocka_unit_test(test_starts),       cmocka_unit_test(test_stretched),
        cmocka_unit_test(test_loud),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
