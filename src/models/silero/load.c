/* SPDX-License-Identifier: MIT
 *
 * From names in a safetensors file to weights: convolutions become [out, kernel, in], the two
 * biases of the LSTM one. The default weights are part of the library; the build defines
 * VO_SILERO_WEIGHTS, the path of their file.
 */
#include "base/incbin.h"
#include "base/memory.h"
#include "models/silero/silero.h"

#include <string.h>

VO_INCBIN(vo_silero_weights, VO_SILERO_WEIGHTS)

/* Errors stick: after the first, every bind returns NULL. */
typedef struct binder {
    vo_silero *model;
    vo_error *err; /* never NULL */
} binder;

/* The f32 tensor of that name and shape, or NULL and an error. */
static const vo_view *find(binder *b, const char *name, int rank, const int64_t *shape) {
    if (b->err->status != VO_OK) return NULL;
    const vo_view *view = vo_weights_find(b->model->file, name);
    bool fits = view && view->dtype == VO_F32 && view->rank == rank;
    for (int i = 0; fits && i < rank; i++) fits = view->shape[i] == shape[i];
    if (!fits)
        vo_fail(b->err, VO_ERR_FORMAT, "this is no Silero VAD for 16 kHz: %s is %s", name,
                view ? "of another shape or type" : "missing");
    return fits ? view : NULL;
}

/* Takes `owned` (may be NULL: the view is borrowed), also on failure. */
static vo_weight *keep(binder *b, const vo_view *view, float *owned) {
    vo_weight *weight = vo_weight_create(view, owned, NULL, NULL, b->err);
    if (!weight)
        vo_free(owned);
    else
        b->model->all[b->model->n_all++] = weight;
    return weight;
}

/* A stored tensor under another shape of the same order. */
static vo_weight *bind(binder *b, const char *name, int rank, const int64_t *stored, int new_rank,
                       const int64_t *shape) {
    const vo_view *found = find(b, name, rank, stored);
    if (!found) return NULL;
    vo_view view = *found;
    view.rank = new_rank;
    memcpy(view.shape, shape, (size_t)new_rank * sizeof *shape);
    return keep(b, &view, NULL);
}

static vo_weight *bind_vector(binder *b, const char *name, int64_t n) {
    return bind(b, name, 1, &n, 1, &n);
}

/* [out, in, 3] -> [out, 3, in] */
static vo_weight *bind_kernel(binder *b, const char *name, int64_t out, int64_t in) {
    const vo_view *found = find(b, name, 3, (int64_t[]){out, in, 3});
    if (!found) return NULL;
    float *data = vo_alloc_array((size_t)(out * in * 3), sizeof *data);
    if (!data) {
        vo_fail(b->err, VO_ERR_MEMORY, "no memory for %s", name);
        return NULL;
    }
    const char *stored = found->data; /* may be unaligned */
    for (int64_t o = 0; o < out; o++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t k = 0; k < 3; k++)
                memcpy(&data[(o * 3 + k) * in + i], stored + ((o * in + i) * 3 + k) * 4, 4);
    vo_view view = *found;
    view.data = data;
    view.shape[1] = 3;
    view.shape[2] = in;
    return keep(b, &view, data);
}

/* The sum of two vectors. */
static vo_weight *bind_sum(binder *b, const char *first, const char *second, int64_t n) {
    const vo_view *a = find(b, first, 1, &n), *c = find(b, second, 1, &n);
    if (!a || !c) return NULL;
    float *data = vo_alloc_array((size_t)n, sizeof *data);
    if (!data) {
        vo_fail(b->err, VO_ERR_MEMORY, "no memory for %s", first);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        float x[2];
        memcpy(&x[0], (const char *)a->data + i * 4, 4);
        memcpy(&x[1], (const char *)c->data + i * 4, 4);
        data[i] = x[0] + x[1];
    }
    vo_view view = *a;
    view.data = data;
    return keep(b, &view, data);
}

static void bind_all(binder *b) {
    vo_silero *m = b->model;
    const int64_t bins = VO_SILERO_BINS, frame = VO_SILERO_FRAME, h = VO_SILERO_HIDDEN;
    const int64_t widths[] = {bins, 128, 64, 64, h};
    static const char *const kernels[] = {"conv1.weight", "conv2.weight", "conv3.weight",
                                          "conv4.weight"};
    static const char *const biases[] = {"conv1.bias", "conv2.bias", "conv3.bias", "conv4.bias"};
    m->basis = bind(b, "stft_conv.weight", 3, (int64_t[]){2 * bins, 1, frame}, 3,
                    (int64_t[]){2 * bins, frame, 1});
    for (int i = 0; i < 4; i++) {
        m->encoder[i].weight = bind_kernel(b, kernels[i], widths[i + 1], widths[i]);
        m->encoder[i].bias = bind_vector(b, biases[i], widths[i + 1]);
    }
    m->gates.weight =
        bind(b, "lstm_cell.weight_ih", 2, (int64_t[]){4 * h, h}, 2, (int64_t[]){4 * h, h});
    m->gates.bias = bind_sum(b, "lstm_cell.bias_ih", "lstm_cell.bias_hh", 4 * h);
    m->recurrent =
        bind(b, "lstm_cell.weight_hh", 2, (int64_t[]){4 * h, h}, 2, (int64_t[]){4 * h, h});
    m->probability.weight =
        bind(b, "final_conv.weight", 3, (int64_t[]){1, h, 1}, 2, (int64_t[]){1, h});
    m->probability.bias = bind_vector(b, "final_conv.bias", 1);
}

vo_status vo_silero_load(vo_weights *weights, vo_silero **out, vo_error *err) {
    vo_error local = {0};
    vo_silero *m = vo_alloc(sizeof *m);
    if (!m) {
        vo_weights_close(weights);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a model");
    }
    m->file = weights;
    bind_all(&(binder){m, &local});
    if (local.status != VO_OK) {
        vo_silero_destroy(m);
        return vo_fail(err, local.status, "%s", local.message);
    }
    *out = m;
    return VO_OK;
}

vo_status vo_silero_load_builtin(vo_silero **model, vo_error *err) {
    vo_weights *weights;
    size_t size = (size_t)(vo_silero_weights_end - vo_silero_weights_begin);
    vo_status status = vo_weights_open_memory(vo_silero_weights_begin, size,
                                              "silero_vad.safetensors", &weights, err);
    return status == VO_OK ? vo_silero_load(weights, model, err) : status;
}

void vo_silero_destroy(vo_silero *m) {
    if (!m) return;
    for (int i = 0; i < m->n_all; i++) vo_weight_destroy(m->all[i]);
    vo_weights_close(m->file);
    vo_free(m);
}
