/* SPDX-License-Identifier: MIT
 *
 * Memory: counted, cache-line aligned allocations with checked sizes, and an arena for
 * many small things that die together. All functions are thread safe except those of an
 * arena, which belongs to one thread at a time.
 */
#ifndef VO_BASE_MEMORY_H
#define VO_BASE_MEMORY_H

#include "base/status.h"

#define VO_ALIGN 64 /* every vo_alloc pointer is a multiple of this many bytes */

/* a * b and a + b with overflow reported as false. */
static inline bool vo_mul_size(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool vo_add_size(size_t a, size_t b, size_t *out) {
    return !__builtin_add_overflow(a, b, out);
}
/* Product of n non-negative dimensions; false on overflow of int64 or a negative one. */
bool vo_count_elements(const int64_t *dims, int n, int64_t *out);

/* `bytes` zeroed bytes, aligned to VO_ALIGN; NULL when memory is short. vo_alloc(0) gives a
 * valid pointer. Free with vo_free (NULL allowed). */
void *vo_alloc(size_t bytes);
/* The same without the zeroing, for buffers that are written before they are read. */
void *vo_alloc_uninitialized(size_t bytes);
/* count * size zeroed bytes, NULL also on overflow. */
void *vo_alloc_array(size_t count, size_t size);
/* Grows or shrinks; new bytes are not zeroed. On failure returns NULL, the old block lives. */
void *vo_realloc(void *ptr, size_t bytes);
void vo_free(void *ptr);
char *vo_strdup(const char *s);
char *vo_strndup(const char *s, size_t n);
/* printf into fresh memory; NULL when memory is short. Free with vo_free. */
char *vo_format(const char *fmt, ...) VO_PRINTF(1, 2);

/* What vo_alloc has handed out, process-wide. */
typedef struct vo_memory_stats {
    size_t active_bytes;  /* allocated and not yet freed */
    size_t peak_bytes;    /* largest active_bytes since the start or the last reset */
    uint64_t allocations; /* number of allocations so far: constant while decoding */
} vo_memory_stats;
vo_memory_stats vo_memory_get_stats(void);
void vo_memory_reset_peak(void);
/* For tests: the next `after` allocations succeed, then one fails, or with `for_ever` all do.
 * Negative: none fails. Returns whether one has failed since the last call. Process-wide. */
bool vo_memory_fail_after(int64_t after, bool for_ever);

/* Arena: bump allocation in growing blocks, all freed at once. */
typedef struct vo_arena vo_arena;
vo_arena *vo_arena_create(size_t first_block_bytes);
void *vo_arena_alloc(vo_arena *arena, size_t bytes); /* zeroed, 16-byte aligned, or NULL */
char *vo_arena_strdup(vo_arena *arena, const char *s);
void vo_arena_reset(vo_arena *arena); /* forgets the content, keeps the largest block */
void vo_arena_destroy(vo_arena *arena);

/* A growing byte string, always NUL-terminated once something was appended. Zero-initialise.
 * Out of memory sets `failed` and makes later appends no-ops, so one check at the end does. */
typedef struct vo_buf {
    char *data;
    size_t size, capacity;
    bool failed;
} vo_buf;
void vo_buf_append(vo_buf *buf, const void *data, size_t bytes);
void vo_buf_puts(vo_buf *buf, const char *s);
void vo_buf_printf(vo_buf *buf, const char *fmt, ...) VO_PRINTF(2, 3);
void vo_buf_clear(vo_buf *buf); /* size 0, memory kept */
void vo_buf_free(vo_buf *buf);

#endif
