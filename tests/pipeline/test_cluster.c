/* SPDX-License-Identifier: MIT
 *
 * Clusters of made-up directions: as many as there are, or as many as are asked for; numbered by
 * first appearance; the same in blocks; and nothing is kept when memory is short.
 */
#include "pipeline/cluster.h"

#include "base/memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { D = 24 };

static const vo_cluster_rules rules = {0.15, 0.5, 0, 0};

/* [n][D]: point i lies around axis group[i], at a distance that `spread` sets. */
static float *points(const int *group, int n, float spread) {
    float *p = vo_alloc_array((size_t)n * D, sizeof *p);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < D; k++) {
            float *x = &p[i * D + k];
            *x = (float)(k == group[i]) + spread * ((float)rand() / (float)RAND_MAX - 0.5f);
            sum += (double)(*x * *x);
        }
        for (int k = 0; k < D; k++) p[i * D + k] /= (float)sqrt(sum);
    }
    return p;
}

static int cluster(float *p, int n, vo_cluster_rules r, int *labels) {
    vo_error err = {0};
    int groups = -1;
    assert_int_equal(vo_cluster(p, n, D, &r, labels, &groups, &err), VO_OK);
    return groups;
}

static void test_few(void **state) {
    int labels[2] = {7, 7};
    float one[2 * D] = {1};
    assert_int_equal(cluster(NULL, 0, rules, labels), 0);
    assert_int_equal(cluster(one, 1, rules, labels), 1);
    assert_int_equal(labels[0], 0);
    float two[2 * D] = {1};
    two[D + 1] = 1; /* at right angles: the distance is 1 */
    assert_int_equal(cluster(two, 2, rules, labels), 2);
    assert_int_equal(labels[1], 1);
    float silence[2 * D] = {1}; /* a vector of length 0 is like nothing */
    assert_int_equal(cluster(silence, 2, rules, labels), 2);
}

/* Two points are one below 0.15 + 0.5; two groups of ten below 0.15 + 0.05. */
static void test_the_limit_depends_on_the_count(void **state) {
    for (int n = 1; n <= 10; n += 9)
        for (int near = 0; near < 2; near++) {
            const double distance = 0.15 + 0.5 / n + (near ? -0.02 : 0.02);
            float p[20 * D] = {0};
            int labels[20];
            for (int i = 0; i < 2 * n; i++) {
                p[i * D] = i < n ? 1 : (float)(1 - distance);
                p[i * D + 1] = i < n ? 0 : (float)sqrt(1 - (1 - distance) * (1 - distance));
            }
            assert_int_equal(cluster(p, 2 * n, rules, labels), near ? 1 : 2);
        }
}

static void test_groups_are_found(void **state) {
    enum { N = 200 };
    int group[N], labels[N];
    srand(1);
    for (int groups = 1; groups <= 6; groups++) {
        for (int i = 0; i < N; i++) group[i] = i < groups ? groups - 1 - i : rand() % groups;
        float *p = points(group, N, 0.3f);
        assert_int_equal(cluster(p, N, rules, labels), groups);
        /* The first points have the groups in descending order. */
        for (int i = 0; i < N; i++) assert_int_equal(labels[i], groups - 1 - group[i]);
        vo_free(p);
    }
}

static void test_counts_that_are_asked_for(void **state) {
    enum { N = 60 };
    int group[N], labels[N];
    srand(2);
    for (int i = 0; i < N; i++) group[i] = i % 4;
    for (int want = 1; want <= 8; want++) {
        float *p = points(group, N, 0.3f);
        assert_int_equal(cluster(p, N, (vo_cluster_rules){0.15, 0.5, want, want}, labels), want);
        vo_free(p);
        p = points(group, N, 0.3f);
        const int at_most = cluster(p, N, (vo_cluster_rules){0.15, 0.5, 0, want}, labels);
        assert_int_equal(at_most, want < 4 ? want : 4);
        vo_free(p);
        p = points(group, N, 0.3f);
        const int at_least = cluster(p, N, (vo_cluster_rules){0.15, 0.5, want, 0}, labels);
        assert_int_equal(at_least, want > 4 ? want : 4);
        vo_free(p);
    }
}

/* More than are compared at once; the third group comes in the last block only. */
static void test_blocks(void **state) {
    enum { N = 2 * VO_CLUSTER_LIMIT + 100 };
    int *group = vo_alloc_array(N, sizeof *group), *labels = vo_alloc_array(N, sizeof *labels);
    srand(3);
    for (int i = 0; i < N; i++) group[i] = i < 2 * VO_CLUSTER_LIMIT ? i % 2 : 2;
    float *p = points(group, N, 0.3f);
    assert_int_equal(cluster(p, N, rules, labels), 3);
    for (int i = 0; i < N; i++) assert_int_equal(labels[i], group[i]);
    vo_free(p);
    vo_free(group);
    vo_free(labels);
}

static void test_no_memory(void **state) {
    enum { N = 8 };
    const int group[N] = {0, 1, 0, 1, 0, 1, 0, 1};
    int labels[N], groups, failures = 0;
    for (int after = 0;; after++) {
        vo_error err = {0};
        float *p = points(group, N, 0.1f);
        const size_t before = vo_memory_get_stats().active_bytes;
        vo_memory_fail_after(after, false);
        const vo_status status = vo_cluster(p, N, D, &rules, labels, &groups, &err);
        const bool failed = vo_memory_fail_after(-1, false);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
        vo_free(p);
        assert_int_equal(status, failed ? VO_ERR_MEMORY : VO_OK);
        if (!failed) break;
        failures++;
    }
    assert_int_equal(failures, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_the_limit_depends_on_the_count),
        cmocka_unit_test(test_groups_are_found),
        cmocka_unit_test(test_counts_that_are_asked_for),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
