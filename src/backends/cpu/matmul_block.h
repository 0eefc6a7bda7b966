/* SPDX-License-Identifier: MIT
 *
 * The middle of a product: tiles of A against one panel of B. matmul.c cuts whole products into
 * such columns of tiles, feed_forward.c two products that follow each other.
 */
#ifndef VO_BACKENDS_CPU_MATMUL_BLOCK_H
#define VO_BACKENDS_CPU_MATMUL_BLOCK_H

#include "backends/cpu/matmul.h"

enum { VO_LINE = 64 }; /* bytes of a cache line */

static inline int64_t vo_ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static inline int64_t vo_min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t vo_max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static inline int64_t vo_round_line(int64_t bytes) {
    return vo_ceil_div(bytes, VO_LINE) * VO_LINE;
}

/* What the type of B decides. */
typedef struct vo_form {
    bool narrow;    /* bf16, int8 or int4: A is packed whole, by kernels of its own */
    int mr;         /* rows of a tile */
    int a_bytes;    /* of an element of packed A */
    int b_bytes;    /* of an element of B as the tile kernel reads it */
    int64_t k_step; /* k blocks are multiples of it */
} vo_form;

vo_form vo_form_of(const vo_kernels *kernels, const vo_packed *b);

/* A product of a block's rows with a range of the steps of B. */
typedef struct vo_block_job {
    const vo_gemm *gemm; /* NULL while sizes are asked for */
    const vo_packed *b;
    const vo_kernels *kernels;
    vo_form form;
    int64_t k_block;  /* steps at a time */
    int64_t first;    /* the step of B that meets the first column of A, */
    int64_t k;        /* and how many, rounded up to what the kernels take */
    int64_t c_column; /* the column of the result that is C's first */
} vo_block_job;

/* Where a block is being computed. */
typedef struct vo_block {
    int64_t tile0, rows; /* its first tile of A, its rows */
    char *a;             /* [ceil(rows/mr)] packed tiles */
    float *scales;       /* int8: [groups of k][scale_rows], one for a group of a row of A */
    int64_t scale_rows;
    bool pack;          /* a is yet to be filled */
    int64_t last_panel; /* exclusive */
    float *c;           /* [ceil(rows/mr)*mr][nr]: one column of tiles */
    int32_t *sums;      /* int8: [mr][nr], before they are scaled */
    void *converted;    /* [k_block][nr]: halves as floats, or 4-bit codes as bf16 */
} vo_block;

/* The whole of B, in blocks of k that stay in the first-level cache. */
vo_block_job vo_block_job_of(const vo_kernels *kernels, const vo_packed *b);
/* Bytes of one packed tile of A, of the scales of `rows` rows, and of what is converted. */
int64_t vo_tile_bytes(const vo_block_job *job);
int64_t vo_scale_bytes(const vo_block_job *job, int64_t rows);
int64_t vo_converted_bytes(const vo_block_job *job);
/* Rows of A in tile `tile`, at least one. */
int vo_tile_rows(const vo_block_job *job, int64_t tile);
/* Packs a tile of A whole; scales: its own, with `rows` from group to group. */
void vo_block_pack(const vo_block_job *job, int64_t tile, char *to, float *scales, int64_t rows);
/* Sums of one panel in at->c, from 0 on or from what is there; packs A before if that is due.
 * finish: bias, activation and residual follow, and the results leave for C. */
void vo_block_panel(const vo_block_job *job, vo_block *at, int64_t panel, bool add, bool finish);

/* Sums c of rows [row, row + rows) and columns [column, column + columns) leave for C. */
void vo_block_finish(const vo_block_job *job, int64_t row, int64_t rows, int64_t column,
                     int64_t columns, const float *c, int64_t ldc);

#endif
