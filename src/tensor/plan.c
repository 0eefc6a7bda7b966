/* SPDX-License-Identifier: MIT
 *
 * From a recording to a plan: count uses, fuse, let results take over dying inputs, place the
 * rest in one arena by life time, resolve addresses, let backends prepare weights. The
 * order of execution is the order of recording.
 */
#include "base/memory.h"
#include "tensor/place.h"
#include "tensor/plan_internal.h"

static void count_uses(vo_graph *graph, vo_array *const *outputs, int n_outputs) {
    for (vo_array *a = vo_graph_first(graph); a; a = a->next) a->uses = 0;
    for (vo_array *a = vo_graph_first(graph); a; a = a->next)
        for (int i = 0; i < a->n_in; i++)
            if (a->in[i]) a->in[i]->uses++;
    for (int i = 0; i < n_outputs; i++) outputs[i]->uses++;
}

static bool is_leaf(const vo_array *a) {
    return a->op == VO_OP_WEIGHT || a->op == VO_OP_INPUT || a->op == VO_OP_STATE;
}
static bool is_dead(const vo_array *a) {
    return a->op == VO_OP_VIEW && a->n_in == 0;
}

/* Life time of each root: the last index at which anything in its memory is read. */
static void find_last_uses(vo_graph *graph, int *last, vo_array *const *outputs, int n_outputs) {
    size_t n = vo_graph_count(graph);
    for (size_t i = 0; i < n; i++) last[i] = -1;
    for (vo_array *a = vo_graph_first(graph); a; a = a->next) {
        if (is_dead(a)) continue;
        if (last[vo_array_root(a)->index] < a->index) last[vo_array_root(a)->index] = a->index;
        for (int i = 0; i < a->n_in; i++)
            if (a->in[i] && last[vo_array_root(a->in[i])->index] < a->index)
                last[vo_array_root(a->in[i])->index] = a->index;
    }
    for (int i = 0; i < n_outputs; i++) last[vo_array_root(outputs[i])->index] = (int)n;
}

/* Views share their input's memory; an op may write over an input that dies with it. */
static void share_memory(vo_graph *graph, int *last, vo_array *const *outputs, int n_outputs) {
    for (vo_array *a = vo_graph_first(graph); a; a = a->next)
        if (a->op == VO_OP_VIEW && a->n_in)
            a->base = a->in[0];
        else if (a->op == VO_OP_kv_store)
            a->base = a->in[0];
    find_last_uses(graph, last, outputs, n_outputs);
    for (vo_array *a = vo_graph_first(graph); a; a = a->next) {
        int d = is_leaf(a) || a->base != a ? -1 : vo_op_donor(a->op);
        if (d < 0 || d >= a->n_in || !a->in[d]) continue;
        vo_array *donor = a->in[d], *owner = vo_array_root(donor);
        bool whole = !is_leaf(owner) && donor->row_stride == a->row_stride && donor->offset == 0 &&
                     owner->shape[0] == a->shape[0] &&
                     vo_array_columns(owner) == vo_array_columns(a) && donor->op != VO_OP_VIEW;
        if (!whole || last[owner->index] != a->index) continue;
        /* The other operands must not live in that memory. */
        bool clash = false;
        for (int i = 0; i < a->n_in; i++)
            if (i != d && a->in[i] && vo_array_root(a->in[i]) == owner) clash = true;
        if (clash) continue;
        int end = last[a->index];
        a->base = donor;
        if (last[owner->index] < end) last[owner->index] = end;
    }
}

/* Blocks for everything that needs memory: results, inputs (written before the run, so in use
 * from the start), and the workspace of each op, which lives for one step. */
static vo_status collect_blocks(vo_plan *plan, const int *last, vo_block *blocks, size_t *n,
                                vo_error *err) {
    *n = 0;
    for (vo_array *a = vo_graph_first(plan->graph); a; a = a->next) {
        vo_block block = {.begin = a->chain ? a->chain->nodes[0]->index : a->index,
                          .end = last[a->index],
                          .offset = &a->offset};
        bool owns = a->base == a && !is_dead(a) && a->op != VO_OP_WEIGHT && a->op != VO_OP_STATE &&
                    !a->local;
        vo_block scratch = {.bytes = a->chain ? 0 : a->workspace,
                            .begin = a->index,
                            .end = a->index,
                            .offset = &a->workspace_offset};
        if ((owns && !vo_block_bytes(a, a->shape[0], &block.bytes)) || !vo_round_up(&scratch.bytes))
            return vo_fail(err, VO_ERR_LIMIT, "%s: an intermediate result is too large",
                           vo_op_name(a->op));
        if (a->op == VO_OP_INPUT) block.begin = -1;
        if (owns && block.bytes) blocks[(*n)++] = block;
        if (scratch.bytes) blocks[(*n)++] = scratch;
        if (owns) plan->stats.naive_bytes += block.bytes;
        if (plan->stats.workspace_bytes < scratch.bytes)
            plan->stats.workspace_bytes = scratch.bytes;
    }
    for (int i = 0; i < plan->n_chains; i++) {
        vo_chain *c = &plan->chains[i];
        vo_block block = {
            .begin = c->nodes[0]->index, .end = c->nodes[c->n - 1]->index, .offset = &c->offset};
        if (!vo_mul_size(c->bytes, (size_t)c->threads, &block.bytes))
            return vo_fail(err, VO_ERR_LIMIT, "a chain of ops needs too much memory");
        if (block.bytes) blocks[(*n)++] = block;
    }
    return VO_OK;
}

