/* SPDX-License-Identifier: MIT
 *
 * From names in a safetensors file to weights; the two biases of an LSTM become one. The weights
 * are part of the library; the build defines VO_GE2E_WEIGHTS, the path of their file.
 */
#include "base/incbin.h"
#include "base/memory.h"
#include "models/ge2e/ge2e.h"

#include <stdio.h>
#include <string.h>

VO_INCBIN(vo_ge2e_weights, VO_GE2E_WEIGHTS)

/* Errors stick: after the first, every bind returns NULL. */
typedef struct binder {
    vo_ge2e *model;
    vo_error *err; /* never NULL */
} binder;

/* The tensor of that name and shape, or NULL and an error. columns 0: a vector, which is f32. */
static const vo_view *find(binder *b, const char *name, int64_t rows, int64_t columns) {
    if (b->err->status != VO_OK) return NULL;
    const vo_view *view = vo_weights_find(b->model->file, name);
    const bool fits = view && view->rank == (columns ? 2 : 1) && view->shape[0] == rows &&
                      (!columns || view->shape[1] == columns) &&
                      (view->dtype == VO_F32 || (columns && view->dtype == VO_F16));
    if (!fits)
        vo_fail(b->err, VO_ERR_FORMAT, "this is no GE2E speaker encoder: %s is %s", name,
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

static vo_weight *bind(binder *b, const char *name, int64_t rows, int64_t columns) {
    const vo_view *view = find(b, name, rows, columns);
    return view ? keep(b, view, NULL) : NULL;
}

/* The sum of two vectors. */
static vo_weight *bind_sum(binder *b, const char *first, const char *second, int64_t n) {
    const vo_view *a = find(b, first, n, 0), *c = find(b, second, n, 0);
    if (!a || !c) return NULL;
    float *data = vo_alloc_array((size_t)n, sizeof *data);
    if (!data) {
        vo_fail(b->err, VO_ERR_MEMORY, "no memory for %s", first);
        return NULL;
    }
    for (int64_t i = 0; i < n; i++) {
        float x[2]; /* stored bytes may be unaligned */
        memcpy(&x[0], (const char *)a->data + i * 4, 4);
        memcpy(&x[1], (const char *)c->data + i * 4, 4);
        data[i] = x[0] + x[1];
    }
    vo_view view = *a;
    view.data = data;
    return keep(b, &view, data);
}

static void bind_all(binder *b) {
    const int64_t h = VO_GE2E_HIDDEN;
    vo_ge2e *m = b->model;
    for (int i = 0; i < VO_GE2E_LAYERS; i++) {
        char input[32], recurrent[32], bias[32], bias_2[32];
        snprintf(input, sizeof input, "lstm.%d.weight_ih", i);
        snprintf(recurrent, sizeof recurrent, "lstm.%d.weight_hh", i);
        snprintf(bias, sizeof bias, "lstm.%d.bias_ih", i);
        snprintf(bias_2, sizeof bias_2, "lstm.%d.bias_hh", i);
        m->layers[i].gates.weight = bind(b, input, 4 * h, i ? h : VO_GE2E_MELS);
        m->layers[i].gates.bias = bind_sum(b, bias, bias_2, 4 * h);
        m->layers[i].recurrent = bind(b, recurrent, 4 * h, h);
    }
    m->voice.weight = bind(b, "linear.weight", h, h);
    m->voice.bias = bind(b, "linear.bias", h, 0);
}

vo_status vo_ge2e_load(vo_weights *weights, vo_ge2e **out, vo_error *err) {
    vo_error local = {0};
    vo_ge2e *m = vo_alloc(sizeof *m);
    if (!m) {
        vo_weights_close(weights);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a model");
    }
    m->file = weights;
    bind_all(&(binder){m, &local});
    if (local.status != VO_OK) {
        vo_ge2e_destroy(m);
        return vo_fail(err, local.status, "%s", local.message);
    }
    *out = m;
    return VO_OK;
}

vo_status vo_ge2e_load_builtin(vo_ge2e **model, vo_error *err) {
    vo_weights *weights;
    size_t size = (size_t)(vo_ge2e_weights_end - vo_ge2e_weights_begin);
    vo_status status =
        vo_weights_open_memory(vo_ge2e_weights_begin, size, "ge2e.safetensors", &weights, err);
    return status == VO_OK ? vo_ge2e_load(weights, model, err) : status;
}

void vo_ge2e_destroy(vo_ge2e *m) {
    if (!m) return;
    for (int i = 0; i < m->n_all; i++) vo_weight_destroy(m->all[i]);
    vo_weights_close(m->file);
    vo_free(m);
}
