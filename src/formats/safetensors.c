/* SPDX-License-Identifier: MIT
 *
 * safetensors, the container of Hugging Face and MLX: u64 header length, a JSON object of
 * { name: { dtype, shape, data_offsets } }, then data. The data must be covered exactly: no
 * holes, no overlaps, and every range as long as its shape says. MLX quantises a matrix into
 * X.weight (u32), X.scales and X.biases; mlx.c makes one view of them.
 */
#include "formats/mlx.h"

#include "base/memory.h"
#include "formats/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 * 1000 * 1000 };

typedef struct range {
    size_t begin, end;
    const char *name;
} range;

static bool header_length(const unsigned char *data, size_t size, uint64_t *length) {
    if (size < 8) return false;
    *length = 0;
    for (int i = 7; i >= 0; i--) *length = *length << 8 | data[i];
    return true;
}

/* Nine bytes decide: a length that a header can have, then the brace that it must begin with. */
static bool matches(const unsigned char *data, size_t size) {
    uint64_t n;
    return size > 8 && header_length(data, size, &n) && data[8] == '{' && n >> 40 == 0;
}

static vo_status find_dtype(const char *text, vo_dtype *dtype) {
    static const struct {
        const char *name;
        vo_dtype dtype;
    } known[] = {{"F32", VO_F32},  {"F16", VO_F16}, {"BF16", VO_BF16}, {"F64", VO_F64},
                 {"I64", VO_I64},  {"I32", VO_I32}, {"I16", VO_I16},   {"I8", VO_I8},
                 {"U64", VO_U64},  {"U32", VO_U32}, {"U16", VO_U16},   {"U8", VO_U8},
                 {"BOOL", VO_BOOL}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, known[i].name) == 0) {
            *dtype = known[i].dtype;
            return VO_OK;
        }
    }
    return VO_ERR_UNSUPPORTED;
}

/* A non-negative JSON integer. */
static bool get_size(const json_t *value, int64_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = json_integer_value(value);
    return true;
}

static vo_status read_dtype_and_shape(const json_t *entry, const char *name, const char *file_name,
                                      vo_view *view, vo_error *err) {
    const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape");
    if (!json_is_string(dtype) || !json_is_array(shape))
        return vo_fail(err, VO_ERR_FORMAT, "%s: tensor %.200s lacks dtype or shape", file_name,
                       name);
    if (find_dtype(json_string_value(dtype), &view->dtype) != VO_OK)
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: tensor %.200s has the type %.20s", file_name,
                       name, json_string_value(dtype));
    if (json_array_size(shape) > VO_MAX_DIMS)
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s: tensor %.200s has %zu dimensions, more than %d", file_name, name,
                       json_array_size(shape), VO_MAX_DIMS);
    view->rank = (int)json_array_size(shape);
    for (int i = 0; i < view->rank; i++)
        if (!get_size(json_array_get(shape, (size_t)i), &view->shape[i]))
            return vo_fail(err, VO_ERR_FORMAT, "%s: tensor %.200s has an impossible shape",
                           file_name, name);
    return VO_OK;
}

/* One entry of the header; data is the data section of data_size bytes. */
static vo_status read_entry(vo_weights *w, const char *name, const json_t *entry,
                            const unsigned char *data, size_t data_size, const char *file_name,
                            range *where, vo_error *err) {
    vo_view view = {0};
    int64_t begin, end;
    if (!json_is_object(entry))
        return vo_fail(err, VO_ERR_FORMAT, "%s: tensor %.200s is not an object", file_name, name);
    vo_status status = read_dtype_and_shape(entry, name, file_name, &view, err);
    if (status != VO_OK) return status;
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !get_size(json_array_get(offsets, 0), &begin) ||
        !get_size(json_array_get(offsets, 1), &end) || begin > end)
        return vo_fail(err, VO_ERR_FORMAT, "%s: tensor %.200s has impossible data_offsets",
                       file_name, name);
    if ((uint64_t)end > data_size)
        return vo_fail(err, VO_ERR_FORMAT,
                       "%s: cut off: tensor %.200s ends at byte %lld of a data section of %zu",
                       file_name, name, (long long)end, data_size);
    if (!vo_dtype_bytes(view.dtype, view.shape, view.rank, &view.bytes) ||
        view.bytes != (uint64_t)(end - begin))
        return vo_fail(err, VO_ERR_FORMAT,
                       "%s: tensor %.200s has %lld bytes, which its shape does not need", file_name,
                       name, (long long)(end - begin));
    view.data = data + begin;
    *where = (range){(size_t)begin, (size_t)end, name};
    return vo_weights_add(w, name, strlen(name), &view, file_name, err);
}

