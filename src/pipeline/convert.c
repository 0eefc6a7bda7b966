/* SPDX-License-Identifier: MIT
 *
 * From any model that is read to a folder that MLX's programs load. The folder is made beside its
 * place and put there when it is whole, so that it is the old one, the new one or none at all,
 * never half of one.
 */
#include "pipeline/convert.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/format.h"
#include "models/whisper/alignment.h"
#include "models/whisper/export.h"
#include "pipeline/calibrate.h"
#include "pipeline/engine.h"
#include "pipeline/json.h"
#include "text/tokenizer.h"

#include <string.h>

/* What a conversion writes; nothing else is ever replaced. */
static const char weights_name[] = "weights.safetensors", config_name[] = "config.json",
                  generation_name[] = "generation_config.json",
                  preprocessor_name[] = "preprocessor_config.json",
                  tokenizer_name[] = "tokenizer.json",
                  tokenizer_config_name[] = "tokenizer_config.json";

/* ---- what was asked for ------------------------------------------------------------------ */

static vo_status read_params(const vocis_engine *engine, const vocis_convert_params *p,
                             vo_whisper_export_params *out, vo_error *err) {
    static const struct {
        const char *name;
        vo_dtype dtype;
        int bits;
    } known[] = {{"f32", VO_F32, 0},
                 {"f16", VO_F16, 0},
                 {"bf16", VO_BF16, 0},
                 {"int8", VO_F16, 8},
                 {"int4", VO_F16, 4}};
    *out = (vo_whisper_export_params){.group_size = p->group_size,
                                      .keep = p->keep,
                                      .progress = p->progress,
                                      .user = p->progress_user};
    if (p->group_size != 32 && p->group_size != 64 && p->group_size != 128)
        return vo_fail(err, VO_ERR_ARGUMENT, "a group has 32, 64 or 128 weights, not %d",
                       p->group_size);
    if (p->calibrate && (!engine || !p->calibrate[0] || !p->dtype || strcmp(p->dtype, "int4") != 0))
        return vo_fail(err, VO_ERR_ARGUMENT,
                       "only int4 is calibrated, with an engine and at least one recording");
    if (p->calibrate) out->pool = engine->pool;
    for (size_t i = 0; p->dtype && i < sizeof known / sizeof *known; i++) {
        if (strcmp(p->dtype, known[i].name) != 0) continue;
        out->dtype = known[i].dtype;
        out->bits = known[i].bits;
        return VO_OK;
    }
    return vo_fail(err, VO_ERR_ARGUMENT, "\"%s\" is none of f32, f16, bf16, int8, int4",
                   p->dtype ? p->dtype : "");
}

/* ---- the place --------------------------------------------------------------------------- */

typedef struct place {
    const char *folder;
    bool empty, overwrite;
    vo_error *err;
} place;

static vo_status check_entry(void *user, const char *name, bool is_dir) {
    static const char *const own[] = {weights_name,      config_name,    generation_name,
                                      preprocessor_name, tokenizer_name, tokenizer_config_name};
    place *p = user;
    p->empty = false;
    if (!p->overwrite)
        return vo_fail(p->err, VO_ERR_ARGUMENT, "%s exists already and is not empty", p->folder);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!is_dir && strcmp(name, own[i]) == 0) return VO_OK;
    return vo_fail(p->err, VO_ERR_ARGUMENT,
                   "%s holds %.80s, which no conversion has written: it is not replaced", p->folder,
                   name);
}

/* A place is free, empty, or holds an earlier conversion that may be replaced. */
static vo_status check_place(place *p, vo_error *err) {
    p->empty = true;
    p->err = err;
    if (!vo_path_exists(p->folder)) return VO_OK;
    if (!vo_path_is_dir(p->folder))
        return vo_fail(err, VO_ERR_ARGUMENT, "%s exists already and is no folder", p->folder);
    return vo_dir_list(p->folder, check_entry, p, err);
}

