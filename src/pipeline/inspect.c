/* SPDX-License-Identifier: MIT
 *
 * What a weight file holds, as JSON: everything comes from the header that opening it checks,
 * and no weight is touched.
 */
#include "pipeline/inspect.h"

#include "formats/format.h"
#include "models/whisper/whisper.h"
#include "pipeline/json.h"

static const char *layout_name(vo_layout layout) {
    switch (layout) {
    case VO_LAYOUT_HUGGINGFACE:
        return "huggingface";
    case VO_LAYOUT_MLX:
        return "mlx";
    case VO_LAYOUT_OPENAI:
        return "openai";
    case VO_LAYOUT_CTRANSLATE2:
        return "ctranslate2";
    case VO_LAYOUT_SILERO:
        return "silero";
    case VO_LAYOUT_UNKNOWN:
        break;
    }
    return "unknown";
}

typedef struct folder {
    const char *path;
    int64_t bytes;
} folder;

static vo_status add_size(void *user, const char *name, bool is_dir) {
    folder *f = user;
    char *path = is_dir ? NULL : vo_path_join(f->path, name);
    int64_t size = path ? vo_file_size(path) : 0;
    vo_free(path);
    if (size > 0) f->bytes += size;
    return VO_OK;
}

static int64_t bytes_on_disk(const char *path) {
    folder f = {path, 0};
    if (!vo_path_is_dir(path)) return vo_file_size(path);
    vo_dir_list(path, add_size, &f, NULL);
    return f.bytes;
}

static json_t *types(const vo_weights *weights, int64_t *parameters, bool *failed) {
    int64_t tensors[VO_DTYPE_COUNT] = {0}, elements[VO_DTYPE_COUNT] = {0},
            bytes[VO_DTYPE_COUNT] = {0};
    *parameters = 0;
    for (size_t i = 0; i < vo_weights_count(weights); i++) {
        const vo_view *v = vo_weights_at(weights, i);
        tensors[v->dtype]++;
        elements[v->dtype] += vo_view_elements(v);
        bytes[v->dtype] += (int64_t)v->bytes;
        if (vo_dtype_is_real(v->dtype)) *parameters += vo_view_elements(v);
    }
    json_t *o = json_object();
    for (int t = 0; t < VO_DTYPE_COUNT; t++) {
        if (!tensors[t]) continue;
        json_t *one = json_object();
        vo_json_put(one, "tensors", json_integer(tensors[t]), failed);
        vo_json_put(one, "elements", json_integer(elements[t]), failed);
        vo_json_put(one, "bytes", json_integer(bytes[t]), failed);
        vo_json_put(o, vo_dtype_get_info((vo_dtype)t)->name, one, failed);
    }
    return o;
}

static json_t *whisper_sizes(const vo_whisper_dims *d, bool *failed) {
    json_t *o = json_object();
    const struct {
        const char *name;
        int value;
    } facts[] = {{"n_mels", d->n_mels},
                 {"n_audio_ctx", d->n_audio_ctx},
                 {"n_audio_state", d->n_audio_state},
                 {"n_audio_head", d->n_audio_head},
                 {"n_audio_layer", d->n_audio_layer},
                 {"n_vocab", d->n_vocab},
                 {"n_text_ctx", d->n_text_ctx},
                 {"n_text_state", d->n_text_state},
                 {"n_text_head", d->n_text_head},
                 {"n_text_layer", d->n_text_layer}};
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        vo_json_put(o, facts[i].name, json_integer(facts[i].value), failed);
    return o;
}

static json_t *tensor_list(const vo_weights *weights, bool *failed) {
    json_t *list = json_array();
    for (size_t i = 0; i < vo_weights_count(weights); i++) {
        const vo_view *v = vo_weights_at(weights, i);
        json_t *o = json_object(), *shape = json_array();
        for (int d = 0; d < v->rank; d++)
            if (json_array_append_new(shape, json_integer(v->shape[d])) != 0) *failed = true;
        vo_json_put(o, "name", vo_json_text(v->name), failed);
        vo_json_put(o, "dtype", json_string(vo_dtype_get_info(v->dtype)->name), failed);
        vo_json_put(o, "shape", shape, failed);
        vo_json_put(o, "bytes", json_integer((json_int_t)v->bytes), failed);
        if (json_array_append_new(list, o) != 0) *failed = true;
    }
    return list;
}

vo_status vo_inspect(const char *path, bool tensors, char **json, vo_error *err) {
    vo_weights *weights = NULL;
    vo_whisper_dims dims;
    vo_error ignored = {0};
    bool failed = false;
    int64_t parameters;
    vo_status status = vo_weights_open(path, &weights, err);
    if (status != VO_OK) return status;
    json_t *o = json_object(), *dtypes = types(weights, &parameters, &failed);
    vo_json_put(o, "path", vo_json_text(path), &failed);
    vo_json_put(o, "format", json_string(vo_weights_format(weights)), &failed);
    vo_json_put(o, "layout", json_string(layout_name(vo_weights_layout(weights))), &failed);
    vo_json_put(o, "bytes", json_integer(bytes_on_disk(path)), &failed);
    vo_json_put(o, "tensor_count", json_integer((json_int_t)vo_weights_count(weights)), &failed);
    vo_json_put(o, "parameters", json_integer(parameters), &failed);
    vo_json_put(o, "dtypes", dtypes, &failed);
    if (vo_whisper_read_dims(weights, &dims, &ignored) == VO_OK)
        vo_json_put(o, "whisper", whisper_sizes(&dims, &failed), &failed);
    failed = failed || ignored.status == VO_ERR_MEMORY;
    if (tensors) vo_json_put(o, "tensors", tensor_list(weights, &failed), &failed);
    vo_buf document = {0};
    if (!failed) vo_json_write(o, JSON_INDENT(2), &document);
    json_decref(o);
    vo_weights_close(weights);
    if (failed || document.failed) {
        vo_buf_free(&document);
        return vo_fail(err, VO_ERR_MEMORY, "no memory to describe %s", path);
    }
    *json = document.data;
    return VO_OK;
}
