/* SPDX-License-Identifier: MIT
 *
 * What op fronts are made of: check, shape, record. Private to src/tensor.
 */
#ifndef VO_TENSOR_RECORD_H
#define VO_TENSOR_RECORD_H

#include "tensor/graph.h"

typedef struct vo_shape {
    vo_dtype dtype;
    int rank;
    int64_t dims[VO_MAX_DIMS];
    int rows_param;
    int64_t rows_unit;
} vo_shape;

/* Appends a node; NULL (and a sticky error) when it cannot. */
vo_array *vo_record(vo_graph *graph, vo_op op, const vo_shape *shape, vo_array *const *in,
                    int n_in);
/* Records a sticky VO_ERR_ARGUMENT "op: sentence" unless the condition holds. */
bool vo_check(vo_graph *graph, bool condition, const char *op, const char *sentence);
/* As many rows, now and at run time. */
bool vo_same_rows(const vo_array *a, const vo_array *b);
/* The same shape as x; or as many f32 rows as x with another number of columns. */
vo_shape vo_shape_like(const vo_array *x);
vo_shape vo_shape_rows(const vo_array *x, int64_t columns);

#endif
