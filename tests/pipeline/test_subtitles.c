/* SPDX-License-Identifier: MIT
 *
 * Layout of subtitles: the documents of openai-whisper's writers byte for byte, our own rules by
 * hand-made examples, and properties that hold for any words, times and rules, seen by a strict
 * parser of SubRip and WebVTT.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "pipeline/result.h"
#include "text/lines.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_WORDS = 64 };

static void add(vocis_result *r, const vocis_word *words, int n, const char *text, double start,
                double end, int speaker) {
    char joined[8192] = "";
    for (int i = 0; i < n; i++) strcat(joined, words[i].text);
    const vocis_segment s = {.start = start,
                             .end = end,
                             .text = text ? text : joined,
                             .words = n ? words : NULL,
                             .n_words = n,
                             .speaker = speaker};
    assert_int_equal(vo_result_add(r, &s, NULL), VO_OK);
}

static char *write_as(const vocis_result *r, const char *format, vocis_write_params params) {
    char *document = NULL;
    size_t size = 0;
    assert_int_equal(vo_result_write(r, format, params, &document, &size, NULL), VO_OK);
    assert_int_equal(size, strlen(document));
    assert_true(vo_utf8_valid(document, size));
    return document;
}

static void expect(const vocis_result *r, const char *format, vocis_write_params params,
                   const char *wanted) {
    char *document = write_as(r, format, params);
    assert_string_equal(document, wanted);
    vo_free(document);
}

/* ---- openai-whisper ------------------------------------------------------------------------- */

static double number(const json_t *o, const char *key) {
    return json_number_value(json_object_get(o, key));
}

static vocis_result *read_segments(const json_t *segments) {
    vocis_result *r = vo_result_create();
    assert_non_null(r);
    for (size_t i = 0; i < json_array_size(segments); i++) {
        const json_t *s = json_array_get(segments, i), *list = json_object_get(s, "words");
        vocis_word words[MAX_WORDS];
        int n = (int)json_array_size(list);
        assert_true(n <= MAX_WORDS);
        for (int k = 0; k < n; k++) {
            const json_t *w = json_array_get(list, (size_t)k);
            words[k] = (vocis_word){json_string_value(json_object_get(w, "word")),
                                    number(w, "start"), number(w, "end"), 1, -1};
        }
        add(r, words, n, json_string_value(json_object_get(s, "text")), number(s, "start"),
            number(s, "end"), -1);
    }
    return r;
}

static void test_golden(void **state) {
    json_t *golden = json_load_file("tests/data/subtitles/whisper.json", 0, NULL);
    const json_t *cases = json_object_get(golden, "cases");
    assert_true(json_array_size(cases) > 80);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *options = json_object_get(c, "options");
        const json_t *sets = json_object_get(golden, "segments");
        vocis_result *r = read_segments(
            json_array_get(sets, (size_t)json_integer_value(json_object_get(c, "segments"))));
        vocis_write_params p = {.max_line_width = (int)number(options, "max_line_width"),
                                .max_line_count = (int)number(options, "max_line_count"),
                                .max_words_per_line = (int)number(options, "max_words_per_line"),
                                .highlight_words =
                                    json_is_true(json_object_get(options, "highlight_words"))};
        expect(r, "srt", p, json_string_value(json_object_get(c, "srt")));
        expect(r, "vtt", p, json_string_value(json_object_get(c, "vtt")));
        vo_result_destroy(r);
    }
    json_decref(golden);
}

/* ---- our rules ------------------------------------------------------------------------------ */

/* Words of a text, 0.3 s each, one after the other from `start` on; '|' is a pause of a second. */
static void say(vocis_result *r, const char *text, double start, int speaker) {
    char buffer[4096];
    vocis_word words[MAX_WORDS];
    int n = 0;
    snprintf(buffer, sizeof buffer, "%s", text);
    double first = start;
    for (char *w = strtok(buffer, " "); w; w = strtok(NULL, " ")) {
        if (*w == '|') {
            start += 1;
            continue;
        }
        char spaced[256];
        snprintf(spaced, sizeof spaced, " %s", w);
        words[n++] = (vocis_word){strdup(spaced), start, start + 0.3, 1, -1};
        start += 0.3;
    }
    add(r, words, n, NULL, first, start, speaker);
    for (int i = 0; i < n; i++) free((char *)words[i].text);
}

