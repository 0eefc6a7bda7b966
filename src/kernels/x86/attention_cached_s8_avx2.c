/* SPDX-License-Identifier: MIT
 *
 * Attention over a cache of s8 for AVX2: bytes become 16 bits, of which vpmaddwd multiplies sixteen
 * and adds them in pairs. As floats they would take twice the instructions.
 */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/ask.h"
#include "kernels/unroll.h"
#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum {
    Q_MAX = 32767,
    W_MAX = 32767,
    LEN_MAX = 8192,
    /* 2^31 / 128, less what rounding may add to LEN_MAX weights */
    W_SUM = 16777216 - LEN_MAX,
    TOGETHER = 2 /* 16 bits that are added by one instruction */
};

typedef struct s8_query {
    __m256i x[4];
    float scale;
} s8_query;

/* Vector 2 j + i has columns 16 j + 4 i from 0 and 16 j + 8 + 4 i from lane 4 on. */
typedef struct s8_sums {
    __m256i x[8];
} s8_sums;

/* Two rows: a 32-bit lane holds a column of both. */
typedef struct s8_wide {
    __m256i x[8];
} s8_wide;

typedef struct s8_weights {
    int32_t pairs[4];
} s8_weights;

static inline __m256i sixteen(const int8_t *p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* x[0..15] times up */
static inline __m256i round_16(const float *x, float up) {
    const __m256i a = _mm256_cvtps_epi32(v_mul(v_load(x), v_set(up))),
                  b = _mm256_cvtps_epi32(v_mul(v_load(x + 8), v_set(up)));
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
}

static inline void take_query(s8_query *query, const float *q, float up) {
    VO_UNROLL for (int i = 0; i < 4; i++) query->x[i] = round_16(q + 16 * i, up);
}

static inline __m256i pair_sums(__m256i a, __m256i b) {
    return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
/* The vector whose lane i is the sum of the lanes of x[i]. */
static inline __m256i sum_each(const __m256i x[8]) {
    __m256i y[2];
    VO_UNROLL for (int i = 0; i < 2; i++) {
        const __m256i a = pair_sums(x[4 * i], x[4 * i + 1]),
                      b = pair_sums(x[4 * i + 2], x[4 * i + 3]);
        y[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
    }
    return _mm256_add_epi32(_mm256_permute2x128_si256(y[0], y[1], 0x20),
                            _mm256_permute2x128_si256(y[0], y[1], 0x31));
}

/* Products of sixteen bytes are added at once: compilers would do that later, and run out of
 * registers. */
static inline __m256i add_bytes(__m256i sum, const int8_t *bytes, __m256i x) {
    __m256i product;
    __asm__("vpmovsxbw %2, %1\n\tvpmaddwd %3, %1, %1\n\tvpaddd %1, %0, %0"
            : "+x"(sum), "=&x"(product)
            : "m"(*(const __m128i_u *)(const void *)bytes), "x"(x));
    return sum;
}
static inline __m256i add_pairs(__m256i sum, __m256i a, __m256i b) {
    __m256i product;
    __asm__("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0"
            : "+x"(sum), "=&x"(product)
            : "xm"(a), "x"(b));
    return sum;
}

static inline vf row_scores(const int8_t *k, const s8_query *q, const int8_t *ahead) {
    const __m256i x[4] = {q->x[0], q->x[1], q->x[2], q->x[3]};
    __m256i sum[8];
    VO_UNROLL for (int i = 0; i < 8; i++) {
        const int8_t *row = k + i * 64;
        vo_ask_line(ahead + i * 64);
        sum[i] = _mm256_madd_epi16(sixteen(row), x[0]);
        VO_UNROLL for (int j = 1; j < 4; j++) sum[i] = add_bytes(sum[i], row + 16 * j, x[j]);
    }
    return v_mul(_mm256_cvtepi32_ps(sum_each(sum)), v_set(q->scale));
}

static inline void widen(const int8_t *rows, s8_wide *wide) {
    VO_UNROLL for (int j = 0; j < 4; j++) {
        const __m256i a = sixteen(rows + 16 * j), b = sixteen(rows + 64 + 16 * j);
        wide->x[2 * j] = _mm256_unpacklo_epi16(a, b);
        wide->x[2 * j + 1] = _mm256_unpackhi_epi16(a, b);
    }
}

static inline s8_weights take_weights(vf w, float up) {
    s8_weights weights;
    const __m256i x = _mm256_cvtps_epi32(v_mul(w, v_set(up)));
    const __m128i pairs =
        _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    memcpy(weights.pairs, &pairs, sizeof pairs);
    return weights;
}

static inline void mix_group(const s8_wide *wide, int g, const s8_weights *w, s8_sums *sums) {
    const __m256i pair = _mm256_set1_epi32(w->pairs[g]);
    VO_UNROLL for (int j = 0; j < 8; j++) sums->x[j] = add_pairs(sums->x[j], wide->x[j], pair);
}

static void write_out(const s8_sums *sums, float scale, float *out) {
    for (int j = 0; j < 4; j++) {
        const __m256i a = sums->x[2 * j], b = sums->x[2 * j + 1];
        const __m256i low = _mm256_permute2x128_si256(a, b, 0x20),
                      high = _mm256_permute2x128_si256(a, b, 0x31);
        v_store(out + 16 * j, v_mul(_mm256_cvtepi32_ps(low), v_set(scale)));
        v_store(out + 16 * j + 8, v_mul(_mm256_cvtepi32_ps(high), v_set(scale)));
    }
}

#define VO_FN(name)        vo_avx2int_##name
#define VO_OTHERWISE(name) vo_avx2_##name
#include "kernels/x86/attention_cached_s8.inc.h"
