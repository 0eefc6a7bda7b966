/* SPDX-License-Identifier: MIT
 *
 * From a path to bytes: which file of a folder holds the weights, which reader takes them, and a
 * helpful sentence for the formats that are refused on purpose.
 */
#include "formats/open.h"

#include "base/memory.h"
#include "formats/json.h"

#include <string.h>

enum { MAX_SHARDS = 1024, MAX_INDEX_BYTES = 64 * 1024 * 1024 };

static const vo_weight_format *const formats[] = {
    &vo_weight_format_safetensors, &vo_weight_format_ctranslate2, &vo_weight_format_ggml};

/* ---- what is it? ------------------------------------------------------------------------ */

static bool begins(const unsigned char *data, size_t size, const char *magic, size_t n) {
    return size >= n && memcmp(data, magic, n) == 0;
}

static bool contains(const unsigned char *data, size_t size, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(data + i, word, n) == 0) return true;
    return false;
}

/* A sentence for files that people do have but that are not read here. */
static vo_status refuse(const unsigned char *data, size_t size, const char *file_name,
                        vo_error *err) {
    size_t head = size < 1024 ? size : 1024;
    if (size == 0) return vo_fail(err, VO_ERR_FORMAT, "%s: the file is empty", file_name);
    if (begins(data, size, "GGUF", 4))
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s is a GGUF file, which is not read; use the model as safetensors, "
                       "CTranslate2 or whisper.cpp's ggml-*.bin",
                       file_name);
    if (begins(data, size, "PK\003\004", 4)) {
        if (contains(data, head, ".npy"))
            return vo_fail(err, VO_ERR_UNSUPPORTED,
                           "%s is a NumPy archive (.npz), which is not read; save the arrays as "
                           "weights.safetensors with mlx.core.save_safetensors",
                           file_name);
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s is a PyTorch checkpoint, which can run code and is not read; convert "
                       "it with tools/convert/pt_to_safetensors.py",
                       file_name);
    }
    if (begins(data, size, "\x80\x02", 2))
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s is a Python pickle, which can run code and is not read; convert it "
                       "with tools/convert/pt_to_safetensors.py",
                       file_name);
    if (begins(data, size, "version https://git-lfs", 23))
        return vo_fail(err, VO_ERR_FORMAT,
                       "%s is a Git LFS pointer, not the weights; fetch them with git lfs pull",
                       file_name);
    if (begins(data, size, "lmgg", 4))
        return vo_fail(err, VO_ERR_FORMAT, "%s: cut off: a ggml file of %zu bytes", file_name,
                       size);
    return vo_fail(err, VO_ERR_FORMAT,
                   "%s is no weight file that is known here (safetensors, CTranslate2, ggml)",
                   file_name);
}

vo_status vo_weight_format_recognise(const unsigned char *data, size_t size, const char *file_name,
                                     const vo_weight_format **format, vo_error *err) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (formats[i]->matches(data, size)) {
            *format = formats[i];
            return VO_OK;
        }
    }
    return refuse(data, size, file_name, err);
}

/* ---- one file, many files --------------------------------------------------------------- */

static vo_status read_path(vo_weights *w, const char *path, vo_error *err) {
    vo_map map = {0};
    vo_status status = vo_map_open(path, &map, err);
    if (status != VO_OK) return status;
    const unsigned char *data = map.data;
    size_t size = map.size;
    status = vo_weights_take_map(w, &map, err);
    if (status != VO_OK) return status;
    return vo_weights_read(w, data, size, path, err);
}

/* Shards lie beside their index: a name with a folder in it could reach any file. */
static bool plain_name(const char *name) {
    return name[0] != '\0' && name[0] != '.' && strpbrk(name, "/\\:") == NULL;
}

static vo_status read_shard(vo_weights *w, const char *index_path, const char *folder,
                            const char *name, vo_error *err) {
    if (!plain_name(name))
        return vo_fail(err, VO_ERR_FORMAT, "%s: the shard name %.80s is not a plain file name",
                       index_path, name);
    char *path = vo_path_join(folder, name);
    if (path == NULL) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", index_path);
    vo_status status = read_path(w, path, err);
    vo_free(path);
    return status;
}

/* The distinct file names of weight_map as keys, in order of appearance. */
static vo_status list_shards(const json_t *weight_map, const char *path, json_t *shards,
                             vo_error *err) {
    const char *tensor;
    json_t *file;
    json_object_foreach((json_t *)weight_map, tensor, file) {
        if (!json_is_string(file))
            return vo_fail(err, VO_ERR_FORMAT, "%s: the shard of %.80s is not a string", path,
                           tensor);
        if (json_object_set_new(shards, json_string_value(file), json_true()) != 0)
            return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", path);
        if (json_object_size(shards) > MAX_SHARDS)
            return vo_fail(err, VO_ERR_LIMIT, "%s: more than %d shards", path, (int)MAX_SHARDS);
    }
    if (json_object_size(shards) == 0)
        return vo_fail(err, VO_ERR_FORMAT, "%s: weight_map is empty", path);
    return VO_OK;
}

