/* SPDX-License-Identifier: MIT
 *
 * 4-bit codes to bf16 on NEON.
 */
#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"

enum { NR = VO_NEON_NR };

typedef uint32x4_t vw;

static inline vw load_words(const uint32_t *p) {
    return vld1q_u32(p);
}
static inline vf lowest(vw words) {
    return vcvtq_f32_u32(vandq_u32(words, vdupq_n_u32(15)));
}
static inline vw shift(vw words) {
    return vshrq_n_u32(words, 4);
}

/* bits + 0x7fff + the last bit that stays, as bf16 in the upper half. */
static inline uint32x4_t rounded(vf x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t last = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddq_u32(bits, vaddq_u32(last, vdupq_n_u32(0x7fff)));
}
static inline void store_pairs(uint16_t *p, vf even, vf odd) {
    vst1q_u16(p, vreinterpretq_u16_u32(vsriq_n_u32(rounded(odd), rounded(even), 16)));
}

static inline void prefetch(const char *p) {
    __builtin_prefetch(p);
}

#define VO_FN(name) vo_neon_##name
#include "kernels/simd/int4.inc.h"
