/* SPDX-License-Identifier: MIT
 *
 * Element-wise ops: tiles of rows, one kernel call per tile when the rows are dense.
 */
#include "backends/cpu/cpu.h"

static bool dense(const vo_array *a) {
    return a->row_stride == a->shape[1];
}

typedef void (*unary_fn)(int64_t n, const float *x, float *y);
typedef void (*binary_fn)(int64_t n, const float *a, const float *b, float *y);

static void apply_unary(unary_fn fn, const vo_array *y, int64_t row0, int64_t rows) {
    const vo_array *x = y->in[0];
    int64_t d = y->shape[1];
    if (dense(x) && dense(y))
        fn(rows * d, vo_cpu_row(x, row0), vo_cpu_row(y, row0));
    else
        for (int64_t i = row0; i < row0 + rows; i++) fn(d, vo_cpu_row(x, i), vo_cpu_row(y, i));
}

static void apply_binary(binary_fn fn, const vo_array *y, int64_t row0, int64_t rows) {
    const vo_array *a = y->in[0], *b = y->in[1];
    int64_t d = y->shape[1];
    if (dense(a) && dense(b) && dense(y))
        fn(rows * d, vo_cpu_row(a, row0), vo_cpu_row(b, row0), vo_cpu_row(y, row0));
    else
        for (int64_t i = row0; i < row0 + rows; i++)
            fn(d, vo_cpu_row(a, i), vo_cpu_row(b, i), vo_cpu_row(y, i));
}

/* Beside products in bf16 or int8 a table loses nothing as halves. */
static bool halves_are_enough(const vo_array *node) {
    return node->compute != VO_COMPUTE_F32;
}

static void add_table_row(const vo_kernels *k, const vo_array *node, int64_t i) {
    enum { PIECE = 256 };
    const int64_t n = node->shape[1], first = i % node->attr.window * n;
    const float *x = vo_cpu_row(node->in[0], i);
    float *y = vo_cpu_row(node, i), piece[PIECE];
    if (!halves_are_enough(node)) {
        k->add(n, x, (const float *)node->in[1]->prepared + first, y);
        return;
    }
    const uint16_t *table = (const uint16_t *)node->in[1]->prepared + first;
    for (int64_t j = 0; j < n; j += PIECE) {
        const int64_t some = n - j < PIECE ? n - j : PIECE;
        k->f16_to_f32(some, table + j, piece);
        k->add(some, x + j, piece, y + j);
    }
}

static void tile(vo_cpu_backend *cpu, const vo_array *node, int64_t row0, int64_t rows) {
    const vo_kernels *k = &cpu->kernels;
    switch (node->op) {
    case VO_OP_add:
        apply_binary(k->add, node, row0, rows);
        break;
    case VO_OP_mul:
        apply_binary(k->mul, node, row0, rows);
        break;
    case VO_OP_gelu:
        if (node->compute == VO_COMPUTE_F32)
            apply_unary(k->gelu, node, row0, rows);
        else /* as it would be after a product */
            k->epilogue(rows, node->shape[1], vo_cpu_row(node->in[0], row0),
                        node->in[0]->row_stride, NULL, VO_GELU_NEAR, NULL, 0,
                        vo_cpu_row(node, row0), node->row_stride);
        break;
    case VO_OP_relu:
        apply_unary(k->relu, node, row0, rows);
        break;
    case VO_OP_sigmoid:
        apply_unary(k->sigmoid, node, row0, rows);
        break;
    case VO_OP_tanh:
        apply_unary(k->tanh, node, row0, rows);
        break;
    case VO_OP_sqrt:
        apply_unary(k->sqrt, node, row0, rows);
        break;
    case VO_OP_scale:
        for (int64_t i = row0; i < row0 + rows; i++)
            k->scale(node->shape[1], vo_cpu_row(node->in[0], i), node->attr.scale,
                     vo_cpu_row(node, i));
        break;
    case VO_OP_add_table:
        for (int64_t i = row0; i < row0 + rows; i++) add_table_row(k, node, i);
        break;
    default:
        break;
    }
}

static void run(vo_cpu_backend *cpu, const vo_array *node, int64_t rows, void *workspace) {
    vo_cpu_over_rows(cpu, node, rows, node->shape[1], tile);
}

static vo_status prepare_table(vo_cpu_backend *cpu, vo_array *node, size_t *workspace,
                               vo_error *err) {
    return halves_are_enough(node) ? vo_cpu_prepare_f16(cpu, node->in[1], err)
                                   : vo_cpu_prepare_f32(cpu, node->in[1], err);
}

const vo_cpu_op vo_cpu_add = {NULL, run};
const vo_cpu_op vo_cpu_mul = {NULL, run};
const vo_cpu_op vo_cpu_scale = {NULL, run};
const vo_cpu_op vo_cpu_gelu = {NULL, run};
const vo_cpu_op vo_cpu_relu = {NULL, run};
const vo_cpu_op vo_cpu_sigmoid = {NULL, run};
const vo_cpu_op vo_cpu_tanh = {NULL, run};
const vo_cpu_op vo_cpu_sqrt = {NULL, run};
const vo_cpu_op vo_cpu_add_table = {prepare_table, run};
