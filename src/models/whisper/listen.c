/* SPDX-License-Identifier: MIT
 *
 * What the decoder makes of parts of an audio window. Encoding costs many times what a step of the
 * decoder does, so all parts share the window's encoding, and cross-attention gets for each a table
 * of the positions to listen to. A plan and a cache of its own: no step of decoding pays for that.
 */
#include "base/memory.h"
#include "models/whisper/state.h"

typedef struct vo_whisper_listener {
    vo_kv *self; /* a row of one position for every part */
    vo_whisper_text_plan text;
    int32_t *heard;                            /* [VO_WHISPER_MAX_PARTS][n_audio_ctx] slots */
    const float *logits[VO_WHISPER_MAX_PARTS]; /* into the plan */
} vo_whisper_listener;

void vo_whisper_listener_destroy(vo_whisper_listener *l) {
    if (!l) return;
    vo_plan_destroy(l->text.plan);
    vo_kv_destroy(l->self);
    vo_free(l);
}

static vo_status create_plan(const vo_whisper_state *s, vo_whisper_listener *l, vo_error *err) {
    const vo_whisper_dims *dims = &s->model->dims;
    const vo_kv_params one = {.layers = dims->n_text_layer,
                              .heads = dims->n_text_head,
                              .head_dim = dims->n_text_state / dims->n_text_head,
                              .rows = VO_WHISPER_MAX_PARTS,
                              .max_length = 1,
                              .dtype = vo_whisper_self_type(s->model->compute)};
    const int64_t cells = (int64_t)VO_WHISPER_MAX_PARTS * dims->n_audio_ctx;
    vo_status status = vo_kv_create(one, &l->self, err);
    if (status != VO_OK) return status;
    vo_graph *g = vo_whisper_text_graph(s, err);
    if (!g) return VO_ERR_MEMORY;
    vo_whisper_text_inputs in =
        vo_whisper_make_inputs(l->self, g, VO_WHISPER_MAX_PARTS, VO_WHISPER_MAX_PARTS);
    in.heard = vo_input(g, VO_I32, cells, 0, VO_PARAM_NONE, 0);
    vo_array *logits = vo_whisper_decoder(g, s->model, l->self, s->cross, &in);
    status = vo_plan_create(&s->runtime, g, &logits, 1,
                            (vo_plan_params){.observer = s->model->observer}, &l->text.plan, err);
    if (status != VO_OK) return status;
    vo_whisper_find_inputs(&l->text, &in);
    l->heard = vo_plan_data(l->text.plan, in.heard);
    const float *out = vo_plan_data(l->text.plan, logits);
    for (int i = 0; i < VO_WHISPER_MAX_PARTS; i++) l->logits[i] = out + i * logits->row_stride;
    return VO_OK;
}

static vo_status create_listener(vo_whisper_state *s, vo_error *err) {
    vo_whisper_listener *l = vo_alloc(sizeof *l);
    if (!l) return vo_fail(err, VO_ERR_MEMORY, "no memory for listening to parts of a window");
    const vo_status status = create_plan(s, l, err);
    if (status == VO_OK)
        s->listener = l;
    else
        vo_whisper_listener_destroy(l);
    return status;
}

vo_status vo_whisper_listen(vo_whisper_state *s, int window, int32_t token,
                            const vo_whisper_positions *parts, int n, const float *const **logits,
                            vo_error *err) {
    const vo_whisper_dims *dims = &s->model->dims;
    if (window < 0 || window >= s->p.windows || token < 0 || token >= dims->n_vocab || n < 1 ||
        n > VO_WHISPER_MAX_PARTS)
        return vo_fail(err, VO_ERR_ARGUMENT, "%d parts of window %d, token %d", n, window,
                       (int)token);
    for (int i = 0; i < n; i++)
        if (parts[i].from < 0 || parts[i].count < 1 ||
            parts[i].count > dims->n_audio_ctx - parts[i].from)
            return vo_fail(err, VO_ERR_ARGUMENT, "a window has no %d positions from %d on",
                           parts[i].count, parts[i].from);
    vo_status status = s->listener ? VO_OK : create_listener(s, err);
    if (status != VO_OK) return status;
    vo_whisper_listener *l = s->listener;
    for (int i = 0; i < n; i++) {
        int32_t *heard = l->heard + (size_t)i * (size_t)dims->n_audio_ctx;
        for (int k = 0; k < parts[i].count; k++)
            heard[k] = window * dims->n_audio_ctx + parts[i].from + k;
        l->text.tokens[i] = token;
        l->text.positions[i] = 0;
        l->text.length[i] = 1;
        l->text.slots[i] = l->text.row[i] = l->text.window[i] = l->text.picked[i] = i;
        l->text.table[i] = i;
        l->text.audio_length[i] = parts[i].count;
    }
    vo_plan_set(l->text.plan, VO_PARAM_ROWS, n);
    vo_plan_set(l->text.plan, VO_PARAM_OUT, n);
    *logits = l->logits;
    return vo_plan_run(l->text.plan, err);
}
