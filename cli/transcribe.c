/* SPDX-License-Identifier: MIT
 *
 * vocis transcribe: options of the `whisper` command to text on standard output or documents in
 * a folder. Inputs are independent: one that fails is named and the others go on.
 */
#include "names.h"
#include "report.h"
#include "speech.h"
#include "stream.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FORMATS = 7, MAX_CLIPS = 4096 };
static const char all_formats[] = "txt srt vtt tsv json csv lrc";

typedef struct settings {
    speech_options speech;
    vocis_transcribe_params params;
    vocis_audio_params audio;
    const char *task, *clips, *device, *formats, *output_dir;
    bool translate, no_fallback, verbose, json_errors, fp16, stream;
} settings;

#define AT(member) .at = offsetof(settings, member)

static const option options[] = {
    MODEL_OPTIONS(settings),
    {OPTION_GROUP, .help = "Output"},
    {OPTION_TEXT, "output-format", 'f', "FORMAT",
     "txt, srt, vtt, tsv, json, csv, lrc, several with commas, or all. One format without "
     "--output-dir goes to standard output (txt)",
     AT(formats), .choices = "txt srt vtt tsv json csv lrc all"},
    {OPTION_TEXT, "format", 0, "FORMAT", NULL, AT(formats)},
    {OPTION_TEXT, "output-dir", 'o', "DIR",
     "write DIR/STEM.FORMAT for every input; made when missing", AT(output_dir)},
    {OPTION_BOOL, "verbose", 'v', NULL, "show the times of segments while they are found",
     AT(verbose)},
    QUIET_OPTION(settings),
    {OPTION_FLAG, "json-errors", 0, NULL,
     "failures and warnings on standard error as lines of JSON", AT(json_errors)},
    {OPTION_GROUP, .help = "What is said"},
    {OPTION_LANGUAGE, "language", 'l', "LANG",
     "code or name, as de or German; auto: detect from the first 30 s (auto)", AT(params.language)},
    {OPTION_CHOICE, "task", 0, "TASK", "transcribe, or translate to English (transcribe)", AT(task),
     .choices = "transcribe translate"},
    {OPTION_FLAG, "translate", 0, NULL, "the same as --task translate", AT(translate)},
    {OPTION_TEXT, "initial-prompt", 0, "TEXT",
     "text before the first window: names and style that the model should expect",
     AT(params.initial_prompt), .optional = true},
    {OPTION_BOOL, "carry-initial-prompt", 0, NULL, "repeat it before every window (False)",
     AT(params.carry_initial_prompt)},
    {OPTION_TEXT, "prefix", 0, "TEXT", "forced beginning of every window's text", AT(params.prefix),
     .optional = true},
    {OPTION_BOOL, "condition-on-previous-text", 0, NULL,
     "give the text so far to the next window (True)", AT(params.condition_on_previous_text)},
    {OPTION_TEXT, "clip-timestamps", 0, "TIMES",
     "start,end,start,end,... in seconds: transcribe these parts only (0)", AT(clips)},
    {OPTION_BOOL, "without-timestamps", 0, NULL, "decode without times (False)",
     AT(params.without_timestamps)},
    {OPTION_GROUP, .help = "Decoding"},
    CHUNKING_OPTIONS(settings),
    {OPTION_INT, "beam-size", 'b', "N", "beams at temperature 0; 1 is greedy (5)",
     AT(params.beam_size), .min = 1, .max = 64, .optional = true, .none = 1},
    {OPTION_INT, "best-of", 0, "N", "samples at temperatures above 0 (5)", AT(params.best_of),
     .min = 1, .max = 64, .optional = true, .none = 1},
    {OPTION_FLOAT, "patience", 0, "X", "of beam search; 1 is the usual one (1)",
     AT(params.patience), .min = 1e-3, .max = 100, .optional = true, .none = 1},
    {OPTION_FLOAT, "length-penalty", 0, "X",
     "alpha of the length penalty; None: plain average (None)", AT(params.length_penalty), .min = 0,
     .max = 1, .optional = true, .none = NAN},
    {OPTION_FLOAT, "temperature", 0, "X", "the first temperature (0)", AT(params.temperature),
     .min = 0, .max = 100},
    {OPTION_FLOAT, "temperature-increment-on-fallback", 0, "X",
     "step to the next temperature, up to 1, when a window fails a threshold; None or 0: never "
     "(0.2)",
     AT(params.temperature_increment), .min = 0, .max = 100, .optional = true, .none = 0},
    {OPTION_FLAG, "no-fallback", 0, NULL, "keep the first temperature", AT(no_fallback)},
    {OPTION_FLOAT, "compression-ratio-threshold", 0, "X",
     "a window that compresses better repeats itself: it fails (2.4)",
     AT(params.compression_ratio_threshold), .min = -1e9, .max = 1e9, .optional = true,
     .none = NAN},
    {OPTION_FLOAT, "logprob-threshold", 0, "X",
     "a window whose average log-probability is lower fails (-1)", AT(params.logprob_threshold),
     .min = -1e9, .max = 1e9, .optional = true, .none = NAN},
    {OPTION_FLOAT, "no-speech-threshold", 0, "X",
     "silence, when nobody speaks with more than this probability and the window fails the one "
     "above (0.6)",
     AT(params.no_speech_threshold), .min = -1e9, .max = 1e9, .optional = true, .none = NAN},
    {OPTION_TEXT, "suppress-tokens", 0, "IDS",
     "token ids never to write, with commas; -1: symbols that nobody speaks (-1)",
     AT(params.suppress_tokens)},
    {OPTION_INT, "max-tokens", 0, "N", "most tokens of a window; 0: half the text context (0)",
     AT(params.max_tokens), .min = 0, .max = 100000},
    {OPTION_SEED, "seed", 0, "N", "of the random numbers of sampling (0)", AT(params.seed)},
    {OPTION_GROUP, .help = "Input"},
    {OPTION_FLAG, "stream", 0, NULL,
     "for inputs of any length: memory does not grow with them. They are cut at pauses, loudness "
     "is "
     "judged by parts of up to 30 s, and text is all that is written",
     AT(stream)},
    {OPTION_INT, "channel", 0, "N", "only this channel, counted from 0 (a mixture of all)",
     AT(audio.channel), .min = 0, .max = 1023},
    {OPTION_INT, "raw-rate", 0, "HZ", "inputs are PCM without a header at this rate",
     AT(audio.raw_rate), .min = 1, .max = 768000},
    {OPTION_INT, "raw-channels", 0, "N", "their interleaved channels (1)", AT(audio.raw_channels),
     .min = 1, .max = 1024},
    {OPTION_CHOICE, "raw-format", 0, "FORMAT", "s16le, f32le, s32le or u8 (s16le)",
     AT(audio.raw_format), .choices = "s16le f32le s32le u8"},
    {OPTION_GROUP, .help = "Computing"},
    COMPUTE_OPTIONS(settings),
    {OPTION_CHOICE, "device", 0, "DEVICE", "cpu; nothing else is supported yet (cpu)", AT(device),
     .choices = "cpu"},
    {OPTION_BOOL, "fp16", 0, NULL, NULL, AT(fp16)},
#define LATER(name, value)                                                                         \
    { OPTION_LATER, name, 0, "VALUE", "", .choices = value }
    LATER("word-timestamps", "False"),
    LATER("prepend-punctuations", "\"'\xe2\x80\x9c\xc2\xbf([{-"),
    LATER("append-punctuations",
          "\"'.\xe3\x80\x82,\xef\xbc\x8c!\xef\xbc\x81?\xef\xbc\x9f:\xef\xbc\x9a\xe2\x80\x9d)]}"
          "\xe3\x80\x81"),
    LATER("highlight-words", "False"),
    LATER("max-line-width", "None"),
    LATER("max-line-count", "None"),
    LATER("max-words-per-line", "None"),
    LATER("hallucination-silence-threshold", "None"),
#undef LATER
    {.kind = OPTION_END},
};

