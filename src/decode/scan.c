/* SPDX-License-Identifier: MIT
 *
 * Maximum, log-sum-exp, the k best and a random draw over one row of logits. Sums within a block
 * of 64 are float, over blocks double.
 */
#include "decode/scan.h"

#include <float.h>
#include <math.h>

#include "base/memory.h"
#include "decode/decode.h"
#include "decode/vmath.h"

bool vo_scan_init(vo_scan *scan, int n) {
    *scan = (vo_scan){.n = n, .n_blocks = vo_block_count(n)};
    scan->block_max = vo_alloc_array((size_t)scan->n_blocks, sizeof(float));
    scan->block_sum = vo_alloc_array((size_t)scan->n_blocks, sizeof(double));
    return scan->block_max && scan->block_sum;
}

void vo_scan_free(vo_scan *scan) {
    vo_free(scan->block_max);
    vo_free(scan->block_sum);
    *scan = (vo_scan){0};
}

static int block_length(int n, int block) {
    int rest = n - block * VO_VBLOCK;
    return rest < VO_VBLOCK ? rest : VO_VBLOCK;
}

static float find_maxima(const vo_scan *scan, const float *logits) {
    float padded[VO_VBLOCK], max = -INFINITY;
    for (int b = 0; b < scan->n_blocks; b++) {
        float m = vo_max_block(vo_block(logits, scan->n, b, padded));
        scan->block_max[b] = m;
        if (m > max) max = m;
    }
    return max;
}

void vo_scan_logits(vo_scan *scan, float *logits) {
    scan->max = find_maxima(scan, logits);
    if (scan->max == INFINITY) {
        for (int i = 0; i < scan->n; i++) {
            if (logits[i] == INFINITY) logits[i] = FLT_MAX;
        }
        scan->max = find_maxima(scan, logits);
    }
    scan->logsumexp = -INFINITY;
    if (scan->max == -INFINITY) return;
    float padded[VO_VBLOCK];
    double sum = 0;
    for (int b = 0; b < scan->n_blocks; b++) {
        if (scan->block_max[b] - scan->max < VO_EXP_NEGLIGIBLE) continue;
        const float *block = vo_block(logits, scan->n, b, padded);
        sum += (double)vo_sum_exp_block(block, scan->max, 1.0f);
    }
    scan->logsumexp = (double)scan->max + log(sum);
}

/* Puts a token into its place among the best so far; returns the new count. */
static int insert_choice(vo_choice *top, int count, int k, int32_t token, double logit) {
    if (count == k) {
        if (!(logit > top[k - 1].logprob)) return count;
    } else {
        count++;
    }
    int at = count - 1;
    for (; at > 0 && top[at - 1].logprob < logit; at--) top[at] = top[at - 1];
    top[at] = (vo_choice){token, logit};
    return count;
}

int vo_scan_top(const vo_scan *scan, const float *logits, int k, vo_choice *top) {
    if (scan->max == -INFINITY || k < 1) return 0;
    /* the k-th largest block maximum is a lower bound of the k-th largest logit: first the best
     * blocks are selected, then only tokens in blocks that reach the bound are looked at */
    int count = 0;
    for (int b = 0; b < scan->n_blocks; b++) {
        count = insert_choice(top, count, k, b, (double)scan->block_max[b]);
    }
    float bound = count == k ? (float)top[k - 1].logprob : -INFINITY;
    count = 0;
    for (int b = 0; b < scan->n_blocks; b++) {
        if (scan->block_max[b] < bound) continue;
        int length = block_length(scan->n, b);
        for (int i = b * VO_VBLOCK; i < b * VO_VBLOCK + length; i++) {
            if (logits[i] >= bound && logits[i] > -INFINITY) {
                count = insert_choice(top, count, k, i, (double)logits[i]);
            }
        }
    }
    for (int c = 0; c < count; c++) top[c].logprob -= scan->logsumexp;
    return count;
}

/* Bounded, so that the best token's (x - max) * scale stays 0 at any temperature. */
static float inverse(float temperature) {
    float scale = 1.0f / temperature;
    return scale < 1e30f ? scale : 1e30f;
}

void vo_scan_temper(vo_scan *scan, const float *logits, float temperature) {
    float scale = inverse(temperature), padded[VO_VBLOCK];
    scan->total = 0;
    for (int b = 0; b < scan->n_blocks; b++) {
        scan->block_sum[b] = 0;
        if ((scan->block_max[b] - scan->max) * scale < VO_EXP_NEGLIGIBLE) continue;
        const float *block = vo_block(logits, scan->n, b, padded);
        scan->block_sum[b] = (double)vo_sum_exp_block(block, scan->max, scale);
        scan->total += scan->block_sum[b];
    }
}

vo_choice vo_scan_draw(const vo_scan *scan, const float *logits, float temperature, double u) {
    float scale = inverse(temperature);
    double target = u * scan->total, below = 0;
    int block = -1;
    for (int b = 0; b < scan->n_blocks; b++) {
        if (scan->block_sum[b] <= 0) continue;
        if (block >= 0) below += scan->block_sum[block];
        block = b;
        if (below + scan->block_sum[b] > target) break;
    }
    /* Sums of another order may end a rounding error short of the target: then the last token
     * with any probability is taken. */
    int token = -1;
    int length = block_length(scan->n, block);
    for (int i = block * VO_VBLOCK; i < block * VO_VBLOCK + length; i++) {
        double p = (double)vo_exp_scaled(logits[i] - scan->max, scale);
        if (p <= 0) continue;
        token = i;
        below += p;
        if (below > target) break;
    }
    return (vo_choice){token, (double)logits[token] - scan->logsumexp};
}

float vo_logsumexp(const float *x, int n) {
    float padded[VO_VBLOCK], max = vo_max_floats(x, n);
    if (max == -INFINITY || max == INFINITY) return max;
    double sum = 0;
    for (int b = 0; b < vo_block_count(n); b++) {
        sum += (double)vo_sum_exp_block(vo_block(x, n, b, padded), max, 1.0f);
    }
    return (float)((double)max + log(sum));
}
