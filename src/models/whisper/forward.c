/* SPDX-License-Identifier: MIT
 *
 * The network, one op a line; shapes at the right. b windows, t = n_audio_ctx positions, n
 * tokens, d channels. Nothing here runs: it records.
 */
#include "models/whisper/whisper.h"

#include <math.h>

static float attention_scale(int state, int heads) {
    return 1.0f / sqrtf((float)state / (float)heads);
}

static vo_array *encoder_block(vo_graph *g, const vo_whisper_dims *dims,
                               const vo_whisper_block *block, vo_array *x) {
    int64_t d = dims->n_audio_state;
    vo_array *h = vo_nn_apply_norm(g, &block->self.norm, x);    /* [b*t, d]  */
    vo_array *qkv = vo_nn_apply_linear(g, &block->self.qkv, h); /* [b*t, 3d] */
    vo_array *q = vo_columns(g, qkv, 0, d);                     /* [b*t, d]  */
    vo_array *k = vo_columns(g, qkv, d, d);                     /* [b*t, d]  */
    vo_array *v = vo_columns(g, qkv, 2 * d, d);                 /* [b*t, d]  */
    vo_array *a = vo_attention(g, q, k, v, dims->n_audio_head, dims->n_audio_ctx,
                               attention_scale(dims->n_audio_state, dims->n_audio_head));
    x = vo_add(g, x, vo_nn_apply_linear(g, &block->self.out, a)); /* [b*t, d] */
    h = vo_nn_apply_norm(g, &block->mlp_norm, x);                 /* [b*t, d] */
    return vo_add(g, x, vo_nn_apply_mlp(g, &block->mlp, h));      /* [b*t, d] */
}

vo_array *vo_whisper_encoder(vo_graph *g, const vo_whisper *model, vo_array *mel) {
    const vo_whisper_dims *dims = &model->dims;
    int64_t frames = 2 * (int64_t)dims->n_audio_ctx;
    vo_conv1d_params stem1 = {.window = frames, .kernel = 3, .stride = 1, .pad = 1};
    vo_conv1d_params stem2 = {.window = frames, .kernel = 3, .stride = 2, .pad = 1};
    vo_array *x = mel;                                              /* [b*2t, n_mels] */
    x = vo_gelu(g, vo_nn_apply_conv(g, &model->conv1, x, stem1));   /* [b*2t, d] */
    x = vo_gelu(g, vo_nn_apply_conv(g, &model->conv2, x, stem2));   /* [b*t, d]  */
    x = vo_add_table(g, x, vo_constant(g, model->audio_positions)); /* [b*t, d]  */
    for (int i = 0; i < dims->n_audio_layer; i++) x = encoder_block(g, dims, &model->encoder[i], x);
    return vo_nn_apply_norm(g, &model->audio_norm, x); /* [b*t, d]  */
}

void vo_whisper_cross_store(vo_graph *g, const vo_whisper *model, vo_kv *cross, vo_array *audio,
                            vo_array *slots, vo_array **outputs) {
    int64_t d = model->dims.n_text_state;
    for (int i = 0; i < model->dims.n_text_layer; i++) {
        vo_array *kv = vo_nn_apply_linear(g, &model->decoder[i].cross.qkv, audio); /* [b*t, 2d] */
        vo_array *k = vo_columns(g, kv, 0, d), *v = vo_columns(g, kv, d, d);
        outputs[2 * i] = vo_kv_store(g, vo_kv_keys(cross, g, i), k, slots);
        outputs[2 * i + 1] = vo_kv_store(g, vo_kv_values(cross, g, i), v, slots);
    }
}

static vo_array *self_attention(vo_graph *g, const vo_whisper_dims *dims,
                                const vo_whisper_attention *layer, vo_kv *cache, int i,
                                const vo_whisper_text_inputs *in, vo_array *x) {
    int64_t d = dims->n_text_state;
    vo_array *h = vo_nn_apply_norm(g, &layer->norm, x);    /* [n, d]  */
    vo_array *qkv = vo_nn_apply_linear(g, &layer->qkv, h); /* [n, 3d] */
    vo_array *k = vo_kv_store(g, vo_kv_keys(cache, g, i), vo_columns(g, qkv, d, d), in->slots);
    vo_array *v =
        vo_kv_store(g, vo_kv_values(cache, g, i), vo_columns(g, qkv, 2 * d, d), in->slots);
    vo_array *q = vo_columns(g, qkv, 0, d); /* [n, d]  */
    vo_array *a = vo_attention_cached(g, q, k, v, in->table, in->row, in->length, in->max_length,
                                      attention_scale(dims->n_text_state, dims->n_text_head));
    return vo_add(g, x, vo_nn_apply_linear(g, &layer->out, a)); /* [n, d] */
}

/* What the chosen heads of a layer look at, for those who want to know where words are. */
static void note_weights(vo_graph *g, const vo_whisper *model, int layer, vo_array *q, vo_array *k,
                         const vo_whisper_text_inputs *in) {
    const vo_whisper_dims *dims = &model->dims;
    for (int i = 0; in->seen && i < model->n_alignment_heads; i++)
        if (model->alignment_heads[2 * i] == layer)
            in->weights[i] = vo_attention_weights(
                g, q, k, (int)model->alignment_heads[2 * i + 1], in->window, in->seen,
                dims->n_audio_ctx,
                attention_scale(dims->n_text_state, dims->n_text_head)); /* [n, t] */
}

static vo_array *cross_attention(vo_graph *g, const vo_whisper *model, vo_kv *cache, int i,
                                 const vo_whisper_text_inputs *in, vo_array *x) {
    const vo_whisper_dims *dims = &model->dims;
    const vo_whisper_attention *layer = &model->decoder[i].cross;
    vo_array *h = vo_nn_apply_norm(g, &layer->norm, x);    /* [n, d] */
    vo_array *q = vo_nn_apply_linear(g, &layer->query, h); /* [n, d] */
    vo_array *k = vo_kv_keys(cache, g, i), *v = vo_kv_values(cache, g, i);
    note_weights(g, model, i, q, k, in);
    vo_array *a =
        vo_attention_cached(g, q, k, v, in->heard, in->window, in->audio_length, dims->n_audio_ctx,
                            attention_scale(dims->n_text_state, dims->n_text_head));
    return vo_add(g, x, vo_nn_apply_linear(g, &layer->out, a)); /* [n, d] */
}

vo_array *vo_whisper_decoder(vo_graph *g, const vo_whisper *model, vo_kv *self, vo_kv *cross,
                             const vo_whisper_text_inputs *in) {
    vo_array *table = vo_constant(g, model->token_embedding); /* [n_vocab, d] */
    vo_array *x = vo_add(g, vo_embed(g, table, in->tokens),
                         vo_embed(g, vo_constant(g, model->text_positions), in->positions));
    for (int i = 0; i < model->dims.n_text_layer; i++) {
        const vo_whisper_block *block = &model->decoder[i];
        x = self_attention(g, &model->dims, &block->self, self, i, in, x); /* [n, d] */
        x = cross_attention(g, model, cross, i, in, x);                    /* [n, d] */
        vo_array *h = vo_nn_apply_norm(g, &block->mlp_norm, x);            /* [n, d] */
        x = vo_add(g, x, vo_nn_apply_mlp(g, &block->mlp, h));              /* [n, d] */
    }
    x = vo_take_rows(g, x, in->picked);            /* [m, d] */
    x = vo_nn_apply_norm(g, &model->text_norm, x); /* [m, d] */
    return vo_linear(g, x, table, NULL);           /* [m, n_vocab] */
}
