/* SPDX-License-Identifier: MIT
 *
 * A result as a document: one function a format, in a table. Every document is valid UTF-8. In all
 * of them but JSON, which keeps the text as the model gave it, a segment's text has no line feed of
 * its own, since that would end the record.
 */
#include "pipeline/write.h"

#include "base/utf8.h"
#include "pipeline/prompt.h"
#include "pipeline/subtitles.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t vo_milliseconds(double seconds) {
    if (!(seconds > 0)) return 0;
    return seconds < 1e12 ? (int64_t)nearbyint(seconds * 1000.0) : INT64_C(1000000000000000);
}

static const char *escape_of(char c, vo_escape how) {
    static const struct {
        vo_escape how;
        char c;
        const char *text;
    } escapes[] = {
        {VO_MARKUP, '&', "&amp;"},
        {VO_MARKUP, '<', "&lt;"},
        {VO_MARKUP, '>', "&gt;"},
        {VO_QUOTES, '"', "\"\""},
        {VO_BRACKETS, '[', "("},
        {VO_BRACKETS, ']', ")"},
        {VO_TAGS, '[', "("},
        {VO_TAGS, ']', ")"},
        {VO_TAGS, '<', "\xe2\x80\xb9"},
        {VO_TAGS, '>', "\xe2\x80\xba"},
    };
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
        if (escapes[i].how == how && escapes[i].c == c) return escapes[i].text;
    return NULL;
}

void vo_put_text(vo_buf *out, const char *text, size_t size, vo_escape how) {
    for (size_t i = 0; i < size; i++) {
        char c = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? ' ' : text[i];
        bool arrow = c == '>' && (how == VO_ARROWS || how == VO_MARKUP);
        while (arrow && out->size >= 2 && memcmp(out->data + out->size - 2, "--", 2) == 0)
            out->size--;
        const char *escape = escape_of(c, how);
        if (escape)
            vo_buf_puts(out, escape);
        else
            vo_buf_append(out, &c, 1);
    }
}

void vo_put_speaker(vo_buf *out, int speaker) {
    vo_buf_printf(out, "Speaker %" PRId64, (int64_t)speaker + 1);
}

/* ---- segments as lines and rows ------------------------------------------------------------- */

/* Text of a segment without outer blanks, on one line. */
static void put_line(vo_buf *out, const vocis_segment *s, vo_escape how) {
    size_t n, size = strlen(s->text);
    char *clean = vo_utf8_sanitize(s->text, size, &size);
    if (clean) {
        const char *stripped = vo_strip(clean, &n);
        vo_put_text(out, stripped, n, how);
    } else {
        out->failed = true;
    }
    vo_free(clean);
}

/* A segment that ends before it starts has no length. */
static void put_times(vo_buf *out, const vocis_segment *s, char separator) {
    int64_t start = vo_milliseconds(s->start), end = vo_milliseconds(s->end);
    vo_buf_printf(out, "%" PRId64 "%c%" PRId64 "%c", start, separator, end > start ? end : start,
                  separator);
}

static void write_txt(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    for (int i = 0, speaker = -1; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        if (s->speaker >= 0 && s->speaker != speaker) {
            vo_put_speaker(out, s->speaker);
            vo_buf_puts(out, ": ");
        }
        speaker = s->speaker;
        put_line(out, s, VO_PLAIN);
        vo_buf_puts(out, "\n");
    }
}

static void write_tsv(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    vo_buf_puts(out, "start\tend\ttext\n");
    for (int i = 0; i < r->n_segments; i++) {
        put_times(out, &r->segments[i], '\t');
        put_line(out, &r->segments[i], VO_PLAIN);
        vo_buf_puts(out, "\n");
    }
}

/* Quotes as RFC 4180 has them; text always quoted, as whisper.cpp does. A column for speakers only
 * where there is one to name. */
static void write_csv(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    bool speakers = false;
    for (int i = 0; i < r->n_segments; i++) speakers |= r->segments[i].speaker >= 0;
    vo_buf_puts(out, speakers ? "start,end,text,speaker\n" : "start,end,text\n");
    for (int i = 0; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        put_times(out, s, ',');
        vo_buf_puts(out, "\"");
        put_line(out, s, VO_QUOTES);
        vo_buf_puts(out, speakers ? "\"," : "\"");
        if (s->speaker >= 0) vo_put_speaker(out, s->speaker);
        vo_buf_puts(out, "\n");
    }
}

