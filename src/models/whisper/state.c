/* SPDX-License-Identifier: MIT
 *
 * One mutable set of caches and plans: a plan that encodes a window and stores its keys and
 * values, and two plans of the decoder, one for single steps and one for long prompts. Their
 * inputs are the run-time parameters; nothing is allocated after creation.
 */
#include "base/memory.h"
#include "models/whisper/whisper.h"

#include <string.h>

/* The decoder recorded for up to `capacity` tokens a run. */
typedef struct text_plan {
    vo_plan *plan;
    int capacity;
    int32_t *tokens, *positions, *slots, *row, *length, *window, *audio_length, *picked, *table;
    vo_array *logits;
} text_plan;

struct vo_whisper_state {
    const vo_whisper *model;
    vo_runtime runtime;
    vo_whisper_state_params p;
    vo_kv *self, *cross;
    vo_plan *audio_plan;
    float *mel, *audio;
    int32_t *audio_slots;
    text_plan step, prompt;
    float **logits; /* [rows] */
};

/* Prompts are at most n_text_ctx tokens; longer runs are not needed by any caller. */
enum { STEP_CAPACITY = 16 };

static vo_status create_audio_plan(vo_whisper_state *s, vo_error *err) {
    const vo_whisper_dims *dims = &s->model->dims;
    vo_graph *g = vo_graph_create(err);
    if (!g) return VO_ERR_MEMORY;
    vo_array *outputs[1 + 2 * VO_WHISPER_MAX_LAYERS];
    int64_t t = dims->n_audio_ctx;
    vo_array *mel = vo_input(g, VO_F32, 2 * t, dims->n_mels, VO_PARAM_ROWS, 2 * t);
    vo_array *slots = vo_input(g, VO_I32, t, 0, VO_PARAM_ROWS, t);
    outputs[0] = vo_whisper_encoder(g, s->model, mel);
    vo_whisper_cross_store(g, s->model, s->cross, outputs[0], slots, outputs + 1);
    vo_status status = vo_plan_create(&s->runtime, g, outputs, 1 + 2 * dims->n_text_layer,
                                      (vo_plan_params){0}, &s->audio_plan, err);
    if (status != VO_OK) return status;
    s->mel = vo_plan_data(s->audio_plan, mel);
    s->audio = vo_plan_data(s->audio_plan, outputs[0]);
    s->audio_slots = vo_plan_data(s->audio_plan, slots);
    return VO_OK;
}

static vo_status create_text_plan(vo_whisper_state *s, int capacity, text_plan *tp, vo_error *err) {
    vo_graph *g = vo_graph_create(err);
    if (!g) return VO_ERR_MEMORY;
    int64_t n = capacity;
    vo_whisper_text_inputs in = {
        .tokens = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .positions = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .slots = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .row = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .length = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .window = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .audio_length = vo_input(g, VO_I32, n, 0, VO_PARAM_ROWS, 1),
        .table = vo_input(g, VO_I32, (int64_t)vo_kv_table_entries(s->self), 0, VO_PARAM_NONE, 0),
        .picked = vo_input(g, VO_I32, s->p.rows, 0, VO_PARAM_OUT, 1),
        .max_length = vo_kv_max_length(s->self)};
    tp->logits = vo_whisper_decoder(g, s->model, s->self, s->cross, &in);
    vo_status status =
        vo_plan_create(&s->runtime, g, &tp->logits, 1, (vo_plan_params){0}, &tp->plan, err);
    if (status != VO_OK) return status;
    tp->capacity = capacity;
    tp->tokens = vo_plan_data(tp->plan, in.tokens);
    tp->positions = vo_plan_data(tp->plan, in.positions);
    tp->slots = vo_plan_data(tp->plan, in.slots);
    tp->row = vo_plan_data(tp->plan, in.row);
    tp->length = vo_plan_data(tp->plan, in.length);
    tp->window = vo_plan_data(tp->plan, in.window);
    tp->audio_length = vo_plan_data(tp->plan, in.audio_length);
    tp->picked = vo_plan_data(tp->plan, in.picked);
    tp->table = vo_plan_data(tp->plan, in.table);
    return VO_OK;
}

/* A row shares its prompt (at most n_text_ctx) with the others; its own part is what one
 * window can generate, half a context. */
static int self_slots(const vo_whisper_dims *dims, int rows) {
    int own = dims->n_text_ctx / 2 + 2;
    return dims->n_text_ctx + (rows - 1) * (own < dims->n_text_ctx ? own : dims->n_text_ctx);
}

