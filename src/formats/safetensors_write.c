/* SPDX-License-Identifier: MIT
 *
 * Every tensor's place follows from shapes alone, so the header can be written first and each
 * piece of data goes straight to where it belongs. Wide types come first: all are aligned then,
 * without holes, which the format forbids.
 */
#include "formats/safetensors_write.h"

#include "base/file.h"
#include "base/memory.h"
#include "formats/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 * 1000 * 1000 };

typedef struct entry {
    const char *name;
    size_t index; /* as announced */
    vo_dtype dtype;
    int rank;
    int64_t shape[VO_MAX_DIMS];
    uint64_t begin, bytes, written; /* begin counts from the end of the header */
} entry;

struct vo_safetensors_writer {
    vo_output *output;
    vo_arena *arena; /* names */
    char *path;
    bool replace;
    json_t *metadata, *names;
    entry *entries;
    size_t n_entries, capacity;
    uint64_t data_begin, bytes; /* data_begin: 0 before vo_safetensors_begin */
};

static const char *const type_names[VO_DTYPE_COUNT] = {
    [VO_F32] = "F32", [VO_F16] = "F16", [VO_BF16] = "BF16", [VO_F64] = "F64", [VO_I64] = "I64",
    [VO_I32] = "I32", [VO_I16] = "I16", [VO_I8] = "I8",     [VO_U64] = "U64", [VO_U32] = "U32",
    [VO_U16] = "U16", [VO_U8] = "U8",   [VO_BOOL] = "BOOL"};

static vo_status no_memory(const vo_safetensors_writer *w, vo_error *err) {
    return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory for the list of tensors", w->path);
}

static vo_status refuse_existing(const char *path, vo_error *err) {
    return vo_fail(err, VO_ERR_ARGUMENT, "%s exists already", path);
}

vo_status vo_safetensors_create(const char *path, bool replace, vo_safetensors_writer **writer,
                                vo_error *err) {
    *writer = NULL;
    if (!replace && vo_path_exists(path)) return refuse_existing(path, err);
    vo_safetensors_writer *w = vo_alloc(sizeof *w);
    if (w == NULL) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", path);
    w->replace = replace;
    w->path = vo_strdup(path);
    w->arena = vo_arena_create(32 * 1024);
    w->metadata = json_object();
    w->names = json_object();
    vo_status status = VO_OK;
    if (w->path == NULL || w->arena == NULL || w->metadata == NULL || w->names == NULL)
        status = vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", path);
    if (status == VO_OK) status = vo_output_create(path, &w->output, err);
    if (status != VO_OK)
        vo_safetensors_destroy(w);
    else
        *writer = w;
    return status;
}

void vo_safetensors_destroy(vo_safetensors_writer *w) {
    if (w == NULL) return;
    vo_output_discard(w->output);
    vo_arena_destroy(w->arena);
    json_decref(w->metadata);
    json_decref(w->names);
    vo_free(w->entries);
    vo_free(w->path);
    vo_free(w);
}

/* ---- the header -------------------------------------------------------------------------- */

vo_status vo_safetensors_metadata(vo_safetensors_writer *w, const char *key, const char *value,
                                  vo_error *err) {
    return json_object_set_new(w->metadata, key, json_string(value)) == 0 ? VO_OK
                                                                          : no_memory(w, err);
}

static bool reserve_entry(vo_safetensors_writer *w) {
    if (w->n_entries < w->capacity) return true;
    size_t bytes, want = w->capacity == 0 ? 1024 : 2 * w->capacity;
    if (!vo_mul_size(want, sizeof *w->entries, &bytes)) return false;
    entry *grown = vo_realloc(w->entries, bytes);
    if (grown == NULL) return false;
    w->entries = grown;
    w->capacity = want;
    return true;
}

vo_status vo_safetensors_add(vo_safetensors_writer *w, const char *name, vo_dtype dtype,
                             const int64_t *shape, int rank, size_t *index, vo_error *err) {
    size_t bytes;
    if (w->data_begin != 0)
        return vo_fail(err, VO_ERR_INTERNAL, "%s: %.200s comes after the header", w->path, name);
    if (dtype >= VO_DTYPE_COUNT || type_names[dtype] == NULL || rank < 0 || rank > VO_MAX_DIMS ||
        !vo_dtype_bytes(dtype, shape, rank, &bytes) || bytes > UINT64_MAX / 4 - w->bytes)
        return vo_fail(err, VO_ERR_ARGUMENT, "%s: %.200s has a type or shape that cannot be stored",
                       w->path, name);
    if (json_object_get(w->names, name) != NULL || strcmp(name, "__metadata__") == 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "%s: %.200s is there already", w->path, name);
    entry e = {vo_arena_strdup(w->arena, name), w->n_entries, dtype, rank, {0}, 0, bytes, 0};
    if (e.name == NULL || !reserve_entry(w) ||
        json_object_set_new_nocheck(w->names, name, json_true()) != 0)
        return no_memory(w, err);
    for (int i = 0; i < rank; i++) e.shape[i] = shape[i];
    *index = w->n_entries;
    w->entries[w->n_entries++] = e;
    w->bytes += bytes;
    return VO_OK;
}

