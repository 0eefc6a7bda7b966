/* SPDX-License-Identifier: MIT
 *
 * vocis eval: word and character error rates after Whisper's normaliser, of two texts or of a
 * manifest whose audio is transcribed first. Rates over several files are sums of edits over
 * sums of lengths.
 */
#include "report.h"
#include "speech.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    speech_options speech;
    vocis_transcribe_params params;
    const char *reference, *hypothesis;
    bool no_fallback, verbose, json;
} settings;

#define AT(member) .at = offsetof(settings, member)

static const option options[] = {
    {OPTION_TEXT, "reference", 'r', "FILE", "the right text", AT(reference)},
    {OPTION_TEXT, "hypothesis", 'y', "FILE", "the text to score against it", AT(hypothesis)},
    {OPTION_LANGUAGE, "language", 'l', "LANG",
     "of the texts and the audio: the English normaliser for en, else the basic one (en for "
     "texts, detected for audio)",
     AT(params.language)},
    {OPTION_BOOL, "verbose", 'v', NULL, "one line per file as well", AT(verbose)},
    {OPTION_FLAG, "json", 0, NULL, "print JSON", AT(json)},
    {OPTION_GROUP, .help = "Transcribing a manifest"},
    MODEL_OPTIONS(settings),
    LANGUAGES_OPTION(AT(params.languages)),
    CHUNKING_OPTIONS(settings),
    COMPUTE_OPTIONS(settings),
    SPECULATE_OPTIONS(settings),
    {OPTION_INT, "beam-size", 'b', "N", "beams at temperature 0; 1 is greedy (5)",
     AT(params.beam_size), .min = 1, .max = 64, .optional = true, .none = 1},
    {OPTION_FLAG, "no-fallback", 0, NULL, "keep the first temperature", AT(no_fallback)},
    BOOST_OPTION(settings),
    {OPTION_BOOL, "condition-on-previous-text", 0, NULL,
     "give the text so far to the next window (True)", AT(params.condition_on_previous_text)},
    {OPTION_BOOL, "without-timestamps", 0, NULL, "decode without times (False)",
     AT(params.without_timestamps)},
    QUIET_OPTION(settings),
    {.kind = OPTION_END},
};

typedef struct score {
    vocis_error_rate words, characters;
} score;

typedef struct job {
    settings set;
    speech speech;
    boost_list boost;
    const char *manifest;
    score total;
    double audio_seconds, work_seconds;
    int files, failed;
    json_t *list;  /* per file, for --json --verbose */
    json_t *texts; /* what stands in the line at hand */
} job;

/* ---- scores --------------------------------------------------------------------------------- */

static int64_t errors(const vocis_error_rate *r) {
    return r->substitutions + r->deletions + r->insertions;
}

static void add(vocis_error_rate *to, const vocis_error_rate *from) {
    to->substitutions += from->substitutions;
    to->deletions += from->deletions;
    to->insertions += from->insertions;
    to->reference += from->reference;
}

static bool compare(const char *name, const char *reference, const char *hypothesis,
                    const char *language, score *out) {
    vocis_error err = {0};
    char *a = checked(vocis_normalize(reference, language));
    char *b = checked(vocis_normalize(hypothesis, language));
    vocis_status status = vocis_compare(a, b, false, &out->words, &err);
    if (status == VOCIS_OK) status = vocis_compare(a, b, true, &out->characters, &err);
    if (status != VOCIS_OK) report_error(name, status, err.message);
    vocis_free(a);
    vocis_free(b);
    return status == VOCIS_OK;
}

static json_t *rate_json(const vocis_error_rate *r) {
    json_t *rate = r->reference ? json_real((double)errors(r) / (double)r->reference) : json_null();
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "rate", rate, "errors",
                     (json_int_t)errors(r), "substitutions", (json_int_t)r->substitutions,
                     "deletions", (json_int_t)r->deletions, "insertions", (json_int_t)r->insertions,
                     "reference", (json_int_t)r->reference);
}

static void print_rate(const char *name, const vocis_error_rate *r, const char *unit) {
    char rate[32] = "no reference";
    if (r->reference)
        snprintf(rate, sizeof rate, "%.2f %%", 100.0 * (double)errors(r) / (double)r->reference);
    output_printf(
        "%s  %9s  %lld errors in %lld %s: %lld substituted, %lld deleted, %lld inserted\n", name,
        rate, (long long)errors(r), (long long)r->reference, unit, (long long)r->substitutions,
        (long long)r->deletions, (long long)r->insertions);
}

