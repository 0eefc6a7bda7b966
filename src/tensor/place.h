/* SPDX-License-Identifier: MIT
 *
 * Memory planning: blocks with life times share one arena.
 */
#ifndef VO_TENSOR_PLACE_H
#define VO_TENSOR_PLACE_H

#include "base/status.h"

/* A block that is in use from step `begin` to step `end`, both included. */
typedef struct vo_block {
    size_t bytes; /* a multiple of VO_ALIGN */
    int begin, end;
    size_t *offset; /* out: bytes from the arena's start */
} vo_block;

/* Gives every block an offset such that no two that are in use at the same step overlap, and the
 * size of the arena. Re-orders the blocks. VO_ERR_LIMIT when sizes overflow. */
vo_status vo_place_blocks(vo_block *blocks, size_t n, size_t *total, vo_error *err);

#endif
