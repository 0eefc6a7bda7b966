/* SPDX-License-Identifier: MIT
 *
 * The toy language model. Misuse of a row is VO_ERR_INTERNAL with a sentence, which fails the
 * decoding under test.
 */
#include "decode/support_toy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t gamma64 = 0x9E3779B97F4A7C15u;

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void append(toy_row *row, int32_t token) {
    row->tokens[row->length] = token;
    row->hashes[row->length + 1] =
        mix(row->hashes[row->length] ^ (((uint64_t)token + 1) * gamma64));
    row->length++;
}

void toy_logits(const toy *model, const toy_row *row, int length, float *logits) {
    const toy_params *p = &model->params;
    uint64_t h = row->hashes[length];
    for (int i = 0; i < p->n_vocab; i++) {
        float x = (float)(mix(h + ((uint64_t)i + 1) * gamma64) >> 40) * 0x1p-24f;
        x = x * x;
        x = x * x;
        x = x * p->scale;
        if (i >= p->special_begin) x = x + p->special_bias;
        logits[i] = x;
    }
    logits[p->eot] += p->eot_bias + p->eot_slope * (float)length;
}

static vo_status check_input(const toy *model, const vo_lm_input *inputs, int i, vo_error *err) {
    const vo_lm_input *in = &inputs[i];
    if (in->row < 0 || in->row >= model->lm.max_rows || !model->rows[in->row].alive) {
        return vo_fail(err, VO_ERR_INTERNAL, "step of row %d, which is not there", in->row);
    }
    if (in->n_tokens < 1 || in->n_tokens > model->lm.max_length - model->rows[in->row].length) {
        return vo_fail(err, VO_ERR_INTERNAL, "%d tokens do not fit into a row", in->n_tokens);
    }
    if (in->n_logits < 0 || in->n_logits > in->n_tokens || in->n_logits > 1 + TOY_AHEAD ||
        (in->n_logits > 1 && i > 0)) {
        return vo_fail(err, VO_ERR_INTERNAL, "%d logits of %d tokens", in->n_logits, in->n_tokens);
    }
    for (int j = 0; j < in->n_tokens; j++) {
        if (in->tokens[j] < 0 || in->tokens[j] >= model->params.n_vocab ||
            in->tokens[j] == model->params.eot) {
            return vo_fail(err, VO_ERR_INTERNAL, "token %d was fed", in->tokens[j]);
        }
    }
    for (int j = 0; j < i; j++) {
        if (inputs[j].row == in->row) return vo_fail(err, VO_ERR_INTERNAL, "a row fed twice");
    }
    return VO_OK;
}

static vo_status step(void *self, const vo_lm_input *inputs, int n_inputs, float *const **logits,
                      vo_error *err) {
    toy *model = self;
    if (n_inputs < 1 || n_inputs > model->lm.max_rows) {
        return vo_fail(err, VO_ERR_INTERNAL, "a step of %d rows", n_inputs);
    }
    if (model->steps++ == model->fail_at) return vo_fail(err, VO_ERR_IO, "the toy broke");
    model->rows_stepped += n_inputs;
    const int buffers = model->lm.max_rows + TOY_AHEAD;
    float **out = model->logits + (size_t)(model->turn * buffers);
    model->turn = 1 - model->turn;
    float **former = model->logits + (size_t)(model->turn * buffers);
    for (int i = 0; i < buffers; i++) {
        for (int j = 0; j < model->params.n_vocab; j++) former[i][j] = 1e9f; /* no longer lent */
    }
    for (int i = 0, at = 0; i < n_inputs; i++) {
        vo_status status = check_input(model, inputs, i, err);
        if (status != VO_OK) return status;
        toy_row *row = &model->rows[inputs[i].row];
        const int wanted = inputs[i].n_logits > 0 ? inputs[i].n_logits : 1;
        for (int j = 0; j < inputs[i].n_tokens; j++) {
            append(row, inputs[i].tokens[j]);
            if (j < inputs[i].n_tokens - wanted) continue;
            toy_logits(model, row, row->length, out[at]);
            if (model->edit) model->edit(model->edit_user, row, out[at], model->params.n_vocab);
            at++;
        }
    }
    *logits = out;
    return VO_OK;
}

