/* SPDX-License-Identifier: MIT
 *
 * What a track decides between the windows: which text goes, which speech is looked at again, and
 * what of a second look counts. docs/models/whisper.md gives the rules in prose.
 */
#include "pipeline/look.h"

#include "pipeline/coverage.h"
#include "pipeline/guards.h"

#include <math.h>

/* A second look must be surer of what it finds than a first one, the more so for a short hole. */
#define LIKELY        (-0.8f)
#define LIKELY_SHORT  (-0.6f)
#define LIKELY_SILENT (-0.5f) /* where nobody seems to speak: */
#define SILENT        0.6f
#define SHORT_HOLE    1.5 /* seconds */
#define EDGE          0.5 /* seconds that text may reach beyond its hole */
#define SOFT_START    4.0 /* seconds that the voice detector may come too late */

/* Text of a second look: likely by its own probabilities, and new. */
static vo_status is_likely(const vo_track *t, const vocis_segment *s, bool *likely, vo_error *err) {
    const bool is_short = s->end - s->start < SHORT_HOLE;
    vo_status status = VO_OK;
    *likely = s->avg_logprob >= (is_short ? LIKELY_SHORT : LIKELY) &&
              (s->avg_logprob >= LIKELY_SILENT || !(s->no_speech_prob > SILENT));
    /* Most of it must lie in the hole: what stands before and after it is known. */
    if (fmin(s->end, t->asked.end + EDGE) - fmax(s->start, t->asked.start - EDGE) <
        0.5 * (s->end - s->start))
        *likely = false;
    for (const vo_track *p = t->parent; p && *likely && status == VO_OK; p = p->parent) {
        const vocis_result *r = p->pending;
        double covered = 0;
        status = vo_text_seconds(r->segments, r->n_segments, s->start, s->end, &covered, err);
        covered += fmax(fmin(s->end, p->covered) - s->start, 0); /* text of earlier windows */
        *likely = covered <= 0.5 * (s->end - s->start) &&
                  !vo_guard_is_said(s, r->segments, r->n_segments);
    }
    return status;
}

/* Earlier windows are done: nothing begins before their text ends. */
static void begin_at(vocis_segment *s, double time) {
    vocis_word *w = (vocis_word *)s->words;
    s->start = fmax(s->start, time);
    s->end = fmax(s->end, time);
    for (int i = 0; i < s->n_words; i++) {
        w[i].start = fmax(w[i].start, time);
        w[i].end = fmax(w[i].end, time);
    }
}

/* Nobody need look for its speech again, which has its text. */
static vo_status drop_echo(vo_track *t, vo_error *err) {
    vocis_result *r = t->pending;
    if (r->n_segments == 0 ||
        !vo_guard_is_echo(&r->segments[0], t->all.ids, t->n_before, t->plan->ids->eot,
                          (double)r->segments[0].seek * VO_SECONDS_PER_FRAME, t->plan->voice))
        return VO_OK;
    t->covered = fmax(t->covered, r->segments[0].end);
    return vo_result_remove(r, 0, VO_REMOVED_LOOP, err);
}

vo_status vo_look_judge(vo_track *t, vo_error *err) {
    const vo_track_plan *plan = t->plan;
    vocis_result *r = t->pending;
    const int n_removed = r->n_removed;
    vo_status status = VO_OK;
    if (plan->guard && !plan->strict) status = drop_echo(t, err);
    if (plan->guard && status == VO_OK)
        status = vo_guard_segments(r, plan->voice, plan->session->model->tokenizer, err);
    if (plan->guard) vo_guard_starts(r, plan->voice);
    const bool invents = r->n_removed > n_removed;
    if (invents) t->prompt_reset_since = t->all.n; /* what went must not lead what follows */
    if (!plan->strict) return status;
    for (int i = r->n_segments - 1; status == VO_OK && i >= 0; i--) {
        bool likely = false;
        if (!invents) status = is_likely(t, &r->segments[i], &likely, err);
        if (status == VO_OK && !likely) vo_result_drop(r, i);
        for (const vo_track *p = t->parent; p && likely; p = p->parent)
            begin_at(&r->segments[i], p->covered);
    }
    vo_result_forget_removed(r, n_removed); /* it never was text of the first look */
    return status;
}

double vo_look_onset(const vo_track *t, double start) {
    /* What lies before the stretch belongs to others. */
    double first =
        fmax(start - SOFT_START, fmax(t->covered, (double)t->first * VO_SECONDS_PER_FRAME));
    for (int i = 0; i < t->pending->n_segments; i++)
        if (t->pending->segments[i].start < start) first = fmax(first, t->pending->segments[i].end);
    return vo_voice_onset(t->plan->voice, start, first);
}

/* The model may put a sentence where nobody speaks. Once the speech is found where it belongs, the
 * misplaced text is one too many. */
vo_status vo_look_drop_misplaced(vo_track *t, vo_error *err) {
    vocis_result *r = t->pending;
    vo_status status = VO_OK;
    for (int i = r->n_segments - 1; status == VO_OK && i >= 0; i--) {
        const vocis_segment *s = &r->segments[i];
        const double spoken = vo_voice_seconds(t->plan->voice, s->start, s->end);
        if (!s->recovered && spoken < 0.5 * (s->end - s->start) &&
            vo_guard_is_said(s, r->segments, r->n_segments))
            status = vo_result_remove(r, i, VO_REMOVED_MISPLACED, err);
    }
    return status;
}

/* Where text stands in the middle of a word, that was stretched over it: it ends there, and so do
 * words that had no room behind it. */
static void unstretch(vocis_segment *s, double found) {
    vocis_word *w = (vocis_word *)s->words;
    for (int i = 0; i < s->n_words; i++) {
        const double end = w[i].end;
        if (end - w[i].start <= VO_LONGEST_WORD || w[i].start >= found || end <= found) continue;
        w[i].end = found;
        for (int k = i + 1; k < s->n_words && w[k].end <= end; k++) w[k].start = w[k].end = found;
        s->end = w[s->n_words - 1].end;
        return;
    }
}

void vo_look_unstretch(vo_track *t) {
    const vocis_result *r = t->pending;
    for (int i = 0; i < r->n_segments; i++)
        for (int k = 0; k < r->n_segments && r->segments[i].recovered; k++)
            if (!r->segments[k].recovered) unstretch(&r->segments[k], r->segments[i].start);
}

vo_status vo_look_find_holes(vo_track *t, vo_error *err) {
    const double begin = (double)t->begin * VO_SECONDS_PER_FRAME,
                 end = (double)(t->seek < t->last ? t->seek : t->last) * VO_SECONDS_PER_FRAME;
    const double from = fmax(fmax(begin, t->covered), t->parent ? t->asked.start : 0),
                 to = t->parent ? fmin(end, t->asked.end) : end;
    return vo_holes_find(t->plan->voice, t->pending->segments, t->pending->n_segments, from, to,
                         &t->holes, &t->n_holes, err);
}
