/* SPDX-License-Identifier: MIT
 *
 * Parsing by table, and help printed from the same table.
 */
#include "options.h"

#include "report.h"
#include "vocis.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WIDTH = 78, COLUMN = 26, MAX_NAME = 64 };

int usage_error(const verb *v, const char *format, ...) {
    va_list args;
    fputs("vocis: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    if (v)
        fprintf(stderr, "\nTry 'vocis %s --help'.\n", v->name);
    else
        fputs("\nTry 'vocis --help'.\n", stderr);
    return EXIT_USAGE;
}

/* ---- words ---------------------------------------------------------------------------------- */

bool next_word(const char **list, const char **word, size_t *length) {
    const char *p = *list ? *list : "";
    p += strspn(p, " ");
    *word = p;
    *length = strcspn(p, " ");
    *list = p + *length;
    return *length > 0;
}

/* Edits (Levenshtein) between two words of at most MAX_NAME characters. */
static int distance(const char *a, size_t n, const char *b, size_t m) {
    int row[MAX_NAME + 1];
    if (n > MAX_NAME || m > MAX_NAME) return MAX_NAME;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int swap = diagonal + (a[i - 1] != b[j - 1]), up = row[j] + 1, left = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = swap < up ? swap : up;
            if (left < row[j]) row[j] = left;
        }
    }
    return row[m];
}

void nearest_word(const char *list, const char *word, char *out, size_t size) {
    const char *candidate;
    size_t length, n = strlen(word);
    int best = n < 4 ? 1 : n < 8 ? 2 : 3;
    out[0] = '\0';
    while (next_word(&list, &candidate, &length)) {
        int d = distance(word, n, candidate, length);
        bool begins = n >= 3 && n < length && strncmp(word, candidate, n) == 0;
        if (begins && out[0] == '\0') d = best;
        if (d > best || length >= size) continue;
        if (d == best && out[0] != '\0') continue;
        best = d;
        memcpy(out, candidate, length);
        out[length] = '\0';
    }
}

static bool is_choice(const char *list, const char *word) {
    const char *candidate;
    size_t length;
    while (next_word(&list, &candidate, &length))
        if (strlen(word) == length && strncmp(candidate, word, length) == 0) return true;
    return false;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool parse_bool(const char *text, bool *value) {
    static const char *const words[2][5] = {{"false", "no", "off", "0", "disabled"},
                                            {"true", "yes", "on", "1", "enabled"}};
    for (int v = 0; v < 2; v++)
        for (int i = 0; i < 5; i++)
            if (strcasecmp(text, words[v][i]) == 0) {
                *value = v == 1;
                return true;
            }
    return false;
}

/* 0 and 1 may be names of files, so that only words count when a blank stands between. */
static bool is_bool_word(const char *text) {
    bool ignored;
    return text && strlen(text) > 1 && parse_bool(text, &ignored);
}

static int wrong_value(const verb *v, const option *o, const char *text, const char *wanted) {
    char near[MAX_NAME + 1] = "";
    if (o->choices) nearest_word(o->choices, text, near, sizeof near);
    if (near[0])
        return usage_error(v, "--%s cannot be \"%s\": it takes %s. Did you mean \"%s\"?", o->name,
                           text, wanted, near);
    return usage_error(v, "--%s cannot be \"%s\": it takes %s", o->name, text, wanted);
}

static int set_number(const verb *v, const option *o, const char *text, void *to) {
    char wanted[96], *end;
    errno = 0;
    double value = strtod(text, &end);
    bool whole = o->kind == OPTION_INT;
    bool good = end != text && *end == '\0' && isfinite(value) && value >= o->min &&
                value <= o->max && (!whole || value == floor(value));
    if (o->optional && strcasecmp(text, "none") == 0) {
        value = o->none;
        good = true;
    }
    if (!good) {
        const char *what = whole ? "a whole number" : "a number";
        if (o->max < 1e9)
            snprintf(wanted, sizeof wanted, "%s from %g to %g%s", what, o->min, o->max,
                     o->optional ? ", or None" : "");
        else if (o->min > -1e9)
            snprintf(wanted, sizeof wanted, "%s of %g or more%s", what, o->min,
                     o->optional ? ", or None" : "");
        else
            snprintf(wanted, sizeof wanted, "%s%s", what, o->optional ? ", or None" : "");
        return wrong_value(v, o, text, wanted);
    }
    if (whole)
        *(int *)to = (int)value;
    else
        *(float *)to = (float)value;
    return -1;
}

static int set_seed(const verb *v, const option *o, const char *text, void *to) {
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value > INT64_MAX)
        return wrong_value(v, o, text, "a whole number of 0 or more");
    *(uint64_t *)to = value;
    return -1;
}

