/* SPDX-License-Identifier: MIT
 *
 * Beam search: every live path proposes its best beam + 1 tokens, the best of all proposals go
 * on, those that end count as finished until there are enough. Of the finished ones only the
 * best is kept, since nothing else can win; the search starts from one path, since equal paths
 * would propose the same.
 */
#include <math.h>

#include "decode/search.h"

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
}

/* Takes the best proposal not taken yet; of equal ones that of the earlier path. Each path's
 * proposals are sorted, so that a merge needs only their heads. False when none is left. */
static bool take_best(vo_decoder *d, int *parent, vo_choice *choice) {
    const vo_search *search = &d->search;
    const vo_path *live = d->bank[search->bank];
    double best_sum = 0;
    *parent = -1;
    for (int i = 0; i < search->n_live; i++) {
        if (d->heads[i] == d->counts[i]) continue;
        const vo_choice *head =
            d->choices + (size_t)i * (size_t)(search->params.beam_size + 1) + d->heads[i];
        double sum = live[i].sum + head->logprob;
        if (*parent < 0 || sum > best_sum) {
            *parent = i;
            *choice = *head;
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
    vo_path_push(&ended, eot, eot.token);
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
    int32_t eot = search->params.eot;
    int n = 0, parent;
    vo_choice choice;
    while (n < search->params.beam_size && take_best(d, &parent, &choice)) {
        if (choice.token == eot) {
            finish(d, &live[parent], choice);
            continue;
        }
        vo_path_copy(&next[n], &live[parent]);
        vo_path_push(&next[n], choice, eot);
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
    search->done = search->n_finished == search->max_candidates;
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
