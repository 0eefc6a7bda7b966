/* SPDX-License-Identifier: MIT
 *
 * Sets of times as sorted lists of spans: text, speech, and what is left of the one without the
 * other. Times of segments are less exact than those of the voice detector, so text reaches a
 * little further than its times say.
 */
#include "pipeline/coverage.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLACK          0.3  /* seconds that text reaches beyond its times */
#define WORD_PAUSE     1.0  /* words further apart leave a gap */
#define SHORTEST       0.35 /* of speech that may hold a word */
#define SHORTEST_PART  0.8  /* beside text */
#define SHORTEST_SOUND 3.0  /* seconds in which the detector hears no voice */
#define NEAR           1.5  /* holes that are closer are decoded together */
#define LONGEST_HOLE   27.  /* of joined holes: they are to fit a window with some room */

typedef struct spans {
    vocis_span *items;
    int n, capacity;
} spans;

static vo_status push(spans *list, double start, double end, vo_error *err) {
    if (list->n == list->capacity) {
        const int capacity = list->capacity ? 2 * list->capacity : 16;
        vocis_span *grown = capacity > list->capacity
                                ? vo_realloc(list->items, (size_t)capacity * sizeof *grown)
                                : NULL;
        if (!grown) return vo_fail(err, VO_ERR_MEMORY, "no memory for %d spans", list->n);
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->n++] = (vocis_span){start, end};
    return VO_OK;
}

static int by_start(const void *a, const void *b) {
    const vocis_span *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* ---- text ----------------------------------------------------------------------------------- */

static vo_status push_words(spans *list, const vocis_segment *s, vo_error *err) {
    vo_status status = VO_OK;
    bool open = false; /* the last span goes on */
    for (int i = 0; status == VO_OK && i < s->n_words; i++) {
        const vocis_word *w = &s->words[i];
        if (w->end - w->start > VO_LONGEST_WORD) {
            open = false;
        } else if (open && w->start - list->items[list->n - 1].end <= WORD_PAUSE) {
            list->items[list->n - 1].end = fmax(list->items[list->n - 1].end, w->end);
        } else {
            status = push(list, w->start, w->end, err);
            open = true;
        }
    }
    return status;
}

vo_status vo_text_spans(const vocis_segment *segments, int n, vocis_span **out, int *n_spans,
                        vo_error *err) {
    spans list = {0};
    vo_status status = VO_OK;
    *out = NULL;
    *n_spans = 0;
    for (int i = 0; status == VO_OK && i < n; i++)
        status = segments[i].n_words > 0 ? push_words(&list, &segments[i], err)
                                         : push(&list, segments[i].start, segments[i].end, err);
    if (status != VO_OK) {
        vo_free(list.items);
        return status;
    }
    if (list.n) qsort(list.items, (size_t)list.n, sizeof *list.items, by_start);
    int merged = 0;
    for (int i = 0; i < list.n; i++) {
        if (merged > 0 && list.items[i].start <= list.items[merged - 1].end)
            list.items[merged - 1].end = fmax(list.items[merged - 1].end, list.items[i].end);
        else
            list.items[merged++] = list.items[i];
    }
    *out = list.items;
    *n_spans = merged;
    return VO_OK;
}

vo_status vo_text_seconds(const vocis_segment *segments, int n, double start, double end,
                          double *seconds, vo_error *err) {
    vocis_span *text = NULL;
    int n_text = 0;
    const vo_status status = vo_text_spans(segments, n, &text, &n_text, err);
    *seconds = 0;
    for (int i = 0; i < n_text; i++)
        if (text[i].start < end && text[i].end > start)
            *seconds += fmin(text[i].end, end) - fmax(text[i].start, start);
    vo_free(text);
    return status;
}

/* ---- holes ---------------------------------------------------------------------------------- */

/* Adds what of the speech in [from, to) no text comes near. A part of it must be longer than the
 * whole to count: times beside text are not exact. */
static vo_status push_uncovered(spans *list, const vocis_span *text, int n_text, double from,
                                double to, bool part, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; status == VO_OK && i < n_text && from < to; i++) {
        if (text[i].end + SLACK <= from) continue;
        if (text[i].start - SLACK >= to) break;
        if (text[i].start - SLACK - from >= SHORTEST_PART)
            status = push(list, from, text[i].start - SLACK, err);
        from = text[i].end + SLACK;
        part = true;
    }
    if (status == VO_OK && to - from >= (part ? SHORTEST_PART : SHORTEST))
        status = push(list, from, to, err);
    return status;
}

