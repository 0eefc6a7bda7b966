/* SPDX-License-Identifier: MIT
 *
 * The int8 tile of x86, written once for any vector and multiplier. Before it a level defines
 *
 *   vi, vi_zero, vi_load, vi_store, vi_add   a vector of W 32-bit integers
 *   vi_repeat(p)                             the four bytes at p in every lane
 *   vi_dot(sum, a, b)                        sum + the four products u8 x s8 of each lane
 *   MR, NR                                   rows and columns of a tile
 *   SPLIT                                    most sums of an element: what hides vi_dot's latency
 *
 * or instead of vi_dot, to add as many products in 16 bits as VO_INT8_FOURS allows,
 *
 *   FOURS, TOGETHER                          VO_INT8_FOURS; rows that share what is loaded of B
 *   vi_add_rows(R, a, b, sum)                4 FOURS steps of R <= TOGETHER rows of a, which are
 *                                            VO_INT8_K apart, join their sums
 *
 * A tile of MR x NR sums stays in registers for the whole of k. Each number of rows is a
 * specialisation of one template; few rows split k over several sums, so that a sum's latency
 * does not hold up the stream of B: integers may be added in any order.
 */
#include "kernels/ask.h"
#include "kernels/unroll.h"

enum {
    V = NR / W,
    GROUP = 4 * NR, /* bytes of one step of four in k */
    AHEAD = 4096    /* bytes of B that are prefetched; a harmless look beyond its end */
};

typedef vi sums[MR][V];

VO_INLINE void clear(const int M, sums sum) {
    vi zero = vi_zero();
    __asm__("" : "+x"(zero)); /* or clang clears memory, and keeps the sums of one row there */
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] = zero;
    }
}

#ifdef FOURS

/* sum += 4 FOURS steps of k; a: [M] rows of VO_INT8_K; b: [FOURS][NR][4] */
VO_INLINE void step(const int M, const uint8_t *a, const int8_t *b, sums sum) {
    VO_UNROLL for (int i = 0; i < FOURS * GROUP; i += 64)
        _mm_prefetch((const char *)((uintptr_t)b + (uintptr_t)i + AHEAD), _MM_HINT_T0);
    VO_UNROLL for (int i = 0; i < M; i += TOGETHER)
        vi_add_rows(M - i < TOGETHER ? M - i : TOGETHER, a + i * VO_INT8_K, b, sum + i);
}

#else
enum { FOURS = 1 };

/* sum += four steps of k; a: [M] rows of VO_INT8_K; b: [NR][4] */
VO_INLINE void step(const int M, const uint8_t *a, const int8_t *b, sums sum) {
    VO_UNROLL for (int i = 0; i < GROUP; i += 64)
        _mm_prefetch((const char *)((uintptr_t)b + (uintptr_t)i + AHEAD), _MM_HINT_T0);
    vi y[V];
    VO_UNROLL for (int j = 0; j < V; j++) y[j] = vi_load(b + j * W * 4);
    VO_UNROLL for (int i = 0; i < M; i++) {
        const vi x = vi_repeat(a + i * VO_INT8_K);
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] = vi_dot(sum[i][j], x, y[j]);
    }
}
#endif

VO_INLINE void add(const int M, sums sum, sums other) {
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] = vi_add(sum[i][j], other[i][j]);
    }
}

/* M rows, k over U sums each. */
VO_INLINE void tile(const int M, const int U, int64_t k, const uint8_t *a, const int8_t *b,
                    int32_t *c, int accumulate, vo_asking asking) {
    sums sum, second, third, fourth;
    clear(M, sum);
    if (U > 1) clear(M, second);
    if (U > 2) clear(M, third);
    if (U > 2) clear(M, fourth);
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, a += MR * VO_INT8_K) {
        vo_ask_step(&asking);
        for (int kk = 0; kk < VO_INT8_K; kk += 4 * FOURS * U, b += FOURS * U * GROUP) {
            step(M, a + kk, b, sum);
            if (U > 1) step(M, a + kk + 4, b + GROUP, second);
            if (U > 2) step(M, a + kk + 8, b + 2 * GROUP, third);
            if (U > 2) step(M, a + kk + 12, b + 3 * GROUP, fourth);
        }
    }
    if (U > 2) add(M, third, fourth);
    if (U > 2) add(M, sum, third);
    if (U > 1) add(M, sum, second);
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) {
            int32_t *to = c + i * NR + j * W;
            vi_store(to, accumulate ? vi_add(sum[i][j], vi_load(to)) : sum[i][j]);
        }
    }
}

#define TILE_CASE(M, U)                                                                            \
    case M:                                                                                        \
        if (M <= MR) tile(M < MR ? M : MR, U < SPLIT ? U : SPLIT, k, a, b, c, accumulate, asking); \
        break;

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate,
                 const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, k / VO_INT8_K);
    switch (m) {
        TILE_CASE(1, 4)
        TILE_CASE(2, 2)
        TILE_CASE(3, 2)
        TILE_CASE(4, 1)
        TILE_CASE(5, 1)
        TILE_CASE(6, 1)
        TILE_CASE(7, 1)
        TILE_CASE(8, 1)
        TILE_CASE(9, 1)
        TILE_CASE(10, 1)
        TILE_CASE(11, 1)
        TILE_CASE(12, 1)
        TILE_CASE(13, 1)
        TILE_CASE(14, 1)
    default:
        break;
    }
}
