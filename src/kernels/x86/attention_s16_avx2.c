/* SPDX-License-Identifier: MIT
 *
 * Attention of whole windows in 16-bit integers on AVX2: vpmaddwd multiplies twice as many of them
 * as vfmadd does floats, and its additions may take a third port. Scores S^T = K Q^T and outputs
 * O^T = V^T P have a query in each lane, as in simd/attention.inc.h; the softmax and the sums over
 * blocks of keys are f32. Whole numbers are so small that the sums of a block fit 32 bits:
 * 64 QK_MAX^2 and 64 P_MAX V_MAX are below 2^31.
 */
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file needs the compiler flags of AVX2 (CMakeLists.txt gives them by file name)"
#endif

#include <float.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/vec_int_avx2.h"
#include "kernels/x86/x86.h"

#include "kernels/simd/bytes.inc.h"

enum {
    KEYS = VO_ATTEND_BF16_KEYS,
    HD = VO_ATTEND_BF16_HD,
    NQ = 16, /* queries at a time: two vectors */
    PAIRS = 32,
    TALL = 4, /* rows of a tile: 8 sums */
    QK_MAX = 5792,
    V_MAX = 2047,
    P_MAX = 16383
};
_Static_assert(KEYS == 2 * PAIRS && HD == 2 * PAIRS, "one shape of B serves both products");

/* All arrays lie in the caller's scratch. */
typedef struct state {
    int32_t *scores;  /* [KEYS][NQ] */
    int16_t *p;       /* probabilities, [PAIRS][NQ][2] */
    int16_t *queries; /* [PAIRS][NQ][2] */
    float *out;       /* [HD][NQ] */
    vf factor[2];     /* from scores of a block whose scale is 1 to powers of two */
    vf max[2];        /* what is subtracted from scaled scores, whole numbers */
    vf sum[2];
    vf poison[2]; /* 0, or NaN once a scale was not finite */
} state;

/* 2^n of whole n <= 0; below -126 it stays there. */
static inline vf power(vf n) {
    const __m256i whole = _mm256_cvtps_epi32(v_max(v_set(-126.0f), n));
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_add_epi32(whole, _mm256_set1_epi32(127)), 23));
}

/* P_MAX 2^x for x <= 0, relative error 2.6e-6, as a whole number. */
static inline __m256i probability(vf x) {
    const vf round = v_set(0x1.8p+23f); /* leaves whole numbers in the lowest bits */
    x = v_max(v_set(-24.0f), x);
    const vf n = v_add(x, round), f = v_sub(x, v_sub(n, round));
    vf p = v_set(P_MAX * 0x1.3997d4p-7f); /* minimax fit on [-1/2, 1/2] */
    p = v_fma(p, f, v_set(P_MAX * 0x1.ca1440p-5f));
    p = v_fma(p, f, v_set(P_MAX * 0x1.ec06dap-3f));
    p = v_fma(p, f, v_set(P_MAX * 0x1.62e0dcp-1f));
    p = v_fma(p, f, v_set(P_MAX * 0x1.ffffe8p-1f));
    const __m256i shift = _mm256_slli_epi32(_mm256_castps_si256(n), 23);
    return _mm256_cvtps_epi32(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shift)));
}

/* x times factor as 16 whole numbers */
static inline vi whole_numbers(const float *x, vf factor) {
    const __m256i low = _mm256_cvtps_epi32(v_mul(v_load(x), factor));
    const __m256i high = _mm256_cvtps_epi32(v_mul(v_load(x + VF_LANES), factor));
    return _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xd8);
}

/* Not the intrinsic: gcc would gather terms, and run out of registers. */
static inline void add(vi *sum, vi x) {
    __asm__("vpaddd %1, %0, %0" : "+x"(*sum) : "x"(x));
}

/* sum[TALL][2] = a[TALL][2 PAIRS] b[PAIRS][NQ][2] */
static inline void product(const int16_t *a, const int16_t *b, vi sum[TALL][2]) {
    VO_UNROLL for (int i = 0; i < TALL; i++) {
        VO_UNROLL for (int j = 0; j < 2; j++) sum[i][j] = vi_zero();
    }
    for (int pair = 0; pair < PAIRS; pair += 4, a += 8, b += 8 * NQ) {
        VO_UNROLL for (int u = 0; u < 4; u++) {
            const vi y[2] = {vi_load(b + u * 2 * NQ), vi_load(b + u * 2 * NQ + NQ)};
            VO_UNROLL for (int i = 0; i < TALL; i++) {
                const vi x = vi_repeat(a + i * 2 * PAIRS + 2 * u);
                VO_UNROLL for (int j = 0; j < 2; j++) add(&sum[i][j], _mm256_madd_epi16(x, y[j]));
            }
        }
    }
}

