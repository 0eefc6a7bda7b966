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
    const char *model, *cache_dir, *cpu, *compute, *boost;
    const char *chunking, *speculate, *draft, *draft_compute;
    bool offline, quiet;
    int threads, batch_size;
} speech_options;

/* For a settings type T with the members `speech` and, for CHUNKING_OPTIONS, `params`. */
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
/* Where there is no model to choose arithmetic for. */
#define ENGINE_OPTIONS(T)                                                                          \
    {.kind = OPTION_INT,                                                                           \
     .name = "threads",                                                                            \
     .letter = 't',                                                                                \
     .argument = "N",                                                                              \
     .help = "threads that compute; 0: one per usable core (0)",                                   \
     .at = offsetof(T, speech.threads),                                                            \
     .max = 256},                                                                                  \
    {                                                                                              \
        .kind = OPTION_TEXT, .name = "cpu", .argument = "LEVEL",                                   \
        .help = "highest instruction set to use, as c, avx2, avx512, vnni, bf16, amx, neon (all "  \
                "there is)",                                                                       \
        .at = offsetof(T, speech.cpu)                                                              \
    }
/* For a settings type T with a member `audio`; speech_check_input goes with them. */
#define INPUT_OPTIONS(T)                                                                           \
    {.kind = OPTION_INT,                                                                           \
     .name = "channel",                                                                            \
     .argument = "N",                                                                              \
     .help = "only this channel, counted from 0 (a mixture of all)",                               \
     .at = offsetof(T, audio.channel),                                                             \
     .min = 0,                                                                                     \
     .max = 1023},                                                                                 \
        {.kind = OPTION_INT,                                                                       \
         .name = "raw-rate",                                                                       \
         .argument = "HZ",                                                                         \
         .help = "inputs are PCM without a header at this rate",                                   \
         .at = offsetof(T, audio.raw_rate),                                                        \
         .min = 1,                                                                                 \
         .max = 768000},                                                                           \
        {.kind = OPTION_INT,                                                                       \
         .name = "raw-channels",                                                                   \
         .argument = "N",                                                                          \
         .help = "their interleaved channels (1)",                                                 \
         .at = offsetof(T, audio.raw_channels),                                                    \
         .min = 1,                                                                                 \
         .max = 1024},                                                                             \
    {                                                                                              \
        .kind = OPTION_CHOICE, .name = "raw-format", .argument = "FORMAT",                         \
        .help = "s16le, f32le, s32le or u8 (s16le)", .at = offsetof(T, audio.raw_format),          \
        .choices = "s16le f32le s32le u8"                                                          \
    }
#define CHUNKING_OPTIONS(T)                                                                        \
    {.kind = OPTION_CHOICE,                                                                        \
     .name = "chunking",                                                                           \
     .argument = "HOW",                                                                            \
     .help = "sequential: a window of 30 s slides over the input, and what was said conditions "   \
             "what follows; vad: cut at pauses into stretches that are decoded side by side "      \
             "none: as sequential, exactly as the reference does it, without --recover and "       \
             "--guard (sequential)",                                                               \
     .at = offsetof(T, speech.chunking),                                                           \
     .choices = "sequential vad none"},                                                            \
        {.kind = OPTION_INT,                                                                       \
         .name = "batch-size",                                                                     \
         .argument = "N",                                                                          \
         .help = "windows decoded side by side with --chunking vad (8)",                           \
         .at = offsetof(T, speech.batch_size),                                                     \
         .min = 1,                                                                                 \
         .max = 256},                                                                              \
        {.kind = OPTION_BOOL,                                                                      \
         .name = "recover",                                                                        \
         .help = "decode again speech, or loud sound, that no segment covers (True)",              \
         .at = offsetof(T, params.recover)},                                                       \
    {                                                                                              \
        .kind = OPTION_BOOL, .name = "guard",                                                      \
        .help = "take back, and report, loops and text where nobody speaks (True)",                \
        .at = offsetof(T, params.guard)                                                            \
    }
