/* SPDX-License-Identifier: MIT
 *
 * Memory planning by itself: blocks in use together never overlap, gaps are filled, and sizes
 * that overflow are refused.
 */
#include "tensor/place.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void test_random_blocks(void **state) {
    (void)state;
    enum { N = 60 };
    uint32_t seed = 7;
    for (int round = 0; round < 200; round++) {
        vo_block blocks[N];
        size_t offsets[N], total, sum = 0, largest = 0;
        for (int i = 0; i < N; i++) {
            int begin = (int)(next(&seed) % 50);
            blocks[i] = (vo_block){64 * (1 + next(&seed) % 9), begin,
                                   begin + (int)(next(&seed) % 8), &offsets[i]};
            sum += blocks[i].bytes;
        }
        assert_int_equal(vo_place_blocks(blocks, N, &total, NULL), VO_OK);
        for (int i = 0; i < N; i++) {
            if (*blocks[i].offset + blocks[i].bytes > largest)
                largest = *blocks[i].offset + blocks[i].bytes;
            for (int j = 0; j < i; j++) {
                bool together =
                    blocks[i].begin <= blocks[j].end && blocks[j].begin <= blocks[i].end;
                bool overlap = *blocks[i].offset < *blocks[j].offset + blocks[j].bytes &&
                               *blocks[j].offset < *blocks[i].offset + blocks[i].bytes;
                assert_false(together && overlap);
            }
        }
        assert_int_equal(total, largest);
        assert_true(total < sum / 2);
    }
}

static void test_gap_is_filled(void **state) {
    (void)state;
    size_t a, b, c, total;
    /* a and b take turns; c lives beside both: 128 + 64, not 128 + 128 + 64. */
    vo_block blocks[] = {{64, 0, 9, &c}, {128, 0, 4, &a}, {128, 5, 9, &b}};
    assert_int_equal(vo_place_blocks(blocks, 3, &total, NULL), VO_OK);
    assert_int_equal(total, 192);
    assert_int_equal(a, b);
}

static void test_overflow(void **state) {
    (void)state;
    size_t a, b, total;
    vo_error err = {0};
    vo_block blocks[] = {{SIZE_MAX / 64 * 64, 0, 1, &a}, {SIZE_MAX / 64 * 64, 0, 1, &b}};
    assert_int_equal(vo_place_blocks(blocks, 2, &total, &err), VO_ERR_LIMIT);
    assert_int_equal(vo_place_blocks(blocks, 0, &total, NULL), VO_OK);
    assert_int_equal(total, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_blocks),
                                       cmocka_unit_test(test_gap_is_filled),
                                       cmocka_unit_test(test_overflow)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
