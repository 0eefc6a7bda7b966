/* SPDX-License-Identifier: MIT
 *
 * Sound in: any file or stream becomes mono float samples at 16 kHz.
 */
#ifndef VO_AUDIO_AUDIO_H
#define VO_AUDIO_AUDIO_H

#include "base/log.h"
#include "base/status.h"

#define VO_SAMPLE_RATE 16000

/* Where bytes come from. read returns the bytes read, 0 at the end, -1 on error. */
typedef struct vo_source {
    int64_t (*read)(void *user, void *data, size_t size);
    void *user;
    const char *name; /* for error sentences */
} vo_source;

typedef struct vo_audio_params {
    int raw_rate;     /* > 0: the bytes are headerless PCM at this rate, */
    int raw_channels; /* with this many channels (interleaved), */
    int raw_format;   /* one of VO_RAW_* */
    double max_seconds;         /* refuse longer inputs (VO_ERR_LIMIT); 0: 48 hours */
    double ffmpeg_timeout;      /* seconds for the child; 0: 600 + 1 s per 30 s of output */
    int channel;                /* -1: mix with care for silent and anti-phase channels; else one */
} vo_audio_params;
enum { VO_RAW_S16LE, VO_RAW_F32LE, VO_RAW_S32LE, VO_RAW_U8 };
vo_audio_params vo_audio_default_params(void);

typedef struct vo_audio {
    float *samples; /* [n_samples], mono, VO_SAMPLE_RATE, finite */
    int64_t n_samples;
    double duration;     /* seconds */
    int source_rate, source_channels;
    char format[32];     /* "wav pcm_16", "flac", "ffmpeg" ... */
    char warning[200];   /* "" or what is wrong with the file though it was read */
} vo_audio;

/* Decodes a whole file: libsndfile by content; else a child ffmpeg. FIFOs and devices are
 * read to their end. A damaged tail gives what could be read and a warning. */
vo_status vo_audio_load(const char *path, const vo_audio_params *params, vo_audio *audio,
                        vo_error *err);
/* The same from a stream of bytes ("-" on the command line). */
vo_status vo_audio_load_source(const vo_source *source, const vo_audio_params *params,
                               vo_audio *audio, vo_error *err);
void vo_audio_free(vo_audio *audio);

/* Interleaved samples at any rate to mono at 16 kHz (soxr HQ). Output: vo_free. */
vo_status vo_audio_convert(const float *samples, int64_t frames, int channels, int rate, int channel,
                           float **out, int64_t *n_out, vo_error *err);

#endif
