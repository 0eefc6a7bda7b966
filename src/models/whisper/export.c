/* SPDX-License-Identifier: MIT
 *
 * The way back of binding: every tensor of the MLX layout is some rows of some tensor of the file,
 * so a plan of names and places is made first, and then a few rows at a time are read, rounded or
 * quantised, and written where they belong.
 */
#include "models/whisper/export.h"

#include "base/dequantize.h"
#include "base/memory.h"
#include "base/quantize.h"
#include "formats/safetensors_write.h"
#include "models/whisper/bind.h"
#include "models/whisper/gptq.h"

#include <stdio.h>
#include <string.h>

/* Numbers in work at once. The longest rows and vectors have 4 * 8192. */
enum { CHUNK = 1 << 16, MOST_PARTS = 26 /* tensors of a block */ };

typedef enum tensor_kind { VECTOR, MATRIX, CONVOLUTION } tensor_kind;

typedef struct tensor {
    vo_bind_place from;
    vo_whisper_part part;
    tensor_kind kind;
    int64_t columns; /* numbers in a row; 1 in a vector */
    bool quantised;
    size_t weight, scales, biases; /* as the writer counts them */
} tensor;

typedef struct exporter {
    const vo_weights *file;
    const vo_whisper_export_params *p;
    vo_whisper_dims dims;
    tensor *tensors;
    int n_tensors;
    size_t alignment; /* as the writer counts it */
    vo_safetensors_writer *writer;
    float *raw, *rows;                  /* [CHUNK] as stored, in the order that is written */
    float *group_scales, *group_biases; /* [CHUNK / 32] */
    vo_whisper_scales *found;           /* by the search; owned */
    const vo_whisper_scales *scales;
    vo_gptq gptq; /* for the matrix in work */
    const vo_moments *gptq_of;
    unsigned char *out;      /* [CHUNK] of four bytes */
    unsigned char *out_pair; /* [CHUNK / 32] of four bytes */
    int64_t done;
} exporter;

/* ---- the plan ---------------------------------------------------------------------------- */

/* Rows and columns of one part in multiples of the width; no columns: a vector. */
static const struct {
    int rows, columns;
} block_shapes[BIND_BLOCK_COUNT] = {
    [BIND_SELF_NORM_W] = {1, 0},  [BIND_SELF_NORM_B] = {1, 0},  [BIND_SELF_QKV_W] = {1, 1},
    [BIND_SELF_QKV_B] = {1, 0},   [BIND_SELF_OUT_W] = {1, 1},   [BIND_SELF_OUT_B] = {1, 0},
    [BIND_CROSS_NORM_W] = {1, 0}, [BIND_CROSS_NORM_B] = {1, 0}, [BIND_CROSS_Q_W] = {1, 1},
    [BIND_CROSS_Q_B] = {1, 0},    [BIND_CROSS_KV_W] = {1, 1},   [BIND_CROSS_KV_B] = {1, 0},
    [BIND_CROSS_OUT_W] = {1, 1},  [BIND_CROSS_OUT_B] = {1, 0},  [BIND_MLP_NORM_W] = {1, 0},
    [BIND_MLP_NORM_B] = {1, 0},   [BIND_MLP_UP_W] = {4, 1},     [BIND_MLP_UP_B] = {4, 0},
    [BIND_MLP_DOWN_W] = {1, 4},   [BIND_MLP_DOWN_B] = {1, 0},
};

static void plan(exporter *e, const vo_bind_place *from, vo_whisper_part part, const int64_t *shape,
                 int rank) {
    tensor *t = &e->tensors[e->n_tensors++];
    *t = (tensor){.from = *from, .part = part, .columns = 1};
    t->kind = rank == 3 ? CONVOLUTION : rank == 2 ? MATRIX : VECTOR;
    for (int i = 1; i < rank; i++) t->columns *= shape[i];
}

static void plan_single(exporter *e, vo_binder *b, int single, int64_t rows, int64_t columns,
                        int64_t kernel) {
    const int64_t shape[] = {rows, columns, kernel};
    int rank = kernel ? 3 : columns ? 2 : 1;
    vo_bind_place from;
    if (vo_bind_place_single(b, single, shape, rank, &from))
        plan(e, &from, (vo_whisper_part){-1, single, 0}, shape, rank);
}

