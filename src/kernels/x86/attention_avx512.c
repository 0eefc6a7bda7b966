/* SPDX-License-Identifier: MIT
 *
 * Attention on AVX-512: the template on tiles of 14x32, that is 32 queries at a time.
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

#define VO_FN(name) vo_avx512_##name
#include "kernels/simd/attention.inc.h"
