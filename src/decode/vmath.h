/* SPDX-License-Identifier: MIT
 *
 * Passes over logits, written so that the compiler turns them into vector code at the baseline
 * instruction set: fixed blocks of 64 floats, 16 independent lanes, no calls inside. Only plain
 * adds and multiplies in a fixed order, so results are the same with every compiler.
 */
#ifndef VO_DECODE_VMATH_H
#define VO_DECODE_VMATH_H

#include <math.h>
#include <stdint.h>

enum { VO_VBLOCK = 64, VO_VLANES = 16 };

/* Below this, exp(x) counts as 0 (it is less than 1.7e-38). */
#define VO_EXP_MIN (-87.0f)
/* A term this far below the largest one is left out of a sum of exponentials: even a
 * vocabulary of 200 000 such terms changes the sum by less than half a float's last bit. */
#define VO_EXP_NEGLIGIBLE (-30.0f)

/* exp(x) for x <= 0 with a relative error below 2e-7; 0 for x < VO_EXP_MIN and for NaN.
 * x = n ln 2 + r with |r| <= ln(2) / 2; exp(r) is a degree-6 minimax polynomial; 2^n is added
 * to the exponent bits. */
static inline float vo_exp_negative(float x) {
    union {
        float f;
        uint32_t u;
    } shifted, result;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the integer in the low bits */
    float c = x > VO_EXP_MIN ? x : VO_EXP_MIN;
    shifted.f = c * 1.44269504f + round;
    float n = shifted.f - round;
    /* ln 2 in two parts; the first has few bits, so that its product with n is exact */
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float q = 1.3814465e-3f;
    q = q * r + 8.3687806e-3f;
    q = q * r + 4.1668394e-2f;
    q = q * r + 0.16666520f;
    q = q * r + 0.49999993f;
    result.f = (q * r) * r + r + 1.0f;
    result.u += shifted.u << 23;
    return x > VO_EXP_MIN ? result.f : 0.0f;
}

/* Largest of n floats; NaN is ignored, -inf when there is nothing else. */
static inline float vo_max_block(const float *x, int n) {
    float lane[VO_VLANES];
    for (int j = 0; j < VO_VLANES; j++) lane[j] = -INFINITY;
    int i = 0;
    for (; i + VO_VLANES <= n; i += VO_VLANES) {
        for (int j = 0; j < VO_VLANES; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    }
    for (int j = 0; i + j < n; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int width = VO_VLANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; j++) {
            lane[j] = lane[j + width] > lane[j] ? lane[j + width] : lane[j];
        }
    }
    return lane[0];
}

/* Sum of exp((x - max) * scale) over at most VO_VBLOCK floats, all <= max. */
static inline float vo_sum_exp_block(const float *x, int n, float max, float scale) {
    float lane[VO_VLANES] = {0};
    int i = 0;
    for (; i + VO_VLANES <= n; i += VO_VLANES) {
        for (int j = 0; j < VO_VLANES; j++) {
            lane[j] += vo_exp_negative((x[i + j] - max) * scale);
        }
    }
    for (int j = 0; i + j < n; j++) lane[j] += vo_exp_negative((x[i + j] - max) * scale);
    for (int width = VO_VLANES / 2; width > 0; width /= 2) {
        for (int j = 0; j < width; j++) lane[j] += lane[j + width];
    }
    return lane[0];
}

#endif