static bool has_text(const vocis_span *text, int n_text, double from, double to) {
    for (int i = 0; i < n_text; i++)
        if (text[i].start < to && text[i].end > from) return true;
    return false;
}

static void join_holes(spans *holes, const vocis_span *text, int n_text) {
    int n = 0;
    for (int i = 0; i < holes->n; i++) {
        vocis_span *last = n > 0 ? &holes->items[n - 1] : NULL, *next = &holes->items[i];
        if (last && next->start - last->end < NEAR && next->end - last->start < LONGEST_HOLE &&
            !has_text(text, n_text, last->end, next->start))
            last->end = next->end;
        else
            holes->items[n++] = *next;
    }
    holes->n = n;
}

vo_status vo_holes_find(const vo_voice *voice, const vocis_segment *segments, int n, double from,
                        double to, vocis_span **out, int *n_holes, vo_error *err) {
    spans holes = {0};
    vocis_span *text = NULL;
    int n_text = 0;
    *out = NULL;
    *n_holes = 0;
    vo_status status = vo_text_spans(segments, n, &text, &n_text, err);
    for (int i = vo_voice_first(voice, from); status == VO_OK && i < voice->n_spans; i++) {
        const vocis_span *s = &voice->spans[i];
        if (s->start >= to) break;
        status = push_uncovered(&holes, text, n_text, fmax(s->start, from), fmin(s->end, to),
                                s->start < from, err);
    }
    for (int i = 0; status == VO_OK && i < voice->n_sounds; i++) {
        const double start = fmax(voice->sounds[i].start, from),
                     end = fmin(voice->sounds[i].end, to);
        if (end - start >= SHORTEST_SOUND)
            status = push_uncovered(&holes, text, n_text, start, end, true, err);
    }
    if (status == VO_OK) {
        if (holes.n) qsort(holes.items, (size_t)holes.n, sizeof *holes.items, by_start);
        join_holes(&holes, text, n_text);
        *out = holes.items;
        *n_holes = holes.n;
    } else {
        vo_free(holes.items);
    }
    vo_free(text);
    return status;
}

/* ---- the account ---------------------------------------------------------------------------- */

typedef struct ledger {
    vocis_result *result;
    const vo_voice *voice;
    int capacity;
    vo_error *err;
} ledger;

static vo_status put(ledger *l, double start, double end, vocis_cover cover) {
    vocis_result *r = l->result;
    if (!(end > start)) return VO_OK;
    if (r->n_account > 0 && r->account[r->n_account - 1].cover == cover &&
        r->account[r->n_account - 1].end >= start) {
        r->account[r->n_account - 1].end = end;
        return VO_OK;
    }
    if (r->n_account == l->capacity) {
        const int capacity = l->capacity ? 2 * l->capacity : 32;
        vocis_account *grown = capacity > l->capacity
                                   ? vo_realloc(r->account, (size_t)capacity * sizeof *grown)
                                   : NULL;
        if (!grown) return vo_fail(l->err, VO_ERR_MEMORY, "no memory for the account");
        r->account = grown;
        l->capacity = capacity;
    }
    r->account[r->n_account++] = (vocis_account){start, end, cover};
    return VO_OK;
}

/* Where the voice detector hears nobody. */
static vo_status put_voiceless(ledger *l, double from, double to) {
    return put(l, from, to,
               vo_voice_audible(l->voice, from, to, VO_QUIET) ? VOCIS_COVER_SOUND
                                                              : VOCIS_COVER_QUIET);
}

