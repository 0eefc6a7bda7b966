/* SPDX-License-Identifier: MIT
 *
 * The decoder object: checks parameters, owns the buffers, picks the search and hands out its
 * winner.
 */
#include "decode/decode.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "decode/search.h"

vo_decode_params vo_decode_default_params(void) {
    return (vo_decode_params){.eot = -1,
                              .max_tokens = 224,
                              .best_of = 1,
                              .beam_size = 1,
                              .patience = 1.0f,
                              .length_penalty = NAN};
}

static bool allocate(vo_decoder *d) {
    size_t rows = (size_t)d->lm.max_rows, stride = (size_t)d->lm.max_length + 1;
    size_t n_paths = 2 * rows + 1, n_tokens, n_choices;
    if (!vo_mul_size(n_paths, stride, &n_tokens)) return false;
    if (!vo_mul_size(rows, rows + 1, &n_choices)) return false;
    d->all = vo_alloc_array(n_paths, sizeof(*d->all));
    d->token_store = vo_alloc_array(n_tokens, sizeof(*d->token_store));
    d->logprob_store = vo_alloc_array(n_tokens, sizeof(*d->logprob_store));
    d->live = vo_alloc_array(rows, sizeof(*d->live));
    d->choices = vo_alloc_array(n_choices, sizeof(*d->choices));
    d->bonus = vo_alloc_array(n_choices, sizeof(*d->bonus));
    d->gaps = vo_alloc_array(n_choices, sizeof(*d->gaps));
    d->counts = vo_alloc_array(rows, sizeof(*d->counts));
    d->heads = vo_alloc_array(rows, sizeof(*d->heads));
    d->parents = vo_alloc_array(rows, sizeof(*d->parents));
    d->inputs = vo_alloc_array(rows, sizeof(*d->inputs));
    if (!d->all || !d->token_store || !d->logprob_store || !d->live || !d->choices || !d->bonus ||
        !d->gaps || !d->counts || !d->heads || !d->parents || !d->inputs ||
        !vo_scan_init(&d->scan, d->lm.n_vocab)) {
        return false;
    }
    for (size_t i = 0; i < n_paths; i++) {
        d->all[i].tokens = d->token_store + i * stride;
        d->all[i].logprobs = d->logprob_store + i * stride;
    }
    d->bank[0] = d->all;
    d->bank[1] = d->all + rows;
    d->best = d->all[2 * rows];
    return true;
}

vo_decoder *vo_decoder_create(const vo_lm *lm, vo_error *err) {
    if (!lm->step || !lm->fork || (lm->max_ahead > 0 && !lm->rewind) || lm->n_vocab < 1 ||
        lm->max_rows < 1 || lm->max_length < 1 || lm->max_rows == INT_MAX ||
        lm->max_length == INT_MAX || lm->max_ahead < 0) {
        vo_fail(err, VO_ERR_ARGUMENT, "a language model needs step, fork and sizes of at least 1");
        return NULL;
    }
    vo_decoder *decoder = vo_alloc(sizeof(*decoder));
    if (!decoder) goto fail;
    decoder->lm = *lm;
    if (!allocate(decoder)) goto fail;
    return decoder;
fail:
    vo_fail(err, VO_ERR_MEMORY, "out of memory for decoding %d rows of %d tokens", lm->max_rows,
            lm->max_length);
    vo_decoder_destroy(decoder);
    return NULL;
}

void vo_decoder_destroy(vo_decoder *decoder) {
    if (!decoder) return;
    vo_scan_free(&decoder->scan);
    vo_free(decoder->inputs);
    vo_free(decoder->parents);
    vo_free(decoder->heads);
    vo_free(decoder->counts);
    vo_free(decoder->gaps);
    vo_free(decoder->bonus);
    vo_free(decoder->choices);
    vo_free(decoder->live);
    vo_free(decoder->logprob_store);
    vo_free(decoder->token_store);
    vo_free(decoder->all);
    vo_free(decoder);
}

