/* SPDX-License-Identifier: MIT
 *
 * One track as a state machine, as openai-whisper's transcribe() defines it:
 *
 *     SEEK -> ENCODE -> START -> DECODE -> SPLIT -> SEEK ... -> FINISHED
 *
 * The timestamps that the decoder writes say how far the window moves. Two states need the model:
 * START feeds the prompt up to the start token, DECODE follows the decoder. There vo_track_next
 * returns with inputs and vo_track_take goes on with their logits, so that whoever drives several
 * tracks can give the model all their inputs at once. docs/models/whisper.md gives the rules in
 * prose.
 */
#include "pipeline/track.h"

#include "base/clock.h"
#include "base/memory.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

vo_status vo_track_create(const vo_track_plan *plan, const int64_t *clips, int n_clips,
                          vo_track **out, vo_error *err) {
    vo_track *t = vo_alloc(sizeof *t);
    int64_t *copy = vo_alloc_array((size_t)n_clips * 2, sizeof *copy);
    vo_status status = VO_ERR_MEMORY;
    if (t && copy) {
        *t = (vo_track){.plan = plan, .clips = copy, .n_clips = n_clips};
        memcpy(copy, clips, (size_t)n_clips * 2 * sizeof *copy);
        t->seek = copy[0];
        status = vo_tokens_append(&t->all, plan->initial.ids, plan->initial.n, err);
        if (status == VO_OK) {
            *out = t;
            return VO_OK;
        }
    }
    vo_free(t);
    vo_free(copy);
    return vo_fail(err, status, "no memory for a stretch of audio");
}

void vo_track_destroy(vo_track *t) {
    if (!t) return;
    vo_tokens_free(&t->all);
    vo_tokens_free(&t->prompt);
    vo_free(t->clips);
    vo_free(t);
}

/* ---- SEEK and ENCODE ---------------------------------------------------------------------- */

static vo_status seek_window(vo_track *t) {
    for (; t->clip < t->n_clips; t->clip++) {
        int64_t start = t->clips[2 * t->clip],
                end = min64(t->clips[2 * t->clip + 1], t->plan->content_frames);
        if (t->seek < start) t->seek = start;
        /* A window that has moved does not go back for what holds no speech. */
        const int64_t quiet = t->clip + 1 == t->n_clips && t->seek > start ? t->quiet : 0;
        if (t->seek < end - quiet) {
            t->size = min64(t->plan->window_frames, end - t->seek);
            t->state = VO_TRACK_ENCODE;
            return VO_OK;
        }
        if (t->clip + 1 < t->n_clips) t->seek = t->clips[2 * (t->clip + 1)];
    }
    t->state = VO_TRACK_FINISHED;
    return VO_OK;
}

vo_status vo_encode_frames(const vo_track_plan *plan, vo_lane *lane, int64_t from, int64_t count,
                           vo_error *err) {
    vo_worker *w = lane->worker;
    int64_t n_mels = w->session->model->whisper->dims.n_mels;
    float *mel = vo_whisper_mel(w->state);
    double begin = vo_clock_seconds();
    vo_status status = vo_spectrogram_read(&plan->mel, from, count, mel, err);
    memset(mel + count * n_mels, 0, (size_t)((plan->window_frames - count) * n_mels) * sizeof *mel);
    double middle = vo_clock_seconds();
    if (status == VO_OK) status = vo_whisper_encode(w->state, lane->window, err);
    w->timings.mel += middle - begin;
    w->timings.encode += vo_clock_seconds() - middle;
    return status;
}

/* Encodes the window and builds its prompt. What beams and samples of the window before left in
 * the lane's rows goes: together with a new prompt it may be more than the cache holds. */
static vo_status encode_window(vo_track *t, vo_error *err) {
    static const int first_row = 0;
    const vo_track_plan *plan = t->plan;
    vo_worker *w = t->lane->worker;
    vo_lm *lm = &t->lane->lm;
    const bool ready =
        w->first_encoded && t->lane->window == 0 && t->seek == 0 && t->size == plan->window_frames;
    if (t->lane->window == 0) w->first_encoded = false;
    w->timings.windows++;
    vo_status status = ready ? VO_OK : vo_encode_frames(plan, t->lane, t->seek, t->size, err);
    if (status == VO_OK)
        status = vo_build_prompt(plan->session, plan->params, &t->all, plan->initial.n,
                                 t->prompt_reset_since, plan->language, &plan->prefix, &t->prompt,
                                 &t->sot_index, err);
    if (status == VO_OK) status = lm->rewind(lm->self, 0, 0, err);
    if (status == VO_OK) status = lm->fork(lm->self, &first_row, 1, err);
    t->start = (vo_lm_input){.row = 0, .n_tokens = t->sot_index + 1, .tokens = t->prompt.ids};
    t->state = VO_TRACK_START;
    return status;
}

/* ---- START and DECODE --------------------------------------------------------------------- */

