/* SPDX-License-Identifier: MIT
 *
 * Beam search: every live path proposes its best beam + 1 tokens, the best of all proposals go
 * on, those that end count as finished until there are enough. Of the finished ones only the
 * best is kept, since nothing else can win; the search starts from one path, since equal paths
 * would propose the same.
 */
#include <math.h>

#include "decode/search.h"

/* Gives the choices of a path their bonus, lets one that pays for a phrase come in, as good as the
 * model's best one and preferred, and sorts them again. */
static void boost(vo_decoder *d, int i, const float *logits) {
    const vo_search *search = &d->search;
    const vo_boost *list = search->params.boost;
    const vo_path *path = d->live[i];
    const size_t at = (size_t)i * (size_t)(search->params.beam_size + 1);
    vo_choice *choices = d->choices + at;
    double *bonus = d->bonus + at;
    float *gaps = d->gaps + at;
    int n = d->counts[i];
    vo_boost_option option;
    const bool pays =
        vo_boost_options(list, &path->boost, logits, d->scan.max, choices[0].token,
                         path->tokens + search->n_prompt, path->n - search->n_prompt, &option, 1) &&
        option.gap > 0;
    if (pays) {
        int k = 0;
        while (k < n && choices[k].token != option.token) k++;
        if (k == n) k = n <= search->params.beam_size ? d->counts[i]++ : n - 1;
        choices[k] = (vo_choice){option.token, (double)option.logit - d->scan.logsumexp};
        n = d->counts[i];
    }
    for (int k = 0; k < n; k++) {
        const bool anew = path->boost.spent <= 0 || path->boost.whole;
        if (vo_boost_breaks(list, &path->boost, choices[k].token))
            bonus[k] = -(double)path->boost.spent - VO_BOOST_PREFERENCE;
        if (pays && choices[k].token == option.token) {
            gaps[k] = option.gap;
            bonus[k] = (double)option.gap + (anew ? VO_BOOST_PREFERENCE : 0);
        }
        for (int m = k;
             m > 0 && choices[m].logprob + bonus[m] > choices[m - 1].logprob + bonus[m - 1]; m--) {
            const vo_choice c = choices[m];
            const double x = bonus[m];
            const float gap = gaps[m];
            choices[m] = choices[m - 1], bonus[m] = bonus[m - 1], gaps[m] = gaps[m - 1];
            choices[m - 1] = c, bonus[m - 1] = x, gaps[m - 1] = gap;
        }
    }
}

static void propose(vo_decoder *d, int i, float *logits) {
    const int beam = d->search.params.beam_size;
    vo_choice *choices = d->choices + (size_t)i * (size_t)(beam + 1);
    vo_scan_logits(&d->scan, logits);
    d->heads[i] = 0;
    d->counts[i] = vo_scan_top(&d->scan, logits, beam + 1, choices);
    if (d->counts[i] == 0) {
        choices[0] = (vo_choice){d->search.params.eot, -INFINITY};
        d->counts[i] = 1;
    }
    for (int k = 0; k <= beam; k++) {
        d->bonus[(size_t)i * (size_t)(beam + 1) + (size_t)k] = 0;
        d->gaps[(size_t)i * (size_t)(beam + 1) + (size_t)k] = 0;
    }
    if (d->search.params.boost) boost(d, i, logits);
}

/* Takes the best proposal not taken yet; of equal ones that of the earlier path. Each path's
 * proposals are sorted, so that a merge needs only their heads. False when none is left. */
static bool take_best(vo_decoder *d, int *parent, vo_choice *choice, float *gap) {
    const vo_search *search = &d->search;
    const vo_path *live = d->bank[search->bank];
    double best_sum = 0;
    *parent = -1;
    for (int i = 0; i < search->n_live; i++) {
        if (d->heads[i] == d->counts[i]) continue;
        const size_t head =
            (size_t)i * (size_t)(search->params.beam_size + 1) + (size_t)d->heads[i];
        double sum = vo_path_score(&live[i]) + d->choices[head].logprob + d->bonus[head];
        if (*parent < 0 || sum > best_sum) {
            *parent = i;
            *choice = d->choices[head];
            *gap = d->gaps[head];
            best_sum = sum;
        }
    }
    if (*parent < 0) return false;
    d->heads[*parent]++;
    return true;
}

/* Counts a path that ended and keeps it if it is the best so far. */
static void finish(vo_decoder *d, const vo_path *path, vo_choice eot) {
    vo_search *search = &d->search;
    if (search->n_finished == search->max_candidates) return;
    vo_path ended = *path;
    vo_path_push(search, &ended, eot, 0);
    if (search->n_finished == 0 ||
        vo_search_rank(search, &ended) > vo_search_rank(search, &d->best)) {
        vo_path_copy(&d->best, &ended);
    }
    search->n_finished++;
}

/* Fills the other bank with the best continuations and makes it the current one. */
static void select_beams(vo_decoder *d) {
    vo_search *search = &d->search;
    const vo_path *live = d->bank[search->bank];
    vo_path *next = d->bank[1 - search->bank];
    int n = 0, n_open = 0, parent;
    vo_choice choice;
    float gap;
    while (n < search->params.beam_size && take_best(d, &parent, &choice, &gap)) {
        if (choice.token == search->params.eot) {
            finish(d, &live[parent], choice);
            continue;
        }
        vo_path_copy(&next[n], &live[parent]);
        vo_path_push(search, &next[n], choice, gap);
        /* Phrases that may still break leave half of the beams to what does not need them. */
        const bool open = next[n].boost.spent > 0 && !next[n].boost.whole;
        if (open && ++n_open > search->params.beam_size / 2) continue;
        next[n].row = n;
        d->parents[n] = parent;
        d->live[n] = &next[n];
        n++;
    }
    search->n_live = n;
    search->bank = 1 - search->bank;
    search->forks = true;
}

void vo_search_beam(vo_decoder *d, float *const *logits) {
    vo_search *search = &d->search;
    if (search->steps == 1) {
        d->live[0] = &d->bank[0][0];
        search->n_live = 1;
    }
    for (int i = 0; i < search->n_live; i++) {
        vo_search_filter(d, d->live[i], logits[i]);
        propose(d, i, logits[i]);
    }
    select_beams(d);
    search->chosen++;
    search->done = search->n_finished == search->max_candidates || search->chosen >= search->limit;
}

/* The reference fills up with live paths when fewer than `beam` finished. They are of one
 * length, so that only the first, with the largest sum, can be the best. */
const vo_path *vo_beam_winner(const vo_decoder *d) {
    const vo_search *search = &d->search;
    const vo_path *best = search->n_finished > 0 ? &d->best : NULL;
    if (search->n_finished < search->params.beam_size && search->n_live > 0) {
        const vo_path *live = &d->bank[search->bank][0];
        if (!best || vo_search_rank(search, live) > vo_search_rank(search, best)) best = live;
    }
    return best;
}