vo_status vo_whisper_state_create(const vo_whisper *model, const vo_runtime *runtime,
                                  vo_whisper_state_params params, vo_whisper_state **out,
                                  vo_error *err) {
    const vo_whisper_dims *dims = &model->dims;
    if (params.rows < 1 || params.rows > 64 || params.windows < 1 || params.windows > 1024)
        return vo_fail(err, VO_ERR_ARGUMENT, "%d rows and %d windows are not possible", params.rows,
                       params.windows);
    vo_whisper_state *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    s->model = model;
    s->runtime = *runtime;
    s->p = params;
    vo_kv_params self = {.layers = dims->n_text_layer,
                         .heads = dims->n_text_head,
                         .head_dim = dims->n_text_state / dims->n_text_head,
                         .rows = params.rows,
                         .max_length = dims->n_text_ctx,
                         .slots = self_slots(dims, params.rows)};
    vo_kv_params cross = self;
    cross.rows = params.windows;
    cross.max_length = dims->n_audio_ctx;
    cross.slots = 0;
    vo_status status = vo_kv_create(self, &s->self, err);
    if (status == VO_OK) status = vo_kv_create(cross, &s->cross, err);
    if (status == VO_OK) status = create_audio_plan(s, err);
    int step = params.rows > STEP_CAPACITY ? params.rows : STEP_CAPACITY;
    if (status == VO_OK) status = create_text_plan(s, step, &s->step, err);
    if (status == VO_OK) status = create_text_plan(s, dims->n_text_ctx, &s->prompt, err);
    s->logits = vo_alloc_array((size_t)params.rows, sizeof *s->logits);
    if (status == VO_OK && !s->logits)
        status = vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    if (status != VO_OK)
        vo_whisper_state_destroy(s);
    else
        *out = s;
    return status;
}

void vo_whisper_state_destroy(vo_whisper_state *s) {
    if (!s) return;
    vo_plan_destroy(s->audio_plan);
    vo_plan_destroy(s->step.plan);
    vo_plan_destroy(s->prompt.plan);
    vo_kv_destroy(s->self);
    vo_kv_destroy(s->cross);
    vo_free(s->logits);
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
    if (window < 0 || window >= s->p.windows)
        return vo_fail(err, VO_ERR_ARGUMENT, "there is no audio window %d", window);
    int32_t t = s->model->dims.n_audio_ctx;
    for (int32_t i = 0; i < t; i++) s->audio_slots[i] = window * t + i;
    vo_plan_set(s->audio_plan, VO_PARAM_ROWS, 1);
    return vo_plan_run(s->audio_plan, err);
}

static vo_status check_feeds(const vo_whisper_state *s, const vo_whisper_feed *feeds, int n,
                             int *total, vo_error *err) {
    *total = 0;
    if (n < 1 || n > s->p.rows) return vo_fail(err, VO_ERR_ARGUMENT, "%d rows in one step", n);
    for (int i = 0; i < n; i++) {
        const vo_whisper_feed *f = &feeds[i];
        if (f->row < 0 || f->row >= s->p.rows || f->window < 0 || f->window >= s->p.windows ||
            f->n_tokens < 1 || f->n_tokens > s->model->dims.n_text_ctx)
            return vo_fail(err, VO_ERR_ARGUMENT, "row %d cannot take %d tokens", f->row,
                           f->n_tokens);
        for (int j = 0; j < f->n_tokens; j++)
            if (f->tokens[j] < 0 || f->tokens[j] >= s->model->dims.n_vocab)
                return vo_fail(err, VO_ERR_ARGUMENT, "token %d is not in the vocabulary",
                               (int)f->tokens[j]);
        *total += f->n_tokens;
    }
    if (*total > s->prompt.capacity)
        return vo_fail(err, VO_ERR_LIMIT, "%d tokens in one step exceed %d", *total,
                       s->prompt.capacity);
    return VO_OK;
}

vo_status vo_whisper_step(vo_whisper_state *s, const vo_whisper_feed *feeds, int n_feeds,
                          float *const **logits, vo_error *err) {
    int total, at = 0;
    vo_status status = check_feeds(s, feeds, n_feeds, &total, err);
    if (status != VO_OK) return status;
    text_plan *tp = total <= s->step.capacity ? &s->step : &s->prompt;
    for (int i = 0; i < n_feeds; i++) {
        const vo_whisper_feed *f = &feeds[i];
        int position = vo_kv_length(s->self, f->row);
        status = vo_kv_append(s->self, f->row, f->n_tokens, tp->slots + at, err);
        if (status != VO_OK) return status;
        for (int j = 0; j < f->n_tokens; j++, at++) {
            tp->tokens[at] = f->tokens[j];
            tp->positions[at] = position + j;
            tp->row[at] = f->row;
            tp->length[at] = position + j + 1;
            tp->window[at] = f->window;
            tp->audio_length[at] = s->model->dims.n_audio_ctx;
        }
        tp->picked[i] = at - 1;
    }
    memcpy(tp->table, vo_kv_table(s->self), vo_kv_table_entries(s->self) * sizeof *tp->table);
    vo_plan_set(tp->plan, VO_PARAM_ROWS, total);
    vo_plan_set(tp->plan, VO_PARAM_OUT, n_feeds);
    status = vo_plan_run(tp->plan, err);
    if (status != VO_OK) return status;
    float *out = vo_plan_data(tp->plan, tp->logits);
    for (int i = 0; i < n_feeds; i++) s->logits[i] = out + (int64_t)i * tp->logits->row_stride;
    *logits = s->logits;
    return VO_OK;
}
