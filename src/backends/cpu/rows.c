/* SPDX-License-Identifier: MIT
 *
 * Ops that treat an array row by row: norms, softmax, look-ups.
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/matmul.h"

#include <string.h>

static void layer_norm_tile(vo_cpu_backend *cpu, const vo_array *y, int64_t row0, int64_t rows) {
    const vo_array *x = y->in[0];
    cpu->kernels.layer_norm(rows, y->shape[1], vo_cpu_row(x, row0), x->row_stride,
                            y->in[1]->prepared, y->in[2]->prepared, y->attr.eps,
                            vo_cpu_row(y, row0), y->row_stride);
}
static void run_layer_norm(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    vo_cpu_over_rows(cpu, y, rows, y->shape[1], layer_norm_tile);
}
static vo_status prepare_layer_norm(vo_cpu_backend *cpu, vo_array *node, size_t *workspace,
                                    vo_error *err) {
    vo_status status = vo_cpu_prepare_f32(cpu, node->in[1], err);
    return status == VO_OK ? vo_cpu_prepare_f32(cpu, node->in[2], err) : status;
}

static void softmax_tile(vo_cpu_backend *cpu, const vo_array *y, int64_t row0, int64_t rows) {
    const vo_array *x = y->in[0];
    cpu->kernels.softmax(rows, y->shape[1], vo_cpu_row(x, row0), x->row_stride, vo_cpu_row(y, row0),
                         y->row_stride);
}
static void run_softmax(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    vo_cpu_over_rows(cpu, y, rows, y->shape[1], softmax_tile);
}

/* Ids are checked by whoever feeds them (decoding); out of range would be our own mistake,
 * but a zero row is a better answer than a crash. */
static void run_embed(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const int32_t *ids = y->in[1]->data;
    const vo_packed *table = y->in[0]->prepared;
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] >= 0 && ids[i] < table->n)
            vo_packed_row(table, ids[i], vo_cpu_row(y, i));
        else
            memset(vo_cpu_row(y, i), 0, (size_t)y->shape[1] * sizeof(float));
}
static vo_status prepare_embed(vo_cpu_backend *cpu, vo_array *node, size_t *workspace,
                               vo_error *err) {
    return vo_cpu_prepare_packed(cpu, node, node->in[0], err);
}

static void run_take_rows(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *x = y->in[0];
    const int32_t *ids = y->in[1]->data;
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] >= 0 && ids[i] < x->shape[0])
            memcpy(vo_cpu_row(y, i), vo_cpu_row(x, ids[i]), (size_t)y->shape[1] * sizeof(float));
        else
            memset(vo_cpu_row(y, i), 0, (size_t)y->shape[1] * sizeof(float));
}

static void run_concat(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *a = y->in[0], *b = y->in[1];
    for (int64_t i = 0; i < rows; i++) {
        memcpy(vo_cpu_row(y, i), vo_cpu_row(a, i), (size_t)a->shape[1] * sizeof(float));
        memcpy(vo_cpu_row(y, i) + a->shape[1], vo_cpu_row(b, i),
               (size_t)b->shape[1] * sizeof(float));
    }
}

const vo_cpu_op vo_cpu_layer_norm = {prepare_layer_norm, run_layer_norm};
const vo_cpu_op vo_cpu_softmax = {NULL, run_softmax};
const vo_cpu_op vo_cpu_embed = {prepare_embed, run_embed};
const vo_cpu_op vo_cpu_take_rows = {NULL, run_take_rows};
const vo_cpu_op vo_cpu_concat = {NULL, run_concat};
