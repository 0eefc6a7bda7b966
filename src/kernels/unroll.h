/* SPDX-License-Identifier: MIT
 *
 * VO_UNROLL before a loop with a small constant bound unrolls it whole, so that an array of
 * accumulators indexed by it lives in registers.
 */
#ifndef VO_KERNELS_UNROLL_H
#define VO_KERNELS_UNROLL_H

#if defined(__clang__)
#define VO_UNROLL _Pragma("clang loop unroll(full)")
#else
#define VO_UNROLL _Pragma("GCC unroll 32")
#endif

/* Specialises a template function for constant arguments. */
#define VO_INLINE static inline __attribute__((always_inline))

#endif
