/* SPDX-License-Identifier: MIT
 *
 * Greedy decoding and independent samples: the same loop, with the best token or a drawn one.
 * All samples share the prompt's logits; only rows that have not ended are stepped.
 */
#include <math.h>

#include "decode/search.h"
#include "decode/speculate.h"

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1), a function of seed, sample and step alone: no state to keep in order. */
static double uniform(uint64_t seed, int sample, int step) {
    const uint64_t gamma = 0x9E3779B97F4A7C15u;
    uint64_t stream = mix(mix(seed + gamma) + ((uint64_t)sample + 1) * gamma);
    return (double)(mix(stream + ((uint64_t)step + 1) * gamma) >> 11) * 0x1p-53;
}

static vo_choice choose(vo_decoder *d, const float *logits, int sample, int step) {
    const vo_decode_params *p = &d->search.params;
    vo_choice choice = {p->eot, -INFINITY};
    if (d->scan.max == -INFINITY) return choice;
    if (p->temperature > 0) {
        return vo_scan_draw(&d->scan, logits, p->temperature, uniform(p->seed, sample, step));
    }
    vo_scan_top(&d->scan, logits, 1, &choice);
    return choice;
}

/* Takes back what followed the mark: another phrase is tried there, at last the own choice. */
static void go_back(const vo_search *search, vo_path *path) {
    vo_boost_mark *m = &path->mark;
    path->n = path->rewind = m->n;
    path->sum = m->sum;
    path->credit = m->credit;
    path->boost = m->state;
    if (m->n_others > 0) {
        const vo_boost_option next = m->others[0];
        m->n_others--;
        for (int i = 0; i < m->n_others; i++) m->others[i] = m->others[i + 1];
        const vo_choice choice = {next.token, (double)next.logit - m->logsumexp};
        vo_path_push(search, path, choice, next.gap);
    } else {
        vo_path_push(search, path, m->own, 0);
    }
}

/* Pushes own, or what pays for a phrase instead. */
static void push_boosted(vo_decoder *d, vo_path *path, const float *logits, vo_choice own) {
    const vo_search *search = &d->search;
    const vo_boost *boost = search->params.boost;
    vo_boost_option options[VO_BOOST_TRIES];
    vo_boost_mark mark = {.n = path->n,
                          .sum = path->sum,
                          .credit = path->credit,
                          .logsumexp = d->scan.logsumexp,
                          .state = path->boost,
                          .own = own};
    const int n = vo_boost_options(boost, &path->boost, logits, d->scan.max, own.token,
                                   path->tokens + search->n_prompt, path->n - search->n_prompt,
                                   options, VO_BOOST_TRIES);
    const bool pays = n > 0 && options[0].token != own.token &&
                      (options[0].gap > 0 || (path->boost.spent > 0 && !path->boost.whole));
    if (vo_boost_breaks(boost, &path->boost, pays ? options[0].token : own.token)) {
        go_back(search, path);
    } else if (pays) {
        const vo_choice choice = {options[0].token, (double)options[0].logit - d->scan.logsumexp};
        vo_path_push(search, path, choice, options[0].gap);
        for (int i = 1; i < n; i++)
            if (options[i].token != own.token) mark.others[mark.n_others++] = options[i];
        if (path->boost.n_paid > mark.state.n_paid) path->mark = mark;
    } else {
        vo_path_push(search, path, own, 0);
    }
}

static void push(vo_decoder *d, vo_path *path, const float *logits, vo_choice own) {
    if (d->search.params.boost)
        push_boosted(d, path, logits, own);
    else
        vo_path_push(&d->search, path, own, 0);
}

static bool goes_on(const vo_search *search, const vo_path *path) {
    return !path->ended && path->n - search->n_prompt < search->limit;
}

static void scan_row(vo_decoder *d, float *logits) {
    vo_scan_logits(&d->scan, logits);
    if (d->search.params.temperature > 0 && d->scan.max > -INFINITY) {
        vo_scan_temper(&d->scan, logits, d->search.params.temperature);
    }
}

/* The first choice of every sample, all from the logits after the prompt. Samples that go on get
 * rows 0, 1, ... which all continue row 0. */
static void first_choices(vo_decoder *d, float *logits) {
    vo_search *search = &d->search;
    vo_path *paths = d->bank[0];
    vo_search_filter(d, &paths[0], logits);
    scan_row(d, logits);
    for (int i = 1; i < search->n_samples; i++) vo_path_copy(&paths[i], &paths[0]);
    int n = 0;
    for (int i = 0; i < search->n_samples; i++) {
        push(d, &paths[i], logits, choose(d, logits, i, 0));
        if (!goes_on(search, &paths[i])) continue;
        paths[i].row = n;
        d->parents[n] = 0;
        d->live[n++] = &paths[i];
    }
    search->n_live = n;
    search->chosen = 1;
    search->forks = true;
}

/* Goes on with a path by one token. */
static void advance(vo_decoder *d, vo_path *path, float *logits) {
    vo_search_filter(d, path, logits);
    scan_row(d, logits);
    int sample = (int)(path - d->bank[0]), step = path->n - d->search.n_prompt;
    push(d, path, logits, choose(d, logits, sample, step));
}

/* The first token proposed that is not what is chosen ends what can be known from this step. A
 * choice depends on its place alone, drawn ones too, so that it is the one that a step for every
 * token would have made. */
static void verify(vo_decoder *d, vo_path *path, float *const *logits) {
    vo_search *search = &d->search;
    int accepted = 0;
    bool right = true;
    for (int i = 0; right && i <= search->n_ahead; i++) {
        int32_t proposed = path->tokens[path->n];
        advance(d, path, logits[i]);
        search->chosen++;
        right = i < search->n_ahead && !path->ended && path->tokens[path->n - 1] == proposed;
        accepted += right;
    }
    vo_speculator_learn(search->params.speculator, search->n_ahead, accepted);
    search->rewinds = accepted < search->n_ahead;
    search->n_proposed += search->n_ahead;
    search->n_accepted += accepted;
}

void vo_search_sample(vo_decoder *d, float *const *logits) {
    vo_search *search = &d->search;
    if (search->steps == 1) {
        first_choices(d, logits[0]);
        return;
    }
    if (search->n_ahead > 0) {
        verify(d, d->live[0], logits);
        search->n_live = goes_on(search, d->live[0]);
        return;
    }
    int still_live = 0;
    for (int i = 0; i < search->n_live; i++) {
        vo_path *path = d->live[i];
        advance(d, path, logits[i]);
        if (goes_on(search, path)) d->live[still_live++] = path;
    }
    search->chosen++;
    search->n_live = still_live;
}

const vo_path *vo_sample_winner(const vo_decoder *d) {
    const vo_path *paths = d->bank[0], *best = &paths[0];
    for (int i = 1; i < d->search.n_samples; i++) {
        if (vo_search_rank(&d->search, &paths[i]) > vo_search_rank(&d->search, best))
            best = &paths[i];
    }
    return best;
}
