/* SPDX-License-Identifier: MIT
 *
 * Chunks are filled greedily: every one costs a whole window, however much silence it holds.
 */
#include "pipeline/chunks.h"

#include "base/memory.h"
#include "pipeline/speech.h"

#include <math.h>

/* Short pauses are enough to cut at; the padding keeps the ends of words. */
enum { PAUSE_MS = 160, PAD_MS = 400 };

vo_status vo_chunks_merge(const vocis_span *spans, int n_spans, int64_t max_frames,
                          int64_t **chunks, int *n, vo_error *err) {
    *chunks = NULL;
    *n = 0;
    if (n_spans == 0) return VO_OK;
    int64_t *c = vo_alloc_array((size_t)n_spans * 2, sizeof *c);
    if (!c) return vo_fail(err, VO_ERR_MEMORY, "no memory for %d spans of speech", n_spans);
    int count = 0;
    for (int i = 0; i < n_spans; i++) {
        int64_t begin = (int64_t)floor(spans[i].start * 100),
                end = (int64_t)ceil(spans[i].end * 100);
        if (count > 0 && begin < c[2 * count - 1]) begin = c[2 * count - 1]; /* by rounding */
        if (count > 0 && end - c[2 * count - 2] <= max_frames) {
            c[2 * count - 1] = end;
        } else if (end > begin) {
            c[2 * count] = begin;
            c[2 * count + 1] = end;
            count++;
        }
    }
    *chunks = c;
    *n = count;
    return VO_OK;
}

vo_status vo_chunks_find(vocis_engine *engine, const float *samples, int64_t n_samples,
                         int64_t max_frames, int64_t **chunks, int *n, vo_error *err) {
    vocis_speech_params params = {.threshold = 0.5f,
                                  .min_silence_ms = PAUSE_MS,
                                  .speech_pad_ms = PAD_MS,
                                  .max_speech_seconds = (float)max_frames / 100};
    vocis_span *spans = NULL;
    int n_spans = 0;
    *chunks = NULL;
    *n = 0;
    vo_status status = vo_detect_speech(engine, samples, n_samples, &params, &spans, &n_spans, err);
    if (status == VO_OK) status = vo_chunks_merge(spans, n_spans, max_frames, chunks, n, err);
    vo_free(spans);
    return status;
}
