/* SPDX-License-Identifier: MIT
 *
 * Times of words, as openai-whisper's timing.py (add_word_timestamps) and transcribe.py find and
 * use them. docs/models/whisper.md gives the rules in prose.
 */
#ifndef VO_PIPELINE_WORDS_H
#define VO_PIPELINE_WORDS_H

#include "pipeline/track.h"
#include "text/words.h"

/* A segment of a window before it is reported. */
typedef struct vo_draft_segment {
    int from, to; /* tokens of what was decoded */
    int n_text;   /* of them: text */
    double start, end;
    vocis_word *words; /* [n_words], not NULL once they were looked for */
    int n_words;
    bool whole; /* its words change nothing */
} vo_draft_segment;

/* The words of a window: where their texts and times live. */
typedef struct vo_word_list {
    vo_text_word *texts; /* [n] */
    vocis_word *words;   /* [n] or more: those of all drafts, their texts borrowed */
    int n;
} vo_word_list;
void vo_word_list_free(vo_word_list *list);

/* What a window is to the rules. */
typedef struct vo_word_window {
    int64_t seek, size;    /* frames: where it begins, audio in it */
    int64_t window_frames; /* and with the silence that fills it up */
    int64_t first, last;   /* frames of the whole stretch of audio that it moves over */
    double last_speech;    /* seconds: where speech before it ended; updated */
    int64_t next;          /* frame where the timestamps say that the next window begins; updated */
    bool single_ending;    /* a single timestamp at the end: no speech after it */
    double threshold;      /* hallucination_silence_threshold; NaN: off */
    bool again;            /* result: decode from next on, as if this window had not been */
} vo_word_window;

/* Finds the words of what a track has decoded in its window and puts them, in seconds of the input,
 * into the drafts, whose times they correct. The lane's rows are forgotten. */
vo_status vo_words_add(vo_track *track, const vo_word_window *window, vo_draft_segment *drafts,
                       int n_drafts, vo_word_list *list, vo_error *err);

/* ---- the rules alone: no network, no audio -------------------------------------------------- */

/* Cleans up times and gives them to drafts. list: texts, and in words[i] the start and end, in
 * seconds of the window, and the probability of texts[i]. */
vo_status vo_words_assign(const vo_word_window *window, vo_word_list *list,
                          vo_draft_segment *drafts, int n_drafts, const char *prepended,
                          const char *appended, vo_error *err);

/* Where the next window begins now that words have times, and which drafts stay: the first *n.
 * Never stands still. */
void vo_words_follow(vo_word_window *window, const vo_draft_segment *drafts, int *n);

#endif
