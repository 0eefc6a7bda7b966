/* SPDX-License-Identifier: MIT
 *
 * GEMM in bf16 for AVX-512 without bf16 instructions: a tile of 14x32, widened to floats.
 */
#if !defined(__AVX512F__) || !defined(__AVX512VL__)
#error "this file must be built with the AVX-512 flags"
#endif

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { MR = VO_AVX512_MR, NR = VO_AVX512_NR };

static inline vf widen_even(const uint16_t *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_loadu_si512(p), 16));
}
/* The mask of a load leaves all vector registers to the tile. */
static inline vf widen_odd(const uint16_t *p) {
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(0xaaaaaaaa, p));
}

static inline void prefetch(const char *p) {
    _mm_prefetch(p, _MM_HINT_T0);
}

/* As in gemm_bf16_avx2.c. */
static inline void store_bf16(uint16_t *p, vf x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i round = _mm512_add_epi32(last, _mm512_set1_epi32(0x7fff));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __m512i y = _mm512_add_epi32(bits, round);
    y = _mm512_mask_or_epi32(y, nan, bits, _mm512_set1_epi32(0x400000));
    y = _mm512_srli_epi32(y, 16);
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(y));
}

#define VO_FN(name) vo_avx512_##name
#include "kernels/simd/gemm_bf16.inc.h"
