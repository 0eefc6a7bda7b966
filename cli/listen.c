/* SPDX-License-Identifier: MIT
 *
 * vocis listen: live speech to text, from a microphone or standard input. Text for people, or
 * events as lines of JSON for programs.
 */
#include "names.h"
#include "report.h"
#include "speech.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    speech_options speech;
    vocis_stream_params stream;
    vocis_audio_params audio;
    const char *device;
    bool list_devices, json, json_errors, times, translate;
    float step, max_backlog;
} settings;

#define AT(member) .at = offsetof(settings, member)

static const option options[] = {
    MODEL_OPTIONS(settings),
    {OPTION_GROUP, .help = "Input"},
    {OPTION_TEXT, "device", 'd', "NAME",
     "the microphone: a number of --list-devices or a part of its name; file:PATH plays a file in "
     "real time instead (the system's default)",
     AT(device)},
    {OPTION_FLAG, "list-devices", 0, NULL, "print what can record", AT(list_devices)},
    {OPTION_INT, "channel", 0, "N", "only this channel of -, counted from 0 (a mixture of all)",
     AT(audio.channel), .min = 0, .max = 1023},
    {OPTION_INT, "raw-rate", 0, "HZ", "- is PCM without a header at this rate", AT(audio.raw_rate),
     .min = 1, .max = 768000},
    {OPTION_INT, "raw-channels", 0, "N", "its interleaved channels (1)", AT(audio.raw_channels),
     .min = 1, .max = 1024},
    {OPTION_CHOICE, "raw-format", 0, "FORMAT", "s16le, f32le, s32le or u8 (s16le)",
     AT(audio.raw_format), .choices = "s16le f32le s32le u8"},
    {OPTION_GROUP, .help = "Output"},
    {OPTION_FLAG, "json", 0, NULL, "events, one line of JSON each, as they happen", AT(json)},
    {OPTION_BOOL, "times", 0, NULL, "show when it was said", AT(times)},
    QUIET_OPTION(settings),
    {OPTION_FLAG, "json-errors", 0, NULL,
     "failures and warnings on standard error as lines of JSON", AT(json_errors)},
    {OPTION_GROUP, .help = "What is said"},
    {OPTION_LANGUAGE, "language", 'l', "LANG",
     "code or name, as de or German; auto: detect it until it is sure (auto)",
     AT(stream.transcribe.language)},
    LANGUAGES_OPTION(AT(stream.transcribe.languages)),
    {OPTION_FLAG, "translate", 0, NULL, "translate to English", AT(translate)},
    {OPTION_TEXT, "initial-prompt", 0, "TEXT", "names and style that the model should expect",
     AT(stream.transcribe.initial_prompt), .optional = true},
    {OPTION_BOOL, "condition-on-previous-text", 0, NULL,
     "give the text so far to the next utterance (False)",
     AT(stream.transcribe.condition_on_previous_text)},
    {OPTION_GROUP, .help = "Delay"},
    {OPTION_FLOAT, "step", 0, "SECONDS",
     "new speech after which the text so far is decoded anew; 0: only whole utterances (0.5)",
     AT(step), .min = 0, .max = 30},
    {OPTION_INT, "pause", 0, "MS", "silence that ends an utterance (500)",
     AT(stream.speech.min_silence_ms), .min = 32, .max = 10000},
    {OPTION_INT, "min-speech", 0, "MS", "shorter sounds are noise (200)",
     AT(stream.speech.min_speech_ms), .min = 0, .max = 2000},
    {OPTION_FLOAT, "threshold", 0, "P", "probability from which on a sound is speech (0.5)",
     AT(stream.speech.threshold), .min = 0.01, .max = 1},
    {OPTION_FLOAT, "max-backlog", 0, "SECONDS",
     "sound that may wait when the machine is too slow; older sound is skipped, and it is said "
     "(60)",
     AT(max_backlog), .min = 5, .max = 3600},
    {OPTION_INT, "beam-size", 'b', "N", "beams of final text; 1 is greedy (5)",
     AT(stream.transcribe.beam_size), .min = 1, .max = 64, .optional = true, .none = 1},
    {OPTION_GROUP, .help = "Computing"},
    COMPUTE_OPTIONS(settings),
    {.kind = OPTION_END},
};

