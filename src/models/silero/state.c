/* SPDX-License-Identifier: MIT
 *
 * One stream: a plan for up to BATCH windows, the LSTM's state, and the last samples heard,
 * which are the context of the next window.
 */
#include "base/memory.h"
#include "models/silero/silero.h"

#include <math.h>
#include <string.h>

enum { BATCH = 256, PADDED = VO_SILERO_CONTEXT + VO_SILERO_WINDOW + VO_SILERO_PAD };

struct vo_silero_state {
    vo_plan *plan;
    vo_buffer *memory;        /* [2, 128]: h, c */
    float *padded;            /* [BATCH][640], the plan's input */
    const float *probability; /* [BATCH], its output */
    float context[VO_SILERO_CONTEXT];
};

static vo_status create_plan(vo_silero_state *s, const vo_silero *model, const vo_runtime *runtime,
                             vo_error *err) {
    vo_graph *g = vo_graph_create(err);
    if (!g) return VO_ERR_MEMORY;
    const int64_t shape[] = {2, VO_SILERO_HIDDEN};
    vo_array *x = vo_input(g, VO_F32, BATCH * PADDED, 1, VO_PARAM_ROWS, PADDED);
    vo_array *memory = vo_state(g, s->memory, VO_F32, shape, 2);
    vo_array *y = vo_silero_forward(g, model, x, memory);
    vo_status status = vo_plan_create(runtime, g, &y, 1, (vo_plan_params){0}, &s->plan, err);
    if (status != VO_OK) return status;
    s->padded = vo_plan_data(s->plan, x);
    s->probability = vo_plan_data(s->plan, y);
    return VO_OK;
}

vo_status vo_silero_state_create(const vo_silero *model, const vo_runtime *runtime,
                                 vo_silero_state **out, vo_error *err) {
    vo_silero_state *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for voice activity detection");
    s->memory = vo_buffer_create(2 * VO_SILERO_HIDDEN * sizeof(float), err);
    vo_status status = s->memory ? create_plan(s, model, runtime, err) : VO_ERR_MEMORY;
    if (status != VO_OK)
        vo_silero_state_destroy(s);
    else
        *out = s;
    return status;
}

void vo_silero_state_destroy(vo_silero_state *s) {
    if (!s) return;
    vo_plan_destroy(s->plan);
    vo_buffer_unref(s->memory);
    vo_free(s);
}

void vo_silero_reset(vo_silero_state *s) {
    memset(vo_buffer_data(s->memory), 0, vo_buffer_bytes(s->memory));
    memset(s->context, 0, sizeof s->context);
}

/* x: [640]. The mirror image leaves the last sample out. */
static void pad_window(vo_silero_state *s, const float *samples, float *x) {
    memcpy(x, s->context, sizeof s->context);
    float *window = x + VO_SILERO_CONTEXT, *end = window + VO_SILERO_WINDOW;
    /* One NaN would stay in the LSTM for ever, and squares of larger numbers make some. */
    for (int i = 0; i < VO_SILERO_WINDOW; i++)
        window[i] = fabsf(samples[i]) <= 1e9f ? samples[i] : 0;
    for (int i = 0; i < VO_SILERO_PAD; i++) end[i] = end[-2 - i];
    memcpy(s->context, end - VO_SILERO_CONTEXT, sizeof s->context);
}

vo_status vo_silero_run(vo_silero_state *s, const float *samples, int64_t n, float *probabilities,
                        vo_error *err) {
    for (int64_t done = 0; done < n;) {
        int64_t batch = n - done < BATCH ? n - done : BATCH;
        for (int64_t i = 0; i < batch; i++)
            pad_window(s, samples + (done + i) * VO_SILERO_WINDOW, s->padded + i * PADDED);
        vo_plan_set(s->plan, VO_PARAM_ROWS, batch);
        vo_status status = vo_plan_run(s->plan, err);
        if (status != VO_OK) return status;
        memcpy(probabilities + done, s->probability, (size_t)batch * sizeof *probabilities);
        done += batch;
    }
    return VO_OK;
}
