/* SPDX-License-Identifier: MIT
 *
 * malloc, calloc, realloc and the aligned ones over glibc's own entry points, counted.
 */
#include "tensor/support_count.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#if defined(__GLIBC__) && !defined(SANITIZED)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long calls;

void *malloc(size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}

bool heap_is_counted(void) {
    return true;
}
long heap_calls(void) {
    return atomic_load(&calls);
}

#else

bool heap_is_counted(void) {
    return false;
}
long heap_calls(void) {
    return 0;
}

#endif