/* The probability that nobody speaks: raw, before any filter. */
static void take_start(vo_track *t, const float *logits) {
    const vo_whisper_ids *ids = t->plan->ids;
    t->no_speech = expf(logits[ids->no_speech] - vo_logsumexp(logits, ids->n_vocab));
}

static double temperature_of(const vo_track *t) {
    return t->plan->temperatures[t->attempt];
}

static vo_decode_params decode_params(vo_track *t) {
    const vo_track_plan *plan = t->plan;
    const vocis_transcribe_params *p = plan->params;
    const double temperature = temperature_of(t);
    int n = 0, half = plan->session->model->whisper->dims.n_text_ctx / 2;
    if (p->suppress_blank) t->filters[n++] = vo_filter_suppress(&plan->blank);
    if (plan->suppress.n) t->filters[n++] = vo_filter_suppress(&plan->listed);
    if (!p->without_timestamps) t->filters[n++] = vo_filter_timestamps(&plan->times);
    vo_decode_params d = vo_decode_default_params();
    d.eot = plan->ids->eot;
    d.max_tokens = p->max_tokens > 0 && p->max_tokens < half ? p->max_tokens : half;
    d.temperature = (float)temperature;
    d.best_of = temperature > 0 ? p->best_of : 1;
    d.beam_size = temperature > 0 ? 1 : p->beam_size;
    d.patience = temperature > 0 ? 1.0f : p->patience;
    d.length_penalty = p->length_penalty;
    /* Every window and temperature draws from its own stream of random numbers. */
    d.seed =
        p->seed + (uint64_t)t->seek * 1000003u + (uint64_t)(fmin(temperature, 1e9) * 100 + 0.5);
    d.filters = t->filters;
    d.n_filters = n;
    d.boost = plan->boost;
    return d;
}

/* Decodes from the start token on, which stays fed; if it was the last of the prompt it is fed
 * again. */
static vo_status begin_attempt(vo_track *t, int attempt, vo_error *err) {
    vo_lm *lm = &t->lane->lm;
    int n_fed = t->sot_index + 1;
    t->attempt = attempt;
    if (attempt > 0) t->lane->worker->timings.fallbacks++;
    if (n_fed == t->prompt.n) n_fed--;
    vo_status status = lm->rewind(lm->self, 0, n_fed, err);
    const vo_decode_params d = decode_params(t);
    if (status == VO_OK)
        status = vo_decode_begin(t->lane->decoder, t->prompt.ids, t->prompt.n, n_fed, &d, err);
    t->state = VO_TRACK_DECODE;
    return status;
}

/* What thresholds are compared with: as if phrases that were boosted had been the model's own
 * choice, so that boosting can neither call a window silence nor decode it again. */
static double judged_logprob(const vo_track *t) {
    return t->decoded.avg_logprob + t->decoded.boost / (t->decoded.n_tokens + 1);
}

static bool needs_fallback(const vo_track *t) {
    const vocis_transcribe_params *p = t->plan->params;
    /* Comparisons with a NaN threshold are false: switched off. */
    bool unlikely = judged_logprob(t) < p->logprob_threshold;
    if (t->no_speech > p->no_speech_threshold && unlikely) return false; /* silence */
    return t->compression_ratio > p->compression_ratio_threshold || unlikely;
}

/* The decoder is done: keep what it found, or try the next temperature. */
static vo_status end_attempt(vo_track *t, vo_error *err) {
    t->decoded = vo_decode_finish(t->lane->decoder);
    t->lane->worker->timings.steps += t->decoded.steps;
    t->lane->worker->timings.tokens += t->decoded.n_tokens;
    char *text = vo_tokenizer_decode(t->plan->session->model->tokenizer, t->decoded.tokens,
                                     t->decoded.n_tokens);
    if (!text) return vo_fail(err, VO_ERR_MEMORY, "no memory for text");
    size_t length;
    const char *stripped = vo_strip(text, &length);
    t->compression_ratio = vo_compression_ratio(stripped, length);
    vo_free(text);
    if (t->attempt + 1 < t->plan->n_temperatures && needs_fallback(t))
        return begin_attempt(t, t->attempt + 1, err);
    t->state = VO_TRACK_SPLIT;
    return VO_OK;
}

/* ---- SPLIT -------------------------------------------------------------------------------- */

static bool is_time(const vo_track *t, int i) {
    return i >= 0 && i < t->decoded.n_tokens &&
           t->decoded.tokens[i] >= t->plan->ids->timestamp_begin;
}

/* Index of a timestamp token: multiples of 0.02 s. Without the grammar of timestamps text may stand
 * where a segment begins. */
static int64_t time_of(const vo_track *t, int i) {
    if (!is_time(t, i)) return 0;
    return t->decoded.tokens[i] - t->plan->ids->timestamp_begin;
}