static int unknown_language(const verb *v, const char *text) {
    char names[4096] = "", near[MAX_NAME + 1];
    for (int i = 0; i < vocis_language_count(); i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, " %s", vocis_language_name(i));
    }
    nearest_word(names, text, near, sizeof near);
    return usage_error(v, "the language \"%s\" is not known%s%s%s", text,
                       near[0] ? ": did you mean \"" : "", near, near[0] ? "\"?" : "");
}

static int set_language(const verb *v, const option *o, const char *text, void *to) {
    int index = vocis_language_find(text);
    *(const char **)to = vocis_language_code(index);
    if (index >= 0 || strcasecmp(text, "none") == 0 || strcasecmp(text, "auto") == 0) return -1;
    return unknown_language(v, text);
}

/* The names are looked at here, and handed on as they are. */
static int set_languages(const verb *v, const option *o, const char *text, void *to) {
    const bool none = strcasecmp(text, "none") == 0;
    *(const char **)to = none ? NULL : text;
    if (none) return -1;
    for (const char *at = text; *at;) {
        char name[MAX_NAME + 1];
        at += strspn(at, " ");
        const size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (strcmp(name, "all") != 0 && strcmp(name, "auto") != 0 && vocis_language_find(name) < 0)
            return unknown_language(v, name);
        at += length + (at[length] == ',');
    }
    return *text ? -1 : wrong_value(v, o, text, "languages with commas, or all");
}

static int add_value(const verb *v, const option *o, const char *text, const char **list) {
    int n = 0;
    while (list[n]) n++;
    if (n >= (int)o->max)
        return usage_error(v, "--%s can be given %d times at most", o->name, (int)o->max);
    list[n] = text;
    return -1;
}

static int set_value(const verb *v, const option *o, const char *text, char *settings) {
    void *to = settings + o->at;
    switch (o->kind) {
    case OPTION_FLAG:
    case OPTION_BOOL:
        if (!text)
            *(bool *)to = true;
        else if (!parse_bool(text, to))
            return wrong_value(v, o, text, "True or False");
        return -1;
    case OPTION_INT:
    case OPTION_FLOAT:
        return set_number(v, o, text, to);
    case OPTION_SEED:
        return set_seed(v, o, text, to);
    case OPTION_CHOICE:
        if (!is_choice(o->choices, text)) {
            char wanted[256];
            snprintf(wanted, sizeof wanted, "one of: %s", o->choices);
            return wrong_value(v, o, text, wanted);
        }
        *(const char **)to = text;
        return -1;
    case OPTION_LANGUAGE:
        return set_language(v, o, text, to);
    case OPTION_LANGUAGES:
        return set_languages(v, o, text, to);
    case OPTION_TEXT:
        *(const char **)to = o->optional && strcmp(text, "None") == 0 ? NULL : text;
        return -1;
    case OPTION_REPEAT:
        return add_value(v, o, text, to);
    case OPTION_GROUP:
    case OPTION_END:
        break;
    }
    return -1;
}

/* ---- parsing -------------------------------------------------------------------------------- */

static const option *find_name(const verb *v, const char *name) {
    for (const option *o = v->options; o->kind != OPTION_END; o++)
        if (o->name && strcmp(o->name, name) == 0) return o;
    return NULL;
}

static const option *find_letter(const verb *v, char letter) {
    for (const option *o = v->options; o->kind != OPTION_END; o++)
        if (o->letter && o->letter == letter) return o;
    return NULL;
}

static int unknown_option(const verb *v, const char *name) {
    char all[4096] = "", near[MAX_NAME + 1];
    for (const option *o = v->options; o->kind != OPTION_END; o++) {
        size_t used = strlen(all);
        if (o->name && o->help) snprintf(all + used, sizeof all - used, " %s", o->name);
    }
    nearest_word(all, name, near, sizeof near);
    if (near[0]) return usage_error(v, "there is no option --%s: did you mean --%s?", name, near);
    return usage_error(v, "there is no option --%s", name);
}

typedef struct parser {
    const verb *v;
    int argc, at;
    char **argv;
    char *settings;
} parser;

/* `inline_value` stood behind '=' or a letter; else the value is the next word. */
static int take(parser *p, const option *o, const char *inline_value) {
    const char *next = p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
    if (inline_value) return set_value(p->v, o, inline_value, p->settings);
    if (o->implied && (!next || !is_choice(o->choices, next)))
        return set_value(p->v, o, o->implied, p->settings);
    if (o->kind == OPTION_FLAG) return set_value(p->v, o, NULL, p->settings);
    if (o->kind == OPTION_BOOL && !is_bool_word(next)) return set_value(p->v, o, NULL, p->settings);
    if (!next || (strncmp(next, "--", 2) == 0 && next[2]))
        return usage_error(p->v, "--%s needs a value%s", o->name,
                           next ? " (write --option=VALUE if it begins with --)" : "");
    p->at++;
    return set_value(p->v, o, next, p->settings);
}

