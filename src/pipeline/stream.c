/* SPDX-License-Identifier: MIT
 *
 * One thread and three queues: samples come in through a circle, listen.h says what of them to
 * decode, events go out through a list. The thread listens whenever it can, also between two steps
 * of a decode, so that it knows at once when something more urgent is due.
 *
 * The circle holds one utterance of full length and the backlog. In a live stream new samples
 * overwrite old ones, and the thread skips what it has lost; otherwise push waits.
 */
#include "pipeline/stream.h"

#include "base/clock.h"
#include "base/thread.h"
#include "models/silero/silero.h"
#include "pipeline/agree.h"
#include "pipeline/events.h"
#include "pipeline/listen.h"

#include <math.h>
#include <string.h>

enum {
    RATE = VOCIS_SAMPLE_RATE,
    WINDOW = VO_LISTEN_WINDOW,
    LONGEST = 30 * RATE - 2 * WINDOW, /* of an utterance */
    BATCH = 32,                       /* windows judged at a time */
    PIECE = RATE,                     /* samples pushed at a time */
    MOST_EVENTS = 4096,
    SOME_TOKENS = 16, /* of a partial text that invents some are enough */
    TOKENS_A_SECOND = 12,
    CONTEXT = 1000 /* bytes of text that condition what follows: more than half a text context */
};
static const double SURE = 0.8; /* a language detected with this probability stays */

_Static_assert((int)VO_LISTEN_WINDOW == (int)VO_SILERO_WINDOW, "windows are Silero's");

struct vocis_stream {
    vocis_session *session;
    vocis_stream_params params; /* its strings are owned */
    vo_thread *thread;
    vo_mutex *mutex; /* guards what follows */
    float *circle;   /* [capacity]; sample i of the stream at i % capacity */
    int64_t capacity, pushed;
    int64_t keep; /* samples before it are done with */
    bool finished, stop;
    vo_error err; /* what stopped the thread */
    vo_events events;

    /* of the thread alone */
    vo_listen listen;
    vo_silero *vad;
    vo_silero_state *vad_state;
    int64_t judged; /* samples that have a probability */
    float probabilities[BATCH];
    int n_probabilities, next_probability;
    float windows[BATCH * WINDOW];
    float *clip; /* [LONGEST + WINDOW] what is decoded */
    vo_job job;
    vo_agreement agreement;
    int64_t agreement_start; /* of the utterance it is about */
    vocis_result *ahead;     /* the result of the last job AHEAD */
    vo_utterance ahead_of;
    char *context;
    const char *language; /* NULL: not sure */
    int n_segments;
};

/* ---- parameters ---------------------------------------------------------------------------- */

vocis_stream_params vo_stream_default_params(void) {
    vocis_stream_params p = {.transcribe = vo_transcribe_default_params(),
                             .speech = {.threshold = 0.5f,
                                        .min_speech_ms = 200,
                                        .min_silence_ms = 500,
                                        .speech_pad_ms = 200,
                                        .max_speech_seconds = INFINITY},
                             .step = 0.5,
                             .live = true,
                             .max_backlog = 60};
    p.transcribe.condition_on_previous_text = false;
    return p;
}

enum { N_STRINGS = 7 };
static void list_strings(vocis_transcribe_params *p, const char **strings[N_STRINGS]) {
    strings[0] = &p->language;
    strings[1] = &p->suppress_tokens;
    strings[2] = &p->initial_prompt;
    strings[3] = &p->prefix;
    strings[4] = &p->prepend_punctuations;
    strings[5] = &p->append_punctuations;
    strings[6] = &p->languages;
}

static vo_status copy_params(vocis_stream *s, const vocis_stream_params *params, vo_error *err) {
    const char **from[N_STRINGS], **to[N_STRINGS];
    vocis_transcribe_params source = params->transcribe;
    bool good = true;
    s->params = *params;
    vocis_transcribe_params *p = &s->params.transcribe;
    list_strings(&source, from);
    list_strings(p, to);
    for (int i = 0; i < N_STRINGS; i++) {
        *to[i] = *from[i] ? vo_strdup(*from[i]) : NULL;
        good = good && (*to[i] || !*from[i]);
    }
    p->clip_timestamps = NULL;
    p->n_clip_timestamps = 0;
    p->chunking = VOCIS_CHUNK_SEQUENTIAL;
    p->journal = NULL;
    p->on_segment = NULL;
    p->on_progress = NULL;
    p->on_abort = NULL;
    p->on_warning = NULL;
    return good ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for parameters");
}

