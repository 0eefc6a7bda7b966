/* SPDX-License-Identifier: MIT
 *
 * Transcription of a whole input, as a state machine:
 *
 *     COLLECT -> LANGUAGE -> CUT -> RUN -> FINISHED
 *
 * CUT makes tracks (track.h): one, or one for every chunk between pauses. RUN drives as many
 * tracks at a time as the session has lanes: it asks each what the model must be fed, feeds all of
 * it in one step, hands the logits back, and gives the lane of a finished track to the next. A
 * track never sees its neighbours, so its result is the same in any company. Results leave in
 * the order of the input. The spectrogram's clamp depends on the whole input, so all of it is made
 * first; the samples, twice as large, are not needed after CUT.
 */
#include "base/clock.h"
#include "base/memory.h"
#include "pipeline/chunks.h"
#include "pipeline/track.h"
#include "text/text.h"

#include <math.h>
#include <string.h>

typedef enum state { COLLECT, LANGUAGE, CUT, RUN, FINISHED } state;

typedef struct job {
    state state;
    vo_track_plan plan;
    const float *samples; /* NULL after CUT */
    int64_t n_samples;
    float **owned; /* they can go then; may be NULL */
    vocis_result *result;
    int64_t *clips; /* start, end, start, end ... in frames */
    int n_clips;

    vo_chunk *chunks; /* one for every track; NULL: one track over the clips */
    int n_tracks, started, reported;
    vo_track **tracks;      /* [n_tracks] */
    vocis_result **waiting; /* [n_tracks] of tracks that are not the first unfinished one */
    int *lane_track;        /* [max_windows] index of the track in a lane, or -1 */
    int *lane_first;        /* [max_windows] its first feed in this step, or -1 */
    float *const *logits;   /* of this step */
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
    j->state = LANGUAGE;
    return status;
}

/* ---- LANGUAGE ----------------------------------------------------------------------------- */

static vo_status choose_language(job *j) {
    int index = 0;
    vo_status status = VO_OK;
    float probabilities[128] = {0};
    j->result->language_probability = 1;
    if (j->plan.params->language) {
        index = vo_language_find(j->plan.params->language);
        if (index < 0)
            return vo_fail(j->err, VO_ERR_ARGUMENT, "the language \"%s\" is not known",
                           j->plan.params->language);
        if (!j->plan.ids->multilingual && index != 0)
            return vo_fail(j->err, VO_ERR_ARGUMENT, "this model knows English only");
        if (j->plan.ids->multilingual && index >= j->plan.ids->n_languages)
            return vo_fail(j->err, VO_ERR_ARGUMENT, "this model does not know the language \"%s\"",
                           j->plan.params->language);
    } else if (j->plan.ids->multilingual && j->plan.content_frames > 0) {
        /* The first 30 s of the padded spectrogram, so that silence is silence, not 0. */
        status = vo_encode_frames(&j->plan, 0, j->plan.window_frames, 0, j->err);
        if (status == VO_OK)
            status = vo_language_of_window(j->plan.session, probabilities, &index, j->err);
        j->result->language_probability = probabilities[index];
        j->result->language_detected = true;
        j->plan.first_encoded = j->plan.content_frames >= j->plan.window_frames;
    }
    if (!j->plan.ids->multilingual && j->plan.params->task == VOCIS_TRANSLATE)
        return vo_fail(j->err, VO_ERR_ARGUMENT, "an English-only model cannot translate");
    j->plan.language = j->plan.ids->first_language + index;
    j->result->language =
        j->plan.ids->multilingual && !j->plan.params->language && j->plan.content_frames == 0
            ? NULL
            : vo_language_code(index);
    j->state = CUT;
    return status;
}

/* ---- CUT ---------------------------------------------------------------------------------- */

