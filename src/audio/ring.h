/* SPDX-License-Identifier: MIT
 *
 * Samples from one thread to another without a lock, so that the writer may be the callback of a
 * sound device. One writer, one reader.
 */
#ifndef VO_AUDIO_RING_H
#define VO_AUDIO_RING_H

#include "base/status.h"

typedef struct vo_ring vo_ring;

/* Room for at least `samples`; NULL when memory is short (err says). */
vo_ring *vo_ring_create(int64_t samples, vo_error *err);
void vo_ring_destroy(vo_ring *ring); /* NULL allowed */

/* Writer: never waits. What finds no room is counted as lost and dropped: samples that are there
 * stay in order. Returns how many were taken. */
int64_t vo_ring_write(vo_ring *ring, const float *samples, int64_t n);
/* Reader: at most n samples; returns how many. */
int64_t vo_ring_read(vo_ring *ring, float *samples, int64_t n);
/* Samples lost so far. Any thread. */
int64_t vo_ring_lost(const vo_ring *ring);

#endif
