/* SPDX-License-Identifier: MIT
 *
 * An array: dtype, shape, and the op that makes it. It has no device. Leaves are weights,
 * inputs and state; everything else is a recorded op whose memory a plan assigns.
 */
#ifndef VO_TENSOR_ARRAY_H
#define VO_TENSOR_ARRAY_H

#include "base/dtype.h"

typedef struct vo_array vo_array;

typedef enum vo_op {
    VO_OP_WEIGHT, /* leaf: constant, shared by all plans */
    VO_OP_INPUT,  /* leaf: written by the caller before each run */
    VO_OP_STATE,  /* leaf: lives across runs (KV caches) */
    VO_OP_VIEW,   /* the memory of in[0] under another shape */
#define VO_OP(name, donor) VO_OP_##name,
#include "tensor/ops.def"
#undef VO_OP
    VO_OP_COUNT
} vo_op;

const char *vo_op_name(vo_op op);
int vo_op_donor(vo_op op);

/* Where an op runs. Every op carries one; there is no device in an array. */
typedef enum vo_stream { VO_STREAM_CPU, VO_STREAM_GPU, VO_STREAM_COUNT } vo_stream;

/* Run-time parameters of a plan: how many units of rows are active. */
enum { VO_PARAM_NONE = -1, VO_PARAM_ROWS = 0, VO_PARAM_OUT = 1, VO_PARAM_COUNT = 4 };

enum { VO_MAX_INPUTS = 6 };

/* ---- memory ------------------------------------------------------------------------------- */

typedef enum vo_buffer_policy {
    VO_BUFFER_HEAP,    /* ours */
    VO_BUFFER_BORROWED /* somebody else's, e.g. a file map */
} vo_buffer_policy;

/* Reference-counted memory that every stream can address. */
typedef struct vo_buffer vo_buffer;
vo_buffer *vo_buffer_create(size_t bytes, vo_error *err); /* zeroed; one reference */
vo_buffer *vo_buffer_borrow(void *data, size_t bytes, vo_error *err);
vo_buffer *vo_buffer_ref(vo_buffer *buffer);
void vo_buffer_unref(vo_buffer *buffer); /* NULL allowed */
void *vo_buffer_data(const vo_buffer *buffer);
size_t vo_buffer_bytes(const vo_buffer *buffer);

/* ---- weights ------------------------------------------------------------------------------ */

/* A constant as a file stores it, plus what a backend made of it (packed panels, f32 rows). The
 * prepared form is made once, by the first plan that needs it, under a lock; models share
 * weights between sessions and threads. */
typedef struct vo_weight vo_weight;

/* `owned`: memory to free with the weight or after preparation (NULL: the view is borrowed).
 * `forget` is told when the stored bytes are no longer read; may be NULL. */
vo_weight *vo_weight_create(const vo_view *view, void *owned,
                            void (*forget)(void *user, const vo_view *view), void *user,
                            vo_error *err);
void vo_weight_destroy(vo_weight *weight);
const vo_view *vo_weight_view(const vo_weight *weight);

/* A backend's prepared form: made by `make` at the first call for this stream, then kept.
 * `destroy` frees it with the weight. Thread safe. */
typedef vo_status (*vo_prepare_fn)(void *user, const vo_view *view, void **prepared, vo_error *err);
vo_status vo_weight_prepare(vo_weight *weight, vo_stream stream, vo_prepare_fn make,
                            void (*destroy)(void *prepared), void *user, void **prepared,
                            vo_error *err);

/* The least exact arithmetic that products and attention may use; sums are f32 or exact. A backend
 * uses a more exact one where it gains nothing from less. A weight has one form per stream, so all
 * graphs that share it must agree. */
typedef enum vo_compute {
    VO_COMPUTE_F32,
    VO_COMPUTE_BF16,
    VO_COMPUTE_INT8,
    VO_COMPUTE_INT4 /* weights of four bits, computed in bf16 */
} vo_compute;

/* A cache of VO_I8, [heads, slots, hd], is followed by a scale for every row of hd: f32
 * [heads, slots], from this many bytes after its start. */
static inline size_t vo_cache_scales_at(const int64_t shape[3]) {
    return ((size_t)(shape[0] * shape[1] * shape[2]) + 63) / 64 * 64;
}

/* ---- the array ---------------------------------------------------------------------------- */

struct vo_array {
    vo_op op;
    vo_stream stream;
    vo_compute compute;
    vo_dtype dtype;
    int rank;
    int64_t shape[VO_MAX_DIMS]; /* capacity; shape[0] is the slowest dimension */
    int rows_param;             /* run-time parameter that sets shape[0], or VO_PARAM_NONE */
    int64_t rows_unit;          /* active shape[0] = parameter * rows_unit */
    int64_t row_stride;         /* elements between rows; shape[0] rows */
    vo_array *in[VO_MAX_INPUTS];
    int n_in;

    struct { /* attributes; which ones count depends on the op */
        float scale, eps;
        int heads, head, kernel, stride, pad, gelu, transpose;
        int64_t window; /* rows of one window: attention, conv1d, add_table */
        int64_t slots, max_length;
    } attr;

    vo_weight *weight; /* VO_OP_WEIGHT */
    vo_buffer *buffer; /* VO_OP_STATE */

    /* filled in by the plan */
    int index;              /* position in recording order */
    int uses;               /* how many ops read it */
    struct vo_chain *chain; /* the chain in which this runs, or NULL */
    bool local;             /* its memory is a block of the chain's, offset counts from there */
    bool sliced;            /* has no memory: the next step makes it, slice by slice */
    vo_array *base;         /* whose memory this is (views and donated results); itself otherwise */
    size_t offset; /* views: elements from the base's first one; else bytes into the arena */
    size_t workspace, workspace_offset; /* scratch of this op: bytes, place in the arena */
    void *data;                         /* resolved address */
    void *prepared;                     /* weights: the backend's form for the op that uses it */
    vo_array *next;                     /* recording order */
};

/* Elements of one row: product of shape[1..]. */
int64_t vo_array_columns(const vo_array *array);
/* Active rows under run-time parameters. */
int64_t vo_array_rows(const vo_array *array, const int64_t params[VO_PARAM_COUNT]);
/* The array whose rows an op works on: its own, but a store into a cache has those it stores. */
const vo_array *vo_array_worked_rows(const vo_array *node);
/* The array that owns the memory behind a; known once a plan has shared memory. */
vo_array *vo_array_root(const vo_array *a);

#endif
