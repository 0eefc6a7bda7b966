/* SPDX-License-Identifier: MIT
 *
 * Language detection: one decoder step with the start token alone; the softmax over the
 * language ids is the answer (Radford et al. 2022, section 2.3).
 */
#include "base/memory.h"
#include "pipeline/engine.h"

#include <math.h>
#include <string.h>

vo_status vo_language_of_window(vocis_session *s, float *probabilities, int *best, vo_error *err) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(s->model->tokenizer);
    vo_lm_input input = {.row = 0, .n_tokens = 1, .tokens = &ids->sot};
    float *const *logits;
    vo_lm *lm = &s->lanes[0].lm;
    vo_status status = lm->rewind(lm->self, 0, 0, err);
    if (status == VO_OK) status = lm->step(lm->self, &input, 1, &logits, err);
    if (status != VO_OK) return status;
    const float *x = logits[0] + ids->first_language;
    float norm = vo_logsumexp(x, ids->n_languages);
    *best = 0;
    for (int i = 0; i < ids->n_languages; i++) {
        if (probabilities) probabilities[i] = expf(x[i] - norm);
        if (x[i] > x[*best]) *best = i;
    }
    return lm->rewind(lm->self, 0, 0, err);
}

vo_status vo_detect_language(vocis_session *s, const float *samples, int64_t n_samples,
                             float *probabilities, int *best, vo_error *err) {
    const vo_whisper_dims *dims = &s->model->whisper->dims;
    if (n_samples < 0 || (n_samples > 0 && !samples))
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to find a language in");
    if (!vo_tokenizer_ids(s->model->tokenizer)->multilingual) {
        for (int i = 0; probabilities && vo_language_code(i); i++) probabilities[i] = i == 0;
        *best = 0;
        return VO_OK;
    }
    /* Nothing beyond the window counts, not even in the clamp of its mel. */
    int64_t window = 2 * (int64_t)dims->n_audio_ctx * VO_MEL_HOP;
    int64_t used = n_samples < window ? n_samples : window;
    for (int i = 0; probabilities && vo_language_code(i); i++) probabilities[i] = 0;
    vo_status status =
        vo_mel_compute(s->model->mel, &s->model->engine->kernels, s->model->engine->pool, samples,
                       used, window - used, vo_whisper_mel(s->workers->state), err);
    if (status == VO_OK) status = vo_whisper_encode(s->workers->state, 0, err);
    if (status == VO_OK) status = vo_language_of_window(s, probabilities, best, err);
    return status;
}