static const char notes[] =
    "Names: the stem of an input is its file name without the last extension, and\n"
    "\"stdin\" for -. When two inputs have one stem, the later ones become STEM-2,\n"
    "STEM-3, ... in the order of the command line.\n"
    "\n"
    "Exit status: 0 all done, 1 some inputs failed (each is named), 2 usage,\n"
    "130 interrupted; what was done until then is written.\n"
    "\n"
    "Examples:\n"
    "  vocis transcribe talk.mp3\n"
    "  vocis transcribe -m small -l de -f srt,json -o out *.wav\n"
    "  ffmpeg -i film.mkv -f wav - | vocis transcribe -f vtt -\n"
    "  arecord -t raw -f S16_LE -r 16000 -d 10 | vocis transcribe --raw-rate 16000 -\n";

static int run(const verb *v, int argc, char **argv);
const verb verb_transcribe = {
    .name = "transcribe",
    .summary = "turn speech into text",
    .usage = "[options] FILE... | -",
    .about = "Turns the speech of audio and video files, or of standard input (-), into text with "
             "a Whisper model. The options of the whisper command work unchanged, with hyphens "
             "or underscores.",
    .notes = notes,
    .options = options,
    .operands = OPERAND_FILES,
    .min_operands = 1,
    .max_operands = -1,
    .run = run,
};

