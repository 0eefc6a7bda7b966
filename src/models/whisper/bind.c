/* SPDX-License-Identifier: MIT
 *
 * Weight binding: the only place that knows the names inside Whisper files. One table row per
 * logical tensor, one column per layout; parts joined by '|' are stacked along the rows, and
 * a part "0" stands for zeros (Whisper's keys have no bias).
 */
#include "models/whisper/bind.h"
#include "base/dequantize.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct names {
    const char *ctranslate2, *openai, *huggingface;
} names;

/* %s is encoder or decoder, %d the layer. */
static const names block_names[] = {
    [BIND_SELF_NORM_W] = {"%s/layer_%d/self_attention/layer_norm/gamma",
                          "%s.blocks.%d.attn_ln.weight",
                          "%s.layers.%d.self_attn_layer_norm.weight"},
    [BIND_SELF_NORM_B] = {"%s/layer_%d/self_attention/layer_norm/beta", "%s.blocks.%d.attn_ln.bias",
                          "%s.layers.%d.self_attn_layer_norm.bias"},
    [BIND_SELF_QKV_W] =
        {"%s/layer_%d/self_attention/linear_0/weight",
         "%s.blocks.%d.attn.query.weight|%s.blocks.%d.attn.key.weight|"
         "%s.blocks.%d.attn.value.weight",
         "%s.layers.%d.self_attn.q_proj.weight|%s.layers.%d.self_attn.k_proj.weight|"
         "%s.layers.%d.self_attn.v_proj.weight"},
    [BIND_SELF_QKV_B] = {"%s/layer_%d/self_attention/linear_0/bias",
                         "%s.blocks.%d.attn.query.bias|0|%s.blocks.%d.attn.value.bias",
                         "%s.layers.%d.self_attn.q_proj.bias|0|%s.layers.%d.self_attn.v_proj.bias"},
    [BIND_SELF_OUT_W] = {"%s/layer_%d/self_attention/linear_1/weight",
                         "%s.blocks.%d.attn.out.weight", "%s.layers.%d.self_attn.out_proj.weight"},
    [BIND_SELF_OUT_B] = {"%s/layer_%d/self_attention/linear_1/bias", "%s.blocks.%d.attn.out.bias",
                         "%s.layers.%d.self_attn.out_proj.bias"},
    [BIND_CROSS_NORM_W] = {"%s/layer_%d/attention/layer_norm/gamma",
                           "%s.blocks.%d.cross_attn_ln.weight",
                           "%s.layers.%d.encoder_attn_layer_norm.weight"},
    [BIND_CROSS_NORM_B] = {"%s/layer_%d/attention/layer_norm/beta",
                           "%s.blocks.%d.cross_attn_ln.bias",
                           "%s.layers.%d.encoder_attn_layer_norm.bias"},
    [BIND_CROSS_Q_W] = {"%s/layer_%d/attention/linear_0/weight",
                        "%s.blocks.%d.cross_attn.query.weight",
                        "%s.layers.%d.encoder_attn.q_proj.weight"},
    [BIND_CROSS_Q_B] = {"%s/layer_%d/attention/linear_0/bias", "%s.blocks.%d.cross_attn.query.bias",
                        "%s.layers.%d.encoder_attn.q_proj.bias"},
    [BIND_CROSS_KV_W] = {"%s/layer_%d/attention/linear_1/weight",
                         "%s.blocks.%d.cross_attn.key.weight|%s.blocks.%d.cross_attn.value.weight",
                         "%s.layers.%d.encoder_attn.k_proj.weight|"
                         "%s.layers.%d.encoder_attn.v_proj.weight"},
    [BIND_CROSS_KV_B] = {"%s/layer_%d/attention/linear_1/bias",
                         "0|%s.blocks.%d.cross_attn.value.bias",
                         "0|%s.layers.%d.encoder_attn.v_proj.bias"},
    [BIND_CROSS_OUT_W] = {"%s/layer_%d/attention/linear_2/weight",
                          "%s.blocks.%d.cross_attn.out.weight",
                          "%s.layers.%d.encoder_attn.out_proj.weight"},
    [BIND_CROSS_OUT_B] = {"%s/layer_%d/attention/linear_2/bias", "%s.blocks.%d.cross_attn.out.bias",
                          "%s.layers.%d.encoder_attn.out_proj.bias"},
    [BIND_MLP_NORM_W] = {"%s/layer_%d/ffn/layer_norm/gamma", "%s.blocks.%d.mlp_ln.weight",
                         "%s.layers.%d.final_layer_norm.weight"},
    [BIND_MLP_NORM_B] = {"%s/layer_%d/ffn/layer_norm/beta", "%s.blocks.%d.mlp_ln.bias",
                         "%s.layers.%d.final_layer_norm.bias"},
    [BIND_MLP_UP_W] = {"%s/layer_%d/ffn/linear_0/weight", "%s.blocks.%d.mlp.0.weight",
                       "%s.layers.%d.fc1.weight"},
    [BIND_MLP_UP_B] = {"%s/layer_%d/ffn/linear_0/bias", "%s.blocks.%d.mlp.0.bias",
                       "%s.layers.%d.fc1.bias"},
    [BIND_MLP_DOWN_W] = {"%s/layer_%d/ffn/linear_1/weight", "%s.blocks.%d.mlp.2.weight",
                         "%s.layers.%d.fc2.weight"},
    [BIND_MLP_DOWN_B] = {"%s/layer_%d/ffn/linear_1/bias", "%s.blocks.%d.mlp.2.bias",
                         "%s.layers.%d.fc2.bias"},
};

