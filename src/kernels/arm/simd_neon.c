/* SPDX-License-Identifier: MIT
 *
 * The simd/ templates on NEON.
 */
#if !defined(__ARM_NEON)
#error "this file needs the compiler flags of NEON (CMakeLists.txt gives them by file name)"
#endif

#include <math.h>

#include "kernels/arm/arm.h"
#include "kernels/arm/vec_neon.h"
#include "kernels/simd/math.inc.h"

#define VO_FN(name) vo_neon_##name
#include "kernels/simd/elementwise.inc.h"
#include "kernels/simd/rows.inc.h"

#include "kernels/simd/fft.inc.h"
#include "kernels/simd/table.inc.h"

void vo_simd_init_neon(vo_kernels *kernels) {
    simd_fill(kernels);
}
