/* SPDX-License-Identifier: MIT
 *
 * Attention on AVX2: the templates, on tiles of 6x16, that is 16 queries at a time.
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

/* Horizontal additions work within halves; the halves are added last. */
static inline vf v_sum_each(const vf x[8]) {
    const vf a = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    const vf b = _mm256_hadd_ps(_mm256_hadd_ps(x[4], x[5]), _mm256_hadd_ps(x[6], x[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

#define VO_FN(name) vo_avx2_##name
#include "kernels/simd/attention.inc.h"
#include "kernels/simd/attention_cached.inc.h"
