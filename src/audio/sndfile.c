/* SPDX-License-Identifier: MIT
 *
 * libsndfile over a window of an input. The one idea: virtual I/O on [start, start + size), so
 * that tags, junk and neighbouring parts of a file do not exist for it.
 */
#include "audio/decode.h"

#include <sndfile.h>
#include <string.h>

enum { BLOCK_FLOATS = 16 * 1024 };

typedef struct window {
    vo_input *input;
    int64_t start, size, position;
    int64_t patch_at; /* these 8 bytes are read as `patch`; -1: none */
    unsigned char patch[8];
} window;

static sf_count_t window_size(void *user) {
    return ((window *)user)->size;
}

static sf_count_t window_seek(sf_count_t offset, int whence, void *user) {
    window *w = user;
    if (whence == SEEK_CUR && __builtin_add_overflow(offset, w->position, &offset)) return -1;
    if (whence == SEEK_END && __builtin_add_overflow(offset, w->size, &offset)) return -1;
    if (offset < 0) return -1;
    w->position = offset;
    return offset;
}

static sf_count_t window_read(void *data, sf_count_t size, void *user) {
    window *w = user;
    if (w->position >= w->size || size <= 0) return 0;
    if (size > w->size - w->position) size = w->size - w->position;
    int64_t got = vo_input_read_at(w->input, w->start + w->position, data, size);
    for (int i = 0; i < 8 && w->patch_at >= 0; i++) {
        int64_t at = w->patch_at + i - w->position;
        if (at >= 0 && at < got) ((unsigned char *)data)[at] = w->patch[i];
    }
    w->position += got;
    return got;
}

static int64_t be64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++) v = v << 8 | p[i];
    return (int64_t)v;
}

/* CAF: libsndfile insists on the size of the data chunk, which may be -1 ("to the end") by the
 * standard and is too large in a file that was cut. It is shown the bytes there are. Returns how
 * many are missing. */
static int64_t repair_caf(window *w) {
    unsigned char h[12];
    int64_t offset = 8, missing = 0;
    if (vo_input_read_at(w->input, w->start, h, 8) < 8 || memcmp(h, "caff", 4) != 0) return 0;
    while (vo_input_read_at(w->input, w->start + offset, h, 12) == 12) {
        int64_t size = be64(h + 4), left = w->size - offset - 12;
        if (memcmp(h, "data", 4) == 0) {
            if (size == -1 || size > left) {
                missing = size > left ? size - left : 0;
                w->patch_at = offset + 4;
                for (int i = 0; i < 8; i++)
                    w->patch[i] = (unsigned char)((uint64_t)left >> (56 - 8 * i));
            }
            break;
        }
        if (size < 0 || size > left) break;
        offset += 12 + size;
    }
    return missing;
}

static sf_count_t window_write(const void *data, sf_count_t size, void *user) {
    return 0;
}

static sf_count_t window_tell(void *user) {
    return ((window *)user)->position;
}

static const char *major_name(int format) {
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_WAV:
    case SF_FORMAT_WAVEX:
        return "wav";
    case SF_FORMAT_RF64:
        return "rf64";
    case SF_FORMAT_W64:
        return "w64";
    case SF_FORMAT_AIFF:
        return "aiff";
    case SF_FORMAT_AU:
        return "au";
    case SF_FORMAT_CAF:
        return "caf";
    case SF_FORMAT_FLAC:
        return "flac";
    case SF_FORMAT_OGG:
        return "ogg";
    default:
        return "sndfile";
    }
}

static const char *minor_name(int format) {
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_S8:
        return " pcm_8";
    case SF_FORMAT_PCM_U8:
        return " pcm_u8";
    case SF_FORMAT_PCM_16:
        return " pcm_16";
    case SF_FORMAT_PCM_24:
        return " pcm_24";
    case SF_FORMAT_PCM_32:
        return " pcm_32";
    case SF_FORMAT_FLOAT:
        return " float32";
    case SF_FORMAT_DOUBLE:
        return " float64";
    case SF_FORMAT_ULAW:
        return " mulaw";
    case SF_FORMAT_ALAW:
        return " alaw";
    case SF_FORMAT_IMA_ADPCM:
        return " ima_adpcm";
    case SF_FORMAT_MS_ADPCM:
        return " ms_adpcm";
    case SF_FORMAT_GSM610:
        return " gsm610";
    case SF_FORMAT_VORBIS:
        return " vorbis";
    case SF_FORMAT_OPUS:
        return " opus";
    default:
        return "";
    }
}

static void set_format(vo_audio *audio, int format) {
    if ((format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC)
        snprintf(audio->format, sizeof(audio->format), "flac");
    else
        snprintf(audio->format, sizeof(audio->format), "%s%s", major_name(format),
                 minor_name(format));
}

/* Everything from an open file, as one part. */
static vo_status pump(SNDFILE *file, const SF_INFO *info, int64_t size, vo_mixer *mixer,
                      vo_error *err) {
    vo_status status =
        vo_mixer_begin(mixer, info->samplerate, info->channels, info->frames, size, err);
    if (status) return status;
    const int64_t frames = BLOCK_FLOATS / info->channels;
    float *block = vo_alloc_uninitialized(BLOCK_FLOATS * sizeof(float));
    if (!block) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory to read it", mixer->name);
    int64_t total = 0, n;
    while ((n = sf_readf_float(file, block, frames)) > 0) {
        status = vo_mixer_write(mixer, block, n, err);
        if (status) break;
        total += n;
    }
    vo_free(block);
    if (status) return status;
    const int problem = sf_error(file);
    const double rate = info->samplerate;
    if (info->frames > 0 && info->frames < SF_COUNT_MAX && total < info->frames)
        vo_audio_warn(mixer->audio, "%.2f of %.2f seconds could be read", (double)total / rate,
                      (double)info->frames / rate);
    else if (problem)
        vo_audio_warn(mixer->audio, "it is damaged after %.2f seconds", mixer->seconds);
    return vo_mixer_end(mixer, err);
}

vo_status vo_sndfile_decode(vo_input *input, int64_t start, int64_t size, vo_mixer *mixer,
                            vo_error *err) {
    window w = {.input = input, .start = start, .size = size, .patch_at = -1};
    const int64_t missing = repair_caf(&w);
    SF_VIRTUAL_IO io = {window_size, window_seek, window_read, window_write, window_tell};
    SF_INFO info;
    memset(&info, 0, sizeof(info));
    SNDFILE *file = sf_open_virtual(&io, SFM_READ, &info, &w);
    /* sf_strerror(NULL) is one string for all threads: its text is not worth the race. */
    if (!file)
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: libsndfile cannot read it", input->name);
    vo_status status;
    if ((info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_MPEG) {
        status =
            vo_fail(err, VO_ERR_UNSUPPORTED, "%s: MPEG audio is not for libsndfile", input->name);
    } else {
        set_format(mixer->audio, info.format);
        status = pump(file, &info, size, mixer, err);
        if (missing > 0 && !status)
            vo_audio_warn(mixer->audio, "its last %lld bytes are missing", (long long)missing);
    }
    sf_close(file);
    return status;
}
