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
        vo_path_push(&paths[i], choose(d, logits, i, 0), search->params.eot);
        if (paths[i].ended) continue;
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
    vo_path_push(path, choose(d, logits, sample, step), d->search.params.eot);
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
        search->n_live = !d->live[0]->ended;
        return;
    }
    int still_live = 0;
    for (int i = 0; i < search->n_live; i++) {
        vo_path *path = d->live[i];
        advance(d, path, logits[i]);
        if (!path->ended) d->live[still_live++] = path;
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
