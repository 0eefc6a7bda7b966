/* SPDX-License-Identifier: MIT
 *
 * Every tile exactly once, whatever the threads, the pauses, the nesting and the callers do.
 * Meant to be run under ThreadSanitizer too.
 */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/harness.h"
#include "base/memory.h"
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MOST_TILES = 300 };

/* Plain memory, so that a missing happens-before shows as a race. */
typedef struct job {
    vo_pool *pool;
    int threads;
    int64_t tiles;
    int hits[MOST_TILES];
    int busy[256]; /* per thread: scratch must never be shared */
    atomic_int wrong;
} job;

static void pause_for(int microseconds) {
    struct timespec t = {0, microseconds * 1000L};
    nanosleep(&t, NULL);
}

static void count_tile(void *arg, int64_t tile, int thread) {
    job *j = arg;
    if (tile < 0 || tile >= j->tiles || thread < 0 || thread >= j->threads) {
        atomic_fetch_add(&j->wrong, 1);
        return;
    }
    if (j->busy[thread]++ != 0) atomic_fetch_add(&j->wrong, 1);
    j->hits[tile]++;
    j->busy[thread]--;
}

static void check_job(vo_pool *pool, int64_t tiles) {
    job j = {.pool = pool, .threads = vo_pool_threads(pool), .tiles = tiles};
    vo_pool_run(pool, tiles, count_tile, &j);
    assert_int_equal(atomic_load(&j.wrong), 0);
    for (int64_t i = 0; i < MOST_TILES; i++) assert_int_equal(j.hits[i], i < tiles);
}

static void every_tile_once(void **state) {
    for (int threads = 1; threads <= 8; threads++) {
        vo_error err = {0};
        vo_pool *pool = vo_pool_create(threads, &err);
        assert_non_null(pool);
        assert_int_equal(vo_pool_threads(pool), threads);
        uint64_t seed = (uint64_t)threads;
        check_job(pool, 0);
        check_job(pool, -3);
        for (int run = 0; run < 400; run++) {
            uint64_t r = next_random(&seed);
            check_job(pool, (int64_t)(r % (run % 3 == 0 ? MOST_TILES : 9)));
            if (r >> 32 & 1) continue;
            pause_for((int)(r >> 40) % 120); /* around the time after which workers fall asleep */
        }
        vo_pool_destroy(pool);
    }
}

static void runs_allocate_nothing(void **state) {
    vo_error err = {0};
    vo_pool *pool = vo_pool_create(3, &err);
    assert_non_null(pool);
    uint64_t before = vo_memory_get_stats().allocations;
    for (int i = 0; i < 20; i++) check_job(pool, 50);
    assert_int_equal(vo_memory_get_stats().allocations, before);
    vo_pool_destroy(pool);
}

static void outer_tile(void *arg, int64_t tile, int thread) {
    job *j = arg, inner = {.threads = j->threads, .tiles = 17};
    vo_pool_run(j->pool, inner.tiles, count_tile, &inner);
    for (int i = 0; i < MOST_TILES; i++) {
        if (inner.hits[i] != (i < 17)) atomic_fetch_add(&j->wrong, 1);
    }
    for (int i = 0; i < 256; i++) {
        if (inner.busy[i] != 0) atomic_fetch_add(&j->wrong, 1);
    }
    count_tile(arg, tile, thread);
}

static void nested_runs_are_inline(void **state) {
    for (int threads = 1; threads <= 4; threads++) {
        vo_error err = {0};
        job j = {.pool = vo_pool_create(threads, &err), .threads = threads, .tiles = 100};
        assert_non_null(j.pool);
        vo_pool_run(j.pool, j.tiles, outer_tile, &j);
        assert_int_equal(atomic_load(&j.wrong), 0);
        for (int i = 0; i < MOST_TILES; i++) assert_int_equal(j.hits[i], i < 100);
        vo_pool_destroy(j.pool);
    }
}

/* A tile of one pool may use a second pool, and from there the first one again. */
typedef struct two_pools {
    vo_pool *first, *second;
    atomic_int count;
} two_pools;

static void third_level(void *arg, int64_t tile, int thread) {
    two_pools *t = arg;
    atomic_fetch_add(&t->count, 1);
}

static void second_level(void *arg, int64_t tile, int thread) {
    two_pools *t = arg;
    if (thread == 0) {
        vo_pool_run(t->first, 3, third_level, t);
    } else {
        atomic_fetch_add(&t->count, 3);
    }
}

static void first_level(void *arg, int64_t tile, int thread) {
    two_pools *t = arg;
    vo_pool_run(t->second, 4, second_level, t);
}

static void pools_inside_pools(void **state) {
    vo_error err = {0};
    two_pools t = {.first = vo_pool_create(3, &err), .second = vo_pool_create(2, &err)};
    assert_true(t.first != NULL && t.second != NULL);
    for (int i = 0; i < 50; i++) vo_pool_run(t.first, 5, first_level, &t);
    assert_int_equal(atomic_load(&t.count), 50 * 5 * 4 * 3);
    vo_pool_destroy(t.first);
    vo_pool_destroy(t.second);
}