static int take_long(parser *p, const char *word) {
    char name[MAX_NAME + 1];
    size_t length = strcspn(word, "=");
    const char *value = word[length] == '=' ? word + length + 1 : NULL;
    if (length > MAX_NAME) return usage_error(p->v, "there is no option --%s", word);
    for (size_t i = 0; i < length; i++) name[i] = word[i] == '_' ? '-' : word[i];
    name[length] = '\0';
    const option *o = find_name(p->v, name);
    if (o) return take(p, o, value);
    if (strcmp(name, "help") == 0) {
        options_help(p->v);
        return EXIT_DONE;
    }
    o = strncmp(name, "no-", 3) == 0 && !value ? find_name(p->v, name + 3) : NULL;
    if (o && o->kind == OPTION_BOOL) return set_value(p->v, o, "False", p->settings);
    return unknown_option(p->v, name);
}

/* -q, -qf srt, -fsrt, -f=srt. */
static int take_letters(parser *p, const char *word) {
    for (; *word; word++) {
        const option *o = find_letter(p->v, *word);
        if (!o && *word == 'h') {
            options_help(p->v);
            return EXIT_DONE;
        }
        if (!o) return usage_error(p->v, "there is no option -%c", *word);
        bool flag = o->kind == OPTION_FLAG || o->kind == OPTION_BOOL;
        const char *rest = !flag && word[1] ? word + 1 : NULL;
        if (rest && *rest == '=') rest++;
        int status = take(p, o, rest);
        if (status >= 0 || !flag) return status;
    }
    return -1;
}

int options_parse(const verb *v, int argc, char **argv, void *settings, const char **operands,
                  int *n_operands) {
    parser p = {.v = v, .argc = argc, .argv = argv, .settings = settings};
    bool only_operands = false;
    *n_operands = 0;
    for (p.at = 0; p.at < argc; p.at++) {
        const char *word = argv[p.at];
        int status = -1;
        if (only_operands || word[0] != '-' || word[1] == '\0')
            operands[(*n_operands)++] = word;
        else if (strcmp(word, "--") == 0)
            only_operands = true;
        else
            status = word[1] == '-' ? take_long(&p, word + 2) : take_letters(&p, word + 1);
        if (status >= 0) return status;
    }
    if (*n_operands < v->min_operands)
        return usage_error(v, "what to %s is missing: vocis %s %s", v->name, v->name, v->usage);
    if (v->max_operands >= 0 && *n_operands > v->max_operands)
        return usage_error(v, "\"%s\" is one word too many", operands[v->max_operands]);
    return -1;
}

/* ---- help ----------------------------------------------------------------------------------- */

/* Prints words from column `at` on, broken before WIDTH, later lines indented. */
static void wrap(const char *text, int at, int indent) {
    int column = at;
    while (*text) {
        size_t length = strcspn(text, " \n");
        if (column > indent && column + 1 + (int)length > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)length, text);
        column += (int)length;
        text += length;
        if (*text == '\n') {
            printf("\n%*s", indent, "");
            column = indent;
        }
        text += *text ? 1 : 0;
    }
    putchar('\n');
}

static void help_option(const option *o) {
    char left[96];
    if (o->kind == OPTION_GROUP) {
        printf("\n%s:\n", o->help);
        return;
    }
    if (!o->help) return;
    char letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c, ", o->letter);
    const char *argument = o->argument ? o->argument : o->kind == OPTION_BOOL ? "[BOOL]" : NULL;
    int n = snprintf(left, sizeof left, "  %s--%s%s%s", letter, o->name, argument ? " " : "",
                     argument ? argument : "");
    if (n >= COLUMN - 1)
        printf("%s\n%*s", left, COLUMN, "");
    else
        printf("%-*s", COLUMN, left);
    wrap(o->help, COLUMN, COLUMN);
}

void options_help(const verb *v) {
    printf("Usage: vocis %s %s\n\n", v->name, v->usage);
    wrap(v->about, 0, 0);
    if (v->options->kind != OPTION_GROUP) printf("\n");
    for (const option *o = v->options; o->kind != OPTION_END; o++) help_option(o);
    printf("  -h, --help              print this text\n");
    if (v->notes) printf("\n%s", v->notes);
}
