/* SPDX-License-Identifier: MIT
 *
 * Loading a model, making a session, and the adapter that lets decoding drive Whisper: the
 * three function pointers of decode/lm.h over one lane of a whisper state.
 */
#include "base/memory.h"
#include "pipeline/ahead.h"

#include <string.h>

static const char *const compute_names[] = {
    [VO_COMPUTE_F32] = "f32",
    [VO_COMPUTE_BF16] = "bf16",
    [VO_COMPUTE_INT8] = "int8",
    [VO_COMPUTE_INT4] = "int4",
};

const char *vo_compute_name(vo_compute compute) {
    return compute_names[compute];
}

/* auto takes what costs no words: bf16, where the processor multiplies it. */
static vo_status find_compute(const vocis_engine *engine, const char *name, vo_compute *compute,
                              vo_error *err) {
    *compute = vo_cpu_multiplies_bf16(engine->cpu_flags) ? VO_COMPUTE_BF16 : VO_COMPUTE_F32;
    if (!name || strcmp(name, "auto") == 0) return VO_OK;
    for (int i = 0; i < (int)(sizeof compute_names / sizeof *compute_names); i++) {
        *compute = (vo_compute)i;
        if (strcmp(name, compute_names[i]) == 0) return VO_OK;
    }
    return vo_fail(err, VO_ERR_ARGUMENT,
                   "the arithmetic \"%s\" is none of auto, f32, bf16, int8, int4", name);
}

vo_status vo_model_load(vocis_engine *engine, const char *path, const char *compute,
                        vocis_model **out, vo_error *err) {
    vo_compute chosen;
    if (find_compute(engine, compute, &chosen, err) != VO_OK) return VO_ERR_ARGUMENT;
    vo_weights *weights = NULL;
    vo_status status = vo_weights_open(path, &weights, err);
    if (status != VO_OK) return status;
    vocis_model *model = vo_alloc(sizeof *model);
    if (!model) {
        vo_weights_close(weights);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a model");
    }
    model->engine = engine;
    status = vo_whisper_load(weights, &model->whisper, err);
    if (status == VO_OK) model->whisper->compute = chosen;
    if (status == VO_OK)
        status = vo_tokenizer_create(model->whisper->dims.n_vocab, &model->tokenizer, err);
    if (status == VO_OK) {
        model->mel = vo_mel_create(model->whisper->dims.n_mels, err);
        if (!model->mel) status = err && err->status ? err->status : VO_ERR_MEMORY;
    }
    if (status != VO_OK)
        vo_model_destroy(model);
    else
        *out = model;
    return status;
}

void vo_model_destroy(vocis_model *model) {
    if (!model) return;
    vo_mel_destroy(model->mel);
    vo_tokenizer_destroy(model->tokenizer);
    vo_whisper_destroy(model->whisper);
    vo_free(model);
}

int vo_lane_feeds(const vo_lane *lane, const vo_lm_input *inputs, int n, vo_whisper_feed *feeds) {
    for (int i = 0; i < n; i++)
        feeds[i] = (vo_whisper_feed){.row = lane->first_row + inputs[i].row,
                                     .window = lane->window,
                                     .n_tokens = inputs[i].n_tokens,
                                     .tokens = inputs[i].tokens,
                                     .n_logits = inputs[i].n_logits};
    return n;
}

static vo_status lm_step(void *self, const vo_lm_input *inputs, int n, float *const **logits,
                         vo_error *err) {
    vo_lane *lane = self;
    vo_worker *w = lane->worker;
    if (n > lane->lm.max_rows) return vo_fail(err, VO_ERR_INTERNAL, "%d rows in one step", n);
    vo_lane_feeds(lane, inputs, n, w->feeds);
    return vo_whisper_step(w->state, w->feeds, n, logits, err);
}

static vo_status lm_fork(void *self, const int *parents, int n, vo_error *err) {
    vo_lane *lane = self;
    return vo_kv_fork(vo_whisper_cache(lane->worker->state), lane->first_row, lane->lm.max_rows,
                      parents, n, err);
}

static vo_status lm_rewind(void *self, int row, int length, vo_error *err) {
    vo_lane *lane = self;
    return vo_kv_truncate(vo_whisper_cache(lane->worker->state), lane->first_row + row, length,
                          err);
}

static vo_status create_lane(vo_worker *w, int index, vo_error *err) {
    const vocis_session *s = w->session;
    const vo_whisper_dims *dims = &s->model->whisper->dims;
    vo_lane *lane = &w->lanes[index];
    *lane = (vo_lane){.worker = w, .window = index, .first_row = index * s->max_sequences};
    lane->lm = (vo_lm){.self = lane,
                       .n_vocab = dims->n_vocab,
                       .max_rows = s->max_sequences,
                       .max_length = dims->n_text_ctx,
                       .step = lm_step,
                       .fork = lm_fork,
                       .rewind = lm_rewind};
    vo_status status = vo_ahead_begin_lane(lane, err);
    if (status != VO_OK) return status;
    lane->decoder = vo_decoder_create(&lane->lm, err);
    return lane->decoder ? VO_OK : VO_ERR_MEMORY;
}

