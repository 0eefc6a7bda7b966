/* SPDX-License-Identifier: MIT
 *
 * What a transcription gives: segments that grow while it runs.
 */
#ifndef VO_PIPELINE_RESULT_H
#define VO_PIPELINE_RESULT_H

#include "base/memory.h"
#include "base/status.h"
#include "text/tokenizer.h"
#include "vocis.h"

struct vocis_result {
    vocis_segment *segments;
    int n_segments, capacity;
    char *text;           /* all segments joined, stripped of outer blanks; "" until finished */
    const char *language; /* code, static */
    float language_probability;
    bool language_detected;
    double foreign[VO_MAX_LANGUAGES]; /* seconds of speech of windows in another language */
    vocis_task task;
    double duration;
    vocis_timings timings;
    size_t peak_bytes;
    double reached; /* seconds up to which all was read */
    vocis_account *account;
    int n_account;
    vocis_coverage coverage;
    vocis_removed *removed;
    int n_removed;
    vocis_transcribe_params settings; /* pointers in it are not kept */
};

vocis_result *vo_result_create(void);
/* Copies text, tokens, logprobs and words. Sets id. */
vo_status vo_result_add(vocis_result *result, const vocis_segment *segment, vo_error *err);
/* Moves all segments of `from` behind those of `result`, and what was removed too, which leaves
 * `from` without any. */
vo_status vo_result_move(vocis_result *result, vocis_result *from, vo_error *err);
/* Segments from index `from` on in the order of their times. */
void vo_result_sort(vocis_result *result, int from);
/* Why text is taken back: static names, and their index. Those out of range count as the first. */
typedef enum vo_removal {
    VO_REMOVED_LOOP,
    VO_REMOVED_UNSPOKEN,
    VO_REMOVED_MISPLACED,
    VO_REMOVED_TOO_FAST,
    VO_REMOVED_SCRIPT
} vo_removal;
const char *vo_removal_reason(int index);
int vo_removal_find(const char *reason);
vo_status vo_result_note_removed(vocis_result *result, double start, double end, const char *text,
                                 const char *reason, vo_error *err);
/* Notes from index `from` on go. */
void vo_result_forget_removed(vocis_result *result, int from);
/* Takes a segment back; remove also notes why. */
void vo_result_drop(vocis_result *result, int index);
vo_status vo_result_remove(vocis_result *result, int index, vo_removal why, vo_error *err);
/* Keeps the first n_tokens of a segment, which read as text (copied) and end then, and notes why.
 */
vo_status vo_result_shorten(vocis_result *result, int index, int n_tokens, const char *text,
                            double end, vo_removal why, vo_error *err);
/* What is counted, not what is timed. */
void vo_counts_add(vocis_timings *to, const vocis_timings *from);
/* Segments and text. */
void vo_result_swap(vocis_result *a, vocis_result *b);
vo_status vo_result_finish(vocis_result *result, vo_error *err);
void vo_result_destroy(vocis_result *result);

/* write.c */
vo_status vo_result_write(const vocis_result *result, const char *format, vocis_write_params params,
                          char **document, size_t *size, vo_error *err);

#endif
