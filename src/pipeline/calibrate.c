/* SPDX-License-Identifier: MIT
 *
 * Calibration is transcription with an observer: the decoder sees the words that it would write,
 * at their real positions, and nothing that a test input would have to guess.
 */
#include "pipeline/calibrate.h"

#include "audio/audio.h"
#include "pipeline/engine.h"
#include "pipeline/result.h"

#include <math.h>

static bool is_stopped(void *user) {
    const vocis_convert_params *p = user;
    return p->progress && !p->progress(p->progress_user, 0, 0);
}

/* Greedy and without fallback: text that loops is thrown away by a fallback, and would count. */
static vocis_transcribe_params listening(const vocis_convert_params *p) {
    vocis_transcribe_params params = vo_transcribe_default_params();
    params.beam_size = params.best_of = 1;
    params.temperature_increment = 0;
    params.recover = params.guard = false;
    params.compression_ratio_threshold = params.logprob_threshold = NAN;
    params.on_abort = is_stopped;
    params.user = (void *)(uintptr_t)p;
    return params;
}

static vo_status listen(vocis_session *session, const char *file, const vocis_convert_params *p,
                        vo_error *err) {
    vo_audio audio = {0};
    vo_audio_params reading = vo_audio_default_params();
    vocis_transcribe_params params = listening(p);
    vocis_result *result = NULL;
    vo_error why = {0};
    vo_status status = vo_audio_load(file, &reading, &audio, &why);
    if (status == VO_OK && audio.n_samples == 0)
        status = vo_fail(&why, VO_ERR_FORMAT, "%s",
                         audio.warning[0] ? audio.warning : "it holds no sound");
    if (status == VO_OK)
        status = vo_transcribe(session, audio.samples, audio.n_samples, &audio.samples, &params,
                               &result, &why);
    if (status != VO_OK)
        vo_fail(err, status, "cannot calibrate with %.200s: %s", file, why.message);
    vo_result_destroy(result);
    vo_audio_free(&audio);
    return status;
}

vo_status vo_calibrate(vocis_engine *engine, const char *path, const char *const *files,
                       const vocis_convert_params *params, vo_whisper_moments **out,
                       vo_error *err) {
    vocis_model *model = NULL;
    vocis_session *session = NULL;
    vo_whisper_moments *moments = NULL;
    vo_status status = vo_model_load(engine, path, "f32", &model, err);
    if (status == VO_OK)
        status = vo_whisper_moments_create(model->whisper, engine->pool, &moments, err);
    if (status == VO_OK) {
        model->whisper->observer = vo_whisper_moments_observer(moments);
        status = vo_session_create(
            model, (vocis_session_params){.max_sequences = 1, .max_windows = 1}, &session, err);
    }
    for (; status == VO_OK && *files; files++) status = listen(session, *files, params, err);
    if (status == VO_OK) status = vo_whisper_moments_finish(moments, err);
    vo_session_destroy(session);
    vo_model_destroy(model);
    if (status == VO_OK)
        *out = moments;
    else
        vo_whisper_moments_destroy(moments);
    return status;
}
