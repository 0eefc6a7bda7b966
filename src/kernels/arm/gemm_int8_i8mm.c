/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for NEON with matrix products: smmla multiplies two rows by two columns, eight deep,
 * twice the work of sdot. A pair of rows comes from their runs of bytes, a pair of columns is
 * zipped from two steps of four in k. Sums lie as 2x2 until the end.
 */
#include <arm_neon.h>

#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/ask.h"
#include "kernels/unroll.h"

enum {
    MR = 8, /* 24 sums, 6 pairs of columns, a pair of rows in 32 registers */
    NR = VO_NEON_NR,
    MAX = 127,
    ZERO = 0,
    V = NR / 4,
    GROUP = 4 * NR, /* bytes of one step of four in k */
    AHEAD = 2048    /* bytes of B that are prefetched */
};

#include "kernels/simd/int8.inc.h"

/* Eight steps of k of two rows. */
VO_INLINE int8x16_t pair_rows(const uint8_t *a) {
    return vreinterpretq_s8_u8(vcombine_u8(vld1_u8(a), vld1_u8(a + VO_INT8_K)));
}

/* P pairs of rows. */
VO_INLINE void tile(const int P, int64_t k, const uint8_t *a, const int8_t *b, int32_t *c,
                    int accumulate, vo_asking asking) {
    int32x4_t sum[MR / 2][V][2];
    VO_UNROLL for (int i = 0; i < P; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j][0] = sum[i][j][1] = vdupq_n_s32(0);
    }
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, a += MR * VO_INT8_K) {
        vo_ask_step(&asking);
        for (int kk = 0; kk < VO_INT8_K; kk += 8, b += 2 * GROUP) {
            int8x16_t left[V], right[V]; /* pairs of columns */
            __builtin_prefetch(b + AHEAD);
            __builtin_prefetch(b + AHEAD + GROUP);
            VO_UNROLL for (int j = 0; j < V; j++) {
                const int32x4_t low = vreinterpretq_s32_s8(vld1q_s8(b + 16 * j));
                const int32x4_t high = vreinterpretq_s32_s8(vld1q_s8(b + GROUP + 16 * j));
                left[j] = vreinterpretq_s8_s32(vzip1q_s32(low, high));
                right[j] = vreinterpretq_s8_s32(vzip2q_s32(low, high));
            }
            VO_UNROLL for (int i = 0; i < P; i++) {
                const int8x16_t x = pair_rows(a + 2 * i * VO_INT8_K + kk);
                VO_UNROLL for (int j = 0; j < V; j++) {
                    sum[i][j][0] = vmmlaq_s32(sum[i][j][0], x, left[j]);
                    sum[i][j][1] = vmmlaq_s32(sum[i][j][1], x, right[j]);
                }
            }
        }
    }
    VO_UNROLL for (int i = 0; i < 2 * P; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) {
            int32_t *to = c + i * NR + 4 * j;
            const int64x2_t left = vreinterpretq_s64_s32(sum[i / 2][j][0]);
            const int64x2_t right = vreinterpretq_s64_s32(sum[i / 2][j][1]);
            const int32x4_t row =
                vreinterpretq_s32_s64(i % 2 ? vzip2q_s64(left, right) : vzip1q_s64(left, right));
            vst1q_s32(to, accumulate ? vaddq_s32(row, vld1q_s32(to)) : row);
        }
    }
}

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate,
                 const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, k / VO_INT8_K);
    if (m <= 2)
        tile(1, k, a, b, c, accumulate, asking);
    else if (m <= 4)
        tile(2, k, a, b, c, accumulate, asking);
    else if (m <= 6)
        tile(3, k, a, b, c, accumulate, asking);
    else
        tile(4, k, a, b, c, accumulate, asking);
}

void vo_int8_init_i8mm(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
