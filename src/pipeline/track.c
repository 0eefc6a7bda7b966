/* SPDX-License-Identifier: MIT
 *
 * One track as a state machine, as openai-whisper's transcribe() defines it:
 *
 *     SEEK -> ENCODE -> START -> DECODE -> SPLIT -> COVER -> SEEK ... -> FINISHED
 *
 * COVER is ours: text that looks invented goes, and speech that the segments leave out is decoded
 * again by a track of its own, which runs in the same lane and may do the same with other settings.
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
#include "pipeline/ahead.h"
#include "pipeline/codeswitch.h"
#include "pipeline/look.h"
#include "pipeline/parts.h"
#include "pipeline/words.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

#define NO_VOICE       0.1f /* the voice detector is sure that nobody speaks */
#define FOREIGN        0.9f /* probability of another language that is surely spoken, */
#define FOREIGN_SPEECH 2.0  /* with so many seconds of speech */
#define NO_WORD        0.5  /* seconds of speech too short for one */
#define ABOUT_RIGHT    0.2  /* seconds that timestamps may be off */

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

vo_status vo_track_create(const vo_track_plan *plan, const int64_t *clips, int n_clips,
                          vo_track **out, vo_error *err) {
    vo_track *t = vo_alloc(sizeof *t);
    int64_t *copy = vo_alloc_array((size_t)n_clips * 2, sizeof *copy);
    vocis_result *pending = vo_result_create();
    vo_status status = VO_ERR_MEMORY;
    if (t && copy && pending) {
        *t = (vo_track){.plan = plan,
                        .clips = copy,
                        .n_clips = n_clips,
                        .last = plan->content_frames,
                        .language = plan->language,
                        .expected = plan->language,
                        .language_probability = plan->language_probability,
                        .pending = pending};
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
    vo_result_destroy(pending);
    return vo_fail(err, status, "no memory for a stretch of audio");
}

void vo_track_destroy(vo_track *t) {
    if (!t) return;
    vo_tokens_free(&t->all);
    vo_tokens_free(&t->prompt);
    vo_track_destroy(t->sub);
    vo_result_destroy(t->pending);
    vo_rescript_free(&t->rescript);
    vo_free(t->holes);
    vo_free(t->clips);
    vo_free(t);
}

static bool is_voiceless_window(const vo_track *t) {
    const vo_voice *voice = t->plan->guard ? t->plan->voice : NULL;
    return voice && vo_voice_peak(voice, (double)t->seek * VO_SECONDS_PER_FRAME,
                                  (double)(t->seek + t->size) * VO_SECONDS_PER_FRAME) < NO_VOICE;
}

/* A window in which nothing can be heard needs no model. */
static bool is_silent_window(const vo_track *t) {
    return is_voiceless_window(t) &&
           !vo_voice_audible(t->plan->voice, (double)t->seek * VO_SECONDS_PER_FRAME,
                             (double)(t->seek + t->size) * VO_SECONDS_PER_FRAME, VO_QUIET);
}

static vo_status seek_window(vo_track *t) {
    for (; t->clip < t->n_clips; t->clip++) {
        int64_t start = t->clips[2 * t->clip],
                end = min64(t->clips[2 * t->clip + 1], t->plan->content_frames);
        if (t->seek < start) t->seek = start;
        /* A window that has moved does not go back for what holds no speech. */
        const int64_t quiet = t->clip + 1 == t->n_clips && t->seek > start ? t->quiet : 0;
        while (t->seek < end - quiet) {
            t->size = min64(t->plan->window_frames, end - t->seek);
            if (!is_silent_window(t)) {
                t->begin = t->seek;
                t->state = VO_TRACK_ENCODE;
                return VO_OK;
            }
            t->seek += t->size;
        }
        if (t->clip + 1 < t->n_clips) t->seek = t->clips[2 * (t->clip + 1)];
    }
    t->state = VO_TRACK_FINISHED;
    return VO_OK;
}

vo_status vo_encode_with(const vo_track_plan *plan, vo_lane *lane, vo_whisper_state *state,
                         int64_t from, int64_t count, vo_error *err) {
    vo_worker *w = lane->worker;
    int64_t n_mels = w->session->model->whisper->dims.n_mels;
    float *mel = vo_whisper_mel(state);
    double begin = vo_clock_seconds();
    vo_status status = vo_spectrogram_read(&plan->mel, from, count, mel, err);
    memset(mel + count * n_mels, 0, (size_t)((plan->window_frames - count) * n_mels) * sizeof *mel);
    double middle = vo_clock_seconds();
    if (status == VO_OK) status = vo_whisper_encode(state, lane->window, err);
    w->timings.mel += middle - begin;
    w->timings.encode += vo_clock_seconds() - middle;
    return status;
}

vo_status vo_encode_frames(const vo_track_plan *plan, vo_lane *lane, int64_t from, int64_t count,
                           vo_error *err) {
    return vo_encode_with(plan, lane, lane->worker->state, from, count, err);
}

/* Text in another language does not lead on. What the caller has put before the first window does.
 */
static vo_status choose_language(vo_track *t, vo_error *err) {
    const int32_t before = t->language;
    t->cut = 0;
    const vo_status status = vo_codeswitch_window(t, err);
    if (t->language != before && t->all.n > t->plan->initial.n) t->prompt_reset_since = t->all.n;
    return status;
}

/* Builds the prompt of a window that is encoded. What beams and samples left in the lane's rows
 * goes: together with a new prompt it may be more than the cache holds. */
static vo_status begin_window(vo_track *t, vo_error *err) {
    static const int first_row = 0;
    const vo_track_plan *plan = t->plan;
    const bool alone = t->rescript.state == VO_SCRIPT_FORCED; /* no text leads it on */
    vo_lm *lm = &t->lane->lm;
    vo_status status =
        vo_build_prompt(plan->session, plan->params, &t->all, alone ? 0 : plan->initial.n,
                        alone ? t->all.n : t->prompt_reset_since, t->language, &plan->prefix,
                        &t->prompt, &t->sot_index, err);
    if (status == VO_OK) status = lm->rewind(lm->self, 0, 0, err);
    if (status == VO_OK) status = lm->fork(lm->self, &first_row, 1, err);
    t->start = (vo_lm_input){.row = 0, .n_tokens = t->sot_index + 1, .tokens = t->prompt.ids};
    t->state = VO_TRACK_START;
    return status;
}

static vo_status encode_window(vo_track *t, vo_error *err) {
    const vo_track_plan *plan = t->plan;
    vo_worker *w = t->lane->worker;
    const bool ready =
        w->first_encoded && t->lane->window == 0 && t->seek == 0 && t->size == plan->window_frames;
    if (t->lane->window == 0) w->first_encoded = false;
    t->counts.windows++;
    t->n_before = t->all.n;
    vo_status status = ready ? VO_OK : vo_encode_frames(plan, t->lane, t->seek, t->size, err);
    if (status == VO_OK && plan->each) status = choose_language(t, err);
    vo_rescript_reset(&t->rescript);
    if (status == VO_OK) status = begin_window(t, err);
    if (status == VO_OK) status = vo_ahead_listen(plan, t->lane, t->seek, t->size, err);
    return status;
}

/* ---- START and DECODE --------------------------------------------------------------------- */

/* Whoever speaks another language than the input's is written in words that he has not said. */
static void note_foreign(vo_track *t, const float *logits) {
    const vo_track_plan *plan = t->plan;
    const int best = t->heard - plan->ids->first_language;
    const float *x = logits + plan->ids->first_language;
    if (t->heard == t->language ||
        !(expf(x[best] - vo_logsumexp(x, plan->ids->n_languages)) >= FOREIGN))
        return;
    const double spoken = vo_voice_seconds(plan->speech, (double)t->seek * VO_SECONDS_PER_FRAME,
                                           (double)(t->seek + t->size) * VO_SECONDS_PER_FRAME);
    if (spoken >= FOREIGN_SPEECH) t->pending->foreign[best] += spoken;
}

/* The probability that nobody speaks: raw, before any filter. */
static void take_start(vo_track *t, const float *logits) {
    const vo_whisper_ids *ids = t->plan->ids;
    t->no_speech = expf(logits[ids->no_speech] - vo_logsumexp(logits, ids->n_vocab));
    t->heard = ids->multilingual ? ids->first_language : t->language;
    for (int i = 1; ids->multilingual && i < ids->n_languages; i++)
        if (logits[ids->first_language + i] > logits[t->heard]) t->heard = ids->first_language + i;
    if (ids->multilingual && t->plan->speech && !t->plan->each && !t->plan->strict)
        note_foreign(t, logits);
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
    if (t->rescript.state == VO_SCRIPT_FORCED)
        t->filters[n++] = vo_filter_suppress(&t->rescript.filter);
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
    d.speculator = vo_ahead_speculator(t->lane);
    d.boost = plan->boost;
    return d;
}

/* Decodes from the start token on, which stays fed; if it was the last of the prompt it is fed
 * again. */
static vo_status begin_attempt(vo_track *t, int attempt, vo_error *err) {
    vo_lm *lm = &t->lane->lm;
    int n_fed = t->sot_index + 1;
    t->attempt = attempt;
    if (attempt > 0) t->counts.fallbacks++;
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
    if (is_voiceless_window(t)) return false; /* no temperature finds words in noise or music */
    /* Comparisons with a NaN threshold are false: switched off. */
    bool unlikely = judged_logprob(t) < p->logprob_threshold;
    if (t->no_speech > p->no_speech_threshold && unlikely) return false; /* silence */
    return t->compression_ratio > p->compression_ratio_threshold || unlikely;
}

static bool is_silence(const vo_track *t) {
    return t->no_speech > t->plan->params->no_speech_threshold &&
           !(judged_logprob(t) > t->plan->params->logprob_threshold);
}

/* Whether the text is in a script of another language than the window sounds like. */
static bool needs_script(const vo_track *t, const char *text, size_t length) {
    const vo_track_plan *plan = t->plan;
    return plan->guard && !plan->strict && plan->ids->multilingual &&
           plan->params->task == VOCIS_TRANSCRIBE && t->rescript.state != VO_SCRIPT_GIVEN_UP &&
           t->heard == t->language && !is_silence(t) &&
           vo_rescript_disagrees(text, length, t->language - plan->ids->first_language);
}

/* The text stays: it is split into segments. Or, if it is in the wrong script, there is another
 * attempt that cannot use that; and if no likely text comes of it, the first one once more. */
static vo_status settle_script(vo_track *t, const char *text, size_t length, vo_error *err) {
    const vo_track_plan *plan = t->plan;
    const bool wrong = needs_script(t, text, length);
    vo_rescript *r = &t->rescript;
    t->state = VO_TRACK_SPLIT;
    if (r->state == VO_SCRIPT_FORCED) {
        if (!wrong && !needs_fallback(t) && !is_silence(t))
            return vo_result_note_removed(t->pending, (double)t->seek * VO_SECONDS_PER_FRAME,
                                          (double)(t->seek + t->size) * VO_SECONDS_PER_FRAME,
                                          r->before, vo_removal_reason(VO_REMOVED_SCRIPT), err);
        r->state = VO_SCRIPT_GIVEN_UP;
        return begin_window(t, err);
    }
    if (!wrong) return VO_OK;
    const vo_status status = vo_rescript_force(r, plan->session->model->tokenizer,
                                               t->language - plan->ids->first_language, text, err);
    return status == VO_OK ? begin_window(t, err) : status;
}

/* The decoder is done: keep what it found, or try the next temperature. */
static vo_status end_attempt(vo_track *t, vo_error *err) {
    t->decoded = vo_decode_finish(t->lane->decoder);
    t->counts.steps += t->decoded.steps;
    t->counts.tokens += t->decoded.n_tokens;
    t->counts.proposed += t->decoded.n_proposed;
    t->counts.accepted += t->decoded.n_accepted;
    if (t->attempt == 0) vo_ahead_learn(t->lane, t->decoded.n_tokens);
    char *text = vo_tokenizer_decode(t->plan->session->model->tokenizer, t->decoded.tokens,
                                     t->decoded.n_tokens);
    if (!text) return vo_fail(err, VO_ERR_MEMORY, "no memory for text");
    size_t length;
    const char *stripped = vo_strip(text, &length);
    t->compression_ratio = vo_compression_ratio(stripped, length);
    const bool again = t->rescript.state != VO_SCRIPT_FORCED &&
                       t->attempt + 1 < t->plan->n_temperatures && needs_fallback(t);
    const vo_status status =
        again ? begin_attempt(t, t->attempt + 1, err) : settle_script(t, stripped, length, err);
    vo_free(text);
    return status;
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

/* The model may place text beyond the end of the recording; nothing can be there. */
static double within(const vo_track *t, double seconds) {
    return seconds < t->plan->duration ? seconds : t->plan->duration;
}

/* Adds a draft as a segment unless it is empty in time or text. */
static vo_status add_segment(vo_track *t, const vo_draft_segment *d, vo_error *err) {
    const int32_t *tokens = t->decoded.tokens + d->from;
    const int n = d->to - d->from;
    char *text = vo_tokenizer_decode(t->plan->session->model->tokenizer, tokens, n);
    if (!text) return vo_fail(err, VO_ERR_MEMORY, "no memory for text");
    size_t length;
    vo_strip(text, &length);
    vo_status status = VO_OK;
    if (length > 0 && d->start != d->end) {
        for (int i = 0; i < d->n_words; i++) {
            d->words[i].start = within(t, d->words[i].start);
            d->words[i].end = within(t, d->words[i].end);
        }
        vocis_segment s = {
            .start = within(t, d->start),
            .end = within(t, d->end),
            .text = text,
            .tokens = tokens,
            .token_logprobs = t->decoded.logprobs + d->from,
            .n_tokens = n,
            .seek = t->seek,
            .temperature = (float)temperature_of(t),
            .avg_logprob = (float)t->decoded.avg_logprob,
            .compression_ratio = (float)t->compression_ratio,
            .no_speech_prob = t->no_speech,
            .words = d->words,
            .n_words = d->n_words,
            .speaker = -1,
            .language = vo_language_code(
                t->plan->ids->multilingual ? t->language - t->plan->ids->first_language : 0),
            .language_probability = t->language_probability,
            .recovered = t->plan->strict};
        status = vo_tokens_append(&t->all, s.tokens, s.n_tokens, err);
        if (status == VO_OK) status = vo_result_add(t->pending, &s, err);
    }
    vo_free(text);
    return status;
}

/* No pair of timestamps: the whole window is one segment. */
static double whole_duration(const vo_track *t) {
    for (int i = t->decoded.n_tokens - 1; i >= 0; i--) {
        if (!is_time(t, i)) continue;
        if (time_of(t, i) != 0) return (double)time_of(t, i) * VO_SECONDS_PER_TOKEN;
        break;
    }
    return (double)t->size * VO_SECONDS_PER_FRAME;
}

static vo_draft_segment draft_of(const vo_track *t, int from, int to, double start, double end) {
    vo_draft_segment d = {.from = from, .to = to, .start = start, .end = end};
    for (int i = from; i < to; i++) d.n_text += t->decoded.tokens[i] < t->plan->ids->eot;
    return d;
}

/* Segments of what was decoded, [n_tokens + 1] large, and where the window goes next. Returns how
 * many. */
static int draft_segments(const vo_track *t, vo_draft_segment *drafts, bool single_ending,
                          int64_t *next) {
    const double offset = (double)t->seek * VO_MEL_HOP / VOCIS_SAMPLE_RATE;
    const int n_tokens = t->decoded.n_tokens;
    int n = 0, from = 0;
    *next = t->seek + t->size;
    for (int i = 1; i <= n_tokens; i++) {
        bool cut = i < n_tokens ? is_time(t, i - 1) && is_time(t, i) : single_ending && from > 0;
        if (!cut) continue;
        drafts[n++] = draft_of(t, from, i, offset + (double)time_of(t, from) * VO_SECONDS_PER_TOKEN,
                               offset + (double)time_of(t, i - 1) * VO_SECONDS_PER_TOKEN);
        from = i;
    }
    if (n == 0) drafts[n++] = draft_of(t, 0, n_tokens, offset, offset + whole_duration(t));
    /* a pair at 0.00 moves nothing: the reference would decode this window for ever */
    if (from > 0 && !single_ending && time_of(t, from - 1) > 0)
        *next = t->seek + 2 * time_of(t, from - 1);
    return n;
}

/* A window that ends where the language changes is done with when no speech is left before that.
 * The next one then expects what this one has heard behind. */
static void finish_language(vo_track *t) {
    if (t->seek < t->cut &&
        vo_voice_seconds(t->plan->speech, (double)t->seek * VO_SECONDS_PER_FRAME,
                         (double)t->cut * VO_SECONDS_PER_FRAME) < NO_WORD)
        t->seek = t->cut;
    if (t->cut > 0 && t->seek >= t->cut) t->expected = t->after_cut;
}

/* Not where the caller has limited the text, or given its beginning: a prefix is no text of a
 * segment. */
static bool may_leave_out(const vo_track *t) {
    const int limit = t->plan->params->max_tokens;
    return t->plan->again && !t->plan->prefix.n && (limit == 0 || t->decoded.n_tokens < limit);
}

/* A stretch between pauses is left as the timestamps say: words that end before it are no reason to
 * decode its end once more. */
static bool is_sliding(const vo_track *t) {
    return t->plan->params->chunking == VOCIS_CHUNK_SEQUENTIAL && !t->plan->strict;
}

/* Asks for the times of words because a segment seems to leave speech out, and keeps no others; or
 * because the times cannot be right, and keeps all. */
static vo_status ask_for_words(vo_track *t, vo_word_window *window, vo_draft_segment *drafts,
                               int *n, vo_error *err) {
    vo_word_list words = {0};
    bool any = false, wrong = false;
    for (int i = 0; i < *n; i++) wrong |= vo_is_dense(t->plan->voice, &drafts[i]);
    for (int i = 0; i < *n; i++) {
        drafts[i].whole = !wrong && !vo_is_sparse(t->plan->voice, &drafts[i]);
        any |= !drafts[i].whole;
    }
    if (!any) return VO_OK;
    const vo_status status = vo_words_add(t, window, drafts, *n, &words, err);
    if (status == VO_OK && wrong && is_sliding(t)) vo_words_follow(window, drafts, n);
    if (status == VO_OK)
        vo_words_part(t->plan->voice, &words, t->decoded.tokens, t->plan->ids->eot, drafts, n);
    for (int i = 0; i < *n; i++) {
        drafts[i].words = NULL;
        drafts[i].n_words = 0;
    }
    vo_word_list_free(&words);
    return status;
}

/* What is left of a stretch between pauses is decoded alone: it must not begin in the middle of a
 * word, as timestamps would have it that are only about right. */
static int64_t between_words(const vo_track *t, int64_t next) {
    const double time = (double)next * VO_SECONDS_PER_FRAME;
    if (t->plan->params->chunking != VOCIS_CHUNK_SPEECH || next >= t->seek + t->size) return next;
    const double quietest =
        vo_voice_quietest(t->plan->speech, time - ABOUT_RIGHT, time + ABOUT_RIGHT);
    const int64_t frame = (int64_t)(quietest / VO_SECONDS_PER_FRAME);
    return frame > t->seek && frame < t->seek + t->size ? frame : next;
}

static vo_status split_window(vo_track *t, vo_error *err) {
    const vocis_transcribe_params *p = t->plan->params;
    const int n_tokens = t->decoded.n_tokens;
    const bool parts = may_leave_out(t);
    t->state = VO_TRACK_COVER;
    if (is_silence(t)) {
        t->seek += t->size;
        finish_language(t);
        return VO_OK;
    }
    vo_word_window window = {.seek = t->seek,
                             .size = t->size,
                             .window_frames = t->plan->window_frames,
                             .first = t->first,
                             .last = t->last,
                             .last_speech = t->last_speech,
                             .single_ending = n_tokens >= 2 && is_time(t, n_tokens - 1) &&
                                              !is_time(t, n_tokens - 2),
                             .threshold = (double)p->hallucination_silence_threshold};
    vo_word_list words = {0};
    vo_draft_segment *drafts = vo_alloc_array((size_t)n_tokens + 1, sizeof *drafts);
    if (!drafts) return vo_fail(err, VO_ERR_MEMORY, "no memory for segments");
    int n = draft_segments(t, drafts, window.single_ending, &window.next);
    vo_status status = VO_OK;
    if (p->word_timestamps) {
        status = vo_words_add(t, &window, drafts, n, &words, err);
        if (status == VO_OK && (is_sliding(t) || !isnan(window.threshold)))
            vo_words_follow(&window, drafts, &n);
        t->last_speech = window.last_speech;
        if (status == VO_OK && parts)
            vo_words_part(t->plan->voice, &words, t->decoded.tokens, t->plan->ids->eot, drafts, &n);
    } else if (parts) {
        status = ask_for_words(t, &window, drafts, &n, err);
    }
    for (int i = 0; status == VO_OK && i < n; i++) status = add_segment(t, &drafts[i], err);
    t->seek = between_words(t, window.next);
    finish_language(t);
    if (!window.again && (!p->condition_on_previous_text || temperature_of(t) > 0.5))
        t->prompt_reset_since = t->all.n;
    vo_word_list_free(&words);
    vo_free(drafts);
    return status;
}

/* ---- COVER -------------------------------------------------------------------------------- */

/* What the window has found is all there now. Without a voice its order is the reference's. */
static void settle(vo_track *t) {
    if (t->plan->voice) vo_result_sort(t->pending, 0);
    for (int i = 0; i < t->pending->n_segments; i++)
        t->covered = fmax(t->covered, t->pending->segments[i].end);
}

vo_status vo_track_keep(vo_track *t, vo_error *err) {
    settle(t);
    vo_mutex_lock(t->result_mutex);
    const bool any = t->pending->n_segments > 0;
    const vo_status status = vo_result_move(t->result, t->pending, err);
    vo_mutex_unlock(t->result_mutex);
    if (any && status == VO_OK && t->on_added) t->on_added(t->added_user);
    return status;
}

static vo_status start_hole(vo_track *t, vo_error *err) {
    const vo_track_plan *again = t->plan->again;
    vocis_span hole = t->holes[t->hole++];
    hole.start = vo_look_onset(t, hole.start);
    const int64_t start = (int64_t)floor(hole.start / VO_SECONDS_PER_FRAME) - again->around,
                  end = (int64_t)ceil(hole.end / VO_SECONDS_PER_FRAME) + again->around;
    const int64_t clip[2] = {start > 0 ? start : 0, min64(end, t->plan->content_frames)};
    vo_status status = vo_track_create(again, clip, 1, &t->sub, err);
    if (status != VO_OK) return status;
    t->sub->parent = t;
    t->sub->asked = hole;
    t->sub->index = t->index;
    t->sub->lane = t->lane;
    t->sub->result = t->pending;
    t->sub->result_mutex = t->result_mutex;
    t->sub->quiet = again->around;
    t->sub->first = clip[0];
    t->sub->last = clip[1];
    t->sub->last_speech = hole.start;
    t->sub->language = t->sub->expected = t->language;
    t->sub->language_probability = t->language_probability;
    return VO_OK;
}

/* Returns with t->sub where there is a hole to be decoded, or in SEEK. */
static vo_status cover_window(vo_track *t, vo_error *err) {
    const vo_track_plan *plan = t->plan;
    vo_status status = VO_OK;
    if (plan->voice && !t->judged) {
        status = vo_look_judge(t, err);
        if (status == VO_OK && plan->again) status = vo_look_find_holes(t, err);
        t->judged = true;
    }
    if (status == VO_OK && t->hole < t->n_holes) return start_hole(t, err);
    if (status == VO_OK && t->n_holes > 0) {
        status = vo_look_drop_misplaced(t, err);
        vo_look_unstretch(t);
    }
    vo_free(t->holes);
    t->holes = NULL;
    t->n_holes = t->hole = 0;
    t->judged = false;
    t->state = VO_TRACK_SEEK;
    settle(t);
    if (status == VO_OK && plan->journal) status = vo_track_record(t, err);
    return status == VO_OK ? vo_track_keep(t, err) : status;
}

/* ---- the machine -------------------------------------------------------------------------- */

/* Goes on with the track of a hole until it needs the model; NULL when that is done. */
static vo_status next_in_hole(vo_track *t, const vo_lm_input **inputs, int *n, vo_error *err) {
    const vo_status status = vo_track_next(t->sub, inputs, n, err);
    if (status == VO_OK && *n == 0) {
        vo_counts_add(&t->counts, &t->sub->counts);
        vo_track_destroy(t->sub);
        t->sub = NULL;
    }
    return status;
}

vo_status vo_track_next(vo_track *t, const vo_lm_input **inputs, int *n, vo_error *err) {
    vo_status status = VO_OK;
    *n = 0;
    while (status == VO_OK) {
        if (t->sub) {
            status = next_in_hole(t, inputs, n, err);
            if (t->sub) return status;
        }
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
        case VO_TRACK_COVER:
            status = cover_window(t, err);
            break;
        case VO_TRACK_FINISHED:
            return VO_OK;
        }
    }
    return status;
}

void vo_track_take(vo_track *t, float *const *logits) {
    if (t->sub) {
        vo_track_take(t->sub, logits);
    } else if (t->state == VO_TRACK_START) {
        take_start(t, logits[0]);
        t->start.n_tokens = 0; /* fed */
    } else {
        vo_decode_take(t->lane->decoder, logits);
    }
}
