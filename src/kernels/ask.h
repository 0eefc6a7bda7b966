/* SPDX-License-Identifier: MIT
 *
 * Asking for memory while products are computed. Asked for all at once, lines fill the queue of
 * outstanding reads, and nothing is multiplied until it has drained; a few between the products of
 * each step come on the way. They go to the second-level cache, whose queue is the longer one.
 */
#ifndef VO_KERNELS_ASK_H
#define VO_KERNELS_ASK_H

#include "kernels/unroll.h"

#include <stdint.h>

typedef struct vo_asking {
    uintptr_t at;  /* may be anything: it is asked for, not read */
    int64_t lines; /* of 64 bytes, at each step */
} vo_asking;

/* `bytes` from `next` on, over `steps` steps; a little more if they do not divide. */
VO_INLINE vo_asking vo_ask_over(const void *next, int64_t bytes, int64_t steps) {
    const int64_t whole = 64 * (steps > 0 ? steps : 1);
    return (vo_asking){(uintptr_t)next, (bytes + whole - 1) / whole};
}

VO_INLINE void vo_ask_line(const void *line) {
    __builtin_prefetch(line, 0, 2);
}

VO_INLINE void vo_ask_step(vo_asking *asking) {
    for (int64_t i = 0; i < asking->lines; i++, asking->at += 64)
        vo_ask_line((const void *)asking->at);
}

#endif