static void test_sentences(void **state) {
    vocis_result *r = vo_result_create();
    /* two cues are needed; the first ends with a clause, not where 84 columns are full */
    say(r, "Nobody had expected this. When they finally came back to the old house, the doors", 0,
        -1);
    say(r, "were open and Mr. Smith was gone.", 4.5, -1);
    expect(r, "srt", (vocis_write_params){.subtitle_style = "broadcast"},
           "1\n00:00:00,000 --> 00:00:03,817\nNobody had expected this. When they\n"
           "finally came back to the old house,\n\n"
           "2\n00:00:03,900 --> 00:00:06,600\nthe doors were open\nand Mr. Smith was gone.\n\n");
    vo_result_destroy(r);
}

static void test_times(void **state) {
    vocis_result *r = vo_result_create();
    say(r, "Hi. | | | |", 1, -1);
    say(r, "Bye.", 5.6, -1);
    /* 0.3 s are extended to the minimum, into the pause */
    expect(r, "srt", (vocis_write_params){.min_duration = 2},
           "1\n00:00:01,000 --> 00:00:03,000\nHi.\n\n2\n00:00:05,600 --> 00:00:07,600\nBye.\n\n");
    /* no further than the gap before the next, which is worth more */
    expect(r, "srt", (vocis_write_params){.min_duration = 5, .min_gap = 0.6f},
           "1\n00:00:01,000 --> 00:00:05,000\nHi.\n\n2\n00:00:05,600 --> 00:00:10,600\nBye.\n\n");
    /* 3 and 4 columns, one in a second */
    expect(r, "srt", (vocis_write_params){.max_chars_per_second = 1},
           "1\n00:00:01,000 --> 00:00:04,000\nHi.\n\n2\n00:00:05,600 --> 00:00:09,600\nBye.\n\n");
    /* the longest time is worth more than the shortest */
    expect(r, "srt", (vocis_write_params){.min_duration = 5, .max_duration = 3},
           "1\n00:00:01,000 --> 00:00:04,000\nHi.\n\n2\n00:00:05,600 --> 00:00:08,600\nBye.\n\n");
    vo_result_destroy(r);
    /* a gap for which there is no time is left out rather than the cue */
    r = vo_result_create();
    const vocis_word words[] = {{" Now.", 1, 1.04, 1, -1}, {" Then.", 1.04, 2, 1, -1}};
    add(r, &words[0], 1, NULL, 1, 1.04, -1);
    add(r, &words[1], 1, NULL, 1.04, 2, -1);
    expect(r, "srt", (vocis_write_params){.min_gap = 0.1f},
           "1\n00:00:01,000 --> 00:00:01,040\nNow.\n\n2\n00:00:01,040 --> 00:00:02,000\nThen.\n\n");
    vo_result_destroy(r);
    /* a cue does not last longer than it may, and a pause divides what is read too fast */
    r = vo_result_create();
    say(r, "one two three four | five six seven eight", 0, -1);
    expect(r, "srt", (vocis_write_params){.max_duration = 2},
           "1\n00:00:00,000 --> 00:00:01,200\none two three four\n\n"
           "2\n00:00:02,200 --> 00:00:03,400\nfive six seven eight\n\n");
    vo_result_destroy(r);
}