/* Puts the new folder where the old one is; that one comes back if the new one cannot be there. */
static vo_status put_in_place(const place *p, const char *made, vo_error *err) {
    if (p->empty) return vo_rename(made, p->folder, err); /* an empty folder gives way */
    char *old = vo_format("%s.old", made);
    if (!old) return vo_fail(err, VO_ERR_MEMORY, "no memory to write %s", p->folder);
    vo_status status = vo_rename(p->folder, old, err);
    if (status == VO_OK) {
        status = vo_rename(made, p->folder, err);
        if (status == VO_OK)
            status = vo_remove_tree(old, err);
        else
            vo_rename(old, p->folder, NULL);
    }
    vo_free(old);
    return status;
}

/* ---- the files beside the weights -------------------------------------------------------- */

static vo_status write_text(const char *folder, const char *name, const char *text, size_t size,
                            vo_error *err) {
    char *path = vo_path_join(folder, name);
    if (!path) return vo_fail(err, VO_ERR_MEMORY, "no memory to write %s", name);
    vo_status status = vo_file_write_atomic(path, text, size, err);
    vo_free(path);
    return status;
}

/* Takes the object, which is NULL when memory was short. */
static vo_status write_json(const char *folder, const char *name, json_t *o, vo_error *err) {
    vo_buf text = {0};
    if (o) vo_json_write(o, JSON_INDENT(2), &text);
    vo_buf_puts(&text, "\n");
    vo_status status = !o || text.failed
                           ? vo_fail(err, VO_ERR_MEMORY, "no memory to write %s", name)
                           : write_text(folder, name, text.data, text.size, err);
    vo_buf_free(&text);
    json_decref(o);
    return status;
}

/* mlx-whisper takes every key of this file but two for a size, so there is nothing else in it. */
static vo_status write_config(const char *folder, const vo_whisper_dims *d,
                              const vo_whisper_export_params *p, vo_error *err) {
    json_t *o = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "model_type",
                          "whisper", "n_mels", d->n_mels, "n_audio_ctx", d->n_audio_ctx,
                          "n_audio_state", d->n_audio_state, "n_audio_head", d->n_audio_head,
                          "n_audio_layer", d->n_audio_layer, "n_vocab", d->n_vocab, "n_text_ctx",
                          d->n_text_ctx, "n_text_state", d->n_text_state, "n_text_head",
                          d->n_text_head, "n_text_layer", d->n_text_layer);
    if (o && p->bits > 0 &&
        json_object_set_new(
            o, "quantization",
            json_pack("{s:i, s:i}", "group_size", p->group_size, "bits", p->bits)) != 0) {
        json_decref(o);
        o = NULL;
    }
    return write_json(folder, config_name, o, err);
}

/* The front end, as Hugging Face's processors want to be told. */
static vo_status write_preprocessor(const char *folder, const vo_whisper_dims *d, vo_error *err) {
    return write_json(folder, preprocessor_name,
                      json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:b}",
                                "feature_extractor_type", "WhisperFeatureExtractor",
                                "processor_class", "WhisperProcessor", "feature_size", d->n_mels,
                                "sampling_rate", VOCIS_SAMPLE_RATE, "hop_length", 160, "n_fft", 400,
                                "chunk_length", 30, "n_samples", 30 * VOCIS_SAMPLE_RATE,
                                "nb_max_frames", 3000, "padding_side", "right", "padding_value",
                                0.0, "return_attention_mask", 0),
                      err);
}

/* mlx-audio reads the heads for word times here, mlx-whisper among the weights. */
static vo_status write_generation(const char *folder, const vo_whisper_export_params *p,
                                  vo_error *err) {
    json_t *list = json_array();
    bool good = list != NULL;
    for (int i = 0; good && i < p->n_alignment_heads; i++)
        good =
            json_array_append_new(list, json_pack("[I, I]", (json_int_t)p->alignment_heads[2 * i],
                                                  (json_int_t)p->alignment_heads[2 * i + 1])) == 0;
    if (!good) {
        json_decref(list);
        list = NULL;
    }
    return write_json(folder, generation_name,
                      list ? json_pack("{s:o}", "alignment_heads", list) : NULL, err);
}