/* Adds tokens [from, to) as a segment unless it is empty in time or text. */
static vo_status add_segment(vo_track *t, int from, int to, double start, double end,
                             vo_error *err) {
    char *text = vo_tokenizer_decode(t->plan->session->model->tokenizer, t->decoded.tokens + from,
                                     to - from);
    if (!text) return vo_fail(err, VO_ERR_MEMORY, "no memory for text");
    size_t length;
    vo_strip(text, &length);
    vo_status status = VO_OK;
    if (length > 0 && start != end) {
        /* The model may place text beyond the end of the recording; nothing can be there. */
        double last = t->plan->duration;
        vocis_segment s = {.start = start < last ? start : last,
                           .end = end < last ? end : last,
                           .text = text,
                           .tokens = t->decoded.tokens + from,
                           .token_logprobs = t->decoded.logprobs + from,
                           .n_tokens = to - from,
                           .seek = t->seek,
                           .temperature = (float)temperature_of(t),
                           .avg_logprob = (float)t->decoded.avg_logprob,
                           .compression_ratio = (float)t->compression_ratio,
                           .no_speech_prob = t->no_speech,
                           .speaker = -1};
        status = vo_tokens_append(&t->all, s.tokens, s.n_tokens, err);
        vo_mutex_lock(t->result_mutex);
        if (status == VO_OK) status = vo_result_add(t->result, &s, err);
        vo_mutex_unlock(t->result_mutex);
        if (status == VO_OK && t->on_added) t->on_added(t->added_user);
    }
    vo_free(text);
    return status;
}

static bool is_silence(const vo_track *t) {
    return t->no_speech > t->plan->params->no_speech_threshold &&
           !(judged_logprob(t) > t->plan->params->logprob_threshold);
}

/* No pair of timestamps: the whole window is one segment. */
static vo_status split_whole(vo_track *t, double offset, vo_error *err) {
    double duration = (double)t->size * VO_SECONDS_PER_FRAME;
    for (int i = t->decoded.n_tokens - 1; i >= 0; i--) {
        if (!is_time(t, i)) continue;
        if (time_of(t, i) != 0) duration = (double)time_of(t, i) * VO_SECONDS_PER_TOKEN;
        break;
    }
    vo_status status = add_segment(t, 0, t->decoded.n_tokens, offset, offset + duration, err);
    t->seek += t->size;
    return status;
}

static vo_status split_window(vo_track *t, vo_error *err) {
    double offset = (double)t->seek * VO_SECONDS_PER_FRAME;
    int n = t->decoded.n_tokens, from = 0;
    vo_status status = VO_OK;
    t->state = VO_TRACK_SEEK;
    if (is_silence(t)) {
        t->seek += t->size;
        return VO_OK;
    }
    bool single_ending = n >= 2 && is_time(t, n - 1) && !is_time(t, n - 2);
    int64_t window_start = t->seek, next = -1;
    for (int i = 1; i <= n && status == VO_OK; i++) {
        bool cut = i < n ? is_time(t, i - 1) && is_time(t, i) : single_ending && from > 0;
        if (!cut) continue;
        status = add_segment(t, from, i, offset + (double)time_of(t, from) * VO_SECONDS_PER_TOKEN,
                             offset + (double)time_of(t, i - 1) * VO_SECONDS_PER_TOKEN, err);
        next = window_start + 2 * time_of(t, i - 1);
        from = i;
    }
    if (status != VO_OK) return status;
    if (from == 0)
        status = split_whole(t, offset, err);
    else /* a pair at 0.00 moves nothing: the reference would decode this window for ever */
        t->seek = single_ending || next <= window_start ? window_start + t->size : next;
    if (!t->plan->params->condition_on_previous_text || temperature_of(t) > 0.5)
        t->prompt_reset_since = t->all.n;
    return status;
}

/* ---- the machine -------------------------------------------------------------------------- */

vo_status vo_track_next(vo_track *t, const vo_lm_input **inputs, int *n, vo_error *err) {
    vo_status status = VO_OK;
    *n = 0;
    while (status == VO_OK) {
        switch (t->state) {
        case VO_TRACK_SEEK:
            status = seek_window(t);
            break;
        case VO_TRACK_ENCODE:
            status = encode_window(t, err);
            break;
        case VO_TRACK_START:
            if (t->start.n_tokens > 0) {
                *inputs = &t->start;
                *n = 1;
                return VO_OK;
            }
            status = begin_attempt(t, 0, err);
            break;
        case VO_TRACK_DECODE:
            status = vo_decode_next(t->lane->decoder, inputs, n, err);
            if (status != VO_OK || *n > 0) return status;
            status = end_attempt(t, err);
            break;
        case VO_TRACK_SPLIT:
            status = split_window(t, err);
            break;
        case VO_TRACK_FINISHED:
            return VO_OK;
        }
    }
    return status;
}

void vo_track_take(vo_track *t, float *const *logits) {
    if (t->state == VO_TRACK_START) {
        take_start(t, logits[0]);
        t->start.n_tokens = 0; /* fed */
    } else {
        vo_decode_take(t->lane->decoder, logits);
    }
}
