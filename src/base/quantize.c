/* SPDX-License-Identifier: MIT
 *
 * A group of weights between its minimum and its maximum becomes whole numbers from 0 to 2^bits -
 * 1. The end that is farther from zero is met exactly, and zero itself is a whole number of steps
 * away from it, so that weights of zero stay zero. Scales may be negative.
 */
#include "base/quantize.h"

#include <float.h>
#include <math.h>
#include <string.h>

bool vo_narrow_floats(vo_dtype dtype, const float *x, int64_t n, void *out) {
    uint16_t *halves = out;
    bool fits = true;
    if (dtype == VO_F32) {
        memcpy(out, x, (size_t)n * sizeof *x);
        return true;
    }
    uint16_t infinity = dtype == VO_F16 ? 0x7c00 : 0x7f80;
    for (int64_t i = 0; i < n; i++) {
        halves[i] = dtype == VO_F16 ? vo_f32_to_f16(x[i]) : vo_f32_to_bf16(x[i]);
        if ((halves[i] & 0x7fff) == infinity && isfinite(x[i])) fits = false;
    }
    return fits;
}

/* Scale and bias of one group; false when it holds something but finite numbers. */
static bool fit_group(const float *x, int group, float steps, float *scale, float *bias) {
    float low = x[0], high = x[0];
    bool finite = true;
    for (int i = 0; i < group; i++) {
        finite &= fabsf(x[i]) <= FLT_MAX;
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    if (!finite) return false;
    bool from_low = fabsf(low) > fabsf(high);
    float edge = from_low ? low : high;
    *scale = fmaxf((high - low) / steps, 1e-7f);
    if (!isfinite(*scale)) return false; /* the width of the group overflows */
    if (!from_low) *scale = -*scale;
    float zero = rintf(edge / *scale);
    *bias = zero != 0 ? edge : 0;
    if (zero != 0) *scale = edge / zero;
    return true;
}

/* To whole numbers from 0 to steps. Ends are whole, so that cutting first rounds alike, and rintf
 * would be a call for each weight: the sum has the whole number in its last bits. */
static void round_group(const float *x, int n, float scale, float bias, float steps, uint8_t *q) {
    for (int i = 0; i < n; i++) {
        float y = (x[i] - bias) / scale;
        y = y > 0 ? y : 0;
        y = (y < steps ? y : steps) + 0x1p23f;
        uint32_t bits;
        memcpy(&bits, &y, sizeof bits);
        q[i] = (uint8_t)bits;
    }
}

bool vo_quantize_affine(const float *x, int64_t n, int group, int bits, uint8_t *packed,
                        float *scales, float *biases) {
    enum { PIECE = 64 };
    const float steps = (float)((1 << bits) - 1);
    for (int64_t g = 0; g < n / group; g++, x += group) {
        if (!fit_group(x, group, steps, &scales[g], &biases[g])) return false;
        for (int i = 0; i < group; i += PIECE) {
            const int count = group - i < PIECE ? group - i : PIECE;
            uint8_t q[PIECE + 1];
            round_group(x + i, count, scales[g], biases[g], steps, q);
            for (int k = 0; k < count; k += 8 / bits)
                *packed++ = bits == 8 ? q[k] : (uint8_t)(q[k] | q[k + 1] << 4);
        }
    }
    return true;
}
