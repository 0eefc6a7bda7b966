/* SPDX-License-Identifier: MIT
 *
 * The table of kernels: plain C first, then the ladder of this architecture overrides what
 * the flags allow.
 */
#include "kernels/kernels.h"

#include <string.h>

#include "kernels/ref/ref.h"

void vo_kernels_init(vo_kernels *kernels, uint32_t flags) {
    memset(kernels, 0, sizeof(*kernels));
#define VO_KERNEL(name, args) kernels->name = vo_ref_##name;
#include "kernels/kernels.def"
#undef VO_KERNEL
    kernels->mr = VO_REF_MR;
    kernels->nr = VO_REF_NR;
    kernels->mr_bf16 = VO_REF_MR;
    kernels->mr_int8 = VO_REF_MR;
    kernels->int8_max = 127;
    kernels->int8_zero = 128;
    kernels->attn_queries = 16;
    kernels->flags = flags;
#if defined(__x86_64__)
    vo_kernels_init_x86(kernels, flags);
#elif defined(__aarch64__)
    vo_kernels_init_arm(kernels, flags);
#endif
}