static void test_lines(void **state) {
    vocis_result *r = vo_result_create();
    vocis_write_params p = {.max_line_width = 20, .max_line_count = 2, .min_duration = 0.1f};
    /* even lines rather than a full one and a rest */
    say(r, "one two three four five", 0, -1);
    expect(r, "vtt", p, "WEBVTT\n\n00:00.000 --> 00:01.500\none two three\nfour five\n\n");
    vo_result_destroy(r);
    r = vo_result_create();
    say(r, "one two, three four six", 0, -1); /* 64 + 196 + 20^2 / 16 beats 196 + 64 + 20^2 / 4 */
    expect(r, "vtt", p, "WEBVTT\n\n00:00.000 --> 00:01.500\none two,\nthree four six\n\n");
    vo_result_destroy(r);
    /* wide characters are two columns; a line does not begin with a full stop, nor with a small
     * kana; times are shared out over characters */
    r = vo_result_create();
    add(r, NULL, 0, "今日はいい天気ですね。", 0, 11, -1);
    expect(r, "vtt", (vocis_write_params){.max_line_width = 20, .min_gap = 0.01f},
           "WEBVTT\n\n00:00.000 --> 00:11.000\n今日はいい\n天気ですね。\n\n");
    expect(r, "vtt",
           (vocis_write_params){.max_line_width = 10, .max_line_count = 1, .min_duration = 0.01f},
           "WEBVTT\n\n00:00.000 --> 00:03.000\n今日は\n\n00:03.000 --> 00:07.000\nいい天気\n\n"
           "00:07.000 --> 00:11.000\nですね。\n\n");
    vo_result_destroy(r);
    /* what is too long is cut between graphemes, and nothing is lost */
    r = vo_result_create();
    const char *family =
        "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦e\xcc\x81te\xcc"
        "\x81";
    add(r, NULL, 0, family, 0, 1, -1);
    char *document =
        write_as(r, "vtt", (vocis_write_params){.max_line_width = 4, .min_gap = 0.01f});
    assert_string_equal(
        document,
        "WEBVTT\n\n00:00.000 --> "
        "00:01.000\n👩‍👩‍👧‍👦👩‍👩‍👧‍👦\n👩‍👩‍👧‍👦"
        "e\xcc\x81t\ne\xcc\x81\n\n");
    vo_free(document);
    vo_result_destroy(r);
    /* three words a line */
    r = vo_result_create();
    say(r, "a b c d e f g", 0, -1);
    p = (vocis_write_params){.max_words_per_line = 3, .max_duration = 60};
    document = write_as(r, "vtt", p);
    int lines = 0, most = 0, words = 0;
    for (char *c = strstr(document, ".100") + 5; *c; c++) {
        words += isalpha(*c) != 0;
        if (words > most) most = words;
        if (*c == '\n') {
            lines += words > 0;
            words = 0;
        }
    }
    assert_int_equal(lines, 3);
    assert_int_equal(most, 3);
    vo_free(document);
    vo_result_destroy(r);
}

static void test_karaoke(void **state) {
    vocis_result *r = vo_result_create();
    const vocis_word words[] = {{" Fish", 1, 1.25, 1, -1},
                                {" &", 1.25, 1.5, 1, -1},
                                {" <chips>", 1.5, 2, 1, -1},
                                {" [now]", 2, 2, 1, -1}};
    add(r, words, 4, NULL, 1, 2, -1);
    vocis_write_params p = {.karaoke = true};
    expect(r, "vtt", p,
           "WEBVTT\n\n00:01.000 --> 00:02.000\n<c>Fish</c> <00:00:01.250><c>&amp;</c> "
           "<00:00:01.500><c>&lt;chips&gt;</c> <c>[now]</c>\n\n");
    expect(r, "lrc", p,
           "[00:01.00] <00:01.00> Fish <00:01.25> & <00:01.50> ‹chips› <00:02.00> (now) "
           "<00:02.00>\n");
    /* SubRip has no such thing */
    expect(r, "srt", p, "1\n00:00:01,000 --> 00:00:02,000\nFish & <chips> [now]\n\n");
    expect(r, "lrc", (vocis_write_params){0}, "[00:01.00]Fish & <chips> (now)\n");
    expect(r, "lrc", (vocis_write_params){.max_words_per_line = 2},
           "[00:01.00]Fish &\n[00:01.50]<chips> (now)\n");
    vo_result_destroy(r);
}

