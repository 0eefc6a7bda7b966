/* SPDX-License-Identifier: MIT
 *
 * Transcription of a whole input, as a state machine:
 *
 *     COLLECT -> LISTEN -> LANGUAGE -> CUT -> RUN -> FINISHED
 *
 * LISTEN asks the voice detector where somebody speaks, CUT decides on tracks (track.h): one, or
 * one for every chunk between pauses. RUN has the workers of the session run them (run.h). The
 * spectrogram's clamp depends on the whole input, so all of it is made first; the samples, twice as
 * large, are not needed after CUT.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "pipeline/boost.h"
#include "pipeline/coverage.h"
#include "pipeline/language.h"
#include "pipeline/run.h"
#include "text/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum state { COLLECT, LISTEN, LANGUAGE, CUT, RUN, FINISHED } state;

typedef struct job {
    state state;
    vo_track_plan plan;
    const float *samples; /* NULL after CUT */
    int64_t n_samples;
    float **owned; /* they can go then; may be NULL */
    vocis_result *result;
    int64_t *clips; /* start, end, start, end ... in frames */
    int n_clips;

    vo_voice voice;                          /* what the voice detector says, if it was asked */
    vo_track_plan again[2];                  /* for speech that is left out: two more ways */
    vocis_transcribe_params again_params[2]; /* to decode it */
    int64_t quiet;    /* >= 0: the input is one chunk, so many frames at its end hold no speech */
    vo_chunk *chunks; /* one for every track; NULL: one track over the clips */
    int n_tracks;
    vo_error *err;
} job;

/* ---- COLLECT ------------------------------------------------------------------------------ */

static vo_status collect(job *j) {
    const vocis_model *model = j->plan.session->model;
    double begin = vo_clock_seconds();
    j->plan.content_frames = j->n_samples / VO_MEL_HOP;
    vo_status status = vo_spectrogram_create(
        model->mel, &model->engine->kernels, model->engine->pool, j->samples, j->n_samples,
        j->plan.window_frames * VO_MEL_HOP, &j->plan.mel, j->err);
    j->result->timings.mel += vo_clock_seconds() - begin;
    j->state = LISTEN;
    return status;
}

/* ---- LISTEN ------------------------------------------------------------------------------- */

static bool is_cut_at_pauses(const job *j) {
    return j->quiet < 0 && j->plan.params->chunking == VOCIS_CHUNK_SPEECH;
}

/* Without a voice detector all is as in the reference. */
static vo_status listen(job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    const bool each = p->languages && j->plan.allowed.n > 1;
    const double begin = vo_clock_seconds();
    j->state = LANGUAGE;
    if (j->plan.content_frames == 0 || !(is_cut_at_pauses(j) || p->guard || p->recover || each))
        return VO_OK;
    const vo_status status =
        vo_voice_find(j->plan.session->model->engine, j->samples, j->n_samples, &j->voice, j->err);
    if (p->guard || p->recover) j->plan.voice = &j->voice;
    j->plan.speech = &j->voice;
    j->plan.each = each;
    j->result->timings.cut += vo_clock_seconds() - begin;
    return status;
}

/* ---- LANGUAGE ----------------------------------------------------------------------------- */

/* The language of the input: that of all windows, or what those with their own begin with. */
static vo_status choose_language(job *j) {
    vo_track_plan *plan = &j->plan;
    vocis_result *r = j->result;
    int index = vo_language_only(&plan->allowed);
    vo_status status = VO_OK;
    r->language_probability = 1;
    if (index < 0 && plan->journal)
        r->language_detected = vo_journal_language(plan->journal, plan->ids->n_languages, &index,
                                                   &r->language_probability);
    if (index < 0 && plan->content_frames > 0) {
        status = vo_language_of_input(plan, j->voice.n ? &j->voice : NULL, &index,
                                      &r->language_probability, j->err);
        if (status == VO_OK && plan->journal)
            status = vo_journal_put_language(plan->journal, index, r->language_probability, j->err);
        r->language_detected = true;
    }
    if (status != VO_OK) return status;
    plan->language = plan->ids->first_language + (index < 0 ? 0 : index);
    plan->language_probability = r->language_probability;
    r->language = vo_language_code(index);
    j->state = CUT;
    return VO_OK;
}

