/* SPDX-License-Identifier: MIT
 *
 * Two products that follow each other, of which the first is much wider than what goes in and comes
 * out, as the feed-forward part of a transformer is. Its result exists slice by slice, so that many
 * rows stay in the second-level cache while the weights pass by.
 */
#ifndef VO_BACKENDS_CPU_FEED_FORWARD_H
#define VO_BACKENDS_CPU_FEED_FORWARD_H

#include "backends/cpu/matmul.h"

enum { VO_SLICE = VO_INT8_GROUP }; /* columns; int8 has scales of its own for them */

/* Bytes of workspace for up to m rows. Both weights are in bf16, int8 or 4 bits. */
size_t vo_feed_forward_workspace(const vo_kernels *kernels, int64_t m, const vo_packed *first,
                                 const vo_packed *second);
/* second->a, of k columns, is the result of `first`, whose c is not used, as second->a is not;
 * their m are equal. On the caller's thread; the same bits as the two products one after the other.
 */
void vo_feed_forward_run(const vo_gemm *first, const vo_gemm *second, const vo_kernels *kernels,
                         void *workspace);

#endif