/* Scores of the n keys of a block, and the largest of each query */
static void score(const state *s, int n, const int16_t *k, vi max[2]) {
    max[0] = max[1] = _mm256_set1_epi32(INT32_MIN);
    for (int t = 0; t < n; t += TALL) {
        vi sum[TALL][2];
        product(k + t * HD, s->queries, sum);
        VO_UNROLL for (int i = 0; i < TALL; i++) {
            VO_UNROLL for (int j = 0; j < 2; j++) {
                vi_store(s->scores + (t + i) * NQ + j * VF_LANES, sum[i][j]);
                if (t + i < n) max[j] = _mm256_max_epi32(max[j], sum[i][j]);
            }
        }
    }
}

/* Probabilities of the n keys of a block relative to 2^max, and their sums; the others have none.
 */
static void softmax(const state *s, int n, const vf factor[2], const vf max[2], vi sum[2]) {
    sum[0] = sum[1] = vi_zero();
    for (int pair = 0; 2 * pair < n; pair++) {
        VO_UNROLL for (int j = 0; j < 2; j++) {
            vi p[2];
            VO_UNROLL for (int i = 0; i < 2; i++) {
                const vi x = vi_load(s->scores + (2 * pair + i) * NQ + j * VF_LANES);
                p[i] = probability(_mm256_fmsub_ps(_mm256_cvtepi32_ps(x), factor[j], max[j]));
            }
            if (2 * pair + 1 == n) p[1] = vi_zero();
            const vi both = _mm256_or_si256(p[0], _mm256_slli_epi32(p[1], 16));
            vi_store(s->p + (pair * NQ + j * VF_LANES) * 2, both);
            sum[j] = vi_add(sum[j], _mm256_madd_epi16(both, _mm256_set1_epi16(1)));
        }
    }
    const int pairs = (n + 1) / 2;
    memset(s->p + pairs * 2 * NQ, 0, (size_t)((PAIRS - pairs) * 2 * NQ) * sizeof *s->p);
}

/* n keys at kv and their values join the outputs. */
static void add_block(state *s, int n, const int16_t *kv, bool first) {
    float scales[2];
    vf factor[2], max[2], grow[2], shrink[2];
    vi most[2], sum[2];
    memcpy(scales, kv + 2 * KEYS * HD, sizeof scales);
    score(s, n, kv, most);
    VO_UNROLL for (int j = 0; j < 2; j++) {
        factor[j] = v_mul(s->factor[j], v_set(scales[0]));
        /* Up to a whole number: outputs grow and shrink by powers of two, exactly. */
        max[j] = _mm256_ceil_ps(v_mul(_mm256_cvtepi32_ps(most[j]), factor[j]));
        const vf larger = first ? max[j] : v_max(s->max[j], max[j]);
        grow[j] = power(v_sub(max[j], larger));
        shrink[j] = first ? v_set(0.0f) : power(v_sub(s->max[j], larger));
        s->max[j] = larger;
        s->poison[j] = v_fma(v_mul(factor[j], v_set(scales[1])), v_set(0.0f), s->poison[j]);
    }
    softmax(s, n, factor, max, sum);
    VO_UNROLL for (int j = 0; j < 2; j++) {
        s->sum[j] = v_fma(_mm256_cvtepi32_ps(sum[j]), grow[j], v_mul(s->sum[j], shrink[j]));
        grow[j] = v_mul(grow[j], v_set(scales[1]));
    }
    for (int d = 0; d < HD; d += TALL) {
        vi y[TALL][2];
        product(kv + KEYS * HD + d * KEYS, s->p, y);
        VO_UNROLL for (int i = 0; i < TALL; i++) {
            VO_UNROLL for (int j = 0; j < 2; j++) {
                float *out = s->out + (d + i) * NQ + j * VF_LANES;
                v_store(out,
                        v_fma(_mm256_cvtepi32_ps(y[i][j]), grow[j], v_mul(v_load(out), shrink[j])));
            }
        }
    }
}

