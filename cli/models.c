/* SPDX-License-Identifier: MIT
 *
 * vocis models, pull and inspect: what can be had, fetching it, and what is in it.
 */
#include "report.h"
#include "speech.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- models --------------------------------------------------------------------------------- */

typedef struct list_settings {
    const char *cache_dir;
    bool json;
} list_settings;

static const option list_options[] = {
    {OPTION_TEXT, "cache-dir", 0, "DIR", "where models are kept ($VOCIS_CACHE or ~/.cache/vocis)",
     .at = offsetof(list_settings, cache_dir)},
    {OPTION_FLAG, "json", 0, NULL, "print a JSON array, with paths, sizes and licences",
     .at = offsetof(list_settings, json)},
    {.kind = OPTION_END},
};

static bool list_json(const char *cache_dir) {
    json_t *list = json_array();
    vocis_known_model m;
    for (int i = 0; vocis_known_model_get(i, &m) == VOCIS_OK; i++) {
        char *path = vocis_known_model_path(m.name, cache_dir);
        char *shown = path ? clean_line(path) : NULL;
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o}", "name", m.name,
                                        "family", m.family, "repo", m.repo, "licence", m.licence,
                                        "description", m.description, "bytes", (json_int_t)m.bytes,
                                        "path", shown ? json_string(shown) : json_null()));
        free(shown);
        vocis_free(path);
    }
    char *text = checked(json_dumps(list, JSON_INDENT(2)));
    bool good = output_printf("%s\n", text);
    free(text);
    json_decref(list);
    return good;
}

static bool list_table(const char *cache_dir) {
    vocis_known_model m;
    char size[16];
    bool good = output_printf("%-16s %8s  %-5s  %s\n", "NAME", "SIZE", "HERE", "WHAT");
    for (int i = 0; good && vocis_known_model_get(i, &m) == VOCIS_OK; i++) {
        char *path = vocis_known_model_path(m.name, cache_dir);
        format_bytes(m.bytes, size, sizeof size);
        good =
            output_printf("%-16s %8s  %-5s  %s\n", m.name, size, path ? "yes" : "-", m.description);
        vocis_free(path);
    }
    return good;
}

static int run_models(const verb *v, int argc, char **argv) {
    list_settings s = {0};
    int n;
    const char **operands = checked(calloc((size_t)argc + 1, sizeof *operands));
    int status = options_parse(v, argc, argv, &s, operands, &n);
    free(operands);
    if (status >= 0) return status;
    bool good = s.json ? list_json(s.cache_dir) : list_table(s.cache_dir);
    return good ? EXIT_DONE : EXIT_FAILED;
}

const verb verb_models = {
    .name = "models",
    .summary = "list the models that have a name, and which are here",
    .usage = "[options]",
    .about = "Lists the models that vocis knows by name, their sizes, and whether they are on this "
             "machine: in the cache of vocis or in that of the Hugging Face hub.",
    .notes = "Examples:\n"
             "  vocis models\n"
             "  vocis models --json | jq -r '.[] | select(.path) | .path'\n",
    .options = list_options,
    .operands = OPERAND_NONE,
    .max_operands = 0,
    .run = run_models,
};

/* ---- pull ----------------------------------------------------------------------------------- */

typedef struct pull_settings {
    const char *cache_dir;
    bool quiet, offline;
} pull_settings;

static const option pull_options[] = {
    {OPTION_TEXT, "cache-dir", 0, "DIR", "where models are kept ($VOCIS_CACHE or ~/.cache/vocis)",
     .at = offsetof(pull_settings, cache_dir)},
    {OPTION_FLAG, "offline", 0, NULL, "only look: fail for what is not here",
     .at = offsetof(pull_settings, offline)},
    {OPTION_FLAG, "quiet", 'q', NULL, "no progress and no notes; warnings and errors stay",
     .at = offsetof(pull_settings, quiet)},
    {.kind = OPTION_END},
};

/* An engine only carries the log; without one the download is silent. */
static bool pull(const char *name, vocis_engine *engine, vocis_model_params params) {
    vocis_error err = {0};
    char *path = NULL;
    vocis_status status = vocis_model_find(engine, name, params, &path, &err);
    progress_clear();
    if (status != VOCIS_OK && !interrupted()) report_error(name, status, err.message);
    if (status == VOCIS_OK) output_printf("%s\n", path);
    vocis_free(path);
    return status == VOCIS_OK && output_flush();
}

static int run_pull(const verb *v, int argc, char **argv) {
    pull_settings s = {0};
    int n, failed = 0;
    const char **names = checked(calloc((size_t)argc + 1, sizeof *names));
    int status = options_parse(v, argc, argv, &s, names, &n);
    if (status < 0) {
        vocis_engine *engine = NULL;
        vocis_engine_params e = vocis_engine_default_params();
        vocis_model_params params = vocis_model_default_params();
        report_configure(s.quiet, false);
        e.threads = 1;
        e.log = report_log;
        params.cache_dir = s.cache_dir;
        params.offline = s.offline;
        params.progress = progress_download;
        vocis_engine_create(e, &engine, NULL);
        for (int i = 0; i < n && !interrupted(); i++) failed += !pull(names[i], engine, params);
        vocis_engine_destroy(engine);
        status = interrupted() ? EXIT_INTERRUPTED : failed ? EXIT_FAILED : EXIT_DONE;
    }
    free(names);
    return status;
}

