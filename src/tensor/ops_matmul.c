/* SPDX-License-Identifier: MIT
 *
 * Fronts of the products. A linear's slots are x, weight, bias, residual: the last one is
 * filled by fusion only.
 */
#include "tensor/record.h"

static bool fits_bias(const vo_array *bias, int64_t outputs) {
    return !bias || (bias->op == VO_OP_WEIGHT && bias->rank == 1 && bias->shape[0] == outputs);
}

vo_array *vo_linear(vo_graph *graph, vo_array *x, vo_array *weight, vo_array *bias) {
    if (!x || !weight) return NULL;
    bool fits = x->dtype == VO_F32 && x->rank == 2 && weight->op == VO_OP_WEIGHT &&
                weight->rank == 2 && weight->shape[1] == x->shape[1] &&
                fits_bias(bias, weight->shape[0]);
    if (!vo_check(graph, fits, "linear", "weight or bias does not fit the input")) return NULL;
    vo_shape s = vo_shape_rows(x, weight->shape[0]);
    vo_array *in[] = {x, weight, bias, NULL};
    return vo_record(graph, VO_OP_linear, &s, in, 4);
}

vo_array *vo_matmul(vo_graph *graph, vo_array *a, vo_array *b, bool transpose_b) {
    if (!a || !b) return NULL;
    bool fits = a->dtype == VO_F32 && b->dtype == VO_F32 && a->rank == 2 && b->rank == 2 &&
                b->rows_param < 0 && a->shape[1] == b->shape[transpose_b ? 1 : 0];
    if (!vo_check(graph, fits, "matmul", "the inner dimensions differ")) return NULL;
    vo_shape s = vo_shape_rows(a, b->shape[transpose_b ? 0 : 1]);
    vo_array *in[] = {a, b};
    vo_array *node = vo_record(graph, VO_OP_matmul, &s, in, 2);
    if (node) node->attr.transpose = transpose_b;
    return node;
}

vo_array *vo_conv1d(vo_graph *graph, vo_array *x, vo_array *weight, vo_array *bias,
                    vo_conv1d_params p) {
    if (!x || !weight) return NULL;
    int64_t padded = p.window + 2 * (int64_t)p.pad;
    bool fits = x->dtype == VO_F32 && x->rank == 2 && x->row_stride == x->shape[1] &&
                p.window > 0 && p.kernel > 0 && p.stride > 0 && p.pad >= 0 && padded >= p.kernel &&
                x->shape[0] % p.window == 0 && weight->op == VO_OP_WEIGHT && weight->rank == 3 &&
                weight->shape[1] == p.kernel && weight->shape[2] == x->shape[1] &&
                (x->rows_param < 0 || x->rows_unit % p.window == 0) &&
                fits_bias(bias, weight->shape[0]);
    if (!vo_check(graph, fits, "conv1d", "weight, bias or window does not fit the input"))
        return NULL;
    int64_t out = (padded - p.kernel) / p.stride + 1;
    vo_shape s = vo_shape_rows(x, weight->shape[0]);
    s.dims[0] = x->shape[0] / p.window * out;
    s.rows_unit = x->rows_unit / p.window * out;
    vo_array *in[] = {x, weight, bias};
    vo_array *node = vo_record(graph, VO_OP_conv1d, &s, in, 3);
    if (!node) return NULL;
    node->attr.window = p.window;
    node->attr.kernel = p.kernel;
    node->attr.stride = p.stride;
    node->attr.pad = p.pad;
    return node;
}
