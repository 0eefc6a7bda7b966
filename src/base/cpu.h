/* SPDX-License-Identifier: MIT
 *
 * What the processor can do, as one word of flags that can be masked, so that one machine
 * tests every level it has. Detection asks the CPU and the operating system (XGETBV on
 * x86, HWCAP on Arm); nothing is assumed from build flags.
 */
#ifndef VO_BASE_CPU_H
#define VO_BASE_CPU_H

#include "base/status.h"

enum {
    VO_CPU_AVX2 = 1 << 0,   /* AVX2 + FMA + F16C together: one level */
    VO_CPU_AVX512 = 1 << 1, /* F + BW + DQ + VL */
    VO_CPU_AVX512_VNNI = 1 << 2,
    VO_CPU_AVX512_BF16 = 1 << 3,
    VO_CPU_AVX_VNNI = 1 << 4,
    VO_CPU_AMX = 1 << 5, /* TILE + INT8 + BF16 and permission from the kernel */
    VO_CPU_NEON = 1 << 8,
    VO_CPU_DOTPROD = 1 << 9,
    VO_CPU_FP16 = 1 << 10,
    VO_CPU_I8MM = 1 << 11,
    VO_CPU_BF16 = 1 << 12
};

/* Everything this machine has. */
uint32_t vo_cpu_detect(void);

/* Whether bf16 products are faster than f32 ones. Intel's processors with AVX512_BF16 issue its
 * product every second cycle, at half the rate of f32: there it takes AMX; AMD's do both at full
 * rate. */
bool vo_cpu_multiplies_bf16(uint32_t flags);

/* A level by name: "c", "avx2", "avxvnni" (avx2 with VNNI, for processors without AVX-512),
 * "avx512", "vnni", "bf16", "amx", "neon", "dotprod", "fp16", "i8mm", "native". The result is the
 * set of flags up to and including that level, to be ANDed with vo_cpu_detect(). Unknown names give
 * VO_ERR_ARGUMENT and a sentence that lists the known ones. */
vo_status vo_cpu_level_mask(const char *name, uint32_t *mask, vo_error *err);

/* Writes the flags as words ("avx2 avx512 vnni"), "c" if none. */
void vo_cpu_describe(uint32_t flags, char *text, size_t size);

/* Bytes of L1 data, L2 and last-level cache of one core; sensible guesses where unknown. */
typedef struct vo_cpu_caches {
    size_t l1d, l2, l3;
} vo_cpu_caches;
vo_cpu_caches vo_cpu_get_caches(void);

/* The number of cores this process may use: physical cores within the affinity mask,
 * bounded by the cgroup (v1 or v2) CPU quota rounded up; at least 1. */
int vo_cpu_usable_cores(void);

#endif