static vo_status check_params(const vo_decoder *d, const vo_decode_params *p, vo_error *err) {
    if (p->eot < 0 || p->eot >= d->lm.n_vocab) {
        return vo_fail(err, VO_ERR_ARGUMENT, "eot %d is not in the vocabulary of %d", p->eot,
                       d->lm.n_vocab);
    }
    if (p->max_tokens < 1) {
        return vo_fail(err, VO_ERR_ARGUMENT, "max_tokens is %d, not at least 1", p->max_tokens);
    }
    if (!(p->temperature >= 0) || isinf(p->temperature)) {
        return vo_fail(err, VO_ERR_ARGUMENT, "temperature %g is not a finite number from 0 up",
                       (double)p->temperature);
    }
    if (p->temperature > 0 && (p->best_of < 1 || p->best_of > d->lm.max_rows)) {
        return vo_fail(err, VO_ERR_ARGUMENT, "best_of %d is not between 1 and %d", p->best_of,
                       d->lm.max_rows);
    }
    if (!(p->temperature > 0) && (p->beam_size < 1 || p->beam_size > d->lm.max_rows)) {
        return vo_fail(err, VO_ERR_ARGUMENT, "beam_size %d is not between 1 and %d", p->beam_size,
                       d->lm.max_rows);
    }
    if (isinf(p->length_penalty)) {
        return vo_fail(err, VO_ERR_ARGUMENT, "length_penalty is infinite");
    }
    if (p->n_filters < 0 || (p->n_filters > 0 && !p->filters)) {
        return vo_fail(err, VO_ERR_ARGUMENT, "n_filters is %d without filters", p->n_filters);
    }
    if (p->boost && !d->lm.rewind)
        return vo_fail(err, VO_ERR_ARGUMENT, "boosting needs a language model that can rewind");
    return VO_OK;
}

static vo_status check_prompt(const vo_decoder *d, const int32_t *prompt, int n_prompt, int n_fed,
                              vo_error *err) {
    if (n_prompt < 1 || n_prompt > d->lm.max_length) {
        return vo_fail(err, VO_ERR_ARGUMENT, "a prompt of %d tokens is not between 1 and %d",
                       n_prompt, d->lm.max_length);
    }
    if (n_fed < 0 || n_fed >= n_prompt) {
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "%d tokens fed of a prompt of %d leave no token to feed", n_fed, n_prompt);
    }
    for (int i = 0; i < n_prompt; i++) {
        if (prompt[i] < 0 || prompt[i] >= d->lm.n_vocab) {
            return vo_fail(err, VO_ERR_ARGUMENT, "prompt token %d is not in the vocabulary of %d",
                           prompt[i], d->lm.n_vocab);
        }
    }
    return VO_OK;
}

/* How many finished sequences end a beam search; Python's round is half to even, as is rintf. */
static vo_status count_candidates(const vo_decode_params *p, int *count, vo_error *err) {
    float candidates = rintf((float)p->beam_size * p->patience);
    if (!(candidates >= 1.0f)) {
        return vo_fail(err, VO_ERR_ARGUMENT, "patience %g with %d beams leaves no candidates",
                       (double)p->patience, p->beam_size);
    }
    *count = candidates < 1e9f ? (int)candidates : 1000000000;
    return VO_OK;
}

vo_status vo_decode_begin(vo_decoder *decoder, const int32_t *prompt, int n_prompt, int n_fed,
                          const vo_decode_params *params, vo_error *err) {
    const bool samples = params->temperature > 0;
    int max_candidates = 1;
    decoder->search = (vo_search){.done = true};
    vo_status status = check_params(decoder, params, err);
    if (status == VO_OK) status = check_prompt(decoder, prompt, n_prompt, n_fed, err);
    if (status == VO_OK && !samples) status = count_candidates(params, &max_candidates, err);
    if (status != VO_OK) return status;

    vo_path *first = &decoder->bank[0][0];
    memcpy(first->tokens, prompt, (size_t)n_prompt * sizeof(*prompt));
    first->n = n_prompt;
    first->ended = false;
    first->sum = first->credit = 0;
    first->boost = (vo_boost_state){0};
    first->mark.n = first->rewind = 0;
    int room = decoder->lm.max_length + 1 - n_prompt;
    const bool greedy = params->beam_size == 1 && max_candidates == 1;
    decoder->search = (vo_search){.params = *params,
                                  .n_prompt = n_prompt,
                                  .n_fed = n_fed,
                                  .limit = params->max_tokens < room ? params->max_tokens : room,
                                  .n_samples = samples  ? params->best_of
                                               : greedy ? 1
                                                        : 0,
                                  .max_candidates = max_candidates};
    return VO_OK;
}

