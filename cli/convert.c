/* SPDX-License-Identifier: MIT
 *
 * vocis convert: a model in another type of numbers, as a folder that MLX's programs load.
 */
#include "report.h"
#include "speech.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RECORDINGS = 256 };

typedef struct settings {
    const char *calibrate[MOST_RECORDINGS + 1];
    const char *dtype, *group, *keep, *cache_dir;
    bool force, offline, quiet;
    const char *out;
} settings;

static const option options[] = {
    {OPTION_CHOICE, "dtype", 'd', "TYPE",
     "f32, f16 or bf16; int8 or int4: whole numbers in groups with a scale and a bias (f16)",
     .at = offsetof(settings, dtype), .choices = "f32 f16 bf16 int8 int4"},
    {OPTION_CHOICE, "group", 'g', "N", "int8, int4: weights in a group, 32, 64 or 128 (64)",
     .at = offsetof(settings, group), .choices = "32 64 128"},
    {OPTION_TEXT, "keep", 'k', "PATTERNS",
     "int8, int4: layers that stay f16: names with * and ?, separated by commas (none)",
     .at = offsetof(settings, keep)},
    {OPTION_REPEAT, "calibrate", 'c', "FILE",
     "int4: a recording of speech; what the model computes on it decides which weights are kept "
     "more exactly (AWQ). May be repeated; some minutes do",
     .at = offsetof(settings, calibrate), .max = MOST_RECORDINGS},
    {OPTION_REPEAT, "awq", 0, "FILE", NULL, .at = offsetof(settings, calibrate),
     .max = MOST_RECORDINGS},
    {OPTION_FLAG, "force", 0, NULL, "replace what an earlier conversion wrote to OUT",
     .at = offsetof(settings, force)},
    {OPTION_TEXT, "cache-dir", 0, "DIR", "where models are kept ($VOCIS_CACHE or ~/.cache/vocis)",
     .at = offsetof(settings, cache_dir)},
    {OPTION_FLAG, "offline", 0, NULL, "never download anything", .at = offsetof(settings, offline)},
    {OPTION_FLAG, "quiet", 'q', NULL, "no progress and no notes; warnings and errors stay",
     .at = offsetof(settings, quiet)},
    {.kind = OPTION_END},
};

static bool on_progress(void *user, int64_t done, int64_t total) {
    const settings *s = user;
    char have[16], all[16], behind[48];
    if (done == 0) {
        progress_draw(s->out, 0, "listening");
        return !interrupted();
    }
    format_bytes(done, have, sizeof have);
    format_bytes(total, all, sizeof all);
    snprintf(behind, sizeof behind, "%s of %s", have, all);
    progress_draw(s->out, total > 0 ? (double)done / (double)total : 0, behind);
    return !interrupted();
}

static int check_settings(const verb *v, const settings *s) {
    bool quantised = s->dtype && strncmp(s->dtype, "int", 3) == 0;
    if (s->group && !quantised) return usage_error(v, "--group needs --dtype int8 or int4");
    if (s->keep && !quantised) return usage_error(v, "--keep needs --dtype int8 or int4");
    if (s->calibrate[0] && (!s->dtype || strcmp(s->dtype, "int4") != 0))
        return usage_error(v, "--calibrate needs --dtype int4");
    return -1;
}

/* Only calibration computes. */
static vocis_status open_engine(const settings *s, vocis_engine **engine, vocis_error *err) {
    vocis_engine_params params = vocis_engine_default_params();
    *engine = NULL;
    params.log = report_log;
    return s->calibrate[0] ? vocis_engine_create(params, engine, err) : VOCIS_OK;
}

static int convert(const char *in, settings *s) {
    vocis_error err = {0};
    vocis_model_params find = vocis_model_default_params();
    vocis_convert_params params = vocis_convert_default_params();
    char *path = NULL;
    vocis_engine *engine = NULL;
    double begin = now();
    find.cache_dir = s->cache_dir;
    find.offline = s->offline;
    find.progress = progress_download;
    if (s->dtype) params.dtype = s->dtype;
    if (s->group) params.group_size = (int)strtol(s->group, NULL, 10);
    params.keep = s->keep;
    if (s->calibrate[0]) params.calibrate = s->calibrate;
    params.overwrite = s->force;
    params.progress = on_progress;
    params.progress_user = s;
    vocis_status status = vocis_model_find(NULL, in, find, &path, &err);
    progress_clear();
    if (status == VOCIS_OK) status = open_engine(s, &engine, &err);
    if (status == VOCIS_OK) status = vocis_model_convert(engine, path, s->out, params, &err);
    progress_clear();
    vocis_free(path);
    vocis_engine_destroy(engine);
    if (status != VOCIS_OK && interrupted()) return EXIT_INTERRUPTED;
    if (status != VOCIS_OK) report_error(in, status, err.message);
    if (status == VOCIS_OK) report_note("%s: %s in %.1f s", s->out, params.dtype, now() - begin);
    return status == VOCIS_OK ? EXIT_DONE : EXIT_FAILED;
}

static int run(const verb *v, int argc, char **argv) {
    settings s = {0};
    int n;
    const char **names = checked(calloc((size_t)argc + 1, sizeof *names));
    int status = options_parse(v, argc, argv, &s, names, &n);
    report_configure(s.quiet, false);
    if (status < 0) status = check_settings(v, &s);
    if (status < 0) {
        s.out = names[1];
        status = convert(names[0], &s);
    }
    free(names);
    return status;
}

const verb verb_convert = {
    .name = "convert",
    .summary = "write a model in another type of numbers",
    .usage = "[options] IN OUT",
    .about =
        "Writes a model as a new folder OUT in the layout of MLX, which mlx-whisper, mlx-audio "
        "and vocis load. IN is a name of vocis models, owner/repo of the Hugging Face hub, or "
        "a path: CTranslate2, safetensors of Hugging Face and MLX, or ggml. It is fetched "
        "when it is not there.",
    .notes = "Quantised are the linear layers and the embedding of tokens; convolutions,\n"
             "norms, biases and positions stay f16, and so does what --keep names.\n"
             "\n"
             "Examples:\n"
             "  vocis convert base base-int8 --dtype int8\n"
             "  vocis convert small small-int4 --dtype int4 --keep 'encoder.blocks.0.*'\n"
             "  vocis convert base base-int4 --dtype int4 --calibrate talk.mp3\n"
             "  vocis transcribe --model ./base-int8 talk.mp3\n",
    .options = options,
    .operands = OPERAND_MODELS,
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
