/* SPDX-License-Identifier: MIT
 *
 * A toy language model: its logits are a hash of the whole token history of a row, so that a
 * wrong row, a lost or doubled token or a wrong fork changes every later choice. It also checks
 * that rows are used as decode/lm.h says. The same toy is in tools/golden/decode.py.
 */
#ifndef VO_TESTS_DECODE_TOY_H
#define VO_TESTS_DECODE_TOY_H

#include "decode/lm.h"

typedef struct toy_params {
    uint64_t seed;
    int n_vocab;
    float scale; /* of the logits: larger is more certain */
    int32_t eot;
    float eot_bias, eot_slope; /* added to eot's logit; slope counts tokens in the row */
    int32_t special_begin;     /* from here on ids get special_bias added */
    float special_bias;
} toy_params;

enum { TOY_AHEAD = 8 }; /* lm.max_ahead */

typedef struct toy_row {
    bool alive;
    int length;
    int32_t *tokens;  /* [max_length] */
    uint64_t *hashes; /* [max_length + 1] of each prefix */
} toy_row;

typedef struct toy {
    toy_params params;
    vo_lm lm;
    toy_row *rows, *spare; /* [max_rows] each */
    float **logits;        /* 2 * (max_rows + TOY_AHEAD) of f32 [n_vocab], halves used in turn */
    int turn;
    int steps, rows_stepped, forks;
    int fail_at; /* step that fails; -1: none */
    /* called for each row's logits before they are handed out; NULL: nothing */
    void (*edit)(void *user, const toy_row *row, float *logits, int n_vocab);
    void *edit_user;
} toy;

toy *toy_create(toy_params params, int max_rows, int max_length);
void toy_destroy(toy *model);
/* Empties all rows and feeds tokens to row 0, not counted as a step. */
void toy_reset(toy *model, const int32_t *tokens, int n);
/* Logits after the first `length` tokens of a row. */
void toy_logits(const toy *model, const toy_row *row, int length, float *logits);

#endif