static const names single_names[] = {
    [BIND_CONV1_W] = {"encoder/conv1/weight", "encoder.conv1.weight", "encoder.conv1.weight"},
    [BIND_CONV1_B] = {"encoder/conv1/bias", "encoder.conv1.bias", "encoder.conv1.bias"},
    [BIND_CONV2_W] = {"encoder/conv2/weight", "encoder.conv2.weight", "encoder.conv2.weight"},
    [BIND_CONV2_B] = {"encoder/conv2/bias", "encoder.conv2.bias", "encoder.conv2.bias"},
    [BIND_AUDIO_POSITIONS] = {"encoder/position_encodings/encodings",
                              "encoder.positional_embedding", "encoder.embed_positions.weight"},
    [BIND_AUDIO_NORM_W] = {"encoder/layer_norm/gamma", "encoder.ln_post.weight",
                           "encoder.layer_norm.weight"},
    [BIND_AUDIO_NORM_B] = {"encoder/layer_norm/beta", "encoder.ln_post.bias",
                           "encoder.layer_norm.bias"},
    [BIND_TOKENS] = {"decoder/embeddings/weight", "decoder.token_embedding.weight",
                     "decoder.embed_tokens.weight"},
    [BIND_TEXT_POSITIONS] = {"decoder/position_encodings/encodings", "decoder.positional_embedding",
                             "decoder.embed_positions.weight"},
    [BIND_TEXT_NORM_W] = {"decoder/layer_norm/gamma", "decoder.ln.weight",
                          "decoder.layer_norm.weight"},
    [BIND_TEXT_NORM_B] = {"decoder/layer_norm/beta", "decoder.ln.bias", "decoder.layer_norm.bias"},
};

static const char *for_layout(const names *n, vo_layout layout) {
    if (layout == VO_LAYOUT_CTRANSLATE2) return n->ctranslate2;
    return layout == VO_LAYOUT_HUGGINGFACE ? n->huggingface : n->openai;
}

/* The name of one part: "%s" and "%d" filled in, and MLX's mlp1 and mlp2. */
static void fill_name(const char *pattern, size_t length, const char *side, int layer,
                      vo_layout layout, char *name, size_t name_size) {
    size_t n = 0;
    for (size_t i = 0; i < length && n + 24 < name_size; i++) {
        if (pattern[i] == '%') {
            i++;
            if (pattern[i] == 's')
                n += (size_t)snprintf(name + n, name_size - n, "%s", side);
            else
                n += (size_t)snprintf(name + n, name_size - n, "%d", layer);
        } else {
            name[n++] = pattern[i];
        }
    }
    name[n] = 0;
    char *mlp = strstr(name, ".mlp.");
    if (mlp && layout == VO_LAYOUT_MLX) {
        mlp[4] = mlp[5] == '0' ? '1' : '2'; /* mlp.0 -> mlp1, mlp.2 -> mlp2 */
        memmove(mlp + 5, mlp + 6, strlen(mlp + 6) + 1);
    }
}