/* Between two texts: speech that is long enough for a word is lost, the rest quiet. */
static vo_status put_gap(ledger *l, double from, double to, bool reached) {
    vo_status status = VO_OK;
    if (!reached) return put(l, from, to, VOCIS_COVER_SKIPPED);
    if (!l->voice) return put(l, from, to, VOCIS_COVER_UNKNOWN);
    for (int i = vo_voice_first(l->voice, from); status == VO_OK && i < l->voice->n_spans; i++) {
        const double start = fmax(l->voice->spans[i].start, from),
                     end = fmin(l->voice->spans[i].end, to);
        if (start >= to) break;
        if (end - start < SHORTEST) continue;
        status = put_voiceless(l, from, start);
        if (status == VO_OK) status = put(l, start, end, VOCIS_COVER_LOST);
        from = end;
    }
    return status == VO_OK ? put_voiceless(l, from, to) : status;
}

/* One part that was to be read. */
static vo_status put_part(ledger *l, const vocis_span *text, int n_text, vocis_span part,
                          double reached) {
    vo_status status = VO_OK;
    double at = part.start;
    for (int i = 0; status == VO_OK && i < n_text && at < part.end; i++) {
        const double start = fmax(text[i].start - SLACK, part.start),
                     end = fmin(text[i].end + SLACK, part.end);
        if (end <= at || start >= part.end) continue;
        if (start > at) status = put_gap(l, at, start, true);
        if (status == VO_OK) status = put(l, fmax(at, start), end, VOCIS_COVER_TEXT);
        at = fmax(at, end);
    }
    const double known = fmin(fmax(at, reached), part.end);
    if (status == VO_OK) status = put_gap(l, at, known, true);
    if (status == VO_OK) status = put_gap(l, known, part.end, false);
    return status;
}

static void sum_up(vocis_result *r, const vo_voice *voice) {
    vocis_coverage *c = &r->coverage;
    *c = (vocis_coverage){.known = voice != NULL, .ratio = 1};
    for (int i = 0; i < r->n_account; i++) {
        const vocis_account *a = &r->account[i];
        if (!voice) continue;
        const double speech = vo_voice_seconds(voice, a->start, a->end);
        c->speech += speech;
        if (a->cover == VOCIS_COVER_LOST) c->lost += speech;
        if (a->cover == VOCIS_COVER_SKIPPED) c->skipped += speech;
    }
    for (int i = 0; i < r->n_segments; i++)
        if (r->segments[i].recovered) c->recovered += r->segments[i].end - r->segments[i].start;
    if (c->speech > 0) c->ratio = (c->speech - c->lost - c->skipped) / c->speech;
}

vo_status vo_account(vocis_result *r, const vo_voice *voice, const vocis_span *asked, int n_asked,
                     double reached, vo_error *err) {
    ledger l = {.result = r, .voice = voice, .err = err};
    vocis_span *text = NULL;
    int n_text = 0;
    double at = 0;
    vo_free(r->account);
    r->account = NULL;
    r->n_account = 0;
    vo_status status = vo_text_spans(r->segments, r->n_segments, &text, &n_text, err);
    for (int i = 0; status == VO_OK && i < n_asked; i++) {
        const vocis_span part = {fmax(asked[i].start, at), fmin(asked[i].end, r->duration)};
        if (!(part.end > part.start)) continue;
        status = put(&l, at, part.start, VOCIS_COVER_SKIPPED);
        if (status == VO_OK) status = put_part(&l, text, n_text, part, reached);
        at = part.end;
    }
    if (status == VO_OK) status = put(&l, at, r->duration, VOCIS_COVER_SKIPPED);
    if (status == VO_OK) sum_up(r, voice);
    vo_free(text);
    return status;
}

const char *vo_cover_name(vocis_cover cover) {
    static const char *const names[] = {"text", "quiet", "sound", "lost", "skipped", "unknown"};
    return (unsigned)cover < sizeof names / sizeof *names ? names[cover] : "unknown";
}
