/* SPDX-License-Identifier: MIT
 *
 * Chains (backend.h). A step can be in one if each of its rows depends on the same row of its
 * inputs alone: products with weights, norms, element-wise ops, and at the end stores into a cache.
 * Attention and convolutions mix rows and end a chain. An array that nobody outside needs is local:
 * it exists for one block of rows per thread.
 */
#include "base/memory.h"
#include "tensor/place.h"
#include "tensor/plan_internal.h"

enum {
    MIN_ROWS = 512, /* fewer rows are better split by columns */
    MIN_NODES = 2
};

static bool is_shared(const vo_array *a) {
    return a->op == VO_OP_WEIGHT || a->op == VO_OP_STATE;
}

/* Memory in which something is written or read outside the chain of `user` is not local to it. */
static void mark_use(const vo_array *a, const vo_array *user) {
    vo_array *root = vo_array_root(a);
    if (root->chain != user->chain) root->local = false;
}

static bool same_rows(const vo_array *a, const vo_array *b) {
    return a->shape[0] == b->shape[0] && a->rows_param == b->rows_param &&
           a->rows_unit == b->rows_unit;
}

static bool treats_rows_alone(const vo_array *node) {
    switch (node->op) {
    case VO_OP_linear:
    case VO_OP_layer_norm:
    case VO_OP_add:
    case VO_OP_mul:
    case VO_OP_scale:
    case VO_OP_gelu:
    case VO_OP_relu:
    case VO_OP_sigmoid:
    case VO_OP_tanh:
    case VO_OP_sqrt:
    case VO_OP_kv_store:
        break;
    default:
        return false;
    }
    const vo_array *rows = vo_array_worked_rows(node);
    if (rows->shape[0] < MIN_ROWS) return false;
    for (int i = 0; i < node->n_in; i++) {
        vo_array *in = node->in[i];
        if (!in || is_shared(in) || is_shared(vo_array_root(in))) continue;
        if (!same_rows(in, rows)) return false;
    }
    return true;
}

/* Adds steps [first, end) as a chain if the backend wants it. */
static void add_chain(vo_plan *plan, int first, int end) {
    vo_array *node = plan->steps[first];
    vo_backend *backend = plan->runtime.streams[node->stream];
    vo_chain *chain = &plan->chains[plan->n_chains];
    *chain = (vo_chain){.nodes = plan->steps + first, .n = end - first};
    if (chain->n < MIN_NODES || !backend->vtable->plan_chain ||
        !backend->vtable->plan_chain(backend, chain))
        return;
    for (int i = first; i < end; i++) plan->steps[i]->chain = chain;
    plan->n_chains++;
}

static void mark_locals(vo_plan *plan, vo_array *const *outputs, int n_outputs) {
    for (int i = 0; i < plan->n_steps; i++) {
        vo_array *a = plan->steps[i];
        a->local = a->chain && a->base == a && a->op != VO_OP_kv_store;
    }
    for (int i = 0; i < plan->n_steps; i++) {
        vo_array *a = plan->steps[i];
        mark_use(a, a);
        for (int k = 0; k < a->n_in; k++)
            if (a->in[k]) mark_use(a->in[k], a);
    }
    for (int i = 0; i < n_outputs; i++) vo_array_root(outputs[i])->local = false;
}

void vo_find_chains(vo_plan *plan, vo_array *const *outputs, int n_outputs) {
    for (int i = 0; i < plan->n_steps;) {
        int end = i;
        while (
            plan->steps[i]->op != VO_OP_kv_store && end < plan->n_steps &&
            treats_rows_alone(plan->steps[end]) &&
            plan->steps[end]->stream == plan->steps[i]->stream &&
            same_rows(vo_array_worked_rows(plan->steps[end]), vo_array_worked_rows(plan->steps[i])))
            end++;
        if (end > i) add_chain(plan, i, end);
        i = end > i ? end : i + 1;
    }
    mark_locals(plan, outputs, n_outputs);
}

static void extend_life(const vo_array *a, int end, int *last) {
    const vo_array *root = vo_array_root(a);
    if (!root->local && last[root->index] < end) last[root->index] = end;
}

void vo_extend_lives(const vo_plan *plan, int *last) {
    for (int i = 0; i < plan->n_steps; i++) {
        const vo_array *a = plan->steps[i];
        if (!a->chain) continue;
        const int end = a->chain->nodes[a->chain->n - 1]->index;
        extend_life(a, end, last);
        for (int k = 0; k < a->n_in; k++)
            if (a->in[k]) extend_life(a->in[k], end, last);
    }
}

vo_status vo_place_chains(vo_plan *plan, const int *last, vo_error *err) {
    vo_block *blocks = vo_alloc_array((size_t)plan->n_steps + 1, sizeof *blocks);
    vo_status status =
        blocks ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory to plan %d ops", plan->n_steps);
    for (int c = 0; status == VO_OK && c < plan->n_chains; c++) {
        vo_chain *chain = &plan->chains[c];
        size_t n = 0, workspace = 0;
        for (int i = 0; status == VO_OK && i < chain->n; i++) {
            vo_array *a = chain->nodes[i];
            if (a->workspace > workspace) workspace = a->workspace;
            if (!a->local || a->sliced) continue;
            blocks[n] = (vo_block){.begin = a->index, .end = last[a->index], .offset = &a->offset};
            if (!vo_block_bytes(a, chain->block, &blocks[n++].bytes))
                status = vo_fail(err, VO_ERR_LIMIT, "an intermediate result is too large");
        }
        if (status == VO_OK) status = vo_place_blocks(blocks, n, &chain->workspace, err);
        chain->bytes = chain->workspace;
        if (status == VO_OK &&
            (!vo_round_up(&workspace) || !vo_add_size(chain->bytes, workspace, &chain->bytes)))
            status = vo_fail(err, VO_ERR_LIMIT, "a chain of ops needs too much memory");
    }
    vo_free(blocks);
    return status;
}
