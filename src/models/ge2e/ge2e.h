/* SPDX-License-Identifier: MIT
 *
 * A voice as a point: the speaker encoder of "Generalized End-to-End Loss for Speaker Verification"
 * (Wan, Wang, Papir, Lopez Moreno, 2018) with the weights of Resemblyzer. A window of 1.6 s becomes
 * a unit vector; the closer two vectors, the more alike the voices. The model is immutable; a
 * state is a plan with its memory and belongs to one thread at a time. docs/models/ge2e.md
 * describes the network.
 */
#ifndef VO_MODELS_GE2E_GE2E_H
#define VO_MODELS_GE2E_GE2E_H

#include "formats/format.h"
#include "nn/nn.h"
#include "tensor/plan.h"

enum {
    VO_GE2E_MELS = 40,
    VO_GE2E_FRAMES = 160, /* of 10 ms: a window */
    VO_GE2E_HIDDEN = 256, /* of the LSTMs, and numbers of a voice */
    VO_GE2E_LAYERS = 3,
    VO_GE2E_BATCH = 16 /* windows that go through the LSTMs side by side */
};

typedef struct vo_ge2e {
    struct {
        vo_nn_linear gates;   /* [1024, 40 or 256], both biases of the LSTM added */
        vo_weight *recurrent; /* [1024, 256] */
    } layers[VO_GE2E_LAYERS];
    vo_nn_linear voice; /* [256, 256] */
    vo_weights *file;   /* owned: views point into it */
    vo_weight *all[16];
    int n_all;
} vo_ge2e;

/* Weights as tools/convert/resemblyzer_to_safetensors.py names them, matrices in f16 or f32. Takes
 * `weights` over, also on failure. VO_ERR_FORMAT: something is missing or has another shape. A
 * model serves the backends of one runtime: they keep their forms of the weights in it. */
vo_status vo_ge2e_load(vo_weights *weights, vo_ge2e **model, vo_error *err);
/* The weights inside the library. */
vo_status vo_ge2e_load_builtin(vo_ge2e **model, vo_error *err);
void vo_ge2e_destroy(vo_ge2e *model);

/* forward.c: records the network. x [160 * 16, 40]: frame t of window i is row 16 t + i; memory:
 * one [2 * 16, 256] for each layer, zero before a run; last [16]: the rows of the last frame ->
 * [16, 256], not negative, of any length */
vo_array *vo_ge2e_forward(vo_graph *graph, const vo_ge2e *model, vo_array *x,
                          vo_array *const memory[VO_GE2E_LAYERS], vo_array *last);

typedef struct vo_ge2e_state vo_ge2e_state;

/* The model and what the runtime points to must outlive it. */
vo_status vo_ge2e_state_create(const vo_ge2e *model, const vo_runtime *runtime,
                               vo_ge2e_state **state, vo_error *err);
void vo_ge2e_state_destroy(vo_ge2e_state *state);
/* mels [n][160][40]: power, not its logarithm -> voices [n][256] of length 1 (0 for a window in
 * which nothing is heard). A window's result does not depend on its neighbours. Allocates nothing.
 */
vo_status vo_ge2e_run(vo_ge2e_state *state, const float *mels, int64_t n, float *voices,
                      vo_error *err);

#endif