static int by_position(const void *a, const void *b) {
    const range *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return 0;
}

static vo_status check_cover(range *ranges, size_t n, size_t data_size, const char *file_name,
                             vo_error *err) {
    size_t end = 0;
    qsort(ranges, n, sizeof *ranges, by_position);
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].begin != end)
            return vo_fail(err, VO_ERR_FORMAT, "%s: there is %s before tensor %.200s at byte %zu",
                           file_name, ranges[i].begin > end ? "a hole" : "an overlap",
                           ranges[i].name, ranges[i].begin);
        end = ranges[i].end;
    }
    if (end != data_size)
        return vo_fail(err, VO_ERR_FORMAT, "%s: %zu bytes after the last tensor belong to nothing",
                       file_name, data_size - end);
    return VO_OK;
}

static vo_status read_metadata(vo_weights *w, const json_t *metadata, const char *file_name,
                               vo_error *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return vo_fail(err, VO_ERR_FORMAT, "%s: __metadata__ is not an object", file_name);
    json_object_foreach((json_t *)metadata, key, value) {
        if (!json_is_string(value))
            return vo_fail(err, VO_ERR_FORMAT, "%s: __metadata__ holds something but strings",
                           file_name);
        vo_status status =
            vo_weights_set_string(w, key, json_string_value(value), json_string_length(value), err);
        if (status != VO_OK) return status;
    }
    return VO_OK;
}

static vo_status read_entries(vo_weights *w, const json_t *root, const unsigned char *data,
                              size_t data_size, const char *file_name, vo_error *err) {
    vo_status status = VO_OK;
    size_t n = 0;
    const char *name;
    json_t *entry;
    range *ranges = vo_alloc_array(json_object_size(root) + 1, sizeof *ranges);
    if (ranges == NULL) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", file_name);
    json_object_foreach((json_t *)root, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            status = read_metadata(w, entry, file_name, err);
        else
            status = read_entry(w, name, entry, data, data_size, file_name, &ranges[n++], err);
        if (status != VO_OK) goto fail;
    }
    status = check_cover(ranges, n, data_size, file_name, err);
fail:
    vo_free(ranges);
    return status;
}

static vo_status read_file(vo_weights *w, const unsigned char *data, size_t size,
                           const char *file_name, vo_error *err) {
    uint64_t n = 0;
    json_error_t why;
    if (!header_length(data, size, &n))
        return vo_fail(err, VO_ERR_FORMAT, "%s: cut off in the first 8 bytes", file_name);
    if (n > MAX_HEADER)
        return vo_fail(err, VO_ERR_LIMIT, "%s: the header has %llu bytes, more than 100 MB",
                       file_name, (unsigned long long)n);
    if (n > size - 8)
        return vo_fail(err, VO_ERR_FORMAT,
                       "%s: cut off: the header needs %llu bytes, the file has %zu", file_name,
                       (unsigned long long)n, size);
    json_t *root = json_loadb((const char *)data + 8, (size_t)n, JSON_REJECT_DUPLICATES, &why);
    if (root == NULL)
        return vo_fail(err, vo_json_status(&why), "%s: the header is no valid JSON at byte %d: %s",
                       file_name, why.position + 8, why.text);
    vo_status status = VO_OK;
    if (json_is_object(root))
        status = read_entries(w, root, data + 8 + n, size - 8 - (size_t)n, file_name, err);
    else
        status = vo_fail(err, VO_ERR_FORMAT, "%s: the header is not an object", file_name);
    json_decref(root);
    return status;
}

/* ---- after the last shard --------------------------------------------------------------- */

static vo_layout detect_layout(const vo_weights *w) {
    static const struct {
        const char *name;
        vo_layout layout;
    } signs[] = {
        {"model.encoder.layers.0.self_attn.q_proj.weight", VO_LAYOUT_HUGGINGFACE},
        {"encoder.layers.0.self_attn.q_proj.weight", VO_LAYOUT_HUGGINGFACE},
        {"encoder.blocks.0.mlp1.weight", VO_LAYOUT_MLX},
        {"encoder.blocks.0.mlp.0.weight", VO_LAYOUT_OPENAI},
        {"stft_conv.weight", VO_LAYOUT_SILERO},
    };
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (vo_weights_find(w, signs[i].name) != NULL) return signs[i].layout;
    return VO_LAYOUT_UNKNOWN;
}

static vo_status finish(vo_weights *w, vo_error *err) {
    vo_status status = vo_mlx_join_quantised(w, err);
    vo_weights_set_layout(w, detect_layout(w));
    return status;
}

const vo_weight_format vo_weight_format_safetensors = {"safetensors", matches, read_file, finish};
