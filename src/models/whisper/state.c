/* SPDX-License-Identifier: MIT
 *
 * One mutable set of caches and plans: one plan encodes a window and stores its keys and values,
 * one runs the decoder on up to TEXT_CAPACITY tokens, prompts and single steps alike. Their inputs
 * are the run-time parameters; nothing is allocated after creation. (Times of words have a third
 * plan: align.c.)
 */
#include "models/whisper/state.h"
#include "base/memory.h"

#include <string.h>

/* Tokens that the decoder takes in one run, or as many as there are rows. Longer prompts go in
 * pieces: each token's sums are the same in any company. */
enum { TEXT_CAPACITY = 64 };

static vo_status create_audio_plan(vo_whisper_state *s, vo_error *err) {
    const vo_whisper_dims *dims = &s->model->dims;
    vo_graph *g = vo_graph_create(err);
    if (!g) return VO_ERR_MEMORY;
    vo_graph_set_compute(g, s->model->compute);
    vo_array *outputs[1 + 2 * VO_WHISPER_MAX_LAYERS];
    int64_t t = dims->n_audio_ctx;
    vo_array *mel = vo_input(g, VO_F32, 2 * t, dims->n_mels, VO_PARAM_ROWS, 2 * t);
    vo_array *slots = vo_input(g, VO_I32, t, 0, VO_PARAM_ROWS, t);
    outputs[0] = vo_whisper_encoder(g, s->model, mel);
    vo_whisper_cross_store(g, s->model, s->cross, outputs[0], slots, outputs + 1);
    vo_status status =
        vo_plan_create(&s->runtime, g, outputs, 1 + 2 * dims->n_text_layer,
                       (vo_plan_params){.observer = s->model->observer}, &s->audio_plan, err);
    if (status != VO_OK) return status;
    s->mel = vo_plan_data(s->audio_plan, mel);
    s->audio = vo_plan_data(s->audio_plan, outputs[0]);
    s->audio_slots = vo_plan_data(s->audio_plan, slots);
    return VO_OK;
}

vo_graph *vo_whisper_text_graph(const vo_whisper_state *s, vo_error *err) {
    vo_graph *g = vo_graph_create(err);
    if (g) vo_graph_set_compute(g, s->model->compute);
    return g;
}

vo_whisper_text_inputs vo_whisper_make_inputs(const vo_kv *self, vo_graph *g, int n, int picked) {
    const int64_t cells = (int64_t)vo_kv_table_entries(self);
    return (vo_whisper_text_inputs){.tokens = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .positions = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .slots = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .row = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .length = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .window = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .audio_length = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
                                    .table = vo_input(g, VO_I32, cells, 0, VO_PARAM_NONE, 0),
                                    .picked = vo_input(g, VO_I32, picked, 0, VO_PARAM_OUT, 1),
                                    .max_length = vo_kv_max_length(self)};
}

void vo_whisper_find_inputs(vo_whisper_text_plan *p, const vo_whisper_text_inputs *in) {
    p->tokens = vo_plan_data(p->plan, in->tokens);
    p->positions = vo_plan_data(p->plan, in->positions);
    p->slots = vo_plan_data(p->plan, in->slots);
    p->row = vo_plan_data(p->plan, in->row);
    p->length = vo_plan_data(p->plan, in->length);
    p->window = vo_plan_data(p->plan, in->window);
    p->audio_length = vo_plan_data(p->plan, in->audio_length);
    p->picked = vo_plan_data(p->plan, in->picked);
    p->table = vo_plan_data(p->plan, in->table);
}

static vo_status create_text_plan(vo_whisper_state *s, vo_error *err) {
    vo_graph *g = vo_whisper_text_graph(s, err);
    if (!g) return VO_ERR_MEMORY;
    const vo_whisper_text_inputs in = vo_whisper_make_inputs(s->self, g, s->capacity, s->n_logits);
    vo_array *logits = vo_whisper_decoder(g, s->model, s->self, s->cross, &in);
    vo_status status =
        vo_plan_create(&s->runtime, g, &logits, 1, (vo_plan_params){.observer = s->model->observer},
                       &s->text.plan, err);
    if (status != VO_OK) return status;
    vo_whisper_find_inputs(&s->text, &in);
    s->logits = vo_alloc_array((size_t)s->n_logits, sizeof *s->logits);
    s->fed = vo_alloc_array((size_t)s->p.rows, sizeof *s->fed);
    if (!s->logits || !s->fed) return vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    float *out = vo_plan_data(s->text.plan, logits);
    for (int i = 0; i < s->n_logits; i++) s->logits[i] = out + i * logits->row_stride;
    return VO_OK;
}

/* The rows of a window share their prompt (at most n_text_ctx); a row's own part is what one
 * window can generate, half a context. */
static int self_slots(const vo_whisper_dims *dims, vo_whisper_state_params p) {
    int own = dims->n_text_ctx / 2 + 2, rows = p.rows / p.windows;
    if (own > dims->n_text_ctx) own = dims->n_text_ctx;
    return p.windows * (dims->n_text_ctx + (rows - 1) * own) + p.rows % p.windows * own;
}

