/* SPDX-License-Identifier: MIT
 *
 * Kernels over rows, written once for any vector (include elementwise.inc.h first). Sums run
 * in blocks: four vector accumulators over ROW_BLOCK elements, blocks added in double. The
 * order depends on the length of the row only, and the error stays at a few ulp for rows
 * as long as a vocabulary.
 */
#include <string.h>

#include "kernels/simd/bytes.inc.h"

enum { ROW_BLOCK = 1024 };

static inline int64_t row_block_end(int64_t start, int64_t n) {
    return n - start < ROW_BLOCK ? n : start + ROW_BLOCK;
}

/* sum of f(x - shift) over a row, f given by `square` */
static inline double row_moment(int64_t n, const float *x, float shift, int square) {
    const vf vs = v_set(shift), zero = v_set(0.0f);
    double total = 0;
    for (int64_t start = 0, end; start < n; start = end) {
        end = row_block_end(start, n);
        vf acc[4] = {zero, zero, zero, zero};
        int64_t i = start;
        for (; i + 4 * VF_LANES <= end; i += 4 * VF_LANES) {
            for (int j = 0; j < 4; j++) {
                const vf d = v_sub(v_load(x + i + j * VF_LANES), vs);
                acc[j] = square ? v_fma(d, d, acc[j]) : v_add(acc[j], d);
            }
        }
        for (; i < end; i += VF_LANES) {
            const int rest = end - i < VF_LANES ? (int)(end - i) : VF_LANES;
            const vf d = v_select(v_first(rest), v_sub(v_load_n(x + i, rest), vs), zero);
            acc[0] = square ? v_fma(d, d, acc[0]) : v_add(acc[0], d);
        }
        total += (double)v_sum(v_add(v_add(acc[0], acc[1]), v_add(acc[2], acc[3])));
    }
    return total;
}

void VO_FN(layer_norm)(int64_t rows, int64_t d, const float *x, int64_t ldx, const float *gamma,
                       const float *beta, float eps, float *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, x += ldx, y += ldy) {
        const float mean = (float)(row_moment(d, x, 0.0f, 0) / (double)d);
        const double variance = row_moment(d, x, mean, 1) / (double)d;
        const vf vmean = v_set(mean);
        const vf inverse = v_set((float)(1.0 / sqrt(variance + (double)eps)));
        int64_t i = 0;
        for (; i + VF_LANES <= d; i += VF_LANES) {
            const vf unit = v_mul(v_sub(v_load(x + i), vmean), inverse);
            v_store(y + i, v_fma(unit, v_load(gamma + i), v_load(beta + i)));
        }
        if (i < d) {
            const int rest = (int)(d - i);
            const vf unit = v_mul(v_sub(v_load_n(x + i, rest), vmean), inverse);
            const vf out = v_fma(unit, v_load_n(gamma + i, rest), v_load_n(beta + i, rest));
            v_store_n(y + i, out, rest);
        }
    }
}

static inline float row_max(int64_t n, const float *x) {
    const vf least = v_set(-INFINITY);
    vf m0 = least, m1 = least;
    int64_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES) {
        m0 = v_max(m0, v_load(x + i));
        m1 = v_max(m1, v_load(x + i + VF_LANES));
    }
    for (; i < n; i += VF_LANES) {
        const int rest = n - i < VF_LANES ? (int)(n - i) : VF_LANES;
        m0 = v_max(m0, v_select(v_first(rest), v_load_n(x + i, rest), least));
    }
    return v_hmax(v_max(m0, m1));
}

/* y = e^(x - max); returns the sum */
static inline double row_exp(int64_t n, const float *x, float max, float *y) {
    const vf vmax = v_set(max), zero = v_set(0.0f);
    double total = 0;
    for (int64_t start = 0, end; start < n; start = end) {
        end = row_block_end(start, n);
        vf acc0 = zero, acc1 = zero;
        int64_t i = start;
        for (; i + 2 * VF_LANES <= end; i += 2 * VF_LANES) {
            const vf e0 = v_exp(v_sub(v_load(x + i), vmax));
            const vf e1 = v_exp(v_sub(v_load(x + i + VF_LANES), vmax));
            v_store(y + i, e0);
            v_store(y + i + VF_LANES, e1);
            acc0 = v_add(acc0, e0);
            acc1 = v_add(acc1, e1);
        }
        for (; i < end; i += VF_LANES) {
            const int rest = end - i < VF_LANES ? (int)(end - i) : VF_LANES;
            const vf e = v_exp(v_sub(v_load_n(x + i, rest), vmax));
            v_store_n(y + i, e, rest);
            acc0 = v_add(acc0, v_select(v_first(rest), e, zero));
        }
        total += (double)v_sum(v_add(acc0, acc1));
    }
    return total;
}

void VO_FN(softmax)(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
    for (int64_t row = 0; row < rows; row++, x += ldx, y += ldy) {
        const float max = row_max(n, x);
        if (max == -INFINITY) {
            for (int64_t i = 0; i < n; i++) y[i] = 0.0f;
            continue;
        }
        const double sum = row_exp(n, x, max, y);
        VO_FN(scale)(n, y, (float)(1.0 / sum), y);
    }
}

static inline vf epilogue_value(vf x, vf bias, int gelu) {
    x = v_add(x, bias);
    if (gelu == VO_GELU_NEAR) return v_gelu_near(x);
    return gelu ? v_gelu(x) : x;
}

void VO_FN(epilogue)(int64_t rows, int64_t n, const float *c, int64_t ldc, const float *bias,
                     int gelu, const float *residual, int64_t ldr, float *y, int64_t ldy) {
    const vf zero = v_set(0.0f);
    for (int64_t row = 0; row < rows; row++, c += ldc, y += ldy) {
        int64_t i = 0;
        for (; i + VF_LANES <= n; i += VF_LANES) {
            vf x = epilogue_value(v_load(c + i), bias ? v_load(bias + i) : zero, gelu);
            if (residual) x = v_add(x, v_load(residual + i));
            v_store(y + i, x);
        }
        if (i < n) {
            const int rest = (int)(n - i);
            vf x =
                epilogue_value(v_load_n(c + i, rest), bias ? v_load_n(bias + i, rest) : zero, gelu);
            if (residual) x = v_add(x, v_load_n(residual + i, rest));
            v_store_n(y + i, x, rest);
        }
        if (residual) residual += ldr;
    }
}

void VO_FN(f32_to_s8)(int64_t n, const float *x, int8_t *y, float *scale) {
    const vf factor = v_set(inverse_scale(largest_of(n, x), 127, scale));
    for (int64_t i = 0; i < n; i += BYTES_FLOATS) {
        uint8_t bytes[BYTES_FLOATS];
        store_bytes(x + i, n - i, factor, 0, bytes);
        memcpy(y + i, bytes, n - i < BYTES_FLOATS ? (size_t)(n - i) : (size_t)BYTES_FLOATS);
    }
}
