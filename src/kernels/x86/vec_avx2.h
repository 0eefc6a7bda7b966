/* SPDX-License-Identifier: MIT
 *
 * The vector of the simd/ templates on AVX2 + FMA + F16C: eight floats.
 *
 * Every vec_*.h gives the same names with the same meaning:
 *   vf, vm             a vector of VF_LANES floats; a mask with one truth value per lane
 *   v_load_n, ..._n    only the first n lanes (0 <= n <= VF_LANES) touch memory; lanes that
 *                      are not loaded are zero
 *   v_fma(a, b, c)     a * b + c with one rounding; v_fnma: c - a * b
 *   v_min, v_max       a NaN in the second operand survives
 *   v_ldexp(x, n)      x * 2^n for integral n in -252..254, right also where the result is
 *                      denormal, zero or infinite
 *   v_select(m, a, b)  m ? a : b
 *   v_sum, v_hmax      over the lanes, in an order that is always the same
 *   v_max_bits         the larger as integers: for |x| the larger float, and NaN if there is one
 *   v_hmax_bits        the same over the lanes
 *   v_difference(a, b) a[i] - b[i] of 32-bit integers, as floats
 *   v_store_bytes      x[0..3], each within -127..127, rounded to the nearest even, plus zero:
 *                      4 VF_LANES bytes
 */
#ifndef VO_KERNELS_X86_VEC_AVX2_H
#define VO_KERNELS_X86_VEC_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { VF_LANES = 8 };
typedef __m256 vf;
typedef __m256 vm;

static inline vf v_set(float s) {
    return _mm256_set1_ps(s);
}
static inline vf v_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
static inline vf v_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
static inline vf v_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
static inline vf v_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
static inline vf v_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
static inline vf v_fnma(vf a, vf b, vf c) {
    return _mm256_fnmadd_ps(a, b, c);
}
static inline vf v_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
static inline vf v_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
static inline vf v_sqrt(vf x) {
    return _mm256_sqrt_ps(x);
}
static inline vf v_abs(vf x) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}
static inline vf v_round(vf x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vf v_copysign(vf size, vf sign) {
    const vf bit = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, size), _mm256_and_ps(bit, sign));
}

/* 2^n leaves the range of a float's exponent where the product does not: two steps. */
static inline vf v_ldexp(vf x, vf n) {
    const __m256i bias = _mm256_set1_epi32(127);
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    const __m256i rest = _mm256_sub_epi32(whole, half);
    const __m256i s1 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
    const __m256i s2 = _mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23);
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(s1)), _mm256_castsi256_ps(s2));
}

static inline vm v_less(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
static inline vf v_select(vm m, vf a, vf b) {
    return _mm256_blendv_ps(b, a, m);
}

static inline __m256i v_first_bits(int n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}
/* true in lanes 0..n-1 */
static inline vm v_first(int n) {
    return _mm256_castsi256_ps(v_first_bits(n));
}

static inline vf v_load(const float *p) {
    return _mm256_loadu_ps(p);
}
static inline void v_store(float *p, vf x) {
    _mm256_storeu_ps(p, x);
}
static inline vf v_load_n(const float *p, int n) {
    return _mm256_maskload_ps(p, v_first_bits(n));
}
static inline void v_store_n(float *p, vf x, int n) {
    _mm256_maskstore_ps(p, v_first_bits(n), x);
}

static inline vf v_load_s8(const int8_t *p) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline vf v_load_s8_n(const int8_t *p, int n) {
    int8_t t[VF_LANES] = {0};
    memcpy(t, p, (size_t)n);
    return v_load_s8(t);
}
static inline vf v_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline void v_store_f16(uint16_t *p, vf x) {
    const __m128i h = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128((__m128i *)(void *)p, h);
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
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    s = _mm_add_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}
static inline float v_hmax(vf x) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    s = _mm_max_ss(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(s);
}

static inline vf v_max_bits(vf a, vf b) {
    const __m256i larger = _mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b));
    return _mm256_castsi256_ps(larger);
}
static inline float v_hmax_bits(vf x) {
    const __m256i y = _mm256_castps_si256(x);
    __m128i s = _mm_max_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));
    s = _mm_max_epi32(s, _mm_unpackhi_epi64(s, s));
    s = _mm_max_epi32(s, _mm_shuffle_epi32(s, 1));
    return _mm_cvtss_f32(_mm_castsi128_ps(s));
}
static inline vf v_difference(const int32_t *a, const int32_t *b) {
    const __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)a);
    const __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)b);
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(x, y));
}
static inline vf v_difference_n(const int32_t *a, const int32_t *b, int n) {
    const __m256i first = v_first_bits(n);
    return _mm256_cvtepi32_ps(
        _mm256_sub_epi32(_mm256_maskload_epi32(a, first), _mm256_maskload_epi32(b, first)));
}
/* Packing works within halves, so fours of bytes are sorted. */
static inline void v_store_bytes(uint8_t *p, const vf x[4], int zero) {
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(x[0]), _mm256_cvtps_epi32(x[1]));
    const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(x[2]), _mm256_cvtps_epi32(x[3]));
    __m256i bytes = _mm256_packs_epi16(low, high);
    bytes = _mm256_add_epi8(bytes, _mm256_set1_epi8((char)zero));
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    _mm256_storeu_si256((__m256i *)(void *)p, bytes);
}

/* r[i][j] becomes r[j][i] */
static inline void v_transpose(vf r[VF_LANES]) {
    vf t[VF_LANES];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < 8; i++) r[i] = t[i];
}

#endif
