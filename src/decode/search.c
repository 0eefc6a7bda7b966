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

void vo_path_push(const vo_search *search, vo_path *path, vo_choice choice, float gap) {
    const vo_boost *boost = search->params.boost;
    if (boost && vo_boost_breaks(boost, &path->boost, choice.token))
        path->credit -= (double)path->boost.spent, path->boost.n_paid--;
    path->credit += (double)gap;
    path->sum += choice.logprob;
    if (choice.token == search->params.eot) {
        path->ended = true;
        return;
    }
    path->tokens[path->n] = choice.token;
    path->logprobs[path->n] = (float)choice.logprob;
    path->n++;
    if (boost)
        vo_boost_advance(boost, &path->boost, path->tokens + search->n_prompt,
                         path->n - search->n_prompt, gap);
}

void vo_path_copy(vo_path *to, const vo_path *from) {
    memcpy(to->tokens, from->tokens, (size_t)from->n * sizeof(*from->tokens));
    memcpy(to->logprobs, from->logprobs, (size_t)from->n * sizeof(*from->logprobs));
    to->n = from->n;
    to->ended = from->ended;
    to->sum = from->sum;
    to->credit = from->credit;
    to->boost = from->boost;
    to->mark.n = to->rewind = 0;
}

double vo_path_score(const vo_path *path) {
    return path->sum + path->credit + VO_BOOST_PREFERENCE * path->boost.n_paid;
}

double vo_search_rank(const vo_search *search, const vo_path *path) {
    int length = path->n - search->n_prompt;
    double penalty = (double)search->params.length_penalty, sum = vo_path_score(path);
    if (isnan(penalty)) return sum / (length > 0 ? length : 1);
    return sum / pow((5.0 + length) / 6.0, penalty);
}