vo_dtype vo_whisper_self_type(vo_compute compute) {
    return compute == VO_COMPUTE_F32 ? VO_F32 : VO_F16;
}

/* Reading keys and values of the audio is most of a step of many windows. */
static vo_dtype cross_type(vo_compute compute) {
    if (compute == VO_COMPUTE_F32) return VO_F32;
    return compute == VO_COMPUTE_BF16 ? VO_F16 : VO_I8;
}

vo_status vo_whisper_state_create(const vo_whisper *model, const vo_runtime *runtime,
                                  vo_whisper_state_params params, vo_whisper_state **out,
                                  vo_error *err) {
    const vo_whisper_dims *dims = &model->dims;
    if (params.rows < 1 || params.rows > VO_WHISPER_MAX_ROWS || params.windows < 1 ||
        params.windows > params.rows || params.ahead < 0 || params.ahead > VO_WHISPER_MAX_AHEAD)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "%d rows, %d windows and %d tokens ahead are not "
                       "possible",
                       params.rows, params.windows, params.ahead);
    if (params.heard && (!vo_whisper_same_dims(model, params.heard->model) ||
                         params.windows > params.heard->p.windows))
        return vo_fail(err, VO_ERR_ARGUMENT, "a model of another size hears something else");
    vo_whisper_state *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    s->model = model;
    s->runtime = *runtime;
    s->p = params;
    s->n_logits = params.rows + params.windows * params.ahead;
    s->capacity = s->n_logits > TEXT_CAPACITY ? s->n_logits : TEXT_CAPACITY;
    vo_kv_params self = {.layers = dims->n_text_layer,
                         .heads = dims->n_text_head,
                         .head_dim = dims->n_text_state / dims->n_text_head,
                         .rows = params.rows,
                         .max_length = dims->n_text_ctx,
                         .slots = self_slots(dims, params),
                         .dtype = vo_whisper_self_type(model->compute)};
    vo_kv_params cross = self;
    cross.dtype = cross_type(model->compute);
    cross.rows = params.windows;
    cross.max_length = dims->n_audio_ctx;
    cross.slots = 0;
    vo_status status = vo_kv_create(self, &s->self, err);
    if (params.heard)
        s->cross = params.heard->cross;
    else if (status == VO_OK)
        status = vo_kv_create(cross, &s->cross, err);
    if (status == VO_OK && !params.heard) status = create_audio_plan(s, err);
    if (status == VO_OK) status = create_text_plan(s, err);
    if (status != VO_OK)
        vo_whisper_state_destroy(s);
    else
        *out = s;
    return status;
}

void vo_whisper_state_destroy(vo_whisper_state *s) {
    if (!s) return;
    vo_plan_destroy(s->audio_plan);
    vo_plan_destroy(s->text.plan);
    vo_whisper_aligner_destroy(s->aligner);
    vo_whisper_listener_destroy(s->listener);
    vo_kv_destroy(s->self);
    if (!s->p.heard) vo_kv_destroy(s->cross);
    vo_free(s->logits);
    vo_free(s->fed);
    vo_free(s);
}

float *vo_whisper_mel(vo_whisper_state *s) {
    return s->mel;
}
const float *vo_whisper_audio(const vo_whisper_state *s) {
    return s->audio;
}
vo_kv *vo_whisper_cache(vo_whisper_state *s) {
    return s->self;
}

vo_status vo_whisper_encode(vo_whisper_state *s, int window, vo_error *err) {
    if (window < 0 || window >= s->p.windows || s->p.heard)
        return vo_fail(err, VO_ERR_ARGUMENT, "there is no audio window %d", window);
    int32_t t = s->model->dims.n_audio_ctx;
    for (int32_t i = 0; i < t; i++) s->audio_slots[i] = window * t + i;
    vo_plan_set(s->audio_plan, VO_PARAM_ROWS, 1);
    return vo_plan_run(s->audio_plan, err);
}

/* Tokens whose logits are wanted. */
static int wanted(const vo_whisper_feed *f) {
    return f->n_logits > 0 ? f->n_logits : 1;
}

vo_status vo_whisper_check_feed(const vo_whisper_state *s, const vo_whisper_feed *f,
                                vo_error *err) {
    if (f->row < 0 || f->row >= s->p.rows || f->window < 0 || f->window >= s->p.windows ||
        f->n_tokens < 1 || f->n_tokens > s->model->dims.n_text_ctx || f->n_logits > f->n_tokens)
        return vo_fail(err, VO_ERR_ARGUMENT, "row %d cannot take %d tokens", f->row, f->n_tokens);
    for (int i = 0; i < f->n_tokens; i++)
        if (f->tokens[i] < 0 || f->tokens[i] >= s->model->dims.n_vocab)
            return vo_fail(err, VO_ERR_ARGUMENT, "token %d is not in the vocabulary",
                           (int)f->tokens[i]);
    return VO_OK;
}

