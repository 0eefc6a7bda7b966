/* SPDX-License-Identifier: MIT
 *
 * WAV, RF64, BW64 and Wave64, and headerless PCM. The one idea: walk the chunks forward once,
 * believe sizes only as far as bytes follow, and decode the simple codings on the way, so that
 * pipes, cut files and wrong headers need no second chance. Other codings are left to others.
 */
#include "audio/decode.h"

#include <string.h>

typedef enum coding { U8, S16, S24, S32, F32, F64, ALAW, MULAW } coding;
static const int coding_bytes[] = {1, 2, 3, 4, 4, 8, 1, 1};
static const char *const coding_names[] = {"pcm_u8",  "pcm_16",  "pcm_24", "pcm_32",
                                           "float32", "float64", "alaw",   "mulaw"};

enum {
    TAG_PCM = 1,
    TAG_FLOAT = 3,
    TAG_ALAW = 6,
    TAG_MULAW = 7,
    TAG_EXTENSIBLE = 0xFFFE,
    PUMP_BYTES = 64 * 1024
};
#define UNKNOWN_SIZE INT64_MAX

typedef struct wav_reader {
    vo_stream *stream;
    vo_mixer *mixer;
    bool wave64;
    int64_t riff_size; /* as the header has it; UNKNOWN_SIZE where it means "not known" */
    int64_t ds64_data; /* from a ds64 chunk, else -1 */
    int tag, channels, bits, block;
    int64_t rate;
    coding code;
} wav_reader;

