/* SPDX-License-Identifier: MIT
 *
 * Segments and words laid out as cues: what is shown at once, in which lines, from when to when.
 *
 * Without rules every segment is one cue of one line. With the rules of openai-whisper alone the
 * cues are those of its writers (whisper/utils.py), which count characters and never cut a word.
 * With a rule of our own, or a style, cues are chosen as a whole so that they end where sentences
 * and clauses do, lines are measured in columns, and what cannot all be had is given up in this
 * order, last first:
 *
 *   1. all text is there once, in order; times never run backwards, cues never overlap
 *   2. one speaker a cue; a cue does not span a pause of 3 s
 *   3. max_line_width (only a single wider character goes over), max_line_count,
 *      max_words_per_line
 *   4. max_duration
 *   5. min_gap (a cue that would have no time left keeps it up to the next one)
 *   6. min_duration and max_chars_per_second: by extending a cue into the pause after it, else
 *      by where cues are split
 *   7. cues end with sentences, then clauses; fewer cues; cues and lines of even length
 *
 * Where there are no words, a segment's time is shared out evenly over its characters.
 */
#ifndef VO_PIPELINE_SUBTITLES_H
#define VO_PIPELINE_SUBTITLES_H

#include "pipeline/result.h"
#include "text/lines.h"

/* What no line break divides: mostly a word. */
typedef struct vo_unit {
    const char *text;          /* [size] clean UTF-8 on one line, without outer blanks */
    size_t size, lead;         /* lead: bytes of blanks right before text */
    int columns, lead_columns; /* by openai-whisper's rules: characters */
    double start, end;         /* seconds */
    int segment, speaker;
    bool begins_word;
    bool label;   /* the speaker is named before it; counted in columns */
    bool newline; /* it begins a line of its cue, but not the first */
    vo_stop stop; /* what ends with it */
} vo_unit;

typedef struct vo_cue {
    int first, n;       /* units; n > 0 */
    int64_t start, end; /* milliseconds */
} vo_cue;

typedef struct vo_subtitles {
    vo_unit *units;
    vo_cue *cues;
    int n_units, n_cues;
    vo_buf text; /* of the units */
} vo_subtitles;

/* Whether there is a style of this name; NULL is the default one. */
bool vo_subtitle_style_known(const char *name);
/* labels: whether speakers are named in the text where they change. False when memory is short.
 * Destroy in any case. */
bool vo_subtitles_create(const vocis_result *result, const vocis_write_params *params, bool labels,
                         vo_subtitles *out);
void vo_subtitles_destroy(vo_subtitles *subtitles);

#endif
