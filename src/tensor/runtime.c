/* SPDX-License-Identifier: MIT */
#include "tensor/backend.h"

vo_status vo_runtime_share(const vo_runtime *runtime, vo_pool *pool, vo_runtime *shared,
                           vo_error *err) {
    vo_status status = VO_OK;
    *shared = (vo_runtime){{0}};
    for (int s = 0; status == VO_OK && s < VO_STREAM_COUNT; s++) {
        vo_backend *backend = runtime->streams[s];
        if (backend) status = backend->vtable->share(backend, pool, &shared->streams[s], err);
    }
    if (status != VO_OK) vo_runtime_destroy(shared);
    return status;
}

void vo_runtime_destroy(vo_runtime *runtime) {
    for (int s = 0; s < VO_STREAM_COUNT; s++)
        if (runtime->streams[s]) runtime->streams[s]->vtable->destroy(runtime->streams[s]);
    *runtime = (vo_runtime){{0}};
}
