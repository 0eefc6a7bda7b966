/* SPDX-License-Identifier: MIT
 *
 * QUIET -> MAYBE -> SPEECH <-> PAUSE -> QUIET
 *
 * Where utterances begin and end follows from the probabilities alone, never from when something
 * was decoded: fast or slow, live or from a file, the finals are the same.
 */
#include "pipeline/listen.h"

#include "base/memory.h"

enum {
    BEFORE = 6400,   /* samples before speech that belong to it: the detector hears it late */
    CUTTABLE = 1568, /* a pause of 98 ms inside speech, as Silero's rules have it */
};

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

void vo_listen_free(vo_listen *l) {
    vo_free(l->closed);
    *l = (vo_listen){0};
}

/* ---- utterances ---------------------------------------------------------------------------- */

static void open_utterance(vo_listen *l, int64_t begin) {
    l->begin = begin;
    l->start = max64(l->floor, begin - BEFORE);
    l->decoded = l->start;
    l->silent = -1;
    l->went_ahead = -1;
    l->announced = false;
    l->n_pauses = 0;
}

static vo_status close_utterance(vo_listen *l, int64_t end, int64_t quiet, vo_error *err) {
    if (l->n_closed == l->capacity) {
        const int capacity = l->capacity ? 2 * l->capacity : 16;
        vo_utterance *grown =
            capacity < 1 << 20 ? vo_realloc(l->closed, (size_t)capacity * sizeof *grown) : NULL;
        if (!grown) return vo_fail(err, VO_ERR_MEMORY, "no memory for %d utterances", capacity);
        l->closed = grown;
        l->capacity = capacity;
    }
    l->closed[l->n_closed++] = (vo_utterance){l->id, l->start, end, quiet};
    l->floor = end;
    return VO_OK;
}

static void note_pause(vo_listen *l, int64_t begin, int64_t end) {
    if (end - begin <= CUTTABLE || l->n_pauses == VO_LISTEN_PAUSES) return;
    l->pauses[l->n_pauses++] = (vo_pause){begin, end};
}

/* The longest pause that begins in [from, to); NULL when there is none. */
static const vo_pause *longest(const vo_listen *l, int64_t from, int64_t to) {
    const vo_pause *best = NULL;
    for (int i = 0; i < l->n_pauses; i++) {
        const vo_pause *p = &l->pauses[i];
        if (p->begin < from || p->begin >= to) continue;
        if (!best || p->end - p->begin > best->end - best->begin) best = p;
    }
    return best;
}

/* The utterance is as long as may be. Speech goes on after the cut. */
static vo_status cut(vo_listen *l, int64_t now, vo_error *err) {
    if (l->silent >= 0) note_pause(l, l->silent, now);
    const int64_t half = l->start + l->rules.max_length / 2;
    const vo_pause *found = longest(l, half, now);
    if (!found) found = longest(l, l->start, half);
    const vo_pause here = {l->silent >= 0 ? l->silent : now, now};
    const vo_pause at = found ? *found : here;
    const int64_t quiet = min64((at.end - at.begin) / 2, l->rules.pad);
    vo_status status = close_utterance(l, at.begin + quiet, quiet, err);
    if (status != VO_OK) return status;
    if (l->silent >= 0 && at.begin == l->silent) { /* nobody has gone on yet */
        l->state = VO_LISTEN_QUIET;
        return VO_OK;
    }
    const int64_t silent = l->silent;
    int n = 0;
    for (int i = 0; i < l->n_pauses; i++)
        if (l->pauses[i].begin >= at.end) l->pauses[n++] = l->pauses[i];
    open_utterance(l, at.end);
    l->id++;
    l->n_pauses = n;
    l->silent = silent;
    return VO_OK;
}

static vo_status hear_silence(vo_listen *l, int64_t now, vo_error *err) {
    const vo_listen_rules *r = &l->rules;
    if (l->silent < 0) l->silent = now;
    if (l->state == VO_LISTEN_SPEECH) l->state = VO_LISTEN_PAUSE;
    if (now + VO_LISTEN_WINDOW - l->silent < r->min_silence) return VO_OK;
    const bool noise = l->state == VO_LISTEN_MAYBE;
    l->state = VO_LISTEN_QUIET;
    if (noise) {
        l->id--;
        return VO_OK;
    }
    return close_utterance(l, l->silent + r->pad, r->pad, err);
}

