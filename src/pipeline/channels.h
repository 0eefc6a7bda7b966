/* SPDX-License-Identifier: MIT
 *
 * Recordings with a speaker in each channel: whether it is one, what comes over from one channel
 * into another, turns and transcripts.
 */
#ifndef VO_PIPELINE_CHANNELS_H
#define VO_PIPELINE_CHANNELS_H

#include "base/status.h"
#include "vocis.h"

/* left, right: [n_samples]. */
vo_status vo_channels_separate(vocis_engine *engine, const float *left, const float *right,
                               int64_t n_samples, bool *separate, vo_error *err);
/* Silences in each channel what comes over from another: where the loudest within 0.2 s is 10 dB or
 * more below the loudest within 0.2 s in another one. channels: [n_channels][n_samples], changed.
 */
vo_status vo_channels_gate(float *const *channels, int n_channels, int64_t n_samples,
                           vo_error *err);
/* As in vocis.h. *turns: vo_free. */
vo_status vo_channels_diarize(vocis_engine *engine, vocis_audio *channels, int n_channels,
                              vocis_turn **turns, int *n_turns, vo_error *err);
vo_status vo_transcribe_channels(vocis_session *session, vocis_audio *channels, int n_channels,
                                 const vocis_transcribe_params *params, vocis_result **result,
                                 vo_error *err);

#endif
