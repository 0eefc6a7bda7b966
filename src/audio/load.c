/* SPDX-License-Identifier: MIT
 *
 * From a path or a stream to samples: who reads it follows from its first bytes. The one idea:
 * WAV and raw PCM are decoded on the way in; only formats whose decoder must seek are held in
 * memory first, and only when they come from a stream.
 */
#include "audio/decode.h"
#include "base/file.h"

#include <errno.h>
#include <string.h>

/* ---- who reads it ------------------------------------------------------------------------ */

/* WAV with a coding that is not ours. */
static vo_status decode_other_wav(vo_input *input, const vo_wav_info *info, vo_mixer *mixer,
                                  vo_error *err) {
    if (info->tag == 0x50 || info->tag == 0x55) { /* MPEG audio in a WAV coat */
        int64_t end = input->size - info->data_offset < info->data_size
                          ? input->size
                          : info->data_offset + info->data_size;
        return vo_mpeg_decode(input, info->data_offset, end, mixer, err);
    }
    return vo_sndfile_decode(input, 0, input->size, mixer, err);
}

static vo_status decode_wav(vo_input *input, vo_mixer *mixer, vo_error *err) {
    vo_stream stream = {.input = input, .name = input->name, .size = input->size};
    vo_wav_info info;
    vo_error why = {0};
    vo_status status = vo_wav_decode(&stream, mixer, &info, &why);
    if (status == VO_ERR_UNSUPPORTED) return decode_other_wav(input, &info, mixer, err);
    if (status) return vo_fail(err, status, "%s", why.message);
    return VO_OK;
}

/* An input of known size by content: ours, libsndfile, ffmpeg, in this order. */
static vo_status decode_input(vo_input *input, const vo_audio_params *params, vo_mixer *mixer,
                              vo_error *err) {
    unsigned char head[VO_SNIFF_BYTES];
    int64_t start = vo_id3_skip(input);
    int64_t got = vo_input_read_at(input, start, head, sizeof(head));
    const vo_container *c = vo_container_sniff(head, (size_t)got);
    vo_error why = {0};
    vo_status status = VO_ERR_UNSUPPORTED;
    switch (c->kind) {
    case VO_CONTAINER_NO_AUDIO:
        return vo_fail(err, VO_ERR_FORMAT, "%s is %s, not audio", input->name, c->name);
    case VO_CONTAINER_WAV:
        status = decode_wav(input, mixer, &why);
        break;
    case VO_CONTAINER_OGG:
        status = vo_ogg_decode(input, start, mixer, &why);
        break;
    case VO_CONTAINER_MPEG:
        status = vo_mpeg_decode(input, start, input->size, mixer, &why);
        break;
    case VO_CONTAINER_UNKNOWN:
    case VO_CONTAINER_SNDFILE:
        status = vo_sndfile_decode(input, start, input->size - start, mixer, &why);
        if (status == VO_ERR_UNSUPPORTED && c->kind == VO_CONTAINER_UNKNOWN)
            status = vo_mpeg_decode(input, start, input->size, mixer, &why);
        break;
    case VO_CONTAINER_MP4:
    case VO_CONTAINER_FFMPEG:
        break;
    }
    if (status == VO_ERR_UNSUPPORTED) return vo_ffmpeg_decode(input, c, params, mixer, err);
    if (status) return vo_fail(err, status, "%s", why.message);
    return VO_OK;
}

static vo_status decode_stream(vo_stream *stream, const vo_audio_params *params, vo_mixer *mixer,
                               vo_error *err) {
    if (params->raw_rate > 0) return vo_raw_decode(stream, params, mixer, err);
    unsigned char head[16];
    stream->recording = true;
    int64_t got = vo_stream_read(stream, head, sizeof(head));
    if (got == 0) {
        if (stream->failed) return vo_fail(err, VO_ERR_IO, "%s: reading it failed", stream->name);
        return vo_fail(err, VO_ERR_FORMAT, "%s is empty", stream->name);
    }
    stream->replayed = 0;
    stream->position = 0;
    if (vo_container_sniff(head, (size_t)got)->kind == VO_CONTAINER_WAV) {
        vo_wav_info info;
        vo_error why = {0};
        vo_status status = vo_wav_decode(stream, mixer, &info, &why);
        if (status != VO_ERR_UNSUPPORTED)
            return status ? vo_fail(err, status, "%s", why.message) : VO_OK;
    }
    vo_status status = vo_stream_spool(stream, err);
    if (status) return status;
    vo_input input = {.data = (unsigned char *)stream->head.data,
                      .size = (int64_t)stream->head.size,
                      .name = stream->name};
    return decode_input(&input, params, mixer, err);
}

