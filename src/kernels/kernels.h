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
 */
#ifndef VO_KERNELS_H
#define VO_KERNELS_H

#include "base/cpu.h"
#include "base/dtype.h"

enum {
    VO_SKINNY_ROWS = 8, /* most rows for the skinny kernels */
    VO_MAX_NR = 64,     /* no level has wider panels */
    VO_MAX_MR = 16,
    VO_ATTEND_KEYS = 168,       /* key block of attend_block: a multiple of every level's mr */
    VO_STFT_SCRATCH = 64 * 1024 /* floats */
};

typedef struct vo_kernels {
#define VO_KERNEL(name, args) void(*name) args;
#include "kernels/kernels.def"
#undef VO_KERNEL
    int mr, nr;       /* tile of gemm_*: rows of A, columns of B per panel */
    int attn_queries; /* most queries of one attend_block */
    uint32_t flags;   /* the CPU flags this table was made for */
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
