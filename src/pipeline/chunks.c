/* SPDX-License-Identifier: MIT
 *
 * Every chunk costs a whole window, however little is said in it, so the fewest chunks are found
 * by dynamic programming over the stretches of speech; equal counts are decided by the pauses that
 * are cut.
 */
#include "pipeline/chunks.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_MS = 160, /* short pauses are enough to cut at */
    PAD = 100,      /* frames around a chunk, for what the detector hears late */
};

/* Sound beside speech that may drown a voice: */
#define SOUND_SHORTEST       1.0  /* seconds that it is loud for */
#define SOUND_LONGEST        12.0 /* seconds in all, or where it */
#define SOUND_VOICED         0.3f /* may be a voice: */
#define SOUND_LONGEST_VOICED 30.0
#define SOUND_PAUSE          0.5  /* seconds in it that are not loud */
#define SOUND_LOUD           0.2f /* of the level of speech */
#define SOUND_ABOVE          3.0f /* times the level that the input always has */

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

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* What is louder than this counts as loud; nothing does where nobody speaks. */
static vo_status find_loud(const vo_voice *voice, float *loud, vo_error *err) {
    float *levels = vo_alloc_array((size_t)voice->n + 1, sizeof *levels);
    if (!levels)
        return vo_fail(err, VO_ERR_MEMORY, "no memory for %lld levels", (long long)voice->n);
    int64_t spoken = 0;
    for (int64_t i = 0; i < voice->n; i++)
        if (voice->probabilities[i] >= 0.5f) levels[spoken++] = voice->levels[i];
    if (spoken) qsort(levels, (size_t)spoken, sizeof *levels, ascending);
    const float speech = spoken ? levels[spoken / 2] : INFINITY;
    memcpy(levels, voice->levels, (size_t)voice->n * sizeof *levels);
    if (voice->n) qsort(levels, (size_t)voice->n, sizeof *levels, ascending);
    *loud = fmaxf(SOUND_LOUD * speech, SOUND_ABOVE * levels[voice->n / 20]);
    vo_free(levels);
    return VO_OK;
}

/* What is longer is no sentence; or it is several, if the detector nearly hears a voice. */
static double longest_sound(const vo_voice *voice, const vocis_span *sound) {
    const float peak = vo_voice_peak(voice, sound->start, sound->end);
    return peak >= SOUND_VOICED ? SOUND_LONGEST_VOICED : SOUND_LONGEST;
}

/* Where it is loud between two times, and for how long. Returns how many, all longer than
 * SOUND_SHORTEST. */
static int find_sounds(const vo_voice *voice, double from, double to, float loud,
                       vocis_span *sounds) {
    const double step = VO_VOICE_STEP;
    const int64_t last = (int64_t)fmin(floor(to / step), (double)voice->n);
    double seconds = 0; /* that the sound at hand is loud for */
    int n = 0;
    for (int64_t i = (int64_t)ceil(from / step); i <= last; i++) {
        const double at = (double)i * step;
        if (seconds > 0 && (i == last || at - sounds[n].end > SOUND_PAUSE)) {
            const double length = sounds[n].end - sounds[n].start;
            n += seconds >= SOUND_SHORTEST && length <= longest_sound(voice, &sounds[n]);
            seconds = 0;
        }
        if (i == last || voice->levels[i] < loud) continue;
        if (seconds == 0) sounds[n].start = at;
        sounds[n].end = at + step;
        seconds += step;
    }
    return n;
}

/* The detector hears no voice in loud sound, the model may: what is loud beside speech counts as
 * one more stretch of it. */
static vo_status add_sounds(const vo_voice *voice, vocis_span **spans, int *n, vo_error *err) {
    float loud = 0;
    if (*n == 0) return VO_OK;
    const size_t most = (size_t)((double)voice->n * VO_VOICE_STEP / SOUND_SHORTEST) + 2;
    vo_status status = find_loud(voice, &loud, err);
    vocis_span *all = status == VO_OK ? vo_alloc_array((size_t)*n + most, sizeof *all) : NULL;
    if (status == VO_OK && !all) status = vo_fail(err, VO_ERR_MEMORY, "no memory for %d spans", *n);
    if (status != VO_OK) return status;
    double from = 0;
    int total = 0;
    for (int i = 0; i < *n; i++) {
        total += find_sounds(voice, from, (*spans)[i].start, loud, all + total);
        from = (*spans)[i].end;
        all[total++] = (*spans)[i];
    }
    total += find_sounds(voice, from, (double)voice->n * VO_VOICE_STEP, loud, all + total);
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
