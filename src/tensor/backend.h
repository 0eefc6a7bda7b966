/* SPDX-License-Identifier: MIT
 *
 * The vtable through which eval meets a backend; nothing else of a backend is visible.
 */
#ifndef VO_TENSOR_BACKEND_H
#define VO_TENSOR_BACKEND_H

#include "base/pool.h"
#include "tensor/array.h"

typedef struct vo_backend vo_backend;

/* Neighbouring steps that treat each row alone, run block of rows by block of rows: what is passed
 * from one to the next stays in the cache, and threads meet only at the end. */
typedef struct vo_chain {
    vo_array *const *nodes;
    int n;
    int64_t block;    /* most rows of a block */
    int threads;      /* blocks in work at once */
    size_t bytes;     /* memory of one thread: local arrays, then the workspace of an op */
    size_t workspace; /* where that begins */
    size_t offset;    /* in the arena, of all threads' memory */
} vo_chain;

typedef struct vo_backend_vtable {
    const char *name;
    /* Called once per node when a plan is made: bring weights into the form the op wants
     * (array->prepared of its weight inputs) and say how much workspace it needs, or in a chain a
     * block of it on one thread. */
    vo_status (*prepare)(vo_backend *backend, vo_array *node, size_t *workspace, vo_error *err);
    /* Sets block and threads of a chain, and which of its arrays are sliced: each is read by the
     * next step alone. false: its nodes run one after the other. */
    bool (*plan_chain)(vo_backend *backend, vo_chain *chain);
    /* Executes `rows` rows of a chain in its memory of [threads][bytes]. */
    void (*run_chain)(vo_backend *backend, const vo_chain *chain, int64_t rows, void *memory);
    /* Executes one node. data pointers are resolved; params give the active rows. Allocates
     * nothing. */
    void (*run)(vo_backend *backend, const vo_array *node, const int64_t params[VO_PARAM_COUNT],
                void *workspace);
    /* Another backend of the same device, which splits its work over `pool`. */
    vo_status (*share)(const vo_backend *backend, vo_pool *pool, vo_backend **shared,
                       vo_error *err);
    void (*destroy)(vo_backend *backend);
} vo_backend_vtable;

struct vo_backend {
    const vo_backend_vtable *vtable;
};

/* The streams that exist: streams[VO_STREAM_CPU] always, others may be NULL. Plain value. */
typedef struct vo_runtime {
    vo_backend *streams[VO_STREAM_COUNT];
} vo_runtime;

/* The same streams for another thread of control, whose work is split over `pool`. Plans of both
 * may run at the same time. Both pools must outlive it. */
vo_status vo_runtime_share(const vo_runtime *runtime, vo_pool *pool, vo_runtime *shared,
                           vo_error *err);
void vo_runtime_destroy(vo_runtime *runtime);

#endif
