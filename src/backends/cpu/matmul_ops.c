/* SPDX-License-Identifier: MIT
 *
 * The product ops in terms of matmul.h: linear, convolution as a product over overlapping
 * rows, and the plain matmul of the fallbacks.
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/feed_forward.h"
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
    vo_status status = prepare_product(cpu, node, node->shape[0], workspace, err);
    if (status != VO_OK) return status;
    if (node->sliced) *workspace = 0;
    if (node->in[0]->sliced)
        *workspace = vo_feed_forward_workspace(&cpu->kernels, node->shape[0],
                                               node->in[0]->in[1]->prepared, node->in[1]->prepared);
    return VO_OK;
}

static int gelu_of(const vo_array *y) {
    if (!y->attr.gelu) return 0;
    return y->compute == VO_COMPUTE_F32 ? VO_GELU : VO_GELU_NEAR;
}

static vo_gemm gemm_of(const vo_array *y, int64_t rows) {
    const vo_array *x = y->in[0], *residual = y->n_in > 3 ? y->in[3] : NULL;
    return (vo_gemm){.m = rows,
                     .a = x->data,
                     .lda = x->row_stride,
                     .b = y->in[1]->prepared,
                     .bias = y->in[2] ? y->in[2]->prepared : NULL,
                     .gelu = gelu_of(y),
                     .residual = residual ? residual->data : NULL,
                     .ldr = residual ? residual->row_stride : 0,
                     .c = y->data,
                     .ldc = y->row_stride};
}

static void run_linear(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_gemm gemm = gemm_of(y, rows);
    if (y->in[0]->sliced) {
        const vo_gemm first = gemm_of(y->in[0], rows);
        vo_feed_forward_run(&first, &gemm, &cpu->kernels, workspace);
        return;
    }
    vo_gemm_run(&gemm, &cpu->kernels, cpu->pool, workspace);
}

/* ---- conv1d -------------------------------------------------------------------------------
 * With rows as time, output t reads the kernel*c floats that start at input row t*stride - pad: a
 * matrix whose rows overlap, multiplied by the weight [m][kernel*c]. It lies in the input as it is,
 * but for the outputs at the edges of a window, which see padding: their inputs are copied out. So
 * are all of windows with few outputs, many windows at once, so that the product has enough rows.
 */

enum { CONV_COPY_ROWS = 256 }; /* most rows that are copied out at once */

static int64_t conv_out_rows(const vo_array *y) {
    return (y->attr.window + 2 * y->attr.pad - y->attr.kernel) / y->attr.stride + 1;
}

/* Outputs [*first, *end) of a window see no padding and are enough to multiply the input in place.
 */
static bool conv_in_place(const vo_array *y, int64_t *first, int64_t *end) {
    const vo_array *x = y->in[0];
    const int64_t out = conv_out_rows(y), stride = y->attr.stride;
    const int64_t room = y->attr.window + y->attr.pad - y->attr.kernel;
    *first = (y->attr.pad + stride - 1) / stride;
    *end = room < 0 ? 0 : room / stride + 1;
    if (*end > out) *end = out;
    return x->row_stride == x->shape[1] && *end - *first >= CONV_COPY_ROWS &&
           *first <= CONV_COPY_ROWS && out - *end <= CONV_COPY_ROWS;
}

/* Rows that are copied out at once. */
static int64_t conv_copied(const vo_array *y) {
    int64_t first, end;
    if (!conv_in_place(y, &first, &end)) return CONV_COPY_ROWS;
    const int64_t rest = conv_out_rows(y) - end;
    return first > rest ? first : rest;
}

/* Bytes before the GEMM's own workspace: the copied rows. */
static size_t conv_scratch(const vo_array *y) {
    const int64_t floats = conv_copied(y) * y->attr.kernel * y->in[0]->shape[1];
    return ((size_t)floats * sizeof(float) + 63) / 64 * 64;
}

static vo_status prepare_conv1d(vo_cpu_backend *cpu, vo_array *node, size_t *workspace,
                                vo_error *err) {
    int64_t first, end;
    const int64_t rows = conv_in_place(node, &first, &end) ? end - first : CONV_COPY_ROWS;
    vo_status status = prepare_product(cpu, node, rows, workspace, err);
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
                    .gelu = gelu_of(y),
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

/* Outputs [row0, row0 + rows), which may belong to several windows, from copies of their inputs. */
static void conv_copies(vo_cpu_backend *cpu, const vo_array *y, int64_t row0, int64_t rows,
                        float *patches, void *workspace) {
    const int64_t out = conv_out_rows(y), width = y->attr.kernel * y->in[0]->shape[1];
    for (int64_t end = row0 + rows, n; row0 < end; row0 += n) {
        n = end - row0 < CONV_COPY_ROWS ? end - row0 : CONV_COPY_ROWS;
        for (int64_t i = 0; i < n; i++)
            copy_patch(y, (row0 + i) / out * y->attr.window, (row0 + i) % out, patches + i * width);
        conv_product(cpu, y, patches, width, row0, n, workspace);
    }
}

static void run_conv1d(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *x = y->in[0];
    const int64_t out = conv_out_rows(y);
    float *patches = workspace;
    int64_t first, end;
    workspace = (char *)workspace + conv_scratch(y);
    if (!conv_in_place(y, &first, &end)) {
        conv_copies(cpu, y, 0, rows, patches, workspace);
        return;
    }
    for (int64_t w = 0; w < rows / out; w++) {
        const int64_t row = w * y->attr.window + first * y->attr.stride - y->attr.pad;
        conv_copies(cpu, y, w * out, first, patches, workspace);
        conv_product(cpu, y, vo_cpu_row(x, row), y->attr.stride * x->shape[1], w * out + first,
                     end - first, workspace);
        conv_copies(cpu, y, w * out + end, out - end, patches, workspace);
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
