/* SPDX-License-Identifier: MIT
 *
 * Voice activity as a state machine over windows: speech begins at one threshold, ends after
 * enough windows below a lower one, is cut when it gets too long, and is padded at the end. A
 * position of zero means "unset", as in the reference, so that both agree on every input.
 */
#include "pipeline/speech.h"

#include "base/memory.h"
#include "models/silero/silero.h"
#include "pipeline/engine.h"

#include <math.h>

typedef struct finder {
    const vo_speech_rules *rules;
    double neg_threshold, max_speech; /* max_speech and below in samples */
    double min_speech, min_silence, min_silence_at_max, pad;
    bool speaking;
    int64_t start;      /* of the speech that goes on */
    int64_t silence;    /* where the silence that goes on began */
    int64_t last, next; /* last silence to cut at, and where speech came back (older rule) */
    int64_t longest, longest_length; /* longest silence inside this speech */
    vo_speech_range *ranges;
    int n, capacity;
    vo_error *err;
} finder;

static vo_status push(finder *f, int64_t begin, int64_t end) {
    if (f->n == f->capacity) {
        int capacity = f->capacity ? 2 * f->capacity : 16;
        vo_speech_range *grown =
            capacity > f->capacity ? vo_realloc(f->ranges, (size_t)capacity * sizeof *grown) : NULL;
        if (!grown) return vo_fail(f->err, VO_ERR_MEMORY, "no memory for %d ranges", f->n);
        f->ranges = grown;
        f->capacity = capacity;
    }
    f->ranges[f->n++] = (vo_speech_range){begin, end};
    return VO_OK;
}

/* Forgets everything about the speech that ended. */
static void clear(finder *f) {
    f->silence = f->last = f->next = f->longest = f->longest_length = 0;
}

/* Speech came back after a silence: remember where it could be cut. */
static void end_silence(finder *f, int64_t now) {
    int64_t length = now - f->silence;
    if ((double)length > f->min_silence_at_max && length > f->longest_length) {
        f->longest = f->silence;
        f->longest_length = length;
    }
    f->silence = 0;
    if (f->next < f->last) f->next = now;
}

/* The speech is too long: cut it in a silence and go on after that, or cut it here and stop. */
static vo_status cut(finder *f, int64_t now) {
    int64_t end = now, resume = -1;
    if (!f->rules->cut_at_last_silence && f->longest_length) {
        end = f->longest;
        resume = end + f->longest_length;
    } else if (f->last) {
        end = f->last;
        if (f->next >= f->last) resume = f->next;
    }
    vo_status status = push(f, f->start, end);
    clear(f);
    f->speaking = resume >= 0;
    f->start = resume;
    return status;
}

static vo_status step(finder *f, double p, int64_t now) {
    bool speech = p >= f->rules->threshold;
    if (speech && f->silence) end_silence(f, now);
    if (speech && !f->speaking) {
        f->speaking = true;
        f->start = now;
        return VO_OK;
    }
    vo_status status = VO_OK;
    if (f->speaking && (double)(now - f->start) > f->max_speech) status = cut(f, now);
    if (!f->speaking || !(p < f->neg_threshold)) return status;
    if (!f->silence) f->silence = now;
    int64_t length = now - f->silence;
    if (f->rules->cut_at_last_silence && (double)length > f->min_silence_at_max)
        f->last = f->silence;
    if ((double)length < f->min_silence) return status;
    if ((double)(f->silence - f->start) > f->min_speech && status == VO_OK)
        status = push(f, f->start, f->silence);
    clear(f);
    f->speaking = false;
    return status;
}

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Grows ranges on both sides; neighbours closer than two pads meet halfway. */
static void pad(finder *f, int64_t n_samples) {
    vo_speech_range *r = f->ranges;
    if (f->n == 0) return;
    r[0].begin = (int64_t)fmax(0, (double)r[0].begin - f->pad);
    for (int i = 0; i + 1 < f->n; i++) {
        int64_t gap = r[i + 1].begin - r[i].end;
        if ((double)gap < 2 * f->pad) {
            r[i].end += gap / 2;
            r[i + 1].begin = max64(0, r[i + 1].begin - gap / 2);
        } else {
            r[i].end = min64(n_samples, (int64_t)((double)r[i].end + f->pad));
            r[i + 1].begin = (int64_t)fmax(0, (double)r[i + 1].begin - f->pad);
        }
    }
    r[f->n - 1].end = min64(n_samples, (int64_t)((double)r[f->n - 1].end + f->pad));
}

