/* SPDX-License-Identifier: MIT
 *
 * Speculative decoding in a session: what each lane has for it, and when it is used. The method is
 * decode/speculate.h.
 */
#ifndef VO_PIPELINE_AHEAD_H
#define VO_PIPELINE_AHEAD_H

#include "pipeline/track.h"

/* Checks what the parameters ask for, and notes it in the session. */
vo_status vo_ahead_configure(vocis_session *session, const vocis_session_params *params,
                             vo_error *err);
/* Most tokens proposed at a time for one window; 0: none. */
int vo_ahead_tokens(const vocis_session *session);
/* Of one worker, before its lanes; frees nothing on failure, vo_ahead_end does. */
vo_status vo_ahead_begin(vo_worker *worker, vo_error *err);
vo_status vo_ahead_begin_lane(vo_lane *lane, vo_error *err);
void vo_ahead_end(vo_worker *worker);

/* A new window of the lane, these frames of the spectrogram: decides whether proposals are made for
 * it. */
vo_status vo_ahead_listen(const vo_track_plan *plan, vo_lane *lane, int64_t from, int64_t count,
                          vo_error *err);
/* What the decoder takes in this window; NULL: plain steps. */
vo_speculator *vo_ahead_speculator(vo_lane *lane);
/* The first attempt at a window is over. */
void vo_ahead_learn(vo_lane *lane, int n_tokens);

#endif