static void free_params(vocis_stream *s) {
    const char **strings[N_STRINGS];
    list_strings(&s->params.transcribe, strings);
    for (int i = 0; i < N_STRINGS; i++) vo_free((void *)*strings[i]);
}

static vo_status check(const vocis_stream_params *p, vo_error *err) {
    const vocis_speech_params *v = &p->speech;
    if (!(v->threshold > 0 && v->threshold <= 1))
        return vo_fail(err, VO_ERR_ARGUMENT, "a speech threshold lies between 0 and 1");
    if (v->min_silence_ms < 32 || v->min_silence_ms > 10000)
        return vo_fail(err, VO_ERR_ARGUMENT, "a pause of 32 to 10000 ms can end an utterance");
    if (v->speech_pad_ms < 0 || v->speech_pad_ms > v->min_silence_ms)
        return vo_fail(err, VO_ERR_ARGUMENT, "speech_pad_ms lies between 0 and min_silence_ms");
    if (v->min_speech_ms < 0 || v->min_speech_ms > 2000)
        return vo_fail(err, VO_ERR_ARGUMENT, "min_speech_ms lies between 0 and 2000");
    if (!(v->max_speech_seconds >= 5))
        return vo_fail(err, VO_ERR_ARGUMENT, "max_speech_seconds must be 5 or more");
    if (!(p->step == 0 || (p->step >= 0.1 && p->step <= 30)))
        return vo_fail(err, VO_ERR_ARGUMENT, "step is 0, or lies between 0.1 and 30 seconds");
    if (!(p->max_backlog >= 5 && p->max_backlog <= 3600))
        return vo_fail(err, VO_ERR_ARGUMENT, "max_backlog lies between 5 and 3600 seconds");
    return VO_OK;
}

static vo_listen_rules make_rules(const vocis_stream_params *p) {
    const vocis_speech_params *v = &p->speech;
    const int64_t ms = RATE / 1000;
    const double longest = (double)v->max_speech_seconds * RATE;
    return (vo_listen_rules){.threshold = (double)v->threshold,
                             .neg_threshold = fmax((double)v->threshold - 0.15, 0.01),
                             .min_speech = v->min_speech_ms * ms,
                             .min_silence = v->min_silence_ms * ms,
                             .pad = v->speech_pad_ms * ms,
                             .max_length = longest < LONGEST ? (int64_t)longest : LONGEST,
                             .step = p->live ? (int64_t)(p->step * RATE) : 0,
                             .ahead = p->live};
}

/* ---- listening, with the mutex held -------------------------------------------------------- */

static double seconds_of(int64_t samples) {
    return (double)samples / RATE;
}

static vo_status add_event(vocis_stream *s, vocis_event event) {
    event.heard = seconds_of(s->pushed);
    const vo_status status = vo_events_add(&s->events, &event, &s->err);
    vo_mutex_wake(s->mutex);
    return status;
}

/* Samples [from, from + n) of the stream. */
static void read_circle(const vocis_stream *s, int64_t from, int64_t n, float *out) {
    const int64_t at = from % s->capacity;
    const int64_t first = n < s->capacity - at ? n : s->capacity - at;
    memcpy(out, s->circle + at, (size_t)first * sizeof *out);
    memcpy(out + first, s->circle, (size_t)(n - first) * sizeof *out);
}

/* Probabilities of the next windows; none when there are no whole ones, the last one of all
 * excepted, which is filled up with silence. Gives the mutex away meanwhile. */
