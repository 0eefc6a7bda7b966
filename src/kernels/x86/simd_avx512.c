/* SPDX-License-Identifier: MIT
 *
 * The simd/ templates on AVX-512.
 */
#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VL__)
#error "this file needs the compiler flags of AVX-512 (CMakeLists.txt gives them by file name)"
#endif

#include <math.h>

#include "kernels/x86/vec_avx512.h"
#include "kernels/x86/x86.h"

#include "kernels/simd/math.inc.h"

#define VO_FN(name) vo_avx512_##name
#include "kernels/simd/elementwise.inc.h"
#include "kernels/simd/rows.inc.h"

#include "kernels/simd/fft.inc.h"
#include "kernels/simd/table.inc.h"

void vo_simd_init_avx512(vo_kernels *kernels) {
    simd_fill(kernels);
}