static const char notes[] =
    "Text is printed as it becomes final, at pauses; on a terminal, text that may\n"
    "still change is shown behind it. The events of --json are speech_start, partial\n"
    "(\"stable\", which only grows, and \"rest\"), final, speech_end, skipped, device\n"
    "(\"lost\", \"back\"), overrun and end; \"heard\" is how much sound had come in then.\n"
    "\n"
    "Ctrl-C ends listening: what was said until then is finished, and the exit\n"
    "status is 130. A second Ctrl-C stops at once.\n"
    "\n"
    "Exit status: 0 the input has ended, 1 failure, 2 usage, 130 interrupted.\n"
    "\n"
    "Examples:\n"
    "  vocis listen -l en\n"
    "  vocis listen --device usb --json | jq -r 'select(.event==\"final\").text'\n"
    "  arecord -q -t raw -f S16_LE -r 16000 | vocis listen --raw-rate 16000 -\n";

static int run(const verb *v, int argc, char **argv);
const verb verb_listen = {
    .name = "listen",
    .summary = "turn live speech into text",
    .usage = "[options] [-]",
    .about = "Listens to a microphone, or to sound on standard input (-), and prints what is said "
             "while it is said.",
    .notes = notes,
    .options = options,
    .operands = OPERAND_FILES,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};

typedef struct job {
    const verb *v;
    settings set;
    speech speech;
    vocis_stream *stream;
    vocis_capture *capture;
    vocis_capture_stats seen;
    double begin, pushed; /* when listening began, seconds of sound since */
    bool terminal, drawn, ended, failed;
} job;

/* ---- events ---------------------------------------------------------------------------------- */

static void print_json(job *j, json_t *line) {
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(line);
    output_printf("%s\n", (const char *)checked(text));
    output_flush();
    free(text);
}

static double rounded(double seconds) {
    return round(seconds * 1000) / 1000;
}

static json_t *event_json(const char *name, const vocis_event *e) {
    json_t *line = json_pack("{s:s, s:f, s:f, s:f}", "event", name, "start", rounded(e->start),
                             "end", rounded(e->end), "heard", rounded(e->heard));
    if (e->utterance) json_object_set_new(line, "utterance", json_integer(e->utterance));
    return line;
}

/* Text of the model may end within a character. */
static void set_text(json_t *line, const char *name, const char *text) {
    char *clean = clean_line(text);
    json_object_set_new(line, name, json_string(clean));
    free(clean);
}

static void json_event(job *j, const vocis_event *e) {
    static const char *const names[] = {"none",       "speech_start", "partial", "final",
                                        "speech_end", "skipped",      "end"};
    json_t *line = event_json(names[e->kind], e);
    if (e->kind == VOCIS_EVENT_PARTIAL) {
        set_text(line, "stable", e->stable);
        set_text(line, "rest", e->rest);
    } else if (e->segment) {
        const vocis_segment *s = e->segment;
        set_text(line, "text", s->text);
        json_object_set_new(line, "id", json_integer(s->id));
        if (e->language) json_object_set_new(line, "language", json_string(e->language));
        json_object_set_new(line, "temperature", json_real((double)s->temperature));
        json_object_set_new(line, "avg_logprob", json_real((double)s->avg_logprob));
        json_object_set_new(line, "compression_ratio", json_real((double)s->compression_ratio));
        json_object_set_new(line, "no_speech_prob", json_real((double)s->no_speech_prob));
    }
    print_json(j, line);
}

static void clear_partial(job *j) {
    if (j->drawn) output_puts("\r\033[K");
    j->drawn = false;
}

/* One line of the terminal: the end of what does not fit. */
static void draw_partial(job *j, const vocis_event *e) {
    char *stable = clean_line(e->stable), *rest = clean_line(e->rest);
    const size_t width = (size_t)output_width() - 1;
    char *line = format_text("%s%s%s", stable, *stable && *rest ? " " : "", rest);
    const size_t size = strlen(line);
    size_t from = size > width ? size - width : 0;
    while (((unsigned char)line[from] & 0xc0) == 0x80) from++;
    const size_t firm = strlen(stable) > from ? strlen(stable) - from : 0;
    clear_partial(j);
    output_printf("%.*s\033[2m%s\033[0m", (int)firm, line + from, line + from + firm);
    output_flush();
    j->drawn = true;
    free(line);
    free(stable);
    free(rest);
}

static void print_final(job *j, const vocis_event *e) {
    char *text = clean_line(e->segment->text);
    clear_partial(j);
    if (j->set.times)
        output_printf("[%02d:%02d:%05.2f]  %s\n", (int)(e->start / 3600), (int)(e->start / 60) % 60,
                      fmod(e->start, 60), text);
    else
        output_printf("%s\n", text);
    output_flush();
    free(text);
}

static void print_skipped(job *j, const vocis_event *e) {
    char *sentence =
        format_text("%.1f to %.1f s were skipped: this machine is too slow", e->start, e->end);
    clear_partial(j);
    report_warning(NULL, sentence);
    free(sentence);
}

