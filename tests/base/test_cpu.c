/* SPDX-License-Identifier: MIT
 *
 * CPU levels, and core counting on made-up /proc and /sys trees.
 */
#include "base/cpu.h"
#include "base/harness.h"
#include "base/memory.h"
#include "base/support_scratch.h"
#include "base/system.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static uint32_t mask_of(const char *name) {
    uint32_t mask = 0x5a5a5a5a;
    vo_error err = {0};
    assert_int_equal(vo_cpu_level_mask(name, &mask, &err), VO_OK);
    return mask;
}

static void levels_grow(void **state) {
    const char *x86[] = {"c", "avx2", "avx512", "vnni", "bf16", "amx", "native"};
    const char *arm[] = {"c", "neon", "dotprod", "fp16", "i8mm", "bf16", "native"};
    for (int i = 0; i + 1 < 7; i++) {
        uint32_t a = mask_of(x86[i]), b = mask_of(x86[i + 1]);
        if (strcmp(x86[i], "bf16") == 0) a &= 0xff; /* that name has an Arm half */
        assert_true((a & b) == a && a != b);
        a = mask_of(arm[i]);
        b = mask_of(arm[i + 1]);
        assert_true((a & b) == a && a != b);
    }
    assert_int_equal(mask_of("c"), 0);
    assert_int_equal(mask_of("avx2"), VO_CPU_AVX2);
    assert_int_equal(mask_of("avxvnni"), VO_CPU_AVX2 | VO_CPU_AVX_VNNI);
    assert_int_equal(mask_of("avx512"), VO_CPU_AVX2 | VO_CPU_AVX512);
    assert_int_equal(mask_of("native"), UINT32_MAX);
    vo_error err = {0};
    uint32_t mask;
    assert_int_equal(vo_cpu_level_mask("sse9", &mask, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "sse9"));
    for (int i = 0; i < 7; i++) {
        assert_non_null(strstr(err.message, x86[i]));
        assert_non_null(strstr(err.message, arm[i]));
    }
}

static void descriptions(void **state) {
    char text[128], small[8];
    vo_cpu_describe(0, text, sizeof text);
    assert_string_equal(text, "c");
    vo_cpu_describe(VO_CPU_AVX2 | VO_CPU_AVX512 | VO_CPU_AVX512_VNNI, text, sizeof text);
    assert_string_equal(text, "avx2 avx512 vnni");
    vo_cpu_describe(VO_CPU_NEON | VO_CPU_I8MM, text, sizeof text);
    assert_string_equal(text, "neon i8mm");
    vo_cpu_describe(UINT32_MAX, small, sizeof small); /* cut, but ended */
    assert_string_equal(small, "avx2 av");
}

/* What the kernel lists in /proc/cpuinfo is another way to the same answer. */
static void detection_agrees_with_the_kernel(void **state) {
    static const struct {
        uint32_t flag;
        const char *words[4];
    } rules[] = {
        {VO_CPU_AVX2, {" avx2", " fma", " f16c"}},
        {VO_CPU_AVX512, {" avx512f", " avx512bw", " avx512dq", " avx512vl"}},
        {VO_CPU_AVX512_VNNI, {" avx512_vnni"}},
        {VO_CPU_AVX512_BF16, {" avx512_bf16"}},
        {VO_CPU_AVX_VNNI, {" avx_vnni"}},
        {VO_CPU_NEON, {" asimd"}},
        {VO_CPU_DOTPROD, {" asimddp"}},
        {VO_CPU_FP16, {" fphp", " asimdhp"}},
        {VO_CPU_I8MM, {" i8mm"}},
        {VO_CPU_BF16, {" bf16"}},
    };
    static char line[16384];
    FILE *info = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (info != NULL && !found && fgets(line, sizeof line - 1, info) != NULL) {
        found = strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0;
    }
    if (info != NULL) fclose(info);
    if (!found) skip();
    line[strcspn(line, "\n")] = ' ';
    uint32_t flags = vo_cpu_detect();
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        bool has = true;
        for (int j = 0; j < 4 && rules[i].words[j] != NULL; j++) {
            char word[32];
            snprintf(word, sizeof word, "%s ", rules[i].words[j]);
            has = has && strstr(line, word) != NULL;
        }
        assert_int_equal((flags & rules[i].flag) != 0, has);
    }
    /* the kernel may refuse tiles to a process, but never has them without the flag */
    if ((flags & VO_CPU_AMX) != 0) assert_non_null(strstr(line, " amx_int8 "));
    assert_int_equal(vo_cpu_detect(), flags);
}

