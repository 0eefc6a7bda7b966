/* SPDX-License-Identifier: MIT
 *
 * Where it is loud enough for speech. The voice detector hears little of a voice from a film, in
 * noise or music; what stands out from the sound that is always there may be one. Levels are those
 * of a band of speech: noise that is most of all low changes its level all the time.
 */
#include "pipeline/speech.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOUD  0.2f /* of the level of speech */
#define LASTS 1.0  /* seconds whose level is more than */
#define ABOVE 1.6f /* times what the input always has */

/* A stretch of it beside speech */
#define SHORTEST 0.6  /* seconds that it is loud for */
#define LONGEST  30.0 /* seconds in all; longer ones are music or noise */
#define PAUSE    0.5  /* seconds in it that are not loud */

/* ---- levels --------------------------------------------------------------------------------- */

/* Samples that are no finite number count as silence, as do those beyond the ends. */
static float sample_at(const float *samples, int64_t n_samples, int64_t i) {
    return i >= 0 && i < n_samples && isfinite(samples[i]) ? samples[i] : 0.0f;
}

/* The band is what is left of a mean of three samples without the mean of 3 ms around them: above
 * 300 Hz, and falling towards 8 kHz. */
static void find_levels(const float *samples, int64_t n_samples, float *levels, float *bands) {
    enum { HALF = 24 };
    double mean = 0, sum = 0, band_sum = 0; /* mean: times its 2 HALF + 1 samples */
    float before = 0.0f, now = sample_at(samples, n_samples, 0);
    for (int64_t i = 0; i < HALF; i++) mean += (double)sample_at(samples, n_samples, i);
    for (int64_t i = 0; i < n_samples; i++) {
        const float next = sample_at(samples, n_samples, i + 1);
        mean += (double)sample_at(samples, n_samples, i + HALF) -
                (double)sample_at(samples, n_samples, i - HALF - 1);
        const float band = (before + 2 * now + next) / 4 - (float)(mean / (2 * HALF + 1));
        sum += (double)now * (double)now;
        band_sum += (double)band * (double)band;
        before = now;
        now = next;
        const int64_t window = i / VO_SILERO_WINDOW, in = i % VO_SILERO_WINDOW + 1;
        if (in < VO_SILERO_WINDOW && i + 1 < n_samples) continue;
        levels[window] = (float)sqrt(sum / (double)in);
        bands[window] = (float)sqrt(band_sum / (double)in);
        sum = band_sum = 0;
    }
}

vo_status vo_voice_find_levels(vo_voice *voice, const float *samples, vo_error *err) {
    voice->levels = vo_alloc_array((size_t)voice->n, sizeof *voice->levels);
    voice->bands = vo_alloc_array((size_t)voice->n, sizeof *voice->bands);
    if (!voice->levels || !voice->bands) return vo_fail(err, VO_ERR_MEMORY, "no memory for levels");
    find_levels(samples, voice->n_samples, voice->levels, voice->bands);
    return VO_OK;
}

/* ---- what is loud --------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* levels: [n]; sorts them. The one that so many of n lie below; infinite without any. */
static float level_at(float *levels, int64_t n, int64_t below) {
    if (n == 0) return INFINITY;
    qsort(levels, (size_t)n, sizeof *levels, ascending);
    return levels[below];
}

/* The level of LASTS seconds around each step: beats and bangs are soon over. */
static void lasting_levels(const vo_voice *voice, float *lasting) {
    const int64_t half = (int64_t)(LASTS / VO_VOICE_STEP / 2);
    double sum = 0; /* of squares, so many of them */
    int64_t first = 0, next = 0;
    for (int64_t i = 0; i < voice->n; i++) {
        for (; next < voice->n && next <= i + half; next++)
            sum += (double)voice->bands[next] * (double)voice->bands[next];
        for (; first < i - half; first++)
            sum -= (double)voice->bands[first] * (double)voice->bands[first];
        lasting[i] = (float)sqrt(fmax(sum, 0) / (double)(next - first));
    }
}

static vo_status mark_loud(vo_voice *voice, vo_error *err) {
    const int64_t n = voice->n;
    float *lasting = vo_alloc_array((size_t)n + 1, sizeof *lasting);
    float *levels = vo_alloc_array((size_t)n + 1, sizeof *levels);
    voice->loud = vo_alloc_array((size_t)n + 1, sizeof *voice->loud);
    const bool done = lasting && levels && voice->loud;
    if (done) {
        int64_t spoken = 0;
        for (int64_t i = 0; i < n; i++)
            if (voice->probabilities[i] >= 0.5f) levels[spoken++] = voice->bands[i];
        const float speech = level_at(levels, spoken, spoken / 2);
        lasting_levels(voice, lasting);
        memcpy(levels, lasting, (size_t)n * sizeof *levels);
        const float always = level_at(levels, n, n / 20);
        for (int64_t i = 0; i < n; i++)
            voice->loud[i] = voice->bands[i] >= LOUD * speech && lasting[i] >= ABOVE * always;
    }
    vo_free(lasting);
    vo_free(levels);
    return done ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for %lld levels", (long long)n);
}

/* Stretches between two times. Returns how many. */
static int find_between(const vo_voice *voice, double from, double to, vocis_span *sounds) {
    const double step = VO_VOICE_STEP;
    const int64_t last = (int64_t)fmin(floor(to / step), (double)voice->n);
    double seconds = 0; /* that the sound at hand is loud for */
    int n = 0;
    for (int64_t i = (int64_t)ceil(from / step); i <= last; i++) {
        const double at = (double)i * step;
        if (seconds > 0 && (i == last || at - sounds[n].end > PAUSE)) {
            n += seconds >= SHORTEST && sounds[n].end - sounds[n].start <= LONGEST;
            seconds = 0;
        }
        if (i == last || !voice->loud[i]) continue;
        if (seconds == 0) sounds[n].start = at;
        sounds[n].end = at + step;
        seconds += step;
    }
    return n;
}

vo_status vo_voice_find_sounds(vo_voice *voice, vo_error *err) {
    const size_t most = (size_t)((double)voice->n * VO_VOICE_STEP / SHORTEST) + 2;
    vo_status status = mark_loud(voice, err);
    if (status != VO_OK) return status;
    voice->sounds = vo_alloc_array(most, sizeof *voice->sounds);
    if (!voice->sounds) return vo_fail(err, VO_ERR_MEMORY, "no memory for loud sound");
    double from = 0;
    for (int i = 0; i < voice->n_spans; i++) {
        voice->n_sounds +=
            find_between(voice, from, voice->spans[i].start, voice->sounds + voice->n_sounds);
        from = voice->spans[i].end;
    }
    voice->n_sounds += find_between(voice, from, INFINITY, voice->sounds + voice->n_sounds);
    return VO_OK;
}

double vo_voice_loud_seconds(const vo_voice *voice, double start, double end) {
    const int64_t to = (int64_t)fmin(fmax(end / VO_VOICE_STEP, 0), (double)voice->n);
    int64_t steps = 0;
    for (int64_t i = (int64_t)fmax(ceil(start / VO_VOICE_STEP), 0); voice->loud && i < to; i++)
        steps += voice->loud[i];
    return (double)steps * VO_VOICE_STEP;
}