/* Finds one part, also under Hugging Face's optional prefix. */
static const vo_view *find_part(const vo_weights *file, const char *pattern, size_t length,
                                const char *side, int layer, char *name, size_t name_size) {
    fill_name(pattern, length, side, layer, vo_weights_layout(file), name, name_size);
    const vo_view *view = vo_weights_find(file, name);
    if (view || vo_weights_layout(file) != VO_LAYOUT_HUGGINGFACE) return view;
    char prefixed[160];
    snprintf(prefixed, sizeof prefixed, "model.%s", name);
    return vo_weights_find(file, prefixed);
}

const vo_view *vo_whisper_find(const vo_weights *file, int single) {
    char name[128];
    const char *pattern = for_layout(&single_names[single], vo_weights_layout(file));
    return find_part(file, pattern, strlen(pattern), "", 0, name, sizeof name);
}

bool vo_whisper_has_layer(const vo_weights *file, const char *side, int layer) {
    char name[128];
    const char *pattern = for_layout(&block_names[BIND_MLP_UP_W], vo_weights_layout(file));
    return find_part(file, pattern, strlen(pattern), side, layer, name, sizeof name) != NULL;
}

/* ---- making weights -------------------------------------------------------------------------- */

static void forget(void *user, const vo_view *view) {
    vo_weights_forget(user, view);
}

static vo_weight *keep(vo_binder *b, const vo_view *view, void *owned) {
    if (b->model->n_all == b->capacity) {
        vo_fail(b->err, VO_ERR_INTERNAL, "more weights than planned for");
        vo_free(owned);
        return NULL;
    }
    vo_weight *weight = vo_weight_create(view, owned, owned ? NULL : forget, b->file, b->err);
    if (weight)
        b->model->all[b->model->n_all++] = weight;
    else
        vo_free(owned);
    return weight;
}

/* Trailing and leading ones do not matter: ggml stores conv biases as [1, d]. But scales of rows
 * belong to the rows as stored. */
static bool has_shape(const vo_view *view, const int64_t *shape, int rank) {
    int64_t want = 1, have = vo_view_elements(view);
    for (int i = 0; i < rank; i++) want *= shape[i];
    if (want != have) return false;
    if ((rank > 2 || view->dtype == VO_ROWSCALED_I8) && view->rank != rank) return false;
    return rank < 2 || view->rank < 2 || view->shape[0] == shape[0];
}

static bool check(vo_binder *b, const vo_view *view, const char *name, const int64_t *shape,
                  int rank) {
    const char *problem = !view                            ? "is missing"
                          : !vo_dtype_is_real(view->dtype) ? "holds whole numbers without a scale"
                          : !has_shape(view, shape, rank)  ? "has the wrong shape"
                                                           : NULL;
    if (problem) vo_fail(b->err, VO_ERR_FORMAT, "the tensor %s %s", name, problem);
    return !problem;
}

/* A vector or matrix as stored, its shape forced to the wanted rank. */
static vo_weight *plain(vo_binder *b, const vo_view *view, const char *name, const int64_t *shape,
                        int rank) {
    if (!check(b, view, name, shape, rank)) return NULL;
    vo_view v = *view;
    v.rank = rank;
    for (int i = 0; i < rank; i++) v.shape[i] = shape[i];
    return keep(b, &v, NULL);
}

/* Bytes of a part whose rows can be copied: of its elements, and of its scales (or biases). False
 * where something else than rows carries scales, or for views that contradict themselves. */