static void *caller_main(void *arg) {
    vo_pool *pool = arg;
    uint64_t seed = (uint64_t)(uintptr_t)&seed;
    for (int run = 0; run < 300; run++) {
        job j = {.pool = pool, .threads = vo_pool_threads(pool)};
        j.tiles = (int64_t)(next_random(&seed) % 40);
        vo_pool_run(pool, j.tiles, count_tile, &j);
        for (int i = 0; i < MOST_TILES; i++) {
            if (j.hits[i] != (i < j.tiles)) atomic_fetch_add(&j.wrong, 1);
        }
        if (atomic_load(&j.wrong) != 0) return arg;
        if (run % 50 == 0) pause_for(100);
    }
    return NULL;
}

static void several_callers_queue(void **state) {
    for (int threads = 1; threads <= 4; threads++) {
        vo_error err = {0};
        vo_pool *pool = vo_pool_create(threads, &err);
        assert_non_null(pool);
        pthread_t callers[4];
        for (int i = 0; i < 4; i++) {
            assert_int_equal(pthread_create(&callers[i], NULL, caller_main, pool), 0);
        }
        for (int i = 0; i < 4; i++) {
            void *result;
            pthread_join(callers[i], &result);
            assert_null(result);
        }
        vo_pool_destroy(pool);
    }
}

static void wait_for_partner(void *arg, int64_t tile, int thread) {
    atomic_int *arrived = arg;
    double end = vo_clock_seconds() + 20;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 4 && vo_clock_seconds() < end) pause_for(50);
}

/* Four tiles that wait for each other can only end if four threads really run, also after all
 * of them have fallen asleep. */
static void all_threads_take_part(void **state) {
    vo_error err = {0};
    vo_pool *pool = vo_pool_create(4, &err);
    assert_non_null(pool);
    for (int i = 0; i < 20; i++) {
        atomic_int arrived = 0;
        double begin = vo_clock_seconds();
        pause_for(i % 2 == 0 ? 1000 : 0);
        vo_pool_run(pool, 4, wait_for_partner, &arrived);
        assert_int_equal(atomic_load(&arrived), 4);
        assert_true(vo_clock_seconds() - begin < 19);
    }
    vo_pool_destroy(pool);
}

static void slow_tile(void *arg, int64_t tile, int thread) {
    int *slots = arg;
    pause_for(tile % 2 == 0 ? 2000 : 0);
    slots[tile] = 1;
}

/* The caller must sleep for the others, and wake. */
static void caller_waits_for_slow_tiles(void **state) {
    vo_error err = {0};
    vo_pool *pool = vo_pool_create(3, &err);
    assert_non_null(pool);
    for (int run = 0; run < 20; run++) {
        int slots[5] = {0};
        vo_pool_run(pool, 5, slow_tile, slots);
        for (int i = 0; i < 5; i++) assert_int_equal(slots[i], 1);
    }
    vo_pool_destroy(pool);
}

static void sizes_of_pools(void **state) {
    vo_error err = {0};
    assert_null(vo_pool_create(257, &err));
    assert_int_equal(err.status, VO_ERR_ARGUMENT);
    vo_pool *pool = vo_pool_create(0, &(vo_error){0});
    assert_non_null(pool);
    assert_int_equal(vo_pool_threads(pool), vo_cpu_usable_cores());
    vo_pool_destroy(pool);
    for (int i = 0; i < 50; i++) { /* born and gone without work */
        pool = vo_pool_create(i % 5 + 1, &(vo_error){0});
        assert_non_null(pool);
        vo_pool_destroy(pool);
    }
    vo_pool_destroy(NULL);
}

typedef struct guarded {
    vo_mutex *mutex;
    int count;
} guarded;

static void add_under_mutex(void *arg, int64_t tile, int thread) {
    guarded *g = arg;
    vo_mutex_lock(g->mutex);
    g->count++;
    vo_mutex_unlock(g->mutex);
}

static void mutex_excludes(void **state) {
    guarded g = {.mutex = vo_mutex_create()};
    vo_pool *pool = vo_pool_create(4, &(vo_error){0});
    assert_true(g.mutex != NULL && pool != NULL);
    vo_pool_run(pool, 2000, add_under_mutex, &g);
    assert_int_equal(g.count, 2000);
    vo_pool_destroy(pool);
    vo_mutex_destroy(g.mutex);
    vo_mutex_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_once),
        cmocka_unit_test(runs_allocate_nothing),
        cmocka_unit_test(nested_runs_are_inline),
        cmocka_unit_test(pools_inside_pools),
        cmocka_unit_test(several_callers_queue),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(caller_waits_for_slow_tiles),
        cmocka_unit_test(sizes_of_pools),
        cmocka_unit_test(mutex_excludes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