/* ---- settings ------------------------------------------------------------------------------- */

typedef struct job {
    const verb *v;
    settings set;
    speech speech;
    const char **inputs;
    int n_inputs;
    char **stems; /* of documents, when they go to a folder */
    const char *formats[MAX_FORMATS];
    int n_formats;
    double clips[MAX_CLIPS];
    const char *input; /* the current one, as it is named in messages */
    double begin;
    int failed;
} job;

static int read_formats(job *j, const char *text) {
    static const char *const known[] = {"txt", "srt", "vtt", "tsv", "json", "csv", "lrc"};
    while (*text) {
        size_t length = strcspn(text, ", "), i = 0;
        bool all = length == 3 && strncmp(text, "all", 3) == 0, found = all;
        for (; i < MAX_FORMATS; i++) {
            bool same = strlen(known[i]) == length && strncmp(known[i], text, length) == 0;
            bool have = false;
            for (int k = 0; k < j->n_formats; k++) have |= j->formats[k] == known[i];
            if ((same || all) && !have) j->formats[j->n_formats++] = known[i];
            found |= same;
        }
        if (!found) {
            char near[64], word[64];
            snprintf(word, sizeof word, "%.*s", (int)length, text);
            nearest_word(all_formats, word, near, sizeof near);
            return usage_error(j->v, "the format \"%s\" is none of %s, all%s%s%s", word,
                               all_formats, near[0] ? ": did you mean \"" : "", near,
                               near[0] ? "\"?" : "");
        }
        text += length + strspn(text + length, ", ");
    }
    return j->n_formats ? -1 : usage_error(j->v, "--output-format names no format");
}

static int read_clips(job *j, const char *text) {
    int n = 0;
    for (char *end; *text; text = end) {
        double value = strtod(text, &end);
        bool good = end != text && isfinite(value) && value >= 0 && (*end == ',' || *end == '\0');
        if (!good || n == MAX_CLIPS)
            return usage_error(j->v,
                               "--clip-timestamps takes up to %d seconds with commas: "
                               "start,end,start,end,...",
                               MAX_CLIPS);
        j->clips[n++] = value;
        if (*end == ',') end++;
    }
    for (int i = 1; i < n; i += 2)
        if (j->clips[i] <= j->clips[i - 1])
            return usage_error(j->v, "--clip-timestamps: a part must end after it starts");
    j->set.params.clip_timestamps = j->clips;
    j->set.params.n_clip_timestamps = n;
    return -1;
}

static int check_suppressed(const job *j) {
    const char *text = j->set.params.suppress_tokens;
    for (char *end; *text; text = end) {
        errno = 0;
        long value = strtol(text, &end, 10);
        if (end == text || errno || value < -1 || (*end != ',' && *end != '\0'))
            return usage_error(j->v, "--suppress-tokens takes token ids with commas, or -1");
        if (*end == ',') end++;
    }
    return -1;
}

