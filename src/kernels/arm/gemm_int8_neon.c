/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for NEON without dot products. A has 8 bits with a sign and B is at least -127, so
 * two products fit 16 bits: they are made and added there (smull, smlal), then pairs of their lanes
 * are added to sums of 32 bits (sadalp). A column has two such sums until the end.
 */
#include <arm_neon.h>

#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/ask.h"
#include "kernels/unroll.h"

enum {
    MR = 3, /* 18 sums, 6 of B, 2 of A and a product of 32 registers */
    NR = VO_NEON_NR,
    MAX = 127,
    ZERO = 0,
    V = NR / 4,
    GROUP = 4 * NR, /* bytes of one step of four in k */
    AHEAD = 2048    /* bytes of B that are prefetched */
};

#include "kernels/simd/int8.inc.h"

/* The four bytes at p, twice. */
static inline int8x8_t repeat(const uint8_t *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    return vreinterpret_s8_s32(vdup_n_s32(four));
}

VO_INLINE void tile(const int M, int64_t k, const uint8_t *a, const int8_t *b, int32_t *c,
                    int accumulate, vo_asking asking) {
    int32x4_t left[MR][V], right[MR][V]; /* sums of columns 0 and 1, 2 and 3 of each four */
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) {
            left[i][j] = vdupq_n_s32(0);
            right[i][j] = vdupq_n_s32(0);
        }
    }
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, a += MR * VO_INT8_K) {
        vo_ask_step(&asking);
        for (int kk = 0; kk < VO_INT8_K; kk += 8, b += 2 * GROUP) {
            int8x16_t low[V], high[V]; /* of k */
            __builtin_prefetch(b + AHEAD);
            __builtin_prefetch(b + AHEAD + GROUP);
            VO_UNROLL for (int j = 0; j < V; j++) {
                low[j] = vld1q_s8(b + 16 * j);
                high[j] = vld1q_s8(b + GROUP + 16 * j);
            }
            VO_UNROLL for (int i = 0; i < M; i++) {
                const int8x8_t x = repeat(a + i * VO_INT8_K + kk);
                const int8x8_t y = repeat(a + i * VO_INT8_K + kk + 4);
                VO_UNROLL for (int j = 0; j < V; j++) {
                    const int16x8_t p = vmull_s8(vget_low_s8(low[j]), x);
                    const int16x8_t q = vmull_s8(vget_high_s8(low[j]), x);
                    left[i][j] = vpadalq_s16(left[i][j], vmlal_s8(p, vget_low_s8(high[j]), y));
                    right[i][j] = vpadalq_s16(right[i][j], vmlal_s8(q, vget_high_s8(high[j]), y));
                }
            }
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) {
            int32_t *to = c + i * NR + 4 * j;
            const int32x4_t all = vpaddq_s32(left[i][j], right[i][j]);
            vst1q_s32(to, accumulate ? vaddq_s32(all, vld1q_s32(to)) : all);
        }
    }
}

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate,
                 const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, k / VO_INT8_K);
    if (m == 1)
        tile(1, k, a, b, c, accumulate, asking);
    else if (m == 2)
        tile(2, k, a, b, c, accumulate, asking);
    else
        tile(3, k, a, b, c, accumulate, asking);
}

void vo_int8_init_neon(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