static vo_status judge(vocis_stream *s) {
    int64_t n = (s->pushed - s->judged) / WINDOW, have = n * WINDOW;
    if (n > BATCH) n = BATCH, have = n * WINDOW;
    if (n == 0 && s->finished && s->judged < s->pushed) n = 1, have = s->pushed - s->judged;
    s->n_probabilities = s->next_probability = 0;
    if (n == 0) return VO_OK;
    memset(s->windows, 0, (size_t)(n * WINDOW) * sizeof *s->windows);
    read_circle(s, s->judged, have, s->windows);
    vo_mutex_unlock(s->mutex);
    vo_error err = {0};
    const vo_status status = vo_silero_run(s->vad_state, s->windows, n, s->probabilities, &err);
    vo_mutex_lock(s->mutex);
    if (status != VO_OK) return vo_fail(&s->err, status, "%s", err.message);
    s->judged += n * WINDOW;
    s->n_probabilities = (int)n;
    return VO_OK;
}

/* How far the circle has overwritten what was pushed. */
static int64_t lost(const vocis_stream *s) {
    return s->pushed - s->capacity;
}

/* Listens to all there is. Without a live source to keep up with, only up to the next utterance, so
 * that what waits stays small. */
static vo_status hear(vocis_stream *s) {
    vo_status status = VO_OK;
    while (status == VO_OK && !s->stop) {
        if (!s->params.live && s->listen.n_closed > 0) break;
        if (s->next_probability == s->n_probabilities) {
            if (lost(s) > s->judged) break; /* skip() has to act first */
            status = judge(s);
            if (s->n_probabilities == 0) break;
        }
        int began;
        const double p = (double)s->probabilities[s->next_probability++];
        if (status == VO_OK) status = vo_listen_hear(&s->listen, p, &began, &s->err);
        if (status == VO_OK && began)
            status = add_event(s, (vocis_event){.kind = VOCIS_EVENT_SPEECH_START,
                                                .utterance = began,
                                                .start = seconds_of(s->listen.begin),
                                                .end = seconds_of(s->listen.heard)});
    }
    s->keep = vo_listen_needs(&s->listen);
    vo_mutex_wake(s->mutex);
    return status;
}

/* The circle has gone over something that was still needed: only the newest half of what may wait
 * is kept, so that this does not happen again at once. */
static vo_status skip(vocis_stream *s) {
    const int64_t from = vo_listen_needs(&s->listen);
    if (!s->params.live || lost(s) <= from) return VO_OK;
    const int64_t to = s->pushed - s->capacity / 2;
    if (s->judged < to) {
        vo_silero_reset(s->vad_state);
        s->judged = to;
        s->n_probabilities = s->next_probability = 0;
    }
    vo_listen_skip(&s->listen, to);
    return add_event(s, (vocis_event){.kind = VOCIS_EVENT_SKIPPED,
                                      .start = seconds_of(from),
                                      .end = seconds_of(to)});
}

/* ---- decoding ------------------------------------------------------------------------------ */

/* Between two steps of the model: listens, and stops for what is more urgent. */
static bool on_abort(void *user) {
    vocis_stream *s = user;
    vo_mutex_lock(s->mutex);
    const bool failed = s->params.live && hear(s) != VO_OK;
    const bool stop = s->stop || failed || vo_listen_is_stale(&s->listen, &s->job);
    vo_mutex_unlock(s->mutex);
    return stop;
}

static vo_status decode(vocis_stream *s, vocis_result **result, vo_error *err) {
    const vo_utterance *u = &s->job.utterance;
    vocis_transcribe_params p = s->params.transcribe;
    char *prompt = NULL, *prefix = NULL;
    int64_t quiet = u->quiet;
    if (s->language) p.language = s->language;
    if (s->context) {
        prompt = vo_format("%s%s", p.initial_prompt ? p.initial_prompt : "", s->context);
        p.initial_prompt = prompt;
    }
    if (s->job.kind == VO_JOB_PARTIAL) {
        const char *stable = s->agreement.stable ? s->agreement.stable : "";
        prefix = vo_format("%s%s", p.prefix ? p.prefix : "", stable);
        if (p.prefix || *stable) p.prefix = prefix;
        p.temperature_increment = 0;
        p.recover = p.guard = false; /* the final sees to it */
        p.beam_size = p.best_of = 1;
        p.without_timestamps = true; /* one window says it all */
        p.max_tokens = SOME_TOKENS + (int)((u->end - u->start) * TOKENS_A_SECOND / RATE);
        quiet = u->end - u->start;
    }
    p.on_abort = on_abort;
    p.user = s;
    vo_status status = VO_ERR_MEMORY;
    if ((s->context && !prompt) || (s->job.kind == VO_JOB_PARTIAL && !prefix))
        vo_fail(err, status, "no memory for text");
    else
        status =
            vo_transcribe_utterance(s->session, s->clip, u->end - u->start, quiet, &p, result, err);
    vo_free(prompt);
    vo_free(prefix);
    return status;
}

