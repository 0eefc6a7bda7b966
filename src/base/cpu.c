/* SPDX-License-Identifier: MIT
 *
 * Asking the processor and the system what there is: instruction sets, caches, and the cores
 * that this process may keep busy. The only file that does.
 */
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "base/cpu.h"
#include "base/memory.h"
#include "base/system.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#if defined(__aarch64__)
#include <sys/auxv.h>
#endif
#endif

#if defined(__x86_64__) || defined(__i386__)

static uint64_t enabled_state(void) {
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux gives the tile registers only to processes that ask. */
static bool ask_for_tiles(void) {
#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

static bool bit(uint32_t word, int i) {
    return (word >> i & 1) != 0;
}

static uint32_t detect(void) {
    const uint64_t ymm = 0x6, zmm = 0xe6, tiles = 0x60000;
    uint32_t a, b, c, d, flags = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27)) return 0; /* no OSXSAVE */
    uint64_t state = enabled_state();
    bool fma_f16c = bit(c, 12) && bit(c, 28) && bit(c, 29);
    if ((state & ymm) != ymm || !fma_f16c || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if (!bit(b, 5)) return 0;
    flags |= VO_CPU_AVX2;
    uint32_t a1 = 0, b1, c1, d1;
    if (a >= 1) __get_cpuid_count(7, 1, &a1, &b1, &c1, &d1);
    if (bit(a1, 4)) flags |= VO_CPU_AVX_VNNI;
    if ((state & zmm) != zmm || !bit(b, 16) || !bit(b, 17) || !bit(b, 30) || !bit(b, 31)) {
        return flags;
    }
    flags |= VO_CPU_AVX512;
    if (bit(c, 11)) flags |= VO_CPU_AVX512_VNNI;
    if (bit(a1, 5)) flags |= VO_CPU_AVX512_BF16;
    bool amx = bit(d, 22) && bit(d, 24) && bit(d, 25);
    if (amx && (state & tiles) == tiles && ask_for_tiles()) flags |= VO_CPU_AMX;
    return flags;
}

#elif defined(__aarch64__) && defined(__linux__)

static uint32_t detect(void) {
    const unsigned long fphp = 1ul << 9, asimdhp = 1ul << 10, asimddp = 1ul << 20;
    const unsigned long i8mm = 1ul << 13, bf16 = 1ul << 14;
    unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    uint32_t flags = VO_CPU_NEON; /* part of the base architecture */
    if ((caps & asimddp) != 0) flags |= VO_CPU_DOTPROD;
    if ((caps & fphp) != 0 && (caps & asimdhp) != 0) flags |= VO_CPU_FP16;
    if ((caps2 & i8mm) != 0) flags |= VO_CPU_I8MM;
    if ((caps2 & bf16) != 0) flags |= VO_CPU_BF16;
    return flags;
}

#elif defined(__aarch64__)

static uint32_t detect(void) {
    return VO_CPU_NEON;
}

#else

static uint32_t detect(void) {
    return 0;
}

#endif

bool vo_cpu_multiplies_bf16(uint32_t flags) {
    if ((flags & VO_CPU_AMX) != 0) return true;
#if defined(__x86_64__) || defined(__i386__)
    uint32_t a, b, c, d;
    const uint32_t intel = 0x756e6547; /* "Genu" of "GenuineIntel" */
    if (!__get_cpuid(0, &a, &b, &c, &d) || b == intel) return false;
#endif
    return (flags & VO_CPU_AVX512_BF16) != 0;
}

uint32_t vo_cpu_detect(void) {
    enum { KNOWN = 1u << 31 };
    static _Atomic uint32_t cached; /* racing threads find the same */
    uint32_t flags = atomic_load_explicit(&cached, memory_order_relaxed);
    if (flags == 0) {
        flags = detect() | KNOWN;
        atomic_store_explicit(&cached, flags, memory_order_relaxed);
    }
    return flags & ~(uint32_t)KNOWN;
}

enum {
    LEVEL_AVX512 = VO_CPU_AVX2 | VO_CPU_AVX512,
    LEVEL_VNNI = LEVEL_AVX512 | VO_CPU_AVX512_VNNI | VO_CPU_AVX_VNNI,
    LEVEL_FP16 = VO_CPU_NEON | VO_CPU_DOTPROD | VO_CPU_FP16,
    LEVEL_BF16_X86 = LEVEL_VNNI | VO_CPU_AVX512_BF16,
    LEVEL_BF16_ARM = LEVEL_FP16 | VO_CPU_I8MM | VO_CPU_BF16
};

static const struct {
    const char *name;
    uint32_t mask;
} levels[] = {
    {"c", 0},
    {"avx2", VO_CPU_AVX2},
    {"avxvnni", VO_CPU_AVX2 | VO_CPU_AVX_VNNI},
    {"avx512", LEVEL_AVX512},
    {"vnni", LEVEL_VNNI},
    {"bf16", LEVEL_BF16_X86 | LEVEL_BF16_ARM},
    {"amx", LEVEL_BF16_X86 | VO_CPU_AMX},
    {"neon", VO_CPU_NEON},
    {"dotprod", VO_CPU_NEON | VO_CPU_DOTPROD},
    {"fp16", LEVEL_FP16},
    {"i8mm", LEVEL_FP16 | VO_CPU_I8MM},
    {"native", UINT32_MAX},
};

vo_status vo_cpu_level_mask(const char *name, uint32_t *mask, vo_error *err) {
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        if (strcmp(levels[i].name, name) != 0) continue;
        *mask = levels[i].mask;
        return VO_OK;
    }
    return vo_fail(
        err, VO_ERR_ARGUMENT,
        "unknown CPU level '%s'; known are c, avx2, avxvnni, avx512, vnni, bf16, amx, neon, "
        "dotprod, fp16, i8mm and native",
        name);
}

