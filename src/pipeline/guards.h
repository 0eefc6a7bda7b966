/* SPDX-License-Identifier: MIT
 *
 * Signs that text was invented: it goes round in a loop, stands where nobody speaks, or is more
 * than anybody could have said.
 */
#ifndef VO_PIPELINE_GUARDS_H
#define VO_PIPELINE_GUARDS_H

#include "pipeline/result.h"
#include "pipeline/speech.h"
#include "text/tokenizer.h"

/* tokens[from, from + period) come `times` times in a row. */
typedef struct vo_loop {
    int from, period, times;
} vo_loop;

/* The repetition that holds most tokens, if it is one that people do not speak: three times a long
 * phrase, more often a short one. */
bool vo_loop_find(const int32_t *tokens, int n, vo_loop *loop);

/* Whether the voice says something so many times between two times: stretches of speech between
 * pauses, whose lengths come again as often. */
bool vo_loop_is_spoken(const vo_voice *voice, double start, double end, int times);

/* Whether a segment stands where nobody speaks and is not supported by what the model says of it
 * either, or where there is no sound at all. */
bool vo_guard_is_unspoken(const vocis_segment *segment, const vo_voice *voice);

/* How much can be said in a second is counted in these: tokens hold more of one language than of
 * another. */
int vo_guard_characters(const vocis_segment *segment);

/* Whether it holds more text than can be said while a voice is heard there, and the model doubts
 * it. */
bool vo_guard_is_too_fast(const vocis_segment *segment, const vo_voice *voice);

/* Whether the first segment of a window that begins at `seek` seconds says what the text before the
 * window ends with, before[0, n_before), while there is less speech than those words need: it is
 * the rest of a sentence that the window before has whole. */
bool vo_guard_is_echo(const vocis_segment *segment, const int32_t *before, int n_before,
                      int32_t first_special, double seek, const vo_voice *voice);

/* Removes such segments (but echoes), and what repeats itself within one or from one to the next.
 * Notes what went. */
vo_status vo_guard_segments(vocis_result *result, const vo_voice *voice,
                            const vo_tokenizer *tokenizer, vo_error *err);

/* Words that begin in a pause of more than half a second begin where the voice does within them:
 * after a pause the model is early, by up to two seconds. Words that fill such a pause, longer than
 * words are, share the time from there to the end of the last. With a first word its segment. */
void vo_guard_starts(vocis_result *result, const vo_voice *voice);

/* Whether all words of a segment, or most in a row, stand in others near its time: it is the same
 * speech. */
bool vo_guard_is_said(const vocis_segment *segment, const vocis_segment *others, int n);

#endif
