/* SPDX-License-Identifier: MIT
 *
 * Where the language changes within a window. The speech of the window is cut into parts of up to
 * 3 s, the decoder says for each which languages it may be, and of all sequences of languages the
 * likeliest counts, where each change has a price: a short part by itself is not reliable.
 */
#ifndef VO_PIPELINE_CODESWITCH_H
#define VO_PIPELINE_CODESWITCH_H

#include "pipeline/track.h"

/* After the track's window is encoded: sets its language. Where another one begins within it, the
 * window ends there, and is encoded again without the rest. */
vo_status vo_codeswitch_window(vo_track *track, vo_error *err);

/* ---- the rules alone: no network ------------------------------------------------------------ */

enum { VO_CODESWITCH_PARTS = 32 };

/* Parts of the speech between two times, in order; returns how many. */
int vo_codeswitch_parts(const vo_voice *voice, double from, double to,
                        vocis_span parts[VO_CODESWITCH_PARTS]);

/* What a change costs, in log-probability, when these languages are possible. */
double vo_codeswitch_price(const vo_language_set *set);

/* The likeliest languages of n parts, path[n]. logprobs: [n][VO_MAX_LANGUAGES], of which those of
 * the set count; weights: [n], of each part; initial: [VO_MAX_LANGUAGES] log-probability of a
 * beginning in each, 0: for nothing. */
void vo_codeswitch_path(const float (*logprobs)[VO_MAX_LANGUAGES], const double *weights, int n,
                        const vo_language_set *set, const double *initial, int *path);

#endif