static bool stored_sizes(const vo_view *part, int64_t columns, size_t *data, size_t *scales) {
    const int64_t elements = vo_view_elements(part);
    *scales = 0;
    if (part->dtype == VO_ROWSCALED_I8 || part->dtype == VO_SCALED_I16) return false;
    if (part->dtype != VO_AFFINE)
        return vo_dtype_bytes(part->dtype, part->shape, part->rank, data) && *data <= part->bytes;
    if (part->bits < 1 || part->bits > 8 || part->group_size < 1 || !part->scales ||
        !part->biases || columns % part->group_size || columns % 8)
        return false;
    *data = (size_t)(elements / 8 * part->bits);
    *scales = (size_t)(elements / part->group_size) *
              (size_t)vo_dtype_get_info(part->scale_dtype)->block_bytes;
    return *data <= part->bytes;
}

static bool same_form(const vo_view *a, const vo_view *b) {
    return a && b && a->dtype == b->dtype && a->scale_dtype == b->scale_dtype &&
           a->group_size == b->group_size && a->bits == b->bits;
}

/* n parts of one form as they are; false when they cannot be. v->data: fresh memory for all, or
 * NULL when there is none. */
static bool stack_stored(const vo_view *const *parts, int n, int64_t columns, vo_view *v) {
    size_t data, scales;
    for (int i = 0; i < n; i++)
        if (!same_form(parts[0], parts[i]) || !stored_sizes(parts[i], columns, &data, &scales))
            return false;
    char *to = vo_alloc_array((size_t)n, data + 2 * scales), *end = to + (size_t)n * data;
    v->data = to;
    v->bytes = (size_t)n * data;
    v->dtype = parts[0]->dtype;
    v->scale_dtype = parts[0]->scale_dtype;
    v->group_size = parts[0]->group_size;
    v->bits = parts[0]->bits;
    for (int i = 0; to && i < n; i++) memcpy(to + (size_t)i * data, parts[i]->data, data);
    if (!to || !scales) return true;
    v->scales = end;
    v->biases = end + (size_t)n * scales;
    for (int i = 0; i < n; i++) {
        memcpy(end + (size_t)i * scales, parts[i]->scales, scales);
        memcpy(end + (size_t)(n + i) * scales, parts[i]->biases, scales);
    }
    return true;
}

/* n parts of any form, or NULL for zeros, as f32. v->data as above. */
static vo_status stack_floats(const vo_view *const *parts, int n, int64_t rows, int64_t columns,
                              vo_view *v, vo_error *err) {
    const size_t elements = (size_t)(rows * columns);
    float *to = vo_alloc_array((size_t)n, elements * sizeof *to);
    v->data = to;
    v->bytes = (size_t)n * elements * sizeof *to;
    v->dtype = VO_F32;
    vo_status status = VO_OK;
    for (int i = 0; to && i < n && status == VO_OK; i++)
        if (parts[i])
            status = vo_dequantize_rows(parts[i], 0, parts[i]->rank > 1 ? rows : 1,
                                        to + (size_t)i * elements, err);
    return status;
}

/* Rows of several tensors under each other. Parts of one form are copied as they are; anything
 * else becomes f32. */
static vo_weight *stacked(vo_binder *b, const vo_view *const *parts, int n, const int64_t *shape,
                          int rank, const char *name) {
    int64_t columns = rank > 1 ? shape[1] : 1, rows = shape[0] / n;
    for (int i = 0; i < n; i++) {
        int64_t want[] = {rows, columns};
        if (parts[i] && !check(b, parts[i], name, want, rank)) return NULL;
    }
    vo_view v = {.name = parts[0] ? parts[0]->name : parts[n - 1]->name,
                 .rank = rank,
                 .shape = {shape[0], columns}};
    vo_status status = VO_OK;
    if (!stack_stored(parts, n, columns, &v))
        status = stack_floats(parts, n, rows, columns, &v, b->err);
    void *owned = (void *)(uintptr_t)v.data;
    if (!owned) vo_fail(b->err, VO_ERR_MEMORY, "no memory for weights");
    if (status != VO_OK || !owned) {
        vo_free(owned);
        return NULL;
    }
    for (int i = 0; i < n; i++)
        if (parts[i]) vo_weights_forget(b->file, parts[i]);
    return keep(b, &v, owned);
}

