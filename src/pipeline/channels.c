/* SPDX-License-Identifier: MIT
 *
 * The one idea: what tells separate voices from one sound in two channels is the envelope. Levels
 * of one sound rise and fall together, whatever the polarity, the delay or the gain; those of two
 * people who take turns do the opposite.
 */
#include "pipeline/channels.h"

#include "base/memory.h"
#include "pipeline/engine.h"
#include "pipeline/result.h"
#include "pipeline/speech.h"
#include "text/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP = VOCIS_SAMPLE_RATE / 100, /* a frame of the envelope */
    SMOOTH = 15,                    /* frames on both sides of an average */
    HOLD = 20, /* frames before and after a voice in which it counts as there */
    MOST = 64  /* channels */
};
static const double BLEED = 10;     /* times the power: 10 dB */
static const double ACTIVE = 3e-4;  /* power against the loudest frame: -35 dB */
static const double FLOOR = 1e-5;   /* levels below this are all alike */
static const double SILENT = 1e-4;  /* a channel whose loudest frame is 40 dB weaker is silent */
static const double TOGETHER = 0.5; /* correlation of the levels of one sound */
static const double SPOKEN = 0.5;   /* seconds of speech that a speaker has at least */

/* ---- envelopes ------------------------------------------------------------------------------ */

/* Mean power around each of n frames: fresh memory, or NULL. */
static float *envelope(const float *x, int64_t n_samples, int64_t n) {
    float *power = vo_alloc_array((size_t)n, sizeof *power);
    float *smooth = vo_alloc_array((size_t)n, sizeof *smooth);
    if (!power || !smooth) {
        vo_free(power);
        vo_free(smooth);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int64_t k = i * STEP; k < (i + 1) * STEP && k < n_samples; k++)
            if (fabsf(x[k]) <= 1e9f) sum += x[k] * x[k];
        power[i] = sum / STEP;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = i < SMOOTH ? 0 : i - SMOOTH;
        const int64_t to = i + SMOOTH < n ? i + SMOOTH : n - 1;
        double sum = 0;
        for (int64_t k = from; k <= to; k++) sum += (double)power[k];
        smooth[i] = (float)(sum / (double)(to - from + 1));
    }
    vo_free(power);
    return smooth;
}

/* How the levels (in dB) of the frames in which somebody is loud go together. */
static double level_correlation(const float *a, const float *b, int64_t n, double loudest) {
    double count = 0, sa = 0, sb = 0, saa = 0, sbb = 0, sab = 0;
    for (int64_t i = 0; i < n; i++) {
        if ((double)fmaxf(a[i], b[i]) < ACTIVE * loudest) continue;
        const double x = log10((double)a[i] + FLOOR * loudest);
        const double y = log10((double)b[i] + FLOOR * loudest);
        count++;
        sa += x;
        sb += y;
        saa += x * x;
        sbb += y * y;
        sab += x * y;
    }
    const double va = saa * count - sa * sa, vb = sbb * count - sb * sb;
    return va > 0 && vb > 0 ? (sab * count - sa * sb) / sqrt(va * vb) : 1;
}

static double loudest_of(const float *a, int64_t n) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, a[i]);
    return (double)most;
}

static vo_status has_speech(vocis_engine *engine, const float *samples, int64_t n_samples,
                            bool *has, vo_error *err) {
    const vocis_speech_params rules = vo_speech_default_params();
    vocis_span *spans = NULL;
    int n = 0;
    double seconds = 0;
    vo_status status = vo_detect_speech(engine, samples, n_samples, &rules, &spans, &n, err);
    for (int i = 0; i < n; i++) seconds += spans[i].end - spans[i].start;
    vo_free(spans);
    *has = seconds >= SPOKEN;
    return status;
}

vo_status vo_channels_separate(vocis_engine *engine, const float *left, const float *right,
                               int64_t n_samples, bool *separate, vo_error *err) {
    *separate = false;
    if (n_samples < STEP) return VO_OK;
    if (!left || !right) return vo_fail(err, VO_ERR_ARGUMENT, "a channel has no samples");
    const int64_t n = n_samples / STEP;
    float *a = envelope(left, n_samples, n), *b = envelope(right, n_samples, n);
    bool differ = false, speech = false;
    vo_status status = VO_OK;
    if (a && b) {
        const double x = loudest_of(a, n), y = loudest_of(b, n), loudest = fmax(x, y);
        differ = fmin(x, y) > SILENT * loudest && level_correlation(a, b, n, loudest) < TOGETHER;
    } else {
        status = vo_fail(err, VO_ERR_MEMORY, "no memory to compare channels");
    }
    vo_free(a);
    vo_free(b);
    if (status == VO_OK && differ) status = has_speech(engine, left, n_samples, &speech, err);
    if (status == VO_OK && speech) status = has_speech(engine, right, n_samples, &speech, err);
    if (status == VO_OK) *separate = differ && speech;
    return status;
}

