/* SPDX-License-Identifier: MIT
 *
 * Documents of results with text that is hard on their formats: arrows, markup, quotes, tabs,
 * line feeds, broken UTF-8, times beyond an hour and cues that would end before they start.
 */
#include "base/memory.h"
#include "base/utf8.h"
#include "pipeline/result.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static vocis_result *make(const vocis_segment *segments, int n) {
    vocis_result *r = vo_result_create();
    assert_non_null(r);
    for (int i = 0; i < n; i++) assert_int_equal(vo_result_add(r, &segments[i], NULL), VO_OK);
    assert_int_equal(vo_result_finish(r, NULL), VO_OK);
    r->duration = 4000;
    r->language = "en";
    r->language_probability = 0.2f;
    return r;
}

static char *write_as(const vocis_result *r, const char *format) {
    vo_error err = {0};
    char *document = NULL;
    size_t size = 0;
    vocis_write_params params = {.source = "a\xff.wav", .json_tokens = true};
    assert_int_equal(vo_result_write(r, format, params, &document, &size, &err), VO_OK);
    assert_int_equal(size, strlen(document));
    assert_true(vo_utf8_valid(document, size));
    return document;
}

static void expect(const vocis_result *r, const char *format, const char *wanted) {
    char *document = write_as(r, format);
    assert_string_equal(document, wanted);
    vo_free(document);
}

static const int32_t tokens[2] = {50364, 7};
static const float logprobs[2] = {-0.1f, -INFINITY};
#define SEGMENT(from, to, what)                                                                    \
    {                                                                                              \
        .start = from, .end = to, .text = what, .tokens = tokens, .token_logprobs = logprobs,      \
        .n_tokens = 2, .compression_ratio = 1.5f, .no_speech_prob = NAN, .speaker = -1             \
    }

static void test_formats(void **state) {
    const vocis_segment segments[] = {SEGMENT(0, 2.0625, " One."),
                                      SEGMENT(3661.04, 3725.5, " Say \"two\"\tnow ")};
    vocis_result *r = make(segments, 2);
    expect(r, "txt", "One.\nSay \"two\" now\n");
    expect(r, "srt",
           "1\n00:00:00,000 --> 00:00:02,062\nOne.\n\n"
           "2\n01:01:01,040 --> 01:02:05,500\nSay \"two\" now\n\n");
    expect(r, "vtt",
           "WEBVTT\n\n00:00.000 --> 00:02.062\nOne.\n\n"
           "01:01:01.040 --> 01:02:05.500\nSay \"two\" now\n\n");
    expect(r, "tsv", "start\tend\ttext\n0\t2062\tOne.\n3661040\t3725500\tSay \"two\" now\n");
    expect(r, "csv", "start,end,text\n0,2062,\"One.\"\n3661040,3725500,\"Say \"\"two\"\" now\"\n");
    expect(r, "lrc", "[00:00.00]One.\n[61:01.04]Say \"two\" now\n");
    vo_result_destroy(r);
}

static void test_hard_text(void **state) {
    const vocis_segment segments[] = {SEGMENT(1, 1.5, " a --> b ---> <i>&"),
                                      SEGMENT(2, 1, " line\r\n\nfeed \xe4\xb8 end")};
    vocis_result *r = make(segments, 2);
    expect(r, "srt",
           "1\n00:00:01,000 --> 00:00:01,500\na -> b -> <i>&\n\n"
           "2\n00:00:02,000 --> 00:00:02,000\nline   feed \xef\xbf\xbd end\n\n");
    expect(r, "vtt",
           "WEBVTT\n\n00:01.000 --> 00:01.500\na -&gt; b -&gt; &lt;i&gt;&amp;\n\n"
           "00:02.000 --> 00:02.000\nline   feed \xef\xbf\xbd end\n\n");
    expect(r, "txt", "a --> b ---> <i>&\nline   feed \xef\xbf\xbd end\n");
    vo_result_destroy(r);
}

static void test_empty(void **state) {
    vocis_result *r = make(NULL, 0);
    expect(r, "txt", "");
    expect(r, "srt", "");
    expect(r, "vtt", "WEBVTT\n\n");
    expect(r, "tsv", "start\tend\ttext\n");
    r->language = NULL;
    char *document = write_as(r, "json");
    json_t *o = json_loads(document, 0, NULL);
    assert_true(json_is_null(json_object_get(o, "language")));
    assert_string_equal(json_string_value(json_object_get(o, "text")), "");
    assert_int_equal(json_array_size(json_object_get(o, "segments")), 0);
    json_decref(o);
    vo_free(document);
    vo_result_destroy(r);
}

static void test_json(void **state) {
    const vocis_segment segments[] = {SEGMENT(0.5, 1.5, " Say \"\n\xff\"")};
    vocis_result *r = make(segments, 1);
    r->settings.length_penalty = NAN;
    r->settings.temperature_increment = 0.2f;
    char *document = write_as(r, "json");
    json_t *o = json_loads(document, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    const json_t *s = json_array_get(json_object_get(o, "segments"), 0);
    assert_string_equal(json_string_value(json_object_get(s, "text")), " Say \"\n\xef\xbf\xbd\"");
    assert_int_equal(json_integer_value(json_array_get(json_object_get(s, "tokens"), 0)), 50364);
    assert_true(json_is_null(json_array_get(json_object_get(s, "token_logprobs"), 1)));
    assert_true(json_is_null(json_object_get(s, "no_speech_prob")));
    assert_string_equal(json_string_value(json_object_get(o, "source")), "a\xef\xbf\xbd.wav");
    assert_true(json_is_null(json_object_get(json_object_get(o, "settings"), "length_penalty")));
    /* floats are shown as people write them */
    assert_non_null(strstr(document, "\"language_probability\": 0.2,"));
    assert_non_null(strstr(document, "\"temperature_increment_on_fallback\": 0.2,"));
    json_decref(o);
    vo_free(document);
    vo_result_destroy(r);
}

static void test_errors(void **state) {
    vocis_result *r = make(NULL, 0);
    vo_error err = {0};
    char *document = NULL;
    vocis_write_params params = {0};
    assert_int_equal(vo_result_write(r, "docx", params, &document, NULL, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "docx"));
    assert_int_equal(vo_result_write(r, NULL, params, &document, NULL, NULL), VO_ERR_ARGUMENT);
    assert_null(document);
    vo_result_destroy(r);
    vo_result_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats), cmocka_unit_test(test_hard_text),
        cmocka_unit_test(test_empty),   cmocka_unit_test(test_json),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