/* ---- CUT ---------------------------------------------------------------------------------- */

/* Speech that the segments leave out is first decoded on its own, with nothing before it. What is
 * still missing then gets more room, and times if it had none, or none if it had some. */
static void plan_second_looks(job *j) {
    for (int i = 0; i < 2; i++) {
        vocis_transcribe_params *p = &j->again_params[i];
        vo_track_plan *plan = &j->again[i];
        *p = *j->plan.params;
        p->condition_on_previous_text = p->carry_initial_prompt = false;
        *plan = j->plan;
        plan->params = p;
        plan->initial = plan->prefix = (vo_token_list){0};
        plan->journal = NULL;
        plan->strict = true;
        plan->n_temperatures = 1; /* what needs more is not likely enough */
        plan->around = i == 0 ? 20 : 100;
        plan->again = i == 0 ? &j->again[1] : NULL;
    }
    j->again_params[1].without_timestamps = !j->plan.params->without_timestamps;
    j->plan.again = &j->again[0];
}

/* From the journal, if it knows. */
static vo_status find_chunks(job *j) {
    vo_journal *journal = j->plan.journal;
    bool found = false;
    vo_status status =
        journal ? vo_journal_chunks(journal, &found, &j->chunks, &j->n_tracks, j->err) : VO_OK;
    if (status != VO_OK || found) return status;
    status = vo_chunks_find(&j->voice, j->plan.window_frames, &j->chunks, &j->n_tracks, j->err);
    if (status == VO_OK && journal)
        status = vo_journal_put_chunks(journal, j->chunks, j->n_tracks, j->err);
    return status;
}

static vo_status cut(job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    const bool heard = j->voice.n > 0;
    vo_status status = VO_OK;
    double begin = vo_clock_seconds();
    j->state = RUN;
    j->n_tracks = 1;
    if (j->quiet >= 0) {
        j->chunks = vo_alloc(sizeof *j->chunks);
        if (!j->chunks) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for a chunk");
        *j->chunks = (vo_chunk){0, j->plan.content_frames, j->quiet};
    }
    j->plan.guard = heard && p->guard;
    if (heard && p->recover) plan_second_looks(j);
    if (heard && is_cut_at_pauses(j)) status = find_chunks(j);
    if (status != VO_OK) return status;
    if (j->n_tracks == 0) {
        j->n_tracks = 1; /* music or a whisper may still hold words */
        if (p->on_warning)
            p->on_warning(p->user, "no speech was detected; the input is read as a whole");
    }
    j->result->timings.cut += vo_clock_seconds() - begin;
    if (j->owned) {
        vo_free(*j->owned);
        *j->owned = NULL;
    }
    j->samples = NULL;
    return VO_OK;
}

/* ---- the machine -------------------------------------------------------------------------- */

static vo_status set_clips(job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    int n = p->clip_timestamps ? p->n_clip_timestamps : 0;
    if (n < 0) return vo_fail(j->err, VO_ERR_ARGUMENT, "%d clip timestamps are not possible", n);
    j->n_clips = n ? (n + 1) / 2 : 1;
    j->clips = vo_alloc_array((size_t)j->n_clips * 2, sizeof *j->clips);
    if (!j->clips) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for clips");
    j->clips[2 * j->n_clips - 1] = INT64_MAX;
    for (int i = 0; i < n; i++) {
        if (!(p->clip_timestamps[i] >= 0 && p->clip_timestamps[i] < 1e9))
            return vo_fail(j->err, VO_ERR_ARGUMENT, "a clip timestamp must be a number of seconds");
        j->clips[i] = (int64_t)nearbyint(p->clip_timestamps[i] / VO_SECONDS_PER_FRAME);
    }
    return VO_OK;
}