static void caches_and_cores_are_sensible(void **state) {
    vo_cpu_caches caches = vo_cpu_get_caches();
    assert_in_range(caches.l1d, 8 << 10, 1 << 20);
    assert_in_range(caches.l2, 64 << 10, 64 << 20);
    assert_in_range(caches.l3, caches.l2, (uint64_t)4 << 30);
    assert_in_range(vo_cpu_usable_cores(), 1, sysconf(_SC_NPROCESSORS_CONF));
}

static void siblings_count_once(void **state) {
    enum { CPUS = 12 };
    bool mask[CPUS] = {0};
    for (int i = 0; i < 8; i++) { /* 0 with 4, 1 with 5, 2 with 3, 6 with 7; 8 to 11 unknown */
        char name[128], text[32];
        snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 i);
        if (i < 2 || i == 4 || i == 5) {
            snprintf(text, sizeof text, "%d,%d\n", i % 4, i % 4 + 4);
        } else {
            snprintf(text, sizeof text, i < 4 ? "2-3\n" : "6-7\n");
        }
        scratch_write(*state, name, text);
    }
    assert_int_equal(vo_cpu_count_cores(*state, mask, CPUS), 0);
    mask[0] = mask[1] = true;
    assert_int_equal(vo_cpu_count_cores(*state, mask, CPUS), 2);
    mask[4] = true;
    assert_int_equal(vo_cpu_count_cores(*state, mask, CPUS), 2);
    mask[0] = false; /* its sibling counts now */
    assert_int_equal(vo_cpu_count_cores(*state, mask, CPUS), 2);
    mask[6] = mask[7] = true; /* one core by their range */
    assert_int_equal(vo_cpu_count_cores(*state, mask, CPUS), 3);
    mask[9] = mask[11] = true;
    assert_int_equal(vo_cpu_count_cores(*state, mask, CPUS), 5);
}

static void quota_of_version_2(void **state) {
    assert_int_equal(vo_cpu_quota_cores(*state), 0);
    scratch_write(*state, "proc/self/cgroup", "0::/a/b\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 0);
    scratch_write(*state, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 0);
    scratch_write(*state, "sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 3);
    scratch_write(*state, "sys/fs/cgroup/a/cpu.max", "200000 100000\n"); /* the parent's holds */
    assert_int_equal(vo_cpu_quota_cores(*state), 2);
    scratch_write(*state, "sys/fs/cgroup/cpu.max", "1000 100000\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 1);
    /* in a container the path may be one that is not visible there */
    scratch_write(*state, "proc/self/cgroup", "0::/elsewhere/c\n");
    scratch_write(*state, "sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 4);
}

static void quota_of_version_1(void **state) {
    scratch_write(*state, "proc/self/cgroup",
                  "9:name=systemd:/\n4:cpuset:/x\n2:cpu,cpuacct:/docker/id\n0::/\n");
    scratch_write(*state, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    scratch_write(*state, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 0);
    scratch_write(*state, "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "600001\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 7);
    scratch_write(*state, "sys/fs/cgroup/cpu,cpuacct/docker/id/cpu.cfs_quota_us", "50000\n");
    scratch_write(*state, "sys/fs/cgroup/cpu,cpuacct/docker/id/cpu.cfs_period_us", "50000\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 1);
    /* only a controller that is really called cpu */
    scratch_write(*state, "proc/self/cgroup", "2:cpuacct,cpuset:/docker/id\n");
    assert_int_equal(vo_cpu_quota_cores(*state), 0);
}

static void damaged_trees_mean_no_quota(void **state) {
    static const char *const bad[] = {"",      "\n",     "0::",         "x",
                                      "0:cpu", "::::\n", "0::/../..\n", ":cpu,:/\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        scratch_write(*state, "proc/self/cgroup", bad[i]);
        scratch_write(*state, "sys/fs/cgroup/cpu.max", "-5 0 hello\n");
        assert_int_equal(vo_cpu_quota_cores(*state), 0);
    }
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_grow),
        cmocka_unit_test(descriptions),
        cmocka_unit_test(detection_agrees_with_the_kernel),
        cmocka_unit_test(caches_and_cores_are_sensible),
        SCRATCH_TEST(siblings_count_once),
        SCRATCH_TEST(quota_of_version_2),
        SCRATCH_TEST(quota_of_version_1),
        SCRATCH_TEST(damaged_trees_mean_no_quota),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
