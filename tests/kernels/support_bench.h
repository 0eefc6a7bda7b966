/* SPDX-License-Identifier: MIT
 *
 * The benchmark half of the kernel harness: times every kernel at every level.
 */
#ifndef VO_TESTS_KERNELS_SUPPORT_BENCH_H
#define VO_TESTS_KERNELS_SUPPORT_BENCH_H

#include "kernels/support_check.h"

/* Prints a table: ns per call, GFLOP/s, share of the FMA peak measured for the level's vector
 * width, GB/s. only: one kernel by name, or NULL. Returns an exit status. */
int bench_kernels(const check_level *levels, int n_levels, const char *only);

#endif
