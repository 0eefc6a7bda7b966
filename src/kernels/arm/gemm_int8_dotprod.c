/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for NEON with dot products: sdot adds four products to each 32-bit sum, and takes
 * the four bytes of A from one quarter of a register, so A has a sign and 16 steps of k are loaded
 * at a time.
 */
#include <arm_neon.h>

#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/ask.h"
#include "kernels/unroll.h"

enum {
    MR = 6, /* 18 sums, 6 of A and 3 of B in 32 registers */
    NR = VO_NEON_NR,
    MAX = 127,
    ZERO = 0,
    V = NR / 4,
    GROUP = 4 * NR, /* bytes of one step of four in k */
    AHEAD = 2048    /* bytes of B that are prefetched */
};

#include "kernels/simd/int8.inc.h"

/* sum += four steps of k: quarter Q of A; the instruction wants it as a digit. */
#define STEP(Q)                                                                                    \
    do {                                                                                           \
        int8x16_t y[V];                                                                            \
        VO_UNROLL for (int j = 0; j < V; j++) y[j] = vld1q_s8(b + Q * GROUP + 16 * j);             \
        VO_UNROLL for (int i = 0; i < M; i++) {                                                    \
            VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] =                                      \
                vdotq_laneq_s32(sum[i][j], y[j], x[i], Q);                                         \
        }                                                                                          \
    } while (0)

VO_INLINE void tile(const int M, int64_t k, const uint8_t *a, const int8_t *b, int32_t *c,
                    int accumulate, vo_asking asking) {
    int32x4_t sum[MR][V];
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] = vdupq_n_s32(0);
    }
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, a += MR * VO_INT8_K) {
        vo_ask_step(&asking);
        for (int kk = 0; kk < VO_INT8_K; kk += 16, b += 4 * GROUP) {
            int8x16_t x[MR];
            VO_UNROLL for (int i = 0; i < 4 * GROUP; i += 64) __builtin_prefetch(b + AHEAD + i);
            VO_UNROLL for (int i = 0; i < M; i++) x[i] =
                vreinterpretq_s8_u8(vld1q_u8(a + i * VO_INT8_K + kk));
            STEP(0);
            STEP(1);
            STEP(2);
            STEP(3);
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) {
            int32_t *to = c + i * NR + 4 * j;
            vst1q_s32(to, accumulate ? vaddq_s32(sum[i][j], vld1q_s32(to)) : sum[i][j]);
        }
    }
}

#define TILE_CASE(M)                                                                               \
    case M:                                                                                        \
        tile(M, k, a, b, c, accumulate, asking);                                                   \
        break;

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate,
                 const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, k / VO_INT8_K);
    switch (m) {
        VO_CASES_6(TILE_CASE)
    default:
        break;
    }
}

void vo_int8_init_dotprod(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
