/* SPDX-License-Identifier: MIT
 *
 * Opening an engine, a model and a session, and loading one input.
 */
#include "speech.h"

#include "report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

const char *speech_model_name(const speech_options *o) {
    return o->model ? o->model : "base";
}

vocis_model_params speech_model_params(const speech_options *o) {
    vocis_model_params p = vocis_model_default_params();
    p.cache_dir = o->cache_dir;
    p.offline = o->offline;
    p.progress = progress_download;
    p.compute = o->compute;
    return p;
}

/* Most sequences of one window; what the temperatures never use is set to 1. */
static int sequences(vocis_transcribe_params *p) {
    bool samples =
        p->temperature > 0 || (p->temperature_increment > 0 && p->temperature_increment <= 1.0f);
    if (!samples) p->best_of = 1;
    if (p->temperature > 0) p->beam_size = 1;
    return p->beam_size > p->best_of ? p->beam_size : p->best_of;
}

static vocis_speculation speculation(const speech_options *o) {
    const char *how = o->speculate ? o->speculate : o->draft ? "auto" : "off";
    if (strcmp(how, "ngram") == 0) return VOCIS_SPECULATE_NGRAM;
    if (strcmp(how, "draft") == 0) return VOCIS_SPECULATE_DRAFT;
    return strcmp(how, "auto") == 0 ? VOCIS_SPECULATE_AUTO : VOCIS_SPECULATE_OFF;
}

int speech_check_speculation(const verb *v, const speech_options *o,
                             const vocis_transcribe_params *p) {
    const vocis_speculation how = speculation(o);
    const bool drafts = how == VOCIS_SPECULATE_DRAFT || how == VOCIS_SPECULATE_AUTO;
    if (how == VOCIS_SPECULATE_DRAFT && !o->draft)
        return usage_error(v, "--speculate draft needs --draft NAME");
    if ((o->draft && !drafts) || (o->draft_compute && !o->draft))
        return usage_error(v, "%s does nothing without %s",
                           o->draft ? "--draft" : "--draft-compute",
                           o->draft ? "--speculate draft or auto" : "--draft NAME");
    if (how != VOCIS_SPECULATE_OFF && (p->temperature > 0 ? p->best_of : p->beam_size) > 1)
        return usage_error(v, "--speculate and --draft need %s: several sequences take plain steps",
                           p->temperature > 0 ? "--best-of 1" : "--beam-size 1");
    return -1;
}

vocis_session_params speech_session_params(const speech_options *o, vocis_transcribe_params *p) {
    enum { BATCH = 8 };
    vocis_session_params session = vocis_session_default_params();
    session.max_sequences = sequences(p);
    if (o->chunking && strcmp(o->chunking, "none") == 0) p->recover = p->guard = false;
    session.speculate = speculation(o);
    if (o->chunking && strcmp(o->chunking, "vad") == 0) {
        p->chunking = VOCIS_CHUNK_SPEECH;
        session.max_windows = o->batch_size ? o->batch_size : BATCH;
    }
    return session;
}

static vocis_status open_draft(const speech_options *o, speech *s, vocis_error *err) {
    vocis_model_params p = speech_model_params(o);
    p.compute = o->draft_compute ? o->draft_compute : "int8";
    return vocis_model_open(s->engine, o->draft, p, &s->draft, err);
}

int speech_open(const verb *v, const speech_options *o, vocis_session_params session, speech *s) {
    vocis_error err = {0};
    vocis_engine_params engine = vocis_engine_default_params();
    *s = (speech){0};
    engine.threads = o->threads;
    engine.cpu = o->cpu;
    engine.log = report_log;
    vocis_status status = vocis_engine_create(engine, &s->engine, &err);
    if (status == VOCIS_ERR_ARGUMENT) return usage_error(v, "%s", err.message);
    if (status == VOCIS_OK)
        status = vocis_model_open(s->engine, speech_model_name(o), speech_model_params(o),
                                  &s->model, &err);
    if (status == VOCIS_OK && o->draft) {
        status = open_draft(o, s, &err);
        session.draft = s->draft;
    }
    if (status == VOCIS_OK) status = vocis_session_create(s->model, session, &s->session, &err);
    progress_clear();
    if (status == VOCIS_OK) {
        report_note("model %s in %s, %d threads, %s", speech_model_name(o),
                    vocis_model_compute(s->model), vocis_engine_threads(s->engine),
                    vocis_engine_cpu(s->engine));
        return -1;
    }
    speech_close(s);
    if (interrupted()) return EXIT_INTERRUPTED;
    report_error(speech_model_name(o), status, err.message);
    return EXIT_FAILED;
}

void speech_close(speech *s) {
    vocis_session_destroy(s->session);
    vocis_model_destroy(s->draft);
    vocis_model_destroy(s->model);
    vocis_engine_destroy(s->engine);
    *s = (speech){0};
}

int speech_check_input(const verb *v, vocis_audio_params *audio) {
    if (!audio->raw_rate && (audio->raw_channels || audio->raw_format))
        return usage_error(v, "--raw-channels and --raw-format need --raw-rate");
    if (!audio->raw_channels) audio->raw_channels = 1;
    if (!audio->raw_format) audio->raw_format = "s16le";
    return -1;
}

int64_t speech_read_stdin(void *user, void *data, size_t size) {
    for (;;) {
        ssize_t n = read(STDIN_FILENO, data, size);
        if (n >= 0) return n;
        if (errno != EINTR || interrupted()) return -1;
    }
}

vocis_status speech_load(const char *path, vocis_audio_params params, vocis_audio *audio,
                         vocis_error *err) {
    if (strcmp(path, "-") == 0)
        return vocis_audio_load_stream(speech_read_stdin, NULL, "stdin", params, audio, err);
    return vocis_audio_load(path, params, audio, err);
}

int speech_check_languages(const verb *v, const vocis_transcribe_params *p) {
    if (!p->language || !p->languages) return -1;
    return usage_error(v, "--language says what is spoken, --languages what may be: not both");
}
