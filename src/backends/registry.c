/* SPDX-License-Identifier: MIT
 *
 * The one table of backends that are linked in.
 */
#include "backends/registry.h"

#include "backends/cpu/cpu.h"

vo_status vo_runtime_create(const vo_kernels *kernels, vo_pool *pool, vo_runtime *runtime,
                            vo_error *err) {
    *runtime = (vo_runtime){{0}};
    return vo_cpu_backend_create(kernels, pool, &runtime->streams[VO_STREAM_CPU], err);
}
