/* SPDX-License-Identifier: MIT
 *
 * One atomic word says whether a job is open and how many workers are in it. A worker may
 * enter only while the job is open; the caller works until no tile is left, closes the job and
 * waits for those inside. So a worker that sleeps through a job delays nobody, and a lost
 * wake-up could cost time but never hang.
 */
#include "base/pool.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 256, SPINS_PER_CLOCK = 32 };
static const double SPIN_SECONDS = 50e-6;

/* The word: bits 0..15 workers inside, bit 16 open, bit 17 stop, bits 32.. number of the job. */
#define INSIDE 0xffffu
#define OPEN   (1u << 16)
#define STOP   (1u << 17)
#define JOB(s) ((s) >> 32)

typedef struct worker {
    vo_pool *pool;
    int thread;
    pthread_t handle;
} worker;

struct vo_pool {
    int threads, started;
    worker *workers;         /* [threads], the first unused */
    pthread_mutex_t callers; /* held during a run: callers queue here */
    pthread_mutex_t sleep;
    pthread_cond_t work, done;
    /* written by the caller while the job is closed and empty */
    vo_tile_fn fn;
    void *arg;
    int64_t tiles;
    bool has_callers, has_sleep, has_work, has_done;
    alignas(VO_ALIGN) _Atomic uint64_t state;
    atomic_int sleeping;       /* workers asleep or about to be */
    atomic_bool caller_sleeps; /* the caller is asleep or about to be */
    alignas(VO_ALIGN) _Atomic int64_t next_tile;
};

/* Which pools this thread is in a tile of, innermost first: a nested run must not wait for
 * the run it is part of. */
typedef struct frame {
    const vo_pool *pool;
    int thread;
    struct frame *outer;
} frame;
static _Thread_local frame *frames;

static void spin_hint(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory"); /* yield does nothing on most cores; isb waits a bit */
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void run_tiles(vo_pool *pool, int thread) {
    frame here = {pool, thread, frames};
    frames = &here;
    for (;;) {
        int64_t tile = atomic_fetch_add_explicit(&pool->next_tile, 1, memory_order_relaxed);
        if (tile >= pool->tiles) break;
        pool->fn(pool->arg, tile, thread);
    }
    frames = here.outer;
}

static bool has_news(uint64_t state, uint64_t seen) {
    return (state & STOP) != 0 || ((state & OPEN) != 0 && JOB(state) != seen);
}

/* Returns a state with a job not seen yet, or with STOP. */
static uint64_t wait_for_job(vo_pool *pool, uint64_t seen) {
    double end = vo_clock_seconds() + SPIN_SECONDS;
    uint64_t state;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            state = atomic_load_explicit(&pool->state, memory_order_acquire);
            if (has_news(state, seen)) return state;
            spin_hint();
        }
    } while (vo_clock_seconds() < end);
    /* Either this thread sees the new state below, or the caller sees it sleeping: both sides
     * write first and look afterwards, in one total order. */
    pthread_mutex_lock(&pool->sleep);
    atomic_fetch_add(&pool->sleeping, 1);
    while (!has_news(state = atomic_load(&pool->state), seen)) {
        pthread_cond_wait(&pool->work, &pool->sleep);
    }
    atomic_fetch_sub(&pool->sleeping, 1);
    pthread_mutex_unlock(&pool->sleep);
    return state;
}

/* Enters the job if it is still open. */
static bool enter(vo_pool *pool, uint64_t *state) {
    while ((*state & OPEN) != 0) {
        if (atomic_compare_exchange_weak_explicit(&pool->state, state, *state + 1,
                                                  memory_order_acquire, memory_order_acquire)) {
            return true;
        }
    }
    return false;
}

static void leave(vo_pool *pool) {
    uint64_t before = atomic_fetch_sub(&pool->state, 1);
    if ((before & INSIDE) == 1 && (before & OPEN) == 0 && atomic_load(&pool->caller_sleeps)) {
        pthread_mutex_lock(&pool->sleep);
        pthread_cond_signal(&pool->done);
        pthread_mutex_unlock(&pool->sleep);
    }
}