/* Queries as whole numbers with a scale each; those that q lacks are zero. */
static void pack_queries(state *s, int nq, float scale, const float *q, int64_t ldq) {
    float factor[NQ] = {0.0f};
    memset(s->queries, 0, (size_t)(PAIRS * NQ * 2) * sizeof *s->queries);
    for (int i = 0; i < nq; i++, q += ldq) {
        const float inverse = inverse_scale(largest_of(HD, q), QK_MAX, &factor[i]);
        factor[i] *= scale * 0x1.715476p+0f; /* log2(e) */
        for (int d = 0; d < HD; d += 16) {
            int32_t pairs[VF_LANES];
            vi_store(pairs, whole_numbers(q + d, v_set(inverse)));
            for (int l = 0; l < VF_LANES; l++)
                memcpy(s->queries + ((d / 2 + l) * NQ + i) * 2, &pairs[l], sizeof pairs[l]);
        }
    }
    for (int j = 0; j < 2; j++) s->factor[j] = v_load(factor + j * VF_LANES);
}

/* out / sums, with a query in each row again */
static void unpack_out(const state *s, int nq, float *out, int64_t ldo) {
    for (int i0 = 0; i0 < nq; i0 += VF_LANES) {
        const int j = i0 / VF_LANES;
        const vf inverse = v_add(v_div(v_set(1.0f), s->sum[j]), s->poison[j]);
        for (int d = 0; d < HD; d += VF_LANES) {
            vf x[VF_LANES];
            for (int i = 0; i < VF_LANES; i++)
                x[i] = v_mul(v_load(s->out + (d + i) * NQ + i0), inverse);
            v_transpose(x);
            for (int i = 0; i < VF_LANES && i0 + i < nq; i++)
                v_store(out + (i0 + i) * ldo + d, x[i]);
        }
    }
}

void vo_avx2_attend_block_s16(int64_t nq, int64_t nk, float scale, const float *q, int64_t ldq,
                              const int16_t *kv, float *out, int64_t ldo, float *scratch) {
    state s;
    s.scores = (int32_t *)(void *)(scratch + (64 - (uintptr_t)scratch % 64) % 64 / sizeof(float));
    s.out = (float *)(void *)(s.scores + KEYS * NQ);
    s.p = (int16_t *)(void *)(s.out + HD * NQ);
    s.queries = s.p + KEYS * NQ;
    for (; nq > 0; nq -= NQ, q += NQ * ldq, out += NQ * ldo) {
        const int rows = nq < NQ ? (int)nq : NQ;
        pack_queries(&s, rows, scale, q, ldq);
        memset(s.out, 0, (size_t)(HD * NQ) * sizeof *s.out);
        for (int j = 0; j < 2; j++) s.max[j] = s.sum[j] = s.poison[j] = v_set(0.0f);
        for (int64_t t = 0; t < nk; t += KEYS)
            add_block(&s, nk - t < KEYS ? (int)(nk - t) : KEYS, kv + t / KEYS * VO_ATTEND_S16_BLOCK,
                      t == 0);
        unpack_out(&s, rows, out, ldo);
    }
}

static float largest_of_rows(int n, const float *x, int64_t ldx) {
    float largest = 0.0f;
    for (int t = 0; t < n; t++) {
        const float one = largest_of(HD, x + t * ldx);
        if (!(one <= largest)) largest = one;
        if (!(largest <= FLT_MAX)) break;
    }
    return largest;
}

void vo_avx2_attend_pack_s16(int n, const float *k, int64_t ldk, const float *v, int64_t ldv,
                             int16_t *block) {
    float scales[2];
    const vf key = v_set(inverse_scale(largest_of_rows(n, k, ldk), QK_MAX, &scales[0]));
    const vf value = v_set(inverse_scale(largest_of_rows(n, v, ldv), V_MAX, &scales[1]));
    memset(block, 0, VO_ATTEND_S16_BLOCK * sizeof *block);
    memcpy(block + 2 * KEYS * HD, scales, sizeof scales);
    for (int t = 0; t < n; t++) {
        for (int d = 0; d < HD; d += 16) {
            int16_t column[16];
            vi_store(block + t * HD + d, whole_numbers(k + t * ldk + d, key));
            vi_store(column, whole_numbers(v + t * ldv + d, value));
            for (int l = 0; l < 16; l++) block[KEYS * HD + (d + l) * KEYS + t] = column[l];
        }
    }
}