static int by_width(const void *a, const void *b) {
    const entry *x = a, *y = b;
    int wide_x = vo_dtype_get_info(x->dtype)->block_bytes,
        wide_y = vo_dtype_get_info(y->dtype)->block_bytes;
    if (wide_x != wide_y) return wide_y - wide_x;
    return x->index < y->index ? -1 : 1;
}

static int by_index(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return x->index < y->index ? -1 : 1;
}

/* What the header says of one tensor, or NULL. */
static json_t *describe(const entry *e) {
    json_t *shape = json_array();
    bool good = shape != NULL;
    for (int i = 0; good && i < e->rank; i++)
        good = json_array_append_new(shape, json_integer(e->shape[i])) == 0;
    if (!good) {
        json_decref(shape);
        return NULL;
    }
    const json_int_t begin = (json_int_t)e->begin, bytes = (json_int_t)e->bytes;
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type_names[e->dtype], "shape", shape,
                     "data_offsets", begin, begin + bytes);
}

static int append(const char *data, size_t size, void *user) {
    vo_buf *out = user;
    vo_buf_append(out, data, size);
    return out->failed ? -1 : 0;
}

/* Appends the JSON, filled up so that the data begins at a multiple of 8 bytes. */
static bool write_json(const vo_safetensors_writer *w, vo_buf *out) {
    json_t *root = json_object();
    bool good = root != NULL;
    if (good && json_object_size(w->metadata) > 0)
        good = json_object_set(root, "__metadata__", w->metadata) == 0;
    for (size_t i = 0; good && i < w->n_entries; i++)
        good = json_object_set_new(root, w->entries[i].name, describe(&w->entries[i])) == 0;
    good = good && json_dump_callback(root, append, out, JSON_COMPACT) == 0;
    while (good && out->size % 8 != 0) {
        vo_buf_puts(out, " ");
        good = !out->failed;
    }
    json_decref(root);
    return good;
}

vo_status vo_safetensors_begin(vo_safetensors_writer *w, vo_error *err) {
    uint64_t at = 0;
    vo_buf header = {0};
    if (w->n_entries > 1) qsort(w->entries, w->n_entries, sizeof *w->entries, by_width);
    for (size_t i = 0; i < w->n_entries; i++) {
        w->entries[i].begin = at;
        at += w->entries[i].bytes;
    }
    vo_buf_append(&header, "\0\0\0\0\0\0\0", 8); /* the length, known at the end */
    bool good = write_json(w, &header);
    if (w->n_entries > 1) qsort(w->entries, w->n_entries, sizeof *w->entries, by_index);
    vo_status status = VO_OK;
    if (!good || header.failed) {
        status = no_memory(w, err);
    } else if (header.size - 8 > MAX_HEADER) {
        status = vo_fail(err, VO_ERR_LIMIT, "%s: the header has %zu bytes, more than 100 MB",
                         w->path, header.size - 8);
    } else {
        for (int i = 0; i < 8; i++)
            header.data[i] = (char)(unsigned char)((uint64_t)(header.size - 8) >> 8 * i);
        status = vo_output_write(w->output, 0, header.data, header.size, err);
        if (status == VO_OK) w->data_begin = header.size;
    }
    vo_buf_free(&header);
    return status;
}

/* ---- data -------------------------------------------------------------------------------- */

vo_status vo_safetensors_write(vo_safetensors_writer *w, size_t index, const void *data,
                               size_t bytes, vo_error *err) {
    if (w->data_begin == 0 || index >= w->n_entries)
        return vo_fail(err, VO_ERR_INTERNAL, "%s: data of a tensor that has no place", w->path);
    entry *e = &w->entries[index];
    if (bytes > e->bytes - e->written)
        return vo_fail(err, VO_ERR_ARGUMENT, "%s: more data for %.200s than its shape needs",
                       w->path, e->name);
    vo_status status =
        vo_output_write(w->output, w->data_begin + e->begin + e->written, data, bytes, err);
    if (status == VO_OK) e->written += bytes;
    return status;
}

vo_status vo_safetensors_commit(vo_safetensors_writer *w, vo_error *err) {
    if (w->data_begin == 0 || w->output == NULL)
        return vo_fail(err, VO_ERR_INTERNAL, "%s: nothing to commit", w->path);
    for (size_t i = 0; i < w->n_entries; i++)
        if (w->entries[i].written != w->entries[i].bytes)
            return vo_fail(err, VO_ERR_ARGUMENT, "%s: data of %.200s is missing", w->path,
                           w->entries[i].name);
    if (!w->replace && vo_path_exists(w->path)) return refuse_existing(w->path, err);
    vo_output *output = w->output;
    w->output = NULL;
    return vo_output_commit(output, err);
}

uint64_t vo_safetensors_bytes(const vo_safetensors_writer *w) {
    return w->bytes;
}
