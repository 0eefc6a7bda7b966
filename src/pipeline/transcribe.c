/* SPDX-License-Identifier: MIT
 *
 * Long-form transcription as openai-whisper's transcribe() defines it, as a state machine:
 *
 *     COLLECT -> LANGUAGE -> SEEK -> ENCODE -> DECODE -> SPLIT -> SEEK ... -> FINISHED
 *
 * A window of 30 s slides over the input; the timestamps that the decoder writes say how far it
 * moves. The spectrogram's clamp depends on the whole input, so a first pass finds the loudest
 * value and each window is then made when it is needed. Each state is one small function over
 * `job`; docs/models/whisper.md gives the rules in prose.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "pipeline/engine.h"
#include "pipeline/prompt.h"
#include "pipeline/result.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

enum { MAX_FILTERS = 3, MAX_TEMPERATURES = 64 };
#define SECONDS_PER_FRAME 0.01 /* mel frames */
#define SECONDS_PER_TOKEN 0.02 /* timestamp tokens: two frames */

typedef enum state { COLLECT, LANGUAGE, SEEK, ENCODE, DECODE, SPLIT, FINISHED } state;

typedef struct job {
    state state;
    vocis_session *session;
    const vocis_transcribe_params *params;
    const vo_whisper_ids *ids;
    vocis_result *result;

    vo_mel_signal signal;   /* the input and a window of silence after it */
    float loudest;          /* of its spectrogram */
    int64_t content_frames; /* of real audio */
    int64_t window_frames;  /* 3000 */

    int64_t *clips; /* start, end, start, end ... in frames */
    int n_clips, clip;
    int64_t seek, size; /* current window: first frame, frames of audio in it */
    bool first_encoded; /* language detection left the first window encoded, and it is whole */

    vo_token_list all; /* initial prompt, then the tokens of every segment */
    int n_initial;     /* tokens of the initial prompt at its beginning */
    int prompt_reset_since;
    int32_t language; /* token id, multilingual models only */
    vo_token_list prefix, suppress, prompt;

    vo_suppress_filter blank, listed;
    vo_timestamp_filter times;
    int32_t blank_ids[16];

    double temperatures[MAX_TEMPERATURES];
    int n_temperatures;
    vo_decode_result decoded; /* borrowed from the decoder */
    double temperature, compression_ratio;
    float no_speech;
    vo_error *err;
} job;

/* ---- COLLECT -----------------------------------------------------------------------------------
 */

static vo_status collect(job *j) {
    double begin = vo_clock_seconds();
    j->content_frames = j->signal.n_samples / VO_MEL_HOP;
    vo_status status = vo_mel_loudest(&j->signal, &j->loudest, j->err);
    j->result->timings.mel += vo_clock_seconds() - begin;
    j->state = LANGUAGE;
    return status;
}

/* Frames [from, from + count) become the encoder's input; the rest of the window is 0. */
static vo_status encode_frames(job *j, int64_t from, int64_t count) {
    int64_t n_mels = j->session->model->whisper->dims.n_mels;
    float *window = vo_whisper_mel(j->session->state);
    double begin = vo_clock_seconds();
    vo_status status = vo_mel_frames(&j->signal, from, count, j->loudest, window, j->err);
    memset(window + count * n_mels, 0,
           (size_t)((j->window_frames - count) * n_mels) * sizeof *window);
    double middle = vo_clock_seconds();
    if (status == VO_OK) status = vo_whisper_encode(j->session->state, 0, j->err);
    j->result->timings.mel += middle - begin;
    j->result->timings.encode += vo_clock_seconds() - middle;
    return status;
}

/* ---- LANGUAGE ----------------------------------------------------------------------------------
 */