static vo_status fork_rows(void *self, const int *parents, int n, vo_error *err) {
    toy *model = self;
    bool identity = true;
    model->forks++;
    if (n < 1 || n > model->lm.max_rows) return vo_fail(err, VO_ERR_INTERNAL, "fork to %d", n);
    for (int i = 0; i < n; i++) {
        if (parents[i] < 0 || parents[i] >= model->lm.max_rows || !model->rows[parents[i]].alive) {
            return vo_fail(err, VO_ERR_INTERNAL, "parent %d is not there", parents[i]);
        }
        identity = identity && parents[i] == i;
        const toy_row *from = &model->rows[parents[i]];
        toy_row *to = &model->spare[i];
        to->length = from->length;
        size_t length = (size_t)from->length;
        memcpy(to->tokens, from->tokens, length * sizeof(*to->tokens));
        memcpy(to->hashes, from->hashes, (length + 1) * sizeof(*to->hashes));
    }
    if (identity) return vo_fail(err, VO_ERR_INTERNAL, "a fork that changes nothing");
    for (int i = 0; i < model->lm.max_rows; i++) model->spare[i].alive = i < n;
    toy_row *former = model->rows;
    model->rows = model->spare;
    model->spare = former;
    return VO_OK;
}

static vo_status rewind_row(void *self, int row, int length, vo_error *err) {
    toy *model = self;
    if (row < 0 || row >= model->lm.max_rows || length > model->rows[row].length || length < 0) {
        return vo_fail(err, VO_ERR_INTERNAL, "rewind of row %d to %d", row, length);
    }
    model->rows[row].length = length;
    return VO_OK;
}

static void *allocate(size_t count, size_t size) {
    void *p = calloc(count, size);
    if (!p) abort();
    return p;
}

static toy_row *create_rows(int max_rows, int max_length) {
    toy_row *rows = allocate((size_t)max_rows, sizeof(*rows));
    for (int i = 0; i < max_rows; i++) {
        rows[i].tokens = allocate((size_t)max_length, sizeof(*rows[i].tokens));
        rows[i].hashes = allocate((size_t)max_length + 1, sizeof(*rows[i].hashes));
    }
    return rows;
}

static void destroy_rows(toy_row *rows, int max_rows) {
    for (int i = 0; i < max_rows; i++) {
        free(rows[i].tokens);
        free(rows[i].hashes);
    }
    free(rows);
}

toy *toy_create(toy_params params, int max_rows, int max_length) {
    toy *model = allocate(1, sizeof(*model));
    model->params = params;
    model->lm = (vo_lm){.self = model,
                        .n_vocab = params.n_vocab,
                        .max_rows = max_rows,
                        .max_length = max_length,
                        .max_ahead = TOY_AHEAD,
                        .step = step,
                        .fork = fork_rows,
                        .rewind = rewind_row};
    model->rows = create_rows(max_rows, max_length);
    model->spare = create_rows(max_rows, max_length);
    const int buffers = 2 * (max_rows + TOY_AHEAD);
    model->logits = allocate((size_t)buffers, sizeof(*model->logits));
    for (int i = 0; i < buffers; i++) {
        model->logits[i] = allocate((size_t)params.n_vocab, sizeof(float));
    }
    toy_reset(model, NULL, 0);
    return model;
}

void toy_destroy(toy *model) {
    if (!model) return;
    destroy_rows(model->rows, model->lm.max_rows);
    destroy_rows(model->spare, model->lm.max_rows);
    for (int i = 0; i < 2 * (model->lm.max_rows + TOY_AHEAD); i++) free(model->logits[i]);
    free(model->logits);
    free(model);
}

void toy_reset(toy *model, const int32_t *tokens, int n) {
    for (int i = 0; i < model->lm.max_rows; i++) model->rows[i].alive = i == 0;
    model->rows[0].length = 0;
    model->rows[0].hashes[0] = mix(model->params.seed);
    for (int i = 0; i < n; i++) append(&model->rows[0], tokens[i]);
    model->steps = model->rows_stepped = model->forks = 0;
    model->fail_at = -1;
}