static void *worker_main(void *arg) {
    const worker *self = arg;
    vo_pool *pool = self->pool;
    uint64_t seen = 0;
    for (;;) {
        uint64_t state = wait_for_job(pool, seen);
        if ((state & STOP) != 0) return NULL;
        bool inside = enter(pool, &state);
        seen = JOB(state);
        if (!inside) continue;
        run_tiles(pool, self->thread);
        leave(pool);
    }
}

static void wake_workers(vo_pool *pool, int64_t tiles) {
    int sleeping = atomic_load(&pool->sleeping), workers = pool->threads - 1;
    int wanted = tiles - 1 < workers ? (int)(tiles - 1) : workers;
    int wake = wanted - (workers - sleeping); /* those awake come by themselves */
    if (wake <= 0) return;
    pthread_mutex_lock(&pool->sleep);
    if (wake >= sleeping) {
        pthread_cond_broadcast(&pool->work);
    } else {
        while (wake-- > 0) pthread_cond_signal(&pool->work);
    }
    pthread_mutex_unlock(&pool->sleep);
}

static void wait_for_workers(vo_pool *pool) {
    double end = vo_clock_seconds() + SPIN_SECONDS;
    do {
        for (int i = 0; i < SPINS_PER_CLOCK; i++) {
            uint64_t state = atomic_load_explicit(&pool->state, memory_order_acquire);
            if ((state & INSIDE) == 0) return;
            spin_hint();
        }
    } while (vo_clock_seconds() < end);
    pthread_mutex_lock(&pool->sleep);
    atomic_store(&pool->caller_sleeps, true);
    while ((atomic_load(&pool->state) & INSIDE) != 0) pthread_cond_wait(&pool->done, &pool->sleep);
    atomic_store(&pool->caller_sleeps, false);
    pthread_mutex_unlock(&pool->sleep);
}

void vo_pool_run(vo_pool *pool, int64_t tiles, vo_tile_fn fn, void *arg) {
    if (tiles <= 0) return;
    if (pool == NULL) {
        for (int64_t tile = 0; tile < tiles; tile++) fn(arg, tile, 0);
        return;
    }
    for (const frame *f = frames; f != NULL; f = f->outer) {
        if (f->pool != pool) continue;
        for (int64_t tile = 0; tile < tiles; tile++) fn(arg, tile, f->thread);
        return;
    }
    pthread_mutex_lock(&pool->callers);
    pool->fn = fn;
    pool->arg = arg;
    pool->tiles = tiles;
    atomic_store_explicit(&pool->next_tile, 0, memory_order_relaxed);
    bool alone = pool->threads == 1 || tiles == 1;
    if (!alone) {
        uint64_t job = JOB(atomic_load_explicit(&pool->state, memory_order_relaxed)) + 1;
        atomic_store(&pool->state, job << 32 | OPEN);
        wake_workers(pool, tiles);
    }
    run_tiles(pool, 0);
    if (!alone) {
        uint64_t before = atomic_fetch_and(&pool->state, ~(uint64_t)OPEN);
        if ((before & INSIDE) != 0) wait_for_workers(pool);
    }
    pthread_mutex_unlock(&pool->callers);
}

static bool start_workers(vo_pool *pool) {
    /* Signals are for the threads of the program, not for ours. */
    sigset_t all, old;
    sigfillset(&all);
    bool masked = pthread_sigmask(SIG_SETMASK, &all, &old) == 0;
    pool->started = 1;
    while (pool->started < pool->threads) {
        worker *w = &pool->workers[pool->started];
        *w = (worker){.pool = pool, .thread = pool->started};
        if (pthread_create(&w->handle, NULL, worker_main, w) != 0) break;
        pool->started++;
    }
    if (masked) pthread_sigmask(SIG_SETMASK, &old, NULL);
    return pool->started == pool->threads;
}