static vo_status choose_language(job *j) {
    int index = 0;
    vo_status status = VO_OK;
    float probabilities[128] = {0};
    j->result->language_probability = 1;
    if (j->params->language) {
        index = vo_language_find(j->params->language);
        if (index < 0)
            return vo_fail(j->err, VO_ERR_ARGUMENT, "the language \"%s\" is not known",
                           j->params->language);
        if (!j->ids->multilingual && index != 0)
            return vo_fail(j->err, VO_ERR_ARGUMENT, "this model knows English only");
        if (j->ids->multilingual && index >= j->ids->n_languages)
            return vo_fail(j->err, VO_ERR_ARGUMENT, "this model does not know the language \"%s\"",
                           j->params->language);
    } else if (j->ids->multilingual && j->content_frames > 0) {
        /* The first 30 s of the padded spectrogram, so that silence is silence, not 0. */
        status = encode_frames(j, 0, j->window_frames);
        if (status == VO_OK)
            status = vo_language_of_window(j->session, probabilities, &index, j->err);
        j->result->language_probability = probabilities[index];
        j->result->language_detected = true;
        j->first_encoded = j->content_frames >= j->window_frames;
    }
    if (!j->ids->multilingual && j->params->task == VOCIS_TRANSLATE)
        return vo_fail(j->err, VO_ERR_ARGUMENT, "an English-only model cannot translate");
    j->language = j->ids->first_language + index;
    j->result->language = j->ids->multilingual && !j->params->language && j->content_frames == 0
                              ? NULL
                              : vo_language_code(index);
    j->state = SEEK;
    return status;
}

/* ---- SEEK --------------------------------------------------------------------------------------
 */

