/* SPDX-License-Identifier: MIT
 *
 * The product ops in terms of matmul.h: linear, convolution as a product over overlapping
 * rows, and the plain matmul of the fallbacks.
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/matmul.h"

#include <math.h>
#include <string.h>

/* ---- linear ------------------------------------------------------------------------------- */

static vo_status prepare_product(vo_cpu_backend *cpu, vo_array *node, int64_t m, size_t *workspace,
                                 vo_error *err) {
    vo_status status = vo_cpu_prepare_packed(cpu, node, node->in[1], err);
    if (status == VO_OK && node->in[2]) status = vo_cpu_prepare_f32(cpu, node->in[2], err);
    if (status != VO_OK) return status;
    const vo_packed *w = node->in[1]->prepared;
    *workspace = vo_gemm_workspace(&cpu->kernels, vo_pool_threads(cpu->pool), m, w);
    return VO_OK;
}

static vo_status prepare_linear(vo_cpu_backend *cpu, vo_array *node, size_t *workspace,
                                vo_error *err) {
    return prepare_product(cpu, node, node->shape[0], workspace, err);
}

static void run_linear(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *x = y->in[0], *residual = y->n_in > 3 ? y->in[3] : NULL;
    vo_gemm gemm = {.m = rows,
                    .a = x->data,
                    .lda = x->row_stride,
                    .b = y->in[1]->prepared,
                    .bias = y->in[2] ? y->in[2]->prepared : NULL,
                    .gelu = y->attr.gelu,
                    .residual = residual ? residual->data : NULL,
                    .ldr = residual ? residual->row_stride : 0,
                    .c = y->data,
                    .ldc = y->row_stride};
    vo_gemm_run(&gemm, &cpu->kernels, cpu->pool, workspace);
}

/* ---- conv1d -------------------------------------------------------------------------------
 * With rows as time, output t reads the kernel*c floats that start at padded row t*stride:
 * a matrix whose rows overlap, multiplied by the weight [m][kernel*c]. Long windows are
 * padded one at a time; windows of few rows are copied out in batches so that the product has
 * enough rows to be worth it. */

enum { CONV_COPY_ROWS = 256 };

static int64_t conv_out_rows(const vo_array *y) {
    return (y->attr.window + 2 * y->attr.pad - y->attr.kernel) / y->attr.stride + 1;
}

/* Bytes before the GEMM's own workspace: the padded window or the copied rows. */
static size_t conv_scratch(const vo_array *y) {
    int64_t c = y->in[0]->shape[1], out = conv_out_rows(y);
    int64_t floats = out >= CONV_COPY_ROWS ? (y->attr.window + 2 * y->attr.pad) * c
                                           : (CONV_COPY_ROWS + out) * y->attr.kernel * c;
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}

static vo_status prepare_conv1d(vo_cpu_backend *cpu, vo_array *node, size_t *workspace,
                                vo_error *err) {
    int64_t out = conv_out_rows(node);
    vo_status status = prepare_product(
        cpu, node, out >= CONV_COPY_ROWS ? out : CONV_COPY_ROWS + out, workspace, err);
    *workspace += conv_scratch(node);
    return status;
}

static void conv_product(vo_cpu_backend *cpu, const vo_array *y, const float *a, int64_t lda,
                         int64_t row0, int64_t rows, void *workspace) {
    vo_gemm gemm = {.m = rows,
                    .a = a,
                    .lda = lda,
                    .b = y->in[1]->prepared,
                    .bias = y->in[2] ? y->in[2]->prepared : NULL,
                    .gelu = y->attr.gelu,
                    .c = vo_cpu_row(y, row0),
                    .ldc = y->row_stride};
    vo_gemm_run(&gemm, &cpu->kernels, cpu->pool, workspace);
}

/* The kernel*c floats under output row t of the window that starts at row w0: zeros, neighbouring
 * rows of the window in one piece, zeros. */
static void copy_patch(const vo_array *y, int64_t w0, int64_t t, float *patch) {
    const vo_array *x = y->in[0];
    size_t row_bytes = (size_t)x->shape[1] * sizeof(float);
    int64_t first = t * y->attr.stride - y->attr.pad, last = first + y->attr.kernel;
    int64_t begin = first < 0 ? 0 : first, end = last > y->attr.window ? y->attr.window : last;
    if (begin >= end) { /* nothing but padding */
        memset(patch, 0, (size_t)y->attr.kernel * row_bytes);
        return;
    }
    char *out = (char *)patch;
    size_t before = (size_t)(begin - first) * row_bytes, inside = (size_t)(end - begin) * row_bytes;
    memset(out, 0, before);
    memcpy(out + before, vo_cpu_row(x, w0 + begin), inside);
    memset(out + before + inside, 0, (size_t)(last - end) * row_bytes);
}

static void conv_short(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, float *patches,
                       void *workspace) {
    int64_t out = conv_out_rows(y), width = y->attr.kernel * y->in[0]->shape[1];
    int64_t batch = CONV_COPY_ROWS / out * out;
    for (int64_t r = 0; r < rows; r += batch) {
        int64_t n = rows - r < batch ? rows - r : batch;
        for (int64_t i = 0; i < n; i++)
            copy_patch(y, (r + i) / out * y->attr.window, (r + i) % out, patches + i * width);
        conv_product(cpu, y, patches, width, r, n, workspace);
    }
}

static void run_conv1d(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *x = y->in[0];
    int64_t out = conv_out_rows(y), c = x->shape[1], pad = y->attr.pad * c;
    float *scratch = workspace;
    workspace = (char *)workspace + conv_scratch(y);
    if (out < CONV_COPY_ROWS) {
        conv_short(cpu, y, rows, scratch, workspace);
        return;
    }
    for (int64_t w = 0; w < rows / out; w++) {
        int64_t inner = y->attr.window * c;
        memset(scratch, 0, (size_t)pad * sizeof(float));
        memcpy(scratch + pad, vo_cpu_row(x, w * y->attr.window), (size_t)inner * sizeof(float));
        memset(scratch + pad + inner, 0, (size_t)pad * sizeof(float));
        conv_product(cpu, y, scratch, y->attr.stride * c, w * out, out, workspace);
    }
}

/* ---- matmul: plain loops, only fallbacks use it -------------------------------------------- */

static void matmul_tile(vo_cpu_backend *cpu, const vo_array *y, int64_t row0, int64_t rows) {
    const vo_array *a = y->in[0], *b = y->in[1];
    int64_t k = a->shape[1], bi = y->attr.transpose ? 1 : b->row_stride,
            bj = y->attr.transpose ? b->row_stride : 1;
    for (int64_t i = row0; i < row0 + rows; i++)
        for (int64_t j = 0; j < y->shape[1]; j++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum = fmaf(vo_cpu_row(a, i)[l], ((const float *)b->data)[l * bi + j * bj], sum);
            vo_cpu_row(y, i)[j] = sum;
        }
}

static void run_matmul(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    vo_cpu_over_rows(cpu, y, rows, y->shape[1] * y->in[0]->shape[1], matmul_tile);
}

const vo_cpu_op vo_cpu_linear = {prepare_linear, run_linear};
const vo_cpu_op vo_cpu_conv1d = {prepare_conv1d, run_conv1d};
const vo_cpu_op vo_cpu_matmul = {NULL, run_matmul};
