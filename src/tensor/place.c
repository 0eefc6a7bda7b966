/* SPDX-License-Identifier: MIT
 *
 * Memory planning. Large blocks first, each at the lowest address where it meets no block that is
 * in use at the same time ("greedy by size", Pisarchyk and Lee, arXiv:2001.03288): small ones
 * then fill the gaps, which placing in order of execution would leave. Quadratic in the number
 * of blocks, which is that of a network's ops.
 */
#include "tensor/place.h"

#include <stdlib.h>

static int larger_first(const void *a, const void *b) {
    const vo_block *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static bool share_a_step(const vo_block *a, const vo_block *b) {
    return a->begin <= b->end && b->begin <= a->end;
}

/* Moves the block up past every one that it meets until it meets none. */
static bool lowest_offset(const vo_block *block, const vo_block *placed, size_t n) {
    size_t at = 0, top;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t i = 0; i < n; i++) {
            const vo_block *other = &placed[i];
            if (!share_a_step(block, other)) continue;
            if (at >= *other->offset + other->bytes || at + block->bytes <= *other->offset)
                continue;
            at = *other->offset + other->bytes;
            if (__builtin_add_overflow(at, block->bytes, &top)) return false;
            moved = true;
        }
    }
    *block->offset = at;
    return true;
}

vo_status vo_place_blocks(vo_block *blocks, size_t n, size_t *total, vo_error *err) {
    *total = 0;
    qsort(blocks, n, sizeof *blocks, larger_first);
    for (size_t i = 0; i < n; i++) {
        if (!lowest_offset(&blocks[i], blocks, i))
            return vo_fail(err, VO_ERR_LIMIT, "the intermediate results are too large");
        size_t end = *blocks[i].offset + blocks[i].bytes;
        if (end > *total) *total = end;
    }
    return VO_OK;
}