static void report_progress(const job *j) {
    if (!j->params->on_progress) return;
    double done = (double)(j->seek < j->content_frames ? j->seek : j->content_frames);
    j->params->on_progress(j->params->user, done * SECONDS_PER_FRAME, j->result->duration);
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static vo_status seek_window(job *j) {
    report_progress(j);
    if (j->params->on_abort && j->params->on_abort(j->params->user))
        return vo_fail(j->err, VO_ERR_ABORTED, "stopped");
    for (; j->clip < j->n_clips; j->clip++) {
        int64_t start = j->clips[2 * j->clip],
                end = min64(j->clips[2 * j->clip + 1], j->content_frames);
        if (j->seek < start) j->seek = start;
        if (j->seek < end) {
            j->size = min64(j->window_frames, end - j->seek);
            j->state = ENCODE;
            return VO_OK;
        }
        if (j->clip + 1 < j->n_clips) j->seek = j->clips[2 * (j->clip + 1)];
    }
    j->state = FINISHED;
    return VO_OK;
}

static vo_status encode_window(job *j) {
    bool ready = j->first_encoded && j->seek == 0 && j->size == j->window_frames;
    j->result->timings.windows++;
    j->state = DECODE;
    j->first_encoded = false;
    return ready ? VO_OK : encode_frames(j, j->seek, j->size);
}

/* ---- DECODE ------------------------------------------------------------------------------------
 */

/* Feeds the prompt up to and including the start token, whose logits give the probability
 * that nobody speaks (raw, before any filter). What beams and samples of the window before left
 * in the other rows goes: together with a new prompt it may be more than the cache holds. */
static vo_status feed_start(job *j, int sot_index) {
    static const int first_row = 0;
    vo_lm *lm = &j->session->lm;
    vo_lm_input input = {.row = 0, .n_tokens = sot_index + 1, .tokens = j->prompt.ids};
    float *const *logits;
    vo_status status = lm->rewind(lm->self, 0, 0, j->err);
    if (status == VO_OK) status = lm->fork(lm->self, &first_row, 1, j->err);
    if (status == VO_OK) status = lm->step(lm->self, &input, 1, &logits, j->err);
    if (status != VO_OK) return status;
    j->no_speech = expf(logits[0][j->ids->no_speech] - vo_logsumexp(logits[0], j->ids->n_vocab));
    return VO_OK;
}

static vo_status decode_at(job *j, double temperature, int n_fed) {
    const vocis_transcribe_params *p = j->params;
    vo_logit_filter filters[MAX_FILTERS];
    int n = 0;
    if (p->suppress_blank) filters[n++] = vo_filter_suppress(&j->blank);
    if (j->suppress.n) filters[n++] = vo_filter_suppress(&j->listed);
    if (!p->without_timestamps) filters[n++] = vo_filter_timestamps(&j->times);
    int half = j->session->model->whisper->dims.n_text_ctx / 2;
    vo_decode_params d = vo_decode_default_params();
    d.eot = j->ids->eot;
    d.max_tokens = p->max_tokens > 0 && p->max_tokens < half ? p->max_tokens : half;
    d.temperature = (float)temperature;
    d.best_of = temperature > 0 ? p->best_of : 1;
    d.beam_size = temperature > 0 ? 1 : p->beam_size;
    d.patience = temperature > 0 ? 1.0f : p->patience;
    d.length_penalty = p->length_penalty;
    /* Every window and temperature draws from its own stream of random numbers. */
    d.seed =
        p->seed + (uint64_t)j->seek * 1000003u + (uint64_t)(fmin(temperature, 1e9) * 100 + 0.5);
    d.filters = filters;
    d.n_filters = n;
    d.abort = p->on_abort;
    d.abort_user = p->user;
    vo_status status =
        vo_decode(j->session->decoder, j->prompt.ids, j->prompt.n, n_fed, &d, &j->decoded, j->err);
    if (status != VO_OK) return status;
    j->result->timings.steps += j->decoded.steps;
    j->result->timings.tokens += j->decoded.n_tokens;
    j->temperature = temperature;
    char *text =
        vo_tokenizer_decode(j->session->model->tokenizer, j->decoded.tokens, j->decoded.n_tokens);
    if (!text) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for text");
    size_t length;
    const char *stripped = vo_strip(text, &length);
    j->compression_ratio = vo_compression_ratio(stripped, length);
    vo_free(text);
    return VO_OK;
}

static bool needs_fallback(const job *j) {
    const vocis_transcribe_params *p = j->params;
    /* Comparisons with a NaN threshold are false: switched off. */
    bool unlikely = j->decoded.avg_logprob < p->logprob_threshold;
    if (j->no_speech > p->no_speech_threshold && unlikely) return false; /* silence */
    return j->compression_ratio > p->compression_ratio_threshold || unlikely;
}

static vo_status decode_window(job *j) {
    vo_lm *lm = &j->session->lm;
    int sot_index;
    double begin = vo_clock_seconds();
    vo_status status =
        vo_build_prompt(j->session, j->params, &j->all, j->n_initial, j->prompt_reset_since,
                        j->language, &j->prefix, &j->prompt, &sot_index, j->err);
    if (status == VO_OK) status = feed_start(j, sot_index);
    for (int i = 0; status == VO_OK && i < j->n_temperatures; i++) {
        if (i > 0) {
            status = lm->rewind(lm->self, 0, sot_index + 1, j->err);
            j->result->timings.fallbacks++;
        }
        /* The start token stays fed; if it was the last of the prompt it is fed again. */
        int n_fed = sot_index + 1;
        if (n_fed == j->prompt.n) {
            n_fed--;
            if (status == VO_OK) status = lm->rewind(lm->self, 0, n_fed, j->err);
        }
        if (status == VO_OK) status = decode_at(j, j->temperatures[i], n_fed);
        if (status == VO_OK && !needs_fallback(j)) break;
    }
    j->result->timings.decode += vo_clock_seconds() - begin;
    j->state = SPLIT;
    return status;
}

/* ---- SPLIT -------------------------------------------------------------------------------------
 */

static bool is_time(const job *j, int i) {
    return i >= 0 && i < j->decoded.n_tokens && j->decoded.tokens[i] >= j->ids->timestamp_begin;
}

/* Index of a timestamp token: multiples of 0.02 s. Without the grammar of timestamps text may stand
 * where a segment begins. */
static int64_t time_of(const job *j, int i) {
    if (!is_time(j, i)) return 0;
    return j->decoded.tokens[i] - j->ids->timestamp_begin;
}

/* Adds tokens [from, to) as a segment unless it is empty in time or text. */
static vo_status add_segment(job *j, int from, int to, double start, double end) {
    char *text =
        vo_tokenizer_decode(j->session->model->tokenizer, j->decoded.tokens + from, to - from);
    if (!text) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for text");
    size_t length;
    vo_strip(text, &length);
    vo_status status = VO_OK;
    if (length > 0 && start != end) {
        /* The model may place text beyond the end of the recording; nothing can be there. */
        double last = j->result->duration;
        vocis_segment s = {.start = start < last ? start : last,
                           .end = end < last ? end : last,
                           .text = text,
                           .tokens = j->decoded.tokens + from,
                           .token_logprobs = j->decoded.logprobs + from,
                           .n_tokens = to - from,
                           .seek = j->seek,
                           .temperature = (float)j->temperature,
                           .avg_logprob = (float)j->decoded.avg_logprob,
                           .compression_ratio = (float)j->compression_ratio,
                           .no_speech_prob = j->no_speech};
        status = vo_tokens_append(&j->all, s.tokens, s.n_tokens, j->err);
        if (status == VO_OK) status = vo_result_add(j->result, &s, j->err);
        if (status == VO_OK && j->params->on_segment)
            j->params->on_segment(j->params->user, &j->result->segments[j->result->n_segments - 1]);
    }
    vo_free(text);
    return status;
}

static bool is_silence(const job *j) {
    return j->no_speech > j->params->no_speech_threshold &&
           !(j->decoded.avg_logprob > j->params->logprob_threshold);
}

/* No pair of timestamps: the whole window is one segment. */
static vo_status split_whole(job *j, double offset) {
    double duration = (double)j->size * SECONDS_PER_FRAME;
    for (int i = j->decoded.n_tokens - 1; i >= 0; i--) {
        if (!is_time(j, i)) continue;
        if (time_of(j, i) != 0) duration = (double)time_of(j, i) * SECONDS_PER_TOKEN;
        break;
    }
    vo_status status = add_segment(j, 0, j->decoded.n_tokens, offset, offset + duration);
    j->seek += j->size;
    return status;
}

static vo_status split_window(job *j) {
    double offset = (double)j->seek * SECONDS_PER_FRAME;
    int n = j->decoded.n_tokens, from = 0;
    vo_status status = VO_OK;
    j->state = SEEK;
    if (is_silence(j)) {
        j->seek += j->size;
        return VO_OK;
    }
    bool single_ending = n >= 2 && is_time(j, n - 1) && !is_time(j, n - 2);
    int64_t window_start = j->seek, next = -1;
    for (int i = 1; i <= n && status == VO_OK; i++) {
        bool cut = i < n ? is_time(j, i - 1) && is_time(j, i) : single_ending && from > 0;
        if (!cut) continue;
        status = add_segment(j, from, i, offset + (double)time_of(j, from) * SECONDS_PER_TOKEN,
                             offset + (double)time_of(j, i - 1) * SECONDS_PER_TOKEN);
        next = window_start + 2 * time_of(j, i - 1);
        from = i;
    }
    if (status != VO_OK) return status;
    if (from == 0)
        status = split_whole(j, offset);
    else /* a pair at 0.00 moves nothing: the reference would decode this window for ever */
        j->seek = single_ending || next <= window_start ? window_start + j->size : next;
    if (!j->params->condition_on_previous_text || j->temperature > 0.5)
        j->prompt_reset_since = j->all.n;
    return status;
}

/* ---- the machine -------------------------------------------------------------------------------
 */

static vo_status set_clips(job *j) {
    const vocis_transcribe_params *p = j->params;
    int n = p->clip_timestamps ? p->n_clip_timestamps : 0;
    if (n < 0) return vo_fail(j->err, VO_ERR_ARGUMENT, "%d clip timestamps are not possible", n);
    j->n_clips = n ? (n + 1) / 2 : 1;
    j->clips = vo_alloc_array((size_t)j->n_clips * 2, sizeof *j->clips);
    if (!j->clips) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for clips");
    j->clips[2 * j->n_clips - 1] = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (!(p->clip_timestamps[i] >= 0 && p->clip_timestamps[i] < 1e9))
            return vo_fail(j->err, VO_ERR_ARGUMENT, "a clip timestamp must be a number of seconds");
        j->clips[i] = (int64_t)nearbyint(p->clip_timestamps[i] / SECONDS_PER_FRAME);
    }
    return VO_OK;
}

