/* SPDX-License-Identifier: MIT
 *
 * A track between two windows as a record of the journal, and back.
 */
#include "pipeline/segment.h"
#include "pipeline/track.h"

#include <math.h>
#include <string.h>

/* All that a track must know between two windows. Behind it stand the tokens that the window adds
 * to those that lead the next ones, its segments, and what was taken back, as segments too. */
typedef struct stored_window {
    int64_t seek;
    double covered, last_speech;
    int32_t index, clip, prompt_reset_since;
    int32_t n_tokens, n_segments, n_removed;
    int32_t windows, fallbacks, steps, decoded;
    int32_t language, expected;
    float language_probability;
    int32_t zero;
} stored_window;

_Static_assert(sizeof(stored_window) == 80, "no padding");

/* After a window, before its segments leave. */
vo_status vo_track_record(vo_track *t, vo_error *err) {
    const vocis_result *r = t->pending;
    const stored_window stored = {.seek = t->seek,
                                  .covered = t->covered,
                                  .last_speech = t->last_speech,
                                  .index = t->index,
                                  .clip = t->clip,
                                  .prompt_reset_since = t->prompt_reset_since,
                                  .n_tokens = t->all.n - t->n_recorded,
                                  .n_segments = r->n_segments,
                                  .n_removed = r->n_removed,
                                  .windows = t->counts.windows,
                                  .fallbacks = t->counts.fallbacks,
                                  .steps = t->counts.steps,
                                  .decoded = t->counts.tokens,
                                  .language = t->language,
                                  .expected = t->expected,
                                  .language_probability = t->language_probability};
    vo_buf out = {0};
    vo_buf_append(&out, &stored, sizeof stored);
    vo_segment_save_tokens(&out, t->all.ids + t->n_recorded, stored.n_tokens);
    for (int i = 0; i < r->n_segments; i++) vo_segment_save(&out, &r->segments[i]);
    for (int i = 0; i < r->n_removed; i++) {
        const vocis_removed *m = &r->removed[i];
        vo_segment_save(&out, &(vocis_segment){.start = m->start,
                                               .end = m->end,
                                               .text = m->text,
                                               .seek = vo_removal_find(m->reason)});
    }
    t->n_recorded = t->all.n;
    const vo_status status = vo_journal_put_window(t->plan->journal, &out, err);
    vo_buf_free(&out);
    return status;
}

static bool is_language(const vo_track *t, int32_t id) {
    const vo_whisper_ids *ids = t->plan->ids;
    return !ids->multilingual ||
           (id >= ids->first_language && id < ids->first_language + ids->n_languages);
}

static bool is_possible(const vo_track *t, const stored_window *w) {
    return w->seek >= 0 && w->seek <= t->plan->content_frames + t->plan->window_frames &&
           w->clip >= 0 && w->clip < t->n_clips && w->prompt_reset_since >= 0 &&
           w->prompt_reset_since <= t->all.n && w->windows >= 0 && w->fallbacks >= 0 &&
           w->steps >= 0 && w->decoded >= 0 && w->covered >= 0 && isfinite(w->covered) &&
           isfinite(w->last_speech) && is_language(t, w->language) && is_language(t, w->expected);
}

static bool are_tokens(const vo_track *t, const int32_t *tokens, int n) {
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= t->plan->ids->n_vocab) return false;
    return true;
}

static vo_status restore_segment(vo_track *t, const vo_record *record, size_t *at, bool removed,
                                 vo_error *err) {
    vocis_segment s;
    vo_status status = vo_segment_load(record, at, &s, err);
    if (status == VO_OK && !are_tokens(t, s.tokens, s.n_tokens))
        status = vo_fail(err, VO_ERR_FORMAT, "the journal holds an impossible token");
    if (status == VO_OK && removed)
        status = vo_result_note_removed(t->result, s.start, s.end, s.text,
                                        vo_removal_reason((int)s.seek), err);
    else if (status == VO_OK)
        status = vo_result_add(t->result, &s, err);
    vo_free((void *)s.words);
    return status;
}

static vo_status restore_window(vo_track *t, const vo_record *record, const stored_window *w,
                                vo_error *err) {
    size_t at = sizeof *w;
    const int32_t *tokens = vo_segment_load_tokens(record, &at, w->n_tokens);
    vo_status status = tokens && are_tokens(t, tokens, w->n_tokens)
                           ? vo_tokens_append(&t->all, tokens, w->n_tokens, err)
                           : vo_fail(err, VO_ERR_FORMAT, "the journal holds impossible tokens");
    for (int i = 0; status == VO_OK && i < w->n_segments; i++)
        status = restore_segment(t, record, &at, false, err);
    for (int i = 0; status == VO_OK && i < w->n_removed; i++)
        status = restore_segment(t, record, &at, true, err);
    if (status == VO_OK && !is_possible(t, w))
        status = vo_fail(err, VO_ERR_FORMAT, "the journal holds an impossible window");
    return status;
}

vo_status vo_track_restore(vo_track *t, vo_error *err) {
    vo_record record;
    vo_status status = VO_OK;
    size_t next = 0;
    t->n_recorded = t->all.n;
    while (status == VO_OK && vo_journal_next_window(t->plan->journal, &next, &record)) {
        stored_window w;
        if (record.size < sizeof w)
            return vo_fail(err, VO_ERR_FORMAT, "the journal holds an impossible window");
        memcpy(&w, record.data, sizeof w);
        if (w.index != t->index) continue;
        status = restore_window(t, &record, &w, err);
        t->seek = w.seek;
        t->clip = w.clip;
        t->covered = w.covered;
        t->last_speech = w.last_speech;
        t->prompt_reset_since = w.prompt_reset_since;
        t->language = w.language;
        t->expected = w.expected;
        t->language_probability = w.language_probability;
        t->n_recorded = t->all.n;
        t->counts = (vocis_timings){
            .windows = w.windows, .fallbacks = w.fallbacks, .steps = w.steps, .tokens = w.decoded};
    }
    return status;
}
