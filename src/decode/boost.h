/* SPDX-License-Identifier: MIT
 *
 * Phrase boosting: listed token sequences may be chosen where the model likes something else a
 * little better. Each phrase has a budget in natural logarithms; its tokens may together lie that
 * far below the model's best ones, the gaps. A path that follows a phrase pays the gaps; a phrase
 * that is not completed is as if it had never been begun: greedy decoding goes back to where the
 * first gap was paid, beam search takes back what made up for the gaps. Probabilities stay those
 * of the model. The bonus is bounded and conditional on the model's own opinion, unlike shallow
 * fusion's (Zhao et al., Interspeech 2019), so that a phrase nobody speaks changes nothing.
 */
#ifndef VO_DECODE_BOOST_H
#define VO_DECODE_BOOST_H

#include "base/status.h"

/* What the text of a token is like at its ends: whether words go on there. */
enum { VO_TOKEN_BEGINS_INSIDE = 1, VO_TOKEN_ENDS_INSIDE = 2 };

typedef struct vo_boost_phrase {
    const int32_t *tokens; /* [n], each in [0, n_text) */
    int n;
    float budget; /* finite, >= 0 */
} vo_boost_phrase;

/* A trie; immutable. O(sum of lengths) memory. kinds: [n_text], copied; ids from n_text on (eot,
 * timestamps) never belong to a phrase. Empty phrases are ignored. */
typedef struct vo_boost vo_boost;
vo_status vo_boost_create(const vo_boost_phrase *phrases, int n, const uint8_t *kinds, int n_text,
                          vo_boost **boost, vo_error *err);
void vo_boost_destroy(vo_boost *boost); /* NULL allowed */

/* Where a path stands. Zeroed: at its beginning. */
typedef struct vo_boost_state {
    int32_t node;  /* the last tokens chosen begin a phrase: where in the trie; 0: they do not */
    int length;    /* how many tokens */
    float spent;   /* by this match, which may still break */
    bool whole;    /* but only if the word goes on: the phrase is complete */
    int n_paid;    /* matches that paid anything */
    int32_t first; /* token that the last complete one of them began with */
    int end;       /* tokens chosen when it was complete */
} vo_boost_state;

typedef struct vo_boost_option {
    int32_t token;
    float logit;
    float gap;   /* below the best logit */
    float slack; /* what would be left of the budget */
} vo_boost_option;

/* Tokens that continue or begin a phrase and can pay for it, most slack first; at most k. `best` is
 * the largest logit, `own` the token that is chosen without boosting: where it is no text, no
 * phrase begins. chosen: [n_chosen] of the path. Returns how many. */
int vo_boost_options(const vo_boost *boost, const vo_boost_state *state, const float *logits,
                     float best, int32_t own, const int32_t *chosen, int n_chosen,
                     vo_boost_option *options, int k);

/* Whether token, chosen next, leaves a match that paid incomplete. */
bool vo_boost_breaks(const vo_boost *boost, const vo_boost_state *state, int32_t token);

/* Goes on with chosen[n_chosen - 1], which paid gap. A match that it breaks is forgotten. */
void vo_boost_advance(const vo_boost *boost, vo_boost_state *state, const int32_t *chosen,
                      int n_chosen, float gap);

#endif
