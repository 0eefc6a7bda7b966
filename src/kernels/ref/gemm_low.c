/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 and in int8, in plain C: the definition of right. bf16 products are exact in f32;
 * the two of a pair are added by fused multiply-adds, lower k first. int8 sums are exact. Weights
 * of 4 bits become bf16 first.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ref/ref.h"

/* Panels are VO_REF_NR wide here, so a level with another nr must replace all of these. */
enum { MR = VO_REF_MR, NR = VO_REF_NR };

static int64_t round_up(int64_t n, int64_t step) {
    return (n + step - 1) / step * step;
}

void vo_ref_bf16_pack_a(int64_t k, int m, const float *a, int64_t lda, uint16_t *packed) {
    memset(packed, 0, (size_t)round_up(k, VO_BF16_K) * MR * sizeof *packed);
    for (int64_t kk = 0; kk < k; kk++)
        for (int i = 0; i < m; i++)
            packed[(kk / 2 * MR + i) * 2 + kk % 2] = vo_f32_to_bf16(a[i * lda + kk]);
}

void vo_ref_gemm_bf16(int64_t k, const uint16_t *a, const uint16_t *b, float *c, int m,
                      int accumulate, const void *next, int64_t next_bytes) {
    (void)next, (void)next_bytes;
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < NR; j++) {
            float sum = accumulate ? c[i * NR + j] : 0.0f;
            for (int64_t kk = 0; kk < k; kk++)
                sum = fmaf(vo_bf16_to_f32(a[(kk / 2 * MR + i) * 2 + kk % 2]),
                           vo_bf16_to_f32(b[(kk / 2 * NR + j) * 2 + kk % 2]), sum);
            c[i * NR + j] = sum;
        }
    }
}

/* max|x|: as whole numbers magnitudes keep their order, and NaN is above infinity. */
static float largest_of(int64_t n, const float *x) {
    uint32_t largest = 0;
    float value;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        if (bits > largest) largest = bits;
    }
    memcpy(&value, &largest, sizeof value);
    return value;
}

void vo_ref_int8_pack_a(int64_t k, int m, const float *a, int64_t lda, const float *factors,
                        uint8_t *packed, float *scales) {
    enum { MAX = 127, ZERO = 128 };
    float scaled[VO_INT8_GROUP];
    memset(packed, ZERO, (size_t)round_up(k, VO_INT8_K) * MR);
    for (int i = 0; i < MR; i++) {
        const float *row = factors ? scaled : a + i * lda;
        for (int64_t kk = 0; factors && i < m && kk < k; kk++)
            scaled[kk] = a[i * lda + kk] * factors[kk];
        const float largest = i < m ? largest_of(k, row) : 0.0f;
        scales[i] = largest < VO_INT8_TINY ? 0.0f : largest / (float)MAX;
        if (!isfinite(largest) || largest < VO_INT8_TINY) continue;
        const float inverse = (float)MAX / largest;
        for (int64_t kk = 0; kk < k; kk++) {
            const float q = rintf(row[kk] * inverse);
            packed[(kk / 4 * MR + i) * 4 + kk % 4] =
                (uint8_t)((int)fminf(fmaxf(q, -MAX), MAX) + ZERO);
        }
    }
}

void vo_ref_gemm_int8(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m,
                      int accumulate, const void *next, int64_t next_bytes) {
    (void)next, (void)next_bytes;
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < NR; j++) {
            int32_t sum = accumulate ? c[i * NR + j] : 0;
            for (int64_t kk = 0; kk < k; kk++)
                sum += a[(kk / 4 * MR + i) * 4 + kk % 4] * b[(kk / 4 * NR + j) * 4 + kk % 4];
            c[i * NR + j] = sum;
        }
    }
}

void vo_ref_int8_scale(int64_t rows, int n, const int32_t *c, const float *scales,
                       const float *columns, const int32_t *zero, float *y, int add) {
    for (int64_t i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            const float sum = (float)(c[i * NR + j] - zero[j]), factor = scales[i] * columns[j];
            y[i * NR + j] = add ? fmaf(sum, factor, y[i * NR + j]) : sum * factor;
        }
}

void vo_ref_int4_to_bf16(int64_t k, int64_t group, const uint32_t *codes, const uint16_t *scales,
                         uint16_t *y) {
    for (int64_t kk = 0; kk < k; kk++) {
        const uint16_t *scale = scales + kk / group * 2 * NR, *bias = scale + NR;
        for (int j = 0; j < NR; j++) {
            const float q = (float)(codes[kk / 8 * NR + j] >> 4 * (kk % 8) & 15);
            const float value = q * vo_f16_to_f32(scale[j]) + vo_f16_to_f32(bias[j]);
            y[(kk / 2 * NR + j) * 2 + kk % 2] = vo_f32_to_bf16(value);
        }
    }
}

void vo_ref_tiles_begin(void) {}

void vo_ref_tiles_end(void) {}
