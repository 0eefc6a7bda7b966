/* SPDX-License-Identifier: MIT
 *
 * GEMM on tile registers, for bf16 and int8 alike: a tile holds 16 rows of 64 bytes, and one
 * product multiplies 16 rows of A, 64 bytes deep, with 16 columns of B and adds to 16x16 sums of
 * four bytes. 32 rows by 32 columns are four tiles of sums, two of A and two of B; a step is four
 * products for four loads. Up to 16 rows take half the work. Each tile of the next step is loaded
 * as soon as its last product has begun: with A in the first-level cache (256 steps of k in bf16
 * are 16 KB) and B in the second, products hardly wait. tiles_begin has configured all tiles at
 * their full size. Before it a file includes immintrin.h, kernels/ask.h and kernels/unroll.h, and
 * defines VO_PRODUCT(c, a, b)   the instruction, on tiles
 */

enum {
    HALF = 16,                  /* rows and columns of a tile */
    ROW_A = 64,                 /* bytes from row to row: A as it is packed, */
    ROW_BC = 4 * VO_AVX512_NR,  /* B by groups of k that fill four bytes, and sums */
    COLUMNS = 4 * HALF,         /* bytes to the second tile of columns, in B and C */
    STEP_A = VO_AMX_MR * ROW_A, /* bytes of one step */
    STEP_B = HALF * ROW_BC,
    LOWER_A = HALF * ROW_A, /* bytes to the second tile of rows */
    LOWER_C = HALF * ROW_BC,
    AHEAD = 4096 /* bytes of B that are prefetched; a harmless look beyond */
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
VO_INLINE void prefetch_quarter(const char *b, int quarter) {
    const uintptr_t from = (uintptr_t)b + AHEAD + (uintptr_t)(quarter * STEP_B / 4);
    VO_UNROLL for (int i = 0; i < STEP_B / 4; i += 64)
        _mm_prefetch((const char *)(from + (uintptr_t)i), _MM_HINT_T0);
}

VO_INLINE void tiles(const int whole, int64_t steps, const char *a, const char *b, char *c,
                     int accumulate, vo_asking asking) {
    if (accumulate) {
        _tile_loadd(C00, c, ROW_BC);
        _tile_loadd(C01, c + COLUMNS, ROW_BC);
        if (whole) _tile_loadd(C10, c + LOWER_C, ROW_BC);
        if (whole) _tile_loadd(C11, c + LOWER_C + COLUMNS, ROW_BC);
    } else {
        _tile_zero(C00);
        _tile_zero(C01);
        if (whole) _tile_zero(C10);
        if (whole) _tile_zero(C11);
    }
    _tile_loadd(A0, a, ROW_A);
    _tile_loadd(B0, b, ROW_BC);
    _tile_loadd(B1, b + COLUMNS, ROW_BC);
    for (; steps > 0; steps--) {
        /* After the last step the same is loaded once more, and not used. */
        const int next = steps > 1;
        if (whole) _tile_loadd(A1, a + LOWER_A, ROW_A);
        prefetch_quarter(b, 0);
        vo_ask_step(&asking);
        VO_PRODUCT(C00, A0, B0);
        prefetch_quarter(b, 1);
        vo_ask_step(&asking);
        VO_PRODUCT(C01, A0, B1);
        a += next ? STEP_A : 0;
        _tile_loadd(A0, a, ROW_A);
        prefetch_quarter(b, 2);
        vo_ask_step(&asking);
        if (whole) VO_PRODUCT(C10, A1, B0);
        prefetch_quarter(b, 3);
        vo_ask_step(&asking);
        b += next ? STEP_B : 0;
        _tile_loadd(B0, b, ROW_BC);
        if (whole) VO_PRODUCT(C11, A1, B1);
        _tile_loadd(B1, b + COLUMNS, ROW_BC);
    }
    _tile_stored(C00, c, ROW_BC);
    _tile_stored(C01, c + COLUMNS, ROW_BC);
    if (whole) _tile_stored(C10, c + LOWER_C, ROW_BC);
    if (whole) _tile_stored(C11, c + LOWER_C + COLUMNS, ROW_BC);
}

/* steps: of 64 bytes of k */
static inline void tiles_of(int64_t steps, const void *a, const void *b, void *c, int m,
                            int accumulate, const void *next, int64_t next_bytes) {
    const vo_asking asking = vo_ask_over(next, next_bytes, 4 * steps);
    if (m > HALF)
        tiles(1, steps, a, b, c, accumulate, asking);
    else
        tiles(0, steps, a, b, c, accumulate, asking);
}
