/* SPDX-License-Identifier: MIT
 *
 * What plan.c makes and eval.c runs.
 */
#ifndef VO_TENSOR_PLAN_INTERNAL_H
#define VO_TENSOR_PLAN_INTERNAL_H

#include "base/memory.h"
#include "tensor/plan.h"

struct vo_plan {
    vo_graph *graph;
    vo_runtime runtime;
    vo_array **steps; /* what runs, in order */
    int n_steps;
    vo_chain *chains; /* [n_steps], in order */
    int n_chains;
    vo_observer observer;
    unsigned char *arena;
    int64_t params[VO_PARAM_COUNT];
    int64_t limit[VO_PARAM_COUNT]; /* most units each parameter may ask for */
    vo_plan_stats stats;
};

/* Bytes to the next multiple of VO_ALIGN; false on overflow. */
static inline bool vo_round_up(size_t *bytes) {
    if (!vo_add_size(*bytes, VO_ALIGN - 1, bytes)) return false;
    *bytes = *bytes / VO_ALIGN * VO_ALIGN;
    return true;
}
/* Bytes of `rows` rows of an intermediate result, whose elements have four. */
static inline bool vo_block_bytes(const vo_array *a, int64_t rows, size_t *bytes) {
    return vo_mul_size((size_t)rows, (size_t)a->row_stride, bytes) &&
           vo_mul_size(*bytes, 4, bytes) && vo_round_up(bytes);
}

/* chain.c: finds the chains among the steps and marks their nodes and local arrays. */
void vo_find_chains(vo_plan *plan, vo_array *const *outputs, int n_outputs);
/* Nothing that a chain touches may give its memory away before the chain ends. */
void vo_extend_lives(const vo_plan *plan, int *last);
/* Places the local arrays of every chain, once its nodes are prepared. */
vo_status vo_place_chains(vo_plan *plan, const int *last, vo_error *err);

#endif
