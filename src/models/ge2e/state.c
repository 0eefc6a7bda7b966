/* SPDX-License-Identifier: MIT
 *
 * One plan for a batch of windows. Every window begins with empty LSTMs; what is left over of the
 * last batch is computed as silence.
 */
#include "base/memory.h"
#include "models/ge2e/ge2e.h"

#include <math.h>
#include <string.h>

enum { B = VO_GE2E_BATCH, T = VO_GE2E_FRAMES, M = VO_GE2E_MELS, H = VO_GE2E_HIDDEN };

struct vo_ge2e_state {
    vo_plan *plan;
    vo_buffer *memory[VO_GE2E_LAYERS]; /* [2 * B, H]: h, c */
    float *x;                          /* [T][B][M], the plan's inputs */
    int32_t *last;                     /* [B] */
    const float *y;                    /* [B][H], its output */
};

static vo_status create_plan(vo_ge2e_state *s, const vo_ge2e *model, const vo_runtime *runtime,
                             vo_error *err) {
    vo_graph *g = vo_graph_create(err);
    if (!g) return VO_ERR_MEMORY;
    vo_array *memory[VO_GE2E_LAYERS];
    vo_array *x = vo_input(g, VO_F32, T * B, M, VO_PARAM_NONE, 0);
    vo_array *last = vo_input(g, VO_I32, B, 0, VO_PARAM_NONE, 0);
    for (int i = 0; i < VO_GE2E_LAYERS; i++)
        memory[i] = vo_state(g, s->memory[i], VO_F32, (const int64_t[]){2 * B, H}, 2);
    vo_array *y = vo_ge2e_forward(g, model, x, memory, last);
    vo_status status = vo_plan_create(runtime, g, &y, 1, (vo_plan_params){0}, &s->plan, err);
    if (status != VO_OK) return status;
    s->x = vo_plan_data(s->plan, x);
    s->last = vo_plan_data(s->plan, last);
    s->y = vo_plan_data(s->plan, y);
    return VO_OK;
}

vo_status vo_ge2e_state_create(const vo_ge2e *model, const vo_runtime *runtime, vo_ge2e_state **out,
                               vo_error *err) {
    vo_ge2e_state *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for the voices of speakers");
    vo_status status = VO_OK;
    for (int i = 0; i < VO_GE2E_LAYERS && status == VO_OK; i++) {
        s->memory[i] = vo_buffer_create(2 * B * H * sizeof(float), err);
        if (!s->memory[i]) status = VO_ERR_MEMORY;
    }
    if (status == VO_OK) status = create_plan(s, model, runtime, err);
    if (status != VO_OK)
        vo_ge2e_state_destroy(s);
    else
        *out = s;
    return status;
}

void vo_ge2e_state_destroy(vo_ge2e_state *s) {
    if (!s) return;
    vo_plan_destroy(s->plan);
    for (int i = 0; i < VO_GE2E_LAYERS; i++) vo_buffer_unref(s->memory[i]);
    vo_free(s);
}

static void write_inputs(vo_ge2e_state *s, const float *mels, int64_t n) {
    memset(s->x, 0, (size_t)(T * B * M) * sizeof *s->x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < T; t++)
            memcpy(s->x + (t * B + i) * M, mels + (i * T + t) * M, M * sizeof *s->x);
    for (int i = 0; i < B; i++) s->last[i] = (T - 1) * B + i;
    for (int i = 0; i < VO_GE2E_LAYERS; i++)
        memset(vo_buffer_data(s->memory[i]), 0, vo_buffer_bytes(s->memory[i]));
}

/* x, y: [H]; y has length 1. */
static void normalise(const float *x, float *y) {
    double sum = 0;
    for (int i = 0; i < H; i++) sum += (double)x[i] * (double)x[i];
    const double scale = sum > 0 && isfinite(sum) ? 1 / sqrt(sum) : 0;
    for (int i = 0; i < H; i++) y[i] = scale > 0 ? (float)(x[i] * scale) : 0;
}

vo_status vo_ge2e_run(vo_ge2e_state *s, const float *mels, int64_t n, float *voices,
                      vo_error *err) {
    for (int64_t done = 0; done < n; done += B) {
        const int64_t batch = n - done < B ? n - done : B;
        write_inputs(s, mels + done * T * M, batch);
        vo_status status = vo_plan_run(s->plan, err);
        if (status != VO_OK) return status;
        for (int64_t i = 0; i < batch; i++) normalise(s->y + i * H, voices + (done + i) * H);
    }
    return VO_OK;
}
