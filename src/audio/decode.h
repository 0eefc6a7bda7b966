/* SPDX-License-Identifier: MIT
 *
 * Private to src/audio: what the decoders share. Bytes come from a vo_input (any order) or a
 * vo_stream (forward only); samples go into a vo_mixer, which owns the result.
 */
#ifndef VO_AUDIO_DECODE_H
#define VO_AUDIO_DECODE_H

#include "audio/audio.h"
#include "base/memory.h"

#include <soxr.h>
#include <stdio.h>

/* ---- bytes ------------------------------------------------------------------------------- */

/* An input of known size: a regular file, or bytes in memory. Files are read, not mapped, so
 * that one cut short under our hands gives an early end and not a SIGBUS. */
typedef struct vo_input {
    unsigned char *data; /* memory, or NULL */
    FILE *file;
    int64_t position; /* where `file` stands */
    int64_t size;
    const char *name; /* for sentences */
    const char *path; /* NULL for memory */
} vo_input;
/* Bytes read: less than size only at the end (or where the system refuses to read). */
int64_t vo_input_read_at(vo_input *input, int64_t offset, void *data, int64_t size);

/* Forward only, over a vo_input or over a vo_source. While `recording`, everything taken from
 * the source is also kept in `head`, so that another decoder can start over. */
typedef struct vo_stream {
    vo_input *input;
    const vo_source *source;
    const char *name;
    int64_t position, size; /* size: -1 when unknown */
    bool recording, failed; /* failed: the source reported an error */
    size_t max_bytes;
    vo_buf head;
    size_t replayed; /* bytes of head handed out so far */
} vo_stream;
/* Fills data unless the end comes first; returns the bytes. */
int64_t vo_stream_read(vo_stream *stream, void *data, int64_t size);
/* False when the end comes first. */
bool vo_stream_skip(vo_stream *stream, int64_t size);
/* Takes all of the source into `head`, at most max_bytes. */
vo_status vo_stream_spool(vo_stream *stream, vo_error *err);

/* ---- samples ----------------------------------------------------------------------------- */

/* Interleaved blocks in, mono 16 kHz out. A file may have several parts, each with a rate and
 * channels of its own (chained Ogg). */
typedef struct vo_mixer {
    const char *name;
    vo_audio *audio; /* warnings and facts go here */
    int channel;
    double max_seconds;
    bool (*sink)(void *user, const float *samples, int64_t n); /* or NULL */
    void *sink_user;

    float *out; /* the last block of the result: [n_out], room for [capacity] */
    int64_t n_out, capacity;
    struct vo_samples *full; /* the blocks before it, newest first */
    int64_t n_full;          /* samples in those */
    int64_t n_sunk;          /* samples that the sink has taken */
    double seconds;          /* of sound taken in, all parts */
    double part_seconds;     /* in the parts before this one */
    int64_t part_frames;     /* in this one */
    int64_t parts, bad_samples;

    int rate, channels; /* of the current part; rate 0 outside one */
    int64_t part_start; /* index in the result */
    soxr_t soxr;        /* NULL at 16 kHz */
    double *energy;     /* [channels] over the whole part */
    float *weight;      /* [channels] */
    bool decided;       /* weights are fixed */
    float *ahead;       /* [ahead_frames][channels], samples that wait for the decision */
    int64_t ahead_frames, ahead_capacity;
    float *block, *mono; /* scratch */
} vo_mixer;

void vo_mixer_init(vo_mixer *mixer, const char *name, const vo_audio_params *params,
                   vo_audio *audio);
/* rate outside 1..768 kHz or channels outside 1..1024: VO_ERR_FORMAT. frames is a hint of how
 * many will come (0: unknown); bytes, what they are made from, bounds what it may reserve. */
vo_status vo_mixer_begin(vo_mixer *mixer, int64_t rate, int64_t channels, int64_t frames,
                         int64_t bytes, vo_error *err);
vo_status vo_mixer_write(vo_mixer *mixer, const float *samples, int64_t frames, vo_error *err);
vo_status vo_mixer_end(vo_mixer *mixer, vo_error *err);
/* Hands the samples over to mixer->audio. */
vo_status vo_mixer_finish(vo_mixer *mixer, vo_error *err);
void vo_mixer_free(vo_mixer *mixer);

/* Adds a clause to audio->warning while there is room. */
void vo_audio_warn(vo_audio *audio, const char *fmt, ...) VO_PRINTF(2, 3);

/* ---- containers -------------------------------------------------------------------------- */

typedef enum vo_container_kind {
    VO_CONTAINER_UNKNOWN,
    VO_CONTAINER_WAV,     /* ours */
    VO_CONTAINER_OGG,     /* libsndfile, link by link */
    VO_CONTAINER_MPEG,    /* libmpg123 */
    VO_CONTAINER_SNDFILE, /* libsndfile */
    VO_CONTAINER_MP4,     /* ffmpeg, which must be able to seek or find moov first */
    VO_CONTAINER_FFMPEG,  /* ffmpeg */
    VO_CONTAINER_NO_AUDIO /* plainly something else */
} vo_container_kind;
typedef struct vo_container {
    vo_container_kind kind;
    const char *name;    /* "an MP4 or M4A file" */
    const char *demuxer; /* of ffmpeg; NULL: let it look */
} vo_container;
enum { VO_SNIFF_BYTES = 1024 };
/* From the first VO_SNIFF_BYTES bytes (or fewer). Never NULL. */
const vo_container *vo_container_sniff(const unsigned char *head, size_t size);
/* Offset of the first byte after any ID3v2 tags at the start. */
int64_t vo_id3_skip(vo_input *input);

/* ---- decoders ----------------------------------------------------------------------------
 * VO_ERR_UNSUPPORTED says "not for me" and leaves the mixer untouched. Once a part has begun,
 * damage is a warning. */

/* What a WAV header said when the coding is none of ours. */
typedef struct vo_wav_info {
    int tag; /* 0: no header was found */
    int64_t data_offset, data_size;
} vo_wav_info;
vo_status vo_wav_decode(vo_stream *stream, vo_mixer *mixer, vo_wav_info *info, vo_error *err);
/* Headerless PCM to the end of the stream; format is one of VO_RAW_*. */
vo_status vo_raw_decode(vo_stream *stream, const vo_audio_params *params, vo_mixer *mixer,
                        vo_error *err);

/* The bytes [start, start + size) through libsndfile; MPEG audio is refused. */
vo_status vo_sndfile_decode(vo_input *input, int64_t start, int64_t size, vo_mixer *mixer,
                            vo_error *err);
/* Ogg: each link of a chained file is decoded on its own. */
vo_status vo_ogg_decode(vo_input *input, int64_t start, vo_mixer *mixer, vo_error *err);
/* MPEG audio (layers 1 to 3) in [start, end), from the first frame that is followed by others. */
vo_status vo_mpeg_decode(vo_input *input, int64_t start, int64_t end, vo_mixer *mixer,
                         vo_error *err);
/* The child. Bytes in memory may be reordered in memory (MP4 with its index at the end). */
vo_status vo_ffmpeg_decode(vo_input *input, const vo_container *container,
                           const vo_audio_params *params, vo_mixer *mixer, vo_error *err);

/* MP4 in memory: moves a `moov` box that follows the media data before it, so that the file
 * can be read from a pipe. False when there is nothing to do or the boxes make no sense. */
bool vo_mp4_index_first(unsigned char *data, int64_t size);
/* True when the last box is longer than the file. */
bool vo_mp4_is_cut(vo_input *input);

#endif
