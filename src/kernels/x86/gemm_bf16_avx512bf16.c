/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for AVX512_BF16: vdpbf16ps multiplies a pair of A with sixteen pairs of B and adds
 * both products to sixteen floats. A tile of 14x32 stays in registers for the whole of k.
 */
#include "kernels/x86/vec_avx512bf16.h"
#include "kernels/x86/x86.h"

#include "kernels/ask.h"
#include "kernels/simd/bf16.inc.h"
#include "kernels/unroll.h"

enum { MR = VO_AVX512_MR, NR = VO_AVX512_NR, W = 16, V = NR / W, AHEAD = 4096 };

VO_INLINE __m512bh load_pairs(const uint16_t *p) {
    return (__m512bh)_mm512_loadu_si512(p);
}
VO_INLINE __m512bh repeat_pair(const uint16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

VO_INLINE void tile(const int M, int64_t k, const uint16_t *a, const uint16_t *b, float *c,
                    int accumulate, vo_asking asking) {
    __m512 sum[MR][V];
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] =
            accumulate ? v_load(c + i * NR + j * W) : v_set(0.0f);
    }
    for (int64_t k0 = 0; k0 < k; k0 += VO_BF16_K, a += MR * VO_BF16_K) {
        vo_ask_step(&asking);
        for (int kk = 0; kk < VO_BF16_K; kk += 2, b += 2 * NR) {
            VO_UNROLL for (int i = 0; i < 4 * NR; i += 64)
                _mm_prefetch((const char *)((uintptr_t)b + (uintptr_t)i + AHEAD), _MM_HINT_T0);
            const __m512bh b0 = load_pairs(b), b1 = load_pairs(b + 2 * W);
            VO_UNROLL for (int i = 0; i < M; i++) {
                const __m512bh x = repeat_pair(a + i * VO_BF16_K + kk);
                sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
                sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
            }
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) v_store(c + i * NR + j * W, sum[i][j]);
    }
}

#define TILE_CASE(M)                                                                               \
    case M:                                                                                        \
        tile(M, k, a, b, c, accumulate, asking);                                                   \
        break;

void vo_avx512bf16_gemm_bf16(int64_t k, const uint16_t *a, const uint16_t *b, float *c, int m,
                             int accumulate, const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, k / VO_BF16_K);
    switch (m) {
        VO_CASES_14(TILE_CASE)
    default:
        break;
    }
}

void vo_avx512bf16_bf16_pack_a(int64_t k, int m, const float *a, int64_t lda, uint16_t *packed) {
    bf16_pack(MR, k, m, a, lda, packed);
}