/* ---- what comes over ------------------------------------------------------------------------ */

/* Each frame becomes the loudest one within HOLD frames: fresh memory, or NULL. */
static float *held_envelope(const float *x, int64_t n_samples, int64_t n) {
    float *e = envelope(x, n_samples, n);
    float *held = e ? vo_alloc_array((size_t)n, sizeof *held) : NULL;
    for (int64_t i = 0; held && i < n; i++)
        for (int64_t k = i < HOLD ? 0 : i - HOLD; k <= i + HOLD && k < n; k++)
            held[i] = fmaxf(held[i], e[k]);
    vo_free(e);
    return held;
}

static void gate(float *const *channels, float *const *envelopes, int n_channels, int c, int64_t n,
                 int64_t n_samples) {
    for (int64_t i = 0; i < n; i++) {
        float other = 0;
        for (int o = 0; o < n_channels; o++)
            if (o != c) other = fmaxf(other, envelopes[o][i]);
        if (!(other > 0) || (double)envelopes[c][i] * BLEED > (double)other) continue;
        for (int64_t k = i * STEP; k < (i + 1) * STEP && k < n_samples; k++) channels[c][k] = 0;
    }
}

vo_status vo_channels_gate(float *const *channels, int n_channels, int64_t n_samples,
                           vo_error *err) {
    const int64_t n = (n_samples + STEP - 1) / STEP;
    float *envelopes[MOST] = {0};
    vo_status status = VO_OK;
    if (n_channels > MOST)
        return vo_fail(err, VO_ERR_LIMIT, "%d channels are too many", n_channels);
    for (int c = 0; c < n_channels && status == VO_OK; c++) {
        envelopes[c] = held_envelope(channels[c], n_samples, n);
        if (!envelopes[c]) status = vo_fail(err, VO_ERR_MEMORY, "no memory to compare channels");
    }
    for (int c = 0; c < n_channels && status == VO_OK; c++)
        gate(channels, envelopes, n_channels, c, n, n_samples);
    for (int c = 0; c < n_channels; c++) vo_free(envelopes[c]);
    return status;
}

static vo_status gate_audio(vocis_audio *channels, int n, vo_error *err) {
    float *samples[MOST];
    if (n < 1 || n > MOST)
        return vo_fail(err, VO_ERR_ARGUMENT, "between 1 and %d channels are possible", MOST);
    int64_t shortest = channels[0].n_samples;
    for (int c = 0; c < n; c++) {
        if (channels[c].n_samples < 0 || (channels[c].n_samples > 0 && !channels[c].samples))
            return vo_fail(err, VO_ERR_ARGUMENT, "channel %d has no samples", c);
        if (channels[c].n_samples < shortest) shortest = channels[c].n_samples;
        samples[c] = channels[c].samples;
    }
    return vo_channels_gate(samples, n, shortest, err);
}

/* ---- turns ---------------------------------------------------------------------------------- */

static int in_order_of_time(const void *a, const void *b) {
    const vocis_turn *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->speaker - y->speaker;
}

vo_status vo_channels_diarize(vocis_engine *engine, vocis_audio *channels, int n_channels,
                              vocis_turn **turns, int *n_turns, vo_error *err) {
    const vocis_speech_params rules = vo_speech_default_params();
    vocis_turn *all = NULL;
    int n = 0;
    *turns = NULL;
    *n_turns = 0;
    vo_status status = gate_audio(channels, n_channels, err);
    for (int c = 0; c < n_channels && status == VO_OK; c++) {
        vocis_span *spans = NULL;
        int count = 0;
        status = vo_detect_speech(engine, channels[c].samples, channels[c].n_samples, &rules,
                                  &spans, &count, err);
        vocis_turn *grown =
            status == VO_OK ? vo_realloc(all, (size_t)(n + count + 1) * sizeof *all) : NULL;
        if (grown) all = grown;
        if (status == VO_OK && !grown)
            status = vo_fail(err, VO_ERR_MEMORY, "no memory for speaker turns");
        for (int i = 0; status == VO_OK && i < count; i++)
            all[n++] = (vocis_turn){spans[i].start, spans[i].end, c};
        vo_free(spans);
    }
    if (status != VO_OK) {
        vo_free(all);
        return status;
    }
    qsort(all, (size_t)n, sizeof *all, in_order_of_time);
    *turns = all;
    *n_turns = n;
    return VO_OK;
}

/* ---- transcripts ---------------------------------------------------------------------------- */

/* Hands callbacks of one channel on. */
typedef struct relay {
    const vocis_transcribe_params *params;
    double before, total; /* seconds of all channels */
} relay;

