/* SPDX-License-Identifier: MIT
 *
 * The Arm ladder: each level overrides what it does better and returns where the flags end.
 */
#include "kernels/arm/arm.h"

void vo_kernels_init_arm(vo_kernels *kernels, uint32_t flags) {
    if (!(flags & VO_CPU_NEON)) return;
    vo_simd_init_neon(kernels);
    kernels->gemm_f32 = vo_neon_gemm_f32;
    kernels->gemm_f16 = vo_neon_gemm_f16;
    kernels->skinny_f32 = vo_neon_skinny_f32;
    kernels->skinny_f16 = vo_neon_skinny_f16;
    kernels->gemm_pack_a = vo_neon_gemm_pack_a;
    kernels->attend_block = vo_neon_attend_block;
    kernels->attend_cached = vo_neon_attend_cached;
    kernels->attend_cached_f16 = vo_neon_attend_cached_f16;
    kernels->attend_cached_s8 = vo_neon_attend_cached_s8;
    kernels->weigh_cached = vo_neon_weigh_cached;
    kernels->weigh_cached_f16 = vo_neon_weigh_cached_f16;
    kernels->weigh_cached_s8 = vo_neon_weigh_cached_s8;
    kernels->mr_bf16 = VO_NEON_MR;
    kernels->bf16_pack_a = vo_neon_bf16_pack_a;
    kernels->gemm_bf16 = vo_neon_gemm_bf16;
    kernels->int4_to_bf16 = vo_neon_int4_to_bf16;
    kernels->mr = VO_NEON_MR;
    kernels->nr = VO_NEON_NR;
    kernels->attn_queries = VO_NEON_NR;
    vo_int8_init_neon(kernels);
    if (flags & VO_CPU_DOTPROD) vo_int8_init_dotprod(kernels);
    if (flags & VO_CPU_I8MM) vo_int8_init_i8mm(kernels);
}
