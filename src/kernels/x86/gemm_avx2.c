/* SPDX-License-Identifier: MIT
 *
 * GEMM for AVX2 + FMA + F16C: a tile of 6x16 accumulators stays in registers for the whole of
 * k: 12 multiply-adds for 2 loads of B and 6 broadcasts of A. Each number of rows is a
 * specialisation of one template.
 */
#include <string.h>

#include "kernels/unroll.h"
#include "kernels/x86/x86.h"

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file must be built with the AVX2 flags"
#endif
#include <immintrin.h>

enum { MR = VO_AVX2_MR, NR = VO_AVX2_NR, W = 8, V = NR / W, AHEAD = 32 };

VO_INLINE __m256 load_b(const void *b, int64_t i, const bool half) {
    if (half) return _mm256_cvtph_ps(_mm_loadu_si128((const void *)((const uint16_t *)b + i)));
    return _mm256_loadu_ps((const float *)b + i);
}

VO_INLINE void tile(const int M, const bool half, int64_t k, const float *a, const void *b,
                    float *c, int64_t ldc, int accumulate) {
    __m256 sum[MR][V];
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] =
            accumulate ? _mm256_loadu_ps(c + i * ldc + j * W) : _mm256_setzero_ps();
    }
    for (int64_t kk = 0; kk < k; kk++) {
        const __m256 b0 = load_b(b, kk * NR, half), b1 = load_b(b, kk * NR + W, half);
        VO_UNROLL for (int i = 0; i < M; i++) {
            const __m256 x = _mm256_broadcast_ss(a + kk * MR + i);
            sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) _mm256_storeu_ps(c + i * ldc + j * W, sum[i][j]);
    }
}

#define TILE_CASE(M)                                                                               \
    case M:                                                                                        \
        tile(M, half, k, a, b, c, ldc, accumulate);                                                \
        break;

VO_INLINE void whole(const bool half, int64_t k, const float *a, const void *b, float *c,
                     int64_t ldc, int m, int accumulate) {
    switch (m) {
        VO_CASES_6(TILE_CASE)
    default:
        break;
    }
}

static void copy_rows(int m, int n, const float *from, int64_t ld_from, float *to, int64_t ld_to) {
    for (int i = 0; i < m; i++)
        memcpy(to + i * ld_to, from + i * ld_from, (size_t)n * sizeof(float));
}

/* A tile with fewer columns goes through a whole one: it is rare and stays in L1. */
VO_INLINE void gemm(const bool half, int64_t k, const float *a, const void *b, float *c,
                    int64_t ldc, int m, int n, int accumulate) {
    if (n == NR) {
        whole(half, k, a, b, c, ldc, m, accumulate);
        return;
    }
    float edge[MR * NR] = {0.0f};
    if (accumulate) copy_rows(m, n, c, ldc, edge, NR);
    whole(half, k, a, b, edge, NR, m, accumulate);
    copy_rows(m, n, edge, NR, c, ldc);
}

void vo_avx2_gemm_f32(int64_t k, const float *a, const float *b, float *c, int64_t ldc, int m,
                      int n, int accumulate) {
    gemm(false, k, a, b, c, ldc, m, n, accumulate);
}

void vo_avx2_gemm_f16(int64_t k, const float *a, const uint16_t *b, float *c, int64_t ldc, int m,
                      int n, int accumulate) {
    gemm(true, k, a, b, c, ldc, m, n, accumulate);
}

/* One row of a panel: a line of floats or half a line of halves. */
VO_INLINE void prefetch_b(const void *b, int64_t i, const bool half) {
    const uintptr_t at = (uintptr_t)b + (uintptr_t)i * (half ? 2 : 4);
    _mm_prefetch((const char *)at, _MM_HINT_T0);
}

/* M rows against P neighbouring panels: enough independent chains to hide the latency of the
 * multiply-add, and P streams of B at once. */
VO_INLINE void strip(const int M, const int P, const bool half, int64_t k, const float *a,
                     int64_t lda, const void *b, float *c, int64_t ldc) {
    __m256 sum[MR][4 * V];
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < P * V; j++) sum[i][j] = _mm256_setzero_ps();
    }
    for (int64_t kk = 0; kk < k; kk++) {
        /* Ahead in each panel by about the time that memory takes to answer; a harmless look
         * beyond the end at the last one. */
        VO_UNROLL for (int p = 0; p < P; p++) prefetch_b(b, (p * k + kk + AHEAD) * NR, half);
        if (M > 3) {
            /* The vectors of B stay, those of A pass; below it is the other way round. Either
             * way the smaller number is kept in registers. */
            const __m256 b0 = load_b(b, kk * NR, half), b1 = load_b(b, kk * NR + W, half);
            VO_UNROLL for (int i = 0; i < M; i++) {
                const __m256 x = _mm256_broadcast_ss(a + i * lda + kk);
                sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
                sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
            }
            continue;
        }
        VO_UNROLL for (int j = 0; j < P * V; j++) {
            const __m256 y = load_b(b, (j / V * k + kk) * NR + j % V * W, half);
            VO_UNROLL for (int i = 0; i < M; i++) sum[i][j] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(a + i * lda + kk), y, sum[i][j]);
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < P * V; j++) _mm256_storeu_ps(c + i * ldc + j * W, sum[i][j]);
    }
}

