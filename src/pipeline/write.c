/* SPDX-License-Identifier: MIT
 *
 * A result as a document: one small function per format, in a table. Every document is valid
 * UTF-8. In the formats of lines and cues a segment's text stays on one line, since a line feed
 * there would end the record; JSON keeps the text as the model gave it.
 */
#include "base/memory.h"
#include "base/utf8.h"
#include "pipeline/json.h"
#include "pipeline/prompt.h"
#include "pipeline/result.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum escape { PLAIN, ARROWS, MARKUP, QUOTES } escape;

/* Milliseconds, rounded to even as Python's round() does. */
static int64_t milliseconds(double seconds) {
    if (!(seconds > 0)) return 0;
    return seconds < 1e12 ? (int64_t)nearbyint(seconds * 1000.0) : INT64_C(1000000000000000);
}

/* A cue that ends before it starts is no cue. */
static int64_t end_of(const vocis_segment *s) {
    int64_t start = milliseconds(s->start), end = milliseconds(s->end);
    return end > start ? end : start;
}

/* Dashes from text[at] on that end in '>': their number, else 0. */
static size_t arrow_dashes(const char *text, size_t n, size_t at) {
    size_t dashes = 0;
    while (at + dashes < n && text[at + dashes] == '-') dashes++;
    return dashes >= 2 && at + dashes < n && text[at + dashes] == '>' ? dashes : 0;
}

static void put_char(vo_buf *out, char c, escape how) {
    if ((unsigned char)c < 0x20 || c == 0x7f) c = ' ';
    if (how == MARKUP && c == '&')
        vo_buf_puts(out, "&amp;");
    else if (how == MARKUP && c == '<')
        vo_buf_puts(out, "&lt;");
    else if (how == MARKUP && c == '>')
        vo_buf_puts(out, "&gt;");
    else if (how == QUOTES && c == '"')
        vo_buf_puts(out, "\"\"");
    else
        vo_buf_append(out, &c, 1);
}

/* Text of a segment without outer blanks, on one line. "-->" separates times in subtitles, so
 * that it becomes "->", and so does every longer arrow. */
static void put_text(vo_buf *out, const char *text, escape how) {
    size_t n, size = strlen(text);
    char *clean = vo_utf8_sanitize(text, size, &size);
    if (!clean) {
        out->failed = true;
        return;
    }
    const char *stripped = vo_strip(clean, &n);
    for (size_t i = 0; i < n; i++) {
        size_t dashes = how == ARROWS || how == MARKUP ? arrow_dashes(stripped, n, i) : 0;
        if (dashes) i += dashes - 1;
        put_char(out, stripped[i], how);
    }
    vo_free(clean);
}

/* ---- lines and cues ------------------------------------------------------------------------- */

static void put_clock(vo_buf *out, int64_t ms, bool hours, char decimal) {
    int64_t h = ms / 3600000;
    if (hours || h > 0) vo_buf_printf(out, "%02" PRId64 ":", h);
    vo_buf_printf(out, "%02d:%02d%c%03d", (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), decimal,
                  (int)(ms % 1000));
}

static void write_txt(vo_buf *out, const vocis_segment *s, int number) {
    put_text(out, s->text, PLAIN);
    vo_buf_puts(out, "\n");
}

static void write_srt(vo_buf *out, const vocis_segment *s, int number) {
    vo_buf_printf(out, "%d\n", number);
    put_clock(out, milliseconds(s->start), true, ',');
    vo_buf_puts(out, " --> ");
    put_clock(out, end_of(s), true, ',');
    vo_buf_puts(out, "\n");
    put_text(out, s->text, ARROWS);
    vo_buf_puts(out, "\n\n");
}

static void write_vtt(vo_buf *out, const vocis_segment *s, int number) {
    put_clock(out, milliseconds(s->start), false, '.');
    vo_buf_puts(out, " --> ");
    put_clock(out, end_of(s), false, '.');
    vo_buf_puts(out, "\n");
    put_text(out, s->text, MARKUP);
    vo_buf_puts(out, "\n\n");
}

