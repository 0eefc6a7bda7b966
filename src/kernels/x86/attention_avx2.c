/* SPDX-License-Identifier: MIT
 *
 * Attention on AVX2: the template on tiles of 6x16, that is 16 queries at a time.
 */
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file needs the compiler flags of AVX2 (CMakeLists.txt gives them by file name)"
#endif

#include "kernels/unroll.h"
#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

enum { MR = VO_AVX2_MR, NR = VO_AVX2_NR };

/* n is added to the exponent field. */
static inline vf v_scale_normal(vf x, vf n) {
    const __m256i shift = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), shift));
}

#define VO_FN(name) vo_avx2_##name
#include "kernels/simd/attention.inc.h"