vo_status vo_listen_hear(vo_listen *l, double p, int *began, vo_error *err) {
    const vo_listen_rules *r = &l->rules;
    const int64_t now = l->heard;
    vo_status status = VO_OK;
    *began = 0;
    l->heard += VO_LISTEN_WINDOW;
    if (l->state == VO_LISTEN_QUIET) {
        if (!(p >= r->threshold)) return VO_OK;
        open_utterance(l, now);
        l->id++;
        l->state = VO_LISTEN_MAYBE;
    } else if (p >= r->threshold) {
        if (l->silent >= 0) note_pause(l, l->silent, now);
        l->silent = -1;
        if (l->state == VO_LISTEN_PAUSE) l->state = VO_LISTEN_SPEECH;
    } else if (l->silent >= 0 || p < r->neg_threshold) {
        status = hear_silence(l, now, err);
    }
    if (l->state == VO_LISTEN_MAYBE && l->silent < 0 && l->heard - l->begin >= r->min_speech)
        l->state = VO_LISTEN_SPEECH;
    const bool open = l->state == VO_LISTEN_SPEECH || l->state == VO_LISTEN_PAUSE;
    if (status == VO_OK && open && l->heard + VO_LISTEN_WINDOW + r->pad - l->start > r->max_length)
        status = cut(l, l->heard, err);
    /* What was only just cut off may be all there is. */
    const bool begun = l->state == VO_LISTEN_SPEECH || l->state == VO_LISTEN_PAUSE;
    if (begun && !l->announced && l->heard > l->begin) {
        l->announced = true;
        *began = l->id;
    }
    return status;
}

vo_status vo_listen_end(vo_listen *l, int64_t end, vo_error *err) {
    const vo_listen_state state = l->state;
    l->state = VO_LISTEN_QUIET;
    if (state != VO_LISTEN_SPEECH && state != VO_LISTEN_PAUSE) return VO_OK;
    if (end <= l->start) return VO_OK; /* it was just cut */
    const int64_t quiet = l->silent >= 0 ? max64(0, min64(l->rules.pad, end - l->silent)) : 0;
    return close_utterance(l, l->silent >= 0 ? l->silent + quiet : end, quiet, err);
}

void vo_listen_skip(vo_listen *l, int64_t to) {
    int gone = 0;
    while (gone < l->n_closed && l->closed[gone].start < to) gone++;
    for (int i = gone; i < l->n_closed; i++) l->closed[i - gone] = l->closed[i];
    l->n_closed -= gone;
    if (l->state != VO_LISTEN_QUIET && l->start < to) {
        if (l->state == VO_LISTEN_MAYBE) l->id--;
        l->state = VO_LISTEN_QUIET;
    }
    if (l->heard < to) l->heard = to;
    if (l->floor < to) l->floor = to;
}

/* ---- jobs ---------------------------------------------------------------------------------- */

vo_job vo_listen_next(const vo_listen *l) {
    const vo_listen_rules *r = &l->rules;
    if (l->n_closed > 0) return (vo_job){VO_JOB_FINAL, l->closed[0]};
    if (r->ahead && l->state == VO_LISTEN_PAUSE && l->heard - l->silent >= r->pad &&
        l->went_ahead != l->silent)
        return (vo_job){VO_JOB_AHEAD, {l->id, l->start, l->silent + r->pad, r->pad}};
    if (r->step > 0 && l->state == VO_LISTEN_SPEECH && l->heard - l->decoded >= r->step)
        return (vo_job){VO_JOB_PARTIAL, {l->id, l->start, l->heard, 0}};
    return (vo_job){0};
}

void vo_listen_done(vo_listen *l, const vo_job *job) {
    switch (job->kind) {
    case VO_JOB_FINAL:
        if (l->n_closed == 0 || l->closed[0].id != job->utterance.id) return; /* skipped */
        l->n_closed--;
        for (int i = 0; i < l->n_closed; i++) l->closed[i] = l->closed[i + 1];
        break;
    case VO_JOB_AHEAD:
        if (l->id == job->utterance.id && l->start == job->utterance.start)
            l->went_ahead = job->utterance.end - job->utterance.quiet;
        break;
    case VO_JOB_PARTIAL:
        if (l->id == job->utterance.id && l->start == job->utterance.start)
            l->decoded = job->utterance.end;
        break;
    case VO_JOB_NONE:
        break;
    }
}

bool vo_listen_is_stale(const vo_listen *l, const vo_job *job) {
    if (job->kind == VO_JOB_FINAL || job->kind == VO_JOB_NONE) return false;
    const bool open = l->state == VO_LISTEN_SPEECH || l->state == VO_LISTEN_PAUSE;
    const bool same = open && l->id == job->utterance.id && l->start == job->utterance.start;
    const vo_job_kind next = vo_listen_next(l).kind;
    if (job->kind == VO_JOB_PARTIAL) return !same || next == VO_JOB_FINAL || next == VO_JOB_AHEAD;
    /* What became an utterance while it was decoded is just what is wanted. */
    const int64_t silent = job->utterance.end - job->utterance.quiet;
    if (l->n_closed > 0)
        return l->closed[0].start != job->utterance.start || l->closed[0].end != job->utterance.end;
    return !(same && l->silent == silent);
}

int64_t vo_listen_needs(const vo_listen *l) {
    if (l->n_closed > 0) return l->closed[0].start;
    if (l->state != VO_LISTEN_QUIET) return l->start;
    return max64(l->floor, l->heard - BEFORE);
}
