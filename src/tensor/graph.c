/* SPDX-License-Identifier: MIT
 *
 * The recording: nodes in one arena, in the order in which their fronts were called, which
 * is already an order in which they can run. Leaves and views live here; the other fronts are
 * in ops_*.c.
 */
#include "base/memory.h"
#include "tensor/record.h"

struct vo_graph {
    vo_arena *arena;
    vo_array *first, *last;
    size_t count;
    vo_stream stream;
    vo_compute compute;
    vo_error error;
};

const char *vo_op_name(vo_op op) {
    static const char *const names[VO_OP_COUNT] = {
        "weight",
        "input",
        "state",
        "view",
#define VO_OP(name, donor) #name,
#include "tensor/ops.def"
#undef VO_OP
    };
    return (unsigned)op < VO_OP_COUNT ? names[op] : "?";
}

int vo_op_donor(vo_op op) {
    static const signed char donors[VO_OP_COUNT] = {
        -1,
        -1,
        -1,
        0,
#define VO_OP(name, donor) donor,
#include "tensor/ops.def"
#undef VO_OP
    };
    return donors[op];
}

int64_t vo_array_columns(const vo_array *array) {
    int64_t columns = 1;
    for (int i = 1; i < array->rank; i++) columns *= array->shape[i];
    return columns;
}

int64_t vo_array_rows(const vo_array *array, const int64_t params[VO_PARAM_COUNT]) {
    if (array->rows_param == VO_PARAM_NONE) return array->rank ? array->shape[0] : 1;
    return params[array->rows_param] * array->rows_unit;
}

const vo_array *vo_array_worked_rows(const vo_array *node) {
    return node->op == VO_OP_kv_store ? node->in[1] : node;
}

vo_array *vo_array_root(const vo_array *a) {
    while (a->base != a) a = a->base;
    return a->base;
}

vo_graph *vo_graph_create(vo_error *err) {
    vo_graph *graph = vo_alloc(sizeof *graph);
    vo_arena *arena = graph ? vo_arena_create(16384) : NULL;
    if (!arena) {
        vo_free(graph);
        vo_fail(err, VO_ERR_MEMORY, "no memory for a graph");
        return NULL;
    }
    graph->arena = arena;
    return graph;
}

void vo_graph_destroy(vo_graph *graph) {
    if (!graph) return;
    for (vo_array *a = graph->first; a; a = a->next)
        if (a->op == VO_OP_STATE) vo_buffer_unref(a->buffer);
    vo_arena_destroy(graph->arena);
    vo_free(graph);
}

vo_status vo_graph_status(const vo_graph *graph, vo_error *err) {
    if (graph->error.status == VO_OK) return VO_OK;
    return vo_fail(err, graph->error.status, "%s", graph->error.message);
}

void vo_graph_set_stream(vo_graph *graph, vo_stream stream) {
    graph->stream = stream;
}

void vo_graph_set_compute(vo_graph *graph, vo_compute compute) {
    graph->compute = compute;
}
vo_array *vo_graph_first(const vo_graph *graph) {
    return graph->first;
}
size_t vo_graph_count(const vo_graph *graph) {
    return graph->count;
}

/* Inputs that are weights, which a backend reads in a form of its own. All others must have memory
 * that an op can read, which a weight has not. */
static bool takes_weight(vo_op op, int i) {
    switch (op) {
    case VO_OP_embed:
        return i == 0;
    case VO_OP_add_table:
    case VO_OP_lstm:
        return i == 1;
    case VO_OP_layer_norm:
    case VO_OP_linear:
    case VO_OP_conv1d:
        return i == 1 || i == 2;
    default:
        return false;
    }
}

static bool check_inputs(vo_graph *graph, vo_op op, vo_array *const *in, int n_in) {
    for (int i = 0; i < n_in; i++)
        if (in[i] && !vo_check(graph, (in[i]->op == VO_OP_WEIGHT) == takes_weight(op, i),
                               vo_op_name(op), "a weight stands where none can, or is missing"))
            return false;
    return true;
}

vo_array *vo_record(vo_graph *graph, vo_op op, const vo_shape *shape, vo_array *const *in,
                    int n_in) {
    if (graph->error.status != VO_OK || !check_inputs(graph, op, in, n_in)) return NULL;
    int64_t elements;
    if (!vo_count_elements(shape->dims, shape->rank, &elements) || elements > INT64_MAX / 8) {
        vo_fail(&graph->error, VO_ERR_ARGUMENT, "%s: the shape is too large", vo_op_name(op));
        return NULL;
    }
    vo_array *node = vo_arena_alloc(graph->arena, sizeof *node);
    if (!node) {
        vo_fail(&graph->error, VO_ERR_MEMORY, "no memory to record %s", vo_op_name(op));
        return NULL;
    }
    node->op = op;
    node->stream = graph->stream;
    node->compute = graph->compute;
    node->dtype = shape->dtype;
    node->rank = shape->rank;
    for (int i = 0; i < shape->rank; i++) node->shape[i] = shape->dims[i];
    node->rows_param = shape->rows_param;
    node->rows_unit = shape->rows_unit;
    node->row_stride = vo_array_columns(node);
    for (int i = 0; i < n_in; i++) node->in[i] = in[i];
    node->n_in = n_in;
    node->index = (int)graph->count++;
    node->base = node;
    if (graph->last)
        graph->last->next = node;
    else
        graph->first = node;
    graph->last = node;
    return node;
}

