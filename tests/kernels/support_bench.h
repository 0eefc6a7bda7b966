/* SPDX-License-Identifier: MIT
 *
 * The benchmark half of the kernel harness: times every kernel at every level.
 */
#ifndef VO_TESTS_KERNELS_SUPPORT_BENCH_H
#define VO_TESTS_KERNELS_SUPPORT_BENCH_H

#include "kernels/support_check.h"

/* Prints a table: ns per call, GFLOP/s, share of the peak measured for the instruction that the
 * level multiplies with, GB/s. only: one kernel by name, or NULL. Returns an exit status. */
int bench_kernels(const check_level *levels, int n_levels, const char *only);

/* The encoder's products on one and two threads, with their share of the peak. */
int bench_products(const check_level *levels, int n_levels);

/* What is multiplied. */
typedef enum bench_unit { BENCH_F32, BENCH_BF16, BENCH_INT8 } bench_unit;

/* Billions of multiplications and additions a second on one core, operands in registers, with the
 * best instruction that the flags allow; 0 for plain C. */
double bench_peak(uint32_t flags, bench_unit unit);

#endif
