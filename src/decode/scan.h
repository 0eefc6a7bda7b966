/* SPDX-License-Identifier: MIT
 *
 * What a choice needs to know about one row of filtered logits, found in one pass for maxima
 * and one for the sum of exponentials. The maxima of small blocks are kept: they say which few
 * blocks hold the best tokens and which cannot add to the sum.
 */
#ifndef VO_DECODE_SCAN_H
#define VO_DECODE_SCAN_H

#include "base/status.h"

typedef struct vo_scan {
    int n, n_blocks;
    float *block_max;  /* f32 [n_blocks] */
    double *block_sum; /* f64 [n_blocks]: of exp((x - max) / temperature), for sampling */
    float max;         /* -inf when every logit is -inf or NaN */
    double logsumexp;
    double total; /* of block_sum */
} vo_scan;

/* A token with its log-probability. */
typedef struct vo_choice {
    int32_t token;
    double logprob;
} vo_choice;

/* Buffers for rows of n logits; false when memory is short. free accepts a zeroed object. */
bool vo_scan_init(vo_scan *scan, int n);
void vo_scan_free(vo_scan *scan);

/* Fills max and logsumexp. NaN counts as -inf; +inf is replaced by the largest float. */
void vo_scan_logits(vo_scan *scan, float *logits /* [n] */);

/* The k tokens with the largest logits, best first, of equal ones the smaller id first. Tokens
 * of probability 0 are left out, so that fewer than k, even none, may be returned. */
int vo_scan_top(const vo_scan *scan, const float *logits /* [n] */, int k, vo_choice *top);

/* Sampling from softmax(logits / temperature): prepare once, then draw with u in [0, 1). The
 * drawn log-probability is that of the un-tempered logits. Needs max > -inf. */
void vo_scan_temper(vo_scan *scan, const float *logits /* [n] */, float temperature);
vo_choice vo_scan_draw(const vo_scan *scan, const float *logits /* [n] */, float temperature,
                       double u);

#endif