/* What no single option can say about itself. */
static int check_settings(job *j) {
    settings *s = &j->set;
    int stdins = 0, status = check_suppressed(j);
    for (int i = 0; i < j->n_inputs; i++) stdins += strcmp(j->inputs[i], "-") == 0;
    if (status < 0 && s->clips) status = read_clips(j, s->clips);
    if (status < 0 && s->formats) status = read_formats(j, s->formats);
    if (status >= 0) return status;
    if (stdins > 1) return usage_error(j->v, "standard input (-) can be read only once");
    if (!s->audio.raw_rate && (s->audio.raw_channels || s->audio.raw_format))
        return usage_error(j->v, "--raw-channels and --raw-format need --raw-rate");
    if (!s->audio.raw_channels) s->audio.raw_channels = 1;
    if (!s->audio.raw_format) s->audio.raw_format = "s16le";
    if (j->n_formats > 1 && !s->output_dir) s->output_dir = ".";
    if (s->output_dir && !j->n_formats) j->formats[j->n_formats++] = "txt";
    if (!s->output_dir && j->n_inputs > 1 && j->n_formats && strcmp(j->formats[0], "txt") != 0)
        return usage_error(j->v, "%s of several inputs needs a folder: add --output-dir DIR",
                           j->formats[0]);
    if (s->stream && (s->output_dir || s->clips || s->speech.chunking ||
                      (j->n_formats && strcmp(j->formats[0], "txt") != 0)))
        return usage_error(j->v, "--stream writes text to standard output: no --output-dir, "
                                 "--clip-timestamps, --chunking or format but txt");
    if (s->translate || strcmp(s->task, "translate") == 0) s->params.task = VOCIS_TRANSLATE;
    if (s->no_fallback) s->params.temperature_increment = 0;
    return -1;
}

/* ---- one input ------------------------------------------------------------------------------ */

/* No document goes to standard output: segments are printed there as they are finished. */
static bool is_plain(const job *j) {
    return !j->set.output_dir && (j->n_formats == 0 || strcmp(j->formats[0], "txt") == 0);
}

static void clock_text(double seconds, char *out, size_t size) {
    long long ms = llround(seconds * 1000);
    if (ms >= 3600000)
        snprintf(out, size, "%02lld:%02lld:%02lld.%03lld", ms / 3600000, ms / 60000 % 60,
                 ms / 1000 % 60, ms % 1000);
    else
        snprintf(out, size, "%02lld:%02lld.%03lld", ms / 60000, ms / 1000 % 60, ms % 1000);
}

static void on_segment(void *user, const vocis_segment *s) {
    const job *j = user;
    if (!is_plain(j) && !j->set.verbose) return;
    char *text = clean_line(s->text), from[32], to[32];
    clock_text(s->start, from, sizeof from);
    clock_text(s->end, to, sizeof to);
    if (!is_plain(j)) {
        progress_clear();
        fprintf(stderr, "[%s --> %s]  %s\n", from, to, text);
    } else if (j->set.verbose) {
        output_printf("[%s --> %s]  %s\n", from, to, text);
    } else {
        output_printf("%s\n", text);
    }
    if (is_plain(j)) output_flush();
    free(text);
}

static void on_progress(void *user, double done, double total) {
    const job *j = user;
    char behind[64];
    double seconds = now() - j->begin, speed = seconds > 0 ? done / seconds : 0;
    int left = speed > 0 ? (int)((total - done) / speed) : 0;
    if (done > 0)
        snprintf(behind, sizeof behind, "%.0f of %.0f s  %.1fx  %d:%02d left", done, total, speed,
                 left / 60, left % 60);
    else
        snprintf(behind, sizeof behind, "%.0f s", total);
    progress_draw(j->input, total > 0 ? done / total : 0, behind);
}

static bool on_abort(void *user) {
    return interrupted() || output_failed();
}

static void on_warning(void *user, const char *sentence) {
    report_warning(((const job *)user)->input, sentence);
}

static bool write_document(job *j, int index, const vocis_result *result, const char *format) {
    vocis_error err = {0};
    vocis_write_params params = vocis_write_default_params();
    char *document = NULL;
    size_t size = 0;
    params.source = j->input;
    params.model = speech_model_name(&j->set.speech);
    if (vocis_result_write(result, format, params, &document, &size, &err) != VOCIS_OK) {
        report_error(j->input, err.status, err.message);
        return false;
    }
    bool good;
    if (j->set.output_dir) {
        char *path = format_text("%s/%s.%s", j->set.output_dir, j->stems[index], format);
        const char *victim = names_same_file(path, j->inputs, j->n_inputs);
        char *message = format_text("%s is an input and is not overwritten", path);
        if (victim) report_error(j->input, VOCIS_ERR_ARGUMENT, message);
        good = !victim && file_write_atomic(j->input, path, document, size);
        if (good) report_note("wrote %s", path);
        free(message);
        free(path);
    } else {
        good = output_write(document, size) && output_flush();
    }
    vocis_free(document);
    return good;
}