static vo_status place(vo_plan *plan, const int *last, vo_error *err) {
    size_t n = vo_graph_count(plan->graph);
    vo_block *blocks = vo_alloc_array(n, 3 * sizeof *blocks);
    if (!blocks) return vo_fail(err, VO_ERR_MEMORY, "no memory to plan %zu ops", n);
    vo_status status = collect_blocks(plan, last, blocks, &n, err);
    if (status == VO_OK) status = vo_place_blocks(blocks, n, &plan->stats.arena_bytes, err);
    vo_free(blocks);
    if (status != VO_OK) return status;
    plan->arena = vo_alloc_uninitialized(plan->stats.arena_bytes);
    if (!plan->arena)
        return vo_fail(err, VO_ERR_MEMORY, "no memory for %zu bytes of activations",
                       plan->stats.arena_bytes);
    return VO_OK;
}

static void resolve(vo_plan *plan) {
    for (vo_array *a = vo_graph_first(plan->graph); a; a = a->next) {
        if (is_dead(a) || a->op == VO_OP_WEIGHT || vo_array_root(a)->local) continue;
        if (a->op == VO_OP_STATE)
            a->data = vo_buffer_data(a->buffer);
        else if (a->op == VO_OP_VIEW)
            a->data = (float *)a->in[0]->data + a->offset;
        else if (a->base != a)
            a->data = a->base->data;
        else
            a->data = plan->arena + a->offset;
    }
}

static vo_status collect_steps(vo_plan *plan, vo_error *err) {
    for (vo_array *a = vo_graph_first(plan->graph); a; a = a->next) {
        if (is_leaf(a) || a->op == VO_OP_VIEW) continue;
        if (!plan->runtime.streams[a->stream])
            return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: this build has no such stream",
                           vo_op_name(a->op));
        plan->steps[plan->n_steps++] = a;
    }
    plan->stats.executed = plan->n_steps;
    return VO_OK;
}

static vo_status prepare(vo_plan *plan, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; i < plan->n_steps && status == VO_OK; i++) {
        vo_array *a = plan->steps[i];
        vo_backend *backend = plan->runtime.streams[a->stream];
        status = backend->vtable->prepare(backend, a, &a->workspace, err);
    }
    return status;
}

/* The smallest capacity over all arrays that a parameter sizes. */
static void find_limits(vo_plan *plan) {
    for (int p = 0; p < VO_PARAM_COUNT; p++) plan->limit[p] = INT64_MAX;
    for (vo_array *a = vo_graph_first(plan->graph); a; a = a->next) {
        if (a->rows_param < 0 || a->rows_unit <= 0) continue;
        int64_t limit = a->shape[0] / a->rows_unit;
        if (limit < plan->limit[a->rows_param]) plan->limit[a->rows_param] = limit;
    }
}

vo_status vo_plan_create(const vo_runtime *runtime, vo_graph *graph, vo_array *const *outputs,
                         int n_outputs, vo_plan_params params, vo_plan **out, vo_error *err) {
    vo_status status = vo_graph_status(graph, err);
    size_t n = vo_graph_count(graph);
    vo_plan *plan = status == VO_OK ? vo_alloc(sizeof *plan) : NULL;
    int *last = plan ? vo_alloc_array(n, sizeof *last) : NULL;
    if (plan) plan->steps = vo_alloc_array(n, sizeof(vo_array *));
    if (plan) plan->chains = vo_alloc_array(n, sizeof *plan->chains);
    if (!plan || !last || !plan->steps || !plan->chains) {
        if (status == VO_OK) status = vo_fail(err, VO_ERR_MEMORY, "no memory for a plan");
        if (plan) vo_free(plan->steps);
        if (plan) vo_free(plan->chains);
        vo_free(plan);
        vo_free(last);
        vo_graph_destroy(graph);
        return status;
    }
    plan->graph = graph;
    plan->runtime = *runtime;
    plan->observer = params.observer;
    for (int i = 0; i < n_outputs; i++)
        if (!outputs[i] || outputs[i]->op == VO_OP_WEIGHT)
            status = vo_fail(err, VO_ERR_ARGUMENT, "an output of the plan is missing or a weight");
    if (status == VO_OK) {
        count_uses(graph, outputs, n_outputs);
        for (vo_array *a = vo_graph_first(graph); a; a = a->next)
            plan->stats.recorded += !is_leaf(a) && a->op != VO_OP_VIEW;
        if (!params.no_fusion) vo_fuse(graph, outputs, n_outputs);
        share_memory(graph, last, outputs, n_outputs);
        find_limits(plan);
        status = collect_steps(plan, err);
    }
    if (status == VO_OK) {
        if (!params.no_fusion && !params.observer.see) vo_find_chains(plan, outputs, n_outputs);
        vo_extend_lives(plan, last);
        status = prepare(plan, err);
    }
    if (status == VO_OK) status = vo_place_chains(plan, last, err);
    if (status == VO_OK) status = place(plan, last, err);
    if (status == VO_OK) resolve(plan);
    vo_free(last);
    if (status != VO_OK)
        vo_plan_destroy(plan);
    else
        *out = plan;
    return status;
}

void vo_plan_destroy(vo_plan *plan) {
    if (!plan) return;
    vo_graph_destroy(plan->graph);
    vo_free(plan->steps);
    vo_free(plan->chains);
    vo_free(plan->arena);
    vo_free(plan);
}

void *vo_plan_data(const vo_plan *plan, const vo_array *array) {
    return array->data;
}
vo_plan_stats vo_plan_get_stats(const vo_plan *plan) {
    return plan->stats;
}
