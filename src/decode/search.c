/* SPDX-License-Identifier: MIT
 *
 * The parts shared by every search: stepping, forking and filtering rows, and ranking paths.
 */
#include "decode/search.h"

#include <math.h>
#include <string.h>

static vo_status run_step(vo_search *search, int n_inputs, float *const **logits, vo_error *err) {
    vo_decoder *d = search->decoder;
    const vo_decode_params *p = search->params;
    if (p->abort && p->abort(p->abort_user)) {
        return vo_fail(err, VO_ERR_ABORTED, "decoding was stopped by the caller");
    }
    search->steps++;
    return d->lm.step(d->lm.self, d->inputs, n_inputs, logits, err);
}

vo_status vo_search_begin(vo_search *search, float **logits, vo_error *err) {
    vo_decoder *d = search->decoder;
    const vo_path *path = &d->bank[0][0];
    d->inputs[0] = (vo_lm_input){.row = 0,
                                 .n_tokens = search->n_prompt - search->n_fed,
                                 .tokens = path->tokens + search->n_fed};
    float *const *rows = NULL;
    vo_status status = run_step(search, 1, &rows, err);
    if (status != VO_OK) return status;
    *logits = rows[0];
    vo_search_filter(search, path, *logits);
    return VO_OK;
}

vo_status vo_search_step(vo_search *search, int n, float *const **logits, vo_error *err) {
    vo_decoder *d = search->decoder;
    for (int i = 0; i < n; i++) {
        const vo_path *path = d->live[i];
        d->inputs[i] =
            (vo_lm_input){.row = path->row, .n_tokens = 1, .tokens = path->tokens + path->n - 1};
    }
    return run_step(search, n, logits, err);
}

vo_status vo_search_fork(vo_search *search, int n, vo_error *err) {
    vo_decoder *d = search->decoder;
    bool identity = true;
    for (int i = 0; i < n; i++) identity = identity && d->parents[i] == i;
    return identity ? VO_OK : d->lm.fork(d->lm.self, d->parents, n, err);
}

void vo_search_filter(const vo_search *search, const vo_path *path, float *logits) {
    const vo_decode_params *p = search->params;
    for (int i = 0; i < p->n_filters; i++) {
        p->filters[i].apply(p->filters[i].self, logits, search->decoder->lm.n_vocab, path->tokens,
                            path->n, search->n_prompt);
    }
}

void vo_path_push(vo_path *path, vo_choice choice, int32_t eot) {
    path->sum += choice.logprob;
    if (choice.token == eot) {
        path->ended = true;
        return;
    }
    path->tokens[path->n] = choice.token;
    path->logprobs[path->n] = (float)choice.logprob;
    path->n++;
}

void vo_path_copy(vo_path *to, const vo_path *from) {
    memcpy(to->tokens, from->tokens, (size_t)from->n * sizeof(*from->tokens));
    memcpy(to->logprobs, from->logprobs, (size_t)from->n * sizeof(*from->logprobs));
    to->n = from->n;
    to->ended = from->ended;
    to->sum = from->sum;
}

double vo_search_rank(const vo_search *search, const vo_path *path) {
    int length = path->n - search->n_prompt;
    double penalty = (double)search->params->length_penalty;
    if (isnan(penalty)) return path->sum / (length > 0 ? length : 1);
    return path->sum / pow((5.0 + length) / 6.0, penalty);
}