/* The end of all text so far, from a word on. A hot temperature breaks with it, as within a file.
 */
static vo_status add_context(vocis_stream *s, const vocis_result *r) {
    if (!s->params.transcribe.condition_on_previous_text || r->n_segments == 0) return VO_OK;
    const bool hot = r->segments[r->n_segments - 1].temperature > 0.5f;
    char *all = hot ? NULL : vo_format("%s %s", s->context ? s->context : "", r->text);
    if (!hot && !all) return vo_fail(&s->err, VO_ERR_MEMORY, "no memory for text");
    const size_t size = all ? strlen(all) : 0;
    if (size > CONTEXT) {
        const char *from = strchr(all + size - CONTEXT, ' ');
        if (from) memmove(all, from, strlen(from) + 1);
    }
    vo_free(s->context);
    s->context = all;
    return VO_OK;
}

/* The segments of an utterance, with times of the stream. Mutex held. */
static vo_status deliver(vocis_stream *s, const vo_utterance *u, const vocis_result *r) {
    const double offset = seconds_of(u->start);
    vo_status status = VO_OK;
    for (int i = 0; status == VO_OK && i < r->n_segments; i++) {
        vocis_segment segment = r->segments[i];
        segment.id = s->n_segments++;
        segment.start += offset;
        segment.end += offset;
        segment.seek += u->start / VO_MEL_HOP;
        for (int w = 0; w < segment.n_words; w++) { /* once: a result is delivered once */
            vocis_word *word = (vocis_word *)&segment.words[w];
            word->start += offset;
            word->end += offset;
        }
        status = add_event(s, (vocis_event){.kind = VOCIS_EVENT_FINAL,
                                            .utterance = u->id,
                                            .start = segment.start,
                                            .end = segment.end,
                                            .segment = &segment,
                                            .language = segment.language});
    }
    if (!s->params.transcribe.languages && r->language && r->language_detected &&
        (double)r->language_probability >= SURE)
        s->language = r->language;
    if (status == VO_OK) status = add_context(s, r);
    if (status == VO_OK)
        status = add_event(s, (vocis_event){.kind = VOCIS_EVENT_SPEECH_END,
                                            .utterance = u->id,
                                            .start = offset,
                                            .end = seconds_of(u->end - u->quiet)});
    return status;
}

/* Text that repeats itself is no hypothesis. */
static vo_status agree(vocis_stream *s, const vo_utterance *u, const vocis_result *r) {
    vo_buf text = {0};
    for (int i = 0; i < r->n_segments; i++)
        if (r->segments[i].compression_ratio > s->params.transcribe.compression_ratio_threshold)
            return VO_OK;
    vo_buf_puts(&text, "");
    for (int i = 0; i < r->n_segments; i++) vo_buf_puts(&text, r->segments[i].text);
    vo_status status = VO_ERR_MEMORY;
    if (text.failed || !text.data)
        vo_fail(&s->err, status, "no memory for text");
    else
        status = vo_agree(&s->agreement, text.data, &s->err);
    vo_buf_free(&text);
    if (status != VO_OK) return status;
    return add_event(s, (vocis_event){.kind = VOCIS_EVENT_PARTIAL,
                                      .utterance = u->id,
                                      .start = seconds_of(u->start),
                                      .end = seconds_of(u->end),
                                      .stable = s->agreement.stable,
                                      .rest = s->agreement.rest});
}

static bool is_same(const vo_utterance *a, const vo_utterance *b) {
    return a->id == b->id && a->start == b->start && a->end == b->end;
}

