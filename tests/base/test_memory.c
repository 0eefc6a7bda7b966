/* SPDX-License-Identifier: MIT
 *
 * Alignment, zeroing, counting and refusal of absurd sizes; arenas and growing strings.
 */
#include "base/harness.h"
#include "base/memory.h"
#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

static bool all_zero(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (p[i] != 0) return false;
    }
    return true;
}

static void blocks_are_aligned_and_zero(void **state) {
    const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 100000, 1 << 20, (5 << 20) + 3};
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            char *p = vo_alloc(sizes[i]);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p % VO_ALIGN, 0);
            assert_true(all_zero(p, sizes[i]));
            memset(p, 0xa5, sizes[i]); /* so that the next round finds used memory */
            vo_free(p);
        }
    }
    vo_free(NULL);
}

static void absurd_sizes_give_null(void **state) {
    vo_memory_stats before = vo_memory_get_stats();
    assert_null(vo_alloc(SIZE_MAX));
    assert_null(vo_alloc(SIZE_MAX - 64));
    assert_null(vo_alloc_uninitialized(PTRDIFF_MAX));
    assert_null(vo_alloc_array(SIZE_MAX / 2, 3));
    char *p = vo_alloc(10);
    assert_non_null(p);
    memcpy(p, "remains", 8);
    assert_null(vo_realloc(p, SIZE_MAX));
    assert_string_equal(p, "remains");
    vo_free(p);
    assert_int_equal(vo_memory_get_stats().active_bytes, before.active_bytes);
}

static void counters_follow(void **state) {
    vo_memory_stats before = vo_memory_get_stats();
    vo_memory_reset_peak();
    char *a = vo_alloc(1000), *b = vo_alloc_array(10, 50);
    vo_memory_stats during = vo_memory_get_stats();
    assert_int_equal(during.active_bytes - before.active_bytes, 1500);
    assert_int_equal(during.allocations - before.allocations, 2);
    a = vo_realloc(a, 3000);
    assert_non_null(a);
    vo_free(a);
    vo_free(b);
    vo_memory_stats after = vo_memory_get_stats();
    assert_int_equal(after.active_bytes, before.active_bytes);
    assert_in_range(after.peak_bytes - before.active_bytes, 3500, 4500);
    vo_memory_reset_peak();
    assert_int_equal(vo_memory_get_stats().peak_bytes, before.active_bytes);
}

static void allocations_fail_when_told(void **state) {
    char *p = vo_alloc(8);
    vo_memory_fail_after(1, false);
    p = vo_realloc(p, 16); /* the one that succeeds */
    assert_non_null(p);
    assert_null(vo_realloc(p, 32));
    char *q = vo_alloc(8);
    assert_non_null(q);
    vo_free(q);
    vo_memory_fail_after(0, true);
    assert_null(vo_alloc(1));
    assert_null(vo_alloc_array(1, 1));
    assert_true(vo_memory_fail_after(-1, false));
    assert_false(vo_memory_fail_after(-1, false));
    q = vo_alloc(1);
    assert_non_null(q);
    vo_free(q);
    vo_free(p);
}

static void churn(void *arg, int64_t tile, int thread) {
    for (size_t i = 1; i < 50; i++) vo_free(vo_alloc(i * (size_t)(tile + 1)));
}

static void counters_hold_with_threads(void **state) {
    vo_error err = {0};
    vo_pool *pool = vo_pool_create(4, &err);
    assert_non_null(pool);
    vo_memory_stats before = vo_memory_get_stats();
    vo_pool_run(pool, 100, churn, NULL);
    vo_memory_stats after = vo_memory_get_stats();
    assert_int_equal(after.active_bytes, before.active_bytes);
    assert_int_equal(after.allocations - before.allocations, 4900);
    vo_pool_destroy(pool);
}

static void realloc_keeps_content(void **state) {
    unsigned char *p = vo_realloc(NULL, 1);
    assert_non_null(p);
    p[0] = 0;
    for (size_t n = 1; n < 3000000; n = n * 3 + 1) {
        size_t bigger = n * 3 + 1;
        p = vo_realloc(p, bigger);
        assert_non_null(p);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], i % 251);
        for (size_t i = n; i < bigger; i++) p[i] = (unsigned char)(i % 251);
    }
    p = vo_realloc(p, 7);
    for (size_t i = 0; i < 7; i++) assert_int_equal(p[i], i);
    vo_free(p);
}

