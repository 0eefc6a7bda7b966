/* SPDX-License-Identifier: MIT
 *
 * Beam search: every live path proposes its best beam + 1 tokens, the best of all proposals go
 * on, those that end count as finished until there are enough. Of the finished ones only the
 * best is kept, since nothing else can win; the search starts from one path, since equal paths
 * would propose the same.
 */
#include <math.h>

#include "decode/search.h"

typedef struct beam_state {
    int beam, max_candidates;
    int n_live;     /* paths in the current bank, by descending sum */
    int n_finished; /* at most max_candidates are counted */
    int bank;       /* the current one */
} beam_state;

static void propose(vo_search *search, const beam_state *state, int i, float *logits) {
    vo_decoder *d = search->decoder;
    vo_choice *choices = d->choices + (size_t)i * (size_t)(state->beam + 1);
    vo_scan_logits(&d->scan, logits);
    d->heads[i] = 0;
    d->counts[i] = vo_scan_top(&d->scan, logits, state->beam + 1, choices);
    if (d->counts[i] == 0) {
        choices[0] = (vo_choice){search->params->eot, -INFINITY};
        d->counts[i] = 1;
    }
}

/* Takes the best proposal not taken yet; of equal ones that of the earlier path. Each path's
 * proposals are sorted, so that a merge needs only their heads. False when none is left. */
static bool take_best(vo_search *search, const beam_state *state, int *parent, vo_choice *choice) {
    vo_decoder *d = search->decoder;
    const vo_path *live = d->bank[state->bank];
    double best_sum = 0;
    *parent = -1;
    for (int i = 0; i < state->n_live; i++) {
        if (d->heads[i] == d->counts[i]) continue;
        const vo_choice *head = d->choices + (size_t)i * (size_t)(state->beam + 1) + d->heads[i];
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
static void finish(vo_search *search, beam_state *state, const vo_path *path, vo_choice eot) {
    if (state->n_finished == state->max_candidates) return;
    vo_path ended = *path;
    vo_path_push(&ended, eot, eot.token);
    vo_path *best = &search->decoder->best;
    if (state->n_finished == 0 || vo_search_rank(search, &ended) > vo_search_rank(search, best)) {
        vo_path_copy(best, &ended);
    }
    state->n_finished++;
}

/* Fills the other bank with the best continuations and makes it the current one. */
static void select_beams(vo_search *search, beam_state *state) {
    vo_decoder *d = search->decoder;
    const vo_path *live = d->bank[state->bank];
    vo_path *next = d->bank[1 - state->bank];
    int32_t eot = search->params->eot;
    int n = 0, parent;
    vo_choice choice;
    while (n < state->beam && take_best(search, state, &parent, &choice)) {
        if (choice.token == eot) {
            finish(search, state, &live[parent], choice);
            continue;
        }
        vo_path_copy(&next[n], &live[parent]);
        vo_path_push(&next[n], choice, eot);
        next[n].row = n;
        d->parents[n] = parent;
        d->live[n] = &next[n];
        n++;
    }
    state->n_live = n;
    state->bank = 1 - state->bank;
}

vo_status vo_search_beam(vo_search *search, int max_candidates, const vo_path **winner,
                         vo_error *err) {
    vo_decoder *d = search->decoder;
    beam_state state = {
        .beam = search->params->beam_size, .max_candidates = max_candidates, .n_live = 1};
    float *first = NULL;
    vo_status status = vo_search_begin(search, &first, err);
    if (status != VO_OK) return status;
    propose(search, &state, 0, first);
    select_beams(search, &state);
    for (int step = 1; step < search->limit; step++) {
        if (state.n_live == 0 || state.n_finished == max_candidates) break;
        status = vo_search_fork(search, state.n_live, err);
        if (status != VO_OK) return status;
        float *const *logits = NULL;
        status = vo_search_step(search, state.n_live, &logits, err);
        if (status != VO_OK) return status;
        for (int i = 0; i < state.n_live; i++) {
            vo_search_filter(search, d->live[i], logits[i]);
            propose(search, &state, i, logits[i]);
        }
        select_beams(search, &state);
    }
    /* The reference fills up with live paths when fewer than `beam` finished. They are of one
     * length, so that only the first, with the largest sum, can be the best. */
    const vo_path *best = state.n_finished > 0 ? &d->best : NULL;
    if (state.n_finished < state.beam && state.n_live > 0) {
        const vo_path *live = &d->bank[state.bank][0];
        if (!best || vo_search_rank(search, live) > vo_search_rank(search, best)) best = live;
    }
    *winner = best;
    return VO_OK;
}