static vo_status write_tokenizer(const char *folder, const vo_whisper_dims *d, vo_error *err) {
    vo_tokenizer *tokenizer;
    vo_status status = vo_tokenizer_create(d->n_vocab, &tokenizer, err);
    if (status != VO_OK) return status;
    char *text = vo_tokenizer_json(tokenizer);
    vo_tokenizer_destroy(tokenizer);
    status = text ? write_text(folder, tokenizer_name, text, strlen(text), err)
                  : vo_fail(err, VO_ERR_MEMORY, "no memory to write %s", tokenizer_name);
    vo_free(text);
    if (status != VO_OK) return status;
    static const char end[] = "<|endoftext|>";
    return write_json(folder, tokenizer_config_name,
                      json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:i}", "tokenizer_class",
                                "WhisperTokenizer", "processor_class", "WhisperProcessor",
                                "bos_token", end, "eos_token", end, "unk_token", end, "pad_token",
                                end, "clean_up_tokenization_spaces", 0, "model_max_length", 1024),
                      err);
}

/* ---- all of it --------------------------------------------------------------------------- */

static vo_status write_folder(const char *folder, const vo_weights *weights,
                              vo_whisper_export_params *p, vo_error *err) {
    vo_whisper_dims dims;
    int64_t *heads = NULL;
    char *path = vo_path_join(folder, weights_name);
    if (!path) return vo_fail(err, VO_ERR_MEMORY, "no memory to write %s", folder);
    vo_status status = vo_whisper_read_dims(weights, &dims, err);
    if (status == VO_OK)
        status = vo_whisper_read_alignment(weights, &heads, &p->n_alignment_heads, err);
    p->alignment_heads = heads;
    if (status == VO_OK) status = write_config(folder, &dims, p, err);
    if (status == VO_OK) status = write_preprocessor(folder, &dims, err);
    if (status == VO_OK && heads) status = write_generation(folder, p, err);
    if (status == VO_OK) status = write_tokenizer(folder, &dims, err);
    if (status == VO_OK) status = vo_whisper_export(weights, p, path, err);
    vo_free(heads);
    vo_free(path);
    return status;
}

/* "a/b" for "a/b//": the new folder must lie beside the place, not in it. */
static char *without_slashes(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return vo_strndup(path, n);
}

static vo_status convert_opened(vocis_engine *engine, const char *path, const place *where,
                                const char *made, const vo_weights *weights,
                                vo_whisper_export_params *p, const vocis_convert_params *params,
                                vo_error *err) {
    vo_whisper_moments *moments = NULL;
    vo_status status = VO_OK;
    if (engine)
        vo_log_line(&engine->log, VO_LOG_INFO, "converting %s (%s) to %s", path,
                    vo_weights_format(weights), params->dtype);
    if (params->calibrate)
        status = vo_calibrate(engine, path, params->calibrate, params, &moments, err);
    p->moments = moments;
    if (status == VO_OK) status = vo_make_dirs(made, err);
    if (status == VO_OK) status = write_folder(made, weights, p, err);
    if (status == VO_OK) status = put_in_place(where, made, err);
    if (status != VO_OK) vo_remove_tree(made, NULL);
    vo_whisper_moments_destroy(moments);
    return status;
}

vo_status vo_convert(vocis_engine *engine, const char *path, const char *folder,
                     const vocis_convert_params *params, vo_error *err) {
    vo_whisper_export_params p;
    vo_weights *weights = NULL;
    vo_status status = read_params(engine, params, &p, err);
    if (status != VO_OK) return status;
    char *target = without_slashes(folder);
    char *made = target ? vo_temp_name(target) : NULL;
    place where = {.folder = target, .overwrite = params->overwrite};
    if (!made)
        status = vo_fail(err, VO_ERR_MEMORY, "no memory to convert %s", path);
    else
        status = check_place(&where, err);
    if (status == VO_OK) status = vo_weights_open(path, &weights, err);
    if (status == VO_OK)
        status = convert_opened(engine, path, &where, made, weights, &p, params, err);
    vo_weights_close(weights);
    vo_free(made);
    vo_free(target);
    return status;
}
