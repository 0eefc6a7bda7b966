/* SPDX-License-Identifier: MIT
 *
 * Cutting the input at pauses into stretches of at most one window.
 */
#ifndef VO_PIPELINE_CHUNKS_H
#define VO_PIPELINE_CHUNKS_H

#include "pipeline/engine.h"

/* Pairs of frames (10 ms), ascending: what lies between them is silence. As much speech goes into
 * one chunk of at most max_frames as fits whole; speech without a pause is cut where the voice
 * detector cuts it. *chunks is fresh memory (vo_free), NULL and *n = 0 when nobody speaks. */
vo_status vo_chunks_find(vocis_engine *engine, const float *samples, int64_t n_samples,
                         int64_t max_frames, int64_t **chunks, int *n, vo_error *err);

/* The same from spans of speech in seconds, which do not overlap; for tests. */
vo_status vo_chunks_merge(const vocis_span *spans, int n_spans, int64_t max_frames,
                          int64_t **chunks, int *n, vo_error *err);

#endif
