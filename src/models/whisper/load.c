/* SPDX-License-Identifier: MIT
 *
 * Loading: sizes from the tensors themselves (heads from whatever header the file has), then
 * every weight by its logical name.
 */
#include "base/memory.h"
#include "formats/json.h"
#include "models/whisper/alignment.h"
#include "models/whisper/bind.h"

#include <stdio.h>
#include <string.h>

static vo_status no_memory(vo_error *err) {
    return vo_fail(err, VO_ERR_MEMORY, "no memory for a model");
}

/* The integer under either name in a JSON object; 0 if there is none, or no such object. */
static vo_status integer_in(const char *text, size_t size, const char *name, const char *other,
                            int64_t *value, vo_error *err) {
    json_error_t why;
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!json && vo_json_status(&why) == VO_ERR_MEMORY) return no_memory(err);
    *value = json_integer_value(json_object_get(json, name));
    if (*value <= 0) *value = json_integer_value(json_object_get(json, other));
    json_decref(json);
    return VO_OK;
}

/* An integer fact under the name of OpenAI's dims or Hugging Face's config; 0 if nowhere. */
static vo_status fact(const vo_weights *file, const char *openai, const char *huggingface,
                      int64_t *value, vo_error *err) {
    if (vo_weights_integer(file, openai, value) && *value > 0) return VO_OK;
    const char *dims = vo_weights_string(file, "dims");
    vo_status status = VO_OK;
    *value = 0;
    if (dims) status = integer_in(dims, strlen(dims), openai, huggingface, value, err);
    if (status != VO_OK || *value > 0 || !vo_weights_folder(file)) return status;
    char *path = vo_path_join(vo_weights_folder(file), "config.json"), *text = NULL;
    size_t size;
    if (!path) return no_memory(err);
    status = vo_file_read(path, 16u << 20, &text, &size, NULL);
    if (status == VO_OK)
        status = integer_in(text, size, openai, huggingface, value, err);
    else /* there need not be one */
        status = status == VO_ERR_MEMORY ? no_memory(err) : VO_OK;
    vo_free(text);
    vo_free(path);
    return status;
}

/* The number of heads is not in any tensor. Every published Whisper has heads of 64. */
static vo_status read_heads(const vo_weights *file, const char *side, const char *openai,
                            const char *hf, int state, int *heads, vo_error *err) {
    char name[32];
    snprintf(name, sizeof name, "%s/num_heads", side);
    const vo_view *v = vo_weights_find(file, name);
    int16_t stored = 0;
    if (v && v->dtype == VO_I16 && v->bytes == 2) memcpy(&stored, v->data, 2);
    *heads = stored;
    if (stored > 0) return VO_OK;
    int64_t value;
    vo_status status = fact(file, openai, hf, &value, err);
    if (status == VO_OK) *heads = value > 0 && value <= state ? (int)value : state / 64;
    return status;
}

/* Rows of the encoder's positions; without them the header's word, else what Whisper has. */
static vo_status read_audio_ctx(const vo_weights *file, const vo_view *positions, int *n_audio_ctx,
                                vo_error *err) {
    int64_t value = 0;
    vo_status status = VO_OK;
    if (positions && positions->rank == 2)
        value = positions->shape[0];
    else
        status = fact(file, "n_audio_ctx", "max_source_positions", &value, err);
    *n_audio_ctx = value > 0 && value <= 8192 ? (int)value : 1500;
    return status;
}

static int count_layers(const vo_weights *file, const char *side) {
    int n = 0;
    while (n < VO_WHISPER_MAX_LAYERS && vo_whisper_has_layer(file, side, n)) n++;
    return n;
}

