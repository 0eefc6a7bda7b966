/* SPDX-License-Identifier: MIT
 *
 * A plan: one recorded graph, fused, ordered, with every intermediate placed in one arena.
 * Made once per shape bucket; running it allocates nothing. Positions, lengths and active
 * rows are inputs and parameters, so one plan serves every step of a decode.
 */
#ifndef VO_TENSOR_PLAN_H
#define VO_TENSOR_PLAN_H

#include "tensor/backend.h"
#include "tensor/graph.h"

typedef struct vo_plan vo_plan;

/* Sees every op after it ran, on the thread that runs the plan: its active rows, and what its
 * inputs and its result hold at `data`. An input that the result took over (ops.def: donor) is
 * gone. */
typedef struct vo_observer {
    void (*see)(void *user, const vo_array *node, int64_t rows); /* NULL: nobody looks */
    void *user;
} vo_observer;

typedef struct vo_plan_params {
    bool no_fusion; /* run every recorded op as it stands: how fusions are tested */
    /* Who is shown activations. Such a plan has no chains, in which they would not exist as a
     * whole; its results are the same bit for bit. */
    vo_observer observer;
} vo_plan_params;

/* Takes the graph over (also on failure). Inputs must be written before every run: their memory is
 * reused once they are read. The listed outputs keep theirs until the next run. One thread at a
 * time. */
vo_status vo_plan_create(const vo_runtime *runtime, vo_graph *graph, vo_array *const *outputs,
                         int n_outputs, vo_plan_params params, vo_plan **plan, vo_error *err);
void vo_plan_destroy(vo_plan *plan);

/* Where an input is to be written or an output can be read; fixed for the plan's life. */
void *vo_plan_data(const vo_plan *plan, const vo_array *array);
/* Row stride of an output in elements is array->row_stride. */

void vo_plan_set(vo_plan *plan, int param, int64_t value);
/* Runs everything in order and returns when it is done. VO_ERR_ARGUMENT when a parameter
 * exceeds the capacity the graph was recorded for. */
vo_status vo_plan_run(vo_plan *plan, vo_error *err);

/* Makes a plan, runs it once. The results live until the plan is destroyed. */
vo_status vo_eval(const vo_runtime *runtime, vo_graph *graph, vo_array *const *outputs,
                  int n_outputs, vo_plan **plan, vo_error *err);

typedef struct vo_plan_stats {
    int recorded, executed; /* ops before and after fusion */
    size_t arena_bytes;     /* one block for all intermediates and workspaces */
    size_t naive_bytes;     /* what they would take side by side */
    size_t workspace_bytes; /* largest of one op */
} vo_plan_stats;
vo_plan_stats vo_plan_get_stats(const vo_plan *plan);

/* fuse.c: the listed fusions, in place; returns how many nodes they removed. */
int vo_fuse(vo_graph *graph, vo_array *const *outputs, int n_outputs);

#endif
