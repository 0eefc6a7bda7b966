/* SPDX-License-Identifier: MIT
 *
 * Decoding one sequence with a language model: greedy, sampling with best-of, beam search, and
 * the filters between logits and choice. Follows openai-whisper's decoding.py.
 */
#ifndef VO_DECODE_DECODE_H
#define VO_DECODE_DECODE_H

#include "decode/lm.h"

/* Changes logits in place before the choice of the next token. `tokens` is everything fed or
 * chosen so far; tokens[begin..n) were chosen. Filters are applied in list order. */
typedef struct vo_logit_filter {
    void (*apply)(const void *self, float *logits /* [n_vocab] */, int n_vocab,
                  const int32_t *tokens, int n, int begin);
    const void *self;
} vo_logit_filter;

/* -inf for ids: at the first choice only, or always. */
typedef struct vo_suppress_filter {
    const int32_t *ids;
    int n_ids;
    bool first_only;
} vo_suppress_filter;
vo_logit_filter vo_filter_suppress(const vo_suppress_filter *self);

/* Whisper's timestamp grammar (decoding.py, ApplyTimestampRules). */
typedef struct vo_timestamp_filter {
    int32_t eot, no_timestamps, timestamp_begin;
    int32_t max_initial_index; /* -1: no limit */
} vo_timestamp_filter;
vo_logit_filter vo_filter_timestamps(const vo_timestamp_filter *self);

typedef struct vo_decode_params {
    int32_t eot;
    int max_tokens;        /* most chosen tokens (Whisper: 224) */
    float temperature;     /* 0: greedy or beam */
    int best_of;           /* independent samples when temperature > 0; >= 1 */
    int beam_size;         /* beams when temperature == 0; 1 is greedy */
    float patience;        /* beam search keeps round(beam_size * patience) candidates */
    float length_penalty;  /* NaN: divide by length; else ((5 + length) / 6)^penalty */
    uint64_t seed;         /* for sampling */
    const vo_logit_filter *filters;
    int n_filters;
    bool (*abort)(void *user); /* polled every step; NULL: never */
    void *abort_user;
} vo_decode_params;
vo_decode_params vo_decode_default_params(void);

/* The chosen tokens without eot. Owned by the caller: vo_decode_result_free. */
typedef struct vo_decode_result {
    int32_t *tokens;
    float *logprobs; /* of each chosen token, from the filtered, un-tempered logits */
    int n_tokens;
    double sum_logprob; /* includes eot's own when it was chosen */
    double avg_logprob; /* sum / (n_tokens + 1) */
    int steps;          /* model steps taken */
} vo_decode_result;
void vo_decode_result_free(vo_decode_result *result);

/* State that is kept between windows so that steady decoding allocates nothing. */
typedef struct vo_decoder vo_decoder;
vo_decoder *vo_decoder_create(const vo_lm *lm, vo_error *err);
void vo_decoder_destroy(vo_decoder *decoder);

/* Continues row 0, into which prompt[0..n-1) was fed already; the last prompt token is fed
 * here. On return row contents are unspecified: the caller rewinds row 0 to the prompt. */
vo_status vo_decode(vo_decoder *decoder, const int32_t *prompt, int n_prompt,
                    const vo_decode_params *params, vo_decode_result *result, vo_error *err);

/* log(sum(exp(x))) of n floats, and a small exact-enough exp, shared by filters and search. */
float vo_logsumexp(const float *x, int n);

#endif
