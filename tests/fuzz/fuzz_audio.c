/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a sound file: limits hold, samples are finite, and a stream that comes in small
 * pieces gives what it gives at once. The MP4 boxes, which are otherwise only looked at on the
 * way to ffmpeg, are walked too. Seeds: small files of every format.
 */
#include "audio/decode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

const char *__lsan_default_suppressions(void);

/* libsndfile 1.2.0 forgets some memory of its codecs when a header turns out to be damaged. */
const char *__lsan_default_suppressions(void) {
    return "leak:libsndfile\nleak:libvorbis\nleak:libogg\nleak:libopus\nleak:libFLAC\n";
}

enum { MAX_SECONDS = 20 };

static void require(bool condition) {
    if (!condition) abort();
}

typedef struct bytes {
    const uint8_t *data;
    size_t size, position, piece;
} bytes;

static int64_t read_bytes(void *user, void *out, size_t size) {
    bytes *b = user;
    size_t n = b->size - b->position;
    if (n > size) n = size;
    if (n > b->piece) n = b->piece;
    if (n) memcpy(out, b->data + b->position, n);
    b->position += n;
    return (int64_t)n;
}

static vo_status load(const uint8_t *data, size_t size, size_t piece, int raw_format,
                      vo_audio *audio) {
    bytes b = {data, size, 0, piece};
    vo_source source = {read_bytes, &b, "fuzz"};
    vo_audio_params params = vo_audio_default_params();
    vo_error err = {0};
    params.max_seconds = MAX_SECONDS;
    params.max_bytes = (size_t)1 << 20;
    params.ffmpeg_timeout = -1;
    if (raw_format >= 0) {
        params.raw_rate = 11025;
        params.raw_channels = 3;
        params.raw_format = raw_format;
    }
    vo_status status = vo_audio_load_source(&source, &params, audio, &err);
    if (status) {
        require(err.status == status && err.message[0]);
        require(!audio->samples && audio->n_samples == 0);
        return status;
    }
    require(audio->samples && audio->n_samples >= 0);
    /* A resampler rounds up, once for each part. */
    require(audio->n_samples <= (MAX_SECONDS + 1) * VO_SAMPLE_RATE);
    require(audio->duration <= MAX_SECONDS);
    require(strlen(audio->warning) < sizeof(audio->warning));
    for (int64_t i = 0; i < audio->n_samples; i++) require(isfinite(audio->samples[i]));
    return VO_OK;
}

static void walk_boxes(const uint8_t *data, size_t size) {
    unsigned char *copy = vo_alloc(size);
    if (!copy) return;
    if (size) memcpy(copy, data, size);
    vo_input input = {.data = copy, .size = (int64_t)size, .name = "fuzz"};
    vo_mp4_is_cut(&input);
    vo_mp4_index_first(copy, (int64_t)size);
    vo_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    vo_audio whole, pieces;
    vo_status a = load(data, size, SIZE_MAX, -1, &whole);
    vo_status b = load(data, size, 7, -1, &pieces);
    require(a == b && whole.n_samples == pieces.n_samples);
    require(strcmp(whole.warning, pieces.warning) == 0);
    if (a == VO_OK)
        require(memcmp(whole.samples, pieces.samples, (size_t)whole.n_samples * sizeof(float)) ==
                0);
    vo_audio_free(&whole);
    vo_audio_free(&pieces);
    if (size % 16 == 0) {
        load(data, size, SIZE_MAX, (int)(size / 16 % 5), &whole);
        vo_audio_free(&whole);
    }
    walk_boxes(data, size);
    return 0;
}
