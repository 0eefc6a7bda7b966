/* SPDX-License-Identifier: MIT
 *
 * Which languages an input may have, and which it has as a whole. codeswitch.h tells them apart
 * within a window.
 */
#ifndef VO_PIPELINE_LANGUAGE_H
#define VO_PIPELINE_LANGUAGE_H

#include "pipeline/track.h"

/* What params.language or params.languages allow this model: VO_ERR_ARGUMENT for both at once, and
 * for a language that is not known. Without either: every language that the model knows. */
vo_status vo_language_allow(const vocis_transcribe_params *params, const vo_whisper_ids *ids,
                            vo_language_set *set, vo_error *err);
/* The only one of a set, or -1. */
int vo_language_only(const vo_language_set *set);

/* Shares of probabilities [VO_MAX_LANGUAGES] among those allowed; returns the best. */
int vo_language_restrict(float *probabilities, const vo_language_set *set);

/* The language of an input, *index, that has most likely so much probability. From its first
 * window; if that is not sure, or holds no speech, from up to three more that do, spread over the
 * rest. voice NULL: the first window decides. Lane 0 of the session listens. */
vo_status vo_language_of_input(const vo_track_plan *plan, const vo_voice *voice, int *index,
                               float *probability, vo_error *err);

#endif
