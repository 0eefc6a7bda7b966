/* SPDX-License-Identifier: MIT
 *
 * Which heads of cross-attention follow the audio is a finding about each model, not a part of
 * its network, and every publisher keeps it somewhere else.
 */
#include "base/dequantize.h"
#include "base/memory.h"
#include "formats/json.h"
#include "models/whisper/export.h"

static vo_status no_memory(vo_error *err) {
    return vo_fail(err, VO_ERR_MEMORY, "no memory for the heads of a model");
}

/* A pair that names no head of this model would make its user read beyond memory. */
static vo_status check(const vo_whisper_dims *d, const int64_t *heads, int n, const char *where,
                       vo_error *err) {
    for (int i = 0; i < n; i++)
        if (heads[2 * i] < 0 || heads[2 * i] >= d->n_text_layer || heads[2 * i + 1] < 0 ||
            heads[2 * i + 1] >= d->n_text_head)
            return vo_fail(err, VO_ERR_FORMAT, "%s: alignment_heads names a head that is not there",
                           where);
    return VO_OK;
}

/* MLX: a tensor [n][2] of whole numbers. */
static vo_status from_tensor(const vo_view *v, const vo_whisper_dims *d, int64_t **heads, int *n,
                             vo_error *err) {
    if (v->rank != 2 || v->shape[1] != 2 || v->shape[0] > d->n_text_layer * d->n_text_head)
        return vo_fail(err, VO_ERR_FORMAT, "the tensor alignment_heads has the wrong shape");
    size_t count = (size_t)v->shape[0] * 2;
    float *values = vo_alloc_array(count + 1, sizeof *values);
    *heads = vo_alloc_array(count + 1, sizeof **heads);
    *n = (int)v->shape[0];
    vo_status status = values && *heads ? VO_OK : no_memory(err);
    if (status == VO_OK) status = vo_dequantize_rows(v, 0, v->shape[0], values, err);
    for (size_t i = 0; status == VO_OK && i < count; i++)
        (*heads)[i] = values[i] >= 0 && values[i] < 4096 ? (int64_t)values[i] : -1;
    vo_free(values);
    return status == VO_OK ? check(d, *heads, *n, "weights", err) : status;
}

/* [[layer, head], ...] in a JSON document, if it is there. */
static vo_status from_json(const json_t *list, const vo_whisper_dims *d, const char *path,
                           int64_t **heads, int *n, vo_error *err) {
    if (!json_is_array(list) || json_array_size(list) == 0) return VO_OK;
    if (json_array_size(list) > (size_t)d->n_text_layer * (size_t)d->n_text_head)
        return vo_fail(err, VO_ERR_FORMAT, "%s: more alignment_heads than heads", path);
    *n = (int)json_array_size(list);
    *heads = vo_alloc_array((size_t)*n * 2, sizeof **heads);
    if (!*heads) return no_memory(err);
    for (int i = 0; i < 2 * *n; i++) {
        const json_t *value = json_array_get(json_array_get(list, (size_t)i / 2), (size_t)i % 2);
        (*heads)[i] = json_is_integer(value) ? json_integer_value(value) : -1;
    }
    return check(d, *heads, *n, path, err);
}

/* Hugging Face: generation_config.json; CTranslate2: config.json. Neither has to be there. */
static vo_status from_file(const char *folder, const char *name, const vo_whisper_dims *d,
                           int64_t **heads, int *n, vo_error *err) {
    char *path = vo_path_join(folder, name), *text = NULL;
    size_t size = 0;
    json_error_t why;
    if (!path) return no_memory(err);
    vo_status status = vo_file_read(path, 16u << 20, &text, &size, NULL);
    if (status != VO_OK) {
        vo_free(path);
        return status == VO_ERR_MEMORY ? no_memory(err) : VO_OK;
    }
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (!root && vo_json_status(&why) == VO_ERR_MEMORY)
        status = no_memory(err);
    else
        status = from_json(json_object_get(root, "alignment_heads"), d, path, heads, n, err);
    json_decref(root);
    vo_free(text);
    vo_free(path);
    return status;
}

vo_status vo_whisper_read_alignment(const vo_weights *weights, int64_t **heads, int *n,
                                    vo_error *err) {
    static const char *const files[] = {"generation_config.json", "config.json"};
    vo_whisper_dims dims;
    *heads = NULL;
    *n = 0;
    vo_status status = vo_whisper_read_dims(weights, &dims, err);
    const vo_view *tensor = vo_weights_find(weights, "alignment_heads");
    if (status == VO_OK && tensor) status = from_tensor(tensor, &dims, heads, n, err);
    const char *folder = vo_weights_folder(weights);
    for (size_t i = 0; status == VO_OK && !*heads && folder && i < 2; i++)
        status = from_file(folder, files[i], &dims, heads, n, err);
    if (status != VO_OK) {
        vo_free(*heads);
        *heads = NULL;
        *n = 0;
    }
    return status;
}