void vo_cpu_describe(uint32_t flags, char *text, size_t size) {
    static const struct {
        uint32_t flag;
        const char *word;
    } words[] = {
        {VO_CPU_AVX2, "avx2"},        {VO_CPU_AVX512, "avx512"},    {VO_CPU_AVX_VNNI, "avx_vnni"},
        {VO_CPU_AVX512_VNNI, "vnni"}, {VO_CPU_AVX512_BF16, "bf16"}, {VO_CPU_AMX, "amx"},
        {VO_CPU_NEON, "neon"},        {VO_CPU_DOTPROD, "dotprod"},  {VO_CPU_FP16, "fp16"},
        {VO_CPU_I8MM, "i8mm"},        {VO_CPU_BF16, "bf16"},
    };
    if (size == 0) return;
    size_t used = 0;
    snprintf(text, size, "c");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if ((flags & words[i].flag) == 0 || used >= size) continue;
        int n = snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "", words[i].word);
        if (n > 0) used += (size_t)n;
    }
}

/* A small text file under root, without its last newline; false when there is none. */
static bool read_text(const char *root, const char *path, char *text, size_t size) {
    char full[1024];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof full) return false;
    FILE *file = fopen(full, "re");
    if (file == NULL) return false;
    size_t got = fread(text, 1, size - 1, file);
    fclose(file);
    while (got > 0 && text[got - 1] == '\n') got--;
    text[got] = '\0';
    return true;
}

static bool read_number(const char *root, const char *path, long long *value) {
    char text[64], *end;
    if (!read_text(root, path, text, sizeof text)) return false;
    *value = strtoll(text, &end, 10);
    return end != text;
}

static void read_sysfs_cache(int index, vo_cpu_caches *caches) {
    char path[128], type[32], size[32], *unit;
    long long level;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", index);
    if (!read_number("", path, &level)) return;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", index);
    if (!read_text("", path, type, sizeof type) || strcmp(type, "Instruction") == 0) return;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    if (!read_text("", path, size, sizeof size)) return;
    long long bytes = strtoll(size, &unit, 10);
    if (bytes <= 0 || bytes > 1LL << 32) return;
    if (*unit == 'K') bytes <<= 10;
    if (*unit == 'M') bytes <<= 20;
    if (level == 1) caches->l1d = (size_t)bytes;
    if (level == 2) caches->l2 = (size_t)bytes;
    if (level == 3) caches->l3 = (size_t)bytes;
}

vo_cpu_caches vo_cpu_get_caches(void) {
    vo_cpu_caches caches = {0};
    for (int i = 0; i < 8; i++) read_sysfs_cache(i, &caches);
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    long l1d = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    long l3 = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (caches.l1d == 0 && l1d > 0) caches.l1d = (size_t)l1d;
    if (caches.l2 == 0 && l2 > 0) caches.l2 = (size_t)l2;
    if (caches.l3 == 0 && l3 > 0) caches.l3 = (size_t)l3;
#endif
    if (caches.l1d == 0) caches.l1d = (size_t)32 << 10;
    if (caches.l2 == 0) caches.l2 = (size_t)512 << 10;
    if (caches.l3 == 0) caches.l3 = caches.l2 > (size_t)4 << 20 ? caches.l2 : (size_t)4 << 20;
    return caches;
}

