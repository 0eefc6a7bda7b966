/* SPDX-License-Identifier: MIT
 *
 * MLX's affine quantisation: a matrix [out][in] is stored as X.weight, u32 [out][in*bits/32], with
 * X.scales and X.biases [out][in/group]. config.json's "quantization" tells bits and group; since
 * it is another file, which can be lost or wrong, the shapes have the last word.
 */
#include "formats/mlx.h"

#include "base/memory.h"
#include "formats/json.h"

#include <string.h>

enum { MAX_CONFIG_BYTES = 16 * 1024 * 1024 };

/* What config.json says; zero where it says nothing. */
typedef struct quantisation {
    int64_t bits, group_size;
} quantisation;

static bool allowed_bits(int64_t bits) {
    return (bits >= 2 && bits <= 6) || bits == 8;
}
static bool allowed_group(int64_t group) {
    return group == 32 || group == 64 || group == 128;
}

static bool ends_with(const char *text, const char *end, size_t *stem) {
    size_t n = strlen(text), m = strlen(end);
    if (n <= m || strcmp(text + n - m, end) != 0) return false;
    *stem = n - m;
    return true;
}

/* The "quantization" object, borrowed from *root; NULL when there is none. */
static vo_status load_config(const vo_weights *w, json_t **root, const json_t **section,
                             vo_error *err) {
    char *text = NULL, *path;
    size_t size = 0;
    json_error_t why;
    *root = NULL;
    *section = NULL;
    if (vo_weights_folder(w) == NULL) return VO_OK;
    path = vo_path_join(vo_weights_folder(w), "config.json");
    if (path == NULL) return vo_fail(err, VO_ERR_MEMORY, "not enough memory for a path");
    vo_status status = VO_OK;
    if (!vo_path_exists(path)) goto fail;
    status = vo_file_read(path, MAX_CONFIG_BYTES, &text, &size, err);
    if (status != VO_OK) goto fail;
    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (*root == NULL) {
        status = vo_fail(err, vo_json_status(&why), "%s is no valid JSON: %s", path, why.text);
        goto fail;
    }
    *section = json_object_get(*root, "quantization");
    if (*section == NULL) *section = json_object_get(*root, "quantization_config");
    if (*section != NULL && !json_is_object(*section))
        status = vo_fail(err, VO_ERR_FORMAT, "%s: \"quantization\" is not an object", path);
fail:
    vo_free(text);
    vo_free(path);
    return status;
}

/* bits and group_size of one object, with a check of mode. */
static vo_status read_section(const json_t *section, const char *module, quantisation *q,
                              vo_error *err) {
    const json_t *mode = json_object_get(section, "mode");
    const json_t *bits = json_object_get(section, "bits");
    const json_t *group = json_object_get(section, "group_size");
    if (mode != NULL && (!json_is_string(mode) || strcmp(json_string_value(mode), "affine") != 0))
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%.200s is quantised with mode %.40s; only affine is read", module,
                       json_is_string(mode) ? json_string_value(mode) : "?");
    if (bits != NULL) q->bits = json_integer_value(bits);
    if (group != NULL) q->group_size = json_integer_value(group);
    if ((bits != NULL && !allowed_bits(q->bits)) ||
        (group != NULL && !allowed_group(q->group_size)))
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%.200s: config.json asks for bits or a group size that do not exist",
                       module);
    return VO_OK;
}

/* The general setting, overridden by that of the module where there is one. */
static vo_status find_setting(const json_t *section, const char *module, quantisation *q,
                              vo_error *err) {
    *q = (quantisation){0, 0};
    if (section == NULL) return VO_OK;
    const json_t *own = json_object_get(section, module);
    if (json_is_object(own) && json_object_get(own, "mode") != NULL)
        /* the module's mode replaces the general one, which may be another */
        return read_section(own, module, q, err);
    vo_status status = read_section(section, module, q, err);
    if (status == VO_OK && json_is_object(own)) status = read_section(own, module, q, err);
    return status;
}

/* Bits and group size from the shapes: columns*32 = groups*group*bits. Several pairs can fit; the
 * group of 64, MLX's default, is tried first. */
static bool infer(int64_t columns, int64_t groups, quantisation *q) {
    static const int64_t sizes[] = {64, 32, 128};
    if (groups <= 0 || columns * 32 % groups != 0) return false;
    int64_t bits_per_group = columns * 32 / groups;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bool fits = q->group_size == 0 || q->group_size == sizes[i];
        int64_t bits = bits_per_group / sizes[i];
        if (!fits || bits_per_group % sizes[i] != 0 || !allowed_bits(bits)) continue;
        if (q->bits != 0 && q->bits != bits) continue;
        *q = (quantisation){bits, sizes[i]};
        return true;
    }
    return false;
}

static bool is_float(vo_dtype dtype) {
    return dtype == VO_F32 || dtype == VO_F16 || dtype == VO_BF16;
}

static vo_status join(vo_weights *w, const json_t *section, vo_view *weight, const char *module,
                      const vo_view *scales, const vo_view *biases, vo_error *err) {
    quantisation q;
    if (biases == NULL || !is_float(scales->dtype))
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%.200s is quantised in a way that is not read (mxfp4, nvfp4 or mxfp8)",
                       module);
    if (weight->rank != 2 || scales->rank != 2 || biases->rank != 2 ||
        biases->dtype != scales->dtype || scales->shape[0] != weight->shape[0] ||
        biases->shape[0] != weight->shape[0] || biases->shape[1] != scales->shape[1])
        return vo_fail(err, VO_ERR_FORMAT, "%.200s: weight, scales and biases do not fit together",
                       module);
    vo_status status = find_setting(section, module, &q, err);
    if (status != VO_OK) return status;
    int64_t columns = weight->shape[1], groups = scales->shape[1];
    /* columns of an existing tensor: at most 2^61 words of 4 bytes, so *32 could wrap */
    if (columns > INT32_MAX || !infer(columns, groups, &q))
        return vo_fail(err, VO_ERR_FORMAT,
                       "%.200s: %lld columns with %lld groups fit no bits and group size%s", module,
                       (long long)columns, (long long)groups,
                       section != NULL ? " that config.json allows" : "");
    weight->dtype = VO_AFFINE;
    weight->shape[1] = groups * q.group_size;
    weight->bits = (int)q.bits;
    weight->group_size = (int)q.group_size;
    weight->scales = scales->data;
    weight->biases = biases->data;
    weight->scale_dtype = scales->dtype;
    vo_weights_drop(w, scales);
    vo_weights_drop(w, biases);
    return VO_OK;
}

vo_status vo_mlx_join_quantised(vo_weights *w, vo_error *err) {
    json_t *root = NULL;
    const json_t *section = NULL;
    vo_status status = VO_OK;
    bool loaded = false;
    char module[VO_MAX_NAME + 1];
    size_t stem, n = vo_weights_count(w);
    for (size_t i = 0; i < n; i++) {
        vo_view *weight = vo_weights_edit(w, i);
        if (weight->dtype != VO_U32 || !ends_with(weight->name, ".weight", &stem)) continue;
        const vo_view *scales = vo_weights_sibling(w, weight->name, stem, ".scales");
        if (scales == NULL) continue;
        if (!loaded) status = load_config(w, &root, &section, err);
        loaded = true;
        if (status != VO_OK) break;
        memcpy(module, weight->name, stem);
        module[stem] = '\0';
        const vo_view *biases = vo_weights_sibling(w, weight->name, stem, ".biases");
        status = join(w, section, weight, module, scales, biases, err);
        if (status != VO_OK) break;
    }
    json_decref(root);
    return status;
}