vo_status vo_whisper_read_dims(const vo_weights *file, vo_whisper_dims *d, vo_error *err) {
    const vo_view *conv = vo_whisper_find(file, BIND_CONV1_W),
                  *tokens = vo_whisper_find(file, BIND_TOKENS),
                  *text = vo_whisper_find(file, BIND_TEXT_POSITIONS),
                  *audio = vo_whisper_find(file, BIND_AUDIO_POSITIONS);
    if (!conv || !tokens || !text || conv->rank != 3 || tokens->rank != 2 || text->rank != 2)
        return vo_fail(err, VO_ERR_FORMAT,
                       "this is no Whisper model: its embeddings or convolutions "
                       "are missing");
    bool plausible = conv->shape[0] > 0 && conv->shape[0] <= 8192 && conv->shape[0] % 2 == 0 &&
                     tokens->shape[0] <= 1 << 20 && tokens->shape[1] > 0 &&
                     tokens->shape[1] <= 8192 && text->shape[0] >= 16 && text->shape[0] <= 8192 &&
                     conv->shape[1] <= 1024 && conv->shape[2] <= 1024;
    if (!plausible) return vo_fail(err, VO_ERR_FORMAT, "the sizes of this model are not possible");
    *d = (vo_whisper_dims){0};
    d->n_audio_state = (int)conv->shape[0];
    d->n_mels = (int)(conv->shape[2] == 3 ? conv->shape[1] : conv->shape[2]);
    d->n_vocab = (int)tokens->shape[0];
    d->n_text_state = (int)tokens->shape[1];
    d->n_text_ctx = (int)text->shape[0];
    d->n_audio_layer = count_layers(file, "encoder");
    d->n_text_layer = count_layers(file, "decoder");
    vo_status status = read_audio_ctx(file, audio, &d->n_audio_ctx, err);
    if (status != VO_OK) return status;
    status = read_heads(file, "encoder", "n_audio_head", "encoder_attention_heads",
                        d->n_audio_state, &d->n_audio_head, err);
    if (status == VO_OK)
        status = read_heads(file, "decoder", "n_text_head", "decoder_attention_heads",
                            d->n_text_state, &d->n_text_head, err);
    if (status != VO_OK) return status;
    if (d->n_audio_layer < 1 || d->n_text_layer < 1 || d->n_audio_head < 1 || d->n_text_head < 1 ||
        d->n_audio_state % d->n_audio_head || d->n_text_state % d->n_text_head ||
        d->n_audio_state != d->n_text_state || d->n_mels < 1)
        return vo_fail(err, VO_ERR_FORMAT, "the sizes of this model contradict each other");
    return VO_OK;
}

static vo_nn_linear bind_linear(vo_binder *b, int w, const char *side, int layer, int64_t out,
                                int64_t in) {
    vo_nn_linear linear = {vo_bind_block(b, w, side, layer, (int64_t[]){out, in}, 2),
                           vo_bind_block(b, w + 1, side, layer, (int64_t[]){out}, 1)};
    return linear;
}

static vo_nn_norm bind_norm(vo_binder *b, int w, const char *side, int layer, int64_t d) {
    vo_nn_norm norm = {vo_bind_block(b, w, side, layer, &d, 1),
                       vo_bind_block(b, w + 1, side, layer, &d, 1)};
    return norm;
}

static void bind_block(vo_binder *b, const char *side, int layer, int64_t d, bool cross,
                       vo_whisper_block *block) {
    block->self.norm = bind_norm(b, BIND_SELF_NORM_W, side, layer, d);
    block->self.qkv = bind_linear(b, BIND_SELF_QKV_W, side, layer, 3 * d, d);
    block->self.out = bind_linear(b, BIND_SELF_OUT_W, side, layer, d, d);
    if (cross) {
        block->cross.norm = bind_norm(b, BIND_CROSS_NORM_W, side, layer, d);
        block->cross.query = bind_linear(b, BIND_CROSS_Q_W, side, layer, d, d);
        block->cross.qkv = bind_linear(b, BIND_CROSS_KV_W, side, layer, 2 * d, d);
        block->cross.out = bind_linear(b, BIND_CROSS_OUT_W, side, layer, d, d);
    }
    block->mlp_norm = bind_norm(b, BIND_MLP_NORM_W, side, layer, d);
    block->mlp.up = bind_linear(b, BIND_MLP_UP_W, side, layer, 4 * d, d);
    block->mlp.down = bind_linear(b, BIND_MLP_DOWN_W, side, layer, d, 4 * d);
}

