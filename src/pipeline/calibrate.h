/* SPDX-License-Identifier: MIT
 *
 * What a model's layers are given while it listens to recordings.
 */
#ifndef VO_PIPELINE_CALIBRATE_H
#define VO_PIPELINE_CALIBRATE_H

#include "models/whisper/moments.h"
#include "vocis.h"

/* Loads the model at `path` in f32, transcribes the files (ended by NULL, at least one) greedily
 * and gathers the moments of the inputs of its linear layers: *moments is to be destroyed. An input
 * that cannot be read or holds no sound is an error that names it. params: progress alone counts.
 */
vo_status vo_calibrate(vocis_engine *engine, const char *path, const char *const *files,
                       const vocis_convert_params *params, vo_whisper_moments **moments,
                       vo_error *err);

#endif
