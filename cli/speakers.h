/* SPDX-License-Identifier: MIT
 *
 * What transcribe and diarize share: how speakers are told apart, and the channels of an input.
 */
#ifndef CLI_SPEAKERS_H
#define CLI_SPEAKERS_H

#include "options.h"
#include "vocis.h"

typedef struct speakers_options {
    const char *how; /* "auto", "channels", "voices"; NULL: not at all */
    int speakers, min_speakers, max_speakers;
} speakers_options;

/* For a settings type T with a member `speakers`. */
#define SPEAKERS_OPTIONS(T)                                                                        \
    {.kind = OPTION_INT,                                                                           \
     .name = "num-speakers",                                                                       \
     .argument = "N",                                                                              \
     .help = "by voice: exactly so many speakers, where it is known (found)",                      \
     .at = offsetof(T, speakers.speakers),                                                         \
     .min = 1,                                                                                     \
     .max = 256},                                                                                  \
        {.kind = OPTION_INT,                                                                       \
         .name = "min-speakers",                                                                   \
         .argument = "N",                                                                          \
         .help = "by voice: at least so many (1)",                                                 \
         .at = offsetof(T, speakers.min_speakers),                                                 \
         .min = 1,                                                                                 \
         .max = 256},                                                                              \
    {                                                                                              \
        .kind = OPTION_INT, .name = "max-speakers", .argument = "N",                               \
        .help = "by voice: at most so many (any number)",                                          \
        .at = offsetof(T, speakers.max_speakers), .min = 1, .max = 256                             \
    }

/* What no single option can say about itself: -1, or the exit status. */
int speakers_check(const verb *v, const speakers_options *options);
/* abort: interrupted. */
vocis_diarize_params speakers_params(const speakers_options *options);

enum { MOST_CHANNELS = 64 };
/* Loads an input ("-": standard input): the channels of one with a speaker in each, else its
 * mixture as the only one. On failure none is loaded and err says why. */
vocis_status speakers_load(vocis_engine *engine, const char *path, vocis_audio_params params,
                           const char *how, vocis_audio *channels, int *n, vocis_error *err);
void speakers_free(vocis_audio *channels, int n);

#endif
