/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for AMX: one tdpbf16ps multiplies 16 rows of A, 32 deep, with 16 columns of B and
 * adds to 16x16 floats. 32 rows by 32 columns are four tiles of sums, two of A and two of B; a step
 * of VO_BF16_K is four products for four loads. Up to 16 rows take half the work. Each tile of the
 * next step is loaded as soon as its last product has begun: with A in the first-level cache (256
 * steps of k are 16 KB) and B in the second, products hardly wait.
 */
#if !defined(__AVX512BF16__)
#error "this file must be built with the flags of AMX and AVX512_BF16"
#endif

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

/* As in gemm_bf16_avx512bf16.c. */
static inline void store_bf16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh(x));
}

#include "kernels/simd/bf16.inc.h"
#include "kernels/unroll.h"

enum {
    MR = VO_AMX_MR,
    NR = VO_AVX512_NR,
    HALF = 16,             /* rows and columns of a tile of sums */
    STEP = VO_BF16_K * NR, /* elements of B in one step */
    ROW_A = VO_BF16_K * 2, /* bytes from row to row: A as it is packed, */
    ROW_B = 2 * NR * 2,    /* B by pairs of k, */
    ROW_C = NR * 4,        /* and sums */
    AHEAD = 4096           /* bytes of B that are prefetched; a harmless look beyond its end */
};

/* The tiles: sums [rows][columns], A [rows], B [columns]. The compilers want them as digits. */
#define C00 0
#define C01 1
#define C10 2
#define C11 3
#define A0  4
#define A1  5
#define B0  6
#define B1  7

/* A quarter of what one step takes from B, so that products stand between the prefetches. */
VO_INLINE void prefetch_quarter(const uint16_t *b, int quarter) {
    const uintptr_t from = (uintptr_t)b + AHEAD + (uintptr_t)(quarter * STEP / 2);
    VO_UNROLL for (int i = 0; i < STEP / 2; i += 64)
        _mm_prefetch((const char *)(from + (uintptr_t)i), _MM_HINT_T0);
}

VO_INLINE void tiles(const int whole, int64_t k, const uint16_t *a, const uint16_t *b, float *c,
                     int accumulate) {
    if (accumulate) {
        _tile_loadd(C00, c, ROW_C);
        _tile_loadd(C01, c + HALF, ROW_C);
        if (whole) _tile_loadd(C10, c + HALF * NR, ROW_C);
        if (whole) _tile_loadd(C11, c + HALF * NR + HALF, ROW_C);
    } else {
        _tile_zero(C00);
        _tile_zero(C01);
        if (whole) _tile_zero(C10);
        if (whole) _tile_zero(C11);
    }
    _tile_loadd(A0, a, ROW_A);
    _tile_loadd(B0, b, ROW_B);
    _tile_loadd(B1, b + 2 * HALF, ROW_B);
    for (int64_t k0 = 0; k0 < k; k0 += VO_BF16_K) {
        /* After the last step the same is loaded once more, and not used. */
        const int next = k0 + VO_BF16_K < k;
        if (whole) _tile_loadd(A1, a + HALF * VO_BF16_K, ROW_A);
        prefetch_quarter(b, 0);
        _tile_dpbf16ps(C00, A0, B0);
        prefetch_quarter(b, 1);
        _tile_dpbf16ps(C01, A0, B1);
        a += next ? MR * VO_BF16_K : 0;
        _tile_loadd(A0, a, ROW_A);
        prefetch_quarter(b, 2);
        if (whole) _tile_dpbf16ps(C10, A1, B0);
        prefetch_quarter(b, 3);
        b += next ? STEP : 0;
        _tile_loadd(B0, b, ROW_B);
        if (whole) _tile_dpbf16ps(C11, A1, B1);
        _tile_loadd(B1, b + 2 * HALF, ROW_B);
    }
    _tile_stored(C00, c, ROW_C);
    _tile_stored(C01, c + HALF, ROW_C);
    if (whole) _tile_stored(C10, c + HALF * NR, ROW_C);
    if (whole) _tile_stored(C11, c + HALF * NR + HALF, ROW_C);
}

void vo_amx_gemm_bf16(int64_t k, const uint16_t *a, const uint16_t *b, float *c, int m,
                      int accumulate) {
    if (m > HALF)
        tiles(1, k, a, b, c, accumulate);
    else
        tiles(0, k, a, b, c, accumulate);
}

void vo_amx_bf16_pack_a(int64_t k, int m, const float *a, int64_t lda, uint16_t *packed) {
    bf16_pack(MR, k, m, a, lda, packed);
}
