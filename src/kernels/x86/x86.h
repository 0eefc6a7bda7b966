/* SPDX-License-Identifier: MIT
 *
 * What the x86 levels offer to the ladder in init_x86.c. The hand-written kernels are named
 * vo_<level>_<kernel>; the templates of simd/ enter through one function per level that
 * overrides the element-wise and row entries.
 */
#ifndef VO_KERNELS_X86_H
#define VO_KERNELS_X86_H

#include "kernels/kernels.h"

enum {
    VO_AVX2_MR = 6,
    VO_AVX2_NR = 16, /* two vectors of 8: 12 accumulators, 2 of B, 1 of A in 16 registers */
    VO_AVX512_MR = 14,
    VO_AVX512_NR = 32, /* two vectors of 16: 28 accumulators, 2 of B, 1 of A in 32 registers */
    VO_AMX_MR = 32     /* two tile registers high */
};

#define VO_KERNEL(name, args)                                                                      \
    void vo_avx2_##name args;                                                                      \
    void vo_avx2int_##name args;                                                                   \
    void vo_avxvnni_##name args;                                                                   \
    void vo_avx512_##name args;                                                                    \
    void vo_vnni_##name args;                                                                      \
    void vo_avx512bf16_##name args;                                                                \
    void vo_amx_##name args;
#include "kernels/kernels.def"
#undef VO_KERNEL

void vo_simd_init_avx2(vo_kernels *kernels);
void vo_simd_init_avx512(vo_kernels *kernels);

/* int8: each overrides its kernels and their sizes. */
void vo_int8_init_avx2(vo_kernels *kernels);
void vo_int8_init_avxvnni(vo_kernels *kernels);
void vo_int8_init_avx512(vo_kernels *kernels);
void vo_int8_init_vnni(vo_kernels *kernels);
void vo_int8_init_amx(vo_kernels *kernels);

#endif
