/* SPDX-License-Identifier: MIT
 *
 * Decoding one sequence with a language model: greedy, sampling with best-of, beam search, and
 * the filters between logits and choice. Follows openai-whisper's decoding.py (release
 * 20250625); beam search with patience is Kasai et al., arXiv:2204.05424.
 *
 * Where the reference leaves things open: equal logits are taken in order of their ids; NaN
 * counts as -inf; tokens of probability 0 are never candidates; a row without any candidate
 * ends with eot at log-probability -inf; an empty sequence is ranked as if it had one token.
 * Sums are double, the reference's are float: a beam order decided by less than a float's last
 * bit may differ.
 */
#ifndef VO_DECODE_DECODE_H
#define VO_DECODE_DECODE_H

#include "decode/boost.h"
#include "decode/lm.h"

struct vo_speculator;

/* Changes logits in place before the choice of the next token. `tokens` is everything fed or
 * chosen so far; tokens[begin..n) were chosen. Filters are applied in list order. */
typedef struct vo_logit_filter {
    void (*apply)(const void *self, float *logits /* [n_vocab] */, int n_vocab,
                  const int32_t *tokens, int n, int begin);
    const void *self;
} vo_logit_filter;

/* -inf for ids: at the first choice only, or always. Ids outside the vocabulary are ignored.
 * A filter borrows what it was made from. */
typedef struct vo_suppress_filter {
    const int32_t *ids;
    int n_ids;
    bool first_only;
} vo_suppress_filter;
vo_logit_filter vo_filter_suppress(const vo_suppress_filter *self);

/* Whisper's timestamp grammar (decoding.py, ApplyTimestampRules). */
typedef struct vo_timestamp_filter {
    int32_t eot;
    int32_t no_timestamps;     /* -1: the vocabulary has none */
    int32_t timestamp_begin;   /* this id and all above are timestamps */
    int32_t max_initial_index; /* -1: no limit */
} vo_timestamp_filter;
vo_logit_filter vo_filter_timestamps(const vo_timestamp_filter *self);

typedef struct vo_decode_params {
    int32_t eot;          /* must be set */
    int max_tokens;       /* most tokens chosen, eot included; >= 1 (Whisper: 224) */
    float temperature;    /* 0: greedy or beam; above: sampling */
    int best_of;          /* independent samples when temperature > 0; 1..max_rows */
    int beam_size;        /* beams when temperature == 0; 1..max_rows */
    float patience;       /* beam search stops at round(beam_size * patience) finished ones; with
                             one beam and one candidate this is greedy decoding */
    float length_penalty; /* NaN: rank by sum / length; else by sum / ((5 + length) / 6)^penalty */
    uint64_t seed;        /* sampling: a row's choices depend on seed and row alone */
    const vo_logit_filter *filters;
    int n_filters;
    /* Proposes tokens that are verified in the step of the last one chosen (speculate.h): fewer
     * steps, the same result. Used by greedy decoding and a single sample only, and not
     * together with boost. NULL: none */
    struct vo_speculator *speculator;
    const vo_boost *boost;     /* borrowed; NULL: nothing is boosted. Needs lm.rewind. With one beam
                                  and several candidates only phrases of one token are */
    bool (*abort)(void *user); /* polled every step; NULL: never */
    void *abort_user;
} vo_decode_params;
/* 224 tokens, temperature 0, one beam, one sample, patience 1, rank by length; eot is -1. */
vo_decode_params vo_decode_default_params(void);

/* The chosen tokens without eot. The arrays are borrowed from the decoder until its next call. */
typedef struct vo_decode_result {
    const int32_t *tokens;
    const float *logprobs; /* of each chosen token, from the filtered, un-tempered logits */
    int n_tokens;
    bool ended;         /* eot was chosen, rather than a limit reached */
    double sum_logprob; /* includes eot's own when it was chosen; -inf if no token was allowed */
    double avg_logprob; /* sum / (n_tokens + 1) */
    double boost;       /* the gaps of boosted phrases: add it to sum_logprob to judge the choices
                           that the model made itself */
    int steps;          /* model steps taken */
    int n_proposed;     /* tokens that the speculator proposed to the model */
    int n_accepted;     /* those of them that were chosen */
} vo_decode_result;

/* Buffers sized once from lm's n_vocab, max_rows and max_length, so that vo_decode allocates
 * nothing. Copies *lm; lm->self must outlive the decoder. Belongs to one thread at a time. */
typedef struct vo_decoder vo_decoder;
vo_decoder *vo_decoder_create(const vo_lm *lm, vo_error *err);
void vo_decoder_destroy(vo_decoder *decoder); /* NULL allowed */

/* Continues row 0, into which prompt[0..n_fed) was fed already; prompt[n_fed..n_prompt) is fed
 * here, 0 <= n_fed < n_prompt <= max_length. Ends at eot, after max_tokens, or when a row is
 * full (the last token chosen is never fed, so n_prompt + n_tokens can be max_length + 1).
 * On return row 0 still begins with prompt; everything else in the rows is unspecified: the
 * caller rewinds row 0. VO_ERR_ABORTED when params->abort said so; errors of lm are passed on.
 * On error *result is zeroed. */
vo_status vo_decode(vo_decoder *decoder, const int32_t *prompt, int n_prompt, int n_fed,
                    const vo_decode_params *params, vo_decode_result *result, vo_error *err);

/* The same in parts, for callers that give the model the inputs of several decoders at once:
 *     begin; while (next gives n > 0) { lm step on those inputs; take }; finish
 * begin copies *params; the filters must outlive the decoding. next asks lm.fork where rows must be
 * rearranged, so calls that share a model must not overlap. take touches this decoder and the
 * logits only: decoders may take at the same time. finish borrows from the decoder until its next
 * begin, and only makes sense after n was 0. */
vo_status vo_decode_begin(vo_decoder *decoder, const int32_t *prompt, int n_prompt, int n_fed,
                          const vo_decode_params *params, vo_error *err);
vo_status vo_decode_next(vo_decoder *decoder, const vo_lm_input **inputs, int *n, vo_error *err);
void vo_decode_take(vo_decoder *decoder, float *const *logits);
vo_decode_result vo_decode_finish(const vo_decoder *decoder);

/* log(sum(exp(x))) of n floats, NaN left out: -inf when nothing is there, else exact to about
 * a float's last bit. */
float vo_logsumexp(const float *x, int n);

#endif
