/* SPDX-License-Identifier: MIT
 *
 * GEMM on NEON. The tile is 8 x 12: every element is a lane of an accumulator that lives
 * in a register while k runs, which is the rule of sums (kernels.h) at no cost. f16 weights
 * are widened as they are loaded.
 */
#if !defined(__ARM_NEON)
#error "this file needs NEON"
#endif

#include <arm_neon.h>
#include <string.h>

#include "kernels/arm/arm.h"
#include "kernels/unroll.h"

enum { MR = VO_NEON_MR, NR = VO_NEON_NR, NV = NR / 4 };

typedef float32x4_t row_of_tile[NV];

/* NR columns of B at one k; half is a constant wherever this is called */
VO_INLINE void load_b(const void *b, int64_t at, int half, row_of_tile out) {
    VO_UNROLL
    for (int j = 0; j < NV; j++) {
        if (half) {
            const uint16_t *p = (const uint16_t *)b + at + 4 * j;
            out[j] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
        } else {
            out[j] = vld1q_f32((const float *)b + at + 4 * j);
        }
    }
}

VO_INLINE void fma_lane0(row_of_tile acc, const row_of_tile b, float32x4_t a) {
    VO_UNROLL
    for (int j = 0; j < NV; j++) acc[j] = vfmaq_laneq_f32(acc[j], b[j], a, 0);
}
VO_INLINE void fma_lane1(row_of_tile acc, const row_of_tile b, float32x4_t a) {
    VO_UNROLL
    for (int j = 0; j < NV; j++) acc[j] = vfmaq_laneq_f32(acc[j], b[j], a, 1);
}
VO_INLINE void fma_lane2(row_of_tile acc, const row_of_tile b, float32x4_t a) {
    VO_UNROLL
    for (int j = 0; j < NV; j++) acc[j] = vfmaq_laneq_f32(acc[j], b[j], a, 2);
}
VO_INLINE void fma_lane3(row_of_tile acc, const row_of_tile b, float32x4_t a) {
    VO_UNROLL
    for (int j = 0; j < NV; j++) acc[j] = vfmaq_laneq_f32(acc[j], b[j], a, 3);
}

/* a whole tile: c[MR][NR] (+)= a b */
VO_INLINE void whole_tile(int64_t k, const float *a, const void *b, int half, float *c, int64_t ldc,
                          int accumulate) {
    row_of_tile acc[MR];
    VO_UNROLL
    for (int i = 0; i < MR; i++) {
        VO_UNROLL
        for (int j = 0; j < NV; j++)
            acc[i][j] = accumulate ? vld1q_f32(c + i * ldc + 4 * j) : vdupq_n_f32(0.0f);
    }
    for (int64_t kk = 0; kk < k; kk++, a += MR) {
        row_of_tile bk;
        load_b(b, kk * NR, half, bk);
        const float32x4_t a0 = vld1q_f32(a), a1 = vld1q_f32(a + 4);
        fma_lane0(acc[0], bk, a0);
        fma_lane1(acc[1], bk, a0);
        fma_lane2(acc[2], bk, a0);
        fma_lane3(acc[3], bk, a0);
        fma_lane0(acc[4], bk, a1);
        fma_lane1(acc[5], bk, a1);
        fma_lane2(acc[6], bk, a1);
        fma_lane3(acc[7], bk, a1);
    }
    VO_UNROLL
    for (int i = 0; i < MR; i++) {
        VO_UNROLL
        for (int j = 0; j < NV; j++) vst1q_f32(c + i * ldc + 4 * j, acc[i][j]);
    }
}

/* Tiles at the edge of C go through a whole one on the stack. */
VO_INLINE void tile(int64_t k, const float *a, const void *b, int half, float *c, int64_t ldc,
                    int m, int n, int accumulate) {
    if (m == MR && n == NR) {
        whole_tile(k, a, b, half, c, ldc, accumulate);
        return;
    }
    float edge[MR * NR] = {0};
    const size_t bytes = (size_t)n * sizeof(float);
    if (accumulate)
        for (int i = 0; i < m; i++) memcpy(edge + i * NR, c + i * ldc, bytes);
    whole_tile(k, a, b, half, edge, NR, accumulate);
    for (int i = 0; i < m; i++) memcpy(c + i * ldc, edge + i * NR, bytes);
}

void vo_neon_gemm_f32(int64_t k, const float *a, const float *b, float *c, int64_t ldc, int m,
                      int n, int accumulate) {
    tile(k, a, b, 0, c, ldc, m, n, accumulate);
}

void vo_neon_gemm_f16(int64_t k, const float *a, const uint16_t *b, float *c, int64_t ldc, int m,
                      int n, int accumulate) {
    tile(k, a, b, 1, c, ldc, m, n, accumulate);
}

/* `rows` rows against `wide` neighbouring panels; both are constants at every call, chosen so
 * that 12 to 24 sums are in flight. first: index of the first element of the panels in b */