static vo_status cut(job *j) {
    const vo_track_plan *plan = &j->plan;
    const vocis_session *s = plan->session;
    vo_status status = VO_OK;
    double begin = vo_clock_seconds();
    j->state = RUN;
    j->n_tracks = 1;
    if (plan->params->chunking == VOCIS_CHUNK_SPEECH && plan->content_frames > 0) {
        status = vo_chunks_find(s->model->engine, j->samples, j->n_samples, plan->window_frames,
                                &j->chunks, &j->n_tracks, j->err);
        j->result->timings.cut += vo_clock_seconds() - begin;
        if (status == VO_OK && j->n_tracks == 0) {
            j->n_tracks = 1; /* music or a whisper may still hold words */
            if (plan->params->on_warning)
                plan->params->on_warning(plan->params->user,
                                         "no speech was detected; the input is read as a whole");
        }
    }
    if (status != VO_OK) return status;
    if (j->owned) {
        vo_free(*j->owned);
        *j->owned = NULL;
    }
    j->samples = NULL;
    const size_t n = (size_t)j->n_tracks, lanes = (size_t)s->max_windows;
    j->tracks = vo_alloc_array(n, sizeof *j->tracks);
    j->waiting = vo_alloc_array(n, sizeof *j->waiting);
    j->lane_track = vo_alloc_array(lanes, sizeof *j->lane_track);
    j->lane_first = vo_alloc_array(lanes, sizeof *j->lane_first);
    if (!j->tracks || !j->waiting || !j->lane_track || !j->lane_first)
        return vo_fail(j->err, VO_ERR_MEMORY, "no memory for %d stretches of audio", j->n_tracks);
    for (size_t i = 0; i < lanes; i++) j->lane_track[i] = -1;
    return VO_OK;
}

/* ---- RUN ---------------------------------------------------------------------------------- */

static vo_status start_track(job *j, int lane) {
    const int i = j->started++;
    const bool first = i == j->reported;
    const vo_chunk *chunk = j->chunks ? j->chunks + i : NULL;
    const int64_t one[2] = {chunk ? chunk->start : 0, chunk ? chunk->end : 0};
    if (!first) {
        j->waiting[i] = vo_result_create();
        if (!j->waiting[i]) return vo_fail(j->err, VO_ERR_MEMORY, "no memory for a result");
    }
    vo_status status = vo_track_create(&j->plan, chunk ? one : j->clips, chunk ? 1 : j->n_clips,
                                       first ? j->result : j->waiting[i], &j->tracks[i], j->err);
    if (status != VO_OK) return status;
    j->tracks[i]->lane = &j->plan.session->lanes[lane];
    j->tracks[i]->live = first;
    if (chunk) j->tracks[i]->quiet = chunk->quiet;
    j->lane_track[lane] = i;
    return VO_OK;
}

/* Segments that waited for their turn become part of the result. */
static vo_status report_waiting(job *j, int i) {
    vocis_result *from = j->waiting[i];
    vo_status status = VO_OK;
    for (int k = 0; from && status == VO_OK && k < from->n_segments; k++) {
        status = vo_result_add(j->result, &from->segments[k], j->err);
        if (status == VO_OK && j->plan.params->on_segment)
            j->plan.params->on_segment(j->plan.params->user,
                                       &j->result->segments[j->result->n_segments - 1]);
    }
    vo_result_destroy(from);
    j->waiting[i] = NULL;
    return status;
}

/* The first unfinished track reports as it goes, those behind it wait. */
static vo_status report(job *j) {
    vo_status status = VO_OK;
    while (status == VO_OK && j->reported < j->started) {
        vo_track *t = j->tracks[j->reported];
        if (!t->live) {
            status = report_waiting(j, j->reported);
            t->result = j->result;
            t->live = true;
        }
        if (t->state != VO_TRACK_FINISHED) break;
        vo_track_destroy(t);
        j->tracks[j->reported++] = NULL;
    }
    return status;
}

static void report_progress(const job *j) {
    int64_t done = j->plan.content_frames;
    if (!j->plan.params->on_progress) return;
    if (j->reported < j->started)
        done = j->tracks[j->reported]->seek < done ? j->tracks[j->reported]->seek : done;
    else if (j->reported < j->n_tracks)
        done = j->chunks[j->reported].start;
    j->plan.params->on_progress(j->plan.params->user, (double)done * VO_SECONDS_PER_FRAME,
                                j->result->duration);
}

