/* SPDX-License-Identifier: MIT
 *
 * The objects behind vocis.h. An engine is threads, kernels and backends; a model adds
 * weights and text tables; a session adds caches. Pipelines take the public parameter and
 * result types as they are, so that api.c has nothing to convert.
 */
#ifndef VO_PIPELINE_ENGINE_H
#define VO_PIPELINE_ENGINE_H

#include "audio/mel.h"
#include "base/log.h"
#include "decode/speculate.h"
#include "models/whisper/whisper.h"
#include "text/tokenizer.h"
#include "vocis.h"

struct vocis_engine {
    vo_log log;
    uint32_t cpu_flags;
    vo_kernels kernels;
    vo_pool *pool;
    vo_runtime runtime;
    char cpu_text[128];
};

struct vocis_model {
    vocis_engine *engine;
    vo_whisper *whisper;
    vo_tokenizer *tokenizer;
    vo_mel *mel;
};

typedef struct vo_worker vo_worker;

/* One of the windows that a worker decodes at a time: an audio window of the state, rows of its
 * cache, and the decoder that drives them through lm (whose self is the lane). */
typedef struct vo_lane {
    vo_worker *worker;
    int window, first_row;
    vo_lm lm;
    vo_decoder *decoder;
    struct vo_track *track; /* what runs in it (run.c), or NULL */
    int first_logits;       /* its first ones in this step, or -1 */
    vo_draft draft;         /* speculation (ahead.h); zero without a draft model */
    vo_speculator speculator;
    bool speculates; /* in this window */
    double begin;    /* of its decoding, if its time counts; else -1 */
} vo_lane;

/* A share of a session's windows and of its threads, with a state of its own: workers do not wait
 * for each other, so that some encode while others decode. */
struct vo_worker {
    vocis_session *session;
    vo_pool *pool;
    vo_runtime runtime;
    vo_whisper_state *state;
    vo_whisper_state *draft; /* of the session's draft model, or NULL */
    vo_lane *lanes;          /* [n_lanes], among the session's */
    int n_lanes;
    vo_whisper_feed *feeds; /* [n_lanes * max_sequences], of one step */
    float *const *logits;   /* of that step */
    int n_logits;
    bool first_encoded; /* lane 0 holds the first whole window of the input */
    vocis_timings timings;
};

struct vocis_session {
    vocis_model *model;
    int max_sequences, max_windows, n_workers;
    vocis_speculation speculate;
    vocis_model *draft; /* borrowed; NULL: none */
    vo_lane *lanes;     /* [max_windows] */
    vo_worker *workers; /* [n_workers] */
    vo_pool *crew;      /* a thread for every worker; NULL: one, whose threads are the engine's */
};

/* compute: "auto", "f32", "bf16", "int8", "int4"; NULL: auto. */
vo_status vo_model_load(vocis_engine *engine, const char *path, const char *compute,
                        vocis_model **model, vo_error *err);
const char *vo_compute_name(vo_compute compute);
void vo_model_destroy(vocis_model *model);
vo_status vo_session_create(vocis_model *model, vocis_session_params params,
                            vocis_session **session, vo_error *err);
void vo_session_destroy(vocis_session *session);
/* Feeds of a lane's inputs, as its worker's state takes them; returns how many. */
int vo_lane_feeds(const vo_lane *lane, const vo_lm_input *inputs, int n, vo_whisper_feed *feeds);

vocis_transcribe_params vo_transcribe_default_params(void);
/* transcribe.c: the main job. owned: where the samples are to be freed (vo_free) and set to NULL
 * once nobody reads them; NULL: they are borrowed. */
vo_status vo_transcribe(vocis_session *session, const float *samples, int64_t n_samples,
                        float **owned, const vocis_transcribe_params *params, vocis_result **result,
                        vo_error *err);
/* The same for an input that is one utterance: its last `quiet` samples hold no speech, and nothing
 * is looked for there again. */
vo_status vo_transcribe_utterance(vocis_session *session, const float *samples, int64_t n_samples,
                                  int64_t quiet, const vocis_transcribe_params *params,
                                  vocis_result **result, vo_error *err);
/* language.c */
vo_status vo_detect_language(vocis_session *session, const float *samples, int64_t n_samples,
                             float *probabilities, int *best, vo_error *err);
/* Language probabilities of what lane 0 of the session has encoded: [n_languages], and the best. */
vo_status vo_language_of_window(vocis_session *session, float *probabilities, int *best,
                                vo_error *err);

#endif