static void print_total(const job *j) {
    if (!j->set.json) {
        print_rate("WER", &j->total.words, "words");
        print_rate("CER", &j->total.characters, "characters");
        return;
    }
    json_t *o = json_pack("{s:o, s:o, s:i, s:i}", "wer", rate_json(&j->total.words), "cer",
                          rate_json(&j->total.characters), "files", j->files, "failed", j->failed);
    if (j->manifest) {
        json_object_set_new(o, "audio_seconds", json_real(j->audio_seconds));
        json_object_set_new(o, "transcribe_seconds", json_real(j->work_seconds));
    }
    if (j->list) json_object_set(o, "list", j->list);
    char *text = checked(o ? json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(8)) : NULL);
    output_printf("%s\n", text);
    free(text);
    json_decref(o);
}

static void take_score(job *j, const char *name, const char *reference, const char *hypothesis,
                       const char *language) {
    score s;
    if (!compare(name, reference, hypothesis, language, &s)) {
        j->failed++;
        return;
    }
    add(&j->total.words, &s.words);
    add(&j->total.characters, &s.characters);
    j->files++;
    if (!j->set.verbose) return;
    if (j->set.json) {
        char *shown = clean_line(name), *a = clean_line(reference), *b = clean_line(hypothesis);
        json_array_append_new(j->list, json_pack("{s:s, s:s*, s:s, s:s, s:o, s:o}", "audio", shown,
                                                 "language", language, "reference", a, "hypothesis",
                                                 b, "wer", rate_json(&s.words), "cer",
                                                 rate_json(&s.characters)));
        free(shown);
        free(a);
        free(b);
    } else {
        char *shown = clean_line(name);
        double n = (double)s.words.reference, m = (double)s.characters.reference;
        output_printf("%s: WER %.2f %% (%lld of %.0f), CER %.2f %%\n", shown,
                      n > 0 ? 100.0 * (double)errors(&s.words) / n : 0.0,
                      (long long)errors(&s.words), n,
                      m > 0 ? 100.0 * (double)errors(&s.characters) / m : 0.0);
        output_flush();
        free(shown);
    }
}

/* ---- two texts ------------------------------------------------------------------------------ */

static int eval_texts(job *j) {
    size_t n, m;
    const char *language = j->set.params.language ? j->set.params.language : "en";
    char *reference = file_read_all(j->set.reference, &n);
    char *hypothesis = reference ? file_read_all(j->set.hypothesis, &m) : NULL;
    if (hypothesis) {
        take_score(j, j->set.hypothesis, reference, hypothesis, language);
        if (!j->failed) print_total(j);
    }
    bool good = hypothesis && !j->failed;
    free(reference);
    free(hypothesis);
    return good && output_flush() ? EXIT_DONE : EXIT_FAILED;
}

/* ---- a manifest ----------------------------------------------------------------------------- */

static bool on_abort(void *user) {
    return interrupted() || output_failed();
}

/* Names in a manifest are relative to its folder. */
static char *audio_path(const job *j, const char *name) {
    const char *slash = strrchr(j->manifest, '/');
    if (name[0] == '/' || !slash) return format_text("%s", name);
    return format_text("%.*s/%s", (int)(slash - j->manifest), j->manifest, name);
}

static void eval_audio(job *j, const char *name, const char *reference) {
    vocis_error err = {0};
    vocis_audio audio = {0};
    vocis_result *result = NULL;
    char *path = audio_path(j, name);
    vocis_status status = speech_load(path, vocis_audio_default_params(), &audio, &err);
    if (status == VOCIS_OK && audio.warning[0]) report_warning(path, audio.warning);
    if (status == VOCIS_OK)
        status = vocis_transcribe_audio(j->speech.session, &audio, j->set.params, &result, &err);
    if (status == VOCIS_OK) {
        const char *language = vocis_result_language(result);
        j->audio_seconds += vocis_result_duration(result);
        j->work_seconds += vocis_result_timings(result).total;
        take_score(j, path, reference, vocis_result_text(result), language);
    } else if (!interrupted() && !output_failed()) {
        report_error(path, status, err.message);
        j->failed++;
    }
    vocis_audio_free(&audio);
    vocis_result_destroy(result);
    free(path);
}