static void plan_block(exporter *e, vo_binder *b, const char *side, int layer, int64_t width) {
    bool cross = strcmp(side, "decoder") == 0;
    int block = cross ? e->dims.n_audio_layer + layer : layer;
    for (int which = 0; which < BIND_BLOCK_COUNT; which++) {
        if (!cross && which >= BIND_CROSS_NORM_W && which <= BIND_CROSS_OUT_B) continue;
        const int64_t shape[] = {block_shapes[which].rows * width,
                                 block_shapes[which].columns * width};
        int rank = shape[1] ? 2 : 1;
        vo_bind_place from;
        for (int part = 0; vo_bind_place_block(b, which, side, layer, part, shape, rank, &from);
             part++)
            if (from.view) plan(e, &from, (vo_whisper_part){block, which, part}, shape, rank);
    }
}

static vo_status plan_all(exporter *e, vo_error *err) {
    vo_error local = {0};
    vo_binder b = {.file = (vo_weights *)e->file, .err = &local};
    int64_t d = e->dims.n_audio_state, dt = e->dims.n_text_state;
    plan_single(e, &b, BIND_CONV1_W, d, e->dims.n_mels, 3);
    plan_single(e, &b, BIND_CONV1_B, d, 0, 0);
    plan_single(e, &b, BIND_CONV2_W, d, d, 3);
    plan_single(e, &b, BIND_CONV2_B, d, 0, 0);
    for (int i = 0; i < e->dims.n_audio_layer; i++) plan_block(e, &b, "encoder", i, d);
    plan_single(e, &b, BIND_AUDIO_NORM_W, d, 0, 0);
    plan_single(e, &b, BIND_AUDIO_NORM_B, d, 0, 0);
    plan_single(e, &b, BIND_TOKENS, e->dims.n_vocab, dt, 0);
    plan_single(e, &b, BIND_TEXT_POSITIONS, e->dims.n_text_ctx, dt, 0);
    for (int i = 0; i < e->dims.n_text_layer; i++) plan_block(e, &b, "decoder", i, dt);
    plan_single(e, &b, BIND_TEXT_NORM_W, dt, 0, 0);
    plan_single(e, &b, BIND_TEXT_NORM_B, dt, 0, 0);
    if (local.status != VO_OK) return vo_fail(err, local.status, "%s", local.message);
    return vo_bind_check_sinusoids(e->file, e->dims.n_audio_ctx, d, err);
}

/* ---- which layers are quantised ---------------------------------------------------------- */

