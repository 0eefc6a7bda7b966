/* SPDX-License-Identifier: MIT
 *
 * Recording: op fronts check shapes and append a node; nothing runs. The first error sticks
 * to the graph, later fronts return NULL, and NULL inputs are allowed everywhere, so that
 * forward() needs one check at its end. A graph belongs to one thread.
 */
#ifndef VO_TENSOR_GRAPH_H
#define VO_TENSOR_GRAPH_H

#include "tensor/array.h"

typedef struct vo_graph vo_graph;

vo_graph *vo_graph_create(vo_error *err);
void vo_graph_destroy(vo_graph *graph);
/* The first failure, VO_OK if none. */
vo_status vo_graph_status(const vo_graph *graph, vo_error *err);
/* Ops recorded from now on run on this stream (default: VO_STREAM_CPU). */
void vo_graph_set_stream(vo_graph *graph, vo_stream stream);
/* Ops recorded from now on may use this arithmetic (default: VO_COMPUTE_F32). */
void vo_graph_set_compute(vo_graph *graph, vo_compute compute);

/* ---- leaves ------------------------------------------------------------------------------- */
/* [capacity, columns], of which parameter * unit rows are active; columns 0: rank 1. */
vo_array *vo_input(vo_graph *graph, vo_dtype dtype, int64_t capacity, int64_t columns, int param,
                   int64_t unit);
vo_array *vo_constant(vo_graph *graph, vo_weight *weight);
/* Memory that lives across runs; the caller keeps its reference. */
vo_array *vo_state(vo_graph *graph, vo_buffer *buffer, vo_dtype dtype, const int64_t *shape,
                   int rank);

/* ---- views: no data moves ----------------------------------------------------------------- */
vo_array *vo_columns(vo_graph *graph, vo_array *x, int64_t begin, int64_t count); /* x[:, b:b+c] */
/* [n, d] -> [n / group, group * d] for group > 1, [n * -group, d / -group] for group < -1 */
vo_array *vo_regroup(vo_graph *graph, vo_array *x, int64_t group);

/* ---- element-wise ------------------------------------------------------------------------- */
vo_array *vo_add(vo_graph *graph, vo_array *a, vo_array *b);
vo_array *vo_add_table(vo_graph *graph, vo_array *a, vo_array *table /* weight [t, d] */);
vo_array *vo_mul(vo_graph *graph, vo_array *a, vo_array *b);
vo_array *vo_scale(vo_graph *graph, vo_array *x, float s);
vo_array *vo_gelu(vo_graph *graph, vo_array *x);
vo_array *vo_relu(vo_graph *graph, vo_array *x);
vo_array *vo_sigmoid(vo_graph *graph, vo_array *x);
vo_array *vo_tanh(vo_graph *graph, vo_array *x);
vo_array *vo_sqrt(vo_graph *graph, vo_array *x);

/* ---- rows --------------------------------------------------------------------------------- */
vo_array *vo_layer_norm(vo_graph *graph, vo_array *x, vo_array *gamma, vo_array *beta, float eps);
vo_array *vo_softmax(vo_graph *graph, vo_array *x);
vo_array *vo_embed(vo_graph *graph, vo_array *weight, vo_array *ids);
vo_array *vo_take_rows(vo_graph *graph, vo_array *x, vo_array *ids);
vo_array *vo_concat(vo_graph *graph, vo_array *a, vo_array *b);

/* ---- products ----------------------------------------------------------------------------- */
vo_array *vo_linear(vo_graph *graph, vo_array *x, vo_array *weight, vo_array *bias /* or NULL */);
vo_array *vo_matmul(vo_graph *graph, vo_array *a, vo_array *b, bool transpose_b);
/* x: windows of `window` rows [c]; weight [m, kernel, c]. Zero padding at both ends of a window. */
typedef struct vo_conv1d_params {
    int64_t window;
    int kernel, stride, pad;
} vo_conv1d_params;
vo_array *vo_conv1d(vo_graph *graph, vo_array *x, vo_array *weight, vo_array *bias,
                    vo_conv1d_params params);

/* ---- attention ---------------------------------------------------------------------------- */
/* softmax(scale q k^T) v per head, within windows of `window` rows. */
vo_array *vo_attention(vo_graph *graph, vo_array *q, vo_array *k, vo_array *v, int heads,
                       int64_t window, float scale);
/* The same in simple ops, one window: the fallback that tests the fused op. */
vo_array *vo_attention_fallback(vo_graph *graph, vo_array *q, vo_array *k, vo_array *v, int heads,
                                float scale);
/* Writes row i of x to slot slots[i] of the cache, f32 or f16 (rounded to the nearest even); the
 * result is the cache after that. */
vo_array *vo_kv_store(vo_graph *graph, vo_array *cache, vo_array *x, vo_array *slots);
/* Row i sees the first len[i] positions of sequence seq[i]; position p lies in slot
 * table[seq * max_length + p] (table NULL: seq * max_length + p). */
vo_array *vo_attention_cached(vo_graph *graph, vo_array *q, vo_array *k, vo_array *v,
                              vo_array *table, vo_array *seq, vo_array *len, int64_t max_length,
                              float scale);
/* What one head looks at: softmax(scale q k^T) over the first len[i] positions of sequence seq[i],
 * which lie at seq * max_length; the rest of a row is 0. -> [n, max_length] */
vo_array *vo_attention_weights(vo_graph *graph, vo_array *q, vo_array *k, int head, vo_array *seq,
                               vo_array *len, int64_t max_length, float scale);

/* ---- recurrence --------------------------------------------------------------------------- */
/* gates = W_ih x + b_ih + b_hh of n steps; state holds h then c and is carried on. */
vo_array *vo_lstm(vo_graph *graph, vo_array *gates, vo_array *weight_hh, vo_array *state);

/* ---- for the runtime itself --------------------------------------------------------------- */
vo_array *vo_graph_first(const vo_graph *graph);
size_t vo_graph_count(const vo_graph *graph);

#endif