const verb verb_pull = {
    .name = "pull",
    .summary = "fetch models",
    .usage = "[options] NAME...",
    .about =
        "Makes sure that models are on this machine and prints where each lies. NAME is one of "
        "vocis models, or owner/repo of the Hugging Face hub. What was interrupted goes on "
        "where it stopped; every file is checked before it is put in place.",
    .notes = "Environment: HF_ENDPOINT (a mirror), HF_TOKEN, HF_HOME, HF_HUB_CACHE,\n"
             "HF_HUB_OFFLINE, VOCIS_CACHE, XDG_CACHE_HOME.\n"
             "\n"
             "Examples:\n"
             "  vocis pull base\n"
             "  vocis pull tiny.en Systran/faster-whisper-small\n",
    .options = pull_options,
    .operands = OPERAND_MODELS,
    .min_operands = 1,
    .max_operands = -1,
    .run = run_pull,
};

/* ---- inspect -------------------------------------------------------------------------------- */

typedef struct inspect_settings {
    const char *cache_dir;
    bool tensors, json;
} inspect_settings;

static const option inspect_options[] = {
    {OPTION_FLAG, "tensors", 0, NULL, "list every tensor with its type and shape",
     .at = offsetof(inspect_settings, tensors)},
    {OPTION_FLAG, "json", 0, NULL, "print JSON", .at = offsetof(inspect_settings, json)},
    {OPTION_TEXT, "cache-dir", 0, "DIR", "where models are kept ($VOCIS_CACHE or ~/.cache/vocis)",
     .at = offsetof(inspect_settings, cache_dir)},
    {.kind = OPTION_END},
};

static json_int_t number(const json_t *object, const char *key) {
    return json_integer_value(json_object_get(object, key));
}

static void print_tensors(const json_t *tensors) {
    size_t i;
    json_t *t, *dim;
    json_array_foreach(tensors, i, t) {
        size_t d;
        char *name = clean_line(json_string_value(json_object_get(t, "name")));
        output_printf("  %-12s [", json_string_value(json_object_get(t, "dtype")));
        json_array_foreach(json_object_get(t, "shape"), d, dim)
            output_printf("%s%lld", d ? ", " : "", (long long)json_integer_value(dim));
        output_printf("]  %s\n", name);
        free(name);
    }
}

static void print_facts(const json_t *facts) {
    char size[16];
    const char *key;
    json_t *value;
    char *path = clean_line(json_string_value(json_object_get(facts, "path")));
    format_bytes(number(facts, "bytes"), size, sizeof size);
    output_printf("path        %s\n", path);
    output_printf("format      %s\n", json_string_value(json_object_get(facts, "format")));
    output_printf("layout      %s\n", json_string_value(json_object_get(facts, "layout")));
    output_printf("on disk     %s\n", size);
    output_printf("parameters  %.1f M in %lld tensors\n", (double)number(facts, "parameters") / 1e6,
                  (long long)number(facts, "tensor_count"));
    json_object_foreach(json_object_get(facts, "dtypes"), key, value) {
        format_bytes(number(value, "bytes"), size, sizeof size);
        output_printf("  %-12s %5lld tensors %9s\n", key, (long long)number(value, "tensors"),
                      size);
    }
    const json_t *w = json_object_get(facts, "whisper");
    if (w) {
        output_printf("whisper     %s, %lld mel bands, vocabulary of %lld\n",
                      number(w, "n_vocab") >= 51865 ? "multilingual" : "English only",
                      (long long)number(w, "n_mels"), (long long)number(w, "n_vocab"));
        output_printf("  encoder   %lld layers of %lld, %lld heads, %lld positions\n",
                      (long long)number(w, "n_audio_layer"), (long long)number(w, "n_audio_state"),
                      (long long)number(w, "n_audio_head"), (long long)number(w, "n_audio_ctx"));
        output_printf("  decoder   %lld layers of %lld, %lld heads, %lld positions\n",
                      (long long)number(w, "n_text_layer"), (long long)number(w, "n_text_state"),
                      (long long)number(w, "n_text_head"), (long long)number(w, "n_text_ctx"));
    }
    if (json_object_get(facts, "tensors")) {
        output_puts("tensors\n");
        print_tensors(json_object_get(facts, "tensors"));
    }
    free(path);
}

static int inspect(const char *name, const inspect_settings *s) {
    vocis_error err = {0};
    vocis_model_params params = vocis_model_default_params();
    char *path = NULL, *json = NULL;
    params.cache_dir = s->cache_dir;
    params.offline = true;
    vocis_status status = vocis_model_find(NULL, name, params, &path, &err);
    if (status == VOCIS_OK) status = vocis_model_inspect(path, s->tensors, &json, &err);
    json_t *facts = json ? json_loads(json, 0, NULL) : NULL;
    if (status != VOCIS_OK) {
        report_error(name, status, err.message);
    } else if (s->json) {
        output_puts(json);
        output_puts("\n");
    } else {
        print_facts(facts);
    }
    json_decref(facts);
    vocis_free(json);
    vocis_free(path);
    return status == VOCIS_OK && output_flush() ? EXIT_DONE : EXIT_FAILED;
}

static int run_inspect(const verb *v, int argc, char **argv) {
    inspect_settings s = {0};
    int n;
    const char **names = checked(calloc((size_t)argc + 1, sizeof *names));
    int status = options_parse(v, argc, argv, &s, names, &n);
    if (status < 0) status = inspect(names[0], &s);
    free(names);
    return status;
}

const verb verb_inspect = {
    .name = "inspect",
    .summary = "show what a model file holds",
    .usage = "[options] MODEL",
    .about =
        "Shows format, layout, sizes and types of a model, without loading it. MODEL is a file, "
        "a folder, or the name of a model that is on this machine: CTranslate2, safetensors "
        "of Hugging Face and MLX, or ggml.",
    .notes = "Examples:\n"
             "  vocis inspect base\n"
             "  vocis inspect --tensors --json ./model.safetensors\n",
    .options = inspect_options,
    .operands = OPERAND_MODELS,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_inspect,
};