/* Whether pattern[0..length) with * and ? matches the whole text. */
static bool matches(const char *pattern, size_t length, const char *text, size_t size) {
    size_t p = 0, t = 0, star = SIZE_MAX, tried = 0;
    while (t < size) {
        if (p < length && pattern[p] == '*') {
            star = p++;
            tried = t;
        } else if (p < length && (pattern[p] == '?' || pattern[p] == text[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) { /* let the last star take one character more */
            p = star + 1;
            t = ++tried;
        } else {
            return false;
        }
    }
    while (p < length && pattern[p] == '*') p++;
    return p == length;
}

/* Length of the name of the layer whose matrix this is; 0 for positions, which are no layer. */
static size_t layer_name(const tensor *t) {
    size_t n = strlen(t->from.name), end = strlen(".weight");
    bool layer = t->kind == MATRIX && n > end && strcmp(t->from.name + n - end, ".weight") == 0;
    return layer ? n - end : 0;
}

static vo_status choose_quantised(exporter *e, vo_error *err) {
    if (e->p->bits == 0) return VO_OK;
    for (int i = 0; i < e->n_tensors; i++)
        e->tensors[i].quantised =
            layer_name(&e->tensors[i]) > 0 && e->tensors[i].columns % e->p->group_size == 0;
    for (const char *p = e->p->keep ? e->p->keep : ""; *p;) {
        size_t length = strcspn(p, ",");
        bool used = length == 0;
        for (int i = 0; i < e->n_tensors; i++) {
            size_t n = layer_name(&e->tensors[i]);
            if (n == 0 || !matches(p, length, e->tensors[i].from.name, n)) continue;
            used = true;
            e->tensors[i].quantised = false;
        }
        if (!used)
            return vo_fail(err, VO_ERR_ARGUMENT,
                           "no layer of the model matches \"%.*s\" (names are like "
                           "decoder.token_embedding and encoder.blocks.0.attn.query)",
                           (int)length, p);
        p += length + (p[length] == ',');
    }
    return VO_OK;
}

/* ---- scales of inputs ------------------------------------------------------------------ */

static bool in_block(const tensor *t) {
    return t->part.block >= 0;
}

/* The matrix whose inputs the moments describe; NULL when they are not known. */
static const vo_moments *moments_of(const exporter *e, const tensor *t) {
    if (!e->p->moments || !in_block(t) || t->kind != MATRIX) return NULL;
    return vo_whisper_moments_of(e->p->moments, t->part.block, t->part.which);
}

static vo_awq_params search_params(const exporter *e) {
    return (vo_awq_params){e->p->group_size, e->p->bits, e->p->dtype, e->p->pool};
}

/* Finds the scales of one fold by all quantised layers that share it. */
static vo_status search_fold(exporter *e, int block, vo_fold fold, vo_awq_layer *layers,
                             vo_error *err) {
    const vo_awq_params p = search_params(e);
    const vo_moments *moments = NULL;
    int n = 0;
    for (int i = 0; i < e->n_tensors; i++) {
        const tensor *t = &e->tensors[i];
        if (!t->quantised || !in_block(t) || vo_whisper_column_fold(t->part) != fold) continue;
        if (fold != VO_FOLD_AUDIO && t->part.block != block) continue;
        layers[n++] = (vo_awq_layer){t->from.view, t->from.row, t->from.rows};
        moments = moments_of(e, t);
    }
    if (n == 0) return VO_OK;
    if (e->p->progress && !e->p->progress(e->p->user, 0, (int64_t)vo_safetensors_bytes(e->writer)))
        return vo_fail(err, VO_ERR_ABORTED, "stopped");
    return vo_awq_search(layers, n, moments, &p, vo_whisper_scales_of(e->found, block, fold), NULL,
                         NULL, err);
}

static vo_status search_all(exporter *e, vo_error *err) {
    const int n_encoder = e->dims.n_audio_layer, blocks = n_encoder + e->dims.n_text_layer;
    e->scales = e->p->scales;
    if (e->scales || !e->p->moments || e->p->bits == 0) return VO_OK;
    vo_awq_layer *layers = vo_alloc_array((size_t)e->n_tensors, sizeof *layers);
    vo_status status = layers ? vo_whisper_scales_create(&e->dims, &e->found, err)
                              : vo_fail(err, VO_ERR_MEMORY, "no memory to scale a model");
    for (int b = 0; b < blocks; b++)
        for (int f = 0; f < VO_FOLD_COUNT; f++)
            if (status == VO_OK && (f != VO_FOLD_AUDIO || b == n_encoder))
                status = search_fold(e, b, (vo_fold)f, layers, err);
    e->scales = e->found;
    vo_free(layers);
    return status;
}

/* Rows [row, row + n) in e->rows, before they are rounded or quantised. */
static void fold_rows(exporter *e, const tensor *t, int64_t row, int64_t n) {
    const float *columns = vo_whisper_column_scales(e->scales, t->part);
    const float *rows = vo_whisper_row_scales(e->scales, t->part);
    for (int64_t r = 0; columns && r < n; r++)
        for (int64_t j = 0; j < t->columns; j++) e->rows[r * t->columns + j] *= columns[j];
    for (int64_t r = 0; rows && r < n; r++)
        for (int64_t j = 0; j < t->columns; j++) e->rows[r * t->columns + j] /= rows[row + r];
}

/* ---- the header -------------------------------------------------------------------------- */

static vo_status announce(exporter *e, tensor *t, vo_error *err) {
    vo_safetensors_writer *w = e->writer;
    int64_t shape[3] = {t->from.rows, t->columns};
    int rank = t->kind == VECTOR ? 1 : 2;
    if (t->kind == CONVOLUTION) {
        shape[1] = 3;
        shape[2] = t->columns / 3;
        rank = 3;
    }
    if (!t->quantised)
        return vo_safetensors_add(w, t->from.name, e->p->dtype, shape, rank, &t->weight, err);
    char name[sizeof t->from.name + 8];
    int stem = (int)layer_name(t);
    shape[1] = t->columns * e->p->bits / 32;
    vo_status status = vo_safetensors_add(w, t->from.name, VO_U32, shape, 2, &t->weight, err);
    shape[1] = t->columns / e->p->group_size;
    snprintf(name, sizeof name, "%.*s.scales", stem, t->from.name);
    if (status == VO_OK)
        status = vo_safetensors_add(w, name, e->p->dtype, shape, 2, &t->scales, err);
    snprintf(name, sizeof name, "%.*s.biases", stem, t->from.name);
    if (status == VO_OK)
        status = vo_safetensors_add(w, name, e->p->dtype, shape, 2, &t->biases, err);
    return status;
}

static vo_status announce_all(exporter *e, vo_error *err) {
    vo_status status = vo_safetensors_metadata(e->writer, "format", "mlx", err);
    for (int i = 0; status == VO_OK && i < e->n_tensors; i++)
        status = announce(e, &e->tensors[i], err);
    if (status == VO_OK && e->p->n_alignment_heads > 0)
        status = vo_safetensors_add(e->writer, "alignment_heads", VO_I64,
                                    (int64_t[]){e->p->n_alignment_heads, 2}, 2, &e->alignment, err);
    return status == VO_OK ? vo_safetensors_begin(e->writer, err) : status;
}

/* ---- the data ---------------------------------------------------------------------------- */

/* Rows [row, row + n) of a tensor as f32 into e->rows. A vector's rows are its elements; the
 * dequantiser calls the whole of it one row. */
static vo_status read_rows(exporter *e, const tensor *t, int64_t row, int64_t n, vo_error *err) {
    const vo_view *v = t->from.view;
    row += t->from.row;
    if (t->kind == VECTOR) {
        vo_status status = vo_dequantize_rows(v, 0, v->rank > 1 ? v->shape[0] : 1, e->raw, err);
        memcpy(e->rows, e->raw + row, (size_t)n * sizeof *e->rows);
        return status;
    }
    bool moved = t->kind == CONVOLUTION && !(v->shape[1] == 3 && v->shape[2] * 3 == t->columns);
    if (!moved) return vo_dequantize_rows(v, row, n, e->rows, err);
    if (v->shape[2] != 3)
        return vo_fail(err, VO_ERR_FORMAT, "the tensor %s has the wrong shape", v->name);
    vo_status status = vo_dequantize_rows(v, row, n, e->raw, err);
    int64_t in = t->columns / 3;
    for (int64_t o = 0; o < n; o++) /* [in][kernel] -> [kernel][in] */
        for (int64_t i = 0; i < in; i++)
            for (int64_t k = 0; k < 3; k++)
                e->rows[(o * 3 + k) * in + i] = e->raw[(o * in + i) * 3 + k];
    return status;
}

static vo_status too_large(const exporter *e, const tensor *t, vo_error *err) {
    return vo_fail(err, VO_ERR_UNSUPPORTED,
                   "the tensor %s holds numbers that are too large for %s: convert to f32 or bf16",
                   t->from.name, vo_dtype_get_info(e->p->dtype)->name);
}

static vo_status put(exporter *e, size_t index, const void *data, size_t bytes, vo_error *err) {
    e->done += (int64_t)bytes;
    return vo_safetensors_write(e->writer, index, data, bytes, err);
}

/* Scales or biases of some rows, rounded to the dtype. */
static vo_status put_pair(exporter *e, const tensor *t, size_t index, const float *x, int64_t n,
                          vo_error *err) {
    size_t width = (size_t)vo_dtype_get_info(e->p->dtype)->block_bytes;
    if (!vo_narrow_floats(e->p->dtype, x, n, e->out_pair)) return too_large(e, t, err);
    return put(e, index, e->out_pair, (size_t)n * width, err);
}

/* What is quantised are the numbers as the dtype holds them, as MLX does it. */
static bool quantise_plainly(exporter *e, const tensor *t, int64_t count, vo_error *err) {
    vo_view rounded = {.name = t->from.name,
                       .dtype = e->p->dtype,
                       .rank = 1,
                       .shape = {count},
                       .data = e->out,
                       .bytes = CHUNK * sizeof(float)};
    return vo_dequantize_rows(&rounded, 0, 1, e->rows, err) == VO_OK &&
           vo_quantize_affine(e->rows, count, e->p->group_size, e->p->bits, e->out, e->group_scales,
                              e->group_biases);
}

static bool quantise_aware(exporter *e, int64_t n) {
    const vo_awq_params p = search_params(e);
    return vo_gptq_quantise(&e->gptq, &p, e->rows, n, e->out, e->group_scales, e->group_biases);
}

static vo_status quantise_rows(exporter *e, const tensor *t, int64_t n, vo_error *err) {
    int64_t count = n * t->columns, groups = count / e->p->group_size;
    bool good = moments_of(e, t) ? quantise_aware(e, n) : quantise_plainly(e, t, count, err);
    if (!good)
        return vo_fail(
            err, VO_ERR_UNSUPPORTED,
            "the tensor %s holds something but finite numbers, which cannot be quantised",
            t->from.name);
    vo_status status = put(e, t->weight, e->out, (size_t)(count / 8) * (size_t)e->p->bits, err);
    if (status == VO_OK) status = put_pair(e, t, t->scales, e->group_scales, groups, err);
    if (status == VO_OK) status = put_pair(e, t, t->biases, e->group_biases, groups, err);
    return status;
}

/* What was read until `row` may leave memory: of a large matrix that is much. */
static void forget_rows(const exporter *e, const tensor *t, int64_t row) {
    vo_view done = *t->from.view;
    int64_t rows = done.rank > 1 ? done.shape[0] : 1;
    if (t->kind == VECTOR || rows < 1) return;
    done.bytes = done.bytes / (size_t)rows * (size_t)(t->from.row + row);
    vo_weights_forget(e->file, &done);
}

/* What is needed for all rows of a matrix. The parts of what is stacked have the same inputs. */
static vo_status begin_tensor(exporter *e, const tensor *t, vo_error *err) {
    const vo_moments *moments = t->quantised ? moments_of(e, t) : NULL;
    if (!moments || moments == e->gptq_of) return VO_OK;
    vo_gptq_free(&e->gptq);
    e->gptq_of = moments;
    return vo_gptq_init(&e->gptq, moments, vo_whisper_column_scales(e->scales, t->part), e->p->pool,
                        err);
}

static vo_status write_tensor(exporter *e, const tensor *t, vo_error *err) {
    size_t width = (size_t)vo_dtype_get_info(e->p->dtype)->block_bytes;
    int64_t total = (int64_t)vo_safetensors_bytes(e->writer), step = CHUNK / t->columns;
    vo_status status = begin_tensor(e, t, err);
    if (status != VO_OK) return status;
    for (int64_t row = 0; row < t->from.rows; row += step) {
        int64_t n = t->from.rows - row < step ? t->from.rows - row : step;
        status = read_rows(e, t, row, n, err);
        if (status != VO_OK) return status;
        fold_rows(e, t, row, n);
        if (!vo_narrow_floats(e->p->dtype, e->rows, n * t->columns, e->out))
            return too_large(e, t, err);
        if (t->quantised)
            status = quantise_rows(e, t, n, err);
        else
            status = put(e, t->weight, e->out, (size_t)(n * t->columns) * width, err);
        if (status != VO_OK) return status;
        if (e->p->progress && !e->p->progress(e->p->user, e->done, total))
            return vo_fail(err, VO_ERR_ABORTED, "stopped");
        forget_rows(e, t, row + n);
    }
    return VO_OK;
}

static vo_status write_all(exporter *e, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; status == VO_OK && i < e->n_tensors; i++)
        status = write_tensor(e, &e->tensors[i], err);
    if (status == VO_OK && e->p->n_alignment_heads > 0)
        status = put(e, e->alignment, e->p->alignment_heads,
                     (size_t)e->p->n_alignment_heads * 2 * sizeof(int64_t), err);
    return status == VO_OK ? vo_safetensors_commit(e->writer, err) : status;
}

static bool allocate(exporter *e) {
    int blocks = e->dims.n_audio_layer + e->dims.n_text_layer;
    e->tensors =
        vo_alloc_array(BIND_SINGLE_COUNT + MOST_PARTS * (size_t)blocks, sizeof *e->tensors);
    e->raw = vo_alloc(CHUNK * sizeof *e->raw);
    e->rows = vo_alloc(CHUNK * sizeof *e->rows);
    e->group_scales = vo_alloc(CHUNK / 32 * sizeof *e->group_scales);
    e->group_biases = vo_alloc(CHUNK / 32 * sizeof *e->group_biases);
    e->out = vo_alloc(CHUNK * sizeof(float));
    e->out_pair = vo_alloc(CHUNK / 32 * sizeof(float));
    return e->tensors && e->raw && e->rows && e->group_scales && e->group_biases && e->out &&
           e->out_pair;
}

vo_status vo_whisper_export(const vo_weights *weights, const vo_whisper_export_params *params,
                            const char *path, vo_error *err) {
    exporter e = {.file = weights, .p = params};
    vo_status status = vo_whisper_read_dims(weights, &e.dims, err);
    if (status == VO_OK && !allocate(&e))
        status = vo_fail(err, VO_ERR_MEMORY, "no memory to convert a model");
    if (status == VO_OK) status = plan_all(&e, err);
    if (status == VO_OK) status = choose_quantised(&e, err);
    if (status == VO_OK) status = vo_safetensors_create(path, false, &e.writer, err);
    if (status == VO_OK) status = announce_all(&e, err);
    if (status == VO_OK) status = search_all(&e, err);
    if (status == VO_OK) status = write_all(&e, err);
    vo_safetensors_destroy(e.writer);
    vo_free(e.tensors);
    vo_free(e.raw);
    vo_free(e.rows);
    vo_free(e.group_scales);
    vo_free(e.group_biases);
    vo_gptq_free(&e.gptq);
    vo_whisper_scales_destroy(e.found);
    vo_free(e.out);
    vo_free(e.out_pair);
    return status;
}
