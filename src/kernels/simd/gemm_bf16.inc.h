/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for processors that can only multiply floats, written once for any vector: a bf16 is
 * the upper half of a float, so a vector of pairs becomes one of floats by a shift and another by a
 * mask. B is widened as it is loaded, A a block of VO_BF16_K steps at a time into a buffer on the
 * stack: its values are used once for each vector of B. Before it a level includes its vec_*.h and
 * defines
 *
 *   widen_even(p), widen_odd(p)   elements 0, 2, 4 ... or 1, 3, 5 ... of 2 VF_LANES bf16
 *   store_bf16(p, x)              see bf16.inc.h
 *   prefetch(p)
 *   MR, NR
 *   VO_FN
 *
 * Each sum is the chain of multiply-adds in ascending k that plain C computes, to the bit.
 */
#include "kernels/ask.h"
#include "kernels/simd/bf16.inc.h"
#include "kernels/unroll.h"

enum {
    V = NR / VF_LANES,
    PAIRS = VO_BF16_K / 2,
    AHEAD = 4096 /* bytes of B that are prefetched; a harmless look beyond its end */
};

/* p, but the compiler does not know: else it loads B once for two steps and runs out of registers
 */
VO_INLINE const uint16_t *same(const uint16_t *p) {
    __asm__("" : "+r"(p));
    return p;
}

/* One step of k: x holds that step of row i at i * PAIRS. */
VO_INLINE void step(const int M, const float *x, const vf y[V], vf sum[MR][V]) {
    VO_UNROLL for (int i = 0; i < M; i++) {
        const vf broadcast = v_set(x[i * PAIRS]);
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] = v_fma(broadcast, y[j], sum[i][j]);
    }
}

VO_INLINE void tile(const int M, int64_t k, const uint16_t *a, const uint16_t *b, float *c,
                    int accumulate, vo_asking asking) {
    float even[MR * PAIRS], odd[MR * PAIRS]; /* [MR][PAIRS] */
    vf sum[MR][V], y[V];
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] =
            accumulate ? v_load(c + i * NR + j * VF_LANES) : v_set(0.0f);
    }
    for (int64_t k0 = 0; k0 < k; k0 += VO_BF16_K, a += MR * VO_BF16_K) {
        vo_ask_step(&asking);
        for (int i = 0; i < M * PAIRS; i += VF_LANES) {
            v_store(even + i, widen_even(a + 2 * i));
            v_store(odd + i, widen_odd(a + 2 * i));
        }
        for (int pair = 0; pair < PAIRS; pair++, b += 2 * NR) {
            VO_UNROLL for (int i = 0; i < 4 * NR; i += 64)
                prefetch((const char *)((uintptr_t)b + (uintptr_t)i + AHEAD));
            VO_UNROLL for (int j = 0; j < V; j++) y[j] = widen_even(b + 2 * j * VF_LANES);
            step(M, even + pair, y, sum);
            VO_UNROLL for (int j = 0; j < V; j++) y[j] = widen_odd(same(b) + 2 * j * VF_LANES);
            step(M, odd + pair, y, sum);
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) v_store(c + i * NR + j * VF_LANES, sum[i][j]);
    }
}

#define TILE_CASE(M)                                                                               \
    case M:                                                                                        \
        if (M <= MR) tile(M, k, a, b, c, accumulate, asking);                                      \
        break;

void VO_FN(gemm_bf16)(int64_t k, const uint16_t *a, const uint16_t *b, float *c, int m,
                      int accumulate, const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, k / VO_BF16_K);
    switch (m) {
        VO_CASES_14(TILE_CASE)
    default:
        break;
    }
}

void VO_FN(bf16_pack_a)(int64_t k, int m, const float *a, int64_t lda, uint16_t *packed) {
    bf16_pack(MR, k, m, a, lda, packed);
}
