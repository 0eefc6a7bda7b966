/* SPDX-License-Identifier: MIT
 *
 * Attention over a cache of s8 for AVX-512 VNNI, which multiplies the bytes as they are stored:
 * what stands against them, queries and weights, is given as two bytes a value, 15 and 16 bits.
 * Widening keys and values to floats takes longer than reading them; this does not.
 *
 * vpdpbusd wants one factor without a sign. For scores that is the keys, k + 128, so that the sum
 * is too large by 128 sum(q), the same for all keys. For outputs it is the weights.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum {
    HD = 64,           /* one vector of bytes */
    ROWS = 16,         /* of a block: as many as a vector has sums */
    AHEAD = 32,        /* rows between what is used and what is asked for */
    Q_MAX = 127 * 128, /* q = 128 high + low with low in -64..63 */
    W_MAX = 65535,     /* w = 256 high + low */
    LEN_MAX = 65536    /* 255 * 127 times this still is a sum of 32 bits */
};

/* Sixteen rows that lie side by side; rows from n on are zeros, and `copy` is where they lie if
 * they are gathered. */
typedef struct s8_rows {
    const int8_t *at;
    const int8_t *ahead; /* the rows that are read AHEAD rows later; they need not exist */
    int n;
    int8_t copy[ROWS * HD];
} s8_rows;

/* One at a time between the arithmetic, because a burst fills the queue of outstanding reads; into
 * L2, because the queue of L1 is a short one. */
static inline void ask(const int8_t *row) {
    _mm_prefetch((const char *)row, _MM_HINT_T1);
}

typedef struct s8_query {
    __m512i high, low;
    int32_t excess; /* 128 sum(q) */
    float scale;    /* of q */
} s8_query;

/* Sums of one query, high and low bytes of weights apart. Vector j of four has the columns of
 * quarter i at 16 i + 4 j. */
typedef struct s8_sums {
    __m512i high[4], low[4];
} s8_sums;

/* Not the intrinsic: around it gcc 12 keeps the sums in memory. */
static inline __m512i dot(__m512i sum, __m512i without_sign, __m512i with_sign) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(without_sign), "v"(with_sign));
    return sum;
}

/* After the last row comes `next`. */
static inline void take_rows(s8_rows *rows, const int8_t *base, const int32_t *table, int64_t t,
                             int64_t len, const int8_t *next) {
    const int64_t later = t + AHEAD;
    rows->ahead = later < len ? base + later * HD : next + (later - len) * HD;
    rows->n = len - t < ROWS ? (int)(len - t) : ROWS;
    rows->at = base + t * HD;
    if (!table && rows->n == ROWS) return;
    for (int i = 0; i < ROWS; i++)
        if (i < rows->n)
            memcpy(rows->copy + i * HD, base + (table ? table[t + i] : t + i) * (int64_t)HD, HD);
        else
            memset(rows->copy + i * HD, 0, HD);
    rows->at = rows->copy;
}

/* 1 / scale, or 0 where that says nothing: what is smaller than all floats is as good as zero. */
static inline float inverse_of(float scale) {
    const float inverse = 1.0f / scale;
    return isfinite(inverse) ? inverse : 0.0f;
}

