/* SPDX-License-Identifier: MIT
 *
 * Speaker turns by voice, as in "Speaker Diarization with LSTM" (Wang, Downey, Wan, Mansfield,
 * Lopez Moreno, 2018) up to the clustering, which is agglomerative (cluster.h):
 *
 *     speech -> windows -> voices -> clusters -> turns
 *
 * Windows of 1.6 s, which is what the encoder was trained on, every 0.75 s or closer, so that they
 * cover a stretch of speech evenly. A shorter stretch is repeated until it fills one. Each is
 * brought to -30 dBFS, since the encoder sees power and not its logarithm.
 */
#include "pipeline/diarize.h"

#include "base/memory.h"
#include "models/ge2e/ge2e.h"
#include "pipeline/cluster.h"
#include "pipeline/engine.h"
#include "pipeline/speech.h"

#include <math.h>
#include <string.h>

enum { WINDOW = VO_GE2E_FRAMES, HOP = 75, MOST = 256, MELS = VO_GE2E_MELS, DIM = VO_GE2E_HIDDEN };

/* Chosen on mixtures of speakers that no measurement uses (docs/results.md). */
static const double THRESHOLD = 0.15, NOISE = 0.5;
static const double LEVEL = 0.03162277660168379; /* -30 dBFS */
static const double SAME_TURN = 0.3;             /* seconds: shorter pauses do not end a turn */

typedef struct window {
    int64_t begin, end; /* frames of 10 ms */
    int span;
} window;

typedef struct job {
    vocis_engine *engine;
    const float *samples;
    int64_t n_samples;
    const vocis_diarize_params *params;
    vocis_span *spans;
    int n_spans;
    window *windows;
    int64_t n_windows;
    float *voices; /* [n_windows][DIM] */
    int *labels;   /* [n_windows] */
    vocis_turn *turns;
    int n_turns;
    vo_error *err;
} job;

/* Frames of a span, and how many windows cover them. */
static int64_t windows_of(const vocis_span *span, int64_t *begin, int64_t *end) {
    *begin = (int64_t)(span->start * VO_MEL_FRAMES_PER_SECOND);
    *end = (int64_t)(span->end * VO_MEL_FRAMES_PER_SECOND);
    if (*end <= *begin) *end = *begin + 1;
    const int64_t n = *end - *begin;
    return n <= WINDOW ? 1 : (n - WINDOW + HOP - 1) / HOP + 1;
}

static vo_status cut(job *j) {
    int64_t begin, end;
    for (int i = 0; i < j->n_spans; i++) j->n_windows += windows_of(&j->spans[i], &begin, &end);
    j->windows = vo_alloc_array((size_t)j->n_windows, sizeof *j->windows);
    j->voices = vo_alloc_array((size_t)j->n_windows * DIM, sizeof *j->voices);
    j->labels = vo_alloc_array((size_t)j->n_windows, sizeof *j->labels);
    if (!j->windows || !j->voices || !j->labels)
        return vo_fail(j->err, VO_ERR_MEMORY, "no memory for %lld windows of speech",
                       (long long)j->n_windows);
    window *w = j->windows;
    for (int i = 0; i < j->n_spans; i++) {
        const int64_t n = windows_of(&j->spans[i], &begin, &end);
        for (int64_t k = 0; k < n; k++) {
            if (n == 1)
                *w++ = (window){begin, end, i};
            else {
                const int64_t at = begin + k * (end - begin - WINDOW) / (n - 1);
                *w++ = (window){at, at + WINDOW, i};
            }
        }
    }
    return VO_OK;
}

/* ---- voices --------------------------------------------------------------------------------- */

/* Factor that brings the power of a window to LEVEL; 0 for silence. */
static float power_gain(const job *j, const window *w) {
    double sum = 0;
    const int64_t end = w->end * VO_MEL_HOP < j->n_samples ? w->end * VO_MEL_HOP : j->n_samples;
    int64_t n = 0;
    for (int64_t i = w->begin * VO_MEL_HOP; i < end; i++, n++)
        if (fabsf(j->samples[i]) <= 1e9f) sum += (double)j->samples[i] * (double)j->samples[i];
    return sum > 1e-12 * (double)n ? (float)(LEVEL * LEVEL * (double)n / sum) : 0;
}

/* out: [WINDOW][MELS] */
static vo_status features(const job *j, const vo_mel *mel, const window *w, float *out) {
    const int64_t n = w->end - w->begin < WINDOW ? w->end - w->begin : WINDOW;
    const float gain = power_gain(j, w);
    vo_status status =
        vo_mel_power(mel, &j->engine->kernels, j->samples, j->n_samples, w->begin, n, out, j->err);
    if (status != VO_OK) return status;
    for (int64_t i = 0; i < n * MELS; i++) out[i] *= gain;
    for (int64_t i = n * MELS; i < WINDOW * MELS; i++) out[i] = out[i - n * MELS];
    return VO_OK;
}

