/* SPDX-License-Identifier: MIT
 *
 * Loading a model, making a session, and the adapter that lets decoding drive Whisper: the
 * three function pointers of decode/lm.h over a whisper state.
 */
#include "base/memory.h"
#include "pipeline/engine.h"

#include <string.h>

vo_status vo_model_load(vocis_engine *engine, const char *path, vocis_model **out, vo_error *err) {
    vo_weights *weights = NULL;
    vo_status status = vo_weights_open(path, &weights, err);
    if (status != VO_OK) return status;
    vocis_model *model = vo_alloc(sizeof *model);
    if (!model) {
        vo_weights_close(weights);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a model");
    }
    model->engine = engine;
    status = vo_whisper_load(weights, &model->whisper, err);
    if (status == VO_OK)
        status = vo_tokenizer_create(model->whisper->dims.n_vocab, &model->tokenizer, err);
    if (status == VO_OK) {
        model->mel = vo_mel_create(model->whisper->dims.n_mels, err);
        if (!model->mel) status = err && err->status ? err->status : VO_ERR_MEMORY;
    }
    if (status != VO_OK)
        vo_model_destroy(model);
    else
        *out = model;
    return status;
}

void vo_model_destroy(vocis_model *model) {
    if (!model) return;
    vo_mel_destroy(model->mel);
    vo_tokenizer_destroy(model->tokenizer);
    vo_whisper_destroy(model->whisper);
    vo_free(model);
}

static vo_status lm_step(void *self, const vo_lm_input *inputs, int n, float *const **logits,
                         vo_error *err) {
    vocis_session *s = self;
    if (n > s->max_sequences) return vo_fail(err, VO_ERR_INTERNAL, "%d rows in one step", n);
    for (int i = 0; i < n; i++)
        s->feeds[i] = (vo_whisper_feed){.row = inputs[i].row,
                                        .window = 0,
                                        .n_tokens = inputs[i].n_tokens,
                                        .tokens = inputs[i].tokens};
    return vo_whisper_step(s->state, s->feeds, n, logits, err);
}

static vo_status lm_fork(void *self, const int *parents, int n, vo_error *err) {
    return vo_kv_fork(vo_whisper_cache(((vocis_session *)self)->state), parents, n, err);
}

static vo_status lm_rewind(void *self, int row, int length, vo_error *err) {
    return vo_kv_truncate(vo_whisper_cache(((vocis_session *)self)->state), row, length, err);
}

vo_status vo_session_create(vocis_model *model, vocis_session_params params, vocis_session **out,
                            vo_error *err) {
    if (params.max_sequences < 1 || params.max_sequences > 64)
        return vo_fail(err, VO_ERR_ARGUMENT, "max_sequences must be between 1 and 64, not %d",
                       params.max_sequences);
    vocis_session *s = vo_alloc(sizeof *s);
    if (!s) return vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    s->model = model;
    s->max_sequences = params.max_sequences;
    vo_whisper_state_params state = {.rows = params.max_sequences, .windows = 1};
    vo_status status =
        vo_whisper_state_create(model->whisper, &model->engine->runtime, state, &s->state, err);
    s->feeds = vo_alloc_array((size_t)params.max_sequences, sizeof *s->feeds);
    if (status == VO_OK && !s->feeds)
        status = vo_fail(err, VO_ERR_MEMORY, "no memory for a session");
    if (status == VO_OK) {
        s->lm = (vo_lm){.self = s,
                        .n_vocab = model->whisper->dims.n_vocab,
                        .max_rows = params.max_sequences,
                        .max_length = model->whisper->dims.n_text_ctx,
                        .step = lm_step,
                        .fork = lm_fork,
                        .rewind = lm_rewind};
        s->decoder = vo_decoder_create(&s->lm, err);
        if (!s->decoder) status = VO_ERR_MEMORY;
    }
    if (status != VO_OK)
        vo_session_destroy(s);
    else
        *out = s;
    return status;
}

void vo_session_destroy(vocis_session *s) {
    if (!s) return;
    vo_decoder_destroy(s->decoder);
    vo_whisper_state_destroy(s->state);
    vo_free(s->feeds);
    vo_free(s);
}
