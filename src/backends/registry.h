/* SPDX-License-Identifier: MIT
 *
 * The one table of backends that are linked in. Only api.c (and tests) include it.
 */
#ifndef VO_BACKENDS_REGISTRY_H
#define VO_BACKENDS_REGISTRY_H

#include "tensor/backend.h"

/* Creates every backend that this build has and this machine can use. */
vo_status vo_runtime_create(int threads, uint32_t cpu_mask, vo_runtime *runtime, vo_error *err);
void vo_runtime_destroy(vo_runtime *runtime);

#endif
