/* SPDX-License-Identifier: MIT
 *
 * A track is one stretch of the input that is transcribed from left to right: a window of 30 s
 * slides over it, and what was said conditions what follows. The whole input is one track; cut at
 * pauses it is many, which know nothing of each other and can be decoded side by side.
 */
#ifndef VO_PIPELINE_TRACK_H
#define VO_PIPELINE_TRACK_H

#include "pipeline/engine.h"
#include "pipeline/prompt.h"
#include "pipeline/result.h"

#define VO_SECONDS_PER_FRAME 0.01 /* mel frames */
#define VO_SECONDS_PER_TOKEN 0.02 /* timestamp tokens: two frames */

enum { VO_MAX_FILTERS = 3, VO_MAX_TEMPERATURES = 64 };

/* What all tracks of an input share; does not change while they run. */
typedef struct vo_track_plan {
    vocis_session *session;
    const vocis_transcribe_params *params;
    const vo_whisper_ids *ids;
    vo_spectrogram mel;     /* of the input and a window of silence after it */
    int64_t content_frames; /* of real audio */
    int64_t window_frames;  /* 3000 */
    double duration;        /* seconds */
    int32_t language;       /* token id, multilingual models only */
    vo_token_list initial;  /* the initial prompt */
    vo_token_list prefix, suppress;
    vo_boost *boost; /* NULL: nothing is boosted */
    vo_suppress_filter blank, listed;
    vo_timestamp_filter times;
    int32_t blank_ids[16];
    double temperatures[VO_MAX_TEMPERATURES];
    int n_temperatures;
} vo_track_plan;

typedef enum vo_track_state {
    VO_TRACK_SEEK,
    VO_TRACK_ENCODE,
    VO_TRACK_START,
    VO_TRACK_DECODE,
    VO_TRACK_SPLIT,
    VO_TRACK_FINISHED
} vo_track_state;

typedef struct vo_track {
    vo_track_state state;
    const vo_track_plan *plan;
    int index;                    /* among the tracks of the input */
    vo_lane *lane;                /* where it runs */
    vocis_result *result;         /* where its segments go */
    vo_mutex *result_mutex;       /* that others read the result under */
    void (*on_added)(void *user); /* after each segment; may be NULL */
    void *added_user;

    int64_t *clips; /* start, end, start, end ... in frames */
    int n_clips, clip;
    int64_t quiet;      /* frames without speech at the end of the last clip */
    int64_t seek, size; /* current window: first frame, frames of audio in it */

    vo_token_list all; /* initial prompt, then the tokens of every segment */
    int prompt_reset_since;
    vo_token_list prompt; /* of this window */
    int sot_index;        /* where its start token stands */
    vo_lm_input start;

    vo_logit_filter filters[VO_MAX_FILTERS];
    int attempt;              /* index of the temperature */
    vo_decode_result decoded; /* borrowed from the decoder */
    double compression_ratio;
    float no_speech;
} vo_track;

/* Frames [from, from + count) become the audio of the lane; the rest of its window is 0. */
vo_status vo_encode_frames(const vo_track_plan *plan, vo_lane *lane, int64_t from, int64_t count,
                           vo_error *err);

/* clips: pairs of frames, ascending; copied. The caller sets the fields from index to added_user,
 * and quiet, before it runs. */
vo_status vo_track_create(const vo_track_plan *plan, const int64_t *clips, int n_clips,
                          vo_track **track, vo_error *err);
void vo_track_destroy(vo_track *track);

/* Runs until the model has to be asked: *inputs (of the track's lane) are what it must be fed next,
 * *n = 0 when the track is finished. One call at a time in a worker. */
vo_status vo_track_next(vo_track *track, const vo_lm_input **inputs, int *n, vo_error *err);
/* The logits of those inputs. Tracks of a worker may take theirs at the same time. */
void vo_track_take(vo_track *track, float *const *logits);

#endif
