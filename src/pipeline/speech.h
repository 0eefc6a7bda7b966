/* SPDX-License-Identifier: MIT
 *
 * Where somebody speaks: Silero's probabilities turned into spans.
 */
#ifndef VO_PIPELINE_SPEECH_H
#define VO_PIPELINE_SPEECH_H

#include "base/status.h"
#include "vocis.h"

/* *spans: vo_free. */
vo_status vo_detect_speech(vocis_engine *engine, const float *samples, int64_t n_samples,
                           const vocis_speech_params *params, vocis_span **spans, int *n_spans,
                           vo_error *err);

#endif
