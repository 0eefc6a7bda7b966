/* SPDX-License-Identifier: MIT
 *
 * Attention on AVX-512: the templates, on tiles of 14x32, that is 32 queries at a time.
 */
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error "this file needs the compiler flags of AVX-512 (CMakeLists.txt gives them by file name)"
#endif

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

enum { MR = VO_AVX512_MR, NR = VO_AVX512_NR };

static inline vf v_scale_normal(vf x, vf n) {
    return _mm512_scalef_ps(x, n);
}

/* Halves the number of vectors four times; at each step the two operands of an addition take
 * their lanes from neighbouring keys. */
static inline vf v_sum_each(const vf x[16]) {
    vf y[4], z[2];
    VO_UNROLL for (int i = 0; i < 4; i++) {
        const vf *k = x + 4 * i;
        const __m512d a = _mm512_castps_pd(
            _mm512_add_ps(_mm512_unpacklo_ps(k[0], k[1]), _mm512_unpackhi_ps(k[0], k[1])));
        const __m512d b = _mm512_castps_pd(
            _mm512_add_ps(_mm512_unpacklo_ps(k[2], k[3]), _mm512_unpackhi_ps(k[2], k[3])));
        y[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    /* Quarter q of y[i] holds the sums of keys 4i..4i+3 over quarter q of their vectors. */
    VO_UNROLL for (int i = 0; i < 2; i++) z[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0x88),
                      _mm512_shuffle_f32x4(y[2 * i], y[2 * i + 1], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(z[0], z[1], 0x88),
                         _mm512_shuffle_f32x4(z[0], z[1], 0xdd));
}

#define VO_FN(name) vo_avx512_##name
#include "kernels/simd/attention.inc.h"
#include "kernels/simd/attention_cached.inc.h"
