/* SPDX-License-Identifier: MIT
 *
 * The user's ffmpeg as a child process, for what libsndfile does not know. The one idea: the
 * child writes a WAV stream, which our own WAV walker reads, so that channels, limits and
 * damage are treated as for any other file. The demuxer is pinned (or chosen from a list
 * without playlists), and only one protocol is open to it: a crafted file cannot make it read
 * other files or the network.
 */
#include "audio/decode.h"
#include "base/clock.h"
#include "base/process.h"

#include <string.h>

#define MEMORY_LIMIT ((size_t)2 << 30)

/* Demuxers that open nothing but their input. */
static const char demuxers[] =
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,dtshd,eac3,flac,flv,gsm,iff,m4v,"
    "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,mpegvideo,mxf,nut,ogg,oma,qcp,"
    "rm,shn,sox,spdif,tak,truehd,tta,voc,w64,wav,wtv,wv,xwma,matroska\\,webm,"
    "mov\\,mp4\\,m4a\\,3gp\\,3g2\\,mj2";

typedef struct child {
    vo_process *process;
    vo_mixer *mixer;
    double waited, timeout; /* for the child; timeout: at least this many seconds */
    bool growing;           /* and one more for every 30 seconds of sound */
    vo_error err;
} child;

/* vo_source: the child's standard output. */
static int64_t child_read(void *user, void *data, size_t size) {
    child *c = user;
    size_t got = 0;
    if (c->err.status) return -1;
    double allowed = c->timeout + (c->growing ? c->mixer->seconds / 30 : 0);
    const double begin = vo_clock_seconds();
    if (c->waited > allowed) {
        vo_fail(&c->err, VO_ERR_LIMIT, "ffmpeg took longer than %.0f seconds", allowed);
        return -1;
    }
    if (vo_process_read(c->process, data, size, &got, &c->err)) return -1;
    c->waited += vo_clock_seconds() - begin;
    return (int64_t)got;
}

static vo_status not_installed(const vo_input *input, const vo_container *container,
                               vo_error *err) {
    if (container->kind == VO_CONTAINER_UNKNOWN)
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s is %s; ffmpeg may know it, but the program 'ffmpeg' is not installed "
                       "(Debian: apt install ffmpeg)",
                       input->name, container->name);
    return vo_fail(err, VO_ERR_UNSUPPORTED,
                   "%s is %s, which is read through ffmpeg, and the program 'ffmpeg' is not "
                   "installed (Debian: apt install ffmpeg)",
                   input->name, container->name);
}

/* The command line. A file on disk is opened by the child, which can then seek in it; bytes
 * in memory go through the pipe. */
static vo_status start(child *c, vo_input *input, const vo_container *container, vo_error *err) {
    const char *argv[40];
    int n = 0;
    char limit[32];
    vo_status status;
    char *url = input->path ? vo_format("file:%s", input->path) : vo_strdup("pipe:0");
    if (!url) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", input->name);
    /* A second more than we accept, so that longer input is noticed. */
    snprintf(limit, sizeof(limit), "%.0f", c->mixer->max_seconds + 1);
    const char *const common[] = {"ffmpeg",   "-nostdin", "-hide_banner",       "-v", "error",
                                  "-threads", "1",        "-protocol_whitelist"};
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) argv[n++] = common[i];
    argv[n++] = input->path ? "file" : "pipe";
    argv[n++] = container->demuxer ? "-f" : "-format_whitelist";
    argv[n++] = container->demuxer ? container->demuxer : demuxers;
    argv[n++] = "-i";
    argv[n++] = url;
    const char *const output[] = {"-vn", "-sn",   "-dn",  "-map_metadata", "-1",
                                  "-ar", "16000", "-c:a", "pcm_f32le",     "-t",
                                  limit, "-f",    "wav",  "pipe:1"};
    for (size_t i = 0; i < sizeof(output) / sizeof(output[0]); i++) argv[n++] = output[i];
    argv[n] = NULL;
    vo_process_params params = {.argv = argv, .memory_limit = MEMORY_LIMIT};
    /* Who takes samples as they come may take them as slowly as a recording is made. */
    if (!c->mixer->sink)
        params.timeout_seconds = c->timeout + (c->growing ? c->mixer->max_seconds / 30 : 0);
    if (!input->path) {
        params.input = input->data;
        params.input_size = (size_t)input->size;
    }
    status = vo_process_start(&params, &c->process, err);
    vo_free(url);
    return status;
}

/* What a failed run means for the file: it could not be read, or only its tail is missing. */
static vo_status judge(const child *c, const vo_input *input, const vo_container *container,
                       vo_status decoded, const vo_error *why, vo_error *err) {
    const bool ours = why->status == VO_ERR_LIMIT || why->status == VO_ERR_MEMORY;
    if (c->mixer->seconds > 0 && !decoded && !ours) {
        vo_audio_warn(c->mixer->audio, "it is damaged after %.2f seconds", c->mixer->seconds);
        return VO_OK;
    }
    vo_status status = ours ? why->status : VO_ERR_FORMAT;
    return vo_fail(err, status, "%s is %s and could not be decoded: %s", input->name,
                   container->name, why->message);
}

vo_status vo_ffmpeg_decode(vo_input *input, const vo_container *container,
                           const vo_audio_params *params, vo_mixer *mixer, vo_error *err) {
    if (params->ffmpeg_timeout < 0)
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s is %s, which would need ffmpeg", input->name,
                       container->name);
    if (!vo_process_available("ffmpeg")) return not_installed(input, container, err);
    const bool mp4 = container->kind == VO_CONTAINER_MP4;
    const bool cut = mp4 && vo_mp4_is_cut(input);
    if (mp4 && input->data) vo_mp4_index_first(input->data, input->size);
    child c = {.mixer = mixer, .timeout = params->ffmpeg_timeout};
    c.growing = !(c.timeout > 0);
    if (c.growing) c.timeout = 600;
    vo_status status = start(&c, input, container, err);
    if (status) return status == VO_ERR_NOT_FOUND ? not_installed(input, container, err) : status;

    vo_source source = {child_read, &c, input->name};
    vo_stream stream = {.source = &source, .name = input->name, .size = -1};
    vo_wav_info info;
    vo_error decode_err = {0};
    vo_status decoded = vo_wav_decode(&stream, mixer, &info, &decode_err);
    vo_buf_free(&stream.head);
    vo_status finished = c.err.status;
    if (decoded == VO_ERR_LIMIT || decoded == VO_ERR_MEMORY || decoded == VO_ERR_ARGUMENT ||
        decoded == VO_ERR_ABORTED) {
        status = vo_fail(err, decoded, "%s", decode_err.message);
    } else {
        if (!finished) finished = vo_process_finish(c.process, &c.err);
        /* Without samples the child's own last words say more than ours. */
        if (finished)
            status = judge(&c, input, container, decoded, &c.err, err);
        else if (decoded)
            status = judge(&c, input, container, decoded, &decode_err, err);
    }
    vo_process_destroy(c.process);
    if (status) return status;
    snprintf(mixer->audio->format, sizeof(mixer->audio->format), "ffmpeg%s%s",
             container->demuxer ? " " : "", container->demuxer ? container->demuxer : "");
    if (cut && !finished) vo_audio_warn(mixer->audio, "it ends early");
    return VO_OK;
}
