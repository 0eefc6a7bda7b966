/* SPDX-License-Identifier: MIT
 *
 * Language detection: one decoder step with the start token alone; the softmax over the
 * language ids is the answer (Radford et al. 2022, section 2.3).
 */
#include "pipeline/language.h"

#include <math.h>
#include <string.h>

#define SURE        0.8 /* probability with which no other window needs to be heard */
#define SOME_SPEECH 1.0 /* seconds; less says nothing about a language */
enum { MORE_WINDOWS = 3 };

/* ---- what may be spoken --------------------------------------------------------------------- */

/* Index of a language that the model knows, of a name that need not end with NUL; or -1. */
static vo_status find(const char *name, size_t length, const vo_whisper_ids *ids, int *index,
                      vo_error *err) {
    char text[64];
    const int n = (int)(length < sizeof text ? length : sizeof text - 1);
    memcpy(text, name, (size_t)n);
    text[n] = 0;
    *index = vo_language_find(text);
    if (*index < 0) return vo_fail(err, VO_ERR_ARGUMENT, "the language \"%s\" is not known", text);
    if (!ids->multilingual && *index != 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "this model knows English only");
    if (ids->multilingual && *index >= ids->n_languages)
        return vo_fail(err, VO_ERR_ARGUMENT, "this model does not know the language \"%s\"", text);
    return VO_OK;
}

static void allow(vo_language_set *set, int index) {
    set->n += !set->has[index];
    set->has[index] = true;
}

static void allow_all(vo_language_set *set, const vo_whisper_ids *ids) {
    for (int i = 0; i < (ids->multilingual ? ids->n_languages : 1); i++) allow(set, i);
}

vo_status vo_language_allow(const vocis_transcribe_params *p, const vo_whisper_ids *ids,
                            vo_language_set *set, vo_error *err) {
    static const char blanks[] = ", \t";
    vo_status status = VO_OK;
    int index;
    *set = (vo_language_set){0};
    if (p->language && p->languages)
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "language says what is spoken, languages what may be: not both");
    if (p->language) {
        status = find(p->language, strlen(p->language), ids, &index, err);
        if (status == VO_OK) allow(set, index);
        return status;
    }
    const char *at = p->languages ? p->languages : "all";
    for (size_t length; status == VO_OK && *(at += strspn(at, blanks)); at += length) {
        /* Names may have a blank inside, so only commas end one. */
        length = strcspn(at, ",");
        size_t used = length;
        while (used > 0 && strchr(blanks, at[used - 1])) used--;
        const bool all =
            (used == 3 && memcmp(at, "all", 3) == 0) || (used == 4 && memcmp(at, "auto", 4) == 0);
        if (all)
            allow_all(set, ids);
        else if ((status = find(at, used, ids, &index, err)) == VO_OK)
            allow(set, index);
    }
    if (status == VO_OK && set->n == 0)
        status = vo_fail(err, VO_ERR_ARGUMENT, "languages names no language");
    return status;
}

int vo_language_only(const vo_language_set *set) {
    for (int i = 0; set->n == 1 && i < VO_MAX_LANGUAGES; i++)
        if (set->has[i]) return i;
    return -1;
}

int vo_language_restrict(float *probabilities, const vo_language_set *set) {
    double sum = 0;
    int best = -1;
    for (int i = 0; i < VO_MAX_LANGUAGES; i++) {
        if (!set->has[i]) probabilities[i] = 0;
        sum += (double)probabilities[i];
        if (set->has[i] && (best < 0 || probabilities[i] > probabilities[best])) best = i;
    }
    /* Shares of one stay as they are, to the last bit. */
    for (int i = 0; sum > 0 && fabs(sum - 1) > 1e-4 && i < VO_MAX_LANGUAGES; i++)
        probabilities[i] = (float)((double)probabilities[i] / sum);
    return best;
}

/* ---- one window ----------------------------------------------------------------------------- */

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

/* ---- an input ------------------------------------------------------------------------------- */

/* What the windows heard so far say together: the mean of their log-probabilities, weighted by
 * seconds of speech. */
typedef struct hearing {
    double sums[VO_MAX_LANGUAGES], seconds;
    float probabilities[VO_MAX_LANGUAGES];
    int best;
} hearing;

/* Of the window that begins at a frame. */
static vo_status hear(const vo_track_plan *plan, int64_t from, double seconds, hearing *h,
                      vo_error *err) {
    vocis_session *session = plan->session;
    float p[VO_MAX_LANGUAGES] = {0};
    int best;
    vo_status status = vo_encode_frames(plan, session->lanes, from, plan->window_frames, err);
    if (status == VO_OK) status = vo_language_of_window(session, p, &best, err);
    if (status != VO_OK) return status;
    const bool alone = !(h->seconds > 0); /* then its own probabilities stay as they are */
    h->seconds += seconds;
    for (int i = 0; i < plan->ids->n_languages; i++) {
        h->sums[i] += seconds * log(fmax((double)p[i], 1e-30));
        h->probabilities[i] = alone ? p[i] : (float)exp(h->sums[i] / h->seconds);
    }
    h->best = vo_language_restrict(h->probabilities, &plan->allowed);
    return VO_OK;
}

/* The window of a part of the input, in frames, that holds most speech of those that begin with
 * some; -1 when there is not enough. */
static int64_t richest(const vo_track_plan *plan, const vo_voice *voice, int64_t from, int64_t to,
                       double *seconds) {
    const double length = (double)plan->window_frames * VO_SECONDS_PER_FRAME,
                 end = (double)to * VO_SECONDS_PER_FRAME;
    int64_t best = -1;
    *seconds = SOME_SPEECH;
    for (int i = vo_voice_first(voice, (double)from * VO_SECONDS_PER_FRAME);
         i < voice->n_spans && voice->spans[i].start < end; i++) {
        int64_t start = (int64_t)(voice->spans[i].start / VO_SECONDS_PER_FRAME);
        if (start < from) start = from;
        const double at = (double)start * VO_SECONDS_PER_FRAME,
                     spoken = vo_voice_seconds(voice, at, at + length);
        if (spoken <= *seconds) continue;
        *seconds = spoken;
        best = start;
    }
    return best;
}

vo_status vo_language_of_input(const vo_track_plan *plan, const vo_voice *voice, int *index,
                               float *probability, vo_error *err) {
    vo_worker *worker = plan->session->workers;
    const vocis_transcribe_params *p = plan->params;
    const int64_t window = plan->window_frames, rest = plan->content_frames - window;
    const double first =
        voice ? vo_voice_seconds(voice, 0, (double)window * VO_SECONDS_PER_FRAME) : SOME_SPEECH;
    hearing h = {.best = -1};
    /* The first 30 s of the padded spectrogram, so that silence is silence, not 0. */
    vo_status status = hear(plan, 0, first < SOME_SPEECH ? 0 : first, &h, err);
    worker->first_encoded = rest >= 0;
    for (int i = 0; status == VO_OK && voice && rest > 0 && i < MORE_WINDOWS; i++) {
        double seconds;
        if (h.seconds > 0 && (double)h.probabilities[h.best] >= SURE) break;
        const int64_t at = richest(plan, voice, window + rest * i / MORE_WINDOWS,
                                   window + rest * (i + 1) / MORE_WINDOWS, &seconds);
        if (at < 0) continue;
        if (p->on_abort && p->on_abort(p->user)) return vo_fail(err, VO_ERR_ABORTED, "stopped");
        status = hear(plan, at, seconds, &h, err);
        worker->first_encoded = false;
    }
    *index = h.best;
    *probability = h.best < 0 ? 0 : h.probabilities[h.best];
    return status;
}