/* Weights are prepared by all threads of the engine, whichever worker needs them first. */
static vo_status create_threads(vo_worker *w, int threads, vo_error *err) {
    const vocis_engine *engine = w->session->model->engine;
    w->pool = vo_pool_create(threads, err);
    if (!w->pool) return VO_ERR_MEMORY;
    return vo_runtime_share(&engine->runtime, w->pool, &w->runtime, err);
}

/* Lanes and threads are shared out evenly; the first workers get what remains. */
static vo_status create_worker(vocis_session *s, int index, int first_lane, int n_lanes,
                               vo_error *err) {
    const vocis_engine *engine = s->model->engine;
    const int all = vo_pool_threads(engine->pool), rows = n_lanes * s->max_sequences;
    vo_worker *w = &s->workers[index];
    *w = (vo_worker){.session = s, .lanes = s->lanes + first_lane, .n_lanes = n_lanes};
    w->feeds = vo_alloc_array((size_t)rows, sizeof *w->feeds);
    vo_status status = w->feeds ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    if (!s->crew) {
        w->pool = engine->pool;
        w->runtime = engine->runtime;
    } else if (status == VO_OK) {
        status = create_threads(w, all / s->n_workers + (index < all % s->n_workers), err);
    }
    const vo_whisper_state_params state = {
        .rows = rows, .windows = n_lanes, .ahead = vo_ahead_tokens(s)};
    if (status == VO_OK)
        status = vo_whisper_state_create(s->model->whisper, &w->runtime, state, &w->state, err);
    if (status == VO_OK) status = vo_ahead_begin(w, err);
    for (int i = 0; status == VO_OK && i < n_lanes; i++) status = create_lane(w, i, err);
    return status;
}

/* Every worker's step reads all weights of the decoder, as many bytes as the keys and values of six
 * windows: not worth it for a few windows or threads. */
static int count_workers(const vocis_session *s, int wanted) {
    enum { LEAST_LANES = 4, LEAST_THREADS = 4 };
    const int threads = vo_pool_threads(s->model->engine->pool), windows = s->max_windows;
    const int most = windows < threads ? windows : threads;
    if (wanted > 0) return wanted < most ? wanted : most;
    const int by_lanes = windows / LEAST_LANES, by_threads = threads / LEAST_THREADS;
    const int workers = by_lanes < by_threads ? by_lanes : by_threads;
    return workers > 1 ? workers : 1;
}

static vo_status create_workers(vocis_session *s, int wanted, vo_error *err) {
    s->n_workers = count_workers(s, wanted);
    s->lanes = vo_alloc_array((size_t)s->max_windows, sizeof *s->lanes);
    s->workers = vo_alloc_array((size_t)s->n_workers, sizeof *s->workers);
    if (!s->lanes || !s->workers) return vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    if (s->n_workers > 1 && !(s->crew = vo_pool_create(s->n_workers, err))) return VO_ERR_MEMORY;
    vo_status status = VO_OK;
    for (int i = 0, lane = 0; status == VO_OK && i < s->n_workers; i++) {
        const int n = s->max_windows / s->n_workers + (i < s->max_windows % s->n_workers);
        status = create_worker(s, i, lane, n, err);
        lane += n;
    }
    return status;
}

vo_status vo_session_create(vocis_model *model, vocis_session_params params, vocis_session **out,
                            vo_error *err) {
    if (params.max_sequences < 1 || params.max_sequences > VO_WHISPER_MAX_ROWS)
        return vo_fail(err, VO_ERR_ARGUMENT, "max_sequences must be between 1 and %d, not %d",
                       VO_WHISPER_MAX_ROWS, params.max_sequences);
    if (params.max_windows == 0) params.max_windows = 1;
    if (params.max_windows < 1 || params.max_windows > VO_WHISPER_MAX_ROWS / params.max_sequences)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "max_windows must be between 1 and %d with max_sequences %d, not %d",
                       VO_WHISPER_MAX_ROWS / params.max_sequences, params.max_sequences,
                       params.max_windows);
    if (params.max_workers < 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "max_workers must not be negative");
    vocis_session *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    s->model = model;
    s->max_sequences = params.max_sequences;
    s->max_windows = params.max_windows;
    vo_status status = vo_ahead_configure(s, &params, err);
    if (status == VO_OK) status = create_workers(s, params.max_workers, err);
    if (status != VO_OK)
        vo_session_destroy(s);
    else
        *out = s;
    return status;
}

void vo_session_destroy(vocis_session *s) {
    if (!s) return;
    for (int i = 0; s->lanes && i < s->max_windows; i++) vo_decoder_destroy(s->lanes[i].decoder);
    for (int i = 0; s->workers && i < s->n_workers; i++) {
        vo_worker *w = &s->workers[i];
        vo_ahead_end(w);
        vo_whisper_state_destroy(w->state);
        if (s->crew) {
            vo_runtime_destroy(&w->runtime);
            vo_pool_destroy(w->pool);
        }
        vo_free(w->feeds);
    }
    vo_pool_destroy(s->crew);
    vo_free(s->workers);
    vo_free(s->lanes);
    vo_free(s);
}