static void bind_all(vo_binder *b) {
    vo_whisper *m = b->model;
    int64_t d = m->dims.n_audio_state, dt = m->dims.n_text_state;
    m->conv1.weight = vo_bind_conv(b, BIND_CONV1_W, d, m->dims.n_mels);
    m->conv1.bias = vo_bind_single(b, BIND_CONV1_B, &d, 1);
    m->conv2.weight = vo_bind_conv(b, BIND_CONV2_W, d, d);
    m->conv2.bias = vo_bind_single(b, BIND_CONV2_B, &d, 1);
    m->audio_positions = vo_bind_sinusoids(b, m->dims.n_audio_ctx, d);
    m->audio_norm.gamma = vo_bind_single(b, BIND_AUDIO_NORM_W, &d, 1);
    m->audio_norm.beta = vo_bind_single(b, BIND_AUDIO_NORM_B, &d, 1);
    m->token_embedding = vo_bind_single(b, BIND_TOKENS, (int64_t[]){m->dims.n_vocab, dt}, 2);
    m->text_positions =
        vo_bind_single(b, BIND_TEXT_POSITIONS, (int64_t[]){m->dims.n_text_ctx, dt}, 2);
    m->text_norm.gamma = vo_bind_single(b, BIND_TEXT_NORM_W, &dt, 1);
    m->text_norm.beta = vo_bind_single(b, BIND_TEXT_NORM_B, &dt, 1);
    for (int i = 0; i < m->dims.n_audio_layer; i++)
        bind_block(b, "encoder", i, d, false, &m->encoder[i]);
    for (int i = 0; i < m->dims.n_text_layer; i++)
        bind_block(b, "decoder", i, dt, true, &m->decoder[i]);
}

vo_status vo_whisper_load(vo_weights *weights, vo_whisper **out, vo_error *err) {
    vo_error local = {0};
    vo_whisper *m = vo_alloc(sizeof *m);
    if (!m) {
        vo_weights_close(weights);
        return no_memory(err);
    }
    m->file = weights;
    vo_status status = vo_whisper_read_dims(weights, &m->dims, &local);
    if (status == VO_OK) {
        int blocks = m->dims.n_audio_layer + m->dims.n_text_layer;
        int capacity = BIND_SINGLE_COUNT + BIND_BLOCK_COUNT * blocks;
        m->all = vo_alloc_array((size_t)capacity, sizeof(vo_weight *));
        m->encoder = vo_alloc_array((size_t)m->dims.n_audio_layer, sizeof *m->encoder);
        m->decoder = vo_alloc_array((size_t)m->dims.n_text_layer, sizeof *m->decoder);
        vo_binder binder = {weights, m, capacity, &local};
        if (!m->all || !m->encoder || !m->decoder)
            no_memory(&local);
        else
            bind_all(&binder);
        status = local.status;
    }
    if (status == VO_OK)
        status = vo_whisper_find_alignment(weights, &m->dims, &m->alignment_heads,
                                           &m->n_alignment_heads, &local);
    if (status != VO_OK) {
        vo_whisper_destroy(m);
        return vo_fail(err, local.status, "%s", local.message);
    }
    *out = m;
    return VO_OK;
}

void vo_whisper_destroy(vo_whisper *m) {
    if (!m) return;
    for (int i = 0; i < m->n_all; i++) vo_weight_destroy(m->all[i]);
    vo_free(m->all);
    vo_free(m->encoder);
    vo_free(m->decoder);
    vo_free(m->alignment_heads);
    vo_weights_close(m->file);
    vo_free(m);
}
