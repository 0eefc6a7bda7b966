/* SPDX-License-Identifier: MIT
 *
 * Element-wise kernels in plain C: each is its formula, evaluated in double where the
 * function is transcendental, and rounded once.
 */
#include <math.h>

#include "kernels/kernels.h"

void vo_ref_add(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

void vo_ref_mul(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

void vo_ref_scale(int64_t n, const float *x, float s, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = s * x[i];
}

void vo_ref_axpy(int64_t n, float s, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = fmaf(s, x[i], y[i]);
}

static float gelu(float x) {
    /* erfc keeps its relative precision for large negative x, where 1 + erf cancels. */
    return (float)(0.5 * x * erfc(-x * 0.70710678118654752440));
}

void vo_ref_gelu(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = gelu(x[i]);
}

void vo_ref_relu(int64_t n, const float *x, float *y) {
    /* Written so that NaN stays NaN. */
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

void vo_ref_sigmoid(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)(1.0 / (1.0 + exp(-(double)x[i])));
}

void vo_ref_tanh(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)tanh((double)x[i]);
}

void vo_ref_sqrt(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = sqrtf(x[i]);
}

void vo_ref_exp(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = (float)exp((double)x[i]);
}

void vo_ref_f16_to_f32(int64_t n, const uint16_t *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = vo_f16_to_f32(x[i]);
}

void vo_ref_f32_to_f16(int64_t n, const float *x, uint16_t *y) {
    for (int64_t i = 0; i < n; i++) y[i] = vo_f32_to_f16(x[i]);
}

void vo_ref_f32_to_s8(int64_t n, const float *x, int8_t *y, float *scale) {
    enum { MAX = 127 };
    float largest = 0.0f;
    for (int64_t i = 0; i < n; i++) largest = fmaxf(largest, fabsf(x[i]));
    const bool tiny = largest < VO_INT8_TINY;
    const float inverse = tiny ? 0.0f : (float)MAX / largest;
    *scale = tiny ? 0.0f : largest / (float)MAX;
    for (int64_t i = 0; i < n; i++) y[i] = (int8_t)rintf(x[i] * inverse);
}
