/* SPDX-License-Identifier: MIT
 *
 * A microphone: prints what is said while it is said.
 *
 *     cc microphone.c -o microphone $(pkg-config --cflags --libs vocis)
 *     ./microphone [model] [device]
 */
#include <stdio.h>
#include <vocis.h>

static void print(const vocis_event *event) {
    if (event->kind == VOCIS_EVENT_PARTIAL) printf("\r\033[K%s|%s", event->stable, event->rest);
    if (event->kind == VOCIS_EVENT_FINAL) printf("\r\033[K%s\n", event->segment->text);
    if (event->kind == VOCIS_EVENT_SKIPPED)
        printf("\r\033[K(%.1f s skipped)\n", event->end - event->start);
    fflush(stdout);
}

static void listen(vocis_stream *stream, vocis_capture *microphone, vocis_error *err) {
    float samples[1600];
    vocis_event event = {0};
    for (int64_t n = 0; n >= 0 && err->status == VOCIS_OK;) {
        n = vocis_capture_read(microphone, samples, 1600, 0.05);
        if (n > 0) vocis_stream_push(stream, samples, n, err);
        while (vocis_stream_next(stream, 0, &event, err) == VOCIS_OK && event.kind) print(&event);
    }
    vocis_stream_finish(stream);
    while (event.kind != VOCIS_EVENT_END && vocis_stream_next(stream, 1, &event, err) == VOCIS_OK)
        print(&event);
}

int main(int argc, char **argv) {
    vocis_error err = {0};
    vocis_engine *engine = NULL;
    vocis_model *model = NULL;
    vocis_session *session = NULL;
    vocis_stream *stream = NULL;
    vocis_capture *microphone = NULL;
    const char *name = argc > 1 ? argv[1] : "base", *device = argc > 2 ? argv[2] : NULL;

    if (vocis_engine_create(vocis_engine_default_params(), &engine, &err) == VOCIS_OK &&
        vocis_model_open(engine, name, vocis_model_default_params(), &model, &err) == VOCIS_OK &&
        vocis_session_create(model, vocis_session_default_params(), &session, &err) == VOCIS_OK &&
        vocis_stream_create(session, vocis_stream_default_params(), &stream, &err) == VOCIS_OK &&
        vocis_capture_open(device, &microphone, &err) == VOCIS_OK)
        listen(stream, microphone, &err);

    if (err.status != VOCIS_OK) fprintf(stderr, "%s\n", err.message);
    vocis_capture_close(microphone);
    vocis_stream_destroy(stream);
    vocis_session_destroy(session);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
    return err.status == VOCIS_OK ? 0 : 1;
}