/* What a job has found. Takes *result over. Mutex held. */
static vo_status finish_job(vocis_stream *s, vocis_result *result) {
    const vo_utterance *u = &s->job.utterance;
    vo_status status = VO_OK;
    if (s->job.kind == VO_JOB_AHEAD) {
        vo_result_destroy(s->ahead);
        s->ahead = result;
        s->ahead_of = *u;
    } else {
        status = s->job.kind == VO_JOB_FINAL ? deliver(s, u, result) : agree(s, u, result);
        vo_result_destroy(result);
    }
    vo_listen_done(&s->listen, &s->job);
    s->keep = vo_listen_needs(&s->listen);
    vo_mutex_wake(s->mutex);
    return status;
}

/* Mutex held, but not while the model works. */
static vo_status run_job(vocis_stream *s) {
    vo_utterance *u = &s->job.utterance;
    vocis_result *result = NULL;
    vo_error err = {0};
    if (u->end > s->pushed) u->end = s->pushed; /* the last window was filled up */
    if (s->job.kind == VO_JOB_FINAL && s->ahead && is_same(&s->ahead_of, u)) {
        result = s->ahead;
        s->ahead = NULL;
        return finish_job(s, result);
    }
    if (s->agreement_start != u->start) vo_agreement_clear(&s->agreement);
    s->agreement_start = u->start;
    read_circle(s, u->start, u->end - u->start, s->clip);
    vo_mutex_unlock(s->mutex);
    const vo_status status = decode(s, &result, &err);
    vo_mutex_lock(s->mutex);
    if (status == VO_OK) return finish_job(s, result);
    vo_result_destroy(result);
    if (status == VO_ERR_ABORTED) return s->err.status;
    return vo_fail(&s->err, status, "%s", err.message);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void work(void *arg) {
    vocis_stream *s = arg;
    bool flushed = false, ended = false;
    vo_status status = VO_OK;
    vo_mutex_lock(s->mutex);
    while (!s->stop && status == VO_OK && !ended) {
        if (s->events.n >= MOST_EVENTS) { /* somebody has to take some */
            vo_mutex_wait(s->mutex, 1);
            continue;
        }
        status = skip(s);
        if (status == VO_OK) status = hear(s);
        s->job = vo_listen_next(&s->listen);
        if (status != VO_OK) break;
        if (s->job.kind != VO_JOB_NONE) {
            status = run_job(s);
        } else if (!s->finished || s->judged < s->pushed) {
            if (!s->finished && s->judged + WINDOW > s->pushed) vo_mutex_wait(s->mutex, 1);
        } else if (!flushed) {
            status = vo_listen_end(&s->listen, s->pushed, &s->err);
            flushed = true;
        } else {
            status = add_event(s, (vocis_event){.kind = VOCIS_EVENT_END,
                                                .start = seconds_of(s->pushed),
                                                .end = seconds_of(s->pushed)});
            ended = true;
        }
    }
    s->stop = true;
    vo_mutex_wake(s->mutex);
    vo_mutex_unlock(s->mutex);
}

/* The session and the parameters are tried on nothing, so that what is wrong is said at once. */
static vo_status try_params(vocis_stream *s, vo_error *err) {
    vocis_result *result = NULL;
    const vo_status status =
        vo_transcribe_utterance(s->session, NULL, 0, 0, &s->params.transcribe, &result, err);
    vo_result_destroy(result);
    return status;
}

static vo_status create(vocis_stream *s, const vocis_stream_params *params, vo_error *err) {
    vo_status status = copy_params(s, params, err);
    if (status == VO_OK) status = check(params, err);
    if (status == VO_OK) status = try_params(s, err);
    if (status != VO_OK) return status;
    s->listen.rules = make_rules(params);
    s->agreement_start = -1;
    s->capacity = LONGEST + 2 * WINDOW + (int64_t)(params->max_backlog * RATE);
    s->circle = vo_alloc_array((size_t)s->capacity, sizeof *s->circle);
    s->clip = vo_alloc_array(LONGEST + WINDOW, sizeof *s->clip);
    s->mutex = vo_mutex_create();
    if (!s->circle || !s->clip || !s->mutex)
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a stream");
    status = vo_silero_load_builtin(&s->vad, err);
    if (status == VO_OK)
        status = vo_silero_state_create(s->vad, &s->session->model->engine->runtime, NULL,
                                        &s->vad_state, err);
    if (status != VO_OK) return status;
    s->thread = vo_thread_create(work, s, err);
    return s->thread ? VO_OK : VO_ERR_MEMORY;
}

vo_status vo_stream_create(vocis_session *session, const vocis_stream_params *params,
                           vocis_stream **out, vo_error *err) {
    vocis_stream *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for a stream");
    s->session = session;
    const vo_status status = create(s, params, err);
    if (status != VO_OK)
        vo_stream_destroy(s);
    else
        *out = s;
    return status;
}

void vo_stream_destroy(vocis_stream *s) {
    if (!s) return;
    if (s->thread) {
        vo_mutex_lock(s->mutex);
        s->stop = true;
        vo_mutex_wake(s->mutex);
        vo_mutex_unlock(s->mutex);
        vo_thread_join(s->thread);
    }
    vo_silero_state_destroy(s->vad_state);
    vo_silero_destroy(s->vad);
    vo_listen_free(&s->listen);
    vo_events_free(&s->events);
    vo_agreement_clear(&s->agreement);
    vo_result_destroy(s->ahead);
    vo_mutex_destroy(s->mutex);
    vo_free(s->context);
    vo_free(s->circle);
    vo_free(s->clip);
    free_params(s);
    vo_free(s);
}

/* ---- its owner ----------------------------------------------------------------------------- */

static vo_status fail_as_thread(const vocis_stream *s, vo_error *err) {
    return vo_fail(err, s->err.status, "%s", s->err.message);
}

/* Room for n samples, for which a stream that is not live waits. Mutex held. */
static vo_status make_room(vocis_stream *s, int64_t n, vo_error *err) {
    while (!s->params.live && !s->stop && s->pushed + n - s->keep > s->capacity) {
        if (s->events.n >= MOST_EVENTS)
            return vo_fail(err, VO_ERR_LIMIT, "%d events wait to be taken", s->events.n);
        vo_mutex_wait(s->mutex, 1);
    }
    return s->err.status == VO_OK ? VO_OK : fail_as_thread(s, err);
}

vo_status vo_stream_push(vocis_stream *s, const float *samples, int64_t n, vo_error *err) {
    if (n < 0 || (n > 0 && !samples))
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to push");
    vo_status status = VO_OK;
    vo_mutex_lock(s->mutex);
    if (s->finished) status = vo_fail(err, VO_ERR_ARGUMENT, "the stream is finished");
    for (int64_t done = 0; status == VO_OK && done < n;) {
        const int64_t piece = n - done < PIECE ? n - done : PIECE;
        status = make_room(s, piece, err);
        if (status != VO_OK) break;
        const int64_t at = s->pushed % s->capacity;
        const int64_t first = piece < s->capacity - at ? piece : s->capacity - at;
        memcpy(s->circle + at, samples + done, (size_t)first * sizeof *samples);
        memcpy(s->circle, samples + done + first, (size_t)(piece - first) * sizeof *samples);
        s->pushed += piece;
        done += piece;
        vo_mutex_wake(s->mutex);
    }
    vo_mutex_unlock(s->mutex);
    return status;
}

vo_status vo_stream_next(vocis_stream *s, double seconds, vocis_event *event, vo_error *err) {
    const double end = vo_clock_seconds() + (seconds > 0 ? seconds : 0);
    vo_status status = VO_OK;
    vo_mutex_lock(s->mutex);
    while (!vo_events_take(&s->events, event) && status == VO_OK) {
        const double left = end - vo_clock_seconds();
        if (s->err.status != VO_OK) status = fail_as_thread(s, err);
        if (status != VO_OK || !(left > 0)) break;
        vo_mutex_wait(s->mutex, left < 1 ? left : 1);
    }
    vo_mutex_wake(s->mutex);
    vo_mutex_unlock(s->mutex);
    return status;
}

void vo_stream_finish(vocis_stream *s) {
    vo_mutex_lock(s->mutex);
    s->finished = true;
    vo_mutex_wake(s->mutex);
    vo_mutex_unlock(s->mutex);
}