/* {"audio": ..., "text": ...} or PATH<TAB>TEXT. False: the line is neither. */
static bool split_line(job *j, char *line, const char **name, const char **text) {
    json_decref(j->texts);
    j->texts = NULL;
    if (line[0] == '{') {
        j->texts = json_loads(line, 0, NULL);
        *name = json_string_value(json_object_get(j->texts, "audio"));
        *text = json_string_value(json_object_get(j->texts, "text"));
        return *name && *text;
    }
    char *tab = strchr(line, '\t');
    if (!tab) return false;
    *tab = '\0';
    *name = line;
    *text = tab + 1;
    return true;
}

static int count_lines(const char *text) {
    int n = 0;
    for (; *text; text++) n += *text == '\n';
    return n + 1;
}

static int eval_manifest(job *j) {
    size_t size;
    char *text = file_read_all(j->manifest, &size);
    if (!text) return EXIT_FAILED;
    int lines = count_lines(text), number = 0;
    for (char *line = text, *next; line && !interrupted() && !output_failed(); line = next) {
        const char *name, *reference;
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        number++;
        char *end = line + strlen(line);
        if (end > line && end[-1] == '\r') end[-1] = '\0';
        if (line[strspn(line, " \t")] == '\0') continue;
        if (split_line(j, line, &name, &reference)) {
            progress_draw(name, (double)number / lines, "");
            eval_audio(j, name, reference);
        } else {
            char *where = format_text("%s:%d", j->manifest, number);
            report_error(where, VOCIS_ERR_FORMAT,
                         "neither {\"audio\": ..., \"text\": ...} nor PATH<TAB>TEXT");
            free(where);
            j->failed++;
        }
    }
    if (j->files) print_total(j);
    free(text);
    if (interrupted()) return EXIT_INTERRUPTED;
    return output_flush() && !j->failed && j->files ? EXIT_DONE : EXIT_FAILED;
}

static int run_job(const verb *v, job *j, const char *manifest) {
    settings *s = &j->set;
    bool texts = s->reference || s->hypothesis;
    if (texts == (manifest != NULL) || !s->reference != !s->hypothesis)
        return usage_error(v, "give either --reference and --hypothesis, or one manifest");
    if (texts && strcmp(s->reference, "-") == 0 && strcmp(s->hypothesis, "-") == 0)
        return usage_error(v, "standard input (-) can be read only once");
    if (texts) return eval_texts(j);
    j->manifest = manifest;
    if (s->no_fallback) s->params.temperature_increment = 0;
    s->params.on_abort = on_abort;
    int status = speech_check_speculation(v, &s->speech, &s->params);
    if (status < 0) status = speech_check_languages(v, &s->params);
    if (status >= 0) return status;
    if (!boost_read(&s->speech, &j->boost, &s->params)) return EXIT_FAILED;
    status = speech_open(v, &s->speech, speech_session_params(&s->speech, &s->params), &j->speech);
    if (status < 0) status = eval_manifest(j);
    speech_close(&j->speech);
    boost_free(&j->boost);
    return status;
}

static int run(const verb *v, int argc, char **argv) {
    job j = {.set.params = vocis_transcribe_default_params()};
    int n;
    const char **operands = checked(calloc((size_t)argc + 1, sizeof *operands));
    int status = options_parse(v, argc, argv, &j.set, operands, &n);
    report_configure(j.set.speech.quiet, false);
    j.list = j.set.json && j.set.verbose ? json_array() : NULL;
    if (status < 0) status = run_job(v, &j, n ? operands[0] : NULL);
    json_decref(j.list);
    json_decref(j.texts);
    free(operands);
    return status;
}

const verb verb_eval = {
    .name = "eval",
    .summary = "word and character error rates",
    .usage = "[options] -r FILE -y FILE | MANIFEST",
    .about = "Counts the errors of a text against the right one, in words (WER) and characters "
             "(CER), after Whisper's normaliser. With a manifest the audio is transcribed first; "
             "its lines are {\"audio\": PATH, \"text\": TEXT} or PATH<TAB>TEXT, with paths "
             "relative to the manifest.",
    .notes = "Exit status: 0 all scored, 1 some inputs failed (each is named), 2 usage,\n"
             "130 interrupted.\n"
             "\n"
             "Examples:\n"
             "  vocis eval --reference right.txt --hypothesis mine.txt\n"
             "  vocis eval --model tiny.en --beam-size 1 --verbose clips.tsv\n",
    .options = options,
    .operands = OPERAND_FILES,
    .min_operands = 0,
    .max_operands = 1,
    .run = run,
};
