/* SPDX-License-Identifier: MIT
 *
 * What plan.c makes and eval.c runs.
 */
#ifndef VO_TENSOR_PLAN_INTERNAL_H
#define VO_TENSOR_PLAN_INTERNAL_H

#include "tensor/plan.h"

struct vo_plan {
    vo_graph *graph;
    vo_runtime runtime;
    vo_array **steps; /* what runs, in order */
    int n_steps;
    unsigned char *arena;
    int64_t params[VO_PARAM_COUNT];
    int64_t limit[VO_PARAM_COUNT]; /* most units each parameter may ask for */
    vo_plan_stats stats;
};

#endif
