/* SPDX-License-Identifier: MIT
 *
 * Row kernels in plain C: layer norm, softmax and what follows a GEMM. Sums are double, so
 * that the reference's own error does not count.
 */
#include <math.h>

#include "kernels/kernels.h"

void vo_ref_layer_norm(int64_t rows, int64_t d, const float *x, int64_t ldx, const float *gamma,
                       const float *beta, float eps, float *y, int64_t ldy) {
    for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        double sum = 0.0, squares = 0.0;
        for (int64_t i = 0; i < d; i++) sum += x[i];
        double mean = sum / (double)d;
        for (int64_t i = 0; i < d; i++) squares += (x[i] - mean) * (x[i] - mean);
        double inv = 1.0 / sqrt(squares / (double)d + (double)eps);
        for (int64_t i = 0; i < d; i++) y[i] = (float)((x[i] - mean) * inv * gamma[i] + beta[i]);
    }
}

static void softmax_row(int64_t n, const float *x, float *y) {
    float max = -INFINITY;
    bool nan = false;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] > max) max = x[i];
        nan |= isnan(x[i]);
    }
    if (max == -INFINITY && !nan) {
        for (int64_t i = 0; i < n; i++) y[i] = 0.0f;
        return;
    }
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) sum += exp((double)x[i] - (double)max);
    for (int64_t i = 0; i < n; i++) y[i] = (float)(exp((double)x[i] - (double)max) / sum);
}

void vo_ref_softmax(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
    for (int64_t r = 0; r < rows; r++) softmax_row(n, x + r * ldx, y + r * ldy);
}

void vo_ref_epilogue(int64_t rows, int64_t n, const float *c, int64_t ldc, const float *bias,
                     int gelu, const float *residual, int64_t ldr, float *y, int64_t ldy) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < n; i++) {
            float x = c[r * ldc + i];
            if (bias) x += bias[i];
            if (gelu) vo_ref_gelu(1, &x, &x);
            if (residual) x += residual[r * ldr + i];
            y[r * ldy + i] = x;
        }
    }
}
