/* SPDX-License-Identifier: MIT
 *
 * The vtable through which eval meets a backend; nothing else of a backend is visible.
 */
#ifndef VO_TENSOR_BACKEND_H
#define VO_TENSOR_BACKEND_H

#include "tensor/array.h"

typedef struct vo_backend vo_backend;

typedef struct vo_backend_vtable {
    const char *name;
    /* Called once per node when a plan is made: bring weights into the form the op wants
     * (array->prepared of its weight inputs) and say how much workspace it needs. */
    vo_status (*prepare)(vo_backend *backend, vo_array *node, size_t *workspace, vo_error *err);
    /* Executes one node. data pointers are resolved; params give the active rows. Allocates
     * nothing. */
    void (*run)(vo_backend *backend, const vo_array *node, const int64_t params[VO_PARAM_COUNT],
                void *workspace);
    void (*destroy)(vo_backend *backend);
} vo_backend_vtable;

struct vo_backend {
    const vo_backend_vtable *vtable;
};

/* The streams that exist: streams[VO_STREAM_CPU] always, others may be NULL. Plain value. */
typedef struct vo_runtime {
    vo_backend *streams[VO_STREAM_COUNT];
} vo_runtime;

#endif
