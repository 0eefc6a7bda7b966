/* SPDX-License-Identifier: MIT
 *
 * The x86 ladder: each level overrides what it does better and returns where the flags end.
 */
#include "kernels/x86/x86.h"

void vo_kernels_init_x86(vo_kernels *kernels, uint32_t flags) {
    if (!(flags & VO_CPU_AVX2)) return;
}
