/* SPDX-License-Identifier: MIT
 *
 * LSTM over n steps (Hochreiter & Schmidhuber 1997, gate order i f g o as in PyTorch). The
 * input part of the gates was computed for all steps at once; what is left is one product
 * with W_hh a step, which cannot be parallel over time but takes several sequences at once.
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/matmul.h"

#include <string.h>

/* A product whose weights one core has in its cache is over before others have begun. */
static vo_pool *pool_for(const vo_cpu_backend *cpu, const vo_packed *w, int64_t sequences) {
    return sequences * w->n * w->k <= 1 << 18 ? NULL : cpu->pool;
}

static size_t gates_bytes(int64_t sequences, const vo_packed *w) {
    return ((size_t)(sequences * w->n) * sizeof(float) + 63) / 64 * 64;
}

static vo_status prepare(vo_cpu_backend *cpu, vo_array *y, size_t *workspace, vo_error *err) {
    vo_status status = vo_cpu_prepare_packed(cpu, y, y->in[1], err);
    if (status != VO_OK) return status;
    const vo_packed *w = y->in[1]->prepared;
    const int64_t sequences = y->in[2]->shape[0] / 2;
    const int threads = vo_pool_threads(pool_for(cpu, w, sequences));
    *workspace =
        gates_bytes(sequences, w) + vo_gemm_workspace(&cpu->kernels, threads, sequences, w);
    return VO_OK;
}

/* One sequence: g [4h] are its gates, h and c what it carries on. */
static void step(const vo_kernels *kernels, int64_t n, float *g, float *h, float *c) {
    float *in = g, *forget = g + n, *cell = g + 2 * n, *out = g + 3 * n;
    kernels->sigmoid(2 * n, in, in);
    kernels->tanh(n, cell, cell);
    kernels->sigmoid(n, out, out);
    kernels->mul(n, forget, c, c);
    kernels->mul(n, in, cell, cell);
    kernels->add(n, c, cell, c);
    kernels->tanh(n, c, h);
    kernels->mul(n, out, h, h);
}

static void run(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_kernels *kernels = &cpu->kernels;
    const vo_array *gates = y->in[0];
    const vo_packed *w = y->in[1]->prepared;
    const int64_t h = y->shape[1], sequences = y->in[2]->shape[0] / 2;
    vo_pool *pool = pool_for(cpu, w, sequences);
    float *state_h = y->in[2]->data, *state_c = state_h + sequences * h;
    float *g = workspace; /* [sequences, 4h] */
    void *rest = (char *)workspace + gates_bytes(sequences, w);
    for (int64_t row = 0; row + sequences <= rows; row += sequences) {
        vo_gemm product = {.m = sequences,
                           .a = state_h,
                           .lda = h,
                           .b = w,
                           .residual = (const float *)gates->data + row * gates->row_stride,
                           .ldr = gates->row_stride,
                           .c = g,
                           .ldc = 4 * h};
        vo_gemm_run(&product, kernels, pool, rest);
        for (int64_t i = 0; i < sequences; i++) {
            step(kernels, h, g + i * 4 * h, state_h + i * h, state_c + i * h);
            float *result = (float *)y->data + (row + i) * y->row_stride;
            memcpy(result, state_h + i * h, (size_t)h * sizeof *result);
        }
    }
}

const vo_cpu_op vo_cpu_lstm = {prepare, run};