static void write_tsv(vo_buf *out, const vocis_segment *s, int number) {
    vo_buf_printf(out, "%" PRId64 "\t%" PRId64 "\t", milliseconds(s->start), end_of(s));
    put_text(out, s->text, PLAIN);
    vo_buf_puts(out, "\n");
}

/* Quotes as RFC 4180 has them; always quoted, as whisper.cpp does. */
static void write_csv(vo_buf *out, const vocis_segment *s, int number) {
    vo_buf_printf(out, "%" PRId64 ",%" PRId64 ",\"", milliseconds(s->start), end_of(s));
    put_text(out, s->text, QUOTES);
    vo_buf_puts(out, "\"\n");
}

static void write_lrc(vo_buf *out, const vocis_segment *s, int number) {
    int64_t cs = (milliseconds(s->start) + 5) / 10;
    vo_buf_printf(out, "[%02" PRId64 ":%02d.%02d]", cs / 6000, (int)(cs / 100 % 60),
                  (int)(cs % 100));
    put_text(out, s->text, PLAIN);
    vo_buf_puts(out, "\n");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* The shortest decimal that gives the same float back, so that 0.2f is not shown as
 * 0.200000003; null for what JSON cannot say. */
static json_t *json_float(float value) {
    char text[32];
    if (!isfinite(value)) return json_null();
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) break;
    }
    return json_real(strtod(text, NULL));
}

static json_t *json_double(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_segment(const vocis_segment *s, bool tokens, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "id", json_integer(s->id), failed);
    vo_json_put(o, "seek", json_integer(s->seek), failed);
    vo_json_put(o, "start", json_double(s->start), failed);
    vo_json_put(o, "end", json_double(s->end), failed);
    vo_json_put(o, "text", vo_json_text(s->text), failed);
    if (tokens) {
        json_t *ids = json_array(), *logprobs = json_array();
        for (int i = 0; i < s->n_tokens; i++) {
            if (json_array_append_new(ids, json_integer(s->tokens[i])) != 0 ||
                json_array_append_new(logprobs, json_float(s->token_logprobs[i])) != 0)
                *failed = true;
        }
        vo_json_put(o, "tokens", ids, failed);
        vo_json_put(o, "token_logprobs", logprobs, failed);
    }
    vo_json_put(o, "temperature", json_float(s->temperature), failed);
    vo_json_put(o, "avg_logprob", json_float(s->avg_logprob), failed);
    vo_json_put(o, "compression_ratio", json_float(s->compression_ratio), failed);
    vo_json_put(o, "no_speech_prob", json_float(s->no_speech_prob), failed);
    return o;
}

/* Numbers and switches only: the strings of the settings lived with the caller. */
static json_t *json_settings(const vocis_transcribe_params *p, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "temperature", json_float(p->temperature), failed);
    vo_json_put(o, "temperature_increment_on_fallback", json_float(p->temperature_increment),
                failed);
    vo_json_put(o, "best_of", json_integer(p->best_of), failed);
    vo_json_put(o, "beam_size", json_integer(p->beam_size), failed);
    vo_json_put(o, "patience", json_float(p->patience), failed);
    vo_json_put(o, "length_penalty", json_float(p->length_penalty), failed);
    vo_json_put(o, "suppress_blank", json_boolean(p->suppress_blank), failed);
    vo_json_put(o, "carry_initial_prompt", json_boolean(p->carry_initial_prompt), failed);
    vo_json_put(o, "condition_on_previous_text", json_boolean(p->condition_on_previous_text),
                failed);
    vo_json_put(o, "compression_ratio_threshold", json_float(p->compression_ratio_threshold),
                failed);
    vo_json_put(o, "logprob_threshold", json_float(p->logprob_threshold), failed);
    vo_json_put(o, "no_speech_threshold", json_float(p->no_speech_threshold), failed);
    vo_json_put(o, "without_timestamps", json_boolean(p->without_timestamps), failed);
    vo_json_put(o, "max_initial_timestamp", json_float(p->max_initial_timestamp), failed);
    vo_json_put(o, "chunking",
                vo_json_text(p->chunking == VOCIS_CHUNK_SPEECH ? "vad" : "sequential"), failed);
    vo_json_put(o, "max_tokens", json_integer(p->max_tokens), failed);
    vo_json_put(o, "seed", json_integer((json_int_t)p->seed), failed);
    return o;
}