static uint32_t le16(const unsigned char *p) {
    return p[0] | (uint32_t)p[1] << 8;
}
static uint32_t le32(const unsigned char *p) {
    return le16(p) | le16(p + 2) << 16;
}
static uint64_t le64(const unsigned char *p) {
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

static int64_t bounded(uint64_t size) {
    return size > INT64_MAX ? UNKNOWN_SIZE : (int64_t)size;
}

/* Writers that cannot seek back leave all ones, or the largest positive value less a header
 * (sox writes 0x7FFFF000 and a bit). */
static int64_t size32(uint32_t size) {
    if (size >= 0xFFFFFF00u || (size >= 0x7FFFF000u && size <= 0x80000000u)) return UNKNOWN_SIZE;
    return size;
}

/* ---- samples ----------------------------------------------------------------------------- */

/* ITU-T G.711, scaled to 16 bits. */
static int mulaw_value(unsigned code) {
    code = ~code & 0xFF;
    int magnitude = ((int)((code & 15) << 3) + 0x84) << (code >> 4 & 7);
    return code & 0x80 ? 0x84 - magnitude : magnitude - 0x84;
}

static int alaw_value(unsigned code) {
    code ^= 0x55;
    int magnitude = (int)(code & 15) << 4, segment = code >> 4 & 7;
    magnitude += segment ? 0x108 : 8;
    if (segment > 1) magnitude <<= segment - 1;
    return code & 0x80 ? magnitude : -magnitude;
}

static float float_at(const unsigned char *p) {
    uint32_t bits = le32(p);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static float double_at(const unsigned char *p) {
    uint64_t bits = le64(p);
    double value;
    memcpy(&value, &bits, sizeof(value));
    /* Out of range for float is undefined; the mixer turns what is no number into 0. */
    return value >= -1e30 && value <= 1e30 ? (float)value : 1e30f;
}

static void decode_samples(coding code, const unsigned char *p, int64_t n, float *out) {
    switch (code) {
    case U8:
        for (int64_t i = 0; i < n; i++) out[i] = (float)(p[i] - 128) / 128.0f;
        break;
    case S16:
        for (int64_t i = 0; i < n; i++) out[i] = (float)(int16_t)le16(p + 2 * i) / 32768.0f;
        break;
    case S24:
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)(int32_t)((uint32_t)p[3 * i] << 8 | le16(p + 3 * i + 1) << 16) /
                     2147483648.0f;
        break;
    case S32:
        for (int64_t i = 0; i < n; i++) out[i] = (float)(int32_t)le32(p + 4 * i) / 2147483648.0f;
        break;
    case F32:
        for (int64_t i = 0; i < n; i++) out[i] = float_at(p + 4 * i);
        break;
    case F64:
        for (int64_t i = 0; i < n; i++) out[i] = double_at(p + 8 * i);
        break;
    case ALAW:
        for (int64_t i = 0; i < n; i++) out[i] = (float)alaw_value(p[i]) / 32768.0f;
        break;
    case MULAW:
        for (int64_t i = 0; i < n; i++) out[i] = (float)mulaw_value(p[i]) / 32768.0f;
        break;
    }
}

/* Decodes up to `size` bytes as one part. *got: how many there were. */
static vo_status pump(vo_stream *stream, vo_mixer *mixer, coding code, int64_t rate, int channels,
                      int64_t size, int64_t *got, vo_error *err) {
    const int width = coding_bytes[code];
    const int64_t frame = (int64_t)width * channels;
    int64_t left = stream->size < 0 ? 0 : stream->size - stream->position;
    if (left > size) left = size;
    *got = 0;
    vo_status status = vo_mixer_begin(mixer, rate, channels, left / frame, left, err);
    if (status) return status;
    int64_t frames = PUMP_BYTES / frame > 0 ? PUMP_BYTES / frame : 1;
    if (mixer->sink && stream->source && frames > rate / 50) frames = rate / 50 + 1;
    unsigned char *bytes = vo_alloc_uninitialized((size_t)(frames * frame));
    float *samples = vo_alloc_uninitialized((size_t)(frames * channels) * sizeof(float));
    if (!bytes || !samples) {
        status = vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory to read it", stream->name);
        goto fail;
    }
    for (;;) {
        int64_t want = size - *got < frames * frame ? size - *got : frames * frame;
        int64_t n = vo_stream_read(stream, bytes, want);
        *got += n;
        decode_samples(code, bytes, n / frame * channels, samples);
        status = vo_mixer_write(mixer, samples, n / frame, err);
        if (status) goto fail;
        if (n < want || *got == size) break;
    }
    if (*got % frame) vo_audio_warn(mixer->audio, "it ends in the middle of a sample");
    status = vo_mixer_end(mixer, err);
fail:
    vo_free(bytes);
    vo_free(samples);
    return status;
}

vo_status vo_raw_decode(vo_stream *stream, const vo_audio_params *params, vo_mixer *mixer,
                        vo_error *err) {
    coding code = S16;
    int64_t got;
    switch (params->raw_format) {
    case VO_RAW_S16LE:
        code = S16;
        break;
    case VO_RAW_F32LE:
        code = F32;
        break;
    case VO_RAW_S32LE:
        code = S32;
        break;
    case VO_RAW_U8:
        code = U8;
        break;
    default:
        return vo_fail(err, VO_ERR_ARGUMENT, "unknown raw format %d", params->raw_format);
    }
    snprintf(mixer->audio->format, sizeof(mixer->audio->format), "raw %s", coding_names[code]);
    int channels = params->raw_channels > 0 ? params->raw_channels : 1;
    if (channels > 1024)
        return vo_fail(err, VO_ERR_ARGUMENT, "%d raw channels are too many", channels);
    return pump(stream, mixer, code, params->raw_rate, channels, UNKNOWN_SIZE, &got, err);
}

/* ---- chunks ------------------------------------------------------------------------------ */

/* The first header. False when it is none. */
static bool read_riff(wav_reader *r) {
    unsigned char h[40];
    if (vo_stream_read(r->stream, h, 12) < 12) return false;
    if (memcmp(h, "riff", 4) == 0) {
        if (vo_stream_read(r->stream, h + 12, 28) < 28 || memcmp(h + 24, "wave", 4) != 0)
            return false;
        r->wave64 = true;
        r->riff_size = bounded(le64(h + 16));
        return true;
    }
    r->riff_size = size32(le32(h + 4));
    return (memcmp(h, "RIFF", 4) == 0 || memcmp(h, "RF64", 4) == 0 || memcmp(h, "BW64", 4) == 0) &&
           memcmp(h + 8, "WAVE", 4) == 0;
}

/* Next chunk's name (4 bytes) and size of its content. False at the end. `first` is a byte that
 * was already read, or -1. */
static bool read_chunk(wav_reader *r, int first, char id[4], int64_t *size) {
    unsigned char h[24];
    const int64_t want = r->wave64 ? 24 : 8;
    int64_t have = 0;
    if (first >= 0) h[have++] = (unsigned char)first;
    if (vo_stream_read(r->stream, h + have, want - have) < want - have) return false;
    memcpy(id, h, 4);
    if (!r->wave64) {
        *size = size32(le32(h + 4));
        return true;
    }
    *size = bounded(le64(h + 16));
    if (*size == UNKNOWN_SIZE) return true;
    if (*size < 24) return false;
    *size -= 24;
    return true;
}

/* Skips a chunk's padding. Some writers leave it out: a byte that is not zero belongs to the
 * next chunk and is returned; else -1. */
static int skip_padding(wav_reader *r, int64_t size) {
    unsigned char byte;
    if (r->wave64) {
        vo_stream_skip(r->stream, (8 - size % 8) % 8);
    } else if (size % 2 && vo_stream_read(r->stream, &byte, 1) == 1 && byte) {
        return byte;
    }
    return -1;
}

static bool choose_coding(wav_reader *r) {
    /* The bytes of one sample in the file; a header whose parts disagree follows its bits. */
    int width = r->block % r->channels == 0 ? r->block / r->channels : 0;
    if (width < 1 || width > 8 || width * 8 < r->bits) width = (r->bits + 7) / 8;
    switch (r->tag) {
    case TAG_PCM:
        if (width < 1 || width > 4) return false;
        r->code = width == 1 ? U8 : width == 2 ? S16 : width == 3 ? S24 : S32;
        return true;
    case TAG_FLOAT:
        if (width != 4 && width != 8) return false;
        r->code = width == 4 ? F32 : F64;
        return true;
    case TAG_ALAW:
        r->code = ALAW;
        return true;
    case TAG_MULAW:
        r->code = MULAW;
        return true;
    default:
        return false;
    }
}

static vo_status read_fmt(wav_reader *r, int64_t size, vo_error *err) {
    unsigned char f[40] = {0};
    int64_t want = size < 40 ? size : 40;
    if (size < 14 || vo_stream_read(r->stream, f, want) < want)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the WAV format chunk has %lld bytes",
                       r->stream->name, (long long)size);
    r->tag = (int)le16(f);
    r->channels = (int)le16(f + 2);
    r->rate = le32(f + 4);
    r->block = (int)le16(f + 12);
    r->bits = (int)le16(f + 14);
    if (r->tag == TAG_EXTENSIBLE) {
        /* The first two bytes of the sub-format's GUID are the tag it stands for. */
        if (size < 26)
            return vo_fail(err, VO_ERR_FORMAT, "%s: the WAV format chunk is too short",
                           r->stream->name);
        r->tag = (int)le16(f + 24);
    }
    if (r->channels == 0)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the WAV header promises 0 channels",
                       r->stream->name);
    vo_stream_skip(r->stream, size - want);
    return VO_OK;
}

