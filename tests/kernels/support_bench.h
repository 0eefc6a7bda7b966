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

/* The encoder's products on one and two threads, with their share of the peak. */
int bench_products(const check_level *levels, int n_levels);

/* GFLOP/s of one core at a level's vector width; 0 for plain C. */
double bench_fma_peak(uint32_t flags);

#endif
