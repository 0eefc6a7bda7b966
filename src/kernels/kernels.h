/* SPDX-License-Identifier: MIT
 *
 * Kernels: numbers on raw pointers. One table of function pointers starts with the plain C
 * versions (ref/, the definition of right) and is overridden entry by entry by one
 * early-return ladder per architecture. Block sizes travel with the pointers.
 *
 * Packed weights. A matrix W[n][k] (as stored: one row per output) is packed into panels of nr
 * columns of B = W^T: panel p holds b[kk][j] = W[p*nr + j][kk], kk = 0..k-1, zero beyond n.
 * This serves one row of activations and 1500 equally well.
 *
 * The rule of sums. Every output element is one chain of fused multiply-adds over k in
 * ascending order, starting from zero. Tiles, threads, batch and instruction sets change
 * who computes an element, never the order of its sum: that is what makes results equal
 * bit for bit for any number of threads, rows and neighbours.
 *
 * bf16. B is stored as [k/2][nr][2] per panel, k rounded up to VO_BF16_K with zeros; A is rounded
 * when it is packed; sums are f32. Plain C and the levels that widen bf16 to f32 follow the rule of
 * sums to the bit. Levels with bf16 instructions flush denormals and add the products of each
 * VO_BF16_K steps in an order of their own, but all kernels of a level do it alike: results are
 * equal for any tile, row count and thread, and close between levels.
 *
 * int4. B is stored as 4-bit codes with a scale and a bias per column and group of steps;
 * int4_to_bf16 expands a piece of a panel to bf16, in first-level cache, just before its product.
 *
 * int8. B is s8, symmetric, one scale per column, stored as [k/4][nr][4] per panel, k rounded up to
 * VO_INT8_K with zeros; A is u8 around int8_zero, or s8 where that is 0, with a scale for every
 * VO_INT8_GROUP steps of a row, chosen from these alone. |B| <= 127. Sums are exact integers within
 * a group, so levels with the same int8_max agree bit for bit. Levels whose multiplier saturates
 * use 7 bits for A (int8_max 63, int8_zero 64) and add products in 16 bits before they widen them.
 * So that this is exact whatever A is, their B obeys a rule: of 4 VO_INT8_FOURS neighbouring steps
 * of a column, those with k mod 4 < 2 have positive values of at most VO_INT8_ROOM together and
 * negative ones of at most that, and so have the others.
 */
#ifndef VO_KERNELS_H
#define VO_KERNELS_H

#include "base/cpu.h"
#include "base/dtype.h"

enum {
    VO_SKINNY_ROWS = 8, /* most rows for the skinny kernels */
    VO_MAX_NR = 64,     /* no level has wider panels */
    VO_MAX_MR = 16,
    VO_MAX_LOW_MR = 32, /* of mr_bf16 and mr_int8 */
    VO_BF16_K = 32,     /* k is padded to a multiple */
    VO_INT8_K = 64,
    VO_INT8_GROUP = 512,         /* steps of k for which a row of A has one scale */
    VO_INT8_FOURS = 4,           /* and */
    VO_INT8_ROOM = 32767 / 127,  /* where int8_max is 63 */
    VO_ATTEND_KEYS = 168,        /* key block of attend_block: a multiple of every level's mr */
    VO_ATTEND_BF16_QUERIES = 32, /* of one attend_block_bf16, at most */
    VO_ATTEND_BF16_KEYS = 64,    /* of one attend_pack_bf16 */
    VO_ATTEND_BF16_HD = 64,      /* the only size of a head */
    VO_ATTEND_BF16_BLOCK = 2 * VO_ATTEND_BF16_KEYS * VO_ATTEND_BF16_HD, /* bf16 of a packed block */
    VO_ATTEND_BF16_SCRATCH = 33 * 256,                                  /* floats */
    VO_STFT_SCRATCH = 64 * 1024                                         /* floats */
};

/* For the epilogue of a product */
enum { VO_GELU = 1, VO_GELU_NEAR = 2 /* beside products in bf16 or less */ };

/* No scale fits rows smaller than this: 127 / max|a| must not overflow. */
#define VO_INT8_TINY 0x1p-100f

/* A block of keys and values in bytes: value = byte * scale. */
typedef struct vo_attend_s8 {
    int8_t k[VO_ATTEND_BF16_KEYS * VO_ATTEND_BF16_HD]; /* [key][d] */
    int8_t v[VO_ATTEND_BF16_HD * VO_ATTEND_BF16_KEYS]; /* [d][key] */
    float k_scales[VO_ATTEND_BF16_KEYS], v_scales[VO_ATTEND_BF16_HD];
    int32_t start[VO_ATTEND_BF16_KEYS]; /* of sums of scores: less what zeros of queries add */
    float poison, unused[15];           /* 0, or NaN where a scale is not finite */
} vo_attend_s8;

typedef struct vo_kernels {
#define VO_KERNEL(name, args) void(*name) args;
#include "kernels/kernels.def"
#undef VO_KERNEL
    int mr, nr;              /* tile of gemm_*: rows of A, columns of B per panel */
    int mr_bf16, mr_int8;    /* rows of A in a tile of gemm_bf16 and gemm_int8; nr is shared */
    int int8_max, int8_zero; /* 127 and 128, 127 and 0, or 63 and 64 */
    int attn_queries;        /* most queries of one attend_block */
    int attn_bf16;           /* attend_block_bf16 is faster than attend_block here, */
    int attn_s8;             /* and so is attend_block_s8, than both */
    uint32_t flags;          /* the CPU flags this table was made for */
} vo_kernels;

/* Floats of scratch for attend_block. */
static inline int64_t vo_attend_scratch(const vo_kernels *kernels, int64_t hd) {
    return kernels->attn_queries * (2 * hd + VO_ATTEND_KEYS + 4);
}

/* Fills the table for flags (vo_cpu_detect() & mask). flags = 0 gives plain C. */
void vo_kernels_init(vo_kernels *kernels, uint32_t flags);

/* The ladders, one per architecture; each overrides what its flags allow. */
void vo_kernels_init_x86(vo_kernels *kernels, uint32_t flags);
void vo_kernels_init_arm(vo_kernels *kernels, uint32_t flags);

/* The plain C versions, by name: vo_ref_add, ... */
#define VO_KERNEL(name, args) void vo_ref_##name args;
#include "kernels/kernels.def"
#undef VO_KERNEL

#endif
