/* SPDX-License-Identifier: MIT
 *
 * What greedy decoding, sampling and beam search share: token sequences in buffers that live
 * as long as the decoder. A search only chooses; decode.c steps the model between its choices, so
 * that several searches can share a step.
 */
#ifndef VO_DECODE_SEARCH_H
#define VO_DECODE_SEARCH_H

#include "decode/decode.h"
#include "decode/scan.h"

enum { VO_BOOST_TRIES = 4 };

/* Having paid, a phrase is as good as what the model liked best: of the two it should win, unless
 * what follows speaks against it. */
#define VO_BOOST_PREFERENCE 1.0

/* Where greedy decoding or a sample first paid for the phrase at hand, to go back to. */
typedef struct vo_boost_mark {
    int n; /* of the path; 0: nowhere */
    double sum, credit, logsumexp;
    vo_boost_state state;
    vo_choice own;                          /* what would have been chosen without boosting */
    vo_boost_option others[VO_BOOST_TRIES]; /* not tried yet, best first */
    int n_others;
} vo_boost_mark;

/* Prompt and chosen tokens of one hypothesis. */
typedef struct vo_path {
    int32_t *tokens; /* [max_length + 1] */
    float *logprobs; /* f32 [max_length + 1], those of the prompt unused */
    int n;           /* prompt and chosen, without eot */
    int row;         /* of the model */
    bool ended;      /* eot was chosen */
    double sum;
    double credit; /* the gaps that were paid */
    vo_boost_state boost;
    vo_boost_mark mark;
    int rewind; /* tokens of its row that stay before the next step; 0: all */
} vo_path;

/* One decoding, from vo_decode_begin to vo_decode_finish. */
typedef struct vo_search {
    vo_decode_params params;
    int n_prompt, n_fed;
    int limit;  /* most tokens to choose */
    int steps;  /* taken; the one that feeds the prompt is the first */
    int chosen; /* tokens by every path that is live, eot included */
    bool done;
    int n_live;    /* paths to step next */
    bool forks;    /* rows must be rearranged before the next step */
    int n_samples; /* sampling and greedy; 0 in beam search */
    /* speculation: tokens after the end of the only path, fed with its last one */
    int n_ahead;
    bool rewinds; /* the row holds some that were not chosen */
    int n_proposed, n_accepted;
    /* beam search */
    int max_candidates;
    int n_finished; /* at most max_candidates are counted */
    int bank;       /* where the live paths are, by descending sum */
} vo_search;

struct vo_decoder {
    vo_lm lm;
    vo_search search;
    vo_path *bank[2]; /* [max_rows] each */
    vo_path best;     /* of those that finished (beam search) */
    vo_path *all;     /* memory of the three above */
    int32_t *token_store;
    float *logprob_store;
    vo_path **live; /* [max_rows] paths to step next */
    vo_scan scan;
    vo_choice *choices;  /* [max_rows][max_rows + 1], at most beam + 1 used in each row */
    double *bonus;       /* of each choice: what boosting adds to its logprob */
    float *gaps;         /* of each choice: what it pays */
    int *counts;         /* [max_rows] choices of a row */
    int *heads;          /* [max_rows] first choice of a row not taken yet */
    int *parents;        /* [max_rows] */
    vo_lm_input *inputs; /* [max_rows] */
};

void vo_search_filter(const vo_decoder *decoder, const vo_path *path, float *logits);

/* Adds a chosen token that paid gap, or ends the path when it is eot. */
void vo_path_push(const vo_search *search, vo_path *path, vo_choice choice, float gap);
void vo_path_copy(vo_path *to, const vo_path *from);
/* What sequences of one length are compared by. */
double vo_path_score(const vo_path *path);
/* What finished sequences are compared by; larger is better. */
double vo_search_rank(const vo_search *search, const vo_path *path);

/* Fills the n_ahead of the step whose input is inputs[0], the last token of the only live path. */
vo_status vo_search_speculate(vo_decoder *decoder, vo_error *err);

/* Chooses from the logits of the prompt (steps == 1) or of the live paths: fills live and n_live,
 * and parents where rows have to be rearranged. Touches nothing but the decoder. */
void vo_search_sample(vo_decoder *decoder, float *const *logits);
void vo_search_beam(vo_decoder *decoder, float *const *logits);
/* The best of all paths, borrowed from the decoder. */
const vo_path *vo_sample_winner(const vo_decoder *decoder);
const vo_path *vo_beam_winner(const vo_decoder *decoder);

#endif