/* What one lane wants to be fed, at feeds[*n]. A finished track makes room for the next. */
static vo_status gather_lane(job *j, int lane, int *n) {
    j->lane_first[lane] = -1;
    for (;;) {
        if (j->lane_track[lane] < 0) {
            if (j->started == j->n_tracks) return VO_OK;
            vo_status status = start_track(j, lane);
            if (status != VO_OK) return status;
        }
        vo_track *t = j->tracks[j->lane_track[lane]];
        const vo_lm_input *inputs;
        int count;
        vo_status status = vo_track_next(t, &inputs, &count, j->err);
        if (status != VO_OK) return status;
        if (count > 0) {
            j->lane_first[lane] = *n;
            *n += vo_lane_feeds(t->lane, inputs, count, t->lane->session->feeds + *n);
            return VO_OK;
        }
        j->lane_track[lane] = -1;
        status = report(j);
        if (status != VO_OK) return status;
    }
}

static void take_lane(void *arg, int64_t lane, int thread) {
    const job *j = arg;
    if (j->lane_first[lane] >= 0)
        vo_track_take(j->tracks[j->lane_track[lane]], j->logits + j->lane_first[lane]);
}

static vo_status run(job *j) {
    const vocis_session *s = j->plan.session;
    const vocis_transcribe_params *p = j->plan.params;
    int n = 0;
    if (p->on_abort && p->on_abort(p->user)) return vo_fail(j->err, VO_ERR_ABORTED, "stopped");
    vo_status status = VO_OK;
    const int windows = j->result->timings.windows;
    for (int lane = 0; status == VO_OK && lane < s->max_windows; lane++)
        status = gather_lane(j, lane, &n);
    if (status != VO_OK) return status;
    if (windows != j->result->timings.windows || n == 0) report_progress(j);
    if (n == 0) {
        j->state = FINISHED;
        return VO_OK;
    }
    double begin = vo_clock_seconds();
    status = vo_whisper_step(s->state, s->feeds, n, &j->logits, j->err);
    if (status == VO_OK) vo_pool_run(s->model->engine->pool, s->max_windows, take_lane, j);
    j->result->timings.decode += vo_clock_seconds() - begin;
    return status;
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

static vo_status prepare(job *j) {
    const vocis_transcribe_params *p = j->plan.params;
    const vo_tokenizer *tokenizer = j->plan.session->model->tokenizer;
    vo_status status = check_params(j);
    if (status == VO_OK) status = set_clips(j);
    if (status == VO_OK) status = set_filters(j);
    if (status == VO_OK && p->initial_prompt)
        status = vo_encode_spaced(tokenizer, p->initial_prompt, &j->plan.initial, j->err);
    if (status == VO_OK && p->prefix)
        status = vo_encode_spaced(tokenizer, p->prefix, &j->plan.prefix, j->err);
    return status;
}

static vo_status step(job *j) {
    switch (j->state) {
    case COLLECT:
        return collect(j);
    case LANGUAGE:
        return choose_language(j);
    case CUT:
        return cut(j);
    case RUN:
        return run(j);
    case FINISHED:
        break;
    }
    return VO_OK;
}

/* Frees all but the result. What tracks had when a failure stopped them is kept, in order. */
static void end(job *j) {
    for (int i = j->reported; j->waiting && i < j->started; i++) report_waiting(j, i);
    for (int i = 0; j->tracks && i < j->n_tracks; i++) vo_track_destroy(j->tracks[i]);
    vo_free(j->tracks);
    vo_free(j->waiting);
    vo_free(j->lane_track);
    vo_free(j->lane_first);
    vo_free(j->chunks);
    vo_free(j->clips);
    vo_spectrogram_free(&j->plan.mel);
    vo_tokens_free(&j->plan.initial);
    vo_tokens_free(&j->plan.prefix);
    vo_tokens_free(&j->plan.suppress);
}

vo_status vo_transcribe(vocis_session *session, const float *samples, int64_t n_samples,
                        float **owned, const vocis_transcribe_params *params, vocis_result **result,
                        vo_error *err) {
    double begin = vo_clock_seconds();
    const vocis_model *model = session->model;
    vo_error local = {0};
    *result = NULL;
    if (n_samples < 0 || (n_samples > 0 && !samples))
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to transcribe");
    job j = {.samples = samples,
             .n_samples = n_samples,
             .owned = owned,
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
                             .duration = j.result->duration,
                             .timings = &j.result->timings};
    vo_status status = prepare(&j);
    while (status == VO_OK && j.state != FINISHED) status = step(&j);
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
