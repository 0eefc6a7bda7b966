/* SPDX-License-Identifier: MIT
 *
 * The vocis program: a table of verbs over the public header.
 */
#include "options.h"
#include "report.h"
#include "vocis.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const verb verb_transcribe, verb_listen, verb_diarize, verb_pull, verb_models, verb_inspect,
    verb_convert, verb_bench, verb_eval;

static const option no_options[] = {{.kind = OPTION_END}};

static int run_completion(const verb *v, int argc, char **argv);
static const verb verb_completion = {
    .name = "completion",
    .summary = "print the completion of a shell",
    .usage = "bash | zsh | fish",
    .about = "Prints a script that teaches a shell to complete the command line of vocis.",
    .notes = "Examples:\n"
             "  source <(vocis completion bash)\n"
             "  vocis completion zsh > ~/.zfunc/_vocis\n"
             "  vocis completion fish > ~/.config/fish/completions/vocis.fish\n",
    .options = no_options,
    .operands = OPERAND_WORDS,
    .words = "bash zsh fish",
    .min_operands = 1,
    .max_operands = 1,
    .run = run_completion,
};

static int run_help(const verb *v, int argc, char **argv);
static const verb verb_help = {
    .name = "help",
    .summary = "print help for a verb",
    .usage = "[VERB]",
    .about = "Prints help for a verb, or the list of verbs.",
    .options = no_options,
    .operands = OPERAND_WORDS,
    .words = "transcribe listen diarize pull models inspect convert bench eval completion",
    .min_operands = 0,
    .max_operands = 1,
    .run = run_help,
};

const verb *const verbs[] = {&verb_transcribe, &verb_listen,     &verb_diarize, &verb_pull,
                             &verb_models,     &verb_inspect,    &verb_convert, &verb_bench,
                             &verb_eval,       &verb_completion, &verb_help,    NULL};

static void print_help(void) {
    output_puts("Usage: vocis VERB [options] ...\n\nA local voice engine: speech to text on this "
                "machine; nothing is sent away.\n\n");
    for (int i = 0; verbs[i]; i++) output_printf("  %-12s %s\n", verbs[i]->name, verbs[i]->summary);
    output_puts("\n  vocis VERB --help   what a verb does and all of its options\n"
                "  vocis --version     the version\n"
                "\n"
                "Examples:\n"
                "  vocis transcribe talk.mp3\n"
                "  vocis listen -l en\n"
                "  vocis transcribe -f srt -o subtitles *.mkv\n"
                "  vocis pull small\n"
                "\n"
                "The first use fetches the model (148 MB for base). Results go to standard\n"
                "output, everything else to standard error.\n");
}

static const verb *find_verb(const char *name) {
    for (int i = 0; verbs[i]; i++)
        if (strcmp(verbs[i]->name, name) == 0) return verbs[i];
    return NULL;
}

static int unknown_verb(const char *name) {
    char all[256] = "", near[64];
    for (int i = 0; verbs[i]; i++) {
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, " %s", verbs[i]->name);
    }
    nearest_word(all, name, near, sizeof near);
    if (near[0])
        return usage_error(NULL, "there is no verb \"%s\": did you mean \"%s\"?", name, near);
    if (access(name, F_OK) == 0 || strcmp(name, "-") == 0)
        return usage_error(NULL, "\"%s\" is no verb: did you mean \"vocis transcribe %s\"?", name,
                           name);
    return usage_error(NULL, "there is no verb \"%s\"", name);
}

static int run_help(const verb *v, int argc, char **argv) {
    const char *operands[2];
    int n;
    if (argc > 1) return usage_error(v, "\"%s\" is one word too many", argv[1]);
    int status = options_parse(v, argc, argv, NULL, operands, &n);
    if (status >= 0) return status;
    const verb *about = n ? find_verb(operands[0]) : NULL;
    if (n && !about) return unknown_verb(operands[0]);
    if (about)
        options_help(about);
    else
        print_help();
    return EXIT_DONE;
}

static int run_completion(const verb *v, int argc, char **argv) {
    const char *operands[2];
    int n;
    if (argc > 1) return usage_error(v, "\"%s\" is one word too many", argv[1]);
    int status = options_parse(v, argc, argv, NULL, operands, &n);
    if (status >= 0) return status;
    if (strcmp(operands[0], "bash") != 0 && strcmp(operands[0], "zsh") != 0 &&
        strcmp(operands[0], "fish") != 0)
        return usage_error(v, "\"%s\" is none of the shells bash, zsh, fish", operands[0]);
    return completion_print(operands[0]);
}

static void print_version(void) {
    vocis_engine *engine = NULL;
    vocis_engine_params params = vocis_engine_default_params();
    output_printf("vocis %s\n", vocis_version());
    if (vocis_engine_create(params, &engine, NULL) == VOCIS_OK)
        output_printf("cpu: %s; %d threads\n", vocis_engine_cpu(engine),
                      vocis_engine_threads(engine));
    vocis_engine_destroy(engine);
}

/* Files that the program opens must not get the numbers 0, 1 and 2. What was closed stays
 * useless: reading gives nothing, writing fails. */
static void hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
            exit(EXIT_FAILED);
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) {
        print_help();
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        print_version();
        return EXIT_DONE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        print_help();
        return EXIT_DONE;
    }
    const verb *v = find_verb(name);
    if (v) return v->run(v, argc - 2, argv + 2);
    if (name[0] == '-' && name[1])
        return usage_error(NULL, "%s is no option of vocis itself: options follow a verb", name);
    return unknown_verb(name);
}

int main(int argc, char **argv) {
    hold_standard_streams();
    report_start();
    return output_finish(dispatch(argc, argv));
}