static vo_status run_batches(job *j, const vo_mel *mel, vo_ge2e_state *state, float *mels) {
    const vocis_diarize_params *p = j->params;
    const double total = (double)j->n_samples / VOCIS_SAMPLE_RATE;
    vo_status status = VO_OK;
    for (int64_t done = 0; done < j->n_windows && status == VO_OK; done += VO_GE2E_BATCH) {
        const window *w = j->windows + done;
        const int64_t left = j->n_windows - done;
        const int64_t batch = left < VO_GE2E_BATCH ? left : VO_GE2E_BATCH;
        if (p->on_abort && p->on_abort(p->user))
            return vo_fail(j->err, VO_ERR_ABORTED, "stopped while voices were compared");
        if (p->on_progress)
            p->on_progress(p->user, (double)w->begin / VO_MEL_FRAMES_PER_SECOND, total);
        for (int64_t i = 0; i < batch && status == VO_OK; i++)
            status = features(j, mel, &w[i], mels + i * WINDOW * MELS);
        if (status == VO_OK)
            status = vo_ge2e_run(state, mels, batch, j->voices + done * DIM, j->err);
    }
    return status;
}

static vo_status find_voices(job *j) {
    vo_ge2e *model = NULL;
    vo_ge2e_state *state = NULL;
    float *mels = vo_alloc_array(VO_GE2E_BATCH * WINDOW * MELS, sizeof *mels);
    vo_mel *mel = vo_mel_create(MELS, j->err);
    vo_status status = mel ? VO_OK : VO_ERR_MEMORY;
    if (!mels) status = vo_fail(j->err, VO_ERR_MEMORY, "no memory for spectrograms");
    if (status == VO_OK) status = vo_ge2e_load_builtin(&model, j->err);
    if (status == VO_OK) status = vo_ge2e_state_create(model, &j->engine->runtime, &state, j->err);
    if (status == VO_OK) status = run_batches(j, mel, state, mels);
    vo_ge2e_state_destroy(state);
    vo_ge2e_destroy(model);
    vo_mel_destroy(mel);
    vo_free(mels);
    return status;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* Where the speech that window i stands for begins: halfway between the middles of neighbours. */
static double begin_of(const job *j, int64_t i) {
    const window *w = &j->windows[i];
    if (i == 0 || w[-1].span != w->span) return j->spans[w->span].start;
    return (double)(w[-1].begin + w[-1].end + w->begin + w->end) / 4 / VO_MEL_FRAMES_PER_SECOND;
}

static vo_status make_turns(job *j) {
    j->turns = vo_alloc_array((size_t)j->n_windows, sizeof *j->turns);
    if (!j->turns) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for speaker turns");
    for (int64_t i = 0; i < j->n_windows; i++) {
        const int span = j->windows[i].span;
        const bool ends = i + 1 == j->n_windows || j->windows[i + 1].span != span;
        const vocis_turn turn = {begin_of(j, i), ends ? j->spans[span].end : begin_of(j, i + 1),
                                 j->labels[i]};
        vocis_turn *last = j->n_turns ? &j->turns[j->n_turns - 1] : NULL;
        if (last && last->speaker == turn.speaker && turn.start - last->end < SAME_TURN)
            last->end = turn.end;
        else
            j->turns[j->n_turns++] = turn;
    }
    return VO_OK;
}

vocis_diarize_params vo_diarize_default_params(void) {
    return (vocis_diarize_params){0};
}

static vo_status check(const float *samples, int64_t n_samples, const vocis_diarize_params *p,
                       vo_error *err) {
    if (n_samples < 0 || (n_samples > 0 && !samples))
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to find speakers in");
    if (p->min_speakers < 0 || p->max_speakers < 0 || p->min_speakers > MOST ||
        p->max_speakers > MOST || (p->max_speakers > 0 && p->min_speakers > p->max_speakers))
        return vo_fail(err, VO_ERR_ARGUMENT, "there cannot be %d to %d speakers", p->min_speakers,
                       p->max_speakers);
    return VO_OK;
}

vo_status vo_diarize(vocis_engine *engine, const float *samples, int64_t n_samples,
                     const vocis_diarize_params *params, vocis_turn **turns, int *n_turns,
                     vo_error *err) {
    *turns = NULL;
    *n_turns = 0;
    vo_status status = check(samples, n_samples, params, err);
    if (status != VO_OK) return status;
    const vocis_speech_params rules = vo_speech_default_params();
    const vo_cluster_rules groups = {THRESHOLD, NOISE, params->min_speakers, params->max_speakers};
    int n_groups;
    job j = {
        .engine = engine, .samples = samples, .n_samples = n_samples, .params = params, .err = err};
    status = vo_detect_speech(engine, samples, n_samples, &rules, &j.spans, &j.n_spans, err);
    if (status == VO_OK && j.n_spans > 0) {
        status = cut(&j);
        if (status == VO_OK) status = find_voices(&j);
        if (status == VO_OK)
            status = vo_cluster(j.voices, j.n_windows, DIM, &groups, j.labels, &n_groups, err);
        if (status == VO_OK) status = make_turns(&j);
    }
    vo_free(j.spans);
    vo_free(j.windows);
    vo_free(j.voices);
    vo_free(j.labels);
    if (status == VO_OK) {
        *turns = j.turns;
        *n_turns = j.n_turns;
    }
    return status;
}
