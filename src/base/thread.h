/* SPDX-License-Identifier: MIT
 *
 * A thread of its own, for work that goes on beside the caller's. Computing belongs into a pool.
 */
#ifndef VO_BASE_THREAD_H
#define VO_BASE_THREAD_H

#include "base/status.h"

typedef struct vo_thread vo_thread;

/* Runs fn(arg) on a new thread that takes no signals. NULL when the system refuses (err says). */
vo_thread *vo_thread_create(void (*fn)(void *arg), void *arg, vo_error *err);
/* Waits for its end. NULL allowed. */
void vo_thread_join(vo_thread *thread);

#endif
