/* SPDX-License-Identifier: MIT
 *
 * Fronts of the ops that treat an array row by row, and of the recurrence.
 */
#include "tensor/record.h"

static bool is_rows(const vo_array *x) {
    return x->dtype == VO_F32 && x->rank == 2;
}
static bool is_ids(const vo_array *x) {
    return x->dtype == VO_I32 && x->rank == 1;
}

vo_array *vo_layer_norm(vo_graph *graph, vo_array *x, vo_array *gamma, vo_array *beta, float eps) {
    if (!x || !gamma || !beta) return NULL;
    bool fits = is_rows(x) && gamma->op == VO_OP_WEIGHT && beta->op == VO_OP_WEIGHT &&
                gamma->rank == 1 && beta->rank == 1 && gamma->shape[0] == x->shape[1] &&
                beta->shape[0] == x->shape[1];
    if (!vo_check(graph, fits, "layer_norm", "gamma and beta do not fit the rows")) return NULL;
    vo_shape s = vo_shape_like(x);
    vo_array *in[] = {x, gamma, beta};
    vo_array *node = vo_record(graph, VO_OP_layer_norm, &s, in, 3);
    if (node) node->attr.eps = eps;
    return node;
}

vo_array *vo_softmax(vo_graph *graph, vo_array *x) {
    if (!x || !vo_check(graph, is_rows(x), "softmax", "wants f32 rows")) return NULL;
    vo_shape s = vo_shape_like(x);
    return vo_record(graph, VO_OP_softmax, &s, &x, 1);
}

static vo_array *pick_rows(vo_graph *graph, vo_op op, vo_array *x, vo_array *ids) {
    vo_shape s = vo_shape_rows(ids, x->shape[1]);
    vo_array *in[] = {x, ids};
    return vo_record(graph, op, &s, in, 2);
}

vo_array *vo_embed(vo_graph *graph, vo_array *weight, vo_array *ids) {
    if (!weight || !ids) return NULL;
    bool fits = weight->op == VO_OP_WEIGHT && weight->rank == 2 && is_ids(ids);
    if (!vo_check(graph, fits, "embed", "wants a weight matrix and int32 ids")) return NULL;
    return pick_rows(graph, VO_OP_embed, weight, ids);
}

vo_array *vo_take_rows(vo_graph *graph, vo_array *x, vo_array *ids) {
    if (!x || !ids) return NULL;
    if (!vo_check(graph, is_rows(x) && is_ids(ids), "take_rows", "wants f32 rows and int32 ids"))
        return NULL;
    return pick_rows(graph, VO_OP_take_rows, x, ids);
}

vo_array *vo_concat(vo_graph *graph, vo_array *a, vo_array *b) {
    if (!a || !b) return NULL;
    bool fits = is_rows(a) && is_rows(b) && vo_same_rows(a, b);
    if (!vo_check(graph, fits, "concat", "the rows differ")) return NULL;
    vo_shape s = vo_shape_rows(a, a->shape[1] + b->shape[1]);
    vo_array *in[] = {a, b};
    return vo_record(graph, VO_OP_concat, &s, in, 2);
}

vo_array *vo_lstm(vo_graph *graph, vo_array *gates, vo_array *weight_hh, vo_array *state) {
    if (!gates || !weight_hh || !state) return NULL;
    int64_t h = weight_hh->rank == 2 ? weight_hh->shape[1] : 0;
    bool fits = is_rows(gates) && h > 0 && weight_hh->shape[0] == 4 * h &&
                gates->shape[1] == 4 * h && state->op == VO_OP_STATE && state->rank == 2 &&
                state->shape[0] > 0 && state->shape[0] % 2 == 0 && state->shape[1] == h &&
                state->dtype == VO_F32 && gates->shape[0] % (state->shape[0] / 2) == 0;
    if (!vo_check(graph, fits, "lstm", "the shapes do not fit")) return NULL;
    vo_shape s = vo_shape_rows(gates, h);
    vo_array *in[] = {gates, weight_hh, state};
    return vo_record(graph, VO_OP_lstm, &s, in, 3);
}