vo_weight *vo_bind_single(vo_binder *b, int single, const int64_t *shape, int rank) {
    if (b->err->status != VO_OK) return NULL;
    return plain(b, vo_whisper_find(b->file, single),
                 for_layout(&single_names[single], vo_weights_layout(b->file)), shape, rank);
}

vo_weight *vo_bind_block(vo_binder *b, int which, const char *side, int layer, const int64_t *shape,
                         int rank) {
    if (b->err->status != VO_OK) return NULL;
    const char *pattern = for_layout(&block_names[which], vo_weights_layout(b->file));
    const vo_view *parts[3] = {NULL};
    char name[128] = "";
    int n = 0;
    for (const char *p = pattern; n < 3;) {
        size_t length = strcspn(p, "|");
        bool zeros = length == 1 && *p == '0';
        if (!zeros) {
            parts[n] = find_part(b->file, p, length, side, layer, name, sizeof name);
            if (!parts[n]) {
                vo_fail(b->err, VO_ERR_FORMAT, "the tensor %s is missing", name);
                return NULL;
            }
        }
        n++;
        if (!p[length]) break;
        p += length + 1;
    }
    return n == 1 ? plain(b, parts[0], name, shape, rank) : stacked(b, parts, n, shape, rank, name);
}

/* Convolution weights are wanted as [out, kernel, in]; most files hold [out, in, kernel]. */
vo_weight *vo_bind_conv(vo_binder *b, int single, int64_t out, int64_t in) {
    if (b->err->status != VO_OK) return NULL;
    const vo_view *view = vo_whisper_find(b->file, single);
    const char *name = for_layout(&single_names[single], vo_weights_layout(b->file));
    if (!check(b, view, name, (int64_t[]){out, in, 3}, 3)) return NULL;
    if (view->shape[1] == 3 && view->shape[2] == in) return keep(b, view, NULL);
    if (view->shape[1] != in) {
        vo_fail(b->err, VO_ERR_FORMAT, "the tensor %s has the wrong shape", name);
        return NULL;
    }
    float *rows = vo_alloc_array((size_t)(out * in), 3 * sizeof *rows);
    float *moved = vo_alloc_array((size_t)(out * in), 3 * sizeof *rows);
    if (!rows || !moved) {
        vo_fail(b->err, VO_ERR_MEMORY, "no memory for weights");
    } else if (vo_dequantize_rows(view, 0, out, rows, b->err) == VO_OK) {
        for (int64_t o = 0; o < out; o++)
            for (int64_t i = 0; i < in; i++)
                for (int64_t k = 0; k < 3; k++)
                    moved[(o * 3 + k) * in + i] = rows[(o * in + i) * 3 + k];
        vo_free(rows);
        vo_view v = {.name = view->name,
                     .dtype = VO_F32,
                     .rank = 3,
                     .shape = {out, 3, in},
                     .data = moved,
                     .bytes = (size_t)(out * in) * 3 * sizeof *moved};
        return keep(b, &v, moved);
    }
    vo_free(rows);
    vo_free(moved);
    return NULL;
}

static void fill_sinusoids(float *table, int64_t length, int64_t channels) {
    int64_t half = channels / 2;
    for (int64_t c = 0; c < half; c++) {
        /* The reference computes this in f32. */
        float inverse = expf((float)c * -(float)(log(10000.0) / (double)(half - 1)));
        for (int64_t t = 0; t < length; t++) {
            table[t * channels + c] = sinf((float)t * inverse);
            table[t * channels + half + c] = cosf((float)t * inverse);
        }
    }
}

/* The encoder's positions are a fixed table; MLX and old CTranslate2 files leave it out. */
vo_weight *vo_bind_sinusoids(vo_binder *b, int64_t length, int64_t channels) {
    if (b->err->status != VO_OK) return NULL;
    if (vo_whisper_find(b->file, BIND_AUDIO_POSITIONS))
        return vo_bind_single(b, BIND_AUDIO_POSITIONS, (int64_t[]){length, channels}, 2);
    float *table = vo_alloc_array((size_t)(length * channels), sizeof *table);
    if (!table) {
        vo_fail(b->err, VO_ERR_MEMORY, "no memory for weights");
        return NULL;
    }
    fill_sinusoids(table, length, channels);
    vo_view v = {.name = "encoder positions",
                 .dtype = VO_F32,
                 .rank = 2,
                 .shape = {length, channels},
                 .data = table,
                 .bytes = (size_t)(length * channels) * sizeof *table};
    return keep(b, &v, table);
}