/* A query with a value that is not finite has the scale NaN. */
static void take_query(s8_query *query, const float *q) {
    vf max = v_abs(v_load(q));
    for (int d = 16; d < HD; d += 16) max = v_max_bits(max, v_abs(v_load(q + d)));
    const float most = v_hmax_bits(max);
    if (!isfinite(most)) {
        *query = (s8_query){.scale = NAN};
        return;
    }
    const vf up = v_set(inverse_of(most / (float)Q_MAX));
    query->scale = most / (float)Q_MAX;
    __m512i sum = _mm512_setzero_si512();
    __m128i high[4], low[4];
    VO_UNROLL for (int i = 0; i < 4; i++) {
        const __m512i x = _mm512_cvtps_epi32(v_mul(v_load(q + 16 * i), up));
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

/* q·k of sixteen rows, without the scale of a row. */
static inline vf row_scores(const s8_rows *k, const s8_query *q, const int8_t *ahead) {
    const __m512i sign = _mm512_set1_epi8(-128), zero = _mm512_setzero_si512();
    __m512i sum[ROWS];
    VO_UNROLL for (int i = 0; i < ROWS; i++) {
        const __m512i row = _mm512_xor_si512(_mm512_loadu_si512(k->at + i * HD), sign);
        ask(ahead + i * HD);
        sum[i] = _mm512_slli_epi32(dot(zero, row, q->high), 7);
        sum[i] = dot(sum[i], row, q->low);
    }
    const __m512i all = _mm512_sub_epi32(sum_each(sum), _mm512_set1_epi32(q->excess));
    return v_mul(_mm512_cvtepi32_ps(all), v_set(q->scale));
}

static void all_scores(int64_t nq, int64_t len, float scale, const s8_query *q, const int8_t *k,
                       const float *k_scales, const int8_t *v, const int32_t *table,
                       float *scores) {
    s8_rows rows;
    for (int64_t t = 0; t < len; t += ROWS) {
        float scales[ROWS];
        take_rows(&rows, k, table, t, len, v);
        for (int i = 0; i < rows.n; i++) scales[i] = scale * k_scales[table ? table[t + i] : t + i];
        for (int64_t i = 0; i < nq; i++)
            v_store_n(
                scores + i * len + t,
                v_mul(row_scores(&rows, q + i, i ? rows.at : rows.ahead), v_load_n(scales, rows.n)),
                rows.n);
    }
}

/* Weights of a row times the row's scale, in place. What 1 is in bytes, or NaN where one is not
 * finite. */
static float scale_weights(int64_t len, const float *v_scales, const int32_t *table, float *w) {
    vf max = v_set(0.0f), sum = v_set(0.0f);
    for (int64_t t = 0; t < len; t += ROWS) {
        const int n = len - t < ROWS ? (int)(len - t) : ROWS;
        float gathered[ROWS];
        for (int i = 0; table && i < n; i++) gathered[i] = v_scales[table[t + i]];
        const vf x = v_mul(v_load_n(w + t, n), v_load_n(table ? gathered : v_scales + t, n));
        v_store_n(w + t, x, n);
        max = v_max_bits(max, v_abs(x));
        sum = v_add(sum, x);
    }
    return isfinite(v_sum(sum)) ? v_hmax_bits(max) / (float)W_MAX : NAN;
}

/* Four rows become four vectors in which a 32-bit lane holds a column of the four. */
static inline void interleave(const int8_t *rows, __m512i x[4]) {
    const __m512i a = _mm512_loadu_si512(rows), b = _mm512_loadu_si512(rows + HD),
                  c = _mm512_loadu_si512(rows + 2 * HD), d = _mm512_loadu_si512(rows + 3 * HD);
    const __m512i ab = _mm512_unpacklo_epi8(a, b), cd = _mm512_unpacklo_epi8(c, d);
    const __m512i ab2 = _mm512_unpackhi_epi8(a, b), cd2 = _mm512_unpackhi_epi8(c, d);
    x[0] = _mm512_unpacklo_epi16(ab, cd);
    x[1] = _mm512_unpackhi_epi16(ab, cd);
    x[2] = _mm512_unpacklo_epi16(ab2, cd2);
    x[3] = _mm512_unpackhi_epi16(ab2, cd2);
}

/* The bytes of sixteen weights. */
typedef struct s8_weights {
    int32_t high[4], low[4];
} s8_weights;

static inline s8_weights take_weights(const float *w, int n, float up) {
    s8_weights bytes;
    const __m512i x = _mm512_cvtps_epi32(v_mul(v_load_n(w, n), v_set(up)));
    const __m128i high = _mm512_cvtepi32_epi8(_mm512_srli_epi32(x, 8)),
                  low = _mm512_cvtepi32_epi8(x);
    memcpy(bytes.high, &high, sizeof high);
    memcpy(bytes.low, &low, sizeof low);
    return bytes;
}

static inline void mix_rows(const __m512i rows[4][4], const s8_weights *w, s8_sums *sums) {
    s8_sums s = *sums;
    VO_UNROLL for (int g = 0; g < 4; g++) {
        const __m512i high = _mm512_set1_epi32(w->high[g]), low = _mm512_set1_epi32(w->low[g]);
        VO_UNROLL for (int j = 0; j < 4; j++) {
            s.high[j] = dot(s.high[j], high, rows[g][j]);
            s.low[j] = dot(s.low[j], low, rows[g][j]);
        }
    }
    *sums = s;
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

/* w: nq rows of len, in steps of scales[i] */
static void mix(int64_t nq, int64_t len, const float *w, const float *scales, const int8_t *k,
                const int8_t *v, const int32_t *table, float *out, int64_t ldo) {
    s8_sums sums[VO_SKINNY_ROWS];
    s8_rows rows;
    memset(sums, 0, (size_t)nq * sizeof *sums);
    for (int64_t t = 0; t < len; t += ROWS) {
        __m512i wide[4][4];
        take_rows(&rows, v, table, t, len, k + len * HD);
        VO_UNROLL for (int g = 0; g < 4; g++) {
            VO_UNROLL for (int i = 4 * g; i < 4 * g + 4; i++) ask(rows.ahead + i * HD);
            interleave(rows.at + 4 * g * HD, wide[g]);
        }
        for (int64_t i = 0; i < nq; i++) {
            const s8_weights bytes = take_weights(w + i * len + t, rows.n, inverse_of(scales[i]));
            mix_rows(wide, &bytes, sums + i);
        }
    }
    for (int64_t i = 0; i < nq; i++) write_out(sums + i, scales[i], out + i * ldo);
}

void vo_vnni_attend_cached_s8(int64_t nq, int64_t len, int64_t hd, float scale, const float *q,
                              int64_t ldq, const int8_t *k, const float *k_scales, const int8_t *v,
                              const float *v_scales, const int32_t *table, float *out, int64_t ldo,
                              float *scores) {
    s8_query queries[VO_SKINNY_ROWS];
    float scales[VO_SKINNY_ROWS];
    if (hd != HD || len > LEN_MAX) {
        vo_avx512_attend_cached_s8(nq, len, hd, scale, q, ldq, k, k_scales, v, v_scales, table, out,
                                   ldo, scores);
        return;
    }
    for (int64_t i = 0; i < nq; i++) take_query(queries + i, q + i * ldq);
    all_scores(nq, len, scale, queries, k, k_scales, v, table, scores);
    vo_avx512_softmax(nq, len, scores, len, scores, len);
    for (int64_t i = 0; i < nq; i++) {
        scales[i] = scale_weights(len, v_scales, table, scores + i * len);
        if (!isfinite(queries[i].scale)) scales[i] = NAN;
    }
    mix(nq, len, scores, scales, k, v, table, out, ldo);
}
