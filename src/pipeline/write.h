/* SPDX-License-Identifier: MIT
 *
 * What the writers of documents share: one function a format, and text made fit for it. All append
 * to `out`; where memory is short, out->failed says so.
 */
#ifndef VO_PIPELINE_WRITE_H
#define VO_PIPELINE_WRITE_H

#include "pipeline/result.h"

typedef void vo_write_fn(vo_buf *out, const vocis_result *result, const vocis_write_params *params);
vo_write_fn vo_write_json;                            /* write_json.c */
vo_write_fn vo_write_srt, vo_write_vtt, vo_write_lrc; /* write_cues.c */

/* What a format cannot hold in a text. Controls become blanks in all of them. */
typedef enum vo_escape {
    VO_PLAIN,
    VO_ARROWS,   /* "-->" and longer ones, which separate times, become "->" */
    VO_MARKUP,   /* the same, and & < > */
    VO_QUOTES,   /* doubles them */
    VO_BRACKETS, /* [ ] become ( ): they hold the times of LRC, which has no escapes */
    VO_TAGS      /* the same, and < > become single angle quotes */
} vo_escape;
/* text: [size] valid UTF-8. */
void vo_put_text(vo_buf *out, const char *text, size_t size, vo_escape how);

/* Rounded to even as Python's round() does; 0 for what is not positive. */
int64_t vo_milliseconds(double seconds);

/* "Speaker 1", for people; speaker counts from 0. */
void vo_put_speaker(vo_buf *out, int speaker);

#endif