static vo_status check_params(job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    if (p->beam_size < 1 || p->beam_size > j->plan.session->max_sequences || p->best_of < 1 ||
        p->best_of > j->plan.session->max_sequences)
        return vo_fail(j->err, VO_ERR_ARGUMENT,
                       "beam_size and best_of must lie between 1 and %d here",
                       j->plan.session->max_sequences);
    if (!(p->temperature >= 0) || isinf(p->temperature) || !(p->patience > 0) || p->max_tokens < 0)
        return vo_fail(j->err, VO_ERR_ARGUMENT,
                       "temperature and max_tokens must not be negative, temperature finite, "
                       "patience above 0");
    if (p->chunking == VOCIS_CHUNK_SPEECH && p->clip_timestamps && p->n_clip_timestamps)
        return vo_fail(j->err, VO_ERR_ARGUMENT,
                       "clip timestamps and cutting at pauses exclude each other");
    if (!j->plan.ids->multilingual && p->task == VOCIS_TRANSLATE)
        return vo_fail(j->err, VO_ERR_ARGUMENT, "an English-only model cannot translate");
    j->plan.n_temperatures = 1;
    j->plan.temperatures[0] = p->temperature;
    if (p->temperature_increment > 0)
        for (int i = 1; i < VO_MAX_TEMPERATURES; i++) {
            /* The reference steps in doubles: 0, 0.2, 0.4, 0.6000000000000001 ... */
            double t = p->temperature + i * (nearbyint(p->temperature_increment * 1e6) / 1e6);
            if (t > 1.0 + 1e-6) break;
            j->plan.temperatures[j->plan.n_temperatures++] = t;
        }
    return VO_OK;
}

static vo_status set_filters(job *j) {
    const vo_tokenizer *tokenizer = j->plan.session->model->tokenizer;
    int32_t *space = NULL;
    int n = 0;
    vo_status status = vo_tokenizer_encode(tokenizer, " ", 1, &space, &n, j->err);
    for (int i = 0; status == VO_OK && i < n && i < 15; i++)
        j->plan.blank_ids[j->plan.blank.n_ids++] = space[i];
    vo_free(space);
    if (status != VO_OK) return status;
    j->plan.blank_ids[j->plan.blank.n_ids++] = j->plan.ids->eot;
    j->plan.blank.ids = j->plan.blank_ids;
    j->plan.blank.first_only = true;
    status =
        vo_parse_suppress(tokenizer, j->plan.params->suppress_tokens, &j->plan.suppress, j->err);
    j->plan.listed = (vo_suppress_filter){j->plan.suppress.ids, j->plan.suppress.n, false};
    j->plan.times = (vo_timestamp_filter){j->plan.ids->eot, j->plan.ids->no_timestamps,
                                          j->plan.ids->timestamp_begin, -1};
    if (j->plan.params->max_initial_timestamp >= 0 && j->plan.params->max_initial_timestamp < 1e6f)
        j->plan.times.max_initial_index =
            (int32_t)nearbyint(j->plan.params->max_initial_timestamp / VO_SECONDS_PER_TOKEN);
    return status;
}

/* What may not be what the caller wants. */
static void warn(const vocis_transcribe_params *p) {
    if (!p->on_warning) return;
    if (p->word_timestamps && p->task == VOCIS_TRANSLATE)
        p->on_warning(p->user, "times of words of a translation may not be reliable");
    if (!p->word_timestamps && !isnan(p->hallucination_silence_threshold))
        p->on_warning(p->user,
                      "hallucination_silence_threshold does nothing without word_timestamps");
}

