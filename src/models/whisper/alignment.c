/* SPDX-License-Identifier: MIT
 *
 * Which heads of cross-attention follow the audio is a finding about each model, not a part of
 * its network, and every publisher keeps it somewhere else.
 */
#include "models/whisper/alignment.h"
#include "base/dequantize.h"
#include "base/memory.h"
#include "formats/json.h"

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

/* ---- heads of models whose files do not tell ------------------------------------------------ */

/* The heads that OpenAI found in its models (openai-whisper, __init__.py, _ALIGNMENT_HEADS), by
 * sizes; those of large-v1, which has the sizes of large-v2, cannot be told. */
static const struct {
    bool multilingual;
    unsigned char layers, heads, mels, n;
    unsigned char list[23][2];
} published[] = {
    /* tiny.en */
    {false, 4, 6, 80, 8, {{1, 0}, {2, 0}, {2, 5}, {3, 0}, {3, 1}, {3, 2}, {3, 3}, {3, 4}}},
    /* tiny */
    {true, 4, 6, 80, 6, {{2, 2}, {3, 0}, {3, 2}, {3, 3}, {3, 4}, {3, 5}}},
    /* base.en */
    {false, 6, 8, 80, 5, {{3, 3}, {4, 7}, {5, 1}, {5, 5}, {5, 7}}},
    /* base */
    {true, 6, 8, 80, 8, {{3, 1}, {4, 2}, {4, 3}, {4, 7}, {5, 1}, {5, 2}, {5, 4}, {5, 6}}},
    /* small.en */
    {false,
     12,
     12,
     80,
     19,
     {{6, 6},
      {7, 0},
      {7, 3},
      {7, 8},
      {8, 2},
      {8, 5},
      {8, 7},
      {9, 0},
      {9, 4},
      {9, 8},
      {9, 10},
      {10, 0},
      {10, 1},
      {10, 2},
      {10, 3},
      {10, 6},
      {10, 11},
      {11, 2},
      {11, 4}}},
    /* small */
    {true,
     12,
     12,
     80,
     10,
     {{5, 3}, {5, 9}, {8, 0}, {8, 4}, {8, 7}, {8, 8}, {9, 0}, {9, 7}, {9, 9}, {10, 5}}},
    /* medium.en */
    {false,
     24,
     16,
     80,
     18,
     {{11, 4},
      {14, 1},
      {14, 12},
      {14, 14},
      {15, 4},
      {16, 0},
      {16, 4},
      {16, 9},
      {17, 12},
      {17, 14},
      {18, 7},
      {18, 10},
      {18, 15},
      {20, 0},
      {20, 3},
      {20, 9},
      {20, 14},
      {21, 12}}},
    /* medium */
    {true, 24, 16, 80, 6, {{13, 15}, {15, 4}, {15, 15}, {16, 1}, {20, 0}, {23, 4}}},
    /* large-v2 */
    {true, 32, 20, 80, 23, {{10, 12}, {13, 17}, {16, 11}, {16, 12}, {16, 13}, {17, 15},
                            {17, 16}, {18, 4},  {18, 11}, {18, 19}, {19, 11}, {21, 2},
                            {21, 3},  {22, 3},  {22, 9},  {22, 12}, {23, 5},  {23, 7},
                            {23, 13}, {25, 5},  {26, 1},  {26, 12}, {27, 15}}},
    /* large-v3 */
    {true,
     32,
     20,
     128,
     10,
     {{7, 0},
      {10, 17},
      {12, 18},
      {13, 12},
      {16, 1},
      {17, 14},
      {19, 11},
      {21, 4},
      {24, 1},
      {25, 6}}},
    /* large-v3-turbo */
    {true, 4, 20, 128, 6, {{2, 4}, {2, 11}, {3, 3}, {3, 6}, {3, 11}, {3, 14}}},
};

/* *heads [*n][2] from the table, else every head of the upper half of the layers. */
static vo_status guess(const vo_whisper_dims *d, int64_t **heads, int *n, vo_error *err) {
    size_t at = 0, count = sizeof published / sizeof *published;
    while (at < count &&
           (published[at].layers != d->n_text_layer || published[at].heads != d->n_text_head ||
            published[at].mels != d->n_mels || published[at].multilingual != (d->n_vocab >= 51865)))
        at++;
    const int skipped = d->n_text_layer / 2;
    *n = at < count ? published[at].n : (d->n_text_layer - skipped) * d->n_text_head;
    *heads = vo_alloc_array((size_t)*n * 2, sizeof **heads);
    if (!*heads) return no_memory(err);
    for (int i = 0; i < *n; i++) {
        (*heads)[2 * i] = at < count ? published[at].list[i][0] : skipped + i / d->n_text_head;
        (*heads)[2 * i + 1] = at < count ? published[at].list[i][1] : i % d->n_text_head;
    }
    return VO_OK;
}

vo_status vo_whisper_find_alignment(const vo_weights *weights, const vo_whisper_dims *dims,
                                    int64_t **heads, int *n, vo_error *err) {
    vo_error local = {0};
    vo_status status = vo_whisper_read_alignment(weights, heads, n, &local);
    if (status == VO_ERR_MEMORY) return no_memory(err);
    return status == VO_OK && *n > 0 ? VO_OK : guess(dims, heads, n, err);
}
