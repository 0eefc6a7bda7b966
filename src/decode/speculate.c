/* SPDX-License-Identifier: MIT
 *
 * Sources of proposals, and how many to ask for. Verification is where tokens are chosen:
 * sample.c.
 */
#include "decode/speculate.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "decode/search.h"
#include "decode/vmath.h"

/* ---- repeats -------------------------------------------------------------------------------- */

static int suffix_match(const int32_t *tokens, int n, int end, int longest) {
    int length = 0;
    while (length < longest && length < end && tokens[end - 1 - length] == tokens[n - 1 - length])
        length++;
    return length;
}

static vo_status propose_repeats(void *self, const vo_decode_params *params, const int32_t *tokens,
                                 int n, int begin, int32_t *out, int most, int *count,
                                 vo_error *err) {
    enum { SHORTEST = 2, LONGEST = 8 };
    int best = SHORTEST - 1, from = n;
    for (int end = n - 1; end >= SHORTEST && best < LONGEST; end--) {
        const int length = suffix_match(tokens, n, end, LONGEST);
        if (length > best) {
            best = length;
            from = end;
        }
    }
    *count = n - from < most ? n - from : most;
    memcpy(out, tokens + from, (size_t)*count * sizeof *out);
    return VO_OK;
}

vo_proposer vo_propose_repeats(void) {
    return (vo_proposer){NULL, propose_repeats};
}

/* ---- a draft model -------------------------------------------------------------------------- */

vo_status vo_draft_init(vo_draft *draft, const vo_lm *lm, vo_error *err) {
    *draft = (vo_draft){.lm = *lm};
    draft->tokens = vo_alloc_array((size_t)lm->max_length, sizeof *draft->tokens);
    return draft->tokens ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for a draft");
}

void vo_draft_free(vo_draft *draft) {
    vo_free(draft->tokens);
    *draft = (vo_draft){0};
}

vo_status vo_draft_reset(vo_draft *draft, vo_error *err) {
    draft->n = 0;
    return draft->lm.rewind(draft->lm.self, 0, 0, err);
}

/* Leaves of what was fed what tokens begin with, but not all of them: the last one's logits are
 * wanted. The rest of tokens is put behind it, to be fed. */
static vo_status keep_common(vo_draft *d, const int32_t *tokens, int n, vo_error *err) {
    int same = 0;
    while (same < d->n && same < n - 1 && d->tokens[same] == tokens[same]) same++;
    vo_status status = same < d->n ? d->lm.rewind(d->lm.self, 0, same, err) : VO_OK;
    d->n = same;
    memcpy(d->tokens + same, tokens + same, (size_t)(n - same) * sizeof *tokens);
    return status;
}

/* The first of the largest; -1 when there is none. */
static int32_t likeliest(const float *logits, int n) {
    const float best = vo_max_floats(logits, n);
    if (!(best > -INFINITY)) return -1;
    int32_t id = 0;
    while (id < n && logits[id] != best) id++;
    return id < n ? id : -1;
}

static vo_status propose_draft(void *self, const vo_decode_params *params, const int32_t *tokens,
                               int n, int begin, int32_t *out, int most, int *count,
                               vo_error *err) {
    vo_draft *d = self;
    *count = 0;
    if (most > d->lm.max_length - n) most = d->lm.max_length - n;
    if (most < 1) return VO_OK;
    vo_status status = keep_common(d, tokens, n, err);
    for (int length = n; status == VO_OK && *count < most; length++) {
        const vo_lm_input input = {.row = 0, .n_tokens = length - d->n, .tokens = d->tokens + d->n};
        float *const *logits;
        status = d->lm.step(d->lm.self, &input, 1, &logits, err);
        if (status != VO_OK) break;
        d->n = length;
        for (int i = 0; i < params->n_filters; i++)
            params->filters[i].apply(params->filters[i].self, logits[0], d->lm.n_vocab, d->tokens,
                                     length, begin);
        const int32_t id = likeliest(logits[0], d->lm.n_vocab);
        if (id < 0 || id == params->eot) break;
        d->tokens[length] = out[(*count)++] = id;
    }
    return status;
}

vo_proposer vo_propose_draft(vo_draft *draft) {
    return (vo_proposer){draft, propose_draft};
}

/* ---- how many ------------------------------------------------------------------------------- */

vo_speculator vo_speculator_make(vo_proposer proposer, int most, bool automatic) {
    return (vo_speculator){
        .proposer = proposer, .most = most, .automatic = automatic, .ahead = most < 4 ? most : 4};
}

vo_status vo_speculator_propose(vo_speculator *s, const vo_decode_params *params, int n_vocab,
                                const int32_t *tokens, int n, int begin, int32_t *out, int most,
                                int *count, vo_error *err) {
    *count = 0;
    if (most > s->most) most = s->most;
    if (most > s->ahead) most = s->ahead;
    if (most < 1) return VO_OK;
    vo_status status =
        s->proposer.propose(s->proposer.self, params, tokens, n, begin, out, most, count, err);
    if (status != VO_OK) *count = 0;
    for (int i = 0; i < *count; i++)
        if (out[i] < 0 || out[i] >= n_vocab || out[i] == params->eot) *count = i;
    return status;
}

void vo_speculator_learn(vo_speculator *s, int n_proposed, int n_accepted) {
    if (n_accepted == n_proposed)
        s->ahead = s->ahead + 1 < s->most ? s->ahead + 1 : s->most;
    else
        s->ahead = n_accepted > 1 ? n_accepted : 1;
}

/* One text of each kind, then what was faster; now and then the other again, since the machine and
 * the speech change. */
bool vo_speculator_wanted(const vo_speculator *s) {
    enum { AGAIN = 16 };
    if (!s->automatic) return true;
    if (s->tokens[0] < 1 || s->tokens[1] < 1) return s->tokens[0] >= 1;
    const bool faster = s->seconds[1] * s->tokens[0] < s->seconds[0] * s->tokens[1];
    return s->texts % AGAIN == AGAIN - 1 ? !faster : faster;
}

void vo_speculator_took(vo_speculator *s, bool used, double seconds, int n_tokens) {
    const double forget = 0.75; /* of what is older, at each text */
    if (!s->automatic || n_tokens < 1) return;
    s->seconds[used] = forget * s->seconds[used] + seconds;
    s->tokens[used] = forget * s->tokens[used] + n_tokens;
    s->texts++;
}

/* ---- in a search ---------------------------------------------------------------------------- */

vo_status vo_search_speculate(vo_decoder *d, vo_error *err) {
    vo_search *search = &d->search;
    vo_path *path = d->live[0];
    vo_status status = VO_OK;
    if (search->rewinds) status = d->lm.rewind(d->lm.self, path->row, path->n - 1, err);
    search->rewinds = false;
    search->n_ahead = 0;
    int most = search->limit - search->chosen - 1; /* the row has room for them, too */
    if (most > d->lm.max_ahead) most = d->lm.max_ahead;
    if (status == VO_OK && most > 0)
        status = vo_speculator_propose(search->params.speculator, &search->params, d->lm.n_vocab,
                                       path->tokens, path->n, search->n_prompt,
                                       path->tokens + path->n, most, &search->n_ahead, err);
    d->inputs[0].n_tokens = d->inputs[0].n_logits = 1 + search->n_ahead;
    return status;
}
