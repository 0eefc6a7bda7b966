/* SPDX-License-Identifier: MIT
 *
 * A track is one stretch of the input that is transcribed from left to right: a window of 30 s
 * slides over it, and what was said conditions what follows. The whole input is one track; cut at
 * pauses it is many, which know nothing of each other and can be decoded side by side.
 */
#ifndef VO_PIPELINE_TRACK_H
#define VO_PIPELINE_TRACK_H

#include "pipeline/engine.h"
#include "pipeline/journal.h"
#include "pipeline/prompt.h"
#include "pipeline/rescript.h"
#include "pipeline/result.h"
#include "pipeline/speech.h"

#define VO_SECONDS_PER_FRAME 0.01 /* mel frames */
#define VO_SECONDS_PER_TOKEN 0.02 /* timestamp tokens: two frames */

enum { VO_MAX_FILTERS = 4, VO_MAX_TEMPERATURES = 64 };

typedef struct vo_language_set {
    bool has[VO_MAX_LANGUAGES]; /* by index */
    int n;
} vo_language_set;

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
    float language_probability;
    vo_language_set allowed;
    bool each;              /* windows have languages of their own; then there is a voice: */
    const vo_voice *speech; /* NULL: the voice detector was not asked */
    vo_token_list initial;  /* the initial prompt */
    vo_token_list prefix, suppress;
    vo_boost *boost; /* NULL: nothing is boosted */
    vo_suppress_filter blank, listed;
    vo_timestamp_filter times;
    int32_t blank_ids[16];
    double temperatures[VO_MAX_TEMPERATURES];
    int n_temperatures;
    const vo_voice *voice; /* NULL: nobody listens, and the three below are unused */
    bool guard;            /* text that looks invented goes */
    /* How speech that no segment covers is decoded again, with so many frames around it; NULL: not
     * at all. What is found that way must be likely: strict. */
    const struct vo_track_plan *again;
    int64_t around;
    bool strict;
    vo_journal *journal; /* NULL: none is kept */
} vo_track_plan;

typedef enum vo_track_state {
    VO_TRACK_SEEK,
    VO_TRACK_ENCODE,
    VO_TRACK_START,
    VO_TRACK_DECODE,
    VO_TRACK_SPLIT,
    VO_TRACK_COVER,
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
    int64_t first, last; /* frames of all that it may move over */
    int64_t quiet;       /* frames without speech at the end of the last clip */
    int64_t seek, size;  /* current window: first frame, frames of audio in it */
    int64_t cut;         /* where it ends because the language changes there; or 0 */
    int32_t language;    /* of the window, as the plan's; with its probability */
    int32_t expected;    /* of the next window: the same, or that behind the cut: */
    int32_t after_cut;
    float language_probability;
    int32_t heard; /* what the decoder takes it for by itself; or as given */
    vo_rescript rescript;

    vo_token_list all; /* initial prompt, then the tokens of every segment */
    int n_before;      /* of them before this window */
    int prompt_reset_since;
    vo_token_list prompt; /* of this window */
    int sot_index;        /* where its start token stands */
    vo_lm_input start;

    vo_logit_filter filters[VO_MAX_FILTERS];
    int attempt;              /* index of the temperature */
    vo_decode_result decoded; /* borrowed from the decoder */
    double compression_ratio;
    float no_speech;
    double last_speech; /* with word times: where speech before this window ended, in seconds */

    vocis_result *pending; /* segments of this window, which begins at frame `begin` */
    int64_t begin;
    double covered;    /* seconds up to which segments reach that are reported already */
    bool judged;       /* the guards have seen them */
    vocis_span *holes; /* [n_holes] speech that they leave out; the first `hole` are done with */
    int n_holes, hole;
    struct vo_track *sub;    /* decodes a hole, or NULL */
    struct vo_track *parent; /* of such a track, and */
    vocis_span asked;        /* its hole */

    vocis_timings counts; /* of its windows; the seconds in it are not used */
    int n_recorded;       /* of `all`, those that the journal knows */
} vo_track;

/* Frames [from, from + count) become the audio of the lane; the rest of its window is 0. */
vo_status vo_encode_frames(const vo_track_plan *plan, vo_lane *lane, int64_t from, int64_t count,
                           vo_error *err);

/* The same with the session's model or its draft. */
vo_status vo_encode_with(const vo_track_plan *plan, vo_lane *lane, vo_whisper_state *state,
                         int64_t from, int64_t count, vo_error *err);

/* clips: pairs of frames, ascending; copied. The caller sets the fields from index to added_user,
 * and quiet, before it runs; and first, last and last_speech when it is a part of the input that
 * knows nothing of the rest. */
vo_status vo_track_create(const vo_track_plan *plan, const int64_t *clips, int n_clips,
                          vo_track **track, vo_error *err);
void vo_track_destroy(vo_track *track);
/* track_record.c. Takes over what the journal of the plan has of it: segments go to its result,
 * which nobody else may use meanwhile. Before it runs. */
vo_status vo_track_restore(vo_track *track, vo_error *err);
/* After a window, before its pending segments leave: writes them, and what the track goes on with,
 * to the journal. */
vo_status vo_track_record(vo_track *track, vo_error *err);

/* Runs until the model has to be asked: *inputs (of the track's lane) are what it must be fed next,
 * *n = 0 when the track is finished. One call at a time in a worker. */
vo_status vo_track_next(vo_track *track, const vo_lm_input **inputs, int *n, vo_error *err);
/* What the window at hand has found until now goes to the result; for tracks that stop midway. */
vo_status vo_track_keep(vo_track *track, vo_error *err);
/* The logits of those inputs. Tracks of a worker may take theirs at the same time. */
void vo_track_take(vo_track *track, float *const *logits);

#endif
