/* SPDX-License-Identifier: MIT
 *
 * Completions of bash, zsh and fish, made from the tables of options.
 */
#include "options.h"
#include "report.h"
#include "vocis.h"

#include <string.h>

static bool takes_value(const option *o) {
    return o->kind != OPTION_FLAG && o->kind != OPTION_BOOL && o->kind != OPTION_GROUP;
}

static bool is_shown(const option *o) {
    return o->name && o->help;
}

static bool is_argument(const option *o, const char *argument) {
    return o->argument && strcmp(o->argument, argument) == 0;
}

static void print_models(void) {
    vocis_known_model m;
    for (int i = 0; vocis_known_model_get(i, &m) == VOCIS_OK; i++)
        output_printf("%s%s", i ? " " : "", m.name);
}

static void print_languages(void) {
    for (int i = 0; i < vocis_language_count(); i++)
        output_printf("%s%s", i ? " " : "", vocis_language_code(i));
}

/* The words that may follow an option; false when it takes a file or anything. */
static bool print_values(const option *o) {
    if (o->choices)
        output_puts(o->choices);
    else if (o->kind == OPTION_LANGUAGE || o->kind == OPTION_LANGUAGES)
        print_languages();
    else if (o->name && strcmp(o->name, "model") == 0)
        print_models();
    else if (is_argument(o, "LEVEL"))
        output_puts("c avx2 avx512 neon");
    else
        return false;
    return true;
}

static void print_operands(const verb *v) {
    if (v->operands == OPERAND_MODELS) print_models();
    if (v->operands == OPERAND_WORDS) output_puts(v->words);
}

/* ---- bash ----------------------------------------------------------------------------------- */

static void bash_value(const verb *v, const option *o) {
    output_printf("        %s:--%s", v->name, o->name);
    if (o->letter) output_printf("|%s:-%c", v->name, o->letter);
    output_puts(") ");
    if (is_argument(o, "DIR")) {
        output_puts("COMPREPLY=($(compgen -d -- \"$cur\"))");
    } else if (is_argument(o, "FILE")) {
        output_puts("COMPREPLY=($(compgen -f -- \"$cur\"))");
    } else {
        output_puts("COMPREPLY=($(compgen -W '");
        if (print_values(o) && o->name && strcmp(o->name, "model") == 0)
            output_puts("' -- \"$cur\") $(compgen -f -- \"$cur\"))");
        else
            output_puts("' -- \"$cur\"))");
    }
    output_puts("; return ;;\n");
}

static void print_bash(void) {
    output_puts("# bash completion for vocis, made by: vocis completion bash\n"
                "_vocis() {\n"
                "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                "    local verb=${COMP_WORDS[1]}\n"
                "    compopt -o filenames 2>/dev/null\n"
                "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
                "        COMPREPLY=($(compgen -W '");
    for (int i = 0; verbs[i]; i++) output_printf("%s ", verbs[i]->name);
    output_puts("--help --version' -- \"$cur\"))\n        return\n    fi\n"
                "    case \"$verb:$prev\" in\n");
    for (int i = 0; verbs[i]; i++)
        for (const option *o = verbs[i]->options; o->kind != OPTION_END; o++)
            if (is_shown(o) && takes_value(o)) bash_value(verbs[i], o);
    output_puts("    esac\n    case \"$verb\" in\n");
    for (int i = 0; verbs[i]; i++) {
        const verb *v = verbs[i];
        output_printf("        %s)\n            case \"$cur\" in\n"
                      "                -*) COMPREPLY=($(compgen -W '--help",
                      v->name);
        for (const option *o = v->options; o->kind != OPTION_END; o++)
            if (is_shown(o)) output_printf(" --%s", o->name);
        output_puts("' -- \"$cur\")) ;;\n                *) COMPREPLY=(");
        if (v->operands == OPERAND_MODELS || v->operands == OPERAND_WORDS) {
            output_puts("$(compgen -W '");
            print_operands(v);
            output_puts("' -- \"$cur\") ");
        }
        if (v->operands == OPERAND_MODELS || v->operands == OPERAND_FILES)
            output_puts("$(compgen -f -- \"$cur\")");
        output_puts(") ;;\n            esac ;;\n");
    }
    output_puts("    esac\n}\ncomplete -F _vocis vocis\n");
}

/* ---- zsh ------------------------------------------------------------------------------------ */

