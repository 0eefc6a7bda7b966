/* SPDX-License-Identifier: MIT
 *
 * The network, one op a line, shapes at the right; b windows of t frames side by side, frames
 * first.
 */
#include "models/ge2e/ge2e.h"

vo_array *vo_ge2e_forward(vo_graph *g, const vo_ge2e *model, vo_array *x,
                          vo_array *const memory[VO_GE2E_LAYERS], vo_array *last) {
    for (int i = 0; i < VO_GE2E_LAYERS; i++) {
        x = vo_nn_apply_linear(g, &model->layers[i].gates, x);                    /* [t*b, 1024] */
        x = vo_lstm(g, x, vo_constant(g, model->layers[i].recurrent), memory[i]); /* [t*b, 256]  */
    }
    x = vo_take_rows(g, x, last);                               /* [b, 256] */
    return vo_relu(g, vo_nn_apply_linear(g, &model->voice, x)); /* [b, 256] */
}
