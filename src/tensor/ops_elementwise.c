/* SPDX-License-Identifier: MIT
 *
 * Fronts of the element-wise ops: same shape in and out.
 */
#include "tensor/record.h"

static vo_array *unary(vo_graph *graph, vo_op op, vo_array *x) {
    if (!x) return NULL;
    if (!vo_check(graph, x->dtype == VO_F32 && x->rank == 2, vo_op_name(op), "wants f32 rows"))
        return NULL;
    vo_shape s = vo_shape_like(x);
    return vo_record(graph, op, &s, &x, 1);
}

static vo_array *binary(vo_graph *graph, vo_op op, vo_array *a, vo_array *b) {
    if (!a || !b) return NULL;
    bool fits = a->dtype == VO_F32 && b->dtype == VO_F32 && a->rank == 2 && b->rank == 2 &&
                a->shape[1] == b->shape[1] && vo_same_rows(a, b);
    if (!vo_check(graph, fits, vo_op_name(op), "the shapes differ")) return NULL;
    vo_shape s = vo_shape_like(a);
    vo_array *in[] = {a, b};
    return vo_record(graph, op, &s, in, 2);
}

vo_array *vo_add(vo_graph *graph, vo_array *a, vo_array *b) {
    return binary(graph, VO_OP_add, a, b);
}
vo_array *vo_mul(vo_graph *graph, vo_array *a, vo_array *b) {
    return binary(graph, VO_OP_mul, a, b);
}
vo_array *vo_gelu(vo_graph *graph, vo_array *x) {
    return unary(graph, VO_OP_gelu, x);
}
vo_array *vo_relu(vo_graph *graph, vo_array *x) {
    return unary(graph, VO_OP_relu, x);
}
vo_array *vo_sigmoid(vo_graph *graph, vo_array *x) {
    return unary(graph, VO_OP_sigmoid, x);
}
vo_array *vo_tanh(vo_graph *graph, vo_array *x) {
    return unary(graph, VO_OP_tanh, x);
}
vo_array *vo_sqrt(vo_graph *graph, vo_array *x) {
    return unary(graph, VO_OP_sqrt, x);
}

vo_array *vo_scale(vo_graph *graph, vo_array *x, float s) {
    vo_array *node = unary(graph, VO_OP_scale, x);
    if (node) node->attr.scale = s;
    return node;
}

vo_array *vo_add_table(vo_graph *graph, vo_array *a, vo_array *table) {
    if (!a || !table) return NULL;
    bool fits = a->dtype == VO_F32 && a->rank == 2 && table->op == VO_OP_WEIGHT &&
                table->rank == 2 && a->shape[1] == table->shape[1] && table->shape[0] > 0 &&
                a->shape[0] % table->shape[0] == 0;
    if (!vo_check(graph, fits, "add_table", "the table does not fit the rows")) return NULL;
    vo_shape s = vo_shape_like(a);
    vo_array *in[] = {a, table};
    vo_array *node = vo_record(graph, VO_OP_add_table, &s, in, 2);
    if (node) node->attr.window = table->shape[0];
    return node;
}
