/* SPDX-License-Identifier: MIT
 *
 * Attention in bf16 for AMX: a product of 16 rows of A is four of tiles. B, which is 64 by 32,
 * stays in four tile registers for several products.
 */
#if !defined(__AVX512BF16__)
#error "this file must be built with the flags of AMX and AVX512_BF16"
#endif

#include <math.h>
#include <stdatomic.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum {
    ROW = 128, /* bytes from row to row in A, B and C */
    HALF_A = 32,
    HALF_C = 16,
    HALF_B = 32,   /* the other queries */
    LOWER_B = 1024 /* the other half of k */
};

/* The tiles: C by half of the queries; A by half of k; B by half of k, then half of the queries.
 * The compilers want them as digits. */
#define C0  0
#define C1  1
#define A0  2
#define A1  3
#define B00 4
#define B01 5
#define B10 6
#define B11 7

/* Not all compilers know that tile instructions read memory: what vectors store must be there. */
static inline void fence(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void product_load(const uint16_t *b) {
    fence();
    _tile_loadd(B00, b, ROW);
    _tile_loadd(B01, b + HALF_B, ROW);
    _tile_loadd(B10, b + LOWER_B, ROW);
    _tile_loadd(B11, b + LOWER_B + HALF_B, ROW);
}

static inline void product_part(const int part, const uint16_t *a, const float *c, int add) {
    fence();
    if (part == 0) {
        if (add)
            _tile_loadd(C0, c, ROW);
        else
            _tile_zero(C0);
        _tile_loadd(A0, a, ROW);
        _tile_dpbf16ps(C0, A0, B00);
    } else if (part == 1) {
        if (add)
            _tile_loadd(C1, c + HALF_C, ROW);
        else
            _tile_zero(C1);
        _tile_dpbf16ps(C1, A0, B01);
    } else if (part == 2) {
        _tile_loadd(A1, a + HALF_A, ROW);
        _tile_dpbf16ps(C0, A1, B10);
    } else {
        _tile_dpbf16ps(C1, A1, B11);
    }
}

static inline void product_end(const uint16_t *a, const uint16_t *b, float *c, int add) {
    fence();
    _tile_stored(C0, c, ROW);
    _tile_stored(C1, c + HALF_C, ROW);
    fence();
}

#define VO_FN(name) vo_amx_##name
#include "kernels/x86/attention_bf16.inc.h"
