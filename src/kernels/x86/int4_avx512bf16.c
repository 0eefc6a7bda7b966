/* SPDX-License-Identifier: MIT
 *
 * 4-bit codes to bf16 where one instruction rounds two vectors of floats: neighbouring lanes hold
 * the two steps of a pair, so that what it writes is in the order of the panel.
 */
#if !defined(__AVX512BF16__)
#error "this file must be built with the flags of AVX512_BF16"
#endif

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum {
    NR = VO_AVX512_NR,
    V = NR / 8,  /* vectors of eight columns, two lanes each */
    CODES = 8,   /* in a word */
    AHEAD = 4096 /* bytes of codes that are prefetched; a harmless look beyond their end */
};

/* Eight columns from the first or second half of a vector, each twice. */
VO_INLINE __m512i twice(int half, __m512i x) {
    const __m512i first = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_epi32(half ? _mm512_add_epi32(first, _mm512_set1_epi32(8)) : first,
                                    x);
}

/* [16] f16 to two vectors. */
VO_INLINE void load_scales(const uint16_t *p, vf *to) {
    const __m512i x = _mm512_castps_si512(v_load_f16(p));
    to[0] = _mm512_castsi512_ps(twice(0, x));
    to[1] = _mm512_castsi512_ps(twice(1, x));
}

/* The lowest four bits of each word as a float: a permutation looks at no others. */
VO_INLINE vf lowest(__m512i words) {
    const vf values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps(words, values);
}

void vo_avx512bf16_int4_to_bf16(int64_t k, int64_t group, const uint32_t *codes,
                                const uint16_t *scales, uint16_t *y) {
    /* The second lane of a pair is one step ahead of the first. */
    const __m512i ahead = _mm512_set1_epi64((int64_t)4 << 32);
    for (int64_t k0 = 0; k0 < k; k0 += group, scales += 2 * NR) {
        const int64_t end = k0 + group < k ? k0 + group : k;
        vf scale[V], bias[V];
        VO_UNROLL for (int j = 0; j < V; j += 2) {
            load_scales(scales + j * 8, scale + j);
            load_scales(scales + NR + j * 8, bias + j);
        }
        for (int64_t kk = k0; kk < end; kk += CODES, codes += NR, y += CODES * NR) {
            VO_UNROLL for (int i = 0; i < 4 * NR; i += 64)
                _mm_prefetch((const char *)((uintptr_t)codes + (uintptr_t)i + AHEAD), _MM_HINT_T0);
            VO_UNROLL for (int j = 0; j < V; j += 2) {
                const __m512i words = _mm512_loadu_si512(codes + j * 8);
                __m512i low = _mm512_srlv_epi32(twice(0, words), ahead);
                __m512i high = _mm512_srlv_epi32(twice(1, words), ahead);
                VO_UNROLL for (int i = 0; i < CODES; i += 2) {
                    const vf a = v_fma(lowest(low), scale[j], bias[j]);
                    const vf b = v_fma(lowest(high), scale[j + 1], bias[j + 1]);
                    _mm512_storeu_si512(y + i * NR + j * 16, (__m512i)_mm512_cvtne2ps_pbh(b, a));
                    low = _mm512_srli_epi32(low, 8);
                    high = _mm512_srli_epi32(high, 8);
                }
            }
        }
    }
}
