/* SPDX-License-Identifier: MIT
 *
 * What a transcript covers of the speech that the voice detector hears.
 */
#ifndef VO_PIPELINE_COVERAGE_H
#define VO_PIPELINE_COVERAGE_H

#include "pipeline/result.h"
#include "pipeline/speech.h"

/* Seconds; a longer word was stretched over what lies before or behind it. */
#define VO_LONGEST_WORD 2.0

/* Where text stands: the segments' times, or those of their words joined over short pauses, where
 * they have any. Merged and ascending. *spans: vo_free. */
vo_status vo_text_spans(const vocis_segment *segments, int n, vocis_span **spans, int *n_spans,
                        vo_error *err);

/* Seconds between two times where text stands. */
vo_status vo_text_seconds(const vocis_segment *segments, int n, double start, double end,
                          double *seconds, vo_error *err);

/* Stretches of speech, or of loud sound, between two times that no segment covers, long enough to
 * hold a word; close ones are joined as long as one window can hold them. *holes: vo_free. */
vo_status vo_holes_find(const vo_voice *voice, const vocis_segment *segments, int n, double from,
                        double to, vocis_span **holes, int *n_holes, vo_error *err);

/* Accounts for every second of the input: fills the result's account and coverage. voice: NULL when
 * nobody listened. asked: [n_asked] the parts that were to be read, ascending; reached: the time up
 * to which they were. */
vo_status vo_account(vocis_result *result, const vo_voice *voice, const vocis_span *asked,
                     int n_asked, double reached, vo_error *err);
const char *vo_cover_name(vocis_cover cover);

#endif
