/* SPDX-License-Identifier: MIT
 *
 * Where somebody speaks: Silero's probabilities turned into ranges of samples, by the rules of
 * its get_speech_timestamps (docs/models/silero.md).
 */
#ifndef VO_PIPELINE_SPEECH_H
#define VO_PIPELINE_SPEECH_H

#include "base/status.h"
#include "models/silero/silero.h"
#include "vocis.h"

/* Seconds from one probability to the next. */
#define VO_VOICE_STEP ((double)VO_SILERO_WINDOW / VO_SILERO_RATE)

/* What is softer is not heard: 50 dB below full scale. */
#define VO_QUIET 0.00316f

vocis_speech_params vo_speech_default_params(void);

/* What the voice detector says of an input. */
typedef struct vo_voice {
    float *probabilities; /* [n], one for every VO_VOICE_STEP */
    float *levels;        /* [n] root mean square of its samples */
    float *bands;         /* [n] of what lies where speech is loudest, between 300 and 4000 Hz */
    int64_t n, n_samples;
    vocis_span *spans; /* [n_spans] where somebody speaks, by the default rules; ascending, apart */
    int n_spans;
    bool *loud;         /* [n] as loud as speech may be, and louder than it always is, or NULL */
    vocis_span *sounds; /* [n_sounds] between the spans, where it is loud and a voice may be */
    int n_sounds;
} vo_voice;

vo_status vo_voice_find(vocis_engine *engine, const float *samples, int64_t n_samples,
                        vo_voice *voice, vo_error *err);
void vo_voice_free(vo_voice *voice);
/* Sets `levels` and `bands` from n_samples samples; those that are no finite number are silence. */
vo_status vo_voice_find_levels(vo_voice *voice, const float *samples, vo_error *err);
/* Sets `loud` and `sounds` from what stands before them; nothing is loud where nobody speaks. */
vo_status vo_voice_find_sounds(vo_voice *voice, vo_error *err);
/* Other rules for the same probabilities. *spans: vo_free. */
vo_status vo_voice_spans(const vo_voice *voice, const vocis_speech_params *params,
                         vocis_span **spans, int *n_spans, vo_error *err);
/* Index of the first span, or sound, that ends after a time. */
int vo_voice_first(const vo_voice *voice, double time);
int vo_voice_first_sound(const vo_voice *voice, double time);
/* Seconds of speech between two times. */
double vo_voice_seconds(const vo_voice *voice, double start, double end);
/* Seconds between two times in which it is loud. */
double vo_voice_loud_seconds(const vo_voice *voice, double start, double end);
/* Where speech that is heard from `start` on may have begun softly, but not before `first`. */
double vo_voice_onset(const vo_voice *voice, double start, double first);
/* The largest probability there, and whether any window has such a level; 0 and false outside the
 * input. */
float vo_voice_peak(const vo_voice *voice, double start, double end);
bool vo_voice_audible(const vo_voice *voice, double start, double end, float level);
/* The time between two at which it is quietest; the middle outside the input. */
double vo_voice_quietest(const vo_voice *voice, double start, double end);

/* *spans: vo_free. Thread safe. */
vo_status vo_detect_speech(vocis_engine *engine, const float *samples, int64_t n_samples,
                           const vocis_speech_params *params, vocis_span **spans, int *n_spans,
                           vo_error *err);

/* ---- the rules alone: no network, no audio -------------------------------------------------- */

typedef struct vo_speech_rules {
    double threshold;     /* speech begins at this probability */
    double neg_threshold; /* and ends below this one; NaN: 0.15 less, at least 0.01 */
    double min_speech_ms, min_silence_ms, pad_ms;
    double max_speech_seconds;    /* longer speech is cut; may be infinite */
    double min_silence_at_max_ms; /* a silence inside speech where it may be cut: 98 */
    bool cut_at_last_silence;     /* the older rule; else at the longest one */
    int rate, window;             /* samples per second, and per probability */
} vo_speech_rules;
vo_speech_rules vo_speech_make_rules(const vocis_speech_params *params);

typedef struct vo_speech_range {
    int64_t begin, end; /* samples */
} vo_speech_range;

/* probabilities: [n], of windows that cover n_samples. *ranges: vo_free; NULL when there are
 * none. */
vo_status vo_speech_find(const float *probabilities, int64_t n, int64_t n_samples,
                         const vo_speech_rules *rules, vo_speech_range **ranges, int *n_ranges,
                         vo_error *err);

#endif
