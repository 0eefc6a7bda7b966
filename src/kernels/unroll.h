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

/* The cases of a switch over a number of rows, for a macro CASE(rows). */
#define VO_CASES_6(CASE) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#define VO_CASES_14(CASE)                                                                          \
    VO_CASES_6(CASE) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14)

/* Specialises a template function for constant arguments. */
#define VO_INLINE static inline __attribute__((always_inline))

#endif
