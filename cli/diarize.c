/* SPDX-License-Identifier: MIT
 *
 * vocis diarize: who speaks when, without what is said, as lines of RTTM or JSON.
 */
#include "names.h"
#include "report.h"
#include "speakers.h"
#include "speech.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    speech_options speech;
    speakers_options speakers;
    vocis_audio_params audio;
    const char *format;
} settings;

#define AT(member) .at = offsetof(settings, member)

static const option options[] = {
    {OPTION_CHOICE, "by", 0, "HOW",
     "channels: a speaker in each; voices: by their sound, in a mixture of all channels; auto: "
     "channels where two of them hold different voices (auto)",
     AT(speakers.how), .choices = "auto channels voices"},
    SPEAKERS_OPTIONS(settings),
    {OPTION_CHOICE, "output-format", 'f', "FORMAT",
     "rttm: lines of NIST's Rich Transcription Time Marked; json: one object for every input, in a "
     "line (rttm)",
     AT(format), .choices = "rttm json"},
    {OPTION_TEXT, "format", 0, "FORMAT", NULL, AT(format)},
    INPUT_OPTIONS(settings),
    ENGINE_OPTIONS(settings),
    QUIET_OPTION(settings),
    {.kind = OPTION_END},
};

static int run(const verb *v, int argc, char **argv);
const verb verb_diarize = {
    .name = "diarize",
    .summary = "find out who speaks when",
    .usage = "[options] FILE... | -",
    .about = "Prints the turns of speakers in audio and video files, or in standard input (-). "
             "Speakers are told apart by the channel that they are in, or by their voices; they "
             "have numbers, not names. `vocis transcribe` can print what they say as well.",
    .notes = "Examples:\n"
             "  vocis diarize meeting.wav > meeting.rttm\n"
             "  vocis diarize --num-speakers 2 -f json interview.mp3\n",
    .options = options,
    .operands = OPERAND_FILES,
    .min_operands = 1,
    .max_operands = -1,
    .run = run,
};

/* A field of RTTM has no blanks in it. */
static void print_rttm(const char *name, const vocis_turn *turns, int n) {
    char *field = format_text("%s", *name ? name : "audio");
    for (char *p = field; *p; p++)
        if (isspace((unsigned char)*p) || iscntrl((unsigned char)*p)) *p = '_';
    for (int i = 0; i < n; i++)
        output_printf("SPEAKER %s 1 %.3f %.3f <NA> <NA> speaker_%d <NA> <NA>\n", field,
                      turns[i].start, turns[i].end - turns[i].start, turns[i].speaker + 1);
    free(field);
}

static void print_json(const char *input, const vocis_turn *turns, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:f, s:f, s:i}", "start", turns[i].start, "end",
                                              turns[i].end, "speaker", turns[i].speaker));
    json_t *o = json_pack("{s:o*, s:o}", "file", json_string(input), "turns", list);
    char *text = checked(o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(8)) : NULL);
    output_printf("%s\n", text);
    free(text);
    json_decref(o);
}

static void on_progress(void *user, double done, double total) {
    progress_draw(user, total > 0 ? done / total : 0, "");
}

static bool diarize(const settings *s, vocis_engine *engine, const char *path, const char *name) {
    vocis_error err = {0};
    vocis_audio channels[MOST_CHANNELS] = {0};
    vocis_turn *turns = NULL;
    int n = 0, n_turns = 0;
    const char *shown = strcmp(path, "-") == 0 ? "stdin" : path;
    vocis_diarize_params params = speakers_params(&s->speakers);
    params.on_progress = on_progress;
    params.user = (void *)shown;
    vocis_status status =
        speakers_load(engine, path, s->audio, s->speakers.how, channels, &n, &err);
    if (status == VOCIS_OK && channels[0].warning[0]) report_warning(shown, channels[0].warning);
    if (status == VOCIS_OK && n > 1)
        status = vocis_channels_diarize(engine, channels, n, &turns, &n_turns, &err);
    else if (status == VOCIS_OK)
        status = vocis_diarize(engine, channels[0].samples, channels[0].n_samples, params, &turns,
                               &n_turns, &err);
    speakers_free(channels, n);
    progress_clear();
    if (status != VOCIS_OK && !interrupted()) report_error(shown, status, err.message);
    if (status == VOCIS_OK && strcmp(s->format, "json") == 0) print_json(shown, turns, n_turns);
    if (status == VOCIS_OK && strcmp(s->format, "json") != 0) print_rttm(name, turns, n_turns);
    vocis_free(turns);
    return output_flush() && status == VOCIS_OK;
}

static int run(const verb *v, int argc, char **argv) {
    vocis_error err = {0};
    vocis_engine *engine = NULL;
    const char **inputs = checked(calloc((size_t)argc + 1, sizeof *inputs));
    int n = 0, failed = 0;
    settings s = {.audio = vocis_audio_default_params(), .format = "rttm"};
    s.speakers.how = "auto";
    s.audio.raw_channels = 0;
    s.audio.raw_format = NULL;
    int status = options_parse(v, argc, argv, &s, inputs, &n);
    report_configure(s.speech.quiet, false);
    if (status < 0) status = speakers_check(v, &s.speakers);
    if (status < 0) status = speech_check_input(v, &s.audio);
    if (status < 0) {
        vocis_engine_params params = vocis_engine_default_params();
        params.threads = s.speech.threads;
        params.cpu = s.speech.cpu;
        params.log = report_log;
        if (vocis_engine_create(params, &engine, &err) != VOCIS_OK)
            status = usage_error(v, "%s", err.message);
    }
    if (status < 0) {
        char **names = names_of_documents(inputs, n);
        for (int i = 0; i < n && !interrupted() && !output_failed(); i++)
            failed += !diarize(&s, engine, inputs[i], names[i]);
        for (int i = 0; i < n; i++) free(names[i]);
        free(names);
        status = interrupted() ? EXIT_INTERRUPTED : failed ? EXIT_FAILED : EXIT_DONE;
    }
    vocis_engine_destroy(engine);
    free(inputs);
    return status;
}
