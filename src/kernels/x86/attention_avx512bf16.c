/* SPDX-License-Identifier: MIT
 *
 * Attention in bf16 for AVX512_BF16: a product is two of eight rows, whose sums are sixteen
 * vectors. Of no use where vdpbf16ps has half the rate of vfmadd, as on Sapphire Rapids, whose AMX
 * replaces it; on Zen 4 and 5 the rates are equal, for twice the products.
 */
#if !defined(__AVX512BF16__)
#error "this file must be built with the flags of AVX512_BF16"
#endif

#include <math.h>
#include <string.h>

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { WIDTH_A = 64, WIDTH_B = 64, WIDTH_C = 32, TALL = 8 };

static inline __m512bh load_pairs(const uint16_t *p) {
    return (__m512bh)_mm512_loadu_si512(p);
}
static inline __m512bh repeat_pair(const uint16_t *p) {
    int32_t pair;
    memcpy(&pair, p, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}

static inline void product_rows(const uint16_t *a, const uint16_t *b, float *c, int add) {
    vf sum[TALL][2];
    VO_UNROLL for (int i = 0; i < TALL; i++) {
        VO_UNROLL for (int j = 0; j < 2; j++) sum[i][j] =
            add ? v_load(c + i * WIDTH_C + j * VF_LANES) : v_set(0.0f);
    }
    for (int k = 0; k < WIDTH_A; k += 2, b += WIDTH_B) {
        const __m512bh y[2] = {load_pairs(b), load_pairs(b + WIDTH_B / 2)};
        VO_UNROLL for (int i = 0; i < TALL; i++) {
            const __m512bh x = repeat_pair(a + i * WIDTH_A + k);
            VO_UNROLL for (int j = 0; j < 2; j++) sum[i][j] = _mm512_dpbf16_ps(sum[i][j], x, y[j]);
        }
    }
    VO_UNROLL for (int i = 0; i < TALL; i++) {
        VO_UNROLL for (int j = 0; j < 2; j++) v_store(c + i * WIDTH_C + j * VF_LANES, sum[i][j]);
    }
}

static inline void product_load(const uint16_t *b) {}
static inline void product_part(int part, const uint16_t *a, const float *c, int add) {}
static inline void product_end(const uint16_t *a, const uint16_t *b, float *c, int add) {
    product_rows(a, b, c, add);
    product_rows(a + TALL * WIDTH_A, b, c + TALL * WIDTH_C, add);
}

#define VO_FN(name) vo_avx512bf16_##name
#include "kernels/x86/attention_bf16.inc.h"

void vo_avx512bf16_attend_pack_bf16(int n, const float *k, int64_t ldk, const float *v, int64_t ldv,
                                    uint16_t *block) {
    const vf zero = v_set(0.0f);
    for (int t = 0; t < KEYS; t++)
        for (int d = 0; d < HD; d += 2 * VF_LANES)
            _mm512_storeu_ps(block + t * HD + d, t < n ? load_bf16(k + t * ldk + d) : zero);
    block += KEYS * HD;
    for (int d = 0; d < HD; d += VF_LANES) {
        for (int t = 0; t < KEYS; t += 2 * VF_LANES) {
            vf x[2][VF_LANES];
            for (int half = 0; half < 2; half++) {
                const int t0 = t + half * VF_LANES;
                for (int i = 0; i < VF_LANES; i++)
                    x[half][i] = t0 + i < n ? v_load(v + (t0 + i) * ldv + d) : zero;
                v_transpose(x[half]);
            }
            for (int i = 0; i < VF_LANES; i++)
                _mm512_storeu_ps(block + (d + i) * KEYS + t,
                                 (vf)_mm512_cvtne2ps_pbh(x[1][i], x[0][i]));
        }
    }
}