static bool write_documents(job *j, int index, const vocis_result *result) {
    bool good = true;
    if (is_plain(j)) return output_flush();
    for (int i = 0; i < j->n_formats; i++)
        good = write_document(j, index, result, j->formats[i]) && good;
    return good;
}

static void note_speed(const job *j, double audio, const char *language) {
    double seconds = now() - j->begin;
    report_note("%s: %.1f s of %s in %.1f s (%.1f x real time)", j->input, audio,
                language ? language : "audio", seconds, seconds > 0 ? audio / seconds : 0);
}

static void transcribe(job *j, int index) {
    vocis_error err = {0};
    vocis_audio audio = {0};
    vocis_result *result = NULL;
    j->begin = now();
    vocis_status status = speech_load(j->inputs[index], j->set.audio, &audio, &err);
    if (status == VOCIS_OK && audio.warning[0] && !interrupted())
        report_warning(j->input, audio.warning);
    if (status == VOCIS_OK)
        status = vocis_transcribe_audio(j->speech.session, &audio, j->set.params, &result, &err);
    vocis_audio_free(&audio);
    progress_clear();
    bool good = status == VOCIS_OK;
    if (result && !output_failed()) good = write_documents(j, index, result) && good;
    if (status != VOCIS_OK && !interrupted() && !output_failed())
        report_error(j->input, status, err.message);
    if (good) note_speed(j, vocis_result_duration(result), vocis_result_language(result));
    if (!good) j->failed++;
    vocis_result_destroy(result);
}

static void stream(job *j, int index) {
    vocis_error err = {0};
    vocis_audio audio = {0};
    j->begin = now();
    const vocis_status status = stream_transcribe(j->speech.session, j->inputs[index], j->set.audio,
                                                  j->set.params, &audio, &err);
    if (status == VOCIS_OK && audio.warning[0]) report_warning(j->input, audio.warning);
    if (status != VOCIS_OK && !interrupted() && !output_failed())
        report_error(j->input, status, err.message);
    if (status == VOCIS_OK)
        note_speed(j, audio.duration, NULL);
    else
        j->failed++;
}

static int run(const verb *v, int argc, char **argv) {
    job *j = checked(calloc(1, sizeof *j));
    j->v = v;
    j->inputs = checked(calloc((size_t)argc + 1, sizeof *j->inputs));
    settings *s = &j->set;
    s->params = vocis_transcribe_default_params();
    s->audio = vocis_audio_default_params();
    s->audio.raw_channels = 0;
    s->audio.raw_format = NULL;
    s->task = "transcribe";
    int status = options_parse(v, argc, argv, s, j->inputs, &j->n_inputs);
    report_configure(s->speech.quiet, s->json_errors);
    if (status < 0) status = check_settings(j);
    if (status < 0)
        status =
            speech_open(v, &s->speech, speech_session_params(&s->speech, &s->params), &j->speech);
    if (status < 0 && s->output_dir && !make_folders(s->output_dir)) status = EXIT_FAILED;
    if (status < 0) {
        if (s->output_dir) j->stems = names_of_documents(j->inputs, j->n_inputs);
        s->params.on_segment = on_segment;
        s->params.on_progress = on_progress;
        s->params.on_abort = on_abort;
        s->params.on_warning = on_warning;
        s->params.user = j;
        if (s->fp16) report_warning(NULL, "fp16 is not used on the CPU; sums have 32 bits");
        for (int i = 0; i < j->n_inputs && !interrupted() && !output_failed(); i++) {
            j->input = strcmp(j->inputs[i], "-") == 0 ? "stdin" : j->inputs[i];
            if (s->stream)
                stream(j, i);
            else
                transcribe(j, i);
        }
        status = interrupted() ? EXIT_INTERRUPTED : j->failed ? EXIT_FAILED : EXIT_DONE;
        if (interrupted()) report_note("interrupted; what was done until here is written");
    }
    speech_close(&j->speech);
    for (int i = 0; j->stems && i < j->n_inputs; i++) free(j->stems[i]);
    free(j->stems);
    free(j->inputs);
    free(j);
    return status;
}
