/* SPDX-License-Identifier: MIT
 *
 * vocis transcribe: options of the `whisper` command to text on standard output or documents in
 * a folder. Inputs are independent: one that fails is named and the others go on.
 */
#include "names.h"
#include "report.h"
#include "speakers.h"
#include "speech.h"
#include "stream.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FORMATS = 8, MAX_CLIPS = 4096 };
/* Those that "all" means, which is what the whisper command has and its like; rttm is for few. */
#define ALL_FORMATS "txt srt vtt tsv json csv lrc"
#define FORMATS     ALL_FORMATS " rttm"

typedef struct settings {
    speech_options speech;
    speakers_options speakers;
    vocis_transcribe_params params;
    vocis_audio_params audio;
    vocis_write_params write;
    float require_coverage;
    bool translate, no_fallback, verbose, json_errors, fp16, resume, stream;
    const char *task, *clips, *device, *formats, *output_dir;
} settings;

#define AT(member) .at = offsetof(settings, member)

static const option options[] = {
    MODEL_OPTIONS(settings),
    {OPTION_GROUP, .help = "Output"},
    {OPTION_TEXT, "output-format", 'f', "FORMAT",
     "txt, srt, vtt, tsv, json, csv, lrc, rttm, several with commas, or all (but rttm). One format "
     "without --output-dir goes to standard output (txt)",
     AT(formats), .choices = FORMATS " all"},
    {OPTION_TEXT, "format", 0, "FORMAT", NULL, AT(formats)},
    {OPTION_TEXT, "output-dir", 'o', "DIR",
     "write DIR/STEM.FORMAT for every input; made when missing", AT(output_dir)},
    {OPTION_FLAG, "resume", 0, NULL,
     "keep what is done in DIR/STEM.vocis-journal, without --output-dir in the current folder, "
     "until all inputs are done; the same command goes on from there after it was killed",
     AT(resume)},
    {OPTION_BOOL, "verbose", 'v', NULL, "show the times of segments while they are found",
     AT(verbose)},
    QUIET_OPTION(settings),
    {OPTION_FLAG, "json-errors", 0, NULL,
     "failures and warnings on standard error as lines of JSON", AT(json_errors)},
    {OPTION_GROUP, .help = "What is said"},
    {OPTION_LANGUAGE, "language", 'l', "LANG",
     "code or name, as de or German: everything is written in it; auto: detect one (auto)",
     AT(params.language)},
    LANGUAGES_OPTION(AT(params.languages)),
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
    BOOST_OPTION(settings),
    {OPTION_BOOL, "condition-on-previous-text", 0, NULL,
     "give the text so far to the next window (True)", AT(params.condition_on_previous_text)},
    {OPTION_TEXT, "clip-timestamps", 0, "TIMES",
     "start,end,start,end,... in seconds: transcribe these parts only (0)", AT(clips)},
    {OPTION_BOOL, "without-timestamps", 0, NULL, "decode without times (False)",
     AT(params.without_timestamps)},
    {OPTION_GROUP, .help = "Times of words"},
    {OPTION_BOOL, "word-timestamps", 0, NULL,
     "find when every word is said, and from that when segments are (False)",
     AT(params.word_timestamps)},
    {OPTION_TEXT, "prepend-punctuations", 0, "MARKS", "marks that belong to the word after them",
     AT(params.prepend_punctuations)},
    {OPTION_TEXT, "append-punctuations", 0, "MARKS", "marks that belong to the word before them",
     AT(params.append_punctuations)},
    {OPTION_FLOAT, "hallucination-silence-threshold", 0, "SECONDS",
     "with word times: skip silence longer than this around text that looks invented; None: never "
     "(None)",
     AT(params.hallucination_silence_threshold), .min = 0, .max = 1e9, .optional = true,
     .none = NAN},
    {OPTION_GROUP, .help = "Subtitles"},
    {OPTION_CHOICE, "subtitle-style", 0, "STYLE",
     "broadcast: 42 columns, 2 lines, 20 columns a second, 5/6 to 7 s, gaps of 1/12 s, breaks at "
     "sentences and clauses; whisper: only what other options ask for (whisper)",
     AT(write.subtitle_style), .choices = "whisper broadcast"},
    {OPTION_INT, "max-line-width", 0, "N", "most characters of a line (None)",
     AT(write.max_line_width), .min = 0, .max = 10000, .optional = true},
    {OPTION_INT, "max-line-count", 0, "N", "most lines of a cue, with --max-line-width (None)",
     AT(write.max_line_count), .min = 0, .max = 1000, .optional = true},
    {OPTION_INT, "max-words-per-line", 0, "N", "most words of a line (None)",
     AT(write.max_words_per_line), .min = 0, .max = 1000, .optional = true},
    {OPTION_FLOAT, "max-chars-per-second", 0, "X",
     "reading speed: cues stay longer where the pause after them allows it (None)",
     AT(write.max_chars_per_second), .min = 0, .max = 1000, .optional = true},
    {OPTION_FLOAT, "min-duration", 0, "X", "least seconds of a cue, as far as there is time (None)",
     AT(write.min_duration), .min = 0, .max = 1000, .optional = true},
    {OPTION_FLOAT, "max-duration", 0, "X", "most seconds of a cue (None)", AT(write.max_duration),
     .min = 0, .max = 1000, .optional = true},
    {OPTION_FLOAT, "min-gap", 0, "X", "least seconds between cues (None)", AT(write.min_gap),
     .min = 0, .max = 1000, .optional = true},
    {OPTION_BOOL, "highlight-words", 0, NULL,
     "underline each word of srt and vtt as it is spoken (False)", AT(write.highlight_words)},
    {OPTION_BOOL, "karaoke", 0, NULL, "the time of each word in the text of vtt and lrc (False)",
     AT(write.karaoke)},
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
    SPECULATE_OPTIONS(settings),
    {OPTION_INT, "max-tokens", 0, "N", "most tokens of a window; 0: half the text context (0)",
     AT(params.max_tokens), .min = 0, .max = 100000},
    {OPTION_SEED, "seed", 0, "N", "of the random numbers of sampling (0)", AT(params.seed)},
    {OPTION_FLOAT, "require-coverage", 0, "X",
     "exit with 3 when less than this share of the speech that the voice detector hears has text; "
     "0.99 is a good one (0)",
     AT(require_coverage), .min = 0, .max = 1},
    {OPTION_GROUP, .help = "Input"},
    {OPTION_FLAG, "stream", 0, NULL,
     "for inputs of any length: memory does not grow with them. They are cut at pauses, loudness "
     "is "
     "judged by parts of up to 30 s, and text is all that is written",
     AT(stream)},
    INPUT_OPTIONS(settings),
    {OPTION_GROUP, .help = "Speakers"},
    {OPTION_CHOICE, "diarize", 0, "[HOW]",
     "say who speaks. channels: a speaker in each, transcribed by itself; voices: by their sound, "
     "in a mixture of all channels; auto: channels where two of them hold different voices. "
     "Without HOW: auto (nobody asks)",
     AT(speakers.how), .choices = "auto channels voices", .implied = "auto"},
    SPEAKERS_OPTIONS(settings),
    {OPTION_GROUP, .help = "Computing"},
    COMPUTE_OPTIONS(settings),
    {OPTION_CHOICE, "device", 0, "DEVICE", "cpu; nothing else is supported yet (cpu)", AT(device),
     .choices = "cpu"},
    {OPTION_BOOL, "fp16", 0, NULL, NULL, AT(fp16)},
    {.kind = OPTION_END},
};

