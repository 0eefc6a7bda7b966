/* SPDX-License-Identifier: MIT
 *
 * LSTM over n steps (Hochreiter & Schmidhuber 1997, gate order i f g o as in PyTorch). The
 * input part of the gates was computed for all steps at once; what is left is one product
 * with W_hh a step, which cannot be parallel over time.
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/matmul.h"

/* A product whose weights one core has in its cache is over before others have begun. */
static vo_pool *pool_for(const vo_cpu_backend *cpu, const vo_packed *w) {
    return w->n * w->k <= 1 << 18 ? NULL : cpu->pool;
}

static vo_status prepare(vo_cpu_backend *cpu, vo_array *y, size_t *workspace, vo_error *err) {
    vo_status status = vo_cpu_prepare_packed(cpu, y, y->in[1], err);
    if (status != VO_OK) return status;
    const vo_packed *w = y->in[1]->prepared;
    *workspace = (size_t)(w->n + 16) * sizeof(float) +
                 vo_gemm_workspace(&cpu->kernels, vo_pool_threads(pool_for(cpu, w)), 1, w);
    return VO_OK;
}

static void run(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_kernels *kernels = &cpu->kernels;
    const vo_array *gates = y->in[0];
    const vo_packed *w = y->in[1]->prepared;
    vo_pool *pool = pool_for(cpu, w);
    int64_t h = y->shape[1];
    float *state_h = y->in[2]->data, *state_c = state_h + h;
    float *g = workspace; /* [4h] */
    void *rest = (char *)workspace + (((size_t)(4 * h) * sizeof(float) + 63) / 64 * 64);
    for (int64_t t = 0; t < rows; t++) {
        vo_gemm step = {.m = 1,
                        .a = state_h,
                        .lda = h,
                        .b = w,
                        .residual = (const float *)gates->data + t * gates->row_stride,
                        .ldr = 4 * h,
                        .c = g,
                        .ldc = 4 * h};
        vo_gemm_run(&step, kernels, pool, rest);
        float *in = g, *forget = g + h, *cell = g + 2 * h, *out = g + 3 * h;
        kernels->sigmoid(2 * h, in, in);
        kernels->tanh(h, cell, cell);
        kernels->sigmoid(h, out, out);
        kernels->mul(h, forget, state_c, state_c);
        kernels->mul(h, in, cell, cell);
        kernels->add(h, state_c, cell, state_c);
        kernels->tanh(h, state_c, state_h);
        kernels->mul(h, out, state_h, state_h);
        float *result = (float *)y->data + t * y->row_stride;
        for (int64_t j = 0; j < h; j++) result[j] = state_h[j];
    }
}

const vo_cpu_op vo_cpu_lstm = {prepare, run};
