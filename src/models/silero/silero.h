/* SPDX-License-Identifier: MIT
 *
 * Silero VAD (Silero Team, 2021-2025; versions 5 and 6, 16 kHz): for every window of 32 ms the
 * probability that somebody speaks. The model is immutable; a state is one stream's memory with
 * its plan and belongs to one thread at a time. docs/models/silero.md describes the network.
 */
#ifndef VO_MODELS_SILERO_SILERO_H
#define VO_MODELS_SILERO_SILERO_H

#include "base/pool.h"
#include "formats/format.h"
#include "nn/nn.h"
#include "tensor/plan.h"

enum {
    VO_SILERO_RATE = 16000,
    VO_SILERO_WINDOW = 512, /* samples that each probability is for */
    VO_SILERO_CONTEXT = 64, /* samples before them that the network sees too */
    VO_SILERO_PAD = 64,     /* samples after them: their mirror image */
    VO_SILERO_FRAME = 256,  /* of the spectrum; half of it between frames */
    VO_SILERO_BINS = 129,
    VO_SILERO_HIDDEN = 128
};

typedef struct vo_silero {
    vo_weight *basis;         /* [2 * 129, 256, 1]: cosines, then sines, windowed */
    vo_nn_conv encoder[4];    /* [128, 3, 129], [64, 3, 128], [64, 3, 64], [128, 3, 64] */
    vo_nn_linear gates;       /* [512, 128], both biases of the LSTM added */
    vo_weight *recurrent;     /* [512, 128] */
    vo_nn_linear probability; /* [1, 128] */
    vo_weights *file;         /* owned: views point into it */
    vo_weight *all[16];
    int n_all;
} vo_silero;

/* Weights under the names of silero_vad_16k.safetensors. Takes `weights` over, also on failure. A
 * model serves the backends of one runtime: they keep their forms of the weights in it. */
vo_status vo_silero_load(vo_weights *weights, vo_silero **model, vo_error *err);
/* The weights inside the library (version 6.2). */
vo_status vo_silero_load_builtin(vo_silero **model, vo_error *err);
void vo_silero_destroy(vo_silero *model);

/* forward.c: records the network in two parts, as only the second goes from window to window.
 * x [n * 640, 1]: context, window and mirror image of n windows -> gates of the LSTM [n, 512] */
vo_array *vo_silero_listen(vo_graph *graph, const vo_silero *model, vo_array *x);
/* x: those gates; state [2, 128], carried on -> probabilities [n, 1] */
vo_array *vo_silero_decide(vo_graph *graph, const vo_silero *model, vo_array *x, vo_array *state);

/* ---- one stream ----------------------------------------------------------------------------- */

typedef struct vo_silero_state vo_silero_state;

/* The model, the pool, and what the runtime points to must outlive it. pool: whose threads share
 * long runs; NULL: the calling thread alone. */
vo_status vo_silero_state_create(const vo_silero *model, const vo_runtime *runtime, vo_pool *pool,
                                 vo_silero_state **state, vo_error *err);
void vo_silero_state_destroy(vo_silero_state *state);
/* Forgets everything heard: the next window is the first of a stream. */
void vo_silero_reset(vo_silero_state *state);
/* The next n windows of the stream: samples [n * 512] -> probabilities [n]. How a stream is cut
 * into calls changes nothing. Samples that are not finite, or beyond 1e9, count as silence.
 * Allocates nothing. */
vo_status vo_silero_run(vo_silero_state *state, const float *samples, int64_t n,
                        float *probabilities, vo_error *err);

#endif