static vo_status check_params(job *j) {
    const vocis_transcribe_params *p = j->params;
    if (p->beam_size < 1 || p->beam_size > j->session->max_sequences || p->best_of < 1 ||
        p->best_of > j->session->max_sequences)
        return vo_fail(j->err, VO_ERR_ARGUMENT,
                       "beam_size and best_of must lie between 1 and %d here",
                       j->session->max_sequences);
    if (!(p->temperature >= 0) || isinf(p->temperature) || !(p->patience > 0) || p->max_tokens < 0)
        return vo_fail(j->err, VO_ERR_ARGUMENT,
                       "temperature and max_tokens must not be negative, temperature finite, "
                       "patience above 0");
    j->n_temperatures = 1;
    j->temperatures[0] = p->temperature;
    if (p->temperature_increment > 0)
        for (int i = 1; i < MAX_TEMPERATURES; i++) {
            /* The reference steps in doubles: 0, 0.2, 0.4, 0.6000000000000001 ... */
            double t = p->temperature + i * (nearbyint(p->temperature_increment * 1e6) / 1e6);
            if (t > 1.0 + 1e-6) break;
            j->temperatures[j->n_temperatures++] = t;
        }
    return VO_OK;
}

static vo_status set_filters(job *j) {
    const vo_tokenizer *tokenizer = j->session->model->tokenizer;
    int32_t *space = NULL;
    int n = 0;
    vo_status status = vo_tokenizer_encode(tokenizer, " ", 1, &space, &n, j->err);
    for (int i = 0; status == VO_OK && i < n && i < 15; i++)
        j->blank_ids[j->blank.n_ids++] = space[i];
    vo_free(space);
    if (status != VO_OK) return status;
    j->blank_ids[j->blank.n_ids++] = j->ids->eot;
    j->blank.ids = j->blank_ids;
    j->blank.first_only = true;
    status = vo_parse_suppress(tokenizer, j->params->suppress_tokens, &j->suppress, j->err);
    j->listed = (vo_suppress_filter){j->suppress.ids, j->suppress.n, false};
    j->times =
        (vo_timestamp_filter){j->ids->eot, j->ids->no_timestamps, j->ids->timestamp_begin, -1};
    if (j->params->max_initial_timestamp >= 0 && j->params->max_initial_timestamp < 1e6f)
        j->times.max_initial_index =
            (int32_t)nearbyint(j->params->max_initial_timestamp / SECONDS_PER_TOKEN);
    return status;
}

