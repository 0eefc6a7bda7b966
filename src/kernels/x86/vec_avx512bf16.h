/* SPDX-License-Identifier: MIT
 *
 * What AVX512_BF16 adds to the vector of vec_avx512.h.
 */
#ifndef VO_KERNELS_X86_VEC_AVX512BF16_H
#define VO_KERNELS_X86_VEC_AVX512BF16_H

#if !defined(__AVX512BF16__)
#error "this file needs the compiler flags of AVX512_BF16 (CMakeLists.txt gives them by file name)"
#endif

#include "kernels/x86/vec_avx512.h"

/* To the nearest even; takes denormals for zeros, as the products do. */
static inline void store_bf16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh(x));
}

#endif
