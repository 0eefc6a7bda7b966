/* SPDX-License-Identifier: MIT
 *
 * The CPU backend: a kernel table, a thread pool, and for every op a pair of functions, one
 * file per op family: elementwise.c, rows.c, matmul_ops.c, attention_ops.c, recurrent.c.
 */
#ifndef VO_BACKENDS_CPU_CPU_H
#define VO_BACKENDS_CPU_CPU_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "tensor/backend.h"

typedef struct vo_cpu_backend {
    vo_backend base;
    vo_kernels kernels;
    vo_pool *pool;    /* NULL inside a chain: one thread */
    vo_pool *packers; /* of weights: all threads, also of a backend that shares */
} vo_cpu_backend;

/* The pool is borrowed: one pool serves the whole engine. */
vo_status vo_cpu_backend_create(const vo_kernels *kernels, vo_pool *pool, vo_backend **backend,
                                vo_error *err);

/* One op on this backend. prepare may be NULL: no weights, no workspace. */
typedef struct vo_cpu_op {
    vo_status (*prepare)(vo_cpu_backend *cpu, vo_array *node, size_t *workspace, vo_error *err);
    void (*run)(vo_cpu_backend *cpu, const vo_array *node, int64_t rows, void *workspace);
} vo_cpu_op;

#define VO_OP(name, donor) extern const vo_cpu_op vo_cpu_##name;
#include "tensor/ops.def"
#undef VO_OP

const vo_cpu_op *vo_cpu_find_op(vo_op op);

/* chain.c, for the vtable. */
bool vo_cpu_plan_chain(vo_backend *backend, vo_chain *chain);
void vo_cpu_run_chain(vo_backend *backend, const vo_chain *chain, int64_t rows, void *memory);

/* Row i of an array of floats. */
static inline float *vo_cpu_row(const vo_array *array, int64_t i) {
    return (float *)array->data + i * array->row_stride;
}

/* Weight forms, shared by the families; each stores the form in array->prepared. */
/* Panels in the type that the node's arithmetic asks for. */
vo_status vo_cpu_prepare_packed(vo_cpu_backend *cpu, const vo_array *node, vo_array *weight,
                                vo_error *err);
vo_status vo_cpu_prepare_f32(vo_cpu_backend *cpu, vo_array *weight, vo_error *err);
vo_status vo_cpu_prepare_f16(vo_cpu_backend *cpu, vo_array *weight, vo_error *err);

/* Splits rows into tiles of about 16 K floats and runs them on the pool; inline when small. */
typedef void (*vo_rows_fn)(vo_cpu_backend *cpu, const vo_array *node, int64_t row0, int64_t rows);
void vo_cpu_over_rows(vo_cpu_backend *cpu, const vo_array *node, int64_t rows, int64_t columns,
                      vo_rows_fn fn);

#endif