/* Help inside '...' and [...]: quotes, brackets and colons are escaped. */
static void zsh_text(const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            output_puts("'\\''");
        else if (strchr("[]:\\`$\"", *text))
            output_printf("\\%c", *text);
        else
            output_write(text, 1);
    }
}

static void zsh_action(const option *o) {
    output_printf(":%s:", o->argument ? o->argument : "value");
    if (is_argument(o, "DIR")) {
        output_puts("_files -/");
    } else if (is_argument(o, "FILE")) {
        output_puts("_files");
    } else {
        output_puts("(");
        print_values(o);
        output_puts(")");
    }
}

static void print_zsh(void) {
    output_puts("#compdef vocis\n# zsh completion for vocis, made by: vocis completion zsh\n"
                "_vocis() {\n    local -a verbs=(\n");
    for (int i = 0; verbs[i]; i++) {
        output_printf("        '%s:", verbs[i]->name);
        zsh_text(verbs[i]->summary);
        output_puts("'\n");
    }
    output_puts("    )\n    if (( CURRENT == 2 )); then\n        _describe verb verbs\n"
                "        return\n    fi\n    local verb=$words[2]\n    shift words\n"
                "    (( CURRENT-- ))\n    case $verb in\n");
    for (int i = 0; verbs[i]; i++) {
        const verb *v = verbs[i];
        output_printf("        %s)\n            _arguments -s \\\n", v->name);
        for (const option *o = v->options; o->kind != OPTION_END; o++) {
            if (!is_shown(o)) continue;
            for (int letter = 0; letter <= (o->letter != 0); letter++) {
                if (letter)
                    output_printf("                '-%c[", o->letter);
                else
                    output_printf("                '--%s[", o->name);
                zsh_text(o->help);
                output_puts("]");
                if (takes_value(o)) zsh_action(o);
                output_puts("' \\\n");
            }
        }
        if (v->operands == OPERAND_FILES) output_puts("                '*:file:_files' \\\n");
        if (v->operands == OPERAND_MODELS || v->operands == OPERAND_WORDS) {
            output_puts("                '*:name:(");
            print_operands(v);
            output_puts(")' \\\n");
        }
        output_puts("                '--help[print help]' ;;\n");
    }
    output_puts("    esac\n}\n"
                "if [ \"$funcstack[1]\" = _vocis ]; then _vocis \"$@\"; else "
                "compdef _vocis vocis; fi\n");
}

/* ---- fish ----------------------------------------------------------------------------------- */

static void fish_text(const char *text) {
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\') output_puts("\\");
        output_write(text, 1);
    }
}

static void fish_option(const verb *v, const option *o) {
    output_printf("complete -c vocis -n '__fish_seen_subcommand_from %s' -l %s", v->name, o->name);
    if (o->letter) output_printf(" -s %c", o->letter);
    if (takes_value(o)) {
        output_puts(is_argument(o, "DIR") || is_argument(o, "FILE") ? " -r -F" : " -x -a '");
        if (!is_argument(o, "DIR") && !is_argument(o, "FILE")) {
            print_values(o);
            output_puts("'");
        }
    }
    output_puts(" -d '");
    fish_text(o->help);
    output_puts("'\n");
}

static void print_fish(void) {
    output_puts("# fish completion for vocis, made by: vocis completion fish\n"
                "complete -c vocis -n __fish_use_subcommand -f\n"
                "complete -c vocis -n __fish_use_subcommand -l version -d 'print the version'\n"
                "complete -c vocis -l help -s h -d 'print help'\n");
    for (int i = 0; verbs[i]; i++) {
        const verb *v = verbs[i];
        output_printf("complete -c vocis -n __fish_use_subcommand -a %s -d '", v->name);
        fish_text(v->summary);
        output_puts("'\n");
        for (const option *o = v->options; o->kind != OPTION_END; o++)
            if (is_shown(o)) fish_option(v, o);
        if (v->operands == OPERAND_MODELS || v->operands == OPERAND_WORDS) {
            output_printf("complete -c vocis -n '__fish_seen_subcommand_from %s'%s -a '", v->name,
                          v->operands == OPERAND_WORDS ? " -f" : "");
            print_operands(v);
            output_puts("'\n");
        }
    }
}

int completion_print(const char *shell) {
    if (strcmp(shell, "bash") == 0) print_bash();
    if (strcmp(shell, "zsh") == 0) print_zsh();
    if (strcmp(shell, "fish") == 0) print_fish();
    return output_flush() ? EXIT_DONE : EXIT_FAILED;
}
