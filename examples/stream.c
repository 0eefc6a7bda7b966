/* SPDX-License-Identifier: MIT
 *
 * A stream: prints what is said in a file or on standard input of any length, in constant memory.
 *
 *     cc stream.c -o stream $(pkg-config --cflags --libs vocis)
 *     ./stream speech.wav [model]
 *     ffmpeg -v error -i URL -f wav - | ./stream - [model]
 */
#include <stdio.h>
#include <string.h>
#include <vocis.h>

/* Prints finals until there is nothing to take, or to the end. */
static bool print_events(vocis_stream *stream, bool to_end, vocis_error *err) {
    vocis_event event;
    do {
        if (vocis_stream_next(stream, to_end ? 1 : 0, &event, err) != VOCIS_OK) return false;
        if (event.segment) {
            printf("[%8.2f] %s\n", event.start, event.segment->text);
            fflush(stdout);
        }
    } while (event.kind != VOCIS_EVENT_END && (to_end || event.kind != VOCIS_EVENT_NONE));
    return true;
}

typedef struct listener {
    vocis_stream *stream;
    vocis_error *err;
} listener;

/* Samples as they are decoded. */
static bool take(void *user, const float *samples, int64_t n) {
    const listener *l = user;
    return vocis_stream_push(l->stream, samples, n, l->err) == VOCIS_OK &&
           print_events(l->stream, false, l->err);
}

static int64_t read_stdin(void *user, void *data, size_t size) {
    const size_t got = fread(data, 1, size, stdin);
    return got == 0 && ferror(stdin) ? -1 : (int64_t)got;
}

int main(int argc, char **argv) {
    vocis_error err = {0};
    vocis_engine *engine = NULL;
    vocis_model *model = NULL;
    vocis_session *session = NULL;
    vocis_stream *stream = NULL;
    vocis_audio audio;
    if (argc < 2) return fprintf(stderr, "usage: %s FILE|- [MODEL]\n", argv[0]), 2;
    const char *name = argc > 2 ? argv[2] : "base";

    vocis_stream_params params = vocis_stream_default_params();
    params.live = false; /* push waits; nothing is skipped */
    params.speech.min_silence_ms = 2000;
    if (vocis_engine_create(vocis_engine_default_params(), &engine, &err) == VOCIS_OK &&
        vocis_model_open(engine, name, vocis_model_default_params(), &model, &err) == VOCIS_OK &&
        vocis_session_create(model, vocis_session_default_params(), &session, &err) == VOCIS_OK &&
        vocis_stream_create(session, params, &stream, &err) == VOCIS_OK) {
        const vocis_audio_params reading = vocis_audio_default_params();
        listener l = {stream, &err};
        if (strcmp(argv[1], "-") == 0)
            vocis_audio_read_stream(read_stdin, NULL, "stdin", reading, take, &l, &audio, &err);
        else
            vocis_audio_read(argv[1], reading, take, &l, &audio, &err);
        vocis_stream_finish(stream);
        if (err.status == VOCIS_OK) print_events(stream, true, &err);
    }

    if (err.status != VOCIS_OK) fprintf(stderr, "%s\n", err.message);
    vocis_stream_destroy(stream);
    vocis_session_destroy(session);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
    return err.status == VOCIS_OK ? 0 : 1;
}