static void test_speakers(void **state) {
    vocis_result *r = vo_result_create();
    say(r, "Who is there?", 0, 0);
    say(r, "Me.", 1, 1);
    say(r, "Really?", 2, 1);
    const vocis_word words[] = {
        {" Yes.", 3, 3.5, 1, 1}, {" Oh.", 3.6, 4, 1, 0}, {" Hm.", 4, 4.25, 1, -1}};
    add(r, words, 3, NULL, 3, 4.25, 1);
    expect(r, "txt", (vocis_write_params){0},
           "Speaker 1: Who is there?\nSpeaker 2: Me.\nReally?\nYes. Oh. Hm.\n");
    expect(r, "srt", (vocis_write_params){.max_words_per_line = 9},
           "1\n00:00:00,000 --> 00:00:00,900\nSpeaker 1: Who is there?\n\n"
           "2\n00:00:01,000 --> 00:00:01,300\nSpeaker 2: Me.\n\n"
           "3\n00:00:02,000 --> 00:00:02,300\nReally?\n\n"
           "4\n00:00:03,000 --> 00:00:03,500\nYes.\n\n"
           "5\n00:00:03,600 --> 00:00:04,000\nSpeaker 1: Oh.\n\n"
           "6\n00:00:04,000 --> 00:00:04,250\nSpeaker 2: Hm.\n\n");
    expect(r, "vtt", (vocis_write_params){0},
           "WEBVTT\n\n00:00.000 --> 00:00.900\n<v Speaker 1>Who is there?\n\n"
           "00:01.000 --> 00:01.300\n<v Speaker 2>Me.\n\n"
           "00:02.000 --> 00:02.300\n<v Speaker 2>Really?\n\n"
           "00:03.000 --> 00:04.250\n<v Speaker 2>Yes. Oh. Hm.\n\n");
    expect(
        r, "csv", (vocis_write_params){0},
        "start,end,text,speaker\n0,900,\"Who is there?\",Speaker 1\n1000,1300,\"Me.\",Speaker 2\n"
        "2000,2300,\"Really?\",Speaker 2\n3000,4250,\"Yes. Oh. Hm.\",Speaker 2\n");
    expect(r, "rttm", (vocis_write_params){.source = "a/my talk\xff.wav"},
           "SPEAKER my_talk\xef\xbf\xbd.wav 1 0.000 0.900 <NA> <NA> speaker_1 <NA> <NA>\n"
           "SPEAKER my_talk\xef\xbf\xbd.wav 1 1.000 0.300 <NA> <NA> speaker_2 <NA> <NA>\n"
           "SPEAKER my_talk\xef\xbf\xbd.wav 1 2.000 0.300 <NA> <NA> speaker_2 <NA> <NA>\n"
           "SPEAKER my_talk\xef\xbf\xbd.wav 1 3.000 0.500 <NA> <NA> speaker_2 <NA> <NA>\n"
           "SPEAKER my_talk\xef\xbf\xbd.wav 1 3.600 0.400 <NA> <NA> speaker_1 <NA> <NA>\n"
           "SPEAKER my_talk\xef\xbf\xbd.wav 1 4.000 0.250 <NA> <NA> speaker_2 <NA> <NA>\n");
    vo_result_destroy(r);
    r = vo_result_create();
    say(r, "Nobody known.", 0, -1);
    expect(r, "rttm", (vocis_write_params){0}, "");
    expect(r, "csv", (vocis_write_params){0}, "start,end,text\n0,600,\"Nobody known.\"\n");
    vo_result_destroy(r);
    /* the name counts for the width, and goes where it would leave no room for text */
    r = vo_result_create();
    say(r, "Hello there", 0, 0);
    vocis_write_params p = {.max_line_width = 16, .max_line_count = 2, .min_duration = 0.01f};
    expect(r, "srt", p, "1\n00:00:00,000 --> 00:00:00,600\nSpeaker 1: Hello\nthere\n\n");
    p.max_line_width = 11;
    expect(r, "srt", p, "1\n00:00:00,000 --> 00:00:00,600\nHello there\n\n");
    vo_result_destroy(r);
}

/* Segments that bring no words, as without word times, are laid out all the same. */
static void test_no_words(void **state) {
    vocis_result *r = vo_result_create();
    add(r, NULL, 0, " one two six ten", 0, 12, -1);
    expect(r, "srt", (vocis_write_params){.max_words_per_line = 2},
           "1\n00:00:00,000 --> 00:00:06,000\none two\n\n"
           "2\n00:00:06,000 --> 00:00:12,000\nsix ten\n\n");
    vo_result_destroy(r);
    r = vo_result_create();
    const vocis_word blank[] = {{" ", 1, 2, 1, -1}, {"", 2, 3, 1, -1}};
    add(r, blank, 2, " text", 1, 3, -1);
    add(r, blank, 2, NULL, 4, 5, -1);
    expect(r, "srt", (vocis_write_params){.max_line_width = 40},
           "1\n00:00:01,000 --> 00:00:03,000\ntext\n\n");
    vo_result_destroy(r);
}