static void take_event(job *j, const vocis_event *e) {
    if (j->set.json) {
        json_event(j, e);
        return;
    }
    if (e->kind == VOCIS_EVENT_PARTIAL && j->terminal) draw_partial(j, e);
    if (e->kind == VOCIS_EVENT_FINAL) print_final(j, e);
    if (e->kind == VOCIS_EVENT_SPEECH_END && j->drawn) {
        clear_partial(j);
        output_flush();
    }
    if (e->kind == VOCIS_EVENT_SKIPPED) print_skipped(j, e);
}

/* All events there are, waiting for the first one. False after a failure. */
static bool take_events(job *j, double seconds) {
    vocis_error err = {0};
    vocis_event event;
    while (!j->ended && !j->failed) {
        const vocis_status status = vocis_stream_next(j->stream, seconds, &event, &err);
        seconds = 0;
        if (status != VOCIS_OK) {
            clear_partial(j);
            report_error("listen", status, err.message);
            j->failed = true;
        } else if (event.kind == VOCIS_EVENT_NONE) {
            break;
        } else {
            take_event(j, &event);
            j->ended = event.kind == VOCIS_EVENT_END;
        }
    }
    return !j->failed && !output_failed();
}

/* ---- sound ----------------------------------------------------------------------------------- */

/* No live source is ahead of the clock. One that is gets held back, or it would be skipped as what
 * the machine cannot keep up with. */
static bool push(void *user, const float *samples, int64_t n) {
    const double ahead = 10;
    job *j = user;
    vocis_error err = {0};
    bool good = take_events(j, 0);
    while (good && !interrupted() && j->pushed > now() - j->begin + ahead)
        good = take_events(j, 0.05);
    if (!good || interrupted()) return false;
    j->pushed += (double)n / VOCIS_SAMPLE_RATE;
    if (vocis_stream_push(j->stream, samples, n, &err) == VOCIS_OK) return true;
    clear_partial(j);
    report_error("listen", err.status, err.message);
    j->failed = true;
    return false;
}

/* Standard input, with events in between. */
static int64_t read_stdin(void *user, void *data, size_t size) {
    job *j = user;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        if (!take_events(j, 0) || interrupted()) return 0;
        const int ready = poll(&input, 1, 20);
        if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
        const ssize_t got = read(STDIN_FILENO, data, size);
        if (got >= 0 || errno != EINTR) return got;
    }
}

static void listen_to_stdin(job *j) {
    vocis_error err = {0};
    vocis_audio audio = {0};
    const vocis_status status =
        vocis_audio_read_stream(read_stdin, j, "stdin", j->set.audio, push, j, &audio, &err);
    if (status == VOCIS_OK && audio.warning[0] && !interrupted()) {
        clear_partial(j);
        report_warning("stdin", audio.warning);
    }
    if (status == VOCIS_OK || status == VOCIS_ERR_ABORTED || interrupted() || j->failed) return;
    report_error("stdin", status, err.message);
    j->failed = true;
}

/* Says once what has changed about the device. */
static void note_device(job *j) {
    const vocis_capture_stats s = vocis_capture_get_stats(j->capture), before = j->seen;
    const bool changed = s.connected != before.connected || s.losses != before.losses;
    const int64_t lost = s.lost_samples - before.lost_samples;
    const int64_t overflows = s.overflows - before.overflows;
    j->seen = s;
    if (changed && j->set.json) {
        print_json(j, json_pack("{s:s, s:s, s:f}", "event", "device", "state",
                                s.connected ? "back" : "lost", "heard", rounded(j->pushed)));
    } else if (changed) {
        clear_partial(j);
        report_warning("device", s.connected ? "it is back" : "it was lost; waiting for it");
    }
    if (lost == 0 && overflows == 0) return;
    if (j->set.json) {
        print_json(j, json_pack("{s:s, s:I, s:I, s:f}", "event", "overrun", "lost_samples",
                                (json_int_t)lost, "overflows", (json_int_t)overflows, "heard",
                                rounded(j->pushed)));
    } else {
        clear_partial(j);
        report_warning("device", "some sound was lost");
    }
}

