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
    const char *model, *cache_dir, *cpu, *compute;
    const char *chunking;
    bool offline, quiet;
    int threads, batch_size;
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
        {.kind = OPTION_CHOICE,                                                                    \
         .name = "compute",                                                                        \
         .argument = "TYPE",                                                                       \
         .help = "arithmetic: f32 (exact to the reference), bf16, int8, int4 (least memory); "     \
                 "auto: bf16 where the processor multiplies it, else f32 (auto)",                  \
         .at = offsetof(T, speech.compute),                                                        \
         .choices = "auto f32 bf16 int8 int4"},                                                    \
    {                                                                                              \
        .kind = OPTION_TEXT, .name = "cpu", .argument = "LEVEL",                                   \
        .help = "highest instruction set to use, as c, avx2, avx512, vnni, bf16, amx, neon (all "  \
                "there is)",                                                                       \
        .at = offsetof(T, speech.cpu)                                                              \
    }
#define CHUNKING_OPTIONS(T)                                                                        \
    {.kind = OPTION_CHOICE,                                                                        \
     .name = "chunking",                                                                           \
     .argument = "HOW",                                                                            \
     .help = "sequential: a window of 30 s slides over the input, and what was said conditions "   \
             "what follows; vad: cut at pauses into stretches that are decoded side by side "      \
             "(sequential)",                                                                       \
     .at = offsetof(T, speech.chunking),                                                           \
     .choices = "sequential vad"},                                                                 \
    {                                                                                              \
        .kind = OPTION_INT, .name = "batch-size", .argument = "N",                                 \
        .help = "windows decoded side by side with --chunking vad (8)",                            \
        .at = offsetof(T, speech.batch_size), .min = 1, .max = 256                                 \
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

/* The session that these settings need; params gets what the options say. */
vocis_session_params speech_session_params(const speech_options *options,
                                           vocis_transcribe_params *params);
/* Opens everything. Returns -1, else the exit status; what is wrong was said. */
int speech_open(const verb *v, const speech_options *options, vocis_session_params session,
                speech *s);
void speech_close(speech *s);
/* The model that will be opened. */
const char *speech_model_name(const speech_options *options);
vocis_model_params speech_model_params(const speech_options *options);

/* A vocis_read_fn. */
int64_t speech_read_stdin(void *user, void *data, size_t size);
/* One input: a path, or "-" for standard input. On failure err says why. */
vocis_status speech_load(const char *path, vocis_audio_params params, vocis_audio *audio,
                         vocis_error *err);

#endif