static void test_errors(void **state) {
    vocis_result *r = vo_result_create();
    vo_error err = {0};
    char *document = NULL;
    vocis_write_params p = {.subtitle_style = "cinema"};
    assert_int_equal(vo_result_write(r, "srt", p, &document, NULL, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "cinema"));
    assert_null(document);
    /* what is no rule, and rules that are no limits, do no harm */
    say(r, "word", 0, -1);
    p = (vocis_write_params){.max_line_width = -1,
                             .max_line_count = -5,
                             .max_words_per_line = -1,
                             .max_chars_per_second = NAN,
                             .min_duration = -1,
                             .min_gap = -INFINITY};
    expect(r, "srt", p, "1\n00:00:00,000 --> 00:00:00,300\nword\n\n");
    p = (vocis_write_params){.max_line_width = 1 << 30,
                             .max_line_count = 1 << 30,
                             .max_words_per_line = 1 << 30,
                             .max_chars_per_second = INFINITY,
                             .max_duration = INFINITY};
    expect(r, "srt", p, "1\n00:00:00,000 --> 00:00:00,300\nword\n\n");
    vo_result_destroy(r);
}

/* ---- any words, any rules ------------------------------------------------------------------- */

static uint64_t seed;

static int draw(int n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)((seed >> 33) % (uint64_t)n);
}

static double draw_time(double now) {
    switch (draw(40)) {
    case 0:
        return NAN;
    case 1:
        return INFINITY;
    case 2:
        return -INFINITY;
    case 3:
        return -1;
    case 4:
        return now - 2;
    case 5:
        return 1e300;
    default:
        return now;
    }
}

static void draw_word(char *out, size_t size) {
    static const char *const pieces[] = {
        "a",
        "the",
        "word.",
        "yes,",
        "(so)",
        "\"no\"",
        "Mr.",
        "U.S.",
        "3.5",
        "-->",
        "--",
        ">",
        "<b>",
        "&amp;",
        "]",
        "[00:01.00]",
        "<00:01.00>",
        "\n",
        "\t",
        "\r\n\r\n",
        "\x7f",
        " ",
        "\xc2\xa0",
        "\xe2\x80\xa8",
        "\xff",
        "\xe4\xb8",
        "e\xcc\x81",
        "\xcc\x81",
        "👩‍👩‍👧‍👦",
        "🇩🇪",
        "❤️",
        "今日は",
        "天気。",
        "「はい」",
        "ッー",
        "สวัสดี",
        "เด็ก",
        "שלום",
        "مرحبا،",
        "한국어",
        "नमस्ते।",
        "\xe2\x80\x8d",
        "extraordinarily-long-and-unbreakable-word-that-goes-on-and-on",
        "Speaker",
        "1\n00:00:00,000"};
    size_t used = 0;
    out[0] = '\0';
    if (draw(4)) used += (size_t)snprintf(out, size, " ");
    for (int n = 1 + draw(3); n > 0; n--)
        used += (size_t)snprintf(out + used, size - used, "%s",
                                 pieces[draw(sizeof pieces / sizeof *pieces)]);
}

static vocis_result *draw_result(void) {
    vocis_result *r = vo_result_create();
    double now = draw(3) ? 0 : 3590;
    for (int n = draw(6); n > 0; n--) {
        char texts[MAX_WORDS][320];
        vocis_word words[MAX_WORDS];
        int count = draw(4) ? draw(24) : 0, speaker = draw(4) ? -1 : draw(12);
        double start = draw_time(now);
        for (int i = 0; i < count; i++) {
            draw_word(texts[i], sizeof texts[i]);
            now += draw(6) ? 0 : draw(5000) / 1000.0;
            double length = draw(5) ? draw(900) / 1000.0 : 0;
            words[i] = (vocis_word){texts[i], draw_time(now), draw_time(now + length), 1,
                                    draw(12) ? -1 : draw(12)};
            now += length;
        }
        char text[320];
        draw_word(text, sizeof text);
        if (!count) now += 3;
        add(r, words, count, count ? NULL : text, start, draw_time(now), speaker);
    }
    return r;
}

