/* SPDX-License-Identifier: MIT
 *
 * The simd/ templates on AVX2.
 */
#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "this file needs the compiler flags of AVX2 (CMakeLists.txt gives them by file name)"
#endif

#include <math.h>

#include "kernels/x86/vec_avx2.h"
#include "kernels/x86/x86.h"

#include "kernels/simd/math.inc.h"

#define VO_FN(name) vo_avx2_##name
#include "kernels/simd/elementwise.inc.h"
#include "kernels/simd/rows.inc.h"

#include "kernels/simd/fft.inc.h"
#include "kernels/simd/table.inc.h"

void vo_simd_init_avx2(vo_kernels *kernels) {
    simd_fill(kernels);
}
