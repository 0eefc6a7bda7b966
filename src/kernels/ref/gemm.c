/* SPDX-License-Identifier: MIT
 *
 * GEMM in plain C: the definition of right. Every element of C is one chain of fused
 * multiply-adds over k in ascending order (the rule of sums in kernels.h); fmaf makes it the
 * same chain, bit for bit, as that of the vector levels.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "kernels/ref/ref.h"

void vo_ref_gemm_f32(int64_t k, const float *a, const float *b, float *c, int64_t ldc, int m, int n,
                     int accumulate) {
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = accumulate ? c[i * ldc + j] : 0.0f;
            for (int64_t kk = 0; kk < k; kk++)
                sum = fmaf(a[kk * VO_REF_MR + i], b[kk * VO_REF_NR + j], sum);
            c[i * ldc + j] = sum;
        }
    }
}

void vo_ref_gemm_f16(int64_t k, const float *a, const uint16_t *b, float *c, int64_t ldc, int m,
                     int n, int accumulate) {
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            float sum = accumulate ? c[i * ldc + j] : 0.0f;
            for (int64_t kk = 0; kk < k; kk++)
                sum = fmaf(a[kk * VO_REF_MR + i], vo_f16_to_f32(b[kk * VO_REF_NR + j]), sum);
            c[i * ldc + j] = sum;
        }
    }
}

void vo_ref_skinny_f32(int64_t k, int64_t panels, const float *a, int64_t lda, const float *b,
                       float *c, int64_t ldc, int m) {
    for (int64_t j = 0; j < panels * VO_REF_NR; j++) {
        const float *column = b + (j / VO_REF_NR) * k * VO_REF_NR + j % VO_REF_NR;
        for (int i = 0; i < m; i++) {
            float sum = 0.0f;
            for (int64_t kk = 0; kk < k; kk++)
                sum = fmaf(a[i * lda + kk], column[kk * VO_REF_NR], sum);
            c[i * ldc + j] = sum;
        }
    }
}

void vo_ref_skinny_f16(int64_t k, int64_t panels, const float *a, int64_t lda, const uint16_t *b,
                       float *c, int64_t ldc, int m) {
    for (int64_t j = 0; j < panels * VO_REF_NR; j++) {
        const uint16_t *column = b + (j / VO_REF_NR) * k * VO_REF_NR + j % VO_REF_NR;
        for (int i = 0; i < m; i++) {
            float sum = 0.0f;
            for (int64_t kk = 0; kk < k; kk++)
                sum = fmaf(a[i * lda + kk], vo_f16_to_f32(column[kk * VO_REF_NR]), sum);
            c[i * ldc + j] = sum;
        }
    }
}

void vo_ref_gemm_pack_a(int64_t k, int m, const float *a, int64_t lda, float *packed) {
    memset(packed, 0, (size_t)k * VO_REF_MR * sizeof(float));
    for (int64_t kk = 0; kk < k; kk++)
        for (int i = 0; i < m; i++) packed[kk * VO_REF_MR + i] = a[i * lda + kk];
}