static void relay_progress(void *user, double done, double total) {
    const relay *r = user;
    if (r->params->on_progress) r->params->on_progress(r->params->user, r->before + done, r->total);
}
static bool relay_abort(void *user) {
    const relay *r = user;
    return r->params->on_abort && r->params->on_abort(r->params->user);
}
static void relay_warning(void *user, const char *sentence) {
    const relay *r = user;
    if (r->params->on_warning) r->params->on_warning(r->params->user, sentence);
}

static void set_speaker(vocis_result *r, int speaker) {
    for (int i = 0; i < r->n_segments; i++) {
        vocis_word *words = (vocis_word *)r->segments[i].words;
        r->segments[i].speaker = speaker;
        for (int k = 0; k < r->segments[i].n_words; k++) words[k].speaker = speaker;
    }
}

static void add_timings(vocis_timings *sum, const vocis_timings *t) {
    sum->total += t->total;
    sum->mel += t->mel;
    sum->cut += t->cut;
    sum->encode += t->encode;
    sum->decode += t->decode;
    vo_counts_add(sum, t);
}

/* Adds the transcript of channel c to `all`; what was done before a failure is kept. */
static vo_status transcribe_channel(vocis_session *session, vocis_audio *audio, int c,
                                    const vocis_transcribe_params *params, size_t *longest,
                                    vocis_result *all, vo_error *err) {
    vocis_result *one = NULL;
    bool speech;
    vo_status status =
        has_speech(session->model->engine, audio->samples, audio->n_samples, &speech, err);
    if (status != VO_OK || !speech) return status;
    status = vo_transcribe(session, audio->samples, audio->n_samples, &audio->samples, params, &one,
                           err);
    if (!one) return status;
    set_speaker(one, c);
    add_timings(&all->timings, &one->timings);
    if (one->peak_bytes > all->peak_bytes) all->peak_bytes = one->peak_bytes;
    if (strlen(one->text) >= *longest) { /* the language of most that is said */
        *longest = strlen(one->text);
        all->language = one->language;
        all->language_probability = one->language_probability;
        all->language_detected = one->language_detected;
    }
    const vo_status moved = vo_result_move(all, one, status == VO_OK ? err : NULL);
    vo_result_destroy(one);
    return status == VO_OK ? moved : status;
}

static int in_order_of_start(const void *a, const void *b) {
    const vocis_segment *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return x->id - y->id;
}

static vo_status finish(vocis_result *all, const vocis_transcribe_params *params, vo_error *err) {
    if (all->n_segments)
        qsort(all->segments, (size_t)all->n_segments, sizeof *all->segments, in_order_of_start);
    for (int i = 0; i < all->n_segments; i++) all->segments[i].id = i;
    vo_status status = vo_result_finish(all, err);
    for (int i = 0; status == VO_OK && params->on_segment && i < all->n_segments; i++)
        params->on_segment(params->user, &all->segments[i]);
    return status;
}

vo_status vo_transcribe_channels(vocis_session *session, vocis_audio *channels, int n_channels,
                                 const vocis_transcribe_params *params, vocis_result **result,
                                 vo_error *err) {
    relay r = {.params = params};
    vocis_transcribe_params p = *params;
    size_t longest = 0;
    *result = NULL;
    vo_status status = gate_audio(channels, n_channels, err);
    if (status != VO_OK) return status;
    vocis_result *all = vo_result_create();
    if (!all) return vo_fail(err, VO_ERR_MEMORY, "no memory for a result");
    p.on_segment = NULL;
    p.on_progress = relay_progress;
    p.on_abort = relay_abort;
    p.on_warning = relay_warning;
    p.user = &r;
    if (!p.clip_timestamps || !p.n_clip_timestamps) p.chunking = VOCIS_CHUNK_SPEECH;
    all->task = p.task;
    all->settings = p;
    all->language_probability = 1;
    if (p.language && vo_language_find(p.language) >= 0)
        all->language = vo_language_code(vo_language_find(p.language));
    for (int c = 0; c < n_channels; c++) {
        const double seconds = (double)channels[c].n_samples / VOCIS_SAMPLE_RATE;
        if (seconds > all->duration) all->duration = seconds;
        r.total += seconds;
    }
    for (int c = 0; c < n_channels && status == VO_OK; c++) {
        const double seconds = (double)channels[c].n_samples / VOCIS_SAMPLE_RATE;
        status = transcribe_channel(session, &channels[c], c, &p, &longest, all, err);
        r.before += seconds;
    }
    const vo_status finished = finish(all, params, status == VO_OK ? err : NULL);
    if (finished != VO_OK || (status != VO_OK && all->n_segments == 0)) {
        vo_result_destroy(all);
        return status != VO_OK ? status : finished;
    }
    *result = all;
    return status;
}