#define LANGUAGES_OPTION(AT)                                                                       \
    {                                                                                              \
        .kind = OPTION_LANGUAGES, .name = "languages", .argument = "LANGS",                        \
        .help = "codes or names with commas, as en,fr,zh, or all: every stretch of speech is "     \
                "written in the one of them that is spoken; not with --language (one for all)",    \
        AT                                                                                         \
    }
#define SPECULATE_OPTIONS(T)                                                                       \
    {.kind = OPTION_CHOICE,                                                                        \
     .name = "speculate",                                                                          \
     .argument = "HOW",                                                                            \
     .help = "tokens proposed ahead and verified in one step, with --beam-size 1: from the text "  \
             "so far (ngram), by the --draft model, or either while it is faster (auto). The "     \
             "result is the same (off; auto with --draft)",                                        \
     .at = offsetof(T, speech.speculate),                                                          \
     .choices = "off ngram draft auto"},                                                           \
        {.kind = OPTION_TEXT,                                                                      \
         .name = "draft",                                                                          \
         .argument = "NAME",                                                                       \
         .help = "a smaller model with the same vocabulary, or --model itself in cheaper "         \
                 "arithmetic, that proposes tokens",                                               \
         .at = offsetof(T, speech.draft)},                                                         \
    {                                                                                              \
        .kind = OPTION_CHOICE, .name = "draft-compute", .argument = "TYPE",                        \
        .help = "arithmetic of the draft (int8)", .at = offsetof(T, speech.draft_compute),         \
        .choices = "auto f32 bf16 int8 int4"                                                       \
    }
#define BOOST_OPTION(T)                                                                            \
    {                                                                                              \
        .kind = OPTION_TEXT, .name = "boost", .argument = "FILE",                                  \
        .help = "names and terms to look out for: a phrase a line, as it should be written, and "  \
                "perhaps a tab and a weight (1); lines that begin with # are comments",            \
        .at = offsetof(T, speech.boost), .optional = true                                          \
    }
#define QUIET_OPTION(T)                                                                            \
    {                                                                                              \
        .kind = OPTION_FLAG, .name = "quiet", .letter = 'q',                                       \
        .help = "no progress and no notes; warnings and errors stay",                              \
        .at = offsetof(T, speech.quiet)                                                            \
    }

typedef struct speech {
    vocis_engine *engine;
    vocis_model *model, *draft;
    vocis_session *session;
} speech;

/* The session that these settings need; params gets what the options say. */
vocis_session_params speech_session_params(const speech_options *options,
                                           vocis_transcribe_params *params);
/* -1 when those of speculation go together, else the exit status; what is wrong was said. */
int speech_check_speculation(const verb *v, const speech_options *options,
                             const vocis_transcribe_params *params);
/* -1 unless both language and languages are given: then it says so. */
int speech_check_languages(const verb *v, const vocis_transcribe_params *params);
/* The phrases of --boost. */
typedef struct boost_list {
    char *text; /* what the phrases point into */
    vocis_boost *phrases;
    int n;
} boost_list;
/* Reads them and sets params; what is wrong was said when it returns false. boost_free in the end.
 */
bool boost_read(const speech_options *options, boost_list *list, vocis_transcribe_params *params);
void boost_free(boost_list *list);

/* Opens everything. Returns -1, else the exit status; what is wrong was said. */
int speech_open(const verb *v, const speech_options *options, vocis_session_params session,
                speech *s);
void speech_close(speech *s);
/* The model that will be opened. */
const char *speech_model_name(const speech_options *options);
vocis_model_params speech_model_params(const speech_options *options);

/* Fills in the defaults of INPUT_OPTIONS, for which raw_channels is 0 and raw_format NULL before
 * options are read: -1, or the exit status. */
int speech_check_input(const verb *v, vocis_audio_params *audio);
/* A vocis_read_fn. */
int64_t speech_read_stdin(void *user, void *data, size_t size);
/* One input: a path, or "-" for standard input. On failure err says why. */
vocis_status speech_load(const char *path, vocis_audio_params params, vocis_audio *audio,
                         vocis_error *err);

#endif