static vo_status finish(vo_status status, vo_mixer *mixer, vo_audio *audio, vo_error *err) {
    if (!status) status = vo_mixer_finish(mixer, err);
    vo_mixer_free(mixer);
    if (status) vo_audio_free(audio);
    return status;
}

static vo_status check_params(const vo_audio_params *params, vo_error *err) {
    if (params->channel < -1 || params->raw_rate < 0 || params->raw_channels < 0 ||
        !(params->max_seconds >= 0))
        return vo_fail(err, VO_ERR_ARGUMENT, "negative channel, rate or limit");
    return VO_OK;
}

vo_status vo_audio_load_source(const vo_source *source, const vo_audio_params *params,
                               vo_audio *audio, vo_error *err) {
    vo_audio_params defaults = vo_audio_default_params();
    if (!params) params = &defaults;
    memset(audio, 0, sizeof(*audio));
    vo_status status = check_params(params, err);
    if (status) return status;
    const char *name = source->name ? source->name : "the input";
    vo_stream stream = {.source = source, .name = name, .size = -1};
    vo_mixer mixer;
    stream.max_bytes = params->max_bytes ? params->max_bytes : (size_t)2 << 30;
    vo_mixer_init(&mixer, name, params, audio);
    vo_error why = {0};
    status = decode_stream(&stream, params, &mixer, &why);
    if (stream.failed) /* not damage: what is missing may be read another time */
        status = vo_fail(err, VO_ERR_IO, "%s: reading it failed", name);
    else if (status)
        vo_fail(err, status, "%s", why.message);
    vo_buf_free(&stream.head);
    return finish(status, &mixer, audio, err);
}

static int64_t read_file(void *user, void *data, size_t size) {
    size_t got = fread(data, 1, size, user);
    return got == 0 && ferror((FILE *)user) ? -1 : (int64_t)got;
}

static vo_status load_regular(FILE *file, const char *path, int64_t size,
                              const vo_audio_params *params, vo_audio *audio, vo_error *err) {
    vo_input input = {.file = file, .size = size, .name = path, .path = path};
    vo_mixer mixer;
    vo_status status;
    vo_error why = {0};
    vo_mixer_init(&mixer, path, params, audio);
    if (params->raw_rate > 0) {
        vo_stream stream = {.input = &input, .name = path, .size = size};
        status = vo_raw_decode(&stream, params, &mixer, &why);
    } else {
        status = decode_input(&input, params, &mixer, &why);
    }
    if (ferror(file))
        status = vo_fail(err, VO_ERR_IO, "%s: reading it failed", path);
    else if (status)
        vo_fail(err, status, "%s", why.message);
    return finish(status, &mixer, audio, err);
}

vo_status vo_audio_load(const char *path, const vo_audio_params *params, vo_audio *audio,
                        vo_error *err) {
    vo_audio_params defaults = vo_audio_default_params();
    if (!params) params = &defaults;
    memset(audio, 0, sizeof(*audio));
    vo_status status = check_params(params, err);
    if (status) return status;
    if (vo_path_is_dir(path)) return vo_fail(err, VO_ERR_ARGUMENT, "%s is a folder", path);
    FILE *file = fopen(path, "rb");
    if (!file)
        return vo_fail(err, errno == ENOENT ? VO_ERR_NOT_FOUND : VO_ERR_IO, "cannot open %s: %s",
                       path, strerror(errno));
    /* Pipes and devices have no size; an empty file is read as a stream that ends at once. */
    int64_t size = vo_file_size(path);
    if (size > 0) {
        status = load_regular(file, path, size, params, audio, err);
    } else {
        vo_source source = {read_file, file, path};
        status = vo_audio_load_source(&source, params, audio, err);
    }
    fclose(file);
    return status;
}