static const char notes[] =
    "Names: the stem of an input is its file name without the last extension, and\n"
    "\"stdin\" for -. When two inputs have one stem, the later ones become STEM-2,\n"
    "STEM-3, ... in the order of the command line.\n"
    "\n"
    "With --resume the inputs, the model and the options that decide on the text must\n"
    "be the same as before; if not, the work begins anew with a warning.\n"
    "\n"
    "Exit status: 0 all done, 1 some inputs failed (each is named), 2 usage,\n"
    "3 some inputs have less text than --require-coverage asks for (each is named),\n"
    "130 interrupted; what was done until then is written.\n"
    "\n"
    "Examples:\n"
    "  vocis transcribe talk.mp3\n"
    "  vocis transcribe -m small -l de -f srt,json -o out *.wav\n"
    "  vocis transcribe -f srt --subtitle-style broadcast film.mkv\n"
    "  vocis transcribe --resume -o out lectures/*.mp3\n"
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
    boost_list boost;
    const char **inputs;
    int n_inputs;
    char **stems; /* of documents and journals, when there are any */
    char formats[MAX_FORMATS][8];
    int n_formats;
    double clips[MAX_CLIPS];
    const char *input; /* the current one, as it is named in messages */
    double begin;
    int failed, uncovered;
} job;

