/* SPDX-License-Identifier: MIT
 *
 * Attention in bf16 for AMX: a stays in two tile registers for several products; each of these is
 * two products of tiles. Scores and outputs have tiles of their own.
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
    ROW = 64,      /* bytes of a row of any tile */
    TILE = 16 * 32 /* elements from tile to tile of a and b */
};

/* The tiles of scores and of outputs. The compilers want them as digits. */
#define SCORES_C  0
#define SCORES_B  2
#define SCORES_A0 4
#define SCORES_A1 5
#define OUT_C     1
#define OUT_B     3
#define OUT_A0    6
#define OUT_A1    7

/* Not all compilers know that tile instructions read memory: what vectors store must be there. */
static inline void fence(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

static inline void product_load(const int add, const uint16_t *a) {
    fence();
    if (add) {
        _tile_loadd(OUT_A0, a, ROW);
        _tile_loadd(OUT_A1, a + TILE, ROW);
    } else {
        _tile_loadd(SCORES_A0, a, ROW);
        _tile_loadd(SCORES_A1, a + TILE, ROW);
    }
}

static inline void scores_half(const int half, const uint16_t *b) {
    _tile_loadd(SCORES_B, b + half * TILE, ROW);
    if (half == 0) {
        _tile_zero(SCORES_C);
        _tile_dpbf16ps(SCORES_C, SCORES_A0, SCORES_B);
    } else {
        _tile_dpbf16ps(SCORES_C, SCORES_A1, SCORES_B);
    }
}

static inline void out_half(const int half, const uint16_t *b, const float *c) {
    _tile_loadd(OUT_B, b + half * TILE, ROW);
    if (half == 0) {
        _tile_loadd(OUT_C, c, ROW);
        _tile_dpbf16ps(OUT_C, OUT_A0, OUT_B);
    } else {
        _tile_dpbf16ps(OUT_C, OUT_A1, OUT_B);
    }
}

static inline void product_half(const int add, const int half, const uint16_t *b, const float *c) {
    fence();
    if (add)
        out_half(half, b, c);
    else
        scores_half(half, b);
}

static inline void product_end(const int add, const uint16_t *a, const uint16_t *b, float *c) {
    fence();
    if (add)
        _tile_stored(OUT_C, c, ROW);
    else
        _tile_stored(SCORES_C, c, ROW);
    fence();
}

#define VO_FN(name) vo_amx_##name
#include "kernels/x86/attention_bf16.inc.h"
