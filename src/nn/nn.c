/* SPDX-License-Identifier: MIT
 *
 * Blocks of networks written with ops.
 */
#include "nn/nn.h"

vo_array *vo_nn_apply_linear(vo_graph *graph, const vo_nn_linear *layer, vo_array *x) {
    vo_array *bias = layer->bias ? vo_constant(graph, layer->bias) : NULL;
    return vo_linear(graph, x, vo_constant(graph, layer->weight), bias);
}

vo_array *vo_nn_apply_norm(vo_graph *graph, const vo_nn_norm *layer, vo_array *x) {
    return vo_layer_norm(graph, x, vo_constant(graph, layer->gamma),
                         vo_constant(graph, layer->beta), 1e-5f);
}

vo_array *vo_nn_apply_mlp(vo_graph *graph, const vo_nn_mlp *layer, vo_array *x) {
    vo_array *h = vo_gelu(graph, vo_nn_apply_linear(graph, &layer->up, x));
    return vo_nn_apply_linear(graph, &layer->down, h);
}

vo_array *vo_nn_apply_conv(vo_graph *graph, const vo_nn_conv *layer, vo_array *x,
                           vo_conv1d_params params) {
    vo_array *bias = layer->bias ? vo_constant(graph, layer->bias) : NULL;
    return vo_conv1d(graph, x, vo_constant(graph, layer->weight), bias, params);
}