vo_pool *vo_pool_create(int threads, vo_error *err) {
    if (threads <= 0) {
        threads = vo_cpu_usable_cores();
        if (threads > MAX_THREADS) threads = MAX_THREADS;
    }
    if (threads > MAX_THREADS) {
        vo_fail(err, VO_ERR_ARGUMENT, "%d threads were asked for, at most %d are possible", threads,
                MAX_THREADS);
        return NULL;
    }
    vo_pool *pool = vo_alloc(sizeof *pool);
    if (pool != NULL) pool->workers = vo_alloc_array((size_t)threads, sizeof *pool->workers);
    if (pool == NULL || pool->workers == NULL) goto fail;
    pool->threads = threads;
    pool->has_callers = pthread_mutex_init(&pool->callers, NULL) == 0;
    pool->has_sleep = pthread_mutex_init(&pool->sleep, NULL) == 0;
    pool->has_work = pthread_cond_init(&pool->work, NULL) == 0;
    pool->has_done = pthread_cond_init(&pool->done, NULL) == 0;
    if (!pool->has_callers || !pool->has_sleep || !pool->has_work || !pool->has_done) goto fail;
    if (!start_workers(pool)) {
        vo_fail(err, VO_ERR_MEMORY, "the system refuses to start %d threads", threads);
        goto fail;
    }
    return pool;
fail:
    vo_fail(err, VO_ERR_MEMORY, "out of memory for a pool of %d threads", threads);
    vo_pool_destroy(pool);
    return NULL;
}

int vo_pool_threads(const vo_pool *pool) {
    return pool != NULL ? pool->threads : 1;
}

void vo_pool_destroy(vo_pool *pool) {
    if (pool == NULL) return;
    if (pool->started > 1) {
        pthread_mutex_lock(&pool->sleep);
        atomic_fetch_or(&pool->state, STOP);
        pthread_cond_broadcast(&pool->work);
        pthread_mutex_unlock(&pool->sleep);
        for (int i = 1; i < pool->started; i++) pthread_join(pool->workers[i].handle, NULL);
    }
    if (pool->has_done) pthread_cond_destroy(&pool->done);
    if (pool->has_work) pthread_cond_destroy(&pool->work);
    if (pool->has_sleep) pthread_mutex_destroy(&pool->sleep);
    if (pool->has_callers) pthread_mutex_destroy(&pool->callers);
    vo_free(pool->workers);
    vo_free(pool);
}

struct vo_mutex {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
};

vo_mutex *vo_mutex_create(void) {
    vo_mutex *m = vo_alloc(sizeof *m);
    if (m == NULL) return NULL;
    if (pthread_mutex_init(&m->mutex, NULL) == 0) {
        if (pthread_cond_init(&m->woken, NULL) == 0) return m;
        pthread_mutex_destroy(&m->mutex);
    }
    vo_free(m);
    return NULL;
}

void vo_mutex_lock(vo_mutex *mutex) {
    pthread_mutex_lock(&mutex->mutex);
}

void vo_mutex_unlock(vo_mutex *mutex) {
    pthread_mutex_unlock(&mutex->mutex);
}

void vo_mutex_wait(vo_mutex *mutex, double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double end = (double)until.tv_nsec * 1e-9 + seconds;
    until.tv_sec += (time_t)end;
    until.tv_nsec = (long)((end - (double)(time_t)end) * 1e9);
    pthread_cond_timedwait(&mutex->woken, &mutex->mutex, &until);
}

void vo_mutex_wake(vo_mutex *mutex) {
    pthread_cond_broadcast(&mutex->woken);
}

void vo_mutex_destroy(vo_mutex *mutex) {
    if (mutex == NULL) return;
    pthread_cond_destroy(&mutex->woken);
    pthread_mutex_destroy(&mutex->mutex);
    vo_free(mutex);
}
