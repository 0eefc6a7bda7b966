/* SPDX-License-Identifier: MIT
 *
 * What greedy decoding, sampling and beam search share: token sequences in buffers that live
 * as long as the decoder, and the one way to step the model.
 */
#ifndef VO_DECODE_SEARCH_H
#define VO_DECODE_SEARCH_H

#include "decode/decode.h"
#include "decode/scan.h"

/* Prompt and chosen tokens of one hypothesis. */
typedef struct vo_path {
    int32_t *tokens; /* [max_length + 1] */
    float *logprobs; /* f32 [max_length + 1], those of the prompt unused */
    int n;           /* prompt and chosen, without eot */
    int row;         /* of the model */
    bool ended;      /* eot was chosen */
    double sum;
} vo_path;

struct vo_decoder {
    vo_lm lm;
    vo_path *bank[2]; /* [max_rows] each */
    vo_path best;     /* of those that finished (beam search) */
    vo_path *all;     /* memory of the three above */
    int32_t *token_store;
    float *logprob_store;
    vo_path **live; /* [max_rows] paths to step next */
    vo_scan scan;
    vo_choice *choices;  /* [max_rows][max_rows + 1], at most beam + 1 used in each row */
    int *counts;         /* [max_rows] choices of a row */
    int *heads;          /* [max_rows] first choice of a row not taken yet */
    int *parents;        /* [max_rows] */
    vo_lm_input *inputs; /* [max_rows] */
};

/* One call of vo_decode. */
typedef struct vo_search {
    vo_decoder *decoder;
    const vo_decode_params *params;
    int n_prompt, n_fed;
    int limit; /* most tokens to choose */
    int steps;
} vo_search;

/* Feeds the rest of the prompt (in bank[0][0]) to row 0; filtered logits of it. */
vo_status vo_search_begin(vo_search *search, float **logits, vo_error *err);
/* Feeds the last token of each of decoder->live[0..n) to its row; unfiltered logits in that
 * order. */
vo_status vo_search_step(vo_search *search, int n, float *const **logits, vo_error *err);
/* Row i continues former row decoder->parents[i] for i < n; the model is asked only when this
 * changes something. */
vo_status vo_search_fork(vo_search *search, int n, vo_error *err);
void vo_search_filter(const vo_search *search, const vo_path *path, float *logits);

/* Adds a chosen token, or ends the path when it is eot. */
void vo_path_push(vo_path *path, vo_choice choice, int32_t eot);
void vo_path_copy(vo_path *to, const vo_path *from);
/* What finished sequences are compared by; larger is better. */
double vo_search_rank(const vo_search *search, const vo_path *path);

/* Each leaves the winner in *winner, borrowed from the decoder. */
vo_status vo_search_sample(vo_search *search, int n_samples, const vo_path **winner, vo_error *err);
vo_status vo_search_beam(vo_search *search, int max_candidates, const vo_path **winner,
                         vo_error *err);

#endif
