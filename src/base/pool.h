/* SPDX-License-Identifier: MIT
 *
 * A persistent thread pool with one verb: run a function over tiles 0..n-1. The calling
 * thread works too, so a pool of 1 has no threads at all. Waiting threads spin for some
 * microseconds, then sleep. The order in which tiles run never changes a result: a tile
 * owns its output.
 */
#ifndef VO_BASE_POOL_H
#define VO_BASE_POOL_H

#include "base/status.h"

typedef struct vo_pool vo_pool;

/* One tile of work. `thread` is 0..threads-1 and can index per-thread scratch. */
typedef void (*vo_tile_fn)(void *arg, int64_t tile, int thread);

/* threads <= 0 means vo_cpu_usable_cores(); at most 256. NULL when threads or memory are short
 * (err says). */
vo_pool *vo_pool_create(int threads, vo_error *err);
int vo_pool_threads(const vo_pool *pool);

/* Runs fn for every tile and returns when all are done; allocates nothing. One caller at a
 * time: calls from several threads queue behind each other. A call from inside a tile of
 * this pool runs its tiles inline, on the same `thread`. Two pools must not wait for each other
 * across threads: a tile of A may run B, if no other thread's tile of B runs A. */
void vo_pool_run(vo_pool *pool, int64_t tiles, vo_tile_fn fn, void *arg);
/* A pool of NULL is the calling thread alone, as thread 0: for work inside a tile that is not to be
 * split. */
void vo_pool_destroy(vo_pool *pool);

/* A mutex, for what several threads share outside a pool. */
typedef struct vo_mutex vo_mutex;
vo_mutex *vo_mutex_create(void);
void vo_mutex_lock(vo_mutex *mutex);
void vo_mutex_unlock(vo_mutex *mutex);
/* By its owner: gives it away until it is woken, or so many seconds are over, or for no reason. */
void vo_mutex_wait(vo_mutex *mutex, double seconds);
void vo_mutex_wake(vo_mutex *mutex); /* all who wait */
void vo_mutex_destroy(vo_mutex *mutex);

#endif
