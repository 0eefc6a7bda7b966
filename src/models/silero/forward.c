/* SPDX-License-Identifier: MIT
 *
 * The network, one op a line, shapes at the right; n windows at once. Only the LSTM goes from
 * window to window, everything before it is batched over time.
 */
#include "models/silero/silero.h"

/* sqrt(re^2 + im^2) of a spectrum by one product with the windowed Fourier basis. */
static vo_array *magnitudes(vo_graph *g, const vo_silero *model, vo_array *x) {
    vo_conv1d_params stft = {.window = VO_SILERO_CONTEXT + VO_SILERO_WINDOW + VO_SILERO_PAD,
                             .kernel = VO_SILERO_FRAME,
                             .stride = VO_SILERO_FRAME / 2};
    int64_t bins = VO_SILERO_BINS;
    vo_array *s = vo_conv1d(g, x, vo_constant(g, model->basis), NULL, stft); /* [n*4, 258] */
    vo_array *re = vo_columns(g, s, 0, bins), *im = vo_columns(g, s, bins, bins);
    return vo_sqrt(g, vo_add(g, vo_mul(g, re, re), vo_mul(g, im, im))); /* [n*4, 129] */
}

vo_array *vo_silero_listen(vo_graph *g, const vo_silero *model, vo_array *x) {
    static const struct { int window, stride; } encoder[] = {{4, 1}, {4, 2}, {2, 2}, {1, 1}};
    x = magnitudes(g, model, x);  /* [n*4, 129] */
    for (int i = 0; i < 4; i++) { /* [n*4, 128], [n*2, 64], [n, 64], [n, 128] */
        vo_conv1d_params conv = {encoder[i].window, 3, encoder[i].stride, 1};
        x = vo_relu(g, vo_nn_apply_conv(g, &model->encoder[i], x, conv));
    }
    return vo_nn_apply_linear(g, &model->gates, x); /* [n, 512] */
}

vo_array *vo_silero_decide(vo_graph *g, const vo_silero *model, vo_array *x, vo_array *state) {
    x = vo_lstm(g, x, vo_constant(g, model->recurrent), state);    /* [n, 128] */
    x = vo_nn_apply_linear(g, &model->probability, vo_relu(g, x)); /* [n, 1]   */
    return vo_sigmoid(g, x);
}