/* Every shard that the index names, then a check that every tensor it promises is there. */
static vo_status read_index(vo_weights *w, const char *path, const char *folder, vo_error *err) {
    vo_status status;
    char *text = NULL;
    size_t size = 0;
    const char *name;
    json_t *value, *root = NULL, *shards = json_object();
    json_error_t why;

    status = vo_file_read(path, MAX_INDEX_BYTES, &text, &size, err);
    if (status != VO_OK) goto fail;
    root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    json_t *weight_map = json_object_get(root, "weight_map");
    if (!json_is_object(weight_map)) {
        status = root == NULL ? vo_fail(err, vo_json_status(&why), "%s: %s", path, why.text)
                              : vo_fail(err, VO_ERR_FORMAT, "%s: it has no weight_map", path);
        goto fail;
    }
    status = list_shards(weight_map, path, shards, err);
    if (status != VO_OK) goto fail;
    json_object_foreach(shards, name, value) {
        status = read_shard(w, path, folder, name, err);
        if (status != VO_OK) goto fail;
    }
    json_object_foreach(weight_map, name, value) {
        if (vo_weights_find(w, name) == NULL) {
            status =
                vo_fail(err, VO_ERR_FORMAT, "%s: the shards lack the tensor %.200s", path, name);
            goto fail;
        }
    }
fail:
    json_decref(shards);
    json_decref(root);
    vo_free(text);
    return status;
}

/* ---- folders ---------------------------------------------------------------------------- */

/* True for a JSON file; only the index of a sharded model is one here. */
static bool is_index(const char *path) {
    size_t n = strlen(path);
    return n > 11 && strcmp(path + n - 11, ".index.json") == 0;
}

static char *parent_folder(const char *path) {
    size_t n = (size_t)(vo_path_base(path) - path);
    if (n == 0) return vo_strdup(".");
    return vo_strndup(path, n > 1 ? n - 1 : n);
}

/* The file of a folder that holds its weights in fresh memory; NULL when there is none. */
static vo_status pick_file(const char *folder, const char *const *names, size_t n, char **path,
                           vo_error *err) {
    *path = NULL;
    for (size_t i = 0; i < n && *path == NULL; i++) {
        char *candidate = vo_path_join(folder, names[i]);
        if (candidate == NULL) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", folder);
        if (vo_path_exists(candidate) && !vo_path_is_dir(candidate))
            *path = candidate;
        else
            vo_free(candidate);
    }
    return VO_OK;
}

static vo_status find_in_folder(const char *folder, char **path, vo_error *err) {
    static const char *const readable[] = {"model.safetensors", "model.safetensors.index.json",
                                           "weights.safetensors", "model.bin"};
    /* opening one of these gives the sentence that says how to convert it */
    static const char *const refused[] = {"weights.npz", "pytorch_model.bin", "model.pt"};
    vo_status status = pick_file(folder, readable, sizeof readable / sizeof readable[0], path, err);
    if (status == VO_OK && *path == NULL)
        status = pick_file(folder, refused, sizeof refused / sizeof refused[0], path, err);
    if (status != VO_OK || *path != NULL) return status;
    return vo_fail(err, VO_ERR_NOT_FOUND,
                   "%s holds no weights: none of model.safetensors, weights.safetensors and "
                   "model.bin is there",
                   folder);
}

vo_status vo_weights_open(const char *path, vo_weights **weights, vo_error *err) {
    char *file = NULL, *folder = NULL;
    vo_status status = VO_OK;

    *weights = NULL;
    if (vo_path_is_dir(path)) {
        status = find_in_folder(path, &file, err);
        if (status != VO_OK) return status;
        folder = vo_strdup(path);
    } else if (vo_path_exists(path)) {
        file = vo_strdup(path);
        folder = parent_folder(path);
    } else {
        return vo_fail(err, VO_ERR_NOT_FOUND, "%s: no such file or folder", path);
    }
    if (file == NULL || folder == NULL) {
        status = vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", path);
        goto fail;
    }
    status = vo_weights_create(weights, err);
    if (status != VO_OK) goto fail;
    status =
        is_index(file) ? read_index(*weights, file, folder, err) : read_path(*weights, file, err);
    if (status != VO_OK) goto fail;
    vo_weights_set_folder(*weights, folder);
    folder = NULL;
    status = vo_weights_finish(*weights, err);
fail:
    vo_free(file);
    vo_free(folder);
    if (status != VO_OK) {
        vo_weights_close(*weights);
        *weights = NULL;
    }
    return status;
}
