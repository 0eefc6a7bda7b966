/* SPDX-License-Identifier: MIT
 *
 * The parts shared by every search: filtering rows, growing and ranking paths.
 */
#include "decode/search.h"

#include <math.h>
#include <string.h>

void vo_search_filter(const vo_decoder *decoder, const vo_path *path, float *logits) {
    const vo_decode_params *p = &decoder->search.params;
    for (int i = 0; i < p->n_filters; i++) {
        p->filters[i].apply(p->filters[i].self, logits, decoder->lm.n_vocab, path->tokens, path->n,
                            decoder->search.n_prompt);
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
    double penalty = (double)search->params.length_penalty;
    if (isnan(penalty)) return path->sum / (length > 0 ? length : 1);
    return path->sum / pow((5.0 + length) / 6.0, penalty);
}
