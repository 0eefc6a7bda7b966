/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AMX: a tile register holds 16 rows of 64 bytes, and one tdpbusd multiplies 16
 * rows of A, 64 deep, with 16 columns of B. 32 rows by 32 columns are four tiles of sums, two of A
 * and two of B: four products for four loads. tiles_begin has configured all tiles at their full
 * size; up to 16 rows take half the work.
 */
#include <immintrin.h>

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

#include "kernels/simd/int8.inc.h"
#include "kernels/unroll.h"

enum {
    MR = 32,
    NR = VO_AVX512_NR,
    MAX = 127,
    ZERO = 128,
    HALF = 16,             /* rows and columns of a tile of sums */
    STEP = VO_INT8_K * NR, /* bytes of B in one step */
    AHEAD = 4096           /* bytes of B that are prefetched; a harmless look beyond its end */
};

/* The tiles: sums [rows][columns], A [rows], B [columns]. */
#define C00 0
#define C01 1
#define C10 2
#define C11 3
#define A0  4
#define A1  5
#define B0  6
#define B1  7

VO_INLINE void tiles(const bool whole, int64_t k, const uint8_t *a, const int8_t *b, int32_t *c,
                     int accumulate) {
    const int row_c = NR * 4, row_b = NR * 4; /* bytes; B has one row per four steps of k */
    if (accumulate) {
        _tile_loadd(C00, c, row_c);
        _tile_loadd(C01, c + HALF, row_c);
        if (whole) _tile_loadd(C10, c + HALF * NR, row_c);
        if (whole) _tile_loadd(C11, c + HALF * NR + HALF, row_c);
    } else {
        _tile_zero(C00);
        _tile_zero(C01);
        if (whole) _tile_zero(C10);
        if (whole) _tile_zero(C11);
    }
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, a += MR * VO_INT8_K, b += STEP) {
        VO_UNROLL for (int i = 0; i < STEP; i += 64) _mm_prefetch(
            (const char *)(uintptr_t)((uintptr_t)b + (uintptr_t)i + AHEAD), _MM_HINT_T0);
        _tile_loadd(A0, a, VO_INT8_K);
        _tile_loadd(B0, b, row_b);
        _tile_loadd(B1, b + HALF * 4, row_b);
        _tile_dpbusd(C00, A0, B0);
        _tile_dpbusd(C01, A0, B1);
        if (!whole) continue;
        _tile_loadd(A1, a + HALF * VO_INT8_K, VO_INT8_K);
        _tile_dpbusd(C10, A1, B0);
        _tile_dpbusd(C11, A1, B1);
    }
    _tile_stored(C00, c, row_c);
    _tile_stored(C01, c + HALF, row_c);
    if (whole) _tile_stored(C10, c + HALF * NR, row_c);
    if (whole) _tile_stored(C11, c + HALF * NR + HALF, row_c);
}

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate) {
    if (m > HALF)
        tiles(true, k, a, b, c, accumulate);
    else
        tiles(false, k, a, b, c, accumulate);
}

static void pack_a(int64_t k, int m, const float *a, int64_t lda, uint8_t *packed, float *scales) {
    int8_pack(MR, MAX, ZERO, k, m, a, lda, packed, scales);
}

void vo_int8_init_amx(vo_kernels *kernels) {
    kernels->int8_pack_a = pack_a;
    kernels->gemm_int8 = gemm;
    kernels->mr_int8 = MR;
    kernels->int8_max = MAX;
    kernels->int8_zero = ZERO;
}