/* ---- who speaks when ------------------------------------------------------------------------ */

/* Rich Transcription Time Marked (NIST, 2009): fields are separated by blanks. */
static void put_turn(vo_buf *out, const char *source, int speaker, int64_t start, int64_t end) {
    const char *name = source ? source : "";
    for (const char *p = name; *p; p++)
        if (*p == '/') name = p + 1;
    size_t size = strlen(name);
    char *clean = vo_utf8_sanitize(name, size, &size);
    if (!clean) {
        out->failed = true;
        return;
    }
    for (char *p = clean; *p; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f) *p = '_';
    vo_buf_printf(out, "SPEAKER %s 1 %" PRId64 ".%03d %" PRId64 ".%03d <NA> <NA> ",
                  *clean ? clean : "audio", start / 1000, (int)(start % 1000), (end - start) / 1000,
                  (int)((end - start) % 1000));
    vo_buf_printf(out, "speaker_%" PRId64 " <NA> <NA>\n", (int64_t)speaker + 1);
    vo_free(clean);
}

typedef struct turn {
    int speaker;
    int64_t start, end;
} turn;

/* Joins what one speaker says with pauses of at most half a second. Words, or segments without. */
static void add_to_turn(vo_buf *out, const char *source, turn *t, turn next) {
    const int64_t pause = 500;
    if (next.end < next.start) next.end = next.start;
    if (next.speaker == t->speaker && next.start <= t->end + pause && next.start >= t->start) {
        if (next.end > t->end) t->end = next.end;
        return;
    }
    if (t->speaker >= 0 && t->end > t->start) put_turn(out, source, t->speaker, t->start, t->end);
    *t = next;
}

static void write_rttm(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    turn t = {.speaker = -1};
    vo_buf_puts(out, "");
    for (int i = 0; i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        for (int k = 0; k < s->n_words; k++) {
            const vocis_word *w = &s->words[k];
            int speaker = w->speaker >= 0 ? w->speaker : s->speaker;
            add_to_turn(out, p->source, &t,
                        (turn){speaker, vo_milliseconds(w->start), vo_milliseconds(w->end)});
        }
        if (!s->n_words)
            add_to_turn(out, p->source, &t,
                        (turn){s->speaker, vo_milliseconds(s->start), vo_milliseconds(s->end)});
    }
    add_to_turn(out, p->source, &t, (turn){.speaker = -1});
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    vo_write_fn *write;
} formats[] = {
    {"txt", write_txt},      {"srt", vo_write_srt}, {"vtt", vo_write_vtt}, {"tsv", write_tsv},
    {"json", vo_write_json}, {"csv", write_csv},    {"lrc", vo_write_lrc}, {"rttm", write_rttm},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static vo_status no_such_format(const char *format, vo_error *err) {
    char names[128] = "";
    for (size_t i = 0, used = 0; i < N_FORMATS; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 formats[i].name);
    return vo_fail(err, VO_ERR_ARGUMENT, "the format \"%s\" is none of %s", format ? format : "",
                   names);
}

vo_status vo_result_write(const vocis_result *result, const char *format, vocis_write_params params,
                          char **document, size_t *size, vo_error *err) {
    vo_buf out = {0};
    size_t i = 0;
    while (i < N_FORMATS && (!format || strcmp(format, formats[i].name) != 0)) i++;
    if (!result) return vo_fail(err, VO_ERR_ARGUMENT, "there is no result to write");
    if (i == N_FORMATS) return no_such_format(format, err);
    if (!vo_subtitle_style_known(params.subtitle_style))
        return vo_fail(err, VO_ERR_ARGUMENT, "there is no subtitle style \"%s\"",
                       params.subtitle_style);
    vo_buf_puts(&out, "");
    formats[i].write(&out, result, &params);
    if (out.failed || !out.data) {
        vo_buf_free(&out);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for the document");
    }
    *document = out.data;
    if (size) *size = out.size;
    return VO_OK;
}
