/* SPDX-License-Identifier: MIT
 *
 * A language model as decoding sees it: three function pointers over rows. A row is one
 * growing token sequence with its own cache. Decoding knows nothing else of the model, so
 * that it can be tested with a toy.
 */
#ifndef VO_DECODE_LM_H
#define VO_DECODE_LM_H

#include "base/status.h"

/* Tokens appended to one row in one step. */
typedef struct vo_lm_input {
    int row;
    int n_tokens; /* >= 1 */
    const int32_t *tokens;
    int n_logits; /* after how many of its last tokens logits are wanted, <= n_tokens; 0: 1 */
} vo_lm_input;

typedef struct vo_lm {
    void *self;
    int n_vocab;
    int max_rows;   /* rows 0..max_rows-1 */
    int max_length; /* tokens a row can hold */
    int max_ahead;  /* an input may want 1 + max_ahead logits when it is alone in its step */
    /* Appends tokens to rows and gives the logits that the inputs want, one after the other:
     * (*logits)[i] is f32 [n_vocab], borrowed and writable until the next call. */
    vo_status (*step)(void *self, const vo_lm_input *inputs, int n_inputs, float *const **logits,
                      vo_error *err);
    /* Row i becomes a copy of the former row parents[i], for i < n, all at once; no cache
     * data is copied. Rows >= n become empty. */
    vo_status (*fork)(void *self, const int *parents, int n, vo_error *err);
    /* Forgets everything of `row` after its first `length` tokens. */
    vo_status (*rewind)(void *self, int row, int length, vo_error *err);
} vo_lm;

#endif