static void listen_to_device(job *j) {
    enum { BLOCK = 1600 };
    float samples[BLOCK];
    vocis_error err = {0};
    const vocis_status status = vocis_capture_open(j->set.device, &j->capture, &err);
    if (status != VOCIS_OK) {
        report_error(j->set.device ? j->set.device : "microphone", status, err.message);
        j->failed = true;
        return;
    }
    j->seen = vocis_capture_get_stats(j->capture);
    report_note("listening; Ctrl-C ends it");
    for (int64_t n = 0; n >= 0 && take_events(j, 0) && !interrupted();) {
        n = vocis_capture_read(j->capture, samples, BLOCK, 0.02);
        if (n > 0 && !push(j, samples, n)) break;
        note_device(j);
    }
    vocis_capture_close(j->capture);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int list_devices(void) {
    vocis_error err = {0};
    vocis_input_device *devices = NULL;
    int n = 0;
    const vocis_status status = vocis_input_devices(&devices, &n, &err);
    if (status != VOCIS_OK) {
        report_error("devices", status, err.message);
        return EXIT_FAILED;
    }
    for (int i = 0; i < n; i++) {
        char *name = clean_line(devices[i].name);
        output_printf("%3d %c %s (%s, %d channels, %.0f Hz)\n", devices[i].index,
                      devices[i].is_default ? '*' : ' ', name, devices[i].system,
                      devices[i].channels, devices[i].rate);
        free(name);
    }
    vocis_free(devices);
    if (n == 0) report_warning(NULL, "there is no device that records");
    return output_flush() ? EXIT_DONE : EXIT_FAILED;
}

static int check_settings(job *j, const char *const *operands, int n) {
    settings *s = &j->set;
    if (n && strcmp(operands[0], "-") != 0)
        return usage_error(
            j->v,
            "\"%s\" is no live input: it is -, or nothing for a microphone. Files go "
            "to vocis transcribe",
            operands[0]);
    const int status = speech_check_languages(j->v, &s->stream.transcribe);
    if (status >= 0) return status;
    if (n && s->device) return usage_error(j->v, "--device and - exclude each other");
    if (!n && s->audio.raw_rate) return usage_error(j->v, "--raw-rate is for standard input (-)");
    if (!s->audio.raw_rate && (s->audio.raw_channels || s->audio.raw_format))
        return usage_error(j->v, "--raw-channels and --raw-format need --raw-rate");
    if (!s->audio.raw_channels) s->audio.raw_channels = 1;
    if (!s->audio.raw_format) s->audio.raw_format = "s16le";
    if (s->step > 0 && s->step < 0.1f) return usage_error(j->v, "--step is 0, or 0.1 or more");
    if (s->translate) s->stream.transcribe.task = VOCIS_TRANSLATE;
    vocis_speech_params *found = &s->stream.speech;
    if (found->speech_pad_ms > found->min_silence_ms) found->speech_pad_ms = found->min_silence_ms;
    s->stream.step = (double)s->step;
    s->stream.max_backlog = (double)s->max_backlog;
    return -1;
}

static int listen_now(job *j, bool from_stdin) {
    vocis_error err = {0};
    const vocis_status status =
        vocis_stream_create(j->speech.session, j->set.stream, &j->stream, &err);
    if (status != VOCIS_OK) {
        report_error("listen", status, err.message);
        return EXIT_FAILED;
    }
    j->begin = now();
    j->terminal = isatty(STDOUT_FILENO) && !j->set.json;
    if (from_stdin)
        listen_to_stdin(j);
    else
        listen_to_device(j);
    /* Also after Ctrl-C: what was said is finished. */
    vocis_stream_finish(j->stream);
    while (!j->ended && take_events(j, 1)) {}
    clear_partial(j);
    output_flush();
    vocis_stream_destroy(j->stream);
    return j->failed ? EXIT_FAILED : interrupted() ? EXIT_INTERRUPTED : EXIT_DONE;
}

static int run(const verb *v, int argc, char **argv) {
    job *j = checked(calloc(1, sizeof *j));
    const char **operands = checked(calloc((size_t)argc + 1, sizeof *operands));
    int n = 0;
    j->v = v;
    settings *s = &j->set;
    s->stream = vocis_stream_default_params();
    s->step = (float)s->stream.step;
    s->max_backlog = (float)s->stream.max_backlog;
    s->audio = vocis_audio_default_params();
    s->audio.raw_channels = 0;
    s->audio.raw_format = NULL;
    int status = options_parse(v, argc, argv, s, operands, &n);
    report_configure(s->speech.quiet, s->json_errors);
    if (status < 0) status = check_settings(j, operands, n);
    if (status < 0 && s->list_devices) status = list_devices();
    if (status < 0)
        status = speech_open(v, &s->speech,
                             speech_session_params(&s->speech, &s->stream.transcribe), &j->speech);
    if (status < 0) status = listen_now(j, n > 0);
    speech_close(&j->speech);
    free(operands);
    free(j);
    return status;
}
