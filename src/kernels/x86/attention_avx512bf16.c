/* SPDX-License-Identifier: MIT
 *
 * Attention in bf16 for AVX512_BF16: the sums of a product are sixteen vectors. Of no use where
 * vdpbf16ps has half the rate of vfmadd, as on Sapphire Rapids, whose AMX replaces it; on Zen 4 and
 * 5 the rates are equal, for twice the products.
 */
#if !defined(__AVX512BF16__)
#error "this file must be built with the flags of AVX512_BF16"
#endif

#include <math.h>
#include <string.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { ROWS = 16, ROW = 32 }; /* of a half of a, and elements in one */

static inline __m512bh load_pairs(const uint16_t *p) {
    return (__m512bh)_mm512_loadu_si512(p);
}
static inline __m512bh repeat_pair(const uint16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

static inline void product_load(int add, const uint16_t *a) {}
static inline void product_half(int add, int half, const uint16_t *b, const float *c) {}
static inline void product_end(const int add, const uint16_t *a, const uint16_t *b, float *c) {
    vf sum[ROWS];
    VO_UNROLL for (int i = 0; i < ROWS; i++) sum[i] = add ? v_load(c + i * VF_LANES) : v_set(0.0f);
    for (int half = 0; half < 2; half++, a += ROWS * ROW) {
        for (int k = 0; k < ROW; k += 2, b += 2 * VF_LANES) {
            const __m512bh y = load_pairs(b);
            VO_UNROLL for (int i = 0; i < ROWS; i++) sum[i] =
                _mm512_dpbf16_ps(sum[i], repeat_pair(a + i * ROW + k), y);
        }
    }
    VO_UNROLL for (int i = 0; i < ROWS; i++) v_store(c + i * VF_LANES, sum[i]);
}

#define VO_FN(name) vo_avx512bf16_##name
#include "kernels/x86/attention_bf16.inc.h"

void vo_avx512bf16_attend_pack_bf16(int n, const float *k, int64_t ldk, const float *v, int64_t ldv,
                                    uint16_t *block) {
    const vf zero = v_set(0.0f);
    for (int column = 0; column < COLUMNS; column++) {
        for (int half = 0; half < 2; half++, block += B_SIZE / 2) {
            vf pairs[WIDE];
            for (int i = 0; i < WIDE; i++) {
                const int t = key_of(column, i);
                pairs[i] = t < n ? load_bf16(k + t * ldk + half * PAIRS) : zero;
            }
            v_transpose(pairs);
            for (int i = 0; i < WIDE; i++) _mm512_storeu_ps(block + i * 2 * WIDE, pairs[i]);
        }
    }
    for (int d = 0; d < HD; d += WIDE) {
        for (int t = 0; t < KEYS; t += 2, block += 2 * WIDE) {
            __m512i x[2];
            for (int i = 0; i < 2; i++)
                x[i] = _mm512_cvtepu16_epi32(
                    (__m256i)_mm512_cvtneps_pbh(t + i < n ? v_load(v + (t + i) * ldv + d) : zero));
            _mm512_storeu_si512(block, _mm512_or_si512(x[0], _mm512_slli_epi32(x[1], 16)));
        }
    }
}
