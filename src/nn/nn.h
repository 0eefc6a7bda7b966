/* SPDX-License-Identifier: MIT
 *
 * Blocks of networks written with ops. A block holds weights and records itself into a graph;
 * shapes stand beside each weight.
 */
#ifndef VO_NN_NN_H
#define VO_NN_NN_H

#include "tensor/graph.h"

/* y = W x + b */
typedef struct vo_nn_linear {
    vo_weight *weight; /* [out, in] */
    vo_weight *bias;   /* [out] or NULL */
} vo_nn_linear;
vo_array *vo_nn_apply_linear(vo_graph *graph, const vo_nn_linear *layer, vo_array *x);

typedef struct vo_nn_norm {
    vo_weight *gamma, *beta; /* [d] */
} vo_nn_norm;
vo_array *vo_nn_apply_norm(vo_graph *graph, const vo_nn_norm *layer, vo_array *x);

/* Linear, GELU, linear. */
typedef struct vo_nn_mlp {
    vo_nn_linear up;   /* [4d, d] */
    vo_nn_linear down; /* [d, 4d] */
} vo_nn_mlp;
vo_array *vo_nn_apply_mlp(vo_graph *graph, const vo_nn_mlp *layer, vo_array *x);

typedef struct vo_nn_conv {
    vo_weight *weight; /* [out, kernel, in] */
    vo_weight *bias;   /* [out] */
} vo_nn_conv;
vo_array *vo_nn_apply_conv(vo_graph *graph, const vo_nn_conv *layer, vo_array *x,
                           vo_conv1d_params params);

#endif