/* The smallest CPU of a list such as "0,64" or "2-3" that is in the mask; -1: none. */
static int first_in_mask(const char *list, const bool *in_mask, int n) {
    for (const char *p = list; *p != '\0';) {
        char *end;
        long first = strtol(p, &end, 10), last = first;
        if (end == p) return -1;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long i = first; i <= last && i < n; i++) {
            if (i >= 0 && in_mask[i]) return (int)i;
        }
        p = *end == ',' ? end + 1 : end;
        if (*end != ',' && *end != '\0') return -1;
    }
    return -1;
}

int vo_cpu_count_cores(const char *root, const bool *in_mask, int n) {
    int cores = 0;
    for (int i = 0; i < n; i++) {
        char path[128], list[256];
        if (!in_mask[i]) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        /* of the siblings in one core, the first counts; unknown ones count for themselves */
        if (read_text(root, path, list, sizeof list)) {
            int first = first_in_mask(list, in_mask, n);
            if (first >= 0 && first != i) continue;
        }
        cores++;
    }
    return cores;
}

/* The tightest quota from cgroup `path` up to the mount point, which holds for all below. */
static int quota_in(const char *root, const char *mount, const char *path, bool v2) {
    char group[512], file[640], text[64];
    int cores = 0;
    if (snprintf(group, sizeof group, "%s", path) >= (int)sizeof group) return 0;
    for (;;) {
        long long quota = 0, period = 0;
        if (v2) {
            snprintf(file, sizeof file, "%s%s/cpu.max", mount, group);
            if (!read_text(root, file, text, sizeof text) ||
                sscanf(text, "%lld %lld", &quota, &period) != 2) { /* "max 100000": none */
                quota = 0;
            }
        } else {
            snprintf(file, sizeof file, "%s%s/cpu.cfs_quota_us", mount, group);
            if (!read_number(root, file, &quota)) quota = 0; /* -1: none */
            snprintf(file, sizeof file, "%s%s/cpu.cfs_period_us", mount, group);
            if (!read_number(root, file, &period)) quota = 0;
        }
        if (quota > 0 && period > 0) {
            long long n = quota / period + (quota % period != 0);
            if (n < 1 << 20 && (cores == 0 || n < cores)) cores = (int)n;
        }
        char *slash = strrchr(group, '/');
        if (slash == NULL) return cores;
        *slash = '\0';
    }
}

static bool has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *p = words; p != NULL; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0')) return true;
    }
    return false;
}

static int smaller_quota(int a, int b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

int vo_cpu_quota_cores(const char *root) {
    char text[8192];
    int cores = 0;
    if (!read_text(root, "/proc/self/cgroup", text, sizeof text)) return 0;
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        /* number:controllers:path, with no controllers for version 2 */
        char *names = strchr(line, ':'), *path = names != NULL ? strchr(names + 1, ':') : NULL;
        if (path == NULL) continue;
        *path++ = '\0';
        names++;
        if (names[0] == '\0') {
            cores = smaller_quota(cores, quota_in(root, "/sys/fs/cgroup", path, true));
            cores = smaller_quota(cores, quota_in(root, "/sys/fs/cgroup/unified", path, true));
        } else if (has_word(names, "cpu")) {
            char mount[128];
            int n = snprintf(mount, sizeof mount, "/sys/fs/cgroup/%s", names);
            int quota = quota_in(root, "/sys/fs/cgroup/cpu", path, false);
            if (quota == 0 && n > 0 && (size_t)n < sizeof mount) {
                quota = quota_in(root, mount, path, false);
            }
            cores = smaller_quota(cores, quota);
        }
    }
    return cores;
}

#if defined(__linux__)

static int cores_in_affinity(void) {
    enum { MAX_CPUS = 8192 };
    int cores = 0;
    size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    cpu_set_t *set = vo_alloc(bytes);
    bool *in_mask = vo_alloc_array(MAX_CPUS, sizeof *in_mask);
    if (set != NULL && in_mask != NULL && sched_getaffinity(0, bytes, set) == 0) {
        for (int i = 0; i < MAX_CPUS; i++) in_mask[i] = CPU_ISSET_S(i, bytes, set);
        cores = vo_cpu_count_cores("", in_mask, MAX_CPUS);
    }
    vo_free(in_mask);
    vo_free(set);
    return cores;
}

#else

static int cores_in_affinity(void) {
    return 0;
}

#endif

int vo_cpu_usable_cores(void) {
    int cores = cores_in_affinity(), quota = vo_cpu_quota_cores("");
    if (cores <= 0) cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (quota > 0 && quota < cores) cores = quota;
    return cores > 0 ? cores : 1;
}