static vo_status prepare(job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    const vo_tokenizer *tokenizer = j->plan.session->model->tokenizer;
    vo_status status = check_params(j);
    if (status == VO_OK) status = vo_language_allow(p, j->plan.ids, &j->plan.allowed, j->err);
    if (status == VO_OK) status = set_clips(j);
    if (status == VO_OK) status = set_filters(j);
    if (status == VO_OK)
        status = vo_boost_phrases(tokenizer, p->boost, p->n_boost, &j->plan.boost, j->err);
    if (status == VO_OK && p->initial_prompt)
        status = vo_encode_spaced(tokenizer, p->initial_prompt, &j->plan.initial, j->err);
    if (status == VO_OK && p->prefix)
        status = vo_encode_spaced(tokenizer, p->prefix, &j->plan.prefix, j->err);
    if (status == VO_OK) warn(p);
    if (status == VO_OK && p->journal)
        status =
            vo_journal_open(j->plan.session, j->samples, j->n_samples, p, &j->plan.journal, j->err);
    return status;
}

static vo_status run(job *j) {
    const vo_run all = {.plan = &j->plan,
                        .result = j->result,
                        .chunks = j->chunks,
                        .n_tracks = j->n_tracks,
                        .clips = j->clips,
                        .n_clips = j->n_clips};
    return vo_run_tracks(&all, j->err);
}

/* Where windows have languages of their own, that of most speech; none where nothing is said. */
static void sum_languages(const job *j) {
    vocis_result *r = j->result;
    double seconds[VO_MAX_LANGUAGES] = {0}, sums[VO_MAX_LANGUAGES] = {0};
    int best = -1;
    if (r->n_segments == 0 && r->language_detected && j->voice.n > 0) {
        r->language = NULL;
        r->language_probability = 0;
    }
    for (int i = 0; j->plan.each && i < r->n_segments; i++) {
        const vocis_segment *s = &r->segments[i];
        const int l = vo_language_find(s->language);
        if (l < 0) continue;
        seconds[l] += s->end - s->start;
        sums[l] += (s->end - s->start) * (double)s->language_probability;
        if (best < 0 || seconds[l] > seconds[best]) best = l;
    }
    if (best < 0 || best == vo_language_find(r->language)) return;
    r->language = vo_language_code(best);
    r->language_probability = (float)(sums[best] / seconds[best]);
}

/* Whether the caller has given the language or it was detected: it is that of all windows. */
static void warn_of_foreign(const job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    const int one = j->plan.language - j->plan.ids->first_language;
    const double *foreign = j->result->foreign;
    char sentence[240];
    int best = 0;
    for (int i = 0; i < VO_MAX_LANGUAGES; i++)
        if (foreign[i] > foreign[best]) best = i;
    if (!p->on_warning || !(foreign[best] > 0)) return;
    snprintf(sentence, sizeof sentence,
             "%.0f s of speech sound like %s and were decoded as %s, which may have translated "
             "them; languages %s,%s writes each in its own",
             foreign[best], vo_language_name(best), vo_language_name(one), vo_language_code(one),
             vo_language_code(best));
    p->on_warning(p->user, sentence);
}

/* Also after a failure: what was not reached is said so. */
static vo_status account(job *j) {
    vocis_span *asked = vo_alloc_array((size_t)j->n_clips + 1, sizeof *asked);
    vo_error err = {0};
    if (!asked) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for the account");
    for (int i = 0; i < j->n_clips; i++)
        asked[i] = (vocis_span){(double)j->clips[2 * i] * VO_SECONDS_PER_FRAME,
                                (double)j->clips[2 * i + 1] * VO_SECONDS_PER_FRAME};
    const vo_status status = vo_account(j->result, j->voice.n ? &j->voice : NULL, asked, j->n_clips,
                                        j->result->reached, &err);
    vo_free(asked);
    return status == VO_OK ? VO_OK : vo_fail(j->err, status, "%s", err.message);
}

