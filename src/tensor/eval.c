/* SPDX-License-Identifier: MIT
 *
 * The one scheduler: the only place where anything is executed. It walks the plan's steps and
 * hands each to the backend of its stream; returning is the barrier.
 */
#include "tensor/plan_internal.h"

void vo_plan_set(vo_plan *plan, int param, int64_t value) {
    if (param >= 0 && param < VO_PARAM_COUNT) plan->params[param] = value;
}

vo_status vo_plan_run(vo_plan *plan, vo_error *err) {
    for (int p = 0; p < VO_PARAM_COUNT; p++)
        if (plan->params[p] < 0 || plan->params[p] > plan->limit[p])
            return vo_fail(err, VO_ERR_ARGUMENT, "%lld rows exceed the plan's %lld",
                           (long long)plan->params[p], (long long)plan->limit[p]);
    for (int i = 0; i < plan->n_steps; i++) {
        const vo_array *node = plan->steps[i];
        vo_backend *backend = plan->runtime.streams[node->stream];
        if (node->chain) {
            const vo_chain *chain = node->chain;
            backend->vtable->run_chain(backend, chain, vo_array_rows(node, plan->params),
                                       plan->arena + chain->offset);
            i += chain->n - 1;
            continue;
        }
        backend->vtable->run(backend, node, plan->params, plan->arena + node->workspace_offset);
        if (plan->observer.see)
            plan->observer.see(plan->observer.user, node,
                               vo_array_rows(vo_array_worked_rows(node), plan->params));
    }
    return VO_OK;
}

vo_status vo_eval(const vo_runtime *runtime, vo_graph *graph, vo_array *const *outputs,
                  int n_outputs, vo_plan **plan, vo_error *err) {
    vo_status status =
        vo_plan_create(runtime, graph, outputs, n_outputs, (vo_plan_params){0}, plan, err);
    if (status != VO_OK) return status;
    for (int p = 0; p < VO_PARAM_COUNT; p++)
        if ((*plan)->limit[p] != INT64_MAX) vo_plan_set(*plan, p, (*plan)->limit[p]);
    status = vo_plan_run(*plan, err);
    if (status != VO_OK) {
        vo_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}
