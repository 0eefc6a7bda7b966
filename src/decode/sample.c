/* SPDX-License-Identifier: MIT
 *
 * Greedy decoding and independent samples: the same loop, with the best token or a drawn one.
 * All samples share the prompt's logits; only rows that have not ended are stepped.
 */
#include <math.h>

#include "decode/search.h"

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

static vo_choice choose(vo_search *search, const float *logits, int sample, int step) {
    const vo_decode_params *p = search->params;
    vo_scan *scan = &search->decoder->scan;
    vo_choice choice = {p->eot, -INFINITY};
    if (scan->max == -INFINITY) return choice;
    if (p->temperature > 0) {
        return vo_scan_draw(scan, logits, p->temperature, uniform(p->seed, sample, step));
    }
    vo_scan_top(scan, logits, 1, &choice);
    return choice;
}

static void scan_row(vo_search *search, float *logits) {
    vo_scan *scan = &search->decoder->scan;
    vo_scan_logits(scan, logits);
    if (search->params->temperature > 0 && scan->max > -INFINITY) {
        vo_scan_temper(scan, logits, search->params->temperature);
    }
}

static const vo_path *select_best(const vo_search *search, const vo_path *paths, int n) {
    const vo_path *best = &paths[0];
    for (int i = 1; i < n; i++) {
        if (vo_search_rank(search, &paths[i]) > vo_search_rank(search, best)) best = &paths[i];
    }
    return best;
}

/* The first choice of every sample, all from the logits after the prompt. Samples that go on get
 * rows 0, 1, ... which all continue row 0. */
static vo_status begin_samples(vo_search *search, int n_samples, int *n_live, vo_error *err) {
    vo_decoder *d = search->decoder;
    vo_path *paths = d->bank[0];
    float *logits = NULL;
    vo_status status = vo_search_begin(search, &logits, err);
    if (status != VO_OK) return status;
    scan_row(search, logits);
    for (int i = 1; i < n_samples; i++) vo_path_copy(&paths[i], &paths[0]);
    int n = 0;
    for (int i = 0; i < n_samples; i++) {
        vo_path_push(&paths[i], choose(search, logits, i, 0), search->params->eot);
        if (paths[i].ended) continue;
        paths[i].row = n;
        d->parents[n] = 0;
        d->live[n++] = &paths[i];
    }
    *n_live = n;
    return n > 0 && search->limit > 1 ? vo_search_fork(search, n, err) : VO_OK;
}

vo_status vo_search_sample(vo_search *search, int n_samples, const vo_path **winner,
                           vo_error *err) {
    vo_decoder *d = search->decoder;
    int n_live = 0;
    vo_status status = begin_samples(search, n_samples, &n_live, err);
    for (int step = 1; status == VO_OK && step < search->limit && n_live > 0; step++) {
        float *const *logits = NULL;
        status = vo_search_step(search, n_live, &logits, err);
        if (status != VO_OK) break;
        int still_live = 0;
        for (int i = 0; i < n_live; i++) {
            vo_path *path = d->live[i];
            vo_search_filter(search, path, logits[i]);
            scan_row(search, logits[i]);
            int sample = (int)(path - d->bank[0]);
            vo_path_push(path, choose(search, logits[i], sample, step), search->params->eot);
            if (!path->ended) d->live[still_live++] = path;
        }
        n_live = still_live;
    }
    if (status == VO_OK) *winner = select_best(search, d->bank[0], n_samples);
    return status;
}