vo_status vo_speech_find(const float *probabilities, int64_t n, int64_t n_samples,
                         const vo_speech_rules *rules, vo_speech_range **ranges, int *n_ranges,
                         vo_error *err) {
    double ms = rules->rate / 1000.0;
    finder f = {.rules = rules,
                .neg_threshold = rules->neg_threshold,
                .min_speech = rules->min_speech_ms * ms,
                .min_silence = rules->min_silence_ms * ms,
                .min_silence_at_max = rules->min_silence_at_max_ms * ms,
                .pad = rules->pad_ms * ms,
                .err = err};
    if (isnan(f.neg_threshold)) f.neg_threshold = fmax(rules->threshold - 0.15, 0.01);
    f.max_speech = rules->rate * rules->max_speech_seconds - rules->window - 2 * f.pad;
    vo_status status = VO_OK;
    for (int64_t i = 0; i < n && status == VO_OK; i++)
        status = step(&f, (double)probabilities[i], i * rules->window);
    if (status == VO_OK && f.speaking && (double)(n_samples - f.start) > f.min_speech)
        status = push(&f, f.start, n_samples);
    if (status != VO_OK) {
        vo_free(f.ranges);
        return status;
    }
    pad(&f, n_samples);
    *ranges = f.ranges;
    *n_ranges = f.n;
    return VO_OK;
}

vocis_speech_params vo_speech_default_params(void) {
    return (vocis_speech_params){.threshold = 0.5f,
                                 .min_speech_ms = 250,
                                 .min_silence_ms = 100,
                                 .speech_pad_ms = 30,
                                 .max_speech_seconds = INFINITY};
}

vo_speech_rules vo_speech_make_rules(const vocis_speech_params *p) {
    return (vo_speech_rules){.threshold = (double)p->threshold,
                             .neg_threshold = NAN,
                             .min_speech_ms = p->min_speech_ms,
                             .min_silence_ms = p->min_silence_ms,
                             .pad_ms = p->speech_pad_ms,
                             .max_speech_seconds = (double)p->max_speech_seconds,
                             .min_silence_at_max_ms = 98,
                             .rate = VO_SILERO_RATE,
                             .window = VO_SILERO_WINDOW};
}

static vo_status check(const float *samples, int64_t n_samples, const vocis_speech_params *p,
                       vo_error *err) {
    if (n_samples < 0 || (n_samples > 0 && !samples))
        return vo_fail(err, VO_ERR_ARGUMENT, "there are no samples to search for speech");
    if (!(p->threshold > 0 && p->threshold <= 1))
        return vo_fail(err, VO_ERR_ARGUMENT, "a speech threshold lies between 0 and 1");
    if (p->min_speech_ms < 0 || p->min_silence_ms < 0 || p->speech_pad_ms < 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "a duration of speech or silence is negative");
    if (!(p->max_speech_seconds > 0))
        return vo_fail(err, VO_ERR_ARGUMENT, "the longest speech must be longer than nothing");
    return VO_OK;
}

/* probabilities: [ceil(n_samples / 512)]; the last window is filled up with silence. */
static vo_status probabilities_of(vocis_engine *engine, const float *samples, int64_t n_samples,
                                  float *probabilities, vo_error *err) {
    vo_silero *model = NULL;
    vo_silero_state *state = NULL;
    int64_t whole = n_samples / VO_SILERO_WINDOW, rest = n_samples % VO_SILERO_WINDOW;
    vo_status status = vo_silero_load_builtin(&model, err);
    if (status == VO_OK)
        status = vo_silero_state_create(model, &engine->runtime, engine->pool, &state, err);
    if (status == VO_OK) status = vo_silero_run(state, samples, whole, probabilities, err);
    if (status == VO_OK && rest) {
        float last[VO_SILERO_WINDOW] = {0};
        for (int64_t i = 0; i < rest; i++) last[i] = samples[whole * VO_SILERO_WINDOW + i];
        status = vo_silero_run(state, last, 1, probabilities + whole, err);
    }
    vo_silero_state_destroy(state);
    vo_silero_destroy(model);
    return status;
}

static vo_status probabilities_find(vocis_engine *engine, const float *samples, int64_t n_samples,
                                    vo_voice *voice, vo_error *err) {
    *voice = (vo_voice){.n_samples = n_samples};
    voice->n = n_samples / VO_SILERO_WINDOW + (n_samples % VO_SILERO_WINDOW != 0);
    voice->probabilities = vo_alloc_array((size_t)voice->n, sizeof *voice->probabilities);
    if (!voice->probabilities)
        return vo_fail(err, VO_ERR_MEMORY, "no memory for %lld windows", (long long)voice->n);
    return probabilities_of(engine, samples, n_samples, voice->probabilities, err);
}

