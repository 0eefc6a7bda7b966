/* SPDX-License-Identifier: MIT
 *
 * One stream. Everything but the LSTM is computed for a block of windows at a time, and for some
 * blocks side by side; the LSTM takes the blocks in turn, on whichever thread has prepared one.
 */
#include "base/memory.h"
#include "models/silero/silero.h"

#include <math.h>
#include <string.h>

enum {
    BLOCK = 128, /* windows */
    PADDED = VO_SILERO_CONTEXT + VO_SILERO_WINDOW + VO_SILERO_PAD,
    GATES = 4 * VO_SILERO_HIDDEN,
    MOST_SLOTS = 4 /* with more, all but one would wait: the LSTM takes a third of the time */
};

/* What one thread needs for a block: the network up to the LSTM's gates, and from there on. */
typedef struct slot {
    vo_plan *front, *back;
    float *padded;            /* [BLOCK][640], front's input */
    const float *gates;       /* [BLOCK][512], its output */
    float *gates_in;          /* [BLOCK][512], back's input */
    const float *probability; /* [BLOCK], its output */
} slot;

struct vo_silero_state {
    slot slots[MOST_SLOTS];
    int n_slots;
    vo_pool *pool;     /* borrowed; NULL: the calling thread alone */
    vo_mutex *mutex;   /* guards what a run shares */
    vo_buffer *memory; /* [2, 128]: h, c */
    float context[VO_SILERO_CONTEXT];
};

/* ---- plans ---------------------------------------------------------------------------------- */

static vo_status create_slot(vo_silero_state *s, const vo_silero *model, const vo_runtime *runtime,
                             vo_error *err) {
    slot *one = &s->slots[s->n_slots++];
    const int64_t shape[] = {2, VO_SILERO_HIDDEN};
    vo_graph *g = vo_graph_create(err);
    if (!g) return VO_ERR_MEMORY;
    vo_array *x = vo_input(g, VO_F32, BLOCK * PADDED, 1, VO_PARAM_ROWS, PADDED);
    vo_array *gates = vo_silero_listen(g, model, x);
    vo_status status = vo_plan_create(runtime, g, &gates, 1, (vo_plan_params){0}, &one->front, err);
    if (status != VO_OK) return status;
    one->padded = vo_plan_data(one->front, x);
    one->gates = vo_plan_data(one->front, gates);
    if (!(g = vo_graph_create(err))) return VO_ERR_MEMORY;
    x = vo_input(g, VO_F32, BLOCK, GATES, VO_PARAM_ROWS, 1);
    vo_array *y = vo_silero_decide(g, model, x, vo_state(g, s->memory, VO_F32, shape, 2));
    status = vo_plan_create(runtime, g, &y, 1, (vo_plan_params){0}, &one->back, err);
    if (status != VO_OK) return status;
    one->gates_in = vo_plan_data(one->back, x);
    one->probability = vo_plan_data(one->back, y);
    return VO_OK;
}

vo_status vo_silero_state_create(const vo_silero *model, const vo_runtime *runtime, vo_pool *pool,
                                 vo_silero_state **out, vo_error *err) {
    vo_silero_state *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for voice activity detection");
    const int threads = pool ? vo_pool_threads(pool) : 1;
    s->pool = pool;
    s->mutex = vo_mutex_create();
    s->memory = vo_buffer_create(2 * VO_SILERO_HIDDEN * sizeof(float), err);
    vo_status status = s->memory ? VO_OK : VO_ERR_MEMORY;
    if (!s->mutex) status = vo_fail(err, VO_ERR_MEMORY, "no memory for a mutex");
    while (status == VO_OK && s->n_slots < threads && s->n_slots < MOST_SLOTS)
        status = create_slot(s, model, runtime, err);
    if (status != VO_OK)
        vo_silero_state_destroy(s);
    else
        *out = s;
    return status;
}

void vo_silero_state_destroy(vo_silero_state *s) {
    if (!s) return;
    for (int i = 0; i < s->n_slots; i++) {
        vo_plan_destroy(s->slots[i].front);
        vo_plan_destroy(s->slots[i].back);
    }
    vo_buffer_unref(s->memory);
    vo_mutex_destroy(s->mutex);
    vo_free(s);
}

