/* SPDX-License-Identifier: MIT
 *
 * The inside of a state, for the files that run plans on it. Private to models/whisper.
 */
#ifndef VO_MODELS_WHISPER_STATE_H
#define VO_MODELS_WHISPER_STATE_H

#include "models/whisper/whisper.h"

/* A recorded decoder and where its inputs are written: [capacity] each but picked, which has room
 * for as many rows as get logits, and the slot table. */
typedef struct vo_whisper_text_plan {
    vo_plan *plan;
    int32_t *tokens, *positions, *slots, *row, *length, *window, *audio_length, *picked, *table;
} vo_whisper_text_plan;

struct vo_whisper_state {
    const vo_whisper *model;
    vo_runtime runtime;
    vo_whisper_state_params p;
    vo_kv *self, *cross;
    vo_plan *audio_plan;
    float *mel, *audio;
    int32_t *audio_slots;
    vo_whisper_text_plan text;
    int capacity;                         /* tokens of one run */
    int n_logits;                         /* most of one run */
    int *fed;                             /* [rows] scratch of a step */
    float **logits;                       /* [n_logits], into the plan's output */
    struct vo_whisper_aligner *aligner;   /* align.c; NULL before its first use */
    struct vo_whisper_listener *listener; /* listen.c, likewise */
};

/* Of keys and values of tokens. */
vo_dtype vo_whisper_self_type(vo_compute compute);
/* A graph with the arithmetic of the decoder; NULL when memory is short. */
vo_graph *vo_whisper_text_graph(const vo_whisper_state *state, vo_error *err);
/* Inputs for n tokens, of which so many are picked, and the cache of their rows; and where they are
 * once the plan is made. */
vo_whisper_text_inputs vo_whisper_make_inputs(const vo_kv *self, vo_graph *graph, int n,
                                              int picked);
void vo_whisper_find_inputs(vo_whisper_text_plan *plan, const vo_whisper_text_inputs *in);
/* Tokens [from, from + n) of a feed become inputs at, at + 1 ... of the next run. */
vo_status vo_whisper_put_tokens(vo_whisper_state *state, const vo_whisper_text_plan *plan,
                                const vo_whisper_feed *feed, int from, int n, int at,
                                vo_error *err);
vo_status vo_whisper_run_text(vo_whisper_state *state, const vo_whisper_text_plan *plan,
                              int n_tokens, int n_picked, vo_error *err);
/* VO_ERR_ARGUMENT for a row, a window, a number of tokens or a token that there is not. */
vo_status vo_whisper_check_feed(const vo_whisper_state *state, const vo_whisper_feed *feed,
                                vo_error *err);

/* align.c, listen.c; NULL allowed */
void vo_whisper_aligner_destroy(struct vo_whisper_aligner *aligner);
void vo_whisper_listener_destroy(struct vo_whisper_listener *listener);

#endif
