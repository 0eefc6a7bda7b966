/* SPDX-License-Identifier: MIT
 *
 * Passes over logits in blocks of 64 floats, with the vector types that gcc and clang share: 4
 * lanes exist on every machine. Only plain adds and multiplies in a fixed order, so results are
 * the same with every compiler.
 */
#ifndef VO_DECODE_VMATH_H
#define VO_DECODE_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { VO_VBLOCK = 64 };

/* Below this, exp(x) counts as 0 (it is less than 1.7e-38). */
#define VO_EXP_MIN (-87.0f)
/* A term this far below the largest one is left out of a sum of exponentials: even a
 * vocabulary of 200 000 such terms changes the sum by less than half a float's last bit. */
#define VO_EXP_NEGLIGIBLE (-30.0f)

typedef float vo_f4 __attribute__((vector_size(16)));
typedef int32_t vo_i4 __attribute__((vector_size(16)));
typedef uint32_t vo_u4 __attribute__((vector_size(16)));

static inline vo_f4 vo_f4_load(const float *x /* [4] */) {
    vo_f4 v;
    memcpy(&v, x, sizeof(v));
    return v;
}

/* Lanes of b where they are larger, else of a; NaN in b is ignored. */
static inline vo_f4 vo_f4_max(vo_f4 a, vo_f4 b) {
    vo_i4 larger = b > a;
    return (vo_f4)((larger & (vo_i4)b) | (~larger & (vo_i4)a));
}

/* exp(x * scale) for x * scale <= 0; 0 where that is below VO_EXP_MIN, and for NaN. The relative
 * error is below 3e-7 + 1e-7 |x * scale|, which a sum of exponentials does not show: what is
 * far below 0 adds little. x scale / ln 2 = n + f with |f| <= 1/2; 2^f is a minimax polynomial
 * with 2^0 = 1; n is added to the exponent bits. */
static inline vo_f4 vo_f4_exp(vo_f4 x, float scale) {
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it leaves the integer in the low bits */
    vo_f4 y = x * (scale * 1.44269504f);
    vo_f4 shifted = y + round;
    vo_f4 f = y - (shifted - round);
    vo_f4 p = f * 1.32647269e-3f + 9.67151266e-3f;
    p = p * f + 5.55073374e-2f;
    p = p * f + 0.240222421f;
    p = p * f + 0.693146978f;
    p = p * f + 1.0f;
    vo_u4 bits = (vo_u4)p + ((vo_u4)shifted << 23);
    return (vo_f4)(bits & (vo_u4)(y > VO_EXP_MIN * 1.44269504f));
}

static inline float vo_exp_scaled(float x, float scale) {
    vo_f4 v = {x, x, x, x};
    return vo_f4_exp(v, scale)[0];
}

/* Largest of a block; NaN is ignored, -inf when there is nothing else. */
static inline float vo_max_block(const float *x /* [64] */) {
    vo_f4 low = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    vo_f4 a = low, b = low, c = low, d = low;
    for (int i = 0; i < VO_VBLOCK; i += 16) {
        a = vo_f4_max(a, vo_f4_load(x + i));
        b = vo_f4_max(b, vo_f4_load(x + i + 4));
        c = vo_f4_max(c, vo_f4_load(x + i + 8));
        d = vo_f4_max(d, vo_f4_load(x + i + 12));
    }
    a = vo_f4_max(vo_f4_max(a, b), vo_f4_max(c, d));
    float max = a[0];
    for (int j = 1; j < 4; j++) max = a[j] > max ? a[j] : max;
    return max;
}

/* Sum of exp((x - max) * scale) over a block of floats, all <= max. */
static inline float vo_sum_exp_block(const float *x /* [64] */, float max, float scale) {
    vo_f4 a = {0}, b = {0}, c = {0}, d = {0};
    for (int i = 0; i < VO_VBLOCK; i += 16) {
        a += vo_f4_exp(vo_f4_load(x + i) - max, scale);
        b += vo_f4_exp(vo_f4_load(x + i + 4) - max, scale);
        c += vo_f4_exp(vo_f4_load(x + i + 8) - max, scale);
        d += vo_f4_exp(vo_f4_load(x + i + 12) - max, scale);
    }
    a = (a + b) + (c + d);
    return (a[0] + a[1]) + (a[2] + a[3]);
}

/* Block `index` of n floats: in place where it is whole, else in `padded`, filled up with
 * -inf, which changes neither a maximum nor a sum of exponentials. */
static inline const float *vo_block(const float *x /* [n] */, int n, int index,
                                    float *padded /* [64] */) {
    int begin = index * VO_VBLOCK;
    if (n - begin >= VO_VBLOCK) return x + begin;
    for (int i = 0; i < VO_VBLOCK; i++) padded[i] = begin + i < n ? x[begin + i] : -INFINITY;
    return padded;
}

static inline int vo_block_count(int n) {
    return n / VO_VBLOCK + (n % VO_VBLOCK != 0);
}

/* Largest of n floats. */
static inline float vo_max_floats(const float *x /* [n] */, int n) {
    float padded[VO_VBLOCK], max = -INFINITY;
    for (int b = 0; b < vo_block_count(n); b++) {
        float m = vo_max_block(vo_block(x, n, b, padded));
        max = m > max ? m : max;
    }
    return max;
}

#endif