static json_t *json_timings(const vocis_timings *t, bool *failed) {
    json_t *o = json_object();
    vo_json_put(o, "total", json_double(t->total), failed);
    vo_json_put(o, "mel", json_double(t->mel), failed);
    vo_json_put(o, "cut", json_double(t->cut), failed);
    vo_json_put(o, "encode", json_double(t->encode), failed);
    vo_json_put(o, "decode", json_double(t->decode), failed);
    vo_json_put(o, "windows", json_integer(t->windows), failed);
    vo_json_put(o, "fallbacks", json_integer(t->fallbacks), failed);
    vo_json_put(o, "steps", json_integer(t->steps), failed);
    vo_json_put(o, "tokens", json_integer(t->tokens), failed);
    return o;
}

static void write_json(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    bool failed = false;
    json_t *o = json_object(), *segments = json_array();
    for (int i = 0; i < r->n_segments; i++)
        if (json_array_append_new(segments,
                                  json_segment(&r->segments[i], p->json_tokens, &failed)) != 0)
            failed = true;
    vo_json_put(o, "text", vo_json_text(r->text ? r->text : ""), &failed);
    vo_json_put(o, "language", vo_json_text(r->language), &failed);
    vo_json_put(o, "language_probability", json_float(r->language_probability), &failed);
    vo_json_put(o, "task", json_string(r->task == VOCIS_TRANSLATE ? "translate" : "transcribe"),
                &failed);
    vo_json_put(o, "duration", json_double(r->duration), &failed);
    vo_json_put(o, "segments", segments, &failed);
    vo_json_put(o, "settings", json_settings(&r->settings, &failed), &failed);
    vo_json_put(o, "timings", json_timings(&r->timings, &failed), &failed);
    vo_json_put(o, "peak_memory_bytes", json_integer((json_int_t)r->peak_bytes), &failed);
    vo_json_put(o, "model", vo_json_text(p->model), &failed);
    vo_json_put(o, "source", vo_json_text(p->source), &failed);
    if (failed)
        out->failed = true;
    else
        vo_json_write(o, JSON_INDENT(2) | JSON_REAL_PRECISION(15), out);
    vo_buf_puts(out, "\n");
    json_decref(o);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct writer {
    const char *name, *header;
    void (*segment)(vo_buf *out, const vocis_segment *segment, int number); /* NULL: JSON */
} writers[] = {
    {"txt", "", write_txt},
    {"srt", "", write_srt},
    {"vtt", "WEBVTT\n\n", write_vtt},
    {"tsv", "start\tend\ttext\n", write_tsv},
    {"json", "", NULL},
    {"csv", "start,end,text\n", write_csv},
    {"lrc", "", write_lrc},
};

vo_status vo_result_write(const vocis_result *result, const char *format, vocis_write_params params,
                          char **document, size_t *size, vo_error *err) {
    const struct writer *w = NULL;
    for (size_t i = 0; format && i < sizeof writers / sizeof *writers; i++)
        if (strcmp(format, writers[i].name) == 0) w = &writers[i];
    if (!result) return vo_fail(err, VO_ERR_ARGUMENT, "there is no result to write");
    if (!w)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "the format \"%s\" is none of txt, srt, vtt, tsv, json, csv, lrc",
                       format ? format : "");
    vo_buf out = {0};
    vo_buf_puts(&out, w->header);
    if (!w->segment) write_json(&out, result, &params);
    for (int i = 0; w->segment && i < result->n_segments; i++)
        w->segment(&out, &result->segments[i], i + 1);
    if (out.failed || !out.data) {
        vo_buf_free(&out);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for the document");
    }
    *document = out.data;
    if (size) *size = out.size;
    return VO_OK;
}
