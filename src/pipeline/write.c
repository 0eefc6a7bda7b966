/* SPDX-License-Identifier: MIT
 *
 * A result as a document: one small function per format, in a table. Every document is valid
 * UTF-8. In the formats of lines and cues a segment's text stays on one line, since a line feed
 * there would end the record; JSON keeps the text as the model gave it.
 */
#include "base/memory.h"
#include "base/utf8.h"
#include "pipeline/prompt.h"
#include "pipeline/result.h"

#include <inttypes.h>
#include <math.h>
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
    if (!w->segment) vo_write_json(&out, result, &params);
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
