/* SPDX-License-Identifier: MIT
 *
 * MPEG audio. One sync word means nothing, but a frame whose header gives a length at whose end
 * another frame of the same kind begins is no accident; so junk, tags and cut beginnings are
 * skipped and other files are not taken for MP3.
 *
 * Decoded by libmpg123 itself: libsndfile, which wraps it, believes the length that is estimated
 * from the first frames of a file without a Xing header, and drops what comes after; and lets it
 * print.
 */
#include "audio/decode.h"

#include <mpg123.h>
#include <string.h>

enum { SEARCH = 4 * 1024 * 1024, CHAIN = 3, ID3V1 = 128 };

/* Bit rates in kbit/s (ISO 11172-3, 13818-3): MPEG-1 layers 1 to 3, MPEG-2 layer 1, layers 2
 * and 3. */
static const short bit_rates[5][15] = {
    {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
    {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
    {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
    {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
    {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};

/* Bytes of the frame whose header is at h, or 0 when it is no header. Free format, which has no
 * length in its header, counts as none. */
static int frame_bytes(const unsigned char *h) {
    static const int rates[] = {44100, 48000, 32000};
    if (h[0] != 0xFF || (h[1] & 0xE0) != 0xE0) return 0;
    int version = h[1] >> 3 & 3, layer = 4 - (h[1] >> 1 & 3); /* version 3: MPEG-1 */
    int bits = h[2] >> 4, rate = h[2] >> 2 & 3, padding = h[2] >> 1 & 1;
    if (version == 1 || layer == 4 || bits == 0 || bits == 15 || rate == 3) return 0;
    int row = version == 3 ? layer - 1 : layer == 1 ? 3 : 4;
    int hz = rates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
    int bps = bit_rates[row][bits] * 1000;
    if (layer == 1) return (12 * bps / hz + padding) * 4;
    return (layer == 3 && version != 3 ? 72 : 144) * bps / hz + padding;
}

/* Version, layer and sampling rate stay the same from frame to frame. */
static bool same_kind(const unsigned char *a, const unsigned char *b) {
    return (a[1] & 0xFE) == (b[1] & 0xFE) && (a[2] & 0x0C) == (b[2] & 0x0C);
}

static bool is_chain(vo_input *input, int64_t offset, int64_t end, const unsigned char *first) {
    unsigned char h[4];
    int bytes = frame_bytes(first);
    for (int i = 1; i < CHAIN; i++) {
        offset += bytes;
        /* A very short file: its frames end with it (or with an old tag). */
        if (offset == end || offset + ID3V1 == end) return true;
        if (offset + 4 > end || vo_input_read_at(input, offset, h, 4) < 4) return false;
        if (!same_kind(first, h) || !(bytes = frame_bytes(h))) return false;
    }
    return true;
}

/* Offset of the first frame that is followed by others, or by the end; -1: none in SEARCH. */
static int64_t find_frame(vo_input *input, int64_t start, int64_t end) {
    enum { BLOCK = 64 * 1024 };
    unsigned char *buffer = vo_alloc_uninitialized(BLOCK);
    int64_t found = -1;
    if (!buffer) return -1;
    for (int64_t offset = start; found < 0 && offset < end && offset - start < SEARCH;) {
        int64_t got = vo_input_read_at(input, offset, buffer, BLOCK);
        for (int64_t i = 0; i + 4 <= got && found < 0; i++)
            if (buffer[i] == 0xFF && frame_bytes(buffer + i) &&
                is_chain(input, offset + i, end, buffer + i))
                found = offset + i;
        if (got < BLOCK) break;
        offset += got - 3;
    }
    vo_free(buffer);
    return found;
}

/* Whether the first frame is an index (Xing, Info, VBRI), which counts the others. Without one,
 * lengths are guesses. */
static bool has_index(vo_input *input, int64_t offset) {
    unsigned char h[64];
    int64_t got = vo_input_read_at(input, offset, h, sizeof(h));
    for (int64_t i = 4; i + 4 <= got; i++)
        if (memcmp(h + i, "Xing", 4) == 0 || memcmp(h + i, "Info", 4) == 0 ||
            memcmp(h + i, "VBRI", 4) == 0)
            return true;
    return false;
}

/* ---- decoding ---------------------------------------------------------------------------- */

typedef struct window {
    vo_input *input;
    int64_t start, size, position;
} window;

static ssize_t window_read(void *user, void *data, size_t size) {
    window *w = user;
    int64_t left = w->size - w->position;
    if (left <= 0) return 0;
    if ((uint64_t)left > size) left = (int64_t)size;
    int64_t got = vo_input_read_at(w->input, w->start + w->position, data, left);
    w->position += got;
    return (ssize_t)got;
}

static off_t window_seek(void *user, off_t offset, int whence) {
    window *w = user;
    int64_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? w->position : w->size, to;
    if (__builtin_add_overflow(base, (int64_t)offset, &to) || to < 0) return -1;
    w->position = to;
    return (off_t)to;
}

static mpg123_handle *open_window(window *w) {
    mpg123_handle *h = mpg123_new(NULL, NULL);
    if (!h) return NULL;
    if (mpg123_param(h, MPG123_ADD_FLAGS, MPG123_QUIET | MPG123_FORCE_FLOAT | MPG123_SKIP_ID3V2,
                     0) != MPG123_OK ||
        mpg123_param(h, MPG123_REMOVE_FLAGS, MPG123_AUTO_RESAMPLE, 0) != MPG123_OK ||
        /* Any amount of junk between frames. */
        mpg123_param(h, MPG123_RESYNC_LIMIT, -1, 0) != MPG123_OK ||
        mpg123_replace_reader_handle(h, window_read, window_seek, NULL) != MPG123_OK ||
        mpg123_open_handle(h, w) != MPG123_OK) {
        mpg123_delete(h);
        return NULL;
    }
    return h;
}

/* Closes the current part, if any, and opens one of the decoder's present format. */
static vo_status next_part(mpg123_handle *h, vo_mixer *mixer, int64_t frames, int64_t bytes,
                           int *channels, vo_error *err) {
    long rate;
    int encoding;
    vo_status status = VO_OK;
    if (mixer->rate) status = vo_mixer_end(mixer, err);
    if (status) return status;
    if (mpg123_getformat(h, &rate, channels, &encoding) != MPG123_OK ||
        encoding != MPG123_ENC_FLOAT_32)
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: MPEG audio that cannot be decoded",
                       mixer->name);
    return vo_mixer_begin(mixer, rate, *channels, frames, bytes, err);
}

static vo_status pump(mpg123_handle *h, int64_t frames, int64_t size, float *block, size_t bytes,
                      vo_mixer *mixer, vo_error *err) {
    int channels = 0;
    vo_status status = VO_OK;
    while (!status) {
        size_t got = 0;
        int code = mpg123_read(h, (unsigned char *)block, bytes, &got);
        if (got && channels) {
            status = vo_mixer_write(mixer, block, (int64_t)(got / sizeof(float)) / channels, err);
            if (status) return status;
        }
        if (code == MPG123_NEW_FORMAT) {
            status = next_part(h, mixer, channels ? 0 : frames, size, &channels, err);
        } else if (code == MPG123_DONE) {
            break;
        } else if (code != MPG123_OK) {
            if (!channels)
                return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: %s", mixer->name, mpg123_strerror(h));
            vo_audio_warn(mixer->audio, "it is damaged after %.2f seconds", mixer->seconds);
            break;
        }
    }
    if (!status && !channels)
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: no MPEG audio frames", mixer->name);
    return status ? status : vo_mixer_end(mixer, err);
}

vo_status vo_mpeg_decode(vo_input *input, int64_t start, int64_t end, vo_mixer *mixer,
                         vo_error *err) {
    enum { BLOCK = 64 * 1024 };
    const int64_t first = find_frame(input, start, end);
    if (first < 0) return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: no MPEG audio frames", input->name);
    window w = {.input = input, .start = first, .size = end - first};
    vo_status status;
    mpg123_handle *h = open_window(&w);
    float *block = vo_alloc_uninitialized(BLOCK);
    if (!h || !block) {
        status = vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory to read it", input->name);
        goto fail;
    }
    /* What an index promises; what it is without one is a guess, good for nothing. */
    const bool indexed = has_index(input, first);
    const int64_t promised = indexed ? mpg123_length(h) : 0;
    snprintf(mixer->audio->format, sizeof(mixer->audio->format), "mp3");
    status = pump(h, promised, w.size, block, BLOCK, mixer, err);
    if (!status && mixer->part_frames + 2 * 1152 < promised && mixer->audio->source_rate > 0)
        vo_audio_warn(mixer->audio, "%.2f of %.2f seconds could be read", mixer->seconds,
                      (double)promised / mixer->audio->source_rate);
fail:
    if (h) {
        mpg123_close(h);
        mpg123_delete(h);
    }
    vo_free(block);
    return status;
}

/* ---- tags -------------------------------------------------------------------------------- */

int64_t vo_id3_skip(vo_input *input) {
    int64_t offset = 0;
    for (int tags = 0; tags < 16; tags++) {
        unsigned char h[10];
        if (vo_input_read_at(input, offset, h, 10) < 10 || memcmp(h, "ID3", 3) != 0) break;
        int64_t size =
            (int64_t)(h[6] & 0x7F) << 21 | (h[7] & 0x7F) << 14 | (h[8] & 0x7F) << 7 | (h[9] & 0x7F);
        int64_t next = offset + 10 + size + (h[5] & 0x10 ? 10 : 0);
        if (next >= input->size) break;
        offset = next;
    }
    return offset;
}