static vo_status prepare(job *j) {
    const vo_tokenizer *tokenizer = j->session->model->tokenizer;
    vo_status status = check_params(j);
    if (status == VO_OK) status = set_clips(j);
    if (status == VO_OK) status = set_filters(j);
    if (status == VO_OK && j->params->initial_prompt)
        status = vo_encode_spaced(tokenizer, j->params->initial_prompt, &j->all, j->err);
    if (status == VO_OK && j->params->prefix)
        status = vo_encode_spaced(tokenizer, j->params->prefix, &j->prefix, j->err);
    j->n_initial = j->all.n;
    if (status == VO_OK) j->seek = j->clips[0];
    return status;
}

static vo_status step(job *j) {
    switch (j->state) {
    case COLLECT:
        return collect(j);
    case LANGUAGE:
        return choose_language(j);
    case SEEK:
        return seek_window(j);
    case ENCODE:
        return encode_window(j);
    case DECODE:
        return decode_window(j);
    case SPLIT:
        return split_window(j);
    case FINISHED:
        break;
    }
    return VO_OK;
}

vo_status vo_transcribe(vocis_session *session, const float *samples, int64_t n_samples,
                        const vocis_transcribe_params *params, vocis_result **result,
                        vo_error *err) {
    double begin = vo_clock_seconds();
    vo_error local = {0};
    job j = {.session = session,
             .params = params,
             .ids = vo_tokenizer_ids(session->model->tokenizer),
             .window_frames = 2 * (int64_t)session->model->whisper->dims.n_audio_ctx,
             .err = &local,
             .result = vo_result_create()};
    const vocis_engine *engine = session->model->engine;
    j.signal = (vo_mel_signal){session->model->mel, &engine->kernels,
                               engine->pool,        samples,
                               n_samples,           j.window_frames * VO_MEL_HOP};
    *result = NULL;
    if (n_samples < 0 || (n_samples > 0 && !samples)) {
        vo_result_destroy(j.result);
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to transcribe");
    }
    if (!j.result) return vo_fail(err, VO_ERR_MEMORY, "no memory for a result");
    j.result->duration = (double)n_samples / VO_MEL_FRAMES_PER_SECOND / VO_MEL_HOP;
    j.result->task = params->task;
    j.result->settings = *params;
    vo_status status = prepare(&j);
    while (status == VO_OK && j.state != FINISHED) status = step(&j);
    vo_free(j.clips);
    vo_tokens_free(&j.all);
    vo_tokens_free(&j.prefix);
    vo_tokens_free(&j.suppress);
    vo_tokens_free(&j.prompt);
    j.result->timings.total = vo_clock_seconds() - begin;
    j.result->peak_bytes = vo_memory_get_stats().peak_bytes;
    /* What was done stays available after a failure midway. */
    if (vo_result_finish(j.result, &local) != VO_OK ||
        (status != VO_OK && j.result->n_segments == 0)) {
        vo_result_destroy(j.result);
        return vo_fail(err, local.status, "%s", local.message);
    }
    *result = j.result;
    return status == VO_OK ? VO_OK : vo_fail(err, local.status, "%s", local.message);
}
