/* SPDX-License-Identifier: MIT
 *
 * GEMM in int8 for AMX: a tile register holds 16 rows of 64 bytes, and one tdpbusd multiplies 16
 * rows of A, 64 deep, with 16 columns of B. 32 rows by 32 columns are four tiles of sums, two of A
 * and two of B: four products for four loads. tiles_begin has configured all tiles at their full
 * size; up to 16 rows take half the work.
 */
#include <immintrin.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum {
    MR = VO_AMX_MR,
    NR = VO_AVX512_NR,
    MAX = 127,
    ZERO = 128,
    HALF = 16,             /* rows and columns of a tile of sums */
    STEP = VO_INT8_K * NR, /* bytes of B in one step */
    ROW_A = VO_INT8_K,     /* bytes from row to row: A as it is packed, */
    ROW_B = 4 * NR,        /* B by fours of k, */
    ROW_C = 4 * NR,        /* and sums */
    AHEAD = 4096           /* bytes of B that are prefetched; a harmless look beyond its end */
};

#include "kernels/simd/int8.inc.h"

/* The tiles: sums [rows][columns], A [rows], B [columns]. The compilers want them as digits. */
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
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, a += MR * VO_INT8_K, b += STEP) {
        /* Few rows take B as fast as memory gives it; more are busy with products. */
        if (!whole) {
            VO_UNROLL for (int i = 0; i < STEP; i += 64)
                _mm_prefetch((const char *)((uintptr_t)b + (uintptr_t)i + AHEAD), _MM_HINT_T0);
        }
        _tile_loadd(A0, a, ROW_A);
        _tile_loadd(B0, b, ROW_B);
        _tile_loadd(B1, b + HALF * 4, ROW_B);
        _tile_dpbusd(C00, A0, B0);
        _tile_dpbusd(C01, A0, B1);
        if (!whole) continue;
        _tile_loadd(A1, a + HALF * VO_INT8_K, ROW_A);
        _tile_dpbusd(C10, A1, B0);
        _tile_dpbusd(C11, A1, B1);
    }
    _tile_stored(C00, c, ROW_C);
    _tile_stored(C01, c + HALF, ROW_C);
    if (whole) _tile_stored(C10, c + HALF * NR, ROW_C);
    if (whole) _tile_stored(C11, c + HALF * NR + HALF, ROW_C);
}

static void gemm(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m, int accumulate) {
    if (m > HALF)
        tiles(true, k, a, b, c, accumulate);
    else
        tiles(false, k, a, b, c, accumulate);
}

void vo_int8_init_amx(vo_kernels *kernels) {
    int8_fill(kernels, gemm);
}
