/* SPDX-License-Identifier: MIT
 *
 * Reference-counted memory, and weights with the form a backend prepared. This file is the
 * whole policy of where bytes live: on this machine one pointer serves every stream.
 */
#include "base/memory.h"
#include "base/pool.h"
#include "tensor/array.h"

#include <stdatomic.h>

struct vo_buffer {
    vo_buffer_policy policy;
    void *data;
    size_t bytes;
    atomic_int refs;
};

static vo_buffer *new_buffer(vo_buffer_policy policy, void *data, size_t bytes, vo_error *err) {
    vo_buffer *buffer = data ? vo_alloc(sizeof *buffer) : NULL;
    if (!buffer) {
        vo_fail(err, VO_ERR_MEMORY, "no memory for a buffer of %zu bytes", bytes);
        return NULL;
    }
    buffer->policy = policy;
    buffer->data = data;
    buffer->bytes = bytes;
    atomic_init(&buffer->refs, 1);
    return buffer;
}

vo_buffer *vo_buffer_create(size_t bytes, vo_error *err) {
    void *data = vo_alloc(bytes);
    vo_buffer *buffer = new_buffer(VO_BUFFER_HEAP, data, bytes, err);
    if (!buffer) vo_free(data);
    return buffer;
}

vo_buffer *vo_buffer_borrow(void *data, size_t bytes, vo_error *err) {
    return new_buffer(VO_BUFFER_BORROWED, data, bytes, err);
}

vo_buffer *vo_buffer_ref(vo_buffer *buffer) {
    atomic_fetch_add(&buffer->refs, 1);
    return buffer;
}

void vo_buffer_unref(vo_buffer *buffer) {
    if (!buffer || atomic_fetch_sub(&buffer->refs, 1) != 1) return;
    if (buffer->policy == VO_BUFFER_HEAP) vo_free(buffer->data);
    vo_free(buffer);
}

void *vo_buffer_data(const vo_buffer *buffer) {
    return buffer->data;
}
size_t vo_buffer_bytes(const vo_buffer *buffer) {
    return buffer->bytes;
}

struct vo_weight {
    vo_view view;
    void *owned;
    void (*forget)(void *user, const vo_view *view);
    void *user;
    vo_mutex *mutex;
    struct {
        void *form;
        vo_prepare_fn make;
        void (*destroy)(void *form);
    } prepared[VO_STREAM_COUNT];
};

vo_weight *vo_weight_create(const vo_view *view, void *owned,
                            void (*forget)(void *user, const vo_view *view), void *user,
                            vo_error *err) {
    vo_weight *weight = vo_alloc(sizeof *weight);
    vo_mutex *mutex = weight ? vo_mutex_create() : NULL;
    if (!mutex) {
        vo_free(weight);
        vo_fail(err, VO_ERR_MEMORY, "no memory for weight %s", view->name ? view->name : "");
        return NULL;
    }
    weight->view = *view;
    weight->owned = owned;
    weight->forget = forget;
    weight->user = user;
    weight->mutex = mutex;
    return weight;
}

void vo_weight_destroy(vo_weight *weight) {
    if (!weight) return;
    for (int s = 0; s < VO_STREAM_COUNT; s++)
        if (weight->prepared[s].form) weight->prepared[s].destroy(weight->prepared[s].form);
    vo_free(weight->owned);
    vo_mutex_destroy(weight->mutex);
    vo_free(weight);
}

const vo_view *vo_weight_view(const vo_weight *weight) {
    return &weight->view;
}

vo_status vo_weight_prepare(vo_weight *weight, vo_stream stream, vo_prepare_fn make,
                            void (*destroy)(void *prepared), void *user, void **prepared,
                            vo_error *err) {
    vo_status status = VO_OK;
    vo_mutex_lock(weight->mutex);
    if (!weight->prepared[stream].form) {
        if (!weight->view.data) {
            status = vo_fail(err, VO_ERR_INTERNAL, "weight %s was released", weight->view.name);
        } else {
            status = make(user, &weight->view, &weight->prepared[stream].form, err);
        }
        if (status == VO_OK) {
            weight->prepared[stream].make = make;
            weight->prepared[stream].destroy = destroy;
            if (weight->forget) weight->forget(weight->user, &weight->view);
            /* A copy that was made only to be packed is not needed twice. */
            if (weight->owned) {
                vo_free(weight->owned);
                weight->owned = NULL;
                weight->view.data = NULL;
            }
        }
    } else if (weight->prepared[stream].make != make) {
        status = vo_fail(err, VO_ERR_INTERNAL, "weight %s is wanted in two forms",
                         weight->view.name ? weight->view.name : "");
    }
    *prepared = weight->prepared[stream].form;
    vo_mutex_unlock(weight->mutex);
    return status;
}
