/* SPDX-License-Identifier: MIT
 *
 * Running the tracks of an input on the workers of a session.
 */
#ifndef VO_PIPELINE_RUN_H
#define VO_PIPELINE_RUN_H

#include "pipeline/chunks.h"
#include "pipeline/track.h"

typedef struct vo_run {
    const vo_track_plan *plan;
    vocis_result *result;
    const vo_chunk *chunks; /* [n_tracks]; NULL: one track over the clips */
    int n_tracks;
    const int64_t *clips; /* [n_clips][2], in frames */
    int n_clips;
} vo_run;

/* Segments reach the result, and the callbacks of the plan's parameters, on the calling thread and
 * in the order of the input. After a failure the result has what was done before it. */
vo_status vo_run_tracks(const vo_run *run, vo_error *err);

#endif
