/* SPDX-License-Identifier: MIT
 *
 * The vector of the simd/ templates on NEON (AArch64): four floats. The meaning of each
 * name is in x86/vec_avx2.h.
 */
#ifndef VO_KERNELS_ARM_VEC_NEON_H
#define VO_KERNELS_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

enum { VF_LANES = 4 };
typedef float32x4_t vf;
typedef uint32x4_t vm;

static inline vf v_set(float s) {
    return vdupq_n_f32(s);
}
static inline vf v_add(vf a, vf b) {
    return vaddq_f32(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return vsubq_f32(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return vmulq_f32(a, b);
}
static inline vf v_div(vf a, vf b) {
    return vdivq_f32(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return vfmaq_f32(c, a, b);
}
static inline vf v_fnma(vf a, vf b, vf c) {
    return vfmsq_f32(c, a, b);
}
static inline vf v_min(vf a, vf b) {
    return vminq_f32(a, b);
}
static inline vf v_max(vf a, vf b) {
    return vmaxq_f32(a, b);
}
static inline vf v_sqrt(vf x) {
    return vsqrtq_f32(x);
}
static inline vf v_abs(vf x) {
    return vabsq_f32(x);
}
static inline vf v_round(vf x) {
    return vrndnq_f32(x);
}

static inline vf v_copysign(vf size, vf sign) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, size);
}

/* 2^n leaves the range of a float's exponent where the product does not: two steps. */
static inline vf v_ldexp(vf x, vf n) {
    const int32x4_t bias = vdupq_n_s32(127);
    const int32x4_t whole = vcvtnq_s32_f32(n);
    const int32x4_t half = vshrq_n_s32(whole, 1);
    const int32x4_t rest = vsubq_s32(whole, half);
    const vf s1 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, bias), 23));
    const vf s2 = vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, bias), 23));
    return vmulq_f32(vmulq_f32(x, s1), s2);
}

static inline vm v_less(vf a, vf b) {
    return vcltq_f32(a, b);
}
static inline vf v_select(vm m, vf a, vf b) {
    return vbslq_f32(m, a, b);
}

/* true in lanes 0..n-1 */
static inline vm v_first(int n) {
    static const int32_t lane[VF_LANES] = {0, 1, 2, 3};
    return vcgtq_s32(vdupq_n_s32(n), vld1q_s32(lane));
}

static inline vf v_load(const float *p) {
    return vld1q_f32(p);
}
static inline void v_store(float *p, vf x) {
    vst1q_f32(p, x);
}
static inline vf v_load_n(const float *p, int n) {
    float t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n * sizeof *t);
    return vld1q_f32(t);
}
static inline void v_store_n(float *p, vf x, int n) {
    float t[VF_LANES];
    vst1q_f32(t, x);
    memcpy(p, t, (size_t)n * sizeof *t);
}

static inline vf v_load_s8_n(const int8_t *p, int n) {
    int8_t t[8] = {0};
    memcpy(t, p, (size_t)n);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vld1_s8(t)))));
}
static inline vf v_load_s8(const int8_t *p) {
    return v_load_s8_n(p, VF_LANES);
}
static inline vf v_load_f16(const uint16_t *p) {
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
static inline void v_store_f16(uint16_t *p, vf x) {
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
static inline vf v_load_f16_n(const uint16_t *p, int n) {
    uint16_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n * sizeof *t);
    return v_load_f16(t);
}
static inline void v_store_f16_n(uint16_t *p, vf x, int n) {
    uint16_t t[VF_LANES];
    v_store_f16(t, x);
    memcpy(p, t, (size_t)n * sizeof *t);
}

static inline float v_sum(vf x) {
    return vaddvq_f32(x);
}
static inline float v_hmax(vf x) {
    return vmaxvq_f32(x);
}

static inline vf v_max_bits(vf a, vf b) {
    return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
}
static inline float v_hmax_bits(vf x) {
    return vget_lane_f32(vreinterpret_f32_u32(vdup_n_u32(vmaxvq_u32(vreinterpretq_u32_f32(x)))), 0);
}
static inline vf v_difference(const int32_t *a, const int32_t *b) {
    return vcvtq_f32_s32(vsubq_s32(vld1q_s32(a), vld1q_s32(b)));
}
static inline vf v_difference_n(const int32_t *a, const int32_t *b, int n) {
    int32_t s[VF_LANES] = {0}, t[VF_LANES] = {0};
    memcpy(s, a, (size_t)n * sizeof *s);
    memcpy(t, b, (size_t)n * sizeof *t);
    return v_difference(s, t);
}
static inline void v_store_bytes(uint8_t *p, const vf x[4], int zero) {
    const int16x4_t a = vqmovn_s32(vcvtnq_s32_f32(x[0])), b = vqmovn_s32(vcvtnq_s32_f32(x[1]));
    const int16x4_t c = vqmovn_s32(vcvtnq_s32_f32(x[2])), d = vqmovn_s32(vcvtnq_s32_f32(x[3]));
    const int8x16_t bytes =
        vcombine_s8(vqmovn_s16(vcombine_s16(a, b)), vqmovn_s16(vcombine_s16(c, d)));
    vst1q_u8(p, vaddq_u8(vreinterpretq_u8_s8(bytes), vdupq_n_u8((uint8_t)zero)));
}

/* r[i][j] becomes r[j][i] */
static inline void v_transpose(vf r[VF_LANES]) {
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}

#endif
