/* SPDX-License-Identifier: MIT
 *
 * The fusions, all of them:
 *   gelu(linear(x))          -> linear with gelu in its epilogue
 *   gelu(conv1d(x))          -> conv1d with gelu in its epilogue
 *   add(r, linear(x))        -> linear with residual r in its epilogue, either order
 * Each pair is what the unfused graph computes, in the same order of roundings; a plan made
 * with no_fusion runs the simple ops and is the test.
 */
#include "tensor/plan.h"

/* True when `inner` feeds only `outer` and is no output, so that it need not exist. */
static bool consumed_once(const vo_array *inner, vo_array *const *outputs, int n_outputs) {
    if (inner->uses != 1) return false;
    for (int i = 0; i < n_outputs; i++)
        if (outputs[i] == inner) return false;
    return true;
}

/* Fusion moves the work of `inner` to a later place; nothing may change its operand until then, and
 * only state changes. */
static bool reads_state(const vo_array *inner) {
    const vo_array *x = inner->in[0];
    while (x->op == VO_OP_VIEW && x->n_in) x = x->in[0];
    return x->op == VO_OP_STATE;
}

/* `outer` takes over the work of `inner` plus its own; inner becomes unused. */
static void absorb(vo_array *outer, vo_array *inner) {
    outer->op = inner->op;
    outer->attr = inner->attr;
    for (int i = 0; i < VO_MAX_INPUTS; i++) outer->in[i] = inner->in[i];
    outer->n_in = inner->n_in;
    inner->op = VO_OP_VIEW; /* a dead view of nothing: executes nothing, holds no memory */
    inner->n_in = 0;
    inner->uses = 0;
}

static bool fuse_gelu(vo_array *node, vo_array *const *outputs, int n_outputs) {
    vo_array *inner = node->in[0];
    if (inner->op != VO_OP_linear && inner->op != VO_OP_conv1d) return false;
    if (inner->attr.gelu || (inner->op == VO_OP_linear && inner->in[3])) return false;
    if (!consumed_once(inner, outputs, n_outputs) || reads_state(inner)) return false;
    absorb(node, inner);
    node->attr.gelu = 1;
    return true;
}

static bool fuse_residual(vo_array *node, vo_array *const *outputs, int n_outputs) {
    for (int side = 1; side >= 0; side--) {
        vo_array *inner = node->in[side], *residual = node->in[1 - side];
        /* The residual must be there before the linear runs, or the order would be wrong. */
        if (inner->op != VO_OP_linear || inner->in[3] || residual == inner) continue;
        if (!consumed_once(inner, outputs, n_outputs) || reads_state(inner)) continue;
        absorb(node, inner);
        node->in[3] = residual;
        return true;
    }
    return false;
}

int vo_fuse(vo_graph *graph, vo_array *const *outputs, int n_outputs) {
    int fused = 0;
    for (vo_array *node = vo_graph_first(graph); node; node = node->next) {
        if (node->op == VO_OP_gelu)
            fused += fuse_gelu(node, outputs, n_outputs);
        else if (node->op == VO_OP_add)
            fused += fuse_residual(node, outputs, n_outputs);
    }
    return fused;
}
