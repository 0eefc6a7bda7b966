/* SPDX-License-Identifier: MIT
 *
 * Who speaks when, and how that goes into a result.
 */
#ifndef VO_PIPELINE_DIARIZE_H
#define VO_PIPELINE_DIARIZE_H

#include "base/status.h"
#include "vocis.h"

vocis_diarize_params vo_diarize_default_params(void);
/* By voice: speech, windows of 1.6 s in it, a vector for each (models/ge2e), clusters of vectors.
 * *turns: vo_free; in order of time, speakers numbered by first appearance. Thread safe. */
vo_status vo_diarize(vocis_engine *engine, const float *samples, int64_t n_samples,
                     const vocis_diarize_params *params, vocis_turn **turns, int *n_turns,
                     vo_error *err);

/* speakers.c: words and segments get the speaker whose turns cover most of them, or, outside of
 * all turns, that of the nearest turn if it is not further than 2 s. Where words are known, a
 * segment is cut where the speaker changes; its parts have no tokens. */
vo_status vo_assign_speakers(vocis_result *result, const vocis_turn *turns, int n_turns,
                             vo_error *err);

#endif
