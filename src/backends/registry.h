/* SPDX-License-Identifier: MIT
 *
 * The one table of backends that are linked in. Only api.c (and tests) include it.
 */
#ifndef VO_BACKENDS_REGISTRY_H
#define VO_BACKENDS_REGISTRY_H

#include "base/pool.h"
#include "kernels/kernels.h"
#include "tensor/backend.h"

/* Creates every backend that this build has and this machine can use. The pool must outlive it. */
vo_status vo_runtime_create(const vo_kernels *kernels, vo_pool *pool, vo_runtime *runtime,
                            vo_error *err);

#endif