void vo_silero_reset(vo_silero_state *s) {
    memset(vo_buffer_data(s->memory), 0, vo_buffer_bytes(s->memory));
    memset(s->context, 0, sizeof s->context);
}

/* ---- a run ---------------------------------------------------------------------------------- */

typedef struct run {
    vo_silero_state *state;
    const float *samples;
    int64_t n;
    float *probabilities;
    int64_t taken, decided; /* windows whose block somebody has, and those that are done */
    vo_status status;       /* of the first failure */
    vo_error *err;
} run;

/* One NaN would stay in the LSTM for ever, and squares of larger numbers make some. */
static void copy_finite(float *to, const float *samples, int n) {
    for (int i = 0; i < n; i++) to[i] = fabsf(samples[i]) <= 1e9f ? samples[i] : 0;
}

/* x: [640]. The mirror image leaves the last sample out. */
static void pad_window(const float *before, const float *samples, float *x) {
    float *window = x + VO_SILERO_CONTEXT, *end = window + VO_SILERO_WINDOW;
    copy_finite(x, before, VO_SILERO_CONTEXT);
    copy_finite(window, samples, VO_SILERO_WINDOW);
    for (int i = 0; i < VO_SILERO_PAD; i++) end[i] = end[-2 - i];
}

static vo_status listen(const run *r, const slot *one, int64_t from, int64_t count, vo_error *err) {
    for (int64_t i = 0; i < count; i++) {
        const float *samples = r->samples + (from + i) * VO_SILERO_WINDOW;
        pad_window(from + i > 0 ? samples - VO_SILERO_CONTEXT : r->state->context, samples,
                   one->padded + i * PADDED);
    }
    vo_plan_set(one->front, VO_PARAM_ROWS, count);
    const vo_status status = vo_plan_run(one->front, err);
    memcpy(one->gates_in, one->gates, (size_t)count * GATES * sizeof *one->gates);
    return status;
}

static vo_status decide(const run *r, const slot *one, int64_t from, int64_t count, vo_error *err) {
    vo_plan_set(one->back, VO_PARAM_ROWS, count);
    const vo_status status = vo_plan_run(one->back, err);
    memcpy(r->probabilities + from, one->probability, (size_t)count * sizeof *one->probability);
    return status;
}

/* Takes blocks until there are none. Whoever holds the block before this one's works on it, so
 * that waiting for one's turn ends. */
static void work(void *arg, int64_t index, int thread) {
    run *r = arg;
    vo_mutex *mutex = r->state->mutex;
    const slot *one = &r->state->slots[index];
    vo_mutex_lock(mutex);
    while (r->taken < r->n) {
        const int64_t from = r->taken, count = r->n - from < BLOCK ? r->n - from : BLOCK;
        vo_error err = {0};
        r->taken += count;
        vo_mutex_unlock(mutex);
        vo_status status = listen(r, one, from, count, &err);
        vo_mutex_lock(mutex);
        while (r->decided < from) vo_mutex_wait(mutex, 1);
        vo_mutex_unlock(mutex);
        if (status == VO_OK) status = decide(r, one, from, count, &err);
        vo_mutex_lock(mutex);
        if (status != VO_OK && r->status == VO_OK)
            r->status = vo_fail(r->err, status, "%s", err.message);
        r->decided += count;
        vo_mutex_wake(mutex);
    }
    vo_mutex_unlock(mutex);
}

vo_status vo_silero_run(vo_silero_state *s, const float *samples, int64_t n, float *probabilities,
                        vo_error *err) {
    run r = {.state = s, .samples = samples, .n = n, .probabilities = probabilities, .err = err};
    const int64_t blocks = n / BLOCK + (n % BLOCK != 0);
    vo_pool_run(s->pool, blocks < s->n_slots ? blocks : s->n_slots, work, &r);
    if (n > 0)
        copy_finite(s->context, samples + n * VO_SILERO_WINDOW - VO_SILERO_CONTEXT,
                    VO_SILERO_CONTEXT);
    return r.status;
}
