/* SPDX-License-Identifier: MIT
 *
 * Proposals for the windows of a session, from its own text or from a draft model that listens to
 * the same window. A draft of the model's own sizes is the same network in fewer bits: it reads the
 * keys and values of the audio that the model has made, and needs no encoder. Any other draft
 * encodes each window for itself.
 */
#include "pipeline/ahead.h"

#include "base/clock.h"

/* With the token before them they are 8 rows, as many as kernels take at a time: a ninth costs half
 * as much again. */
enum { AHEAD = 7 };

static vo_status check_draft(const vocis_model *model, const vocis_model *draft, vo_error *err) {
    const vo_whisper_dims *a = &model->whisper->dims, *b = &draft->whisper->dims;
    if (draft->engine != model->engine)
        return vo_fail(err, VO_ERR_ARGUMENT, "the draft model belongs to another engine");
    if (a->n_vocab != b->n_vocab)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "the draft model has another vocabulary than the model: %d tokens, not %d",
                       b->n_vocab, a->n_vocab);
    if (a->n_mels != b->n_mels || a->n_audio_ctx != b->n_audio_ctx)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "the draft model hears windows of %d x %d, not of %d x %d", b->n_audio_ctx,
                       b->n_mels, a->n_audio_ctx, a->n_mels);
    return VO_OK;
}

vo_status vo_ahead_configure(vocis_session *s, const vocis_session_params *p, vo_error *err) {
    if (p->speculate < VOCIS_SPECULATE_OFF || p->speculate > VOCIS_SPECULATE_AUTO)
        return vo_fail(err, VO_ERR_ARGUMENT, "there is no way %d to speculate", (int)p->speculate);
    if (p->speculate == VOCIS_SPECULATE_DRAFT && !p->draft)
        return vo_fail(err, VO_ERR_ARGUMENT, "speculation needs a draft model");
    s->speculate = p->speculate;
    const bool drafts =
        p->speculate == VOCIS_SPECULATE_DRAFT || p->speculate == VOCIS_SPECULATE_AUTO;
    if (!drafts || !p->draft) return VO_OK;
    s->draft = p->draft;
    return check_draft(s->model, s->draft, err);
}

/* ---- the draft model as a language model: a row and a window for each lane ------------------ */

static vo_status step(void *self, const vo_lm_input *inputs, int n, float *const **logits,
                      vo_error *err) {
    const vo_lane *lane = self;
    const vo_whisper_feed feed = {.row = lane->window,
                                  .window = lane->window,
                                  .n_tokens = inputs[0].n_tokens,
                                  .tokens = inputs[0].tokens};
    const double begin = vo_clock_seconds();
    vo_status status = vo_whisper_step(lane->worker->draft, &feed, 1, logits, err);
    lane->worker->timings.decode += vo_clock_seconds() - begin;
    return status;
}

static vo_status rewind_row(void *self, int row, int length, vo_error *err) {
    const vo_lane *lane = self;
    return vo_kv_truncate(vo_whisper_cache(lane->worker->draft), lane->window, length, err);
}

static bool hears_the_same(const vocis_session *s) {
    return vo_whisper_same_dims(s->model->whisper, s->draft->whisper);
}

vo_status vo_ahead_begin(vo_worker *w, vo_error *err) {
    const vocis_session *s = w->session;
    if (!s->draft) return VO_OK;
    const vo_whisper_state_params p = {
        .rows = w->n_lanes, .windows = w->n_lanes, .heard = hears_the_same(s) ? w->state : NULL};
    return vo_whisper_state_create(s->draft->whisper, &w->runtime, p, &w->draft, err);
}

vo_status vo_ahead_begin_lane(vo_lane *lane, vo_error *err) {
    const vocis_session *s = lane->worker->session;
    vo_status status = VO_OK;
    if (s->speculate == VOCIS_SPECULATE_OFF) return VO_OK;
    vo_proposer proposer = vo_propose_repeats();
    if (s->draft) {
        const vo_whisper_dims *dims = &s->draft->whisper->dims;
        const vo_lm lm = {.self = lane,
                          .n_vocab = dims->n_vocab,
                          .max_rows = 1,
                          .max_length = dims->n_text_ctx,
                          .step = step,
                          .rewind = rewind_row};
        status = vo_draft_init(&lane->draft, &lm, err);
        proposer = vo_propose_draft(&lane->draft);
    }
    lane->speculator = vo_speculator_make(proposer, AHEAD, s->speculate == VOCIS_SPECULATE_AUTO);
    lane->lm.max_ahead = AHEAD;
    return status;
}

void vo_ahead_end(vo_worker *w) {
    for (int i = 0; i < w->n_lanes; i++) vo_draft_free(&w->lanes[i].draft);
    vo_whisper_state_destroy(w->draft);
}

int vo_ahead_tokens(const vocis_session *s) {
    return s->speculate == VOCIS_SPECULATE_OFF ? 0 : AHEAD;
}

/* ---- windows -------------------------------------------------------------------------------- */

/* Several windows in one step have shared the cost that proposals would save. */
static bool is_alone(const vo_lane *lane) {
    const vo_worker *w = lane->worker;
    int busy = 0;
    for (int i = 0; i < w->n_lanes; i++) busy += w->lanes[i].track != NULL;
    return busy <= 1;
}

static bool is_single(const vo_track_plan *plan) {
    const vocis_transcribe_params *p = plan->params;
    return (plan->temperatures[0] > 0 ? p->best_of : p->beam_size) == 1;
}

vo_status vo_ahead_listen(const vo_track_plan *plan, vo_lane *lane, int64_t from, int64_t count,
                          vo_error *err) {
    const vocis_session *s = plan->session;
    const bool possible = s->speculate != VOCIS_SPECULATE_OFF && is_single(plan) &&
                          (!lane->speculator.automatic || is_alone(lane));
    lane->speculates = possible && vo_speculator_wanted(&lane->speculator);
    lane->begin = possible ? vo_clock_seconds() : -1;
    if (!lane->speculates || !s->draft) return VO_OK;
    vo_status status = vo_draft_reset(&lane->draft, err);
    if (status != VO_OK || hears_the_same(s)) return status;
    return vo_encode_with(plan, lane, lane->worker->draft, from, count, err);
}

vo_speculator *vo_ahead_speculator(vo_lane *lane) {
    return lane->speculates ? &lane->speculator : NULL;
}

void vo_ahead_learn(vo_lane *lane, int n_tokens) {
    if (lane->begin < 0) return;
    vo_speculator_took(&lane->speculator, lane->speculates, vo_clock_seconds() - lane->begin,
                       n_tokens);
    lane->begin = -1;
}
