/* SPDX-License-Identifier: MIT
 *
 * Every worker drives as many tracks at a time as it has lanes: it asks each what the model must be
 * fed, feeds all of it in one step, hands the logits back, and gives the lane of a finished track
 * to the next one nobody has begun. A track never sees its neighbours, so its result is the same in
 * any company. The calling thread is a worker too; between its steps, and when it has no track
 * left, it reports what all have found.
 */
#include "pipeline/run.h"

#include "base/clock.h"
#include "base/memory.h"

/* The track of one chunk. */
typedef struct place {
    vo_track *track;
    vocis_result *found; /* segments that were not reported yet */
    int64_t seek;        /* frames behind it are decided */
    bool finished;
} place;

typedef struct crew {
    const vo_run *run;
    place *places;   /* [n_tracks] */
    vo_mutex *mutex; /* guards all but the run and what the calling thread has for itself */
    int started, finished;
    vo_status status; /* the first failure; makes all stop */
    vo_error *err;
    /* of the calling thread */
    int reported; /* places before it are done with */
    int64_t progress;
    vo_status report_status;
} crew;

static void fail(crew *c, vo_status status, const vo_error *err) {
    vo_mutex_lock(c->mutex);
    if (c->status == VO_OK) {
        c->status = status;
        vo_fail(c->err, status, "%s", err->message);
    }
    vo_mutex_unlock(c->mutex);
}

static bool has_failed(crew *c) {
    vo_mutex_lock(c->mutex);
    const bool failed = c->status != VO_OK;
    vo_mutex_unlock(c->mutex);
    return failed;
}

/* ---- what the calling thread reports ------------------------------------------------------- */

/* Moves what a track has found to the result. Returns whether the track was finished then. */
static bool take_found(crew *c, place *p) {
    vo_error err = {0};
    vo_mutex_lock(c->mutex);
    const bool finished = p->finished;
    const vo_status status = vo_result_move(c->run->result, p->found, &err);
    vo_mutex_unlock(c->mutex);
    if (status == VO_OK) return finished;
    c->report_status = status;
    fail(c, status, &err);
    return false;
}

/* Segments of the first unfinished track leave as they come, those behind it wait. */
static void report(void *user) {
    crew *c = user;
    const vocis_transcribe_params *p = c->run->plan->params;
    vocis_result *result = c->run->result;
    bool finished = true;
    while (finished && c->reported < c->run->n_tracks) {
        place *at = &c->places[c->reported];
        vo_mutex_lock(c->mutex);
        const bool started = c->reported < c->started;
        vo_mutex_unlock(c->mutex);
        if (!started) break;
        int i = result->n_segments;
        finished = take_found(c, at);
        for (; p->on_segment && i < result->n_segments; i++)
            p->on_segment(p->user, &result->segments[i]);
        c->reported += finished;
    }
}

/* Frames before it are done with. */
static int64_t reached_frame(crew *c) {
    int64_t done = c->run->plan->content_frames;
    vo_mutex_lock(c->mutex);
    if (c->reported < c->started && c->places[c->reported].seek < done)
        done = c->places[c->reported].seek;
    else if (c->reported >= c->started && c->reported < c->run->n_tracks)
        done = c->run->chunks ? c->run->chunks[c->reported].start : 0;
    vo_mutex_unlock(c->mutex);
    return done;
}

static void report_progress(crew *c) {
    const vo_track_plan *plan = c->run->plan;
    const int64_t done = reached_frame(c);
    if (done == c->progress) return;
    c->progress = done;
    if (plan->params->on_progress)
        plan->params->on_progress(plan->params->user, (double)done * VO_SECONDS_PER_FRAME,
                                  c->run->result->duration);
}

/* ---- a worker ------------------------------------------------------------------------------ */

/* Gives the next track that nobody has begun to a lane; *track stays NULL when there is none. */
static vo_status start_track(crew *c, vo_lane *lane, vo_error *err) {
    const vo_run *run = c->run;
    vo_mutex_lock(c->mutex);
    const int i = c->started < run->n_tracks && c->status == VO_OK ? c->started : -1;
    vo_status status = VO_OK;
    if (i >= 0) {
        place *p = &c->places[i];
        const vo_chunk *chunk = run->chunks ? &run->chunks[i] : NULL;
        const int64_t one[2] = {chunk ? chunk->start : 0, chunk ? chunk->end : 0};
        p->found = vo_result_create();
        status = p->found ? vo_track_create(run->plan, chunk ? one : run->clips,
                                            chunk ? 1 : run->n_clips, &p->track, err)
                          : vo_fail(err, VO_ERR_MEMORY, "no memory for a result");
        if (status == VO_OK) {
            p->track->index = i;
            p->track->lane = lane;
            p->track->result = p->found;
            p->track->result_mutex = c->mutex;
            p->track->quiet = chunk ? chunk->quiet : 0;
            if (chunk) {
                p->track->first = chunk->start;
                p->track->last = chunk->end;
                p->track->last_speech = (double)chunk->start * VO_SECONDS_PER_FRAME;
            }
            if (run->plan->journal) status = vo_track_restore(p->track, err);
        }
        if (status == VO_OK) {
            p->seek = p->track->seek;
            if (lane->worker == run->plan->session->workers)
                p->track->on_added = report, p->track->added_user = c;
            lane->track = p->track;
            c->started++;
        } else { /* before anybody hears of it, another worker may try the same */
            vo_track_destroy(p->track);
            vo_result_destroy(p->found);
            *p = (place){0};
        }
    }
    vo_mutex_unlock(c->mutex);
    return status;
}

