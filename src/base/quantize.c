/* SPDX-License-Identifier: MIT
 *
 * A group of weights between its minimum and its maximum becomes whole numbers from 0 to 2^bits -
 * 1. The end that is farther from zero is met exactly, and zero itself is a whole number of steps
 * away from it, so that weights of zero stay zero. Scales may be negative.
 *
 * Where it is known which weights matter, the range is searched for instead: a narrower one cuts
 * off the outermost weights and has finer steps for all others.
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

/* ---- ranges by search -------------------------------------------------------------------- */

enum { MAX_GROUP = 128, LANES = 16 /* sums that a vector can hold side by side */ };

typedef struct affine {
    float scale, bias;
} affine;

/* One group, what matters of it, and the best that was found for it. */
typedef struct group_search {
    const float *x, *importance;
    int n;
    float steps;
    vo_dtype dtype; /* of scale and bias */
    affine best;
    float error;
} group_search;

static float sum_lanes(const float *lanes) {
    float sum = 0;
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

static float as_stored(vo_dtype dtype, float x) {
    if (dtype == VO_F16) return vo_f16_to_f32(vo_f32_to_f16(x));
    return dtype == VO_BF16 ? vo_bf16_to_f32(vo_f32_to_bf16(x)) : x;
}

/* The whole number for x, as a float. */
static inline float code_of(float x, affine a, float inverse, float steps) {
    float y = (x - a.bias) * inverse;
    y = y > 0 ? y : 0;
    return ((y < steps ? y : steps) + 0x1p23f) - 0x1p23f;
}

/* Keeps a scale and bias if they are better; false when they cannot be stored. */
static bool try_affine(group_search *g, affine a) {
    float lanes[LANES] = {0};
    a.scale = as_stored(g->dtype, a.scale);
    a.bias = as_stored(g->dtype, a.bias);
    const float inverse = 1 / a.scale;
    if (!isfinite(inverse) || !isfinite(a.scale) || !isfinite(a.bias)) return false;
    for (int i = 0; i < g->n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const float x = g->x[i + l], q = code_of(x, a, inverse, g->steps);
            const float e = q * a.scale + a.bias - x;
            lanes[l] += g->importance[i + l] * e * e;
        }
    const float error = sum_lanes(lanes);
    if (error < g->error) {
        g->error = error;
        g->best = a;
    }
    return true;
}

/* The line through the weights over their whole numbers under `a`, by weighted least squares. */
static bool fit_line(const group_search *g, affine *a) {
    float w[LANES] = {0}, wq[LANES] = {0}, wx[LANES] = {0}, wqq[LANES] = {0}, wqx[LANES] = {0};
    const float inverse = 1 / a->scale, middle = g->steps / 2;
    for (int i = 0; i < g->n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const float x = g->x[i + l], c = g->importance[i + l];
            const float q = code_of(x, *a, inverse, g->steps) - middle;
            w[l] += c;
            wq[l] += c * q;
            wx[l] += c * x;
            wqq[l] += c * q * q;
            wqx[l] += c * q * x;
        }
    const float n = sum_lanes(w), sq = sum_lanes(wq), sx = sum_lanes(wx);
    const float spread = n * sum_lanes(wqq) - sq * sq;
    a->scale = (n * sum_lanes(wqx) - sq * sx) / spread;
    a->bias = (sx - a->scale * sq) / n - a->scale * middle;
    return spread > 0 && isfinite(a->scale) && isfinite(a->bias) && a->scale != 0;
}

/* Both ends move in by up to a fifth of the width; each range is then refined once. */
static bool search_group(group_search *g) {
    static const float cuts[] = {0, 0.07f, 0.14f, 0.21f};
    enum { CUTS = sizeof cuts / sizeof *cuts };
    float low = g->x[0], high = g->x[0];
    if (!fit_group(g->x, g->n, g->steps, &g->best.scale, &g->best.bias)) return false;
    for (int i = 0; i < g->n; i++) {
        low = g->x[i] < low ? g->x[i] : low;
        high = g->x[i] > high ? g->x[i] : high;
    }
    g->error = INFINITY;
    if (!try_affine(g, g->best)) return false;
    for (int c = 0; c < CUTS * CUTS; c++) {
        const float cut_low = cuts[c / CUTS], cut_high = cuts[c % CUTS], width = high - low;
        affine a = {width * (1 - cut_low - cut_high) / g->steps, low + cut_low * width};
        if (!try_affine(g, a)) continue;
        if (fit_line(g, &a)) try_affine(g, a);
    }
    return true;
}

bool vo_quantize_search(const float *x, const float *importance, int n, int bits, vo_dtype dtype,
                        float *scale, float *bias) {
    group_search g = {.x = x,
                      .importance = importance,
                      .n = n,
                      .steps = (float)((1 << bits) - 1),
                      .dtype = dtype};
    if (!search_group(&g)) return false;
    *scale = g.best.scale;
    *bias = g.best.bias;
    return true;
}

bool vo_quantize_affine_weighted(const float *x, const float *importance, int64_t n, int group,
                                 int bits, vo_dtype dtype, uint8_t *packed, float *scales,
                                 float *biases) {
    const float steps = (float)((1 << bits) - 1);
    for (int64_t i = 0; i < n / group; i++, x += group, importance += group) {
        uint8_t q[MAX_GROUP + 1];
        if (!vo_quantize_search(x, importance, group, bits, dtype, &scales[i], &biases[i]))
            return false;
        round_group(x, group, scales[i], biases[i], steps, q);
        for (int k = 0; k < group; k += 8 / bits)
            *packed++ = bits == 8 ? q[k] : (uint8_t)(q[k] | q[k + 1] << 4);
    }
    return true;
}
