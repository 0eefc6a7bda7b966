/* SPDX-License-Identifier: MIT
 *
 * What transcribe, eval and bench share: the options of the engine and of decoding, an open
 * model, one input.
 */
#ifndef CLI_SPEECH_H
#define CLI_SPEECH_H

#include "options.h"
#include "vocis.h"

typedef struct speech_options {
    const char *model, *cache_dir, *cpu;
    bool offline, quiet;
    int threads;
} speech_options;

/* For a settings type T with a member `speech`. */
#define MODEL_OPTIONS(T)                                                                           \
    {.kind = OPTION_TEXT,                                                                          \
     .name = "model",                                                                              \
     .letter = 'm',                                                                                \
     .argument = "NAME",                                                                           \
     .help = "a name of `vocis models`, owner/repo of the Hugging Face hub, or a path; it is "     \
             "fetched when it is not there (base)",                                                \
     .at = offsetof(T, speech.model)},                                                             \
        {.kind = OPTION_TEXT,                                                                      \
         .name = "cache-dir",                                                                      \
         .argument = "DIR",                                                                        \
         .help = "where models are kept ($VOCIS_CACHE or ~/.cache/vocis)",                         \
         .at = offsetof(T, speech.cache_dir)},                                                     \
        {.kind = OPTION_TEXT,                                                                      \
         .name = "model-dir",                                                                      \
         .argument = "DIR",                                                                        \
         .at = offsetof(T, speech.cache_dir),                                                      \
         .optional = true},                                                                        \
    {                                                                                              \
        .kind = OPTION_FLAG, .name = "offline", .help = "never download anything",                 \
        .at = offsetof(T, speech.offline)                                                          \
    }
#define COMPUTE_OPTIONS(T)                                                                         \
    {.kind = OPTION_INT,                                                                           \
     .name = "threads",                                                                            \
     .letter = 't',                                                                                \
     .argument = "N",                                                                              \
     .help = "threads that compute; 0: one per usable core (0)",                                   \
     .at = offsetof(T, speech.threads),                                                            \
     .max = 256},                                                                                  \
    {                                                                                              \
        .kind = OPTION_TEXT, .name = "cpu", .argument = "LEVEL",                                   \
        .help = "highest instruction set to use, as c, avx2, avx512, neon (all there is)",         \
        .at = offsetof(T, speech.cpu)                                                              \
    }
#define QUIET_OPTION(T)                                                                            \
    {                                                                                              \
        .kind = OPTION_FLAG, .name = "quiet", .letter = 'q',                                       \
        .help = "no progress and no notes; warnings and errors stay",                              \
        .at = offsetof(T, speech.quiet)                                                            \
    }

typedef struct speech {
    vocis_engine *engine;
    vocis_model *model;
    vocis_session *session;
} speech;

/* Opens everything for up to max_sequences beams or samples. Returns -1, else the exit status;
 * what is wrong was said. */
int speech_open(const verb *v, const speech_options *options, int max_sequences, speech *s);
void speech_close(speech *s);
/* The model that will be opened. */
const char *speech_model_name(const speech_options *options);
vocis_model_params speech_model_params(const speech_options *options);

/* Rows that these parameters need; beams and samples that no temperature uses are set to 1. */
int speech_sequences(vocis_transcribe_params *params);

/* One input: a path, or "-" for standard input. On failure err says why. */
vocis_status speech_load(const char *path, vocis_audio_params params, vocis_audio *audio,
                         vocis_error *err);

#endif