static void note_state(crew *c, vo_lane *lane) {
    place *p = &c->places[lane->track->index];
    const bool finished = lane->track->state == VO_TRACK_FINISHED;
    vo_mutex_lock(c->mutex);
    p->seek = lane->track->seek;
    p->finished = finished;
    if (finished) {
        c->finished++;
        vo_mutex_wake(c->mutex);
    }
    vo_mutex_unlock(c->mutex);
    if (finished) lane->track = NULL;
}

/* What one lane wants to be fed, at feeds[*n]. A finished track makes room for the next. */
static vo_status gather_lane(crew *c, vo_lane *lane, int *n, vo_error *err) {
    vo_status status = VO_OK;
    vo_worker *w = lane->worker;
    lane->first_logits = -1;
    while (status == VO_OK) {
        if (!lane->track) status = start_track(c, lane, err);
        if (status != VO_OK || !lane->track) break;
        const vo_lm_input *inputs;
        int count;
        status = vo_track_next(lane->track, &inputs, &count, err);
        if (status != VO_OK) break;
        note_state(c, lane);
        if (count > 0) {
            lane->first_logits = w->n_logits;
            for (int i = 0; i < count; i++)
                w->n_logits += inputs[i].n_logits > 0 ? inputs[i].n_logits : 1;
            *n += vo_lane_feeds(lane, inputs, count, w->feeds + *n);
            break;
        }
    }
    return status;
}

static void take_lane(void *arg, int64_t index, int thread) {
    const vo_worker *w = arg;
    vo_lane *lane = &w->lanes[index];
    if (lane->first_logits >= 0) vo_track_take(lane->track, w->logits + lane->first_logits);
}

static vo_status advance(crew *c, vo_worker *w, int *fed, vo_error *err) {
    vo_status status = VO_OK;
    *fed = w->n_logits = 0;
    for (int i = 0; status == VO_OK && i < w->n_lanes; i++)
        status = gather_lane(c, &w->lanes[i], fed, err);
    if (status != VO_OK || *fed == 0) return status;
    double begin = vo_clock_seconds();
    status = vo_whisper_step(w->state, w->feeds, *fed, &w->logits, err);
    if (status == VO_OK) vo_pool_run(w->pool, w->n_lanes, take_lane, w);
    w->timings.decode += vo_clock_seconds() - begin;
    return status;
}

/* For a calling thread without tracks: whether others still have some, after a short wait. */
static bool wait_for_others(crew *c) {
    const double seconds = 0.02; /* the caller may want to stop */
    vo_mutex_lock(c->mutex);
    const bool more = c->status == VO_OK && c->finished < c->run->n_tracks;
    if (more) vo_mutex_wait(c->mutex, seconds);
    vo_mutex_unlock(c->mutex);
    return more;
}

static void work(void *arg, int64_t tile, int thread) {
    crew *c = arg;
    const vocis_transcribe_params *p = c->run->plan->params;
    vo_worker *w = &c->run->plan->session->workers[thread];
    const bool calling = thread == 0;
    vo_error err = {0};
    while (!has_failed(c)) {
        int fed = 0;
        vo_status status = VO_OK;
        if (calling && p->on_abort && p->on_abort(p->user))
            status = vo_fail(&err, VO_ERR_ABORTED, "stopped");
        if (status == VO_OK) status = advance(c, w, &fed, &err);
        if (status != VO_OK) fail(c, status, &err);
        if (calling) {
            report(c);
            report_progress(c);
        }
        if (fed == 0 && !(calling && wait_for_others(c))) break;
    }
}

/* ---- all of them --------------------------------------------------------------------------- */

/* What tracks had when a failure stopped them is kept, in order. */
static void end(crew *c) {
    const vocis_session *s = c->run->plan->session;
    vocis_timings *sum = &c->run->result->timings;
    for (int i = 0; c->status != VO_OK && i < c->started; i++) {
        vo_error ignored = {0}; /* of the failures the first one counts */
        (void)vo_track_keep(c->places[i].track, &ignored);
    }
    report(c);
    const int64_t reached = reached_frame(c);
    c->run->result->reached = reached < c->run->plan->content_frames
                                  ? (double)reached * VO_SECONDS_PER_FRAME
                                  : c->run->result->duration; /* also what is less than a frame */
    while (c->report_status == VO_OK && c->reported < c->started) {
        c->places[c->reported].finished = true;
        report(c);
    }
    for (int i = 0; i < c->run->n_tracks; i++) {
        if (c->places[i].track) vo_counts_add(sum, &c->places[i].track->counts);
        vo_track_destroy(c->places[i].track);
        vo_result_destroy(c->places[i].found);
    }
    for (int i = 0; i < s->n_workers; i++) {
        const vocis_timings *t = &s->workers[i].timings;
        sum->mel += t->mel;
        sum->encode += t->encode;
        sum->decode += t->decode;
    }
}

vo_status vo_run_tracks(const vo_run *run, vo_error *err) {
    vocis_session *s = run->plan->session;
    crew c = {.run = run, .err = err, .progress = -1};
    c.places = vo_alloc_array((size_t)run->n_tracks, sizeof *c.places);
    c.mutex = vo_mutex_create();
    if (c.places && c.mutex) {
        for (int i = 0; i < s->max_windows; i++) s->lanes[i].track = NULL;
        vo_pool_run(s->crew, s->n_workers, work, &c);
        end(&c);
        if (c.status == VO_OK) report_progress(&c);
    } else {
        c.status =
            vo_fail(err, VO_ERR_MEMORY, "no memory for %d stretches of audio", run->n_tracks);
    }
    vo_mutex_destroy(c.mutex);
    vo_free(c.places);
    return c.status;
}
