/* SPDX-License-Identifier: MIT
 *
 * Every chunk costs a whole window, however little is said in it, so the fewest chunks are found
 * by dynamic programming over the stretches of speech; equal counts are decided by the pauses that
 * are cut.
 */
#include "pipeline/chunks.h"

#include "base/memory.h"

#include <math.h>

enum {
    PAUSE_MS = 160, /* short pauses are enough to cut at */
    PAD = 100,      /* frames around a chunk, for what the detector hears late */
};

#define SOUND_SHORTEST 0.5 /* seconds of loud sound beside speech */

/* The best way to cut spans [0, i). */
typedef struct plan {
    int chunks, from; /* how many; where the last one begins */
    double pauses;    /* seconds between them */
} plan;

static bool better(const plan *a, const plan *b) {
    return a->chunks != b->chunks ? a->chunks < b->chunks : a->pauses > b->pauses;
}

/* plans: [n + 1]. A span that is too long for a chunk gets one of its own. */
static void cut_at_pauses(const vocis_span *spans, int n, double longest, plan *plans) {
    plans[0] = (plan){0};
    for (int i = 1; i <= n; i++) {
        plans[i].chunks = INT32_MAX;
        for (int from = i - 1; from >= 0; from--) {
            if (from < i - 1 && spans[i - 1].end - spans[from].start > longest) break;
            plan p = {plans[from].chunks + 1, from, plans[from].pauses};
            if (from > 0) p.pauses += spans[from].start - spans[from - 1].end;
            if (better(&p, &plans[i])) plans[i] = p;
        }
    }
}

/* Pads the chunks; neighbours that are close meet halfway. */
static void pad(const vocis_span *spans, const plan *plans, int n_spans, double duration,
                vo_chunk *chunks, int n) {
    const int64_t last = (int64_t)floor(duration * 100);
    int i = n_spans;
    for (int c = n - 1; c >= 0; c--) {
        const int from = plans[i].from;
        const int64_t start = (int64_t)floor(spans[from].start * 100),
                      end = (int64_t)ceil(spans[i - 1].end * 100);
        const int64_t before =
            from > 0 ? (start - (int64_t)ceil(spans[from - 1].end * 100)) / 2 : start;
        const int64_t after = i < n_spans ? (int64_t)floor(spans[i].start * 100) - end : last - end;
        int64_t tail = i < n_spans ? after - after / 2 : after;
        if (tail > PAD) tail = PAD;
        if (tail < 0) tail = 0;
        chunks[c].start = start - (before > PAD ? PAD : before > 0 ? before : 0);
        chunks[c].end = end + tail;
        chunks[c].quiet = tail;
        i = from;
    }
}

vo_status vo_chunks_merge(const vocis_span *spans, int n_spans, double duration, int64_t max_frames,
                          vo_chunk **chunks, int *n, vo_error *err) {
    *chunks = NULL;
    *n = 0;
    if (n_spans == 0) return VO_OK;
    plan *plans = vo_alloc_array((size_t)n_spans + 1, sizeof *plans);
    if (plans) {
        cut_at_pauses(spans, n_spans, (double)(max_frames - 2 * PAD - 2) / 100, plans);
        *chunks = vo_alloc_array((size_t)plans[n_spans].chunks, sizeof **chunks);
    }
    if (*chunks) {
        *n = plans[n_spans].chunks;
        pad(spans, plans, n_spans, duration, *chunks, *n);
    }
    vo_free(plans);
    return *chunks ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for %d chunks", n_spans);
}

/* What of loud sound lies between two times counts as one more stretch of speech. *at: the first
 * sound that may; the one to begin with behind `to`. */
static int put_sounds(const vo_voice *voice, double from, double to, int *at, vocis_span *spans) {
    int n = 0;
    for (; *at < voice->n_sounds && voice->sounds[*at].start < to; (*at)++) {
        const double start = fmax(voice->sounds[*at].start, from),
                     end = fmin(voice->sounds[*at].end, to);
        if (end - start >= SOUND_SHORTEST) spans[n++] = (vocis_span){start, end};
        if (voice->sounds[*at].end > to) break;
    }
    return n;
}

static vo_status add_sounds(const vo_voice *voice, vocis_span **spans, int *n, vo_error *err) {
    /* each stretch of speech may cut a sound in two */
    const size_t most = 2 * (size_t)*n + (size_t)voice->n_sounds;
    if (*n == 0 || voice->n_sounds == 0) return VO_OK;
    vocis_span *all = vo_alloc_array(most, sizeof *all);
    if (!all) return vo_fail(err, VO_ERR_MEMORY, "no memory for %d spans", *n);
    double from = 0;
    int total = 0, at = 0;
    for (int i = 0; i < *n; i++) {
        total += put_sounds(voice, from, (*spans)[i].start, &at, all + total);
        from = (*spans)[i].end;
        all[total++] = (*spans)[i];
    }
    total += put_sounds(voice, from, INFINITY, &at, all + total);
    vo_free(*spans);
    *spans = all;
    *n = total;
    return VO_OK;
}

vo_status vo_chunks_find(const vo_voice *voice, int64_t max_frames, vo_chunk **chunks, int *n,
                         vo_error *err) {
    vocis_speech_params params = vo_speech_default_params();
    params.min_speech_ms = params.speech_pad_ms = 0;
    params.min_silence_ms = PAUSE_MS;
    params.max_speech_seconds = (float)(max_frames - 2 * PAD - 2) / 100;
    vocis_span *spans = NULL;
    int n_spans = 0;
    *chunks = NULL;
    *n = 0;
    vo_status status = vo_voice_spans(voice, &params, &spans, &n_spans, err);
    if (status == VO_OK) status = add_sounds(voice, &spans, &n_spans, err);
    if (status == VO_OK)
        status = vo_chunks_merge(spans, n_spans, (double)voice->n_samples / VOCIS_SAMPLE_RATE,
                                 max_frames, chunks, n, err);
    vo_free(spans);
    return status;
}