/* ---- the same tensors under MLX's names ------------------------------------------------------ */

/* Part `index` of a pattern; NULL when there are fewer. */
static const char *part_of(const char *pattern, int index, size_t *length) {
    for (*length = strcspn(pattern, "|"); index > 0; index--) {
        if (!pattern[*length]) return NULL;
        pattern += *length + 1;
        *length = strcspn(pattern, "|");
    }
    return pattern;
}

static bool place(vo_binder *b, const names *n, const char *side, int layer, int part,
                  const int64_t *shape, int rank, vo_bind_place *out) {
    vo_layout layout = vo_weights_layout(b->file);
    const char *stored = for_layout(n, layout);
    size_t length, stored_length;
    char name[128];
    bool stacked_in_file = strchr(n->openai, '|') && !strchr(stored, '|');
    int64_t whole[3] = {0};
    const char *openai = part_of(n->openai, part, &length);
    *out = (vo_bind_place){.rows = shape[0]};
    if (!openai || b->err->status != VO_OK) return false;
    if (*openai == '0') return true;
    fill_name(openai, length, side, layer, VO_LAYOUT_MLX, out->name, sizeof out->name);
    stored = part_of(stored, stacked_in_file ? 0 : part, &stored_length);
    out->view = find_part(b->file, stored, stored_length, side, layer, name, sizeof name);
    for (int i = 0; i < rank; i++) whole[i] = shape[i];
    if (stacked_in_file) {
        int parts = 1;
        for (const char *p = n->openai; (p = strchr(p, '|')); p++) parts++;
        whole[0] *= parts;
        out->row = part * shape[0];
    }
    return check(b, out->view, name, whole, rank);
}

bool vo_bind_place_single(vo_binder *b, int single, const int64_t *shape, int rank,
                          vo_bind_place *out) {
    return place(b, &single_names[single], "", 0, 0, shape, rank, out);
}

bool vo_bind_place_block(vo_binder *b, int which, const char *side, int layer, int part,
                         const int64_t *shape, int rank, vo_bind_place *out) {
    return place(b, &block_names[which], side, layer, part, shape, rank, out);
}

vo_status vo_bind_check_sinusoids(const vo_weights *file, int64_t length, int64_t channels,
                                  vo_error *err) {
    const float tolerance = 0.01f; /* bf16 rounds numbers below one by 0.002 */
    const vo_view *view = vo_whisper_find(file, BIND_AUDIO_POSITIONS);
    if (!view) return VO_OK;
    if (!has_shape(view, (int64_t[]){length, channels}, 2) || !vo_dtype_is_real(view->dtype))
        return vo_fail(err, VO_ERR_FORMAT, "the tensor %s has the wrong shape", view->name);
    float *table = vo_alloc_array((size_t)(length * channels), sizeof *table);
    float *row = vo_alloc_array((size_t)channels, sizeof *row);
    vo_status status = VO_OK;
    if (!table || !row) status = vo_fail(err, VO_ERR_MEMORY, "no memory for weights");
    if (status == VO_OK) fill_sinusoids(table, length, channels);
    for (int64_t t = 0; status == VO_OK && t < length; t++) {
        status = vo_dequantize_rows(view, t, 1, row, err);
        for (int64_t c = 0; status == VO_OK && c < channels; c++)
            if (!(fabsf(row[c] - table[t * channels + c]) <= tolerance))
                status = vo_fail(err, VO_ERR_UNSUPPORTED,
                                 "%s is not Whisper's table of sines, and files of MLX have no "
                                 "place for another one",
                                 view->name);
    }
    vo_free(table);
    vo_free(row);
    return status;
}
