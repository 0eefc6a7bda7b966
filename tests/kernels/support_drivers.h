/* SPDX-License-Identifier: MIT
 *
 * What tests of the drivers in backends/cpu share: pools of several sizes, and every level of this
 * machine in turn.
 */
#ifndef VO_TESTS_KERNELS_SUPPORT_DRIVERS_H
#define VO_TESTS_KERNELS_SUPPORT_DRIVERS_H

#include "base/pool.h"
#include "kernels/support_check.h"

enum { DRIVERS_POOLS = 4 };
extern vo_pool *drivers_pools[DRIVERS_POOLS]; /* of 1, 2, 3 and 7 threads */

/* Group fixtures of cmocka. */
int drivers_set_up(void **state);
int drivers_tear_down(void **state);

/* Runs one case at every level; cmocka hears of failures here, once. */
void drivers_at_all_levels(const char *name, void (*run)(const vo_kernels *kernels));
/* Memory that ends at an unmapped page, in the last slot of support_check. */
void *drivers_workspace(size_t bytes);

#endif