static vo_status step(job *j) {
    switch (j->state) {
    case COLLECT:
        return collect(j);
    case LISTEN:
        return listen(j);
    case LANGUAGE:
        return choose_language(j);
    case CUT:
        return cut(j);
    case RUN:
        j->state = FINISHED;
        return run(j);
    case FINISHED:
        break;
    }
    return VO_OK;
}

/* Frees all but the result. */
static void end(job *j) {
    vo_journal_close(j->plan.journal);
    vo_free(j->chunks);
    vo_free(j->clips);
    vo_voice_free(&j->voice);
    vo_spectrogram_free(&j->plan.mel);
    vo_tokens_free(&j->plan.initial);
    vo_tokens_free(&j->plan.prefix);
    vo_tokens_free(&j->plan.suppress);
    vo_boost_destroy(j->plan.boost);
}

vocis_transcribe_params vo_transcribe_default_params(void) {
    return (vocis_transcribe_params){.task = VOCIS_TRANSCRIBE,
                                     .temperature_increment = 0.2f,
                                     .best_of = 5,
                                     .beam_size = 5,
                                     .patience = 1.0f,
                                     .length_penalty = NAN,
                                     .suppress_tokens = "-1",
                                     .suppress_blank = true,
                                     .condition_on_previous_text = true,
                                     .compression_ratio_threshold = 2.4f,
                                     .logprob_threshold = -1.0f,
                                     .no_speech_threshold = 0.6f,
                                     .max_initial_timestamp = 1.0f,
                                     .recover = true,
                                     .guard = true,
                                     .prepend_punctuations = "\"'\u201c\u00bf([{-",
                                     .append_punctuations =
                                         "\"'.\u3002,\uff0c!\uff01?\uff1f:\uff1a\u201d)]}\u3001",
                                     .hallucination_silence_threshold = NAN};
}

static vo_status transcribe(vocis_session *session, const float *samples, int64_t n_samples,
                            float **owned, int64_t quiet, const vocis_transcribe_params *params,
                            vocis_result **result, vo_error *err) {
    double begin = vo_clock_seconds();
    const vocis_model *model = session->model;
    vo_error local = {0};
    *result = NULL;
    if (n_samples < 0 || (n_samples > 0 && !samples))
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to transcribe");
    job j = {.samples = samples,
             .n_samples = n_samples,
             .owned = owned,
             .quiet = quiet,
             .err = &local,
             .result = vo_result_create()};
    if (!j.result) return vo_fail(err, VO_ERR_MEMORY, "no memory for a result");
    j.result->duration = (double)n_samples / VO_MEL_FRAMES_PER_SECOND / VO_MEL_HOP;
    j.result->task = params->task;
    j.result->settings = *params;
    j.plan = (vo_track_plan){.session = session,
                             .params = params,
                             .ids = vo_tokenizer_ids(model->tokenizer),
                             .window_frames = 2 * (int64_t)model->whisper->dims.n_audio_ctx,
                             .duration = j.result->duration};
    for (int i = 0; i < session->n_workers; i++) {
        session->workers[i].first_encoded = false;
        session->workers[i].timings = (vocis_timings){0};
    }
    vo_status status = prepare(&j);
    while (status == VO_OK && j.state != FINISHED) status = step(&j);
    if (j.clips) {
        const vo_status accounted = account(&j);
        sum_languages(&j);
        warn_of_foreign(&j);
        if (status == VO_OK) status = accounted;
    }
    end(&j);
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

vo_status vo_transcribe(vocis_session *session, const float *samples, int64_t n_samples,
                        float **owned, const vocis_transcribe_params *params, vocis_result **result,
                        vo_error *err) {
    return transcribe(session, samples, n_samples, owned, -1, params, result, err);
}

vo_status vo_transcribe_utterance(vocis_session *session, const float *samples, int64_t n_samples,
                                  int64_t quiet, const vocis_transcribe_params *params,
                                  vocis_result **result, vo_error *err) {
    return transcribe(session, samples, n_samples, NULL, quiet / VO_MEL_HOP, params, result, err);
}