/* How many bytes of data to expect, from a size that may be a lie. *unfinished: the header was
 * never completed, which is worth a warning. */
static int64_t data_size(const wav_reader *r, int64_t size, bool *unfinished) {
    const vo_stream *s = r->stream;
    *unfinished = false;
    if (size == UNKNOWN_SIZE) return r->ds64_data > 0 ? r->ds64_data : UNKNOWN_SIZE;
    if (size == 0 && (r->riff_size == 0 || r->riff_size == UNKNOWN_SIZE ||
                      (!r->wave64 && r->riff_size + 8 <= s->position))) {
        /* A recorder that died leaves zeros where the sizes go. */
        *unfinished = true;
        return UNKNOWN_SIZE;
    }
    if (!r->wave64 && s->size > UINT32_MAX) {
        /* More than 4 GiB in a header of 32 bits: the size has wrapped. */
        int64_t left = s->size - s->position - size;
        if (left > 0) size += left >> 32 << 32;
    }
    return size;
}

static vo_status decode_data(wav_reader *r, int64_t size, vo_error *err) {
    vo_stream *s = r->stream;
    bool unfinished;
    int64_t got, expected = data_size(r, size, &unfinished);
    s->recording = false;
    if (s->replayed == s->head.size) vo_buf_free(&s->head);
    snprintf(r->mixer->audio->format, sizeof(r->mixer->audio->format), "wav %s",
             coding_names[r->code]);
    vo_status status = pump(s, r->mixer, r->code, r->rate, r->channels, expected, &got, err);
    if (status) return status;
    if (unfinished && got)
        vo_audio_warn(r->mixer->audio, "the header was never completed, everything was read");
    else if (expected != UNKNOWN_SIZE && got < expected)
        vo_audio_warn(r->mixer->audio,
                      "the header promises %lld bytes of sound and the file has %lld",
                      (long long)expected, (long long)got);
    return VO_OK;
}

vo_status vo_wav_decode(vo_stream *stream, vo_mixer *mixer, vo_wav_info *info, vo_error *err) {
    wav_reader r = {.stream = stream, .mixer = mixer, .ds64_data = -1};
    char id[4];
    int64_t size;
    int ahead = -1;
    memset(info, 0, sizeof(*info));
    if (!read_riff(&r)) return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: no WAV header", stream->name);
    while (read_chunk(&r, ahead, id, &size)) {
        ahead = -1;
        if (memcmp(id, "data", 4) == 0) {
            if (!info->tag)
                return vo_fail(err, VO_ERR_FORMAT, "%s: WAV data without a format chunk before it",
                               stream->name);
            info->data_offset = stream->position;
            info->data_size = size;
            if (!choose_coding(&r))
                return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: WAV coding 0x%04X with %d bits",
                               stream->name, (unsigned)r.tag, r.bits);
            return decode_data(&r, size, err);
        }
        if (memcmp(id, "fmt ", 4) == 0) {
            vo_status status = read_fmt(&r, size, err);
            if (status) return status;
            info->tag = r.tag ? r.tag : -1;
        } else if (memcmp(id, "ds64", 4) == 0 && size >= 16 && size != UNKNOWN_SIZE) {
            unsigned char sizes[16];
            if (vo_stream_read(stream, sizes, 16) < 16) break;
            r.ds64_data = bounded(le64(sizes + 8));
            if (!vo_stream_skip(stream, size - 16)) break;
        } else if (!vo_stream_skip(stream, size)) {
            break;
        }
        ahead = skip_padding(&r, size);
    }
    return vo_fail(err, VO_ERR_FORMAT, "%s: a WAV header without sound after it", stream->name);
}
