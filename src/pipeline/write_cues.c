/* SPDX-License-Identifier: MIT
 *
 * Cues as SubRip, WebVTT and LRC. Speakers are named as each format can: WebVTT has voice tags, in
 * the others the name stands before the text where the speaker changes.
 */
#include "pipeline/subtitles.h"
#include "pipeline/write.h"

#include <inttypes.h>

static void put_clock(vo_buf *out, int64_t ms, bool hours, char decimal) {
    int64_t h = ms / 3600000;
    if (hours || h > 0) vo_buf_printf(out, "%02" PRId64 ":", h);
    vo_buf_printf(out, "%02d:%02d%c%03d", (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), decimal,
                  (int)(ms % 1000));
}

static void put_label(vo_buf *out, const vo_unit *u) {
    if (!u->label) return;
    vo_put_speaker(out, u->speaker);
    vo_buf_puts(out, ": ");
}

/* What stands before a unit: a line break, or its blanks; and a name. */
static void put_before(vo_buf *out, const vo_unit *u, bool first, vo_escape how) {
    if (u->newline)
        vo_buf_puts(out, "\n");
    else if (!first)
        vo_put_text(out, u->text - u->lead, u->lead, how);
    put_label(out, u);
}

/* ---- SubRip and WebVTT ---------------------------------------------------------------------- */

typedef struct document {
    vo_buf *out;
    bool vtt; /* or SubRip */
    const vo_subtitles *subtitles;
    int number;
} document;

/* The beginning of a cue, up to its text. */
static void open_cue(document *d, int64_t start, int64_t end, int speaker) {
    if (!d->vtt) vo_buf_printf(d->out, "%d\n", ++d->number);
    put_clock(d->out, start, !d->vtt, d->vtt ? '.' : ',');
    vo_buf_puts(d->out, " --> ");
    put_clock(d->out, end, !d->vtt, d->vtt ? '.' : ',');
    vo_buf_puts(d->out, "\n");
    if (d->vtt && speaker >= 0) {
        vo_buf_puts(d->out, "<v ");
        vo_put_speaker(d->out, speaker);
        vo_buf_puts(d->out, ">");
    }
}

/* underlined: a unit counted from the cue's first, or -1. */
static void put_cue(document *d, const vo_cue *c, int64_t start, int64_t end, int underlined) {
    const vo_unit *u = d->subtitles->units + c->first;
    vo_escape how = d->vtt ? VO_MARKUP : VO_ARROWS;
    open_cue(d, start, end, u->speaker);
    for (int i = 0; i < c->n; i++, u++) {
        put_before(d->out, u, i == 0, how);
        if (i == underlined) vo_buf_puts(d->out, "<u>");
        vo_put_text(d->out, u->text, u->size, how);
        if (i == underlined) vo_buf_puts(d->out, "</u>");
    }
    vo_buf_puts(d->out, "\n\n");
}

/* A cue for every word, and for every pause between them. */
static void put_highlighted(document *d, const vo_cue *c) {
    int64_t shown = c->start;
    for (int i = 0; i < c->n; i++) {
        const vo_unit *u = &d->subtitles->units[c->first + i];
        int64_t start = vo_milliseconds(u->start), end = vo_milliseconds(u->end);
        if (start < shown) start = shown;
        if (end > c->end) end = c->end;
        if (end < start) continue;
        if (start > shown) put_cue(d, c, shown, start, -1);
        put_cue(d, c, start, end, i);
        shown = end;
    }
    if (shown < c->end) put_cue(d, c, shown, c->end, -1);
}

/* A time inside a cue must be later than its beginning and than the one before. */
static void put_karaoke(document *d, const vo_cue *c) {
    const vo_unit *u = d->subtitles->units + c->first;
    int64_t last = c->start;
    open_cue(d, c->start, c->end, u->speaker);
    for (int i = 0; i < c->n; i++, u++) {
        int64_t start = vo_milliseconds(u->start);
        put_before(d->out, u, i == 0, VO_MARKUP);
        if (start > last && start < c->end) {
            vo_buf_puts(d->out, "<");
            put_clock(d->out, start, true, '.');
            vo_buf_puts(d->out, ">");
            last = start;
        }
        vo_buf_puts(d->out, "<c>");
        vo_put_text(d->out, u->text, u->size, VO_MARKUP);
        vo_buf_puts(d->out, "</c>");
    }
    vo_buf_puts(d->out, "\n\n");
}

static void write_cues(vo_buf *out, bool vtt, const vocis_result *r, const vocis_write_params *p) {
    vo_subtitles s;
    document d = {.out = out, .vtt = vtt, .subtitles = &s};
    if (!vo_subtitles_create(r, p, !vtt, &s)) out->failed = true;
    for (int i = 0; !out->failed && i < s.n_cues; i++) {
        if (p->karaoke && vtt)
            put_karaoke(&d, &s.cues[i]);
        else if (p->highlight_words)
            put_highlighted(&d, &s.cues[i]);
        else
            put_cue(&d, &s.cues[i], s.cues[i].start, s.cues[i].end, -1);
    }
    vo_subtitles_destroy(&s);
}

void vo_write_srt(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    write_cues(out, false, r, p);
}

void vo_write_vtt(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    vo_buf_puts(out, "WEBVTT\n\n");
    write_cues(out, true, r, p);
}

/* ---- LRC ------------------------------------------------------------------------------------ */

static void put_lrc_time(vo_buf *out, const char *brackets, double seconds) {
    int64_t cs = (vo_milliseconds(seconds) + 5) / 10;
    vo_buf_printf(out, "%c%02" PRId64 ":%02d.%02d%c", brackets[0], cs / 6000, (int)(cs / 100 % 60),
                  (int)(cs % 100), brackets[1]);
}

/* n units of one line. */
static void put_lrc_line(vo_buf *out, const vo_unit *u, int n) {
    put_lrc_time(out, "[]", u->start);
    put_label(out, u);
    for (int i = 0; i < n; i++, u++) {
        if (i) vo_put_text(out, u->text - u->lead, u->lead, VO_BRACKETS);
        vo_put_text(out, u->text, u->size, VO_BRACKETS);
    }
    vo_buf_puts(out, "\n");
}

/* The enhanced form: a time before every word, and after the last one. */
static void put_enhanced_line(vo_buf *out, const vo_unit *u, int n) {
    put_lrc_time(out, "[]", u->start);
    for (int i = 0; i < n; i++, u++) {
        const char *blank = i == 0 || u->lead ? " " : "";
        vo_buf_puts(out, blank);
        put_lrc_time(out, "<>", u->start);
        vo_buf_puts(out, blank);
        put_label(out, u);
        vo_put_text(out, u->text, u->size, VO_TAGS);
    }
    vo_buf_puts(out, " ");
    put_lrc_time(out, "<>", u[-1].end);
    vo_buf_puts(out, "\n");
}

void vo_write_lrc(vo_buf *out, const vocis_result *r, const vocis_write_params *p) {
    vo_subtitles s;
    if (!vo_subtitles_create(r, p, true, &s)) out->failed = true;
    for (int i = 0; !out->failed && i < s.n_cues; i++) {
        const vo_unit *u = s.units + s.cues[i].first;
        for (int begin = 0, end; begin < s.cues[i].n; begin = end) {
            for (end = begin + 1; end < s.cues[i].n && !u[end].newline;) end++;
            (p->karaoke ? put_enhanced_line : put_lrc_line)(out, u + begin, end - begin);
        }
    }
    vo_subtitles_destroy(&s);
}
