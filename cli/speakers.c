/* SPDX-License-Identifier: MIT
 *
 * Channels are loaded one by one, each by reading the input again; what can be read only once is
 * kept for that.
 */
#include "speakers.h"

#include "report.h"
#include "speech.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int speakers_check(const verb *v, const speakers_options *o) {
    const bool counted = o->speakers || o->min_speakers || o->max_speakers;
    if (!o->how && counted)
        return usage_error(v, "--num-speakers, --min-speakers and --max-speakers need --diarize");
    if (o->how && strcmp(o->how, "channels") == 0 && counted)
        return usage_error(v, "the channels say how many speakers there are");
    if (o->speakers && (o->min_speakers || o->max_speakers))
        return usage_error(v, "--num-speakers goes without --min-speakers and --max-speakers");
    if (o->max_speakers && o->min_speakers > o->max_speakers)
        return usage_error(v, "--min-speakers is more than --max-speakers");
    return -1;
}

static bool on_abort(void *user) {
    return interrupted();
}

vocis_diarize_params speakers_params(const speakers_options *o) {
    vocis_diarize_params p = vocis_diarize_default_params();
    p.min_speakers = o->speakers ? o->speakers : o->min_speakers;
    p.max_speakers = o->speakers ? o->speakers : o->max_speakers;
    p.on_abort = on_abort;
    return p;
}

/* An input that can be read again. */
typedef struct input {
    const char *path;
    char *bytes; /* of standard input and pipes */
    size_t size, at;
} input;

static int64_t read_again(void *user, void *data, size_t size) {
    input *in = user;
    const size_t n = in->size - in->at < size ? in->size - in->at : size;
    memcpy(data, in->bytes + in->at, n);
    in->at += n;
    return (int64_t)n;
}

static vocis_status load(input *in, vocis_audio_params params, int channel, vocis_audio *audio,
                         vocis_error *err) {
    if (channel >= 0) params.channel = channel;
    if (!in->bytes) return speech_load(in->path, params, audio, err);
    in->at = 0;
    const char *name = strcmp(in->path, "-") == 0 ? "stdin" : in->path;
    return vocis_audio_load_stream(read_again, in, name, params, audio, err);
}

static bool reads_once(const char *path) {
    struct stat s;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

void speakers_free(vocis_audio *channels, int n) {
    for (int i = 0; i < n; i++) vocis_audio_free(&channels[i]);
}

/* The first channel is loaded. */
static vocis_status load_others(input *in, vocis_audio_params params, vocis_audio *channels, int *n,
                                vocis_error *err) {
    const int count = channels[0].source_channels;
    vocis_status status = VOCIS_OK;
    for (int c = 1; c < count && status == VOCIS_OK; c++) {
        status = load(in, params, c, &channels[c], err);
        if (status == VOCIS_OK) *n = c + 1;
    }
    return status;
}

static vocis_status refuse(vocis_error *err, const char *sentence) {
    err->status = VOCIS_ERR_ARGUMENT;
    strncpy(err->message, sentence, sizeof err->message - 1);
    return err->status;
}

static vocis_status load_channels(vocis_engine *engine, input *in, vocis_audio_params params,
                                  const char *how, vocis_audio *channels, int *n,
                                  vocis_error *err) {
    const bool must = strcmp(how, "channels") == 0;
    bool separate = must;
    if (strcmp(how, "voices") == 0 || (params.channel >= 0 && !must)) {
        *n = 1;
        return load(in, params, -1, &channels[0], err);
    }
    if (must && params.channel >= 0)
        return refuse(err, "one channel cannot be told apart by channels");
    vocis_status status = load(in, params, 0, &channels[0], err);
    if (status != VOCIS_OK) return status;
    *n = 1;
    const int count = channels[0].source_channels;
    if (must && count < 2) return refuse(err, "it has one channel only: tell voices apart");
    if (must && count > MOST_CHANNELS) return refuse(err, "it has too many channels");
    if (!must && count == 1) return VOCIS_OK;
    if (must || count == 2) status = load_others(in, params, channels, n, err);
    if (status == VOCIS_OK && !must && count == 2)
        status = vocis_channels_separate(engine, channels, &separate, err);
    if (status != VOCIS_OK || separate) return status;
    speakers_free(channels, *n);
    *n = 1;
    return load(in, params, -1, &channels[0], err);
}

vocis_status speakers_load(vocis_engine *engine, const char *path, vocis_audio_params params,
                           const char *how, vocis_audio *channels, int *n, vocis_error *err) {
    input in = {.path = path};
    *n = 0;
    if (strcmp(how, "voices") != 0 && reads_once(path)) {
        in.bytes = file_read_all(path, &in.size);
        if (!in.bytes) return refuse(err, "it cannot be read as a whole");
    }
    vocis_status status = load_channels(engine, &in, params, how, channels, n, err);
    free(in.bytes);
    if (status != VOCIS_OK) {
        speakers_free(channels, *n);
        *n = 0;
    }
    return status;
}
