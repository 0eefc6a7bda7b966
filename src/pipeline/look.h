/* SPDX-License-Identifier: MIT
 *
 * Second looks at speech that a window's segments leave out. All of it works on the pending
 * segments of a track whose plan has a voice.
 */
#ifndef VO_PIPELINE_LOOK_H
#define VO_PIPELINE_LOOK_H

#include "pipeline/track.h"

/* Removes what looks invented, and of a second look what is not likely or not new. */
vo_status vo_look_judge(vo_track *track, vo_error *err);
/* Fills the track's holes: speech of this window that its segments leave out; in a hole, speech of
 * that hole. */
vo_status vo_look_find_holes(vo_track *track, vo_error *err);
/* Where the speech of a hole begins, behind the text that is there. */
double vo_look_onset(const vo_track *track, double start);
/* Removes sentences that a second look has found where they belong. */
vo_status vo_look_drop_misplaced(vo_track *track, vo_error *err);
/* Ends words where a second look has found text that they were stretched over. */
void vo_look_unstretch(vo_track *track);

#endif