static void add_format(job *j, const char *name, size_t length) {
    for (int i = 0; i < j->n_formats; i++)
        if (strlen(j->formats[i]) == length && memcmp(j->formats[i], name, length) == 0) return;
    snprintf(j->formats[j->n_formats++], sizeof *j->formats, "%.*s", (int)length, name);
}

static int read_formats(job *j, const char *text) {
    for (size_t length; *text; text += length + strspn(text + length, ", ")) {
        length = strcspn(text, ", ");
        bool all = length == 3 && strncmp(text, "all", 3) == 0, found = all;
        const char *list = all ? ALL_FORMATS : FORMATS, *known;
        for (size_t size; next_word(&list, &known, &size);) {
            bool same = size == length && memcmp(known, text, length) == 0;
            if (same || all) add_format(j, known, size);
            found |= same;
        }
        if (found) continue;
        char near[64], word[64];
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        nearest_word(FORMATS, word, near, sizeof near);
        return usage_error(j->v, "the format \"%s\" is none of " FORMATS ", all%s%s%s", word,
                           near[0] ? ": did you mean \"" : "", near, near[0] ? "\"?" : "");
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
    stdins += s->speech.boost && strcmp(s->speech.boost, "-") == 0;
    for (int i = 0; i < j->n_inputs; i++) stdins += strcmp(j->inputs[i], "-") == 0;
    if (status < 0 && s->clips) status = read_clips(j, s->clips);
    if (status < 0 && s->formats) status = read_formats(j, s->formats);
    if (status >= 0) return status;
    if (stdins > 1) return usage_error(j->v, "standard input (-) can be read only once");
    if (s->resume && s->speakers.how)
        return usage_error(j->v, "--resume does not go with --diarize yet");
    status = speech_check_languages(j->v, &s->params);
    if (status < 0) status = speech_check_input(j->v, &s->audio);
    if (status < 0) status = speakers_check(j->v, &s->speakers);
    if (status >= 0) return status;
    if (s->output_dir && !strcmp(s->output_dir, "-"))
        return usage_error(j->v, "--output-dir names a folder; one format without it goes to "
                                 "standard output");
    if (j->n_formats > 1 && !s->output_dir) s->output_dir = ".";
    if (s->output_dir && !j->n_formats) add_format(j, "txt", 3);
    if (!s->output_dir && j->n_inputs > 1 && j->n_formats && strcmp(j->formats[0], "txt") != 0)
        return usage_error(j->v, "%s of several inputs needs a folder: add --output-dir DIR",
                           j->formats[0]);
    if (s->stream &&
        (s->output_dir || s->clips || s->speech.chunking || s->resume || s->speakers.how ||
         s->require_coverage > 0 || (j->n_formats && strcmp(j->formats[0], "txt") != 0)))
        return usage_error(j->v, "--stream writes text to standard output: no --output-dir, "
                                 "--clip-timestamps, --chunking, --resume, --diarize, "
                                 "--require-coverage or format but txt");
    if (s->translate || strcmp(s->task, "translate") == 0) s->params.task = VOCIS_TRANSLATE;
    if (s->no_fallback) s->params.temperature_increment = 0;
    return speech_check_speculation(j->v, &s->speech, &s->params);
}

/* Options that are allowed and have no effect, or not quite the one that one may expect. */
static void warn_of_settings(const settings *s) {
    const vocis_write_params *w = &s->write;
    bool own = w->max_chars_per_second > 0 || w->min_duration > 0 || w->max_duration > 0 ||
               w->min_gap > 0 || (w->subtitle_style && strcmp(w->subtitle_style, "whisper") != 0);
    bool ruled = own || w->max_line_width || w->max_line_count || w->max_words_per_line ||
                 w->highlight_words || w->karaoke;
    if (s->fp16) report_warning(NULL, "fp16 is not used on the CPU; sums have 32 bits");
    if (ruled && !s->params.word_timestamps)
        report_warning(NULL, "without --word-timestamps the times of words in subtitles are "
                             "estimates: each segment's time is shared out over its text");
    if (!own && w->max_line_count && !w->max_line_width)
        report_warning(NULL, "--max-line-count has no effect without --max-line-width");
    if (!own && w->max_words_per_line && w->max_line_width && w->max_line_count)
        report_warning(NULL, "--max-words-per-line has no effect with --max-line-width and "
                             "--max-line-count");
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

/* With speakers, only once they are known. */
static void show_segment(const job *j, const vocis_segment *s) {
    if (!is_plain(j) && !j->set.verbose) return;
    char *text = clean_line(s->text), from[32], to[32];
    if (s->speaker >= 0) {
        char *said = format_text("Speaker %d: %s", s->speaker + 1, text);
        free(text);
        text = said;
    }
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

static void on_segment(void *user, const vocis_segment *s) {
    const job *j = user;
    if (!j->set.speakers.how) show_segment(j, s);
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
    vocis_write_params params = j->set.write;
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

/* What of the speech has no text, and what text was taken back. */
static void note_coverage(job *j, const vocis_result *result) {
    const vocis_coverage c = vocis_result_coverage(result);
    const int removed = vocis_result_removed_count(result);
    if (!c.known) return;
    const char *back = removed ? "; text was taken back (see \"removed\" of the JSON)" : "";
    if (c.speech == 0 && vocis_result_segment_count(result) == 0)
        report_note("%s: nobody speaks%s", j->input, back);
    else
        report_note("%s: %.1f s of speech, %.1f %% with text%s", j->input, c.speech, 100 * c.ratio,
                    back);
    if (c.ratio >= (double)j->set.require_coverage) return;
    char *sentence =
        format_text("%.1f of %.1f s of speech have no text", c.lost + c.skipped, c.speech);
    report_warning(j->input, sentence);
    free(sentence);
    j->uncovered++;
}

static char *journal_path(const job *j, int index) {
    const char *folder = j->set.output_dir ? j->set.output_dir : ".";
    return format_text("%s/%s.vocis-journal", folder, j->stems[index]);
}

/* All is done and on the disk. Before that, the journals of inputs that are done save the next run
 * their work. */
static bool remove_journals(const job *j) {
    bool good = output_sync();
    for (int i = 0; good && i < j->n_inputs; i++) {
        char *path = journal_path(j, i);
        if (unlink(path) != 0 && errno != ENOENT) {
            report_error(path, VOCIS_ERR_IO, strerror(errno));
            good = false;
        }
        free(path);
    }
    return good;
}

static vocis_status transcribe_plain(job *j, int index, vocis_result **result, vocis_error *err) {
    vocis_audio audio = {0};
    vocis_status status = speech_load(j->inputs[index], j->set.audio, &audio, err);
    if (status == VOCIS_OK && audio.warning[0] && !interrupted())
        report_warning(j->input, audio.warning);
    vocis_transcribe_params params = j->set.params;
    char *journal = j->set.resume ? journal_path(j, index) : NULL;
    params.journal = journal;
    if (status == VOCIS_OK)
        status = vocis_transcribe_audio(j->speech.session, &audio, params, result, err);
    vocis_audio_free(&audio);
    free(journal);
    return status;
}

static vocis_status transcribe_voices(const job *j, vocis_audio *audio, vocis_result **result,
                                      vocis_error *err) {
    vocis_turn *turns = NULL;
    int n = 0;
    vocis_transcribe_params params = j->set.params;
    params.word_timestamps = true; /* a segment is cut where the speaker changes */
    vocis_status status = vocis_diarize(j->speech.engine, audio->samples, audio->n_samples,
                                        speakers_params(&j->set.speakers), &turns, &n, err);
    if (status == VOCIS_OK)
        status = vocis_transcribe_audio(j->speech.session, audio, params, result, err);
    if (*result) { /* what was done before a failure has speakers too */
        vocis_status assigned = vocis_result_assign_speakers(*result, turns, n, err);
        if (status == VOCIS_OK) status = assigned;
    }
    vocis_free(turns);
    return status;
}

static vocis_status transcribe_speakers(const job *j, const char *path, vocis_result **result,
                                        vocis_error *err) {
    vocis_audio channels[MOST_CHANNELS] = {0};
    int n = 0;
    vocis_status status =
        speakers_load(j->speech.engine, path, j->set.audio, j->set.speakers.how, channels, &n, err);
    if (status == VOCIS_OK && channels[0].warning[0] && !interrupted())
        report_warning(j->input, channels[0].warning);
    if (status == VOCIS_OK && n > 1)
        status =
            vocis_transcribe_channels(j->speech.session, channels, n, j->set.params, result, err);
    else if (status == VOCIS_OK)
        status = transcribe_voices(j, &channels[0], result, err);
    speakers_free(channels, n);
    progress_clear();
    for (int i = 0; *result && i < vocis_result_segment_count(*result); i++)
        show_segment(j, vocis_result_segment(*result, i));
    return status;
}

static void transcribe(job *j, int index) {
    vocis_error err = {0};
    vocis_result *result = NULL;
    j->begin = now();
    vocis_status status = j->set.speakers.how
                              ? transcribe_speakers(j, j->inputs[index], &result, &err)
                              : transcribe_plain(j, index, &result, &err);
    progress_clear();
    bool good = status == VOCIS_OK;
    if (result && !output_failed()) good = write_documents(j, index, result) && good;
    if (status != VOCIS_OK && !interrupted() && !output_failed())
        report_error(j->input, status, err.message);
    if (good) note_speed(j, vocis_result_duration(result), vocis_result_language(result));
    if (good) note_coverage(j, result);
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
    s->write = vocis_write_default_params();
    s->audio.raw_channels = 0;
    s->audio.raw_format = NULL;
    s->task = "transcribe";
    int status = options_parse(v, argc, argv, s, j->inputs, &j->n_inputs);
    report_configure(s->speech.quiet, s->json_errors);
    if (status < 0) status = check_settings(j);
    if (status < 0 && !boost_read(&s->speech, &j->boost, &s->params)) status = EXIT_FAILED;
    if (status < 0)
        status =
            speech_open(v, &s->speech, speech_session_params(&s->speech, &s->params), &j->speech);
    if (status < 0 && s->output_dir && !make_folders(s->output_dir)) status = EXIT_FAILED;
    if (status < 0) {
        if (s->output_dir || s->resume) j->stems = names_of_documents(j->inputs, j->n_inputs);
        s->params.on_segment = on_segment;
        s->params.on_progress = on_progress;
        s->params.on_abort = on_abort;
        s->params.on_warning = on_warning;
        s->params.user = j;
        warn_of_settings(s);
        for (int i = 0; i < j->n_inputs && !interrupted() && !output_failed(); i++) {
            j->input = strcmp(j->inputs[i], "-") == 0 ? "stdin" : j->inputs[i];
            if (s->stream)
                stream(j, i);
            else
                transcribe(j, i);
        }
        status = interrupted()  ? EXIT_INTERRUPTED
                 : j->failed    ? EXIT_FAILED
                 : j->uncovered ? EXIT_UNCOVERED
                                : EXIT_DONE;
        if (interrupted()) report_note("interrupted; what was done until here is written");
        if (s->resume && (status == EXIT_DONE || status == EXIT_UNCOVERED) && !remove_journals(j))
            status = EXIT_FAILED;
        if (s->resume && status != EXIT_DONE && status != EXIT_UNCOVERED)
            report_note("the same command goes on from here");
    }
    speech_close(&j->speech);
    boost_free(&j->boost);
    for (int i = 0; j->stems && i < j->n_inputs; i++) free(j->stems[i]);
    free(j->stems);
    free(j->inputs);
    free(j);
    return status;
}
