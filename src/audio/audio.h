/* SPDX-License-Identifier: MIT
 *
 * Sound in: any file or stream becomes mono float samples at 16 kHz.
 *
 * What a file is follows from its bytes, never from its name. WAV, RF64 and Wave64 are read by
 * a forward-only walker that tolerates what recorders, pipes and cut downloads leave behind;
 * other formats go to libsndfile; what that does not know goes to a child ffmpeg. Samples are
 * mixed and resampled block by block while they are decoded, so that memory holds the result
 * and little else, and limits act before memory is spent.
 *
 * Channels, with channel = -1:
 *   - the mean of all channels, as the reference does;
 *   - a channel 60 dB or more below the loudest is silent and left out of the mean;
 *   - a channel that runs against the loudest one (correlation below -0.5) is inverted first
 *     when the plain mean would hold less than a quarter of the energy of the mixture so
 *     corrected; this is judged on the first 64 MiB of floats (three minutes of stereo at
 *     48 kHz), or on a second when samples leave as they come;
 *   - what was done is said in `warning`.
 */
#ifndef VO_AUDIO_AUDIO_H
#define VO_AUDIO_AUDIO_H

#include "base/status.h"

#define VO_SAMPLE_RATE 16000

/* Where bytes come from. read returns the bytes read (any number from 1 to size), 0 at the
 * end, -1 on error. */
typedef struct vo_source {
    int64_t (*read)(void *user, void *data, size_t size);
    void *user;
    const char *name; /* for error sentences */
} vo_source;

enum { VO_RAW_S16LE, VO_RAW_F32LE, VO_RAW_S32LE, VO_RAW_U8 };

typedef struct vo_audio_params {
    int raw_rate;          /* > 0: the bytes are headerless PCM at this rate, */
    int raw_channels;      /* with this many channels (interleaved; 0 means 1), */
    int raw_format;        /* one of VO_RAW_* */
    double max_seconds;    /* refuse longer inputs (VO_ERR_LIMIT); 0: 48 hours */
    size_t max_bytes;      /* most bytes of a stream held in memory (VO_ERR_LIMIT); 0: 2 GiB.
                              Files on disk, plain WAV and raw PCM are never held whole. */
    double ffmpeg_timeout; /* seconds for the child; 0: 600 and 1 more per 30 s of sound;
                              negative: never start a child */
    int channel;           /* -1: mix as said above; else this one alone, counted from 0 */
    /* Takes the result block by block as it is decoded, in memory that does not grow with the
     * input: audio->samples stays NULL, and max_seconds 0 means no limit. Channels are judged by
     * the first second alone, and `source` is read in pieces of 20 ms. It returns false to stop
     * (VO_ERR_ABORTED). NULL: the samples are collected. */
    bool (*sink)(void *user, const float *samples, int64_t n);
    void *sink_user;
} vo_audio_params;
/* Everything zero but channel, which is -1. */
vo_audio_params vo_audio_default_params(void);

typedef struct vo_audio {
    float *samples; /* [n_samples], mono, VO_SAMPLE_RATE, finite, not clipped */
    int64_t n_samples;
    double duration;                  /* seconds */
    int source_rate, source_channels; /* of the first part; ffmpeg delivers 16 kHz */
    char format[32];                  /* "wav pcm_16", "flac", "ogg opus", "ffmpeg mov" ... */
    char warning[200];                /* "" or what is wrong with the file though it was read */
} vo_audio;

/* Decodes a whole file. FIFOs and devices are read to their end. A damaged tail gives what
 * could be read and a warning; a file that holds no samples gives n_samples 0 and a warning.
 * 16 kHz mono input passes through unchanged (16-bit values / 32768).
 * VO_ERR_NOT_FOUND, VO_ERR_IO: it cannot be opened or read; VO_ERR_FORMAT: it is no audio or
 * damaged beyond use; VO_ERR_UNSUPPORTED: ffmpeg would be needed and is not there;
 * VO_ERR_LIMIT: too long. On failure *audio is empty. Safe from several threads at once. */
vo_status vo_audio_load(const char *path, const vo_audio_params *params, vo_audio *audio,
                        vo_error *err);
/* The same from a stream of bytes ("-" on the command line). */
vo_status vo_audio_load_source(const vo_source *source, const vo_audio_params *params,
                               vo_audio *audio, vo_error *err);
/* Frees the samples and zeroes *audio; a zeroed one is allowed. */
void vo_audio_free(vo_audio *audio);

/* Interleaved samples [frames][channels] at any rate from 1 to 768 kHz to mono at 16 kHz (soxr
 * HQ). channel as in vo_audio_params. Output: [*n_out], vo_free. */
vo_status vo_audio_convert(const float *samples, int64_t frames, int channels, int rate,
                           int channel, float **out, int64_t *n_out, vo_error *err);

#endif
