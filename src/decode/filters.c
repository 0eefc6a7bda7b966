/* SPDX-License-Identifier: MIT
 *
 * Logit filters of Whisper: suppressed tokens and the grammar of timestamps.
 */
#include <math.h>

#include "decode/decode.h"
#include "decode/vmath.h"

static void forbid(float *logits, int n_vocab, int64_t begin, int64_t end) {
    if (begin < 0) begin = 0;
    if (end > n_vocab) end = n_vocab;
    for (int64_t i = begin; i < end; i++) logits[i] = -INFINITY;
}

static void apply_suppress(const void *self, float *logits, int n_vocab, const int32_t *tokens,
                           int n, int begin) {
    const vo_suppress_filter *filter = self;
    (void)tokens;
    if (filter->first_only && n != begin) return;
    for (int i = 0; i < filter->n_ids; i++) {
        int32_t id = filter->ids[i];
        if (id >= 0 && id < n_vocab) logits[id] = -INFINITY;
    }
}

vo_logit_filter vo_filter_suppress(const vo_suppress_filter *self) {
    return (vo_logit_filter){apply_suppress, self};
}

/* Timestamps come in pairs (end of one segment, start of the next), except directly before
 * eot, and never go back. */
static void apply_pairs(const vo_timestamp_filter *filter, float *logits, int n_vocab,
                        const int32_t *chosen, int n) {
    int32_t first = filter->timestamp_begin;
    bool last = n >= 1 && chosen[n - 1] >= first;
    bool penultimate = n < 2 || chosen[n - 2] >= first;
    if (last && penultimate) {
        forbid(logits, n_vocab, first, n_vocab);
    } else if (last) {
        forbid(logits, n_vocab, 0, filter->eot);
    }
    int newest = n - 1;
    while (newest >= 0 && chosen[newest] < first) newest--;
    if (newest < 0) return;
    /* A segment has a length above 0: its end must exceed its start. The start of the next one
     * may equal the end of the last. */
    bool may_repeat = last && !penultimate;
    forbid(logits, n_vocab, first, (int64_t)chosen[newest] + (may_repeat ? 0 : 1));
}

static void apply_timestamps(const void *self, float *logits, int n_vocab, const int32_t *tokens,
                             int n, int begin) {
    const vo_timestamp_filter *filter = self;
    int32_t first = filter->timestamp_begin;
    if (filter->no_timestamps >= 0) {
        forbid(logits, n_vocab, filter->no_timestamps, (int64_t)filter->no_timestamps + 1);
    }
    if (first < 0 || first >= n_vocab) return;
    apply_pairs(filter, logits, n_vocab, tokens + begin, n - begin);
    if (n == begin) {
        forbid(logits, n_vocab, 0, first);
        if (filter->max_initial_index >= 0) {
            forbid(logits, n_vocab, (int64_t)first + filter->max_initial_index + 1, n_vocab);
        }
    }
    /* When all timestamps together are likelier than the likeliest other token, take one. Both
     * sides miss the same normalisation, which cancels. */
    if (vo_logsumexp(logits + first, n_vocab - first) > vo_max_floats(logits, first)) {
        forbid(logits, n_vocab, 0, first);
    }
}

vo_logit_filter vo_filter_timestamps(const vo_timestamp_filter *self) {
    return (vo_logit_filter){apply_timestamps, self};
}
