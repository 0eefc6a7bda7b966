/* SPDX-License-Identifier: MIT
 *
 * Cutting the input at pauses into stretches of at most one window.
 */
#ifndef VO_PIPELINE_CHUNKS_H
#define VO_PIPELINE_CHUNKS_H

#include "pipeline/speech.h"

/* In frames of 10 ms. Nobody speaks before the first, between two, and after the last one; the last
 * `quiet` frames of a chunk hold no speech either. */
typedef struct vo_chunk {
    int64_t start, end, quiet;
} vo_chunk;

/* Cuts in as few chunks of at most max_frames as whole stretches of speech allow, and among those
 * at the longest pauses. Speech that goes on for longer is cut where the voice detector cuts it.
 * *chunks is fresh memory (vo_free), NULL and *n = 0 when nobody speaks. */
vo_status vo_chunks_find(const vo_voice *voice, int64_t max_frames, vo_chunk **chunks, int *n,
                         vo_error *err);

/* The same from stretches of speech, in seconds, ascending and apart. */
vo_status vo_chunks_merge(const vocis_span *spans, int n_spans, double duration, int64_t max_frames,
                          vo_chunk **chunks, int *n, vo_error *err);

#endif
