/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for NEON without bf16 instructions: a tile of 8x12, widened to floats.
 */
#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"

enum { MR = VO_NEON_MR, NR = VO_NEON_NR };

static inline uint32x4_t load_pairs(const uint16_t *p) {
    return vreinterpretq_u32_u16(vld1q_u16(p));
}
static inline vf widen_even(const uint16_t *p) {
    return vreinterpretq_f32_u32(vshlq_n_u32(load_pairs(p), 16));
}
static inline vf widen_odd(const uint16_t *p) {
    return vreinterpretq_f32_u32(vandq_u32(load_pairs(p), vdupq_n_u32(0xffff0000u)));
}

static inline void prefetch(const char *p) {
    __builtin_prefetch(p);
}

/* As in x86/gemm_bf16_avx2.c. */
static inline void store_bf16(uint16_t *p, vf x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7fff)));
    const uint32x4_t nan = vorrq_u32(bits, vdupq_n_u32(0x400000));
    vst1_u16(p, vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), rounded, nan), 16));
}

#define VO_FN(name) vo_neon_##name
#include "kernels/simd/gemm_bf16.inc.h"
