/* SPDX-License-Identifier: MIT
 *
 * The vector of the simd/ templates on AVX-512 (F, BW, DQ, VL): sixteen floats. The
 * meaning of each name is in vec_avx2.h.
 */
#ifndef VO_KERNELS_X86_VEC_AVX512_H
#define VO_KERNELS_X86_VEC_AVX512_H

#include <immintrin.h>
#include <stdint.h>

enum { VF_LANES = 16 };
typedef __m512 vf;
typedef __mmask16 vm;

static inline vf v_set(float s) {
    return _mm512_set1_ps(s);
}
static inline vf v_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
static inline vf v_fnma(vf a, vf b, vf c) {
    return _mm512_fnmadd_ps(a, b, c);
}
static inline vf v_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
static inline vf v_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
static inline vf v_sqrt(vf x) {
    return _mm512_sqrt_ps(x);
}
static inline vf v_abs(vf x) {
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x);
}
static inline vf v_round(vf x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf v_copysign(vf size, vf sign) {
    const vf bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, size), _mm512_and_ps(bit, sign));
}

static inline vf v_ldexp(vf x, vf n) {
    return _mm512_scalef_ps(x, n);
}

static inline vm v_less(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
static inline vf v_select(vm m, vf a, vf b) {
    return _mm512_mask_blend_ps(m, b, a);
}

/* true in lanes 0..n-1 */
static inline vm v_first(int n) {
    return (vm)((1u << n) - 1u);
}

static inline vf v_load(const float *p) {
    return _mm512_loadu_ps(p);
}
static inline void v_store(float *p, vf x) {
    _mm512_storeu_ps(p, x);
}
static inline vf v_load_n(const float *p, int n) {
    return _mm512_maskz_loadu_ps(v_first(n), p);
}
static inline void v_store_n(float *p, vf x, int n) {
    _mm512_mask_storeu_ps(p, v_first(n), x);
}

static inline vf v_load_s8(const int8_t *p) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline vf v_load_s8_n(const int8_t *p, int n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(v_first(n), p)));
}
static inline vf v_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline void v_store_f16(uint16_t *p, vf x) {
    const __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256((__m256i *)(void *)p, h);
}
static inline vf v_load_f16_n(const uint16_t *p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_first(n), p));
}
static inline void v_store_f16_n(uint16_t *p, vf x, int n) {
    const __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(p, v_first(n), h);
}

static inline __m256 v_upper_half(vf x) {
    return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(x), 1));
}
static inline float v_sum(vf x) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x), v_upper_half(x));
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}
static inline float v_hmax(vf x) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(x), v_upper_half(x));
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

static inline vf v_max_bits(vf a, vf b) {
    const __m512i larger = _mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b));
    return _mm512_castsi512_ps(larger);
}
static inline float v_hmax_bits(vf x) {
    return _mm_cvtss_f32(
        _mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(_mm512_castps_si512(x)))));
}
static inline vf v_difference(const int32_t *a, const int32_t *b) {
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_loadu_si512(a), _mm512_loadu_si512(b)));
}
static inline vf v_difference_n(const int32_t *a, const int32_t *b, int n) {
    const vm first = v_first(n);
    return _mm512_cvtepi32_ps(
        _mm512_sub_epi32(_mm512_maskz_loadu_epi32(first, a), _mm512_maskz_loadu_epi32(first, b)));
}
/* Packing works within quarters, so fours of bytes are sorted. */
static inline void v_store_bytes(uint8_t *p, const vf x[4], int zero) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i low = _mm512_packs_epi32(_mm512_cvtps_epi32(x[0]), _mm512_cvtps_epi32(x[1]));
    const __m512i high = _mm512_packs_epi32(_mm512_cvtps_epi32(x[2]), _mm512_cvtps_epi32(x[3]));
    __m512i bytes = _mm512_packs_epi16(low, high);
    bytes = _mm512_add_epi8(bytes, _mm512_set1_epi8((char)zero));
    _mm512_storeu_si512(p, _mm512_permutexvar_epi32(order, bytes));
}

/* 4x4 transposition inside the 128-bit quarters of four vectors, r[0..3] */
static inline void v_transpose_quarters(vf *r) {
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
    const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
    const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
    r[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
}

/* r[i][j] becomes r[j][i]: quarters first, then a 4x4 transposition of the quarters */
static inline void v_transpose(vf r[VF_LANES]) {
    for (int i = 0; i < 16; i += 4) v_transpose_quarters(r + i);
    for (int i = 0; i < 4; i++) {
        const vf a = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        const vf b = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        const vf c = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        const vf d = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
        r[i] = _mm512_shuffle_f32x4(a, c, 0x88);
        r[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
        r[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    }
}

#endif
