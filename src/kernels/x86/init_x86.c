/* SPDX-License-Identifier: MIT
 *
 * The x86 ladder: each level overrides what it does better and returns where the flags end.
 */
#include "kernels/x86/x86.h"

void vo_kernels_init_x86(vo_kernels *kernels, uint32_t flags) {
    if (!(flags & VO_CPU_AVX2)) return;
    vo_simd_init_avx2(kernels);
    kernels->mr = VO_AVX2_MR;
    kernels->nr = VO_AVX2_NR;
    kernels->gemm_f32 = vo_avx2_gemm_f32;
    kernels->gemm_f16 = vo_avx2_gemm_f16;
    kernels->skinny_f32 = vo_avx2_skinny_f32;
    kernels->skinny_f16 = vo_avx2_skinny_f16;
    kernels->gemm_pack_a = vo_avx2_gemm_pack_a;
    kernels->attn_queries = VO_AVX2_NR;
    kernels->attend_block = vo_avx2_attend_block;
    kernels->attend_cached = vo_avx2_attend_cached;
    kernels->attend_cached_f16 = vo_avx2_attend_cached_f16;
    kernels->attend_cached_s8 = vo_avx2int_attend_cached_s8;
    kernels->weigh_cached = vo_avx2_weigh_cached;
    kernels->weigh_cached_f16 = vo_avx2_weigh_cached_f16;
    kernels->weigh_cached_s8 = vo_avx2_weigh_cached_s8;
    kernels->attend_block_s8 = vo_avx2_attend_block_s8;
    kernels->attend_pack_s8 = vo_avx2_attend_pack_s8;
    kernels->attn_s8 = 1;
    kernels->mr_bf16 = VO_AVX2_MR;
    kernels->bf16_pack_a = vo_avx2_bf16_pack_a;
    kernels->gemm_bf16 = vo_avx2_gemm_bf16;
    kernels->int4_to_bf16 = vo_avx2_int4_to_bf16;
    vo_int8_init_avx2(kernels);
    if (flags & VO_CPU_AVX_VNNI) {
        vo_int8_init_avxvnni(kernels);
        kernels->attend_block_s8 = vo_avxvnni_attend_block_s8;
        kernels->attend_pack_s8 = vo_avxvnni_attend_pack_s8;
    }
    if (!(flags & VO_CPU_AVX512)) return;
    vo_simd_init_avx512(kernels);
    kernels->mr = VO_AVX512_MR;
    kernels->nr = VO_AVX512_NR;
    kernels->gemm_f32 = vo_avx512_gemm_f32;
    kernels->gemm_f16 = vo_avx512_gemm_f16;
    kernels->skinny_f32 = vo_avx512_skinny_f32;
    kernels->skinny_f16 = vo_avx512_skinny_f16;
    kernels->gemm_pack_a = vo_avx512_gemm_pack_a;
    kernels->attn_queries = VO_AVX512_NR;
    kernels->attn_s8 = 0;
    kernels->attend_block = vo_avx512_attend_block;
    kernels->attend_cached = vo_avx512_attend_cached;
    kernels->attend_cached_f16 = vo_avx512_attend_cached_f16;
    kernels->attend_cached_s8 = vo_avx512_attend_cached_s8;
    kernels->weigh_cached = vo_avx512_weigh_cached;
    kernels->weigh_cached_f16 = vo_avx512_weigh_cached_f16;
    kernels->weigh_cached_s8 = vo_avx512_weigh_cached_s8;
    kernels->mr_bf16 = VO_AVX512_MR;
    kernels->bf16_pack_a = vo_avx512_bf16_pack_a;
    kernels->gemm_bf16 = vo_avx512_gemm_bf16;
    kernels->int4_to_bf16 = vo_avx512_int4_to_bf16;
    vo_int8_init_avx512(kernels);
    if (flags & VO_CPU_AVX512_BF16) {
        kernels->attend_block_bf16 = vo_avx512bf16_attend_block_bf16;
        kernels->attend_pack_bf16 = vo_avx512bf16_attend_pack_bf16;
        kernels->attn_bf16 = vo_cpu_multiplies_bf16(flags);
        kernels->bf16_pack_a = vo_avx512bf16_bf16_pack_a;
        kernels->gemm_bf16 = vo_avx512bf16_gemm_bf16;
        kernels->int4_to_bf16 = vo_avx512bf16_int4_to_bf16;
    }
    if (!(flags & VO_CPU_AVX512_VNNI)) return;
    vo_int8_init_vnni(kernels);
    kernels->attend_cached_s8 = vo_vnni_attend_cached_s8;
    kernels->attend_block_s8 = vo_vnni_attend_block_s8;
    kernels->attend_pack_s8 = vo_vnni_attend_pack_s8;
    kernels->attn_s8 = 1;
    if (!(flags & VO_CPU_AMX) || !(flags & VO_CPU_AVX512_BF16)) return;
    kernels->tiles_begin = vo_amx_tiles_begin;
    kernels->tiles_end = vo_amx_tiles_end;
    kernels->mr_bf16 = VO_AMX_MR;
    kernels->bf16_pack_a = vo_amx_bf16_pack_a;
    kernels->gemm_bf16 = vo_amx_gemm_bf16;
    kernels->attend_block_bf16 = vo_amx_attend_block_bf16;
    kernels->attn_bf16 = 1;
    kernels->attn_s8 = 0;
    vo_int8_init_amx(kernels);
}
