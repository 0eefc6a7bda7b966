/* SPDX-License-Identifier: MIT
 *
 * Counted allocations. A header of one cache line before each block keeps its size, so that
 * freeing can count without being told, and the block stays aligned.
 */
#include "base/memory.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct header {
    void *base; /* what the system gave */
    size_t bytes;
    char pad[VO_ALIGN - sizeof(void *) - sizeof(size_t)];
} header;

_Static_assert(sizeof(header) == VO_ALIGN, "the header must keep the alignment");

static atomic_size_t active_bytes, peak_bytes;
static _Atomic uint64_t allocations;

static void count_in(size_t bytes) {
    size_t now = atomic_fetch_add_explicit(&active_bytes, bytes, memory_order_relaxed) + bytes;
    size_t peak = atomic_load_explicit(&peak_bytes, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak_explicit(
                             &peak_bytes, &peak, now, memory_order_relaxed, memory_order_relaxed)) {
    }
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

static _Atomic int64_t until_failure = -1; /* allocations before the one that fails */
static atomic_bool fails_for_ever, has_failed;

bool vo_memory_fail_after(int64_t after, bool for_ever) {
    atomic_store(&fails_for_ever, for_ever);
    atomic_store(&until_failure, after);
    return atomic_exchange(&has_failed, false);
}

static bool must_fail(void) {
    if (atomic_load_explicit(&until_failure, memory_order_relaxed) < 0) return false;
    if (atomic_fetch_sub(&until_failure, 1) != 0) return false;
    if (atomic_load(&fails_for_ever)) atomic_store(&until_failure, 0);
    atomic_store(&has_failed, true);
    return true;
}

static void *allocate(size_t bytes, bool zero) {
    if (bytes > PTRDIFF_MAX - 2 * VO_ALIGN || must_fail()) return NULL;
    /* Fresh pages from the system are zero already: calloc knows, and does not touch them. */
    bool fresh = zero && bytes >= (size_t)1 << 17;
    void *base = NULL;
    char *start;
    if (fresh) {
        base = calloc(1, bytes + 2 * VO_ALIGN);
        if (base == NULL) return NULL;
        start = (char *)base + (VO_ALIGN - (uintptr_t)base % VO_ALIGN) % VO_ALIGN;
    } else {
        if (posix_memalign(&base, VO_ALIGN, bytes + VO_ALIGN) != 0) return NULL;
        start = base;
    }
    header *h = (header *)(void *)start;
    h->base = base;
    h->bytes = bytes;
    if (zero && !fresh) memset(start + VO_ALIGN, 0, bytes);
    count_in(bytes);
    return start + VO_ALIGN;
}

static header *header_of(void *ptr) {
    return (header *)(void *)((char *)ptr - VO_ALIGN);
}

void *vo_alloc(size_t bytes) {
    return allocate(bytes, true);
}

void *vo_alloc_uninitialized(size_t bytes) {
    return allocate(bytes, false);
}

void *vo_alloc_array(size_t count, size_t size) {
    size_t bytes;
    return vo_mul_size(count, size, &bytes) ? allocate(bytes, true) : NULL;
}

void *vo_realloc(void *ptr, size_t bytes) {
    void *fresh = allocate(bytes, false);
    if (fresh == NULL || ptr == NULL) return fresh;
    size_t old = header_of(ptr)->bytes;
    memcpy(fresh, ptr, old < bytes ? old : bytes);
    vo_free(ptr);
    return fresh;
}

void vo_free(void *ptr) {
    if (ptr == NULL) return;
    header *h = header_of(ptr);
    atomic_fetch_sub_explicit(&active_bytes, h->bytes, memory_order_relaxed);
    free(h->base);
}

bool vo_count_elements(const int64_t *dims, int n, int64_t *out) {
    int64_t product = 1;
    for (int i = 0; i < n; i++) {
        if (dims[i] < 0 || __builtin_mul_overflow(product, dims[i], &product)) return false;
    }
    *out = product;
    return true;
}

char *vo_strndup(const char *s, size_t n) {
    n = strnlen(s, n);
    char *copy = vo_alloc_uninitialized(n + 1);
    if (copy == NULL) return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

char *vo_strdup(const char *s) {
    return vo_strndup(s, strlen(s));
}

char *vo_format(const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    char *text = NULL;
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n >= 0) text = vo_alloc_uninitialized((size_t)n + 1);
    if (text != NULL) vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(args);
    return text;
}

vo_memory_stats vo_memory_get_stats(void) {
    vo_memory_stats stats = {
        .active_bytes = atomic_load_explicit(&active_bytes, memory_order_relaxed),
        .peak_bytes = atomic_load_explicit(&peak_bytes, memory_order_relaxed),
        .allocations = atomic_load_explicit(&allocations, memory_order_relaxed),
    };
    return stats;
}

void vo_memory_reset_peak(void) {
    atomic_store_explicit(&peak_bytes, atomic_load_explicit(&active_bytes, memory_order_relaxed),
                          memory_order_relaxed);
}

/* The content of an arena block follows it, VO_ALIGN bytes after its start. */
typedef struct block {
    struct block *next; /* older */
    size_t used, capacity;
} block;

struct vo_arena {
    block *newest;
    size_t next_bytes;
};

_Static_assert(sizeof(block) <= VO_ALIGN, "a block's content starts after its header");

vo_arena *vo_arena_create(size_t first_block_bytes) {
    vo_arena *arena = vo_alloc(sizeof *arena);
    if (arena != NULL) arena->next_bytes = first_block_bytes < 256 ? 256 : first_block_bytes;
    return arena;
}

static bool arena_grow(vo_arena *arena, size_t bytes) {
    size_t capacity = arena->next_bytes > bytes ? arena->next_bytes : bytes, total;
    if (!vo_add_size(capacity, VO_ALIGN, &total)) return false;
    block *b = vo_alloc_uninitialized(total);
    if (b == NULL) return false;
    b->next = arena->newest;
    b->used = 0;
    b->capacity = capacity;
    arena->newest = b;
    if (arena->next_bytes < (size_t)1 << 26) arena->next_bytes *= 2;
    return true;
}

void *vo_arena_alloc(vo_arena *arena, size_t bytes) {
    size_t need;
    if (!vo_add_size(bytes, 15, &need)) return NULL;
    need &= ~(size_t)15;
    if (arena->newest == NULL || arena->newest->capacity - arena->newest->used < need) {
        if (!arena_grow(arena, need)) return NULL;
    }
    block *b = arena->newest;
    char *ptr = (char *)b + VO_ALIGN + b->used;
    b->used += need < b->capacity - b->used ? need : b->capacity - b->used;
    memset(ptr, 0, bytes);
    return ptr;
}

char *vo_arena_strdup(vo_arena *arena, const char *s) {
    size_t n = strlen(s);
    char *copy = vo_arena_alloc(arena, n + 1);
    if (copy != NULL) memcpy(copy, s, n);
    return copy;
}

void vo_arena_reset(vo_arena *arena) {
    block *largest = arena->newest;
    for (block *b = arena->newest; b != NULL; b = b->next) {
        if (b->capacity > largest->capacity) largest = b;
    }
    for (block *b = arena->newest; b != NULL;) {
        block *next = b->next;
        if (b != largest) vo_free(b);
        b = next;
    }
    if (largest != NULL) {
        largest->next = NULL;
        largest->used = 0;
    }
    arena->newest = largest;
}

void vo_arena_destroy(vo_arena *arena) {
    if (arena == NULL) return;
    for (block *b = arena->newest; b != NULL;) {
        block *next = b->next;
        vo_free(b);
        b = next;
    }
    vo_free(arena);
}

/* Room for `bytes` more and a NUL. */
static bool buf_reserve(vo_buf *buf, size_t bytes) {
    size_t need;
    if (buf->failed) return false;
    if (!vo_add_size(buf->size, bytes, &need) || !vo_add_size(need, 1, &need)) goto fail;
    if (need <= buf->capacity) return true;
    size_t capacity = buf->capacity < 64 ? 64 : buf->capacity;
    while (capacity < need) {
        if (!vo_mul_size(capacity, 2, &capacity)) goto fail;
    }
    char *data = vo_realloc(buf->data, capacity);
    if (data == NULL) goto fail;
    buf->data = data;
    buf->capacity = capacity;
    return true;
fail:
    buf->failed = true;
    return false;
}

void vo_buf_append(vo_buf *buf, const void *data, size_t bytes) {
    if (!buf_reserve(buf, bytes)) return;
    if (bytes > 0) memcpy(buf->data + buf->size, data, bytes);
    buf->size += bytes;
    buf->data[buf->size] = '\0';
}

void vo_buf_puts(vo_buf *buf, const char *s) {
    vo_buf_append(buf, s, strlen(s));
}

void vo_buf_printf(vo_buf *buf, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0) {
        buf->failed = true;
    } else if (buf_reserve(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->size, (size_t)n + 1, fmt, again);
        buf->size += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void vo_buf_clear(vo_buf *buf) {
    buf->size = 0;
    if (buf->data != NULL) buf->data[0] = '\0';
}

void vo_buf_free(vo_buf *buf) {
    vo_free(buf->data);
    *buf = (vo_buf){0};
}
