/* SPDX-License-Identifier: MIT
 *
 * Command lines. One table per verb says everything about its options: parsing, help and the
 * completions of shells are made from it. Names may be written with hyphens or underscores,
 * values after a blank or '=', booleans as the `whisper` command has them.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

typedef enum option_kind {
    OPTION_END,
    OPTION_GROUP,    /* a heading of the help: `help` */
    OPTION_FLAG,     /* bool: --quiet, --quiet=False */
    OPTION_BOOL,     /* bool with an optional value: --x, --x False, --no-x */
    OPTION_INT,      /* int in [min, max] */
    OPTION_FLOAT,    /* float in [min, max] */
    OPTION_SEED,     /* uint64_t */
    OPTION_TEXT,     /* const char * */
    OPTION_REPEAT,   /* const char *[max + 1], ended by NULL: may be given up to max times */
    OPTION_CHOICE,   /* const char *: one of `choices` */
    OPTION_LANGUAGE, /* const char *: a language of vocis.h */
    OPTION_LANGUAGES /* const char *: several with commas, or all */
} option_kind;

typedef struct option {
    option_kind kind;
    const char *name; /* with hyphens */
    char letter;      /* 0: none */
    const char *argument;
    const char *help;    /* NULL: a synonym that help and completion do not show */
    size_t at;           /* offset of the value in the verb's settings */
    const char *choices; /* separated by blanks */
    double min, max;
    bool optional; /* "None" is a value: NULL, or the number `none` */
    double none;
    const char *implied; /* OPTION_CHOICE: the value when the next word is none of the choices */
} option;

typedef enum operand_kind {
    OPERAND_NONE,
    OPERAND_FILES,
    OPERAND_MODELS,
    OPERAND_WORDS
} operand_kind;

typedef struct verb {
    const char *name;
    const char *summary; /* a few words */
    const char *usage;   /* "[options] FILE... | -" */
    const char *about;   /* what it does, as paragraphs */
    const char *notes;   /* examples and rules, printed as they are */
    const option *options;
    operand_kind operands;
    const char *words; /* OPERAND_WORDS: what they may be */
    int min_operands, max_operands;
    int (*run)(const struct verb *verb, int argc, char **argv);
} verb;

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_UNCOVERED = 3, EXIT_INTERRUPTED = 130 };

/* Fills `settings` (which holds the defaults) and `operands` (room for argc). Returns -1 to go
 * on, else the exit status: help was printed, or what is wrong. */
int options_parse(const verb *v, int argc, char **argv, void *settings, const char **operands,
                  int *n_operands);
void options_help(const verb *v);
/* One sentence on standard error, and where help is; returns EXIT_USAGE. */
int usage_error(const verb *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Iterates over the words of a blank-separated list: false at the end. */
bool next_word(const char **list, const char **word, size_t *length);
/* The word of a list that is nearest to `word`, if near enough to be what was meant; copied into
 * out, else "". */
void nearest_word(const char *list, const char *word, char *out, size_t size);

/* The table of verbs, ended by a NULL name (main.c). */
extern const verb *const verbs[];
int completion_print(const char *shell);

#endif