bool vo_check(vo_graph *graph, bool condition, const char *op, const char *sentence) {
    if (graph->error.status != VO_OK) return false;
    if (!condition) vo_fail(&graph->error, VO_ERR_ARGUMENT, "%s: %s", op, sentence);
    return condition;
}

bool vo_same_rows(const vo_array *a, const vo_array *b) {
    return a->shape[0] == b->shape[0] && a->rows_param == b->rows_param &&
           (a->rows_param < 0 || a->rows_unit == b->rows_unit);
}

vo_shape vo_shape_like(const vo_array *x) {
    vo_shape s = {x->dtype, x->rank, {0}, x->rows_param, x->rows_unit};
    for (int i = 0; i < x->rank; i++) s.dims[i] = x->shape[i];
    return s;
}

vo_shape vo_shape_rows(const vo_array *x, int64_t columns) {
    vo_shape s = {VO_F32, 2, {x->shape[0], columns}, x->rows_param, x->rows_unit};
    return s;
}

vo_array *vo_input(vo_graph *graph, vo_dtype dtype, int64_t capacity, int64_t columns, int param,
                   int64_t unit) {
    bool fits = capacity > 0 && columns >= 0 && (dtype == VO_F32 || dtype == VO_I32) &&
                param >= VO_PARAM_NONE && param < VO_PARAM_COUNT &&
                (param == VO_PARAM_NONE || unit > 0);
    if (!vo_check(graph, fits, "input", "bad shape or type")) return NULL;
    vo_shape s = {dtype, columns ? 2 : 1, {capacity, columns}, param, unit};
    return vo_record(graph, VO_OP_INPUT, &s, NULL, 0);
}

vo_array *vo_constant(vo_graph *graph, vo_weight *weight) {
    if (!vo_check(graph, weight != NULL, "constant", "there is no such weight")) return NULL;
    const vo_view *view = vo_weight_view(weight);
    vo_shape s = {view->dtype, view->rank, {0}, VO_PARAM_NONE, 0};
    for (int i = 0; i < view->rank; i++) s.dims[i] = view->shape[i];
    vo_array *node = vo_record(graph, VO_OP_WEIGHT, &s, NULL, 0);
    if (node) node->weight = weight;
    return node;
}

vo_array *vo_state(vo_graph *graph, vo_buffer *buffer, vo_dtype dtype, const int64_t *shape,
                   int rank) {
    size_t bytes;
    if (!vo_check(graph, buffer && rank >= 1 && rank <= VO_MAX_DIMS, "state", "no buffer"))
        return NULL;
    if (!vo_check(graph,
                  vo_dtype_bytes(dtype, shape, rank, &bytes) && bytes <= vo_buffer_bytes(buffer),
                  "state", "the buffer is too small for the shape"))
        return NULL;
    vo_shape s = {dtype, rank, {0}, VO_PARAM_NONE, 0};
    for (int i = 0; i < rank; i++) s.dims[i] = shape[i];
    vo_array *node = vo_record(graph, VO_OP_STATE, &s, NULL, 0);
    if (node) node->buffer = vo_buffer_ref(buffer);
    return node;
}

vo_array *vo_columns(vo_graph *graph, vo_array *x, int64_t begin, int64_t count) {
    if (!x) return NULL;
    if (!vo_check(graph, x->rank == 2 && begin >= 0 && count > 0 && begin <= x->shape[1] - count,
                  "columns", "the range lies outside the array"))
        return NULL;
    vo_shape s = vo_shape_like(x);
    s.dims[1] = count;
    vo_array *node = vo_record(graph, VO_OP_VIEW, &s, &x, 1);
    if (!node) return NULL;
    node->row_stride = x->row_stride;
    node->offset = (size_t)begin;
    return node;
}

vo_array *vo_regroup(vo_graph *graph, vo_array *x, int64_t group) {
    if (!x) return NULL;
    bool dense = x->rank == 2 && x->row_stride == x->shape[1];
    bool fits = group > 1
                    ? x->shape[0] % group == 0 && (x->rows_param < 0 || x->rows_unit % group == 0)
                    : group < -1 && group >= -x->shape[1] && x->shape[1] % -group == 0;
    if (!vo_check(graph, dense && fits, "regroup", "the group does not divide the array"))
        return NULL;
    vo_shape s = vo_shape_like(x);
    if (group > 1) {
        s.dims[0] /= group, s.rows_unit /= group, s.dims[1] *= group;
    } else {
        s.dims[0] *= -group, s.rows_unit *= -group, s.dims[1] /= -group;
    }
    return vo_record(graph, VO_OP_VIEW, &s, &x, 1);
}
