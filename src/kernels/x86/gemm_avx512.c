/* SPDX-License-Identifier: MIT
 *
 * GEMM for AVX-512F: a tile of 14x32 accumulators stays in registers for the whole of k.
 * Per step of k that is 28 multiply-adds for 2 loads of B and 14 broadcasts of A, so the two
 * multiply units are the limit and not the two load ports. Each number of rows is a
 * specialisation of one template.
 */
#include "kernels/unroll.h"
#include "kernels/x86/x86.h"

#if !defined(__AVX512F__) || !defined(__AVX512VL__)
#error "this file must be built with the AVX-512 flags"
#endif
#include <immintrin.h>

enum { MR = VO_AVX512_MR, NR = VO_AVX512_NR, W = 16, V = NR / W, AHEAD = 32 };

VO_INLINE __m512 load_b(const void *b, int64_t i, const bool half) {
    if (half) return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)((const uint16_t *)b + i)));
    return _mm512_loadu_ps((const float *)b + i);
}

VO_INLINE __mmask16 lanes(int n) {
    return n >= W ? (__mmask16)0xffff : n > 0 ? (__mmask16)((1u << n) - 1u) : (__mmask16)0;
}

VO_INLINE void tile(const int M, const bool half, int64_t k, const float *a, const void *b,
                    float *c, int64_t ldc, int n, int accumulate) {
    __m512 sum[MR][V];
    const __mmask16 mask[V] = {lanes(n), lanes(n - W)};
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++) sum[i][j] =
            accumulate ? _mm512_maskz_loadu_ps(mask[j], c + i * ldc + j * W) : _mm512_setzero_ps();
    }
    for (int64_t kk = 0; kk < k; kk++) {
        const __m512 b0 = load_b(b, kk * NR, half), b1 = load_b(b, kk * NR + W, half);
        VO_UNROLL for (int i = 0; i < M; i++) {
            const __m512 x = _mm512_set1_ps(a[kk * MR + i]);
            sum[i][0] = _mm512_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm512_fmadd_ps(x, b1, sum[i][1]);
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < V; j++)
            _mm512_mask_storeu_ps(c + i * ldc + j * W, mask[j], sum[i][j]);
    }
}

#define TILE_CASE(M)                                                                               \
    case M:                                                                                        \
        tile(M, half, k, a, b, c, ldc, n, accumulate);                                             \
        break;

VO_INLINE void gemm(const bool half, int64_t k, const float *a, const void *b, float *c,
                    int64_t ldc, int m, int n, int accumulate) {
    switch (m) {
        VO_CASES_14(TILE_CASE)
    default:
        break;
    }
}

void vo_avx512_gemm_f32(int64_t k, const float *a, const float *b, float *c, int64_t ldc, int m,
                        int n, int accumulate) {
    gemm(false, k, a, b, c, ldc, m, n, accumulate);
}

void vo_avx512_gemm_f16(int64_t k, const float *a, const uint16_t *b, float *c, int64_t ldc, int m,
                        int n, int accumulate) {
    gemm(true, k, a, b, c, ldc, m, n, accumulate);
}

/* One row of a panel: two lines of floats or one of halves. */
VO_INLINE void prefetch_b(const void *b, int64_t i, const bool half) {
    const uintptr_t at = (uintptr_t)b + (uintptr_t)i * (half ? 2 : 4);
    _mm_prefetch((const char *)at, _MM_HINT_T0);
    if (!half) _mm_prefetch((const char *)(at + 64), _MM_HINT_T0);
}

/* M rows against P neighbouring panels: enough independent chains to hide the latency of the
 * multiply-add, and P streams of B at once. */
VO_INLINE void strip(const int M, const int P, const bool half, int64_t k, const float *a,
                     int64_t lda, const void *b, float *c, int64_t ldc) {
    __m512 sum[8][4 * V];
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < P * V; j++) sum[i][j] = _mm512_setzero_ps();
    }
    for (int64_t kk = 0; kk < k; kk++) {
        /* Ahead in each panel by about the time that memory takes to answer; a harmless look
         * beyond the end at the last one. */
        VO_UNROLL for (int p = 0; p < P; p++) prefetch_b(b, (p * k + kk + AHEAD) * NR, half);
        VO_UNROLL for (int j = 0; j < P * V; j++) {
            const __m512 y = load_b(b, (j / V * k + kk) * NR + j % V * W, half);
            VO_UNROLL for (int i = 0; i < M; i++) sum[i][j] =
                _mm512_fmadd_ps(_mm512_set1_ps(a[i * lda + kk]), y, sum[i][j]);
        }
    }
    VO_UNROLL for (int i = 0; i < M; i++) {
        VO_UNROLL for (int j = 0; j < P * V; j++) _mm512_storeu_ps(c + i * ldc + j * W, sum[i][j]);
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
        STRIP_CASE(2, 4)
        STRIP_CASE(3, 2)
        STRIP_CASE(4, 2)
        STRIP_CASE(5, 2)
        STRIP_CASE(6, 2)
        STRIP_CASE(7, 1)
        STRIP_CASE(8, 1)
    default:
        break;
    }
}

void vo_avx512_skinny_f32(int64_t k, int64_t panels, const float *a, int64_t lda, const float *b,
                          float *c, int64_t ldc, int m) {
    skinny(false, k, panels, a, lda, b, c, ldc, m);
}

void vo_avx512_skinny_f16(int64_t k, int64_t panels, const float *a, int64_t lda, const uint16_t *b,
                          float *c, int64_t ldc, int m) {
    skinny(true, k, panels, a, lda, b, c, ldc, m);
}

/* x[0..15] becomes its transpose: pairs of 32, then of 64 bits, then quarters. */
VO_INLINE void transpose16(__m512 x[16]) {
    __m512 y[16];
    VO_UNROLL for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    VO_UNROLL for (int i = 0; i < 16; i += 4) {
        VO_UNROLL for (int j = 0; j < 2; j++) {
            const __m512d lo = _mm512_castps_pd(y[i + j]), hi = _mm512_castps_pd(y[i + j + 2]);
            x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, hi));
            x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, hi));
        }
    }
    /* Now quarter q of x[4 r + i] is column 4 q + i of rows 4 r .. 4 r + 3. */
    VO_UNROLL for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(x[i], x[i + 4], 0x88);
        const __m512 b = _mm512_shuffle_f32x4(x[i], x[i + 4], 0xdd);
        const __m512 c = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0x88);
        const __m512 d = _mm512_shuffle_f32x4(x[i + 8], x[i + 12], 0xdd);
        y[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        y[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        y[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        y[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
    VO_UNROLL for (int i = 0; i < 16; i++) x[i] = y[i];
}

void vo_avx512_gemm_pack_a(int64_t k, int m, const float *a, int64_t lda, float *packed) {
    for (int64_t k0 = 0; k0 < k; k0 += W) {
        const int steps = k - k0 < W ? (int)(k - k0) : W;
        const __mmask16 mask = lanes(steps);
        __m512 x[16];
        VO_UNROLL for (int i = 0; i < 16; i++) x[i] =
            i < m ? _mm512_maskz_loadu_ps(mask, a + i * lda + k0) : _mm512_setzero_ps();
        transpose16(x);
        VO_UNROLL for (int i = 0; i < 16; i++) if (i < steps)
            _mm512_mask_storeu_ps(packed + (k0 + i) * MR, lanes(MR), x[i]);
    }
}
