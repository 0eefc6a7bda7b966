/* SPDX-License-Identifier: MIT
 *
 * What the ladder for Arm chooses from. Kernels are named vo_neon_<kernel>; the templates of
 * simd/ enter through one function that overrides the element-wise, row and FFT entries.
 */
#ifndef VO_KERNELS_ARM_ARM_H
#define VO_KERNELS_ARM_ARM_H

#include "kernels/kernels.h"

enum {
    VO_NEON_MR = 8,
    VO_NEON_NR = 12 /* three vectors: 24 accumulators, 3 of B, 2 of A in 32 registers */
};

#define VO_KERNEL(name, args) void vo_neon_##name args;
#include "kernels/kernels.def"
#undef VO_KERNEL

void vo_simd_init_neon(vo_kernels *kernels);

/* int8: each overrides its kernels and their sizes. */
void vo_int8_init_neon(vo_kernels *kernels);
void vo_int8_init_dotprod(vo_kernels *kernels);
void vo_int8_init_i8mm(vo_kernels *kernels);

#endif
