/* SPDX-License-Identifier: MIT */
#include "kernels/support_drivers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

vo_pool *drivers_pools[DRIVERS_POOLS];
static check_level levels[8];
static int n_levels;

int drivers_set_up(void **state) {
    static const int threads[DRIVERS_POOLS] = {1, 2, 3, 7};
    (void)state;
    vo_error err = {0};
    check_seed(20240607);
    n_levels = check_levels(NULL, levels, &err);
    if (n_levels < 1 || !check_slots_open()) return -1;
    for (int i = 0; i < DRIVERS_POOLS; i++)
        if (!(drivers_pools[i] = vo_pool_create(threads[i], &err))) return -1;
    check_catch_crashes();
    return 0;
}

int drivers_tear_down(void **state) {
    (void)state;
    for (int i = 0; i < DRIVERS_POOLS; i++) vo_pool_destroy(drivers_pools[i]);
    return 0;
}

void drivers_at_all_levels(const char *name, void (*run)(const vo_kernels *kernels)) {
    check.failures = 0;
    check.kernel = name;
    for (int i = 0; i < n_levels; i++) {
        check.level = levels[i].name;
        run(&levels[i].kernels);
    }
    assert_int_equal(check.failures, 0);
}

void *drivers_workspace(size_t bytes) {
    return check_floats(CHECK_SLOTS - 1, (int64_t)((bytes + 3) / 4));
}