vo_status vo_voice_find(vocis_engine *engine, const float *samples, int64_t n_samples,
                        vo_voice *voice, vo_error *err) {
    const vocis_speech_params params = vo_speech_default_params();
    vo_status status = probabilities_find(engine, samples, n_samples, voice, err);
    if (status == VO_OK) status = vo_voice_find_levels(voice, samples, err);
    if (status == VO_OK)
        status = vo_voice_spans(voice, &params, &voice->spans, &voice->n_spans, err);
    if (status == VO_OK) status = vo_voice_find_sounds(voice, err);
    return status;
}

void vo_voice_free(vo_voice *voice) {
    vo_free(voice->probabilities);
    vo_free(voice->levels);
    vo_free(voice->bands);
    vo_free(voice->loud);
    vo_free(voice->sounds);
    vo_free(voice->spans);
    *voice = (vo_voice){0};
}

vo_status vo_voice_spans(const vo_voice *voice, const vocis_speech_params *params,
                         vocis_span **spans, int *n_spans, vo_error *err) {
    vo_speech_rules rules = vo_speech_make_rules(params);
    vo_speech_range *ranges = NULL;
    int n = 0;
    *spans = NULL;
    *n_spans = 0;
    vo_status status =
        vo_speech_find(voice->probabilities, voice->n, voice->n_samples, &rules, &ranges, &n, err);
    if (status == VO_OK && n > 0) {
        *spans = vo_alloc_array((size_t)n, sizeof **spans);
        if (!*spans) status = vo_fail(err, VO_ERR_MEMORY, "no memory for %d spans", n);
    }
    for (int i = 0; status == VO_OK && i < n; i++)
        (*spans)[i] = (vocis_span){(double)ranges[i].begin / VO_SILERO_RATE,
                                   (double)ranges[i].end / VO_SILERO_RATE};
    if (status == VO_OK) *n_spans = n;
    vo_free(ranges);
    return status;
}

static int first_after(const vocis_span *spans, int n, double time) {
    int low = 0, high = n;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (spans[middle].end <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int vo_voice_first(const vo_voice *voice, double time) {
    return first_after(voice->spans, voice->n_spans, time);
}

int vo_voice_first_sound(const vo_voice *voice, double time) {
    return first_after(voice->sounds, voice->n_sounds, time);
}

double vo_voice_seconds(const vo_voice *voice, double start, double end) {
    double sum = 0;
    for (int i = vo_voice_first(voice, start); i < voice->n_spans && voice->spans[i].start < end;
         i++)
        sum += fmin(voice->spans[i].end, end) - fmax(voice->spans[i].start, start);
    return sum;
}

double vo_voice_onset(const vo_voice *voice, double start, double first) {
    const double window = VO_VOICE_STEP, pause = 0.3;
    const float soft = 0.1f;
    double onset = start;
    int64_t i = (int64_t)fmin(fmax(start / window, 0), (double)voice->n) - 1;
    for (; i >= 0 && (double)i * window >= first && onset - (double)i * window <= pause; i--)
        if (voice->probabilities[i] >= soft) onset = (double)i * window;
    return onset;
}

/* Windows of the detector that lie between two times: [*from, *to). */
static void windows_between(const vo_voice *voice, double start, double end, int64_t *from,
                            int64_t *to) {
    const double window = VO_VOICE_STEP;
    const double last = (double)voice->n;
    *from = (int64_t)fmin(fmax(start / window, 0), last);
    *to = (int64_t)fmin(fmax(ceil(end / window), 0), last);
}

float vo_voice_peak(const vo_voice *voice, double start, double end) {
    int64_t i, to;
    float peak = 0;
    windows_between(voice, start, end, &i, &to);
    for (; i < to; i++)
        if (voice->probabilities[i] > peak) peak = voice->probabilities[i];
    return peak;
}

bool vo_voice_audible(const vo_voice *voice, double start, double end, float level) {
    int64_t i, to;
    windows_between(voice, start, end, &i, &to);
    for (; i < to; i++)
        if (voice->levels[i] >= level) return true;
    return false;
}

double vo_voice_quietest(const vo_voice *voice, double start, double end) {
    int64_t i, to, best = -1;
    windows_between(voice, start, end, &i, &to);
    for (; i < to; i++)
        if (best < 0 || voice->levels[i] < voice->levels[best]) best = i;
    return best < 0 ? (start + end) / 2 : ((double)best + 0.5) * VO_VOICE_STEP;
}

vo_status vo_detect_speech(vocis_engine *engine, const float *samples, int64_t n_samples,
                           const vocis_speech_params *params, vocis_span **spans, int *n_spans,
                           vo_error *err) {
    vo_voice voice = {0};
    *spans = NULL;
    *n_spans = 0;
    vo_status status = check(samples, n_samples, params, err);
    if (status == VO_OK) status = probabilities_find(engine, samples, n_samples, &voice, err);
    if (status == VO_OK) status = vo_voice_spans(&voice, params, spans, n_spans, err);
    vo_voice_free(&voice);
    return status;
}