/* Rows forget what their paths took back. */
static vo_status rewind_rows(vo_decoder *d, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; i < d->search.n_live && status == VO_OK; i++) {
        vo_path *path = d->live[i];
        if (path->rewind) status = d->lm.rewind(d->lm.self, path->row, path->rewind, err);
        path->rewind = 0;
    }
    return status;
}

/* Row i continues former row parents[i]; the model is asked only when this changes something. */
static vo_status fork_rows(vo_decoder *d, vo_error *err) {
    bool identity = true;
    for (int i = 0; i < d->search.n_live; i++) identity = identity && d->parents[i] == i;
    d->search.forks = false;
    return identity ? VO_OK : d->lm.fork(d->lm.self, d->parents, d->search.n_live, err);
}

vo_status vo_decode_next(vo_decoder *d, const vo_lm_input **inputs, int *n, vo_error *err) {
    vo_search *search = &d->search;
    *inputs = d->inputs;
    *n = 0;
    if (search->done) return VO_OK;
    const vo_decode_params *p = &search->params;
    if (p->abort && p->abort(p->abort_user))
        return vo_fail(err, VO_ERR_ABORTED, "decoding was stopped by the caller");
    if (search->steps++ == 0) {
        d->inputs[0] = (vo_lm_input){.row = 0,
                                     .n_tokens = search->n_prompt - search->n_fed,
                                     .tokens = d->bank[0][0].tokens + search->n_fed};
        *n = 1;
        return VO_OK;
    }
    vo_status status = search->forks ? fork_rows(d, err) : VO_OK;
    if (status == VO_OK && p->boost) status = rewind_rows(d, err);
    if (status != VO_OK) return status;
    for (int i = 0; i < search->n_live; i++) {
        const vo_path *path = d->live[i];
        d->inputs[i] =
            (vo_lm_input){.row = path->row, .n_tokens = 1, .tokens = path->tokens + path->n - 1};
    }
    *n = search->n_live;
    return p->speculator && search->n_samples == 1 && !p->boost ? vo_search_speculate(d, err)
                                                                : VO_OK;
}

void vo_decode_take(vo_decoder *decoder, float *const *logits) {
    vo_search *search = &decoder->search;
    if (search->n_samples > 0)
        vo_search_sample(decoder, logits);
    else
        vo_search_beam(decoder, logits);
    search->done = search->done || search->n_live == 0;
}

vo_decode_result vo_decode_finish(const vo_decoder *decoder) {
    const vo_search *search = &decoder->search;
    const vo_path *winner =
        search->n_samples > 0 ? vo_sample_winner(decoder) : vo_beam_winner(decoder);
    int n_tokens = winner->n - search->n_prompt;
    return (vo_decode_result){.tokens = winner->tokens + search->n_prompt,
                              .logprobs = winner->logprobs + search->n_prompt,
                              .n_tokens = n_tokens,
                              .ended = winner->ended,
                              .sum_logprob = winner->sum,
                              .avg_logprob = winner->sum / (n_tokens + 1),
                              .boost = winner->credit,
                              .steps = search->steps,
                              .n_proposed = search->n_proposed,
                              .n_accepted = search->n_accepted};
}

vo_status vo_decode(vo_decoder *decoder, const int32_t *prompt, int n_prompt, int n_fed,
                    const vo_decode_params *params, vo_decode_result *result, vo_error *err) {
    *result = (vo_decode_result){0};
    vo_status status = vo_decode_begin(decoder, prompt, n_prompt, n_fed, params, err);
    while (status == VO_OK) {
        const vo_lm_input *inputs;
        float *const *logits = NULL;
        int n;
        status = vo_decode_next(decoder, &inputs, &n, err);
        if (status == VO_OK && n == 0) break;
        if (status == VO_OK) status = decoder->lm.step(decoder->lm.self, inputs, n, &logits, err);
        if (status == VO_OK) vo_decode_take(decoder, logits);
    }
    if (status == VO_OK) *result = vo_decode_finish(decoder);
    return status;
}
