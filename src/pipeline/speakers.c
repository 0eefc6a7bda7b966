/* SPDX-License-Identifier: MIT
 *
 * Turns meet words. Each asks which speaker covers most of its time; a segment is its words where
 * it has any.
 */
#include "base/memory.h"
#include "pipeline/diarize.h"
#include "pipeline/result.h"

#include <math.h>
#include <string.h>

static const double REACH = 2; /* seconds from the nearest turn */

typedef struct turns {
    const vocis_turn *list;
    int n, n_speakers;
    double *seconds; /* [n_speakers], zero between uses */
} turns;

static double overlap(const vocis_turn *t, double start, double end) {
    return fmin(t->end, end) - fmax(t->start, start);
}

/* Who has most of [start, end), or -1. */
static int speaker_of(const turns *t, double start, double end) {
    int best = -1, nearest = -1;
    double distance = REACH;
    for (int i = 0; i < t->n; i++) {
        const vocis_turn *turn = &t->list[i];
        const double shared = overlap(turn, start, end);
        if (shared > 0) t->seconds[turn->speaker] += shared;
        if (shared > -distance) {
            distance = -shared;
            nearest = turn->speaker;
        }
    }
    double most = 0;
    for (int s = 0; s < t->n_speakers; s++) {
        if (t->seconds[s] > most) {
            most = t->seconds[s];
            best = s;
        }
        t->seconds[s] = 0;
    }
    return best >= 0 ? best : nearest;
}

/* Speakers of a segment's words; returns how many stretches of one speaker there are. */
static int set_words(const turns *t, vocis_segment *s) {
    vocis_word *words = (vocis_word *)s->words;
    int parts = 1;
    for (int i = 0; i < s->n_words; i++) {
        words[i].speaker = speaker_of(t, words[i].start, words[i].end);
        if (words[i].speaker < 0 && i > 0) words[i].speaker = words[i - 1].speaker;
        if (i > 0 && words[i].speaker != words[i - 1].speaker) parts++;
    }
    return parts;
}

/* The words [first, first + n) of a segment as one of its own, added to the result. */
static vo_status add_part(vocis_result *to, const vocis_segment *from, int first, int n,
                          vo_error *err) {
    vo_buf text = {0};
    vocis_segment part = *from;
    for (int i = first; i < first + n; i++) vo_buf_puts(&text, from->words[i].text);
    if (text.failed || !text.data) {
        vo_buf_free(&text);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a segment");
    }
    part.text = text.data;
    part.tokens = NULL;
    part.token_logprobs = NULL;
    part.n_tokens = 0;
    part.words = from->words + first;
    part.n_words = n;
    part.speaker = from->words[first].speaker;
    if (first > 0) part.start = from->words[first].start;
    if (first + n < from->n_words) part.end = from->words[first + n - 1].end;
    if (part.end < part.start) part.end = part.start;
    vo_status status = vo_result_add(to, &part, err);
    vo_buf_free(&text);
    return status;
}

static vo_status add_parts(vocis_result *to, const vocis_segment *s, vo_error *err) {
    vo_status status = VO_OK;
    for (int first = 0, i = 1; i <= s->n_words && status == VO_OK; i++) {
        if (i < s->n_words && s->words[i].speaker == s->words[first].speaker) continue;
        status = add_part(to, s, first, i - first, err);
        first = i;
    }
    return status;
}

static vo_status check(const vocis_turn *list, int n, turns *t, vo_error *err) {
    if (n < 0 || (n > 0 && !list)) return vo_fail(err, VO_ERR_ARGUMENT, "there are no turns");
    for (int i = 0; i < n; i++) {
        if (list[i].speaker < 0 || list[i].speaker >= 1 << 20 || !isfinite(list[i].start) ||
            !isfinite(list[i].end))
            return vo_fail(err, VO_ERR_ARGUMENT, "turn %d has no speaker or no time", i);
        if (list[i].speaker >= t->n_speakers) t->n_speakers = list[i].speaker + 1;
    }
    t->list = list;
    t->n = n;
    t->seconds = vo_alloc_array((size_t)t->n_speakers, sizeof *t->seconds);
    return t->seconds ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for speakers");
}

vo_status vo_assign_speakers(vocis_result *r, const vocis_turn *list, int n_turns, vo_error *err) {
    turns t = {0};
    vocis_result *made = NULL;
    int cuts = 0;
    vo_status status = check(list, n_turns, &t, err);
    if (status != VO_OK) return status;
    for (int i = 0; i < r->n_segments; i++) {
        vocis_segment *s = &r->segments[i];
        s->speaker = speaker_of(&t, s->start, s->end);
        if (s->n_words == 0) continue;
        cuts += set_words(&t, s) - 1;
        s->speaker = s->words[0].speaker;
    }
    if (cuts > 0) { /* segments move into a new list, those with several speakers in parts */
        made = vo_result_create();
        if (!made) status = vo_fail(err, VO_ERR_MEMORY, "no memory for a result");
        for (int i = 0; i < r->n_segments && status == VO_OK; i++) {
            const vocis_segment *s = &r->segments[i];
            bool same = true;
            for (int k = 1; k < s->n_words; k++) same &= s->words[k].speaker == s->speaker;
            status = same ? vo_result_add(made, s, err) : add_parts(made, s, err);
        }
        if (status == VO_OK) status = vo_result_finish(made, err);
        if (status == VO_OK) vo_result_swap(r, made);
        vo_result_destroy(made);
    }
    vo_free(t.seconds);
    return status;
}
