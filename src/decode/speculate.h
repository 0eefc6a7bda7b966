/* SPDX-License-Identifier: MIT
 *
 * Speculative decoding (Leviathan et al., arXiv:2211.17192): a cheap source proposes the next
 * tokens, the model verifies all of them in one step. A proposal is accepted when it is what the
 * decoder chooses there by itself: the likeliest token, or the one that the random number of that
 * place draws. So with probability p(x) a proposed x is kept, and what replaces it is distributed
 * as p without x: the rule of the paper for a source that is certain of x. Not only is the
 * distribution that of plain decoding: every token and log-probability is the same, whatever is
 * proposed.
 */
#ifndef VO_DECODE_SPECULATE_H
#define VO_DECODE_SPECULATE_H

#include "decode/decode.h"

/* Writes up to `most` >= 1 tokens that may follow tokens[0..n), and how many to *count. Of those,
 * tokens[begin..n) were chosen, as the filters of params want to know. */
typedef struct vo_proposer {
    void *self;
    vo_status (*propose)(void *self, const vo_decode_params *params, const int32_t *tokens, int n,
                         int begin, int32_t *out, int most, int *count, vo_error *err);
} vo_proposer;

/* What followed the last time that the newest tokens (two or more) stood in the prompt or the text.
 */
vo_proposer vo_propose_repeats(void);

/* The likeliest tokens of another model with the same vocabulary, after the same filters. */
typedef struct vo_draft {
    vo_lm lm;        /* row 0 is used, with step and rewind */
    int32_t *tokens; /* [lm.max_length], of which n were fed */
    int n;
} vo_draft;
vo_status vo_draft_init(vo_draft *draft, const vo_lm *lm, vo_error *err);
void vo_draft_free(vo_draft *draft); /* a zeroed one is allowed */
/* Forgets what was fed: the model listens to something else now. */
vo_status vo_draft_reset(vo_draft *draft, vo_error *err);
vo_proposer vo_propose_draft(vo_draft *draft); /* borrows it */

/* How many tokens to propose, and whether to. Belongs to one decoder at a time, and goes on from
 * one text to the next. */
typedef struct vo_speculator {
    vo_proposer proposer;
    int most;       /* tokens proposed at a time, >= 1 */
    bool automatic; /* only while it was faster than plain steps */
    int ahead;      /* tokens to propose next: one more while all are right, else what was right */
    int texts;      /* decoded so far, when automatic */
    double seconds[2], tokens[2]; /* without, with proposals */
} vo_speculator;
vo_speculator vo_speculator_make(vo_proposer proposer, int most, bool automatic);

/* Up to `most` proposals without eot or anything outside the vocabulary. */
vo_status vo_speculator_propose(vo_speculator *s, const vo_decode_params *params, int n_vocab,
                                const int32_t *tokens, int n, int begin, int32_t *out, int most,
                                int *count, vo_error *err);
void vo_speculator_learn(vo_speculator *s, int n_proposed, int n_accepted);

/* Whether the next text should be decoded with it: always, or by what the last ones took. What they
 * took is told afterwards. */
bool vo_speculator_wanted(const vo_speculator *s);
void vo_speculator_took(vo_speculator *s, bool used, double seconds, int n_tokens);

#endif
