/* SPDX-License-Identifier: MIT
 *
 * Two counters that only grow: what was written and what was read. Each side writes its own and
 * reads the other's, so that acquire and release order the samples between them.
 */
#include "audio/ring.h"

#include "base/memory.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>

struct vo_ring {
    float *data;
    uint64_t size; /* a power of two */
    alignas(VO_ALIGN) _Atomic uint64_t written;
    alignas(VO_ALIGN) _Atomic uint64_t read;
    alignas(VO_ALIGN) _Atomic int64_t lost;
};

vo_ring *vo_ring_create(int64_t samples, vo_error *err) {
    uint64_t size = 1;
    while (samples > 0 && size < (uint64_t)samples && size < (uint64_t)1 << 40) size *= 2;
    vo_ring *r = samples > 0 ? vo_alloc(sizeof *r) : NULL;
    if (r) r->data = vo_alloc_array((size_t)size, sizeof *r->data);
    if (!r || !r->data) {
        vo_ring_destroy(r);
        vo_fail(err, VO_ERR_MEMORY, "no memory for %lld samples", (long long)samples);
        return NULL;
    }
    r->size = size;
    return r;
}

void vo_ring_destroy(vo_ring *r) {
    if (!r) return;
    vo_free(r->data);
    vo_free(r);
}

int64_t vo_ring_write(vo_ring *r, const float *samples, int64_t n) {
    if (n <= 0) return 0;
    const uint64_t at = atomic_load_explicit(&r->written, memory_order_relaxed);
    const uint64_t room = r->size - (at - atomic_load_explicit(&r->read, memory_order_acquire));
    const uint64_t take = (uint64_t)n < room ? (uint64_t)n : room;
    const uint64_t from = at & (r->size - 1);
    const uint64_t first = take < r->size - from ? take : r->size - from;
    memcpy(r->data + from, samples, first * sizeof *samples);
    memcpy(r->data, samples + first, (take - first) * sizeof *samples);
    atomic_store_explicit(&r->written, at + take, memory_order_release);
    if (take < (uint64_t)n)
        atomic_fetch_add_explicit(&r->lost, n - (int64_t)take, memory_order_relaxed);
    return (int64_t)take;
}

int64_t vo_ring_read(vo_ring *r, float *samples, int64_t n) {
    if (n <= 0) return 0;
    const uint64_t at = atomic_load_explicit(&r->read, memory_order_relaxed);
    const uint64_t have = atomic_load_explicit(&r->written, memory_order_acquire) - at;
    const uint64_t take = (uint64_t)n < have ? (uint64_t)n : have;
    const uint64_t from = at & (r->size - 1);
    const uint64_t first = take < r->size - from ? take : r->size - from;
    memcpy(samples, r->data + from, first * sizeof *samples);
    memcpy(samples + first, r->data, (take - first) * sizeof *samples);
    atomic_store_explicit(&r->read, at + take, memory_order_release);
    return (int64_t)take;
}

int64_t vo_ring_lost(const vo_ring *r) {
    return atomic_load_explicit(&r->lost, memory_order_relaxed);
}