static vocis_write_params draw_params(void) {
    vocis_write_params p = {0};
    if (draw(2)) p.max_line_width = draw(3) ? 1 + draw(45) : 1 + draw(6);
    if (draw(2)) p.max_line_count = 1 + draw(3);
    if (!draw(3)) p.max_words_per_line = 1 + draw(6);
    if (!draw(4)) p.max_chars_per_second = (float)(1 + draw(30));
    if (!draw(4)) p.min_duration = (float)draw(3000) / 1000;
    if (!draw(4)) p.max_duration = (float)draw(7000) / 1000;
    if (!draw(4)) p.min_gap = (float)draw(500) / 1000;
    if (!draw(4)) p.subtitle_style = "broadcast";
    p.highlight_words = !draw(8);
    p.karaoke = !draw(5);
    return p;
}

static bool is_own(const vocis_write_params *p) {
    return p->subtitle_style || p->max_chars_per_second > 0 || p->min_duration > 0 ||
           p->max_duration > 0 || p->min_gap > 0;
}

static bool is_ruled(const vocis_write_params *p) {
    return is_own(p) || p->max_line_width || p->max_line_count || p->max_words_per_line ||
           p->highlight_words || p->karaoke;
}

/* Text without what may rightly differ: blanks, controls, and the dashes of arrows. */
static void append_ink(vo_buf *out, const char *text, size_t size) {
    char *clean = vo_utf8_sanitize(text, size, &size);
    for (size_t i = 0; i < size; i++) {
        if (strncmp(clean + i, "\xc2\xa0", 2) == 0 || strncmp(clean + i, "\xe2\x80\xa8", 3) == 0) {
            i += clean[i] == '\xc2' ? 1 : 2;
            continue;
        }
        if ((unsigned char)clean[i] > ' ' && clean[i] != 0x7f && clean[i] != '-')
            vo_buf_append(out, clean + i, 1);
    }
    vo_free(clean);
}

static void ink_of_result(vo_buf *out, const vocis_result *r, bool words) {
    vo_buf_puts(out, "");
    for (int i = 0; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        size_t before = out->size;
        for (int k = 0; words && k < s->n_words; k++)
            append_ink(out, s->words[k].text, strlen(s->words[k].text));
        if (out->size == before) append_ink(out, s->text, strlen(s->text));
    }
}

static int columns_of(const char *s, size_t size, int *graphemes) {
    int columns = 0;
    *graphemes = 0;
    for (size_t at = 0; at < size; ++*graphemes) {
        vo_grapheme g = vo_grapheme_at(s, size, at);
        columns += g.columns;
        at += g.size;
    }
    return columns;
}

/* "01:02:03,004" as milliseconds; moves past it. Hours may be missing where they are optional. */
static int64_t read_clock(const char **p, char decimal, bool optional) {
    int64_t value = 0;
    int parts = 0;
    for (;; parts++) {
        char *end;
        assert_true(isdigit((unsigned char)**p));
        long part = strtol(*p, &end, 10);
        assert_true(end - *p >= 2 && (parts == 0 || (end - *p == 2 && part < 60)));
        value = value * 60 + part;
        *p = end;
        if (**p != ':') break;
        ++*p;
    }
    assert_true(parts == 2 || (optional && parts == 1));
    assert_int_equal(**p, decimal);
    for (int i = 1; i <= 3; i++) assert_true(isdigit((unsigned char)(*p)[i]));
    value = value * 1000 + strtol(*p + 1, NULL, 10);
    *p += 4;
    return value;
}

static void expect_text(const char **p, const char *text) {
    assert_memory_equal(*p, text, strlen(text));
    *p += strlen(text);
}

typedef struct reading {
    const vocis_write_params *params;
    const char *at;
    int64_t start, end; /* of the cue */
    int64_t time;       /* of the last time in its text */
    bool vtt, named;
    vo_buf text, ink; /* text: of the line, as it is seen */
} reading;

