/* SPDX-License-Identifier: MIT
 *
 * Attention over a cache of s8 for AVX-512 VNNI, which multiplies bytes: what stands against those
 * of the cache is given as two bytes a value, queries of 15 bits and weights of 16.
 *
 * vpdpbusd wants one factor without a sign. For scores that is the keys, k + 128, so that the sum
 * is too large by 128 sum(q), the same for all keys. For outputs it is the weights.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/ask.h"
#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum {
    Q_MAX = 127 * 128, /* q = 128 high + low with low in -64..63 */
    W_MAX = 65535,     /* w = 256 high + low */
    LEN_MAX = 65536,   /* 255 * 127 times this still is a sum of 32 bits */
    TOGETHER = 4       /* bytes that are added by one instruction */
};
#define W_SUM (65535.0f * LEN_MAX) /* no bound but W_MAX's */

typedef struct s8_query {
    __m512i high, low;
    int32_t excess; /* 128 sum(q) */
    float scale;
} s8_query;

/* High and low bytes of weights apart. Vector j of four has the columns of quarter i at
 * 16 i + 4 j. */
typedef struct s8_sums {
    __m512i high[4], low[4];
} s8_sums;

/* Four rows: a 32-bit lane holds a column of the four. */
typedef struct s8_wide {
    __m512i x[4];
} s8_wide;

typedef struct s8_weights {
    int32_t high[4], low[4];
} s8_weights;

/* Not the intrinsic: around it gcc 12 keeps the sums in memory. */
static inline __m512i dot(__m512i sum, __m512i without_sign, __m512i with_sign) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(without_sign), "v"(with_sign));
    return sum;
}

static inline void take_query(s8_query *query, const float *q, float up) {
    __m512i sum = _mm512_setzero_si512();
    __m128i high[4], low[4];
    VO_UNROLL for (int i = 0; i < 4; i++) {
        const __m512i x = _mm512_cvtps_epi32(v_mul(v_load(q + 16 * i), v_set(up)));
        const __m512i h = _mm512_srai_epi32(_mm512_add_epi32(x, _mm512_set1_epi32(64)), 7);
        high[i] = _mm512_cvtepi32_epi8(h);
        low[i] = _mm512_cvtepi32_epi8(_mm512_sub_epi32(x, _mm512_slli_epi32(h, 7)));
        sum = _mm512_add_epi32(sum, x);
    }
    query->excess = 128 * _mm512_reduce_add_epi32(sum);
    memcpy(&query->high, high, sizeof high);
    memcpy(&query->low, low, sizeof low);
}

/* The vector whose lane i is the sum of the lanes of x[i]. */
static inline __m512i sum_each(const __m512i x[16]) {
    __m512i y[4], z[2];
    VO_UNROLL for (int i = 0; i < 4; i++) {
        const __m512i *k = x + 4 * i;
        const __m512i a =
            _mm512_add_epi32(_mm512_unpacklo_epi32(k[0], k[1]), _mm512_unpackhi_epi32(k[0], k[1]));
        const __m512i b =
            _mm512_add_epi32(_mm512_unpacklo_epi32(k[2], k[3]), _mm512_unpackhi_epi32(k[2], k[3]));
        y[i] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    }
    VO_UNROLL for (int i = 0; i < 2; i++) z[i] =
        _mm512_add_epi32(_mm512_shuffle_i32x4(y[2 * i], y[2 * i + 1], 0x88),
                         _mm512_shuffle_i32x4(y[2 * i], y[2 * i + 1], 0xdd));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(z[0], z[1], 0x88),
                            _mm512_shuffle_i32x4(z[0], z[1], 0xdd));
}

static inline vf row_scores(const int8_t *k, const s8_query *q, const int8_t *ahead) {
    const __m512i sign = _mm512_set1_epi8(-128), zero = _mm512_setzero_si512();
    __m512i sum[16];
    VO_UNROLL for (int i = 0; i < 16; i++) {
        const __m512i row = _mm512_xor_si512(_mm512_loadu_si512(k + i * 64), sign);
        vo_ask_line(ahead + i * 64);
        sum[i] = _mm512_slli_epi32(dot(zero, row, q->high), 7);
        sum[i] = dot(sum[i], row, q->low);
    }
    const __m512i all = _mm512_sub_epi32(sum_each(sum), _mm512_set1_epi32(q->excess));
    return v_mul(_mm512_cvtepi32_ps(all), v_set(q->scale));
}

static inline void widen(const int8_t *rows, s8_wide *wide) {
    const __m512i a = _mm512_loadu_si512(rows), b = _mm512_loadu_si512(rows + 64),
                  c = _mm512_loadu_si512(rows + 128), d = _mm512_loadu_si512(rows + 192);
    const __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
    const __m512i ab2 = _mm512_unpackhi_epi8(a, b), cd2 = _mm512_unpackhi_epi8(c, d);
    wide->x[0] = _mm512_unpacklo_epi16(ab, cd);
    wide->x[1] = _mm512_unpackhi_epi16(ab, cd);
    wide->x[2] = _mm512_unpacklo_epi16(ab2, cd2);
    wide->x[3] = _mm512_unpackhi_epi16(ab2, cd2);
}

static inline s8_weights take_weights(vf w, float up) {
    s8_weights bytes;
    const __m512i x = _mm512_cvtps_epi32(v_mul(w, v_set(up)));
    const __m128i high = _mm512_cvtepi32_epi8(_mm512_srli_epi32(x, 8)),
                  low = _mm512_cvtepi32_epi8(x);
    memcpy(bytes.high, &high, sizeof high);
    memcpy(bytes.low, &low, sizeof low);
    return bytes;
}

static inline void mix_group(const s8_wide *wide, int g, const s8_weights *w, s8_sums *sums) {
    const __m512i high = _mm512_set1_epi32(w->high[g]), low = _mm512_set1_epi32(w->low[g]);
    VO_UNROLL for (int j = 0; j < 4; j++) {
        sums->high[j] = dot(sums->high[j], high, wide->x[j]);
        sums->low[j] = dot(sums->low[j], low, wide->x[j]);
    }
}

static void write_out(const s8_sums *sums, float scale, float *out) {
    for (int j = 0; j < 4; j++) {
        const vf high = _mm512_cvtepi32_ps(sums->high[j]), low = _mm512_cvtepi32_ps(sums->low[j]);
        const vf x = v_mul(v_fma(v_set(256.0f), high, low), v_set(scale));
        for (int i = 0; i < 4; i++)
            _mm_storeu_ps(out + 16 * i + 4 * j, i == 0   ? _mm512_extractf32x4_ps(x, 0)
                                                : i == 1 ? _mm512_extractf32x4_ps(x, 1)
                                                : i == 2 ? _mm512_extractf32x4_ps(x, 2)
                                                         : _mm512_extractf32x4_ps(x, 3));
    }
}

#define VO_FN(name)        vo_vnni_##name
#define VO_OTHERWISE(name) vo_avx512_##name
#include "kernels/x86/attention_cached_s8.inc.h"