static vo_status check_feeds(const vo_whisper_state *s, const vo_whisper_feed *feeds, int n,
                             int *total, vo_error *err) {
    vo_status status = VO_OK;
    int n_logits = 0;
    *total = 0;
    if (n < 1 || n > s->p.rows) return vo_fail(err, VO_ERR_ARGUMENT, "%d rows in one step", n);
    for (int i = 0; status == VO_OK && i < n; i++) {
        status = vo_whisper_check_feed(s, &feeds[i], err);
        *total += feeds[i].n_tokens;
        n_logits += wanted(&feeds[i]);
    }
    if (status == VO_OK && n_logits > s->n_logits)
        return vo_fail(err, VO_ERR_ARGUMENT, "logits of %d tokens in one step", n_logits);
    return status;
}

vo_status vo_whisper_put_tokens(vo_whisper_state *s, const vo_whisper_text_plan *p,
                                const vo_whisper_feed *f, int from, int n, int at, vo_error *err) {
    int position = vo_kv_length(s->self, f->row);
    vo_status status = vo_kv_append(s->self, f->row, n, p->slots + at, err);
    for (int i = 0; status == VO_OK && i < n; i++, at++) {
        p->tokens[at] = f->tokens[from + i];
        p->positions[at] = position + i;
        p->row[at] = f->row;
        p->length[at] = position + i + 1;
        p->window[at] = f->window;
        p->audio_length[at] = s->model->dims.n_audio_ctx;
    }
    return status;
}

vo_status vo_whisper_run_text(vo_whisper_state *s, const vo_whisper_text_plan *p, int n_tokens,
                              int n_picked, vo_error *err) {
    memcpy(p->table, vo_kv_table(s->self), vo_kv_table_entries(s->self) * sizeof *p->table);
    vo_plan_set(p->plan, VO_PARAM_ROWS, n_tokens);
    vo_plan_set(p->plan, VO_PARAM_OUT, n_picked);
    return vo_plan_run(p->plan, err);
}

/* Runs leading tokens of the feeds, whose logits nobody asked for, until the rest fits one run.
 * fed[i] counts what row i has been given. */
static vo_status run_leading(vo_whisper_state *s, const vo_whisper_feed *feeds, int n_feeds,
                             int total, int *fed, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; i < n_feeds && status == VO_OK; i++) {
        while (status == VO_OK && total > s->capacity &&
               fed[i] + wanted(&feeds[i]) < feeds[i].n_tokens) {
            int n = feeds[i].n_tokens - fed[i] - wanted(&feeds[i]);
            if (n > s->capacity) n = s->capacity;
            if (n > total - s->capacity) n = total - s->capacity;
            status = vo_whisper_put_tokens(s, &s->text, &feeds[i], fed[i], n, 0, err);
            if (status == VO_OK) status = vo_whisper_run_text(s, &s->text, n, 0, err);
            fed[i] += n;
            total -= n;
        }
    }
    return status;
}

vo_status vo_whisper_step(vo_whisper_state *s, const vo_whisper_feed *feeds, int n_feeds,
                          float *const **logits, vo_error *err) {
    int total, at = 0, n_logits = 0, *fed = s->fed;
    vo_status status = check_feeds(s, feeds, n_feeds, &total, err);
    memset(fed, 0, (size_t)s->p.rows * sizeof *fed);
    if (status == VO_OK) status = run_leading(s, feeds, n_feeds, total, fed, err);
    for (int i = 0; i < n_feeds && status == VO_OK; i++) {
        int n = feeds[i].n_tokens - fed[i];
        status = vo_whisper_put_tokens(s, &s->text, &feeds[i], fed[i], n, at, err);
        at += n;
        for (int w = wanted(&feeds[i]); w > 0; w--) s->text.picked[n_logits++] = at - w;
    }
    if (status == VO_OK) status = vo_whisper_run_text(s, &s->text, at, n_logits, err);
    *logits = s->logits;
    return status;
}

bool vo_whisper_same_dims(const vo_whisper *a, const vo_whisper *b) {
    return memcmp(&a->dims, &b->dims, sizeof a->dims) == 0;
}

/* Bytes of so many weights of a layer, or of the token table. */
static int64_t weight_bytes(const vo_whisper *model, int64_t weights, bool table) {
    switch (model->compute) {
    case VO_COMPUTE_INT4: /* and two halves for a group of 32 */
        return table ? weights : weights / 2 + weights / 8;
    case VO_COMPUTE_INT8:
        return weights;
    case VO_COMPUTE_BF16:
        return weights * 2;
    default:
        return weights * (vo_weight_view(model->token_embedding)->dtype == VO_F16 ? 2 : 4);
    }
}

int64_t vo_whisper_step_bytes(const vo_whisper_state *s, int windows) {
    const vo_whisper_dims *dims = &s->model->dims;
    const int64_t d = dims->n_text_state, layers = dims->n_text_layer;
    /* A layer: 4 for self-attention, 2 for cross-attention (its keys and values were made with the
     * window), 8 for the feed-forward part. */
    const int64_t matrices = weight_bytes(s->model, 14 * d * d * layers, false) +
                             weight_bytes(s->model, dims->n_vocab * d, true);
    return matrices + windows * layers * 2 * dims->n_audio_ctx * d *
                          (int64_t)vo_dtype_get_info(cross_type(s->model->compute))->block_bytes;
}