/* Tags and entities of WebVTT; anything else there is a mistake. */
static void read_markup(reading *d) {
    static const char *const entities[][2] = {{"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}};
    for (int i = 0; i < 3; i++)
        if (strncmp(d->at, entities[i][0], strlen(entities[i][0])) == 0) {
            vo_buf_puts(&d->text, entities[i][1]);
            d->at += strlen(entities[i][0]);
            return;
        }
    assert_int_equal(*d->at, '<');
    static const char *const tags[] = {"<c>", "</c>", "<u>", "</u>"};
    for (int i = 0; i < 4; i++)
        if (strncmp(d->at, tags[i], strlen(tags[i])) == 0) {
            assert_true(i < 2 ? d->params->karaoke : d->params->highlight_words);
            d->at += strlen(tags[i]);
            return;
        }
    d->at++;
    if (*d->at == 'v') {
        expect_text(&d->at, "v Speaker ");
        d->at += strspn(d->at, "0123456789");
    } else {
        int64_t time = read_clock(&d->at, '.', false);
        assert_true(time > d->time && time < d->end);
        d->time = time;
    }
    expect_text(&d->at, ">");
}

static void read_line(reading *d, bool first) {
    vo_buf_clear(&d->text);
    while (*d->at != '\n') {
        assert_true((unsigned char)*d->at >= ' ' && *d->at != 0x7f);
        assert_true(strncmp(d->at, "-->", 3) != 0);
        if (d->vtt && (*d->at == '<' || *d->at == '&' || *d->at == '>'))
            read_markup(d);
        else
            vo_buf_append(&d->text, d->at++, 1);
    }
    d->at++;
    int graphemes, width = d->params->max_line_width;
    if (!width && d->params->subtitle_style) width = 42;
    int columns = columns_of(d->text.data, d->text.size, &graphemes);
    if (width && is_own(d->params) && (d->vtt || !d->params->highlight_words))
        assert_true(columns <= width || graphemes == 1);
    /* names are no part of the text; nor are the tags that SubRip has for underlined words */
    unsigned name = 0;
    int length = 0;
    if (first && !d->vtt && sscanf(d->text.data, "Speaker %u: %n", &name, &length) == 1 && length)
        append_ink(&d->ink, d->text.data + length, d->text.size - (size_t)length);
    else
        append_ink(&d->ink, d->text.data, d->text.size);
}

/* Cues of a document: each has at least the lines that it must have, and follows the one before. */
static void check_document(const vocis_result *r, const char *format, vocis_write_params p) {
    char *document = write_as(r, format, p);
    reading d = {.params = &p, .at = document, .vtt = strcmp(format, "vtt") == 0};
    int64_t last_start = 0, last_end = 0;
    if (d.vtt) expect_text(&d.at, "WEBVTT\n\n");
    for (int n = 1; *d.at; n++) {
        char number_text[16];
        snprintf(number_text, sizeof number_text, "%d\n", n);
        if (!d.vtt) expect_text(&d.at, number_text);
        d.start = d.time = read_clock(&d.at, d.vtt ? '.' : ',', d.vtt);
        expect_text(&d.at, " --> ");
        d.end = read_clock(&d.at, d.vtt ? '.' : ',', d.vtt);
        expect_text(&d.at, "\n");
        assert_true(d.end >= d.start);
        if (is_ruled(&p)) assert_true(d.start >= last_end && d.start >= last_start);
        if (is_own(&p) && (!p.highlight_words || (d.vtt && p.karaoke))) {
            assert_true(d.end > d.start);
            int64_t most = llround((double)p.max_duration * 1000);
            if (!most && p.subtitle_style) most = 7000;
            if (most) assert_true(d.end - d.start <= most);
        }
        last_start = d.start;
        last_end = d.end;
        int lines = 0, count = p.max_line_count;
        if (!count && p.subtitle_style) count = 2;
        if (!is_ruled(&p) && *d.at == '\n') expect_text(&d.at, "\n");
        for (; *d.at != '\n'; lines++) {
            if (!*d.at) break;
            read_line(&d, lines == 0);
        }
        if (is_ruled(&p)) assert_true(lines > 0);
        if (count && is_own(&p)) assert_true(lines <= count);
        if (*d.at) expect_text(&d.at, "\n");
    }
    vo_buf wanted = {0};
    ink_of_result(&wanted, r, is_ruled(&p));
    vo_buf_puts(&d.ink, "");
    if (!p.highlight_words || (d.vtt && p.karaoke)) {
        size_t same = 0;
        while (d.ink.data[same] && d.ink.data[same] == wanted.data[same]) same++;
        if (d.ink.data[same] != wanted.data[same])
            fail_msg("at %zu: \"%.40s\" is not \"%.40s\"", same, d.ink.data + same,
                     wanted.data + same);
    }
    vo_buf_free(&wanted);
    vo_buf_free(&d.text);
    vo_buf_free(&d.ink);
    vo_free(document);
}

static void check_lrc(const vocis_result *r, vocis_write_params p) {
    char *document = write_as(r, "lrc", p);
    for (const char *at = document; *at; at++) {
        int minutes, seconds, hundredths, n = 0;
        assert_int_equal(sscanf(at, "[%d:%2d.%2d]%n", &minutes, &seconds, &hundredths, &n), 3);
        assert_true(n > 0 && seconds < 60);
        for (at += n; *at != '\n'; at++) {
            assert_true(*at && *at != '[' && *at != ']');
            if (!p.karaoke || *at != '<') continue;
            n = 0;
            sscanf(at, "<%d:%2d.%2d>%n", &minutes, &seconds, &hundredths, &n);
            assert_true(n > 0 && seconds < 60);
            at += n - 1;
        }
    }
    vo_free(document);
}

static void test_anything(void **state) {
    for (int i = 0; i < 2000; i++) {
        seed = (uint64_t)i;
        vocis_result *r = draw_result();
        vocis_write_params p = draw_params();
        check_document(r, "srt", p);
        check_document(r, "vtt", p);
        check_lrc(r, p);
        vo_free(write_as(r, "rttm", p));
        vo_result_destroy(r);
    }
}

/* Many words, all of them one cue if the rules had their way: time must not be quadratic. */
static void test_long(void **state) {
    vocis_result *r = vo_result_create();
    size_t n = 20000;
    vo_buf text = {0};
    for (size_t i = 0; i < n; i++) vo_buf_puts(&text, " x");
    add(r, NULL, 0, text.data, 0, 1e5, -1);
    vo_buf_clear(&text);
    for (size_t i = 0; i < n; i++) vo_buf_puts(&text, "\xcc\x81");
    add(r, NULL, 0, text.data, 1e5, 2e5, -1);
    vo_buf_free(&text);
    check_document(r, "vtt", (vocis_write_params){.min_gap = 0.1f});
    check_document(r, "vtt", (vocis_write_params){.subtitle_style = "broadcast"});
    check_document(r, "vtt", (vocis_write_params){.max_line_width = 40});
    vo_result_destroy(r);
}

static void test_memory(void **state) {
    vocis_result *r = vo_result_create();
    say(r, "Nobody had expected this. When they came back, the \xff house was gone.", 0, 0);
    say(r, "And then?", 6, 1);
    static const char *const formats[] = {"txt", "srt", "vtt", "tsv", "csv", "lrc", "rttm"};
    vocis_write_params p = {.subtitle_style = "broadcast", .source = "a"};
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (int n = 0;; n++) {
            size_t before = vo_memory_get_stats().active_bytes;
            char *document = NULL;
            vo_error err = {0};
            vo_memory_fail_after(n, f % 2);
            vo_status status = vo_result_write(r, formats[f], p, &document, NULL, &err);
            bool failed = vo_memory_fail_after(-1, false);
            if (failed) {
                assert_int_equal(status, VO_ERR_MEMORY);
                assert_null(document);
            }
            vo_free(document);
            assert_int_equal(vo_memory_get_stats().active_bytes, before);
            if (!failed) break;
        }
    vo_result_destroy(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),   cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_times),    cmocka_unit_test(test_lines),
        cmocka_unit_test(test_karaoke),  cmocka_unit_test(test_speakers),
        cmocka_unit_test(test_no_words), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_anything), cmocka_unit_test(test_long),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