VO_INLINE void skinny_block(int rows, int wide, int64_t k, const float *a, int64_t lda,
                            const void *b, int64_t first, int half, float *c, int64_t ldc) {
    row_of_tile acc[VO_SKINNY_ROWS * 4];
    VO_UNROLL
    for (int i = 0; i < rows * wide; i++) {
        VO_UNROLL
        for (int j = 0; j < NV; j++) acc[i][j] = vdupq_n_f32(0.0f);
    }
    for (int64_t kk = 0; kk < k; kk++) {
        VO_UNROLL
        for (int p = 0; p < wide; p++) {
            row_of_tile bk;
            load_b(b, first + (p * k + kk) * NR, half, bk);
            VO_UNROLL
            for (int i = 0; i < rows; i++) {
                const float ak = a[i * lda + kk];
                float32x4_t *sums = acc[i * wide + p];
                VO_UNROLL
                for (int j = 0; j < NV; j++) sums[j] = vfmaq_n_f32(sums[j], bk[j], ak);
            }
        }
    }
    VO_UNROLL
    for (int i = 0; i < rows; i++) {
        VO_UNROLL
        for (int p = 0; p < wide; p++) {
            VO_UNROLL
            for (int j = 0; j < NV; j++)
                vst1q_f32(c + i * ldc + p * NR + 4 * j, acc[i * wide + p][j]);
        }
    }
}

VO_INLINE void skinny_rows(int rows, int wide, int64_t k, int64_t panels, const float *a,
                           int64_t lda, const void *b, int half, float *c, int64_t ldc) {
    int64_t p = 0;
    for (; p + wide <= panels; p += wide)
        skinny_block(rows, wide, k, a, lda, b, p * k * NR, half, c + p * NR, ldc);
    for (; p < panels; p++) skinny_block(rows, 1, k, a, lda, b, p * k * NR, half, c + p * NR, ldc);
}

VO_INLINE void skinny(int64_t k, int64_t panels, const float *a, int64_t lda, const void *b,
                      int half, float *c, int64_t ldc, int m) {
    switch (m) {
    case 1:
        skinny_rows(1, 4, k, panels, a, lda, b, half, c, ldc);
        break;
    case 2:
        skinny_rows(2, 3, k, panels, a, lda, b, half, c, ldc);
        break;
    case 3:
        skinny_rows(3, 2, k, panels, a, lda, b, half, c, ldc);
        break;
    case 4:
        skinny_rows(4, 2, k, panels, a, lda, b, half, c, ldc);
        break;
    case 5:
        skinny_rows(5, 1, k, panels, a, lda, b, half, c, ldc);
        break;
    case 6:
        skinny_rows(6, 1, k, panels, a, lda, b, half, c, ldc);
        break;
    case 7:
        skinny_rows(7, 1, k, panels, a, lda, b, half, c, ldc);
        break;
    default:
        skinny_rows(8, 1, k, panels, a, lda, b, half, c, ldc);
        break;
    }
}

void vo_neon_skinny_f32(int64_t k, int64_t panels, const float *a, int64_t lda, const float *b,
                        float *c, int64_t ldc, int m) {
    skinny(k, panels, a, lda, b, 0, c, ldc, m);
}

void vo_neon_skinny_f16(int64_t k, int64_t panels, const float *a, int64_t lda, const uint16_t *b,
                        float *c, int64_t ldc, int m) {
    skinny(k, panels, a, lda, b, 1, c, ldc, m);
}

void vo_neon_gemm_pack_a(int64_t k, int m, const float *a, int64_t lda, float *packed) {
    int64_t kk = 0;
    if (m == MR) {
        for (; kk + 4 <= k; kk += 4) {
            for (int i = 0; i < MR; i += 4) {
                const float *p = a + i * lda + kk;
                const float32x4_t r0 = vld1q_f32(p), r1 = vld1q_f32(p + lda);
                const float32x4_t r2 = vld1q_f32(p + 2 * lda), r3 = vld1q_f32(p + 3 * lda);
                const float32x4x2_t s = vzipq_f32(r0, r2), t = vzipq_f32(r1, r3);
                const float32x4x2_t low = vzipq_f32(s.val[0], t.val[0]);
                const float32x4x2_t high = vzipq_f32(s.val[1], t.val[1]);
                vst1q_f32(packed + kk * MR + i, low.val[0]);
                vst1q_f32(packed + (kk + 1) * MR + i, low.val[1]);
                vst1q_f32(packed + (kk + 2) * MR + i, high.val[0]);
                vst1q_f32(packed + (kk + 3) * MR + i, high.val[1]);
            }
        }
    }
    for (; kk < k; kk++)
        for (int i = 0; i < MR; i++) packed[kk * MR + i] = i < m ? a[i * lda + kk] : 0.0f;
}
