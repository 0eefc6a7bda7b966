/* SPDX-License-Identifier: MIT
 *
 * Samples are pushed into a stream as they are decoded, and wait where it has no room for them.
 */
#include "stream.h"

#include "speech.h"

#include <string.h>

typedef struct job {
    vocis_stream *stream;
    vocis_transcribe_params params;
    vocis_error *err;
    bool ended;
} job;

/* False after a failure, or when somebody wants to stop. */
static bool take_events(job *j, double seconds) {
    vocis_event event;
    do {
        if (j->params.on_abort && j->params.on_abort(j->params.user)) return false;
        if (vocis_stream_next(j->stream, seconds, &event, j->err) != VOCIS_OK) return false;
        if (event.segment && j->params.on_segment)
            j->params.on_segment(j->params.user, event.segment);
        j->ended = event.kind == VOCIS_EVENT_END;
    } while (event.kind != VOCIS_EVENT_NONE && !j->ended);
    return true;
}

static bool push(void *user, const float *samples, int64_t n) {
    enum { PIECE = VOCIS_SAMPLE_RATE };
    job *j = user;
    for (int64_t done = 0; done < n; done += PIECE) {
        const int64_t piece = n - done < PIECE ? n - done : PIECE;
        if (!take_events(j, 0)) return false;
        if (vocis_stream_push(j->stream, samples + done, piece, j->err) != VOCIS_OK) return false;
    }
    return true;
}

vocis_status stream_transcribe(vocis_session *session, const char *path, vocis_audio_params audio,
                               vocis_transcribe_params params, vocis_audio *read,
                               vocis_error *err) {
    enum { PAUSE_MS = 2000 }; /* long, as every utterance costs a window of the encoder */
    vocis_stream_params stream = vocis_stream_default_params();
    job j = {.params = params, .err = err};
    stream.transcribe = params;
    stream.speech.min_silence_ms = PAUSE_MS;
    stream.live = false;
    vocis_status status = vocis_stream_create(session, stream, &j.stream, err);
    if (status == VOCIS_OK && strcmp(path, "-") == 0)
        status =
            vocis_audio_read_stream(speech_read_stdin, NULL, "stdin", audio, push, &j, read, err);
    else if (status == VOCIS_OK)
        status = vocis_audio_read(path, audio, push, &j, read, err);
    if (status == VOCIS_OK) {
        vocis_stream_finish(j.stream);
        while (!j.ended && take_events(&j, 0.2)) {}
        if (!j.ended) status = err->status != VOCIS_OK ? err->status : VOCIS_ERR_ABORTED;
    }
    vocis_stream_destroy(j.stream);
    return status;
}
