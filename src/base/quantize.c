/* SPDX-License-Identifier: MIT
 *
 * A group of weights between its minimum and its maximum becomes whole numbers from 0 to 2^bits -
 * 1. The end that is farther from zero is met exactly, and zero itself is a whole number of steps
 * away from it, so that weights of zero stay zero. Scales may be negative.
 */
#include "base/quantize.h"

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
    for (int i = 0; i < group; i++) {
        if (!isfinite(x[i])) return false;
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
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

bool vo_quantize_affine(const float *x, int64_t n, int group, int bits, uint8_t *packed,
                        float *scales, float *biases) {
    float steps = (float)((1 << bits) - 1);
    int per_byte = 8 / bits;
    for (int64_t g = 0; g < n / group; g++, x += group) {
        if (!fit_group(x, group, steps, &scales[g], &biases[g])) return false;
        for (int i = 0; i < group; i += per_byte) {
            unsigned byte = 0;
            for (int k = 0; k < per_byte; k++) {
                float q = rintf((x[i + k] - biases[g]) / scales[g]);
                byte |= (unsigned)fminf(fmaxf(q, 0), steps) << k * bits;
            }
            *packed++ = (uint8_t)byte;
        }
    }
    return true;
}