static void counting_elements_is_checked(void **state) {
    int64_t n = -1;
    assert_true(vo_count_elements((int64_t[]){2, 3, 4}, 3, &n));
    assert_int_equal(n, 24);
    assert_true(vo_count_elements(NULL, 0, &n));
    assert_int_equal(n, 1);
    assert_true(vo_count_elements((int64_t[]){5, 0}, 2, &n));
    assert_int_equal(n, 0);
    assert_false(vo_count_elements((int64_t[]){5, -1}, 2, &n));
    assert_false(vo_count_elements((int64_t[]){INT64_MAX, 2}, 2, &n));
    assert_false(vo_count_elements((int64_t[]){1LL << 32, 1LL << 31}, 2, &n));
    assert_true(vo_count_elements((int64_t[]){1LL << 32, 1LL << 30}, 2, &n));
}

static void strings(void **state) {
    char *a = vo_strdup("abc"), *b = vo_strndup("abcdef", 2), *c = vo_strndup("ab", 9);
    char *d = vo_format("%s-%d", "x", 12);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_string_equal(c, "ab");
    assert_string_equal(d, "x-12");
    vo_free(a);
    vo_free(b);
    vo_free(c);
    vo_free(d);
}

static void arena_gives_separate_zeroed_pieces(void **state) {
    enum { PIECES = 2000 };
    static unsigned char *pieces[PIECES];
    static size_t sizes[PIECES];
    vo_memory_stats before = vo_memory_get_stats();
    vo_arena *arena = vo_arena_create(100);
    assert_non_null(arena);
    uint64_t seed = 1;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PIECES; i++) {
            sizes[i] = next_random(&seed) % (i % 100 == 0 ? 20000 : 90);
            pieces[i] = vo_arena_alloc(arena, sizes[i]);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t)pieces[i] % 16, 0);
            assert_true(all_zero((char *)pieces[i], sizes[i]));
            memset(pieces[i], i % 255 + 1, sizes[i]);
        }
        for (int i = 0; i < PIECES; i++) {
            for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(pieces[i][j], i % 255 + 1);
        }
        vo_arena_reset(arena);
    }
    uint64_t count = vo_memory_get_stats().allocations;
    assert_non_null(vo_arena_alloc(arena, 10000)); /* from the block that was kept */
    assert_int_equal(vo_memory_get_stats().allocations, count);
    assert_string_equal(vo_arena_strdup(arena, "hello"), "hello");
    assert_null(vo_arena_alloc(arena, SIZE_MAX));
    assert_null(vo_arena_alloc(arena, SIZE_MAX - 15));
    assert_null(vo_arena_alloc(arena, SIZE_MAX / 2));
    vo_arena_destroy(arena);
    vo_arena_destroy(NULL);
    assert_int_equal(vo_memory_get_stats().active_bytes, before.active_bytes);
}

static void buffer_grows(void **state) {
    vo_buf buf = {0};
    vo_buf_clear(&buf);
    for (int i = 0; i < 1000; i++) vo_buf_printf(&buf, "%d,", i % 10);
    vo_buf_puts(&buf, "end");
    vo_buf_append(&buf, NULL, 0);
    assert_false(buf.failed);
    assert_int_equal(buf.size, 2003);
    assert_int_equal(buf.data[2003], '\0');
    assert_memory_equal(buf.data, "0,1,2,", 6);
    assert_string_equal(buf.data + 2000, "end");
    vo_buf_clear(&buf);
    assert_int_equal(buf.size, 0);
    assert_string_equal(buf.data, "");
    vo_buf_append(&buf, "a", SIZE_MAX); /* refused before a byte is read */
    assert_true(buf.failed);
    vo_buf_puts(&buf, "x");
    assert_int_equal(buf.size, 0);
    vo_buf_free(&buf);
    assert_null(buf.data);
    assert_false(buf.failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_zero),
        cmocka_unit_test(absurd_sizes_give_null),
        cmocka_unit_test(counters_follow),
        cmocka_unit_test(allocations_fail_when_told),
        cmocka_unit_test(counters_hold_with_threads),
        cmocka_unit_test(realloc_keeps_content),
        cmocka_unit_test(counting_elements_is_checked),
        cmocka_unit_test(strings),
        cmocka_unit_test(arena_gives_separate_zeroed_pieces),
        cmocka_unit_test(buffer_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