/* P panels at a time while there are so many, then one at a time. */
VO_INLINE void strips(const int M, const int P, const bool half, int64_t k, int64_t panels,
                      const float *a, int64_t lda, const void *b, float *c, int64_t ldc) {
    const int64_t step = k * NR * (half ? 2 : 4);
    const char *panel = b;
    int64_t p = 0;
    for (; p + P <= panels; p += P) strip(M, P, half, k, a, lda, panel + p * step, c + p * NR, ldc);
    for (; p < panels; p++) strip(M, 1, half, k, a, lda, panel + p * step, c + p * NR, ldc);
}

#define STRIP_CASE(M, P)                                                                           \
    case M:                                                                                        \
        strips(M, P, half, k, panels, a, lda, b, c, ldc);                                          \
        break;

VO_INLINE void skinny(const bool half, int64_t k, int64_t panels, const float *a, int64_t lda,
                      const void *b, float *c, int64_t ldc, int m) {
    switch (m) {
        STRIP_CASE(1, 4)
        STRIP_CASE(2, 2)
        STRIP_CASE(3, half ? 1 : 2) /* widening takes a register more */
        STRIP_CASE(4, 1)
        STRIP_CASE(5, 1)
        STRIP_CASE(6, 1)
    default:
        break;
    }
}

/* Seven and eight rows exceed the registers; B is then read twice, the second time from the
 * caches as long as the panels are taken one by one. */
VO_INLINE void skinny_rows(const bool half, int64_t k, int64_t panels, const float *a, int64_t lda,
                           const void *b, float *c, int64_t ldc, int m) {
    if (m <= MR) {
        skinny(half, k, panels, a, lda, b, c, ldc, m);
        return;
    }
    const int64_t step = k * NR * (half ? 2 : 4);
    const int first = m - m / 2;
    for (int64_t p = 0; p < panels; p++) {
        const char *panel = (const char *)b + p * step;
        skinny(half, k, 1, a, lda, panel, c + p * NR, ldc, first);
        skinny(half, k, 1, a + first * lda, lda, panel, c + first * ldc + p * NR, ldc, m - first);
    }
}

void vo_avx2_skinny_f32(int64_t k, int64_t panels, const float *a, int64_t lda, const float *b,
                        float *c, int64_t ldc, int m) {
    skinny_rows(false, k, panels, a, lda, b, c, ldc, m);
}

void vo_avx2_skinny_f16(int64_t k, int64_t panels, const float *a, int64_t lda, const uint16_t *b,
                        float *c, int64_t ldc, int m) {
    skinny_rows(true, k, panels, a, lda, b, c, ldc, m);
}

/* Rows r and r+1 of A become the pairs of one step of k: unpack gives k, k+1 | k+2, k+3. */
VO_INLINE void pack_pair(const __m128 x, const __m128 y, float *packed) {
    const __m128 lo = _mm_unpacklo_ps(x, y), hi = _mm_unpackhi_ps(x, y);
    _mm_storel_pi((__m64 *)(void *)packed, lo);
    _mm_storeh_pi((__m64 *)(void *)(packed + MR), lo);
    _mm_storel_pi((__m64 *)(void *)(packed + 2 * MR), hi);
    _mm_storeh_pi((__m64 *)(void *)(packed + 3 * MR), hi);
}

void vo_avx2_gemm_pack_a(int64_t k, int m, const float *a, int64_t lda, float *packed) {
    int64_t kk = 0;
    for (; m == MR && kk + 4 <= k; kk += 4) {
        __m128 x[MR];
        VO_UNROLL for (int i = 0; i < MR; i++) x[i] = _mm_loadu_ps(a + i * lda + kk);
        VO_UNROLL for (int i = 0; i < MR; i += 2) pack_pair(x[i], x[i + 1], packed + kk * MR + i);
    }
    for (; kk < k; kk++)
        for (int i = 0; i < MR; i++) packed[kk * MR + i] = i < m ? a[i * lda + kk] : 0.0f;
}
