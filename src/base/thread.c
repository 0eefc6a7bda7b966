/* SPDX-License-Identifier: MIT */
#include "base/thread.h"

#include "base/memory.h"

#include <pthread.h>
#include <signal.h>

struct vo_thread {
    pthread_t handle;
    void (*fn)(void *arg);
    void *arg;
};

static void *thread_main(void *arg) {
    vo_thread *t = arg;
    t->fn(t->arg);
    return NULL;
}

vo_thread *vo_thread_create(void (*fn)(void *arg), void *arg, vo_error *err) {
    vo_thread *t = vo_alloc(sizeof *t);
    bool started = false;
    if (t) {
        /* Signals are for the threads of the program, not for ours. */
        sigset_t all, old;
        *t = (vo_thread){.fn = fn, .arg = arg};
        sigfillset(&all);
        const bool masked = pthread_sigmask(SIG_SETMASK, &all, &old) == 0;
        started = pthread_create(&t->handle, NULL, thread_main, t) == 0;
        if (masked) pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    if (started) return t;
    vo_fail(err, VO_ERR_MEMORY, "the system refuses to start a thread");
    vo_free(t);
    return NULL;
}

void vo_thread_join(vo_thread *t) {
    if (!t) return;
    pthread_join(t->handle, NULL);
    vo_free(t);
}
