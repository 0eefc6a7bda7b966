/* SPDX-License-Identifier: MIT
 *
 * KV caches by tables of slots with reference counts (the idea of paged attention, Kwon et
 * al. 2023, with pages of one position).
 */
#include "nn/kv.h"

#include "base/memory.h"

#include <string.h>

struct vo_kv {
    vo_kv_params p;
    vo_buffer **keys, **values; /* [layers], each [heads, slots, hd] */
    int32_t *table, *spare;     /* [rows, max_length]; spare is the other half of a fork */
    int *length, *spare_length; /* [rows] */
    int32_t *refs;              /* [slots]: how many rows hold this slot */
    int32_t *free_slots;        /* stack */
    int n_free;
};

vo_status vo_kv_create(vo_kv_params p, vo_kv **out, vo_error *err) {
    if (p.layers < 1 || p.heads < 1 || p.head_dim < 1 || p.rows < 1 || p.max_length < 1 ||
        p.slots < 0 || p.rows > INT32_MAX / p.max_length ||
        (p.dtype != VO_F32 && p.dtype != VO_F16 && p.dtype != VO_I8))
        return vo_fail(err, VO_ERR_ARGUMENT, "kv cache: bad size or type");
    if (p.slots == 0) p.slots = p.rows * p.max_length;
    vo_kv *kv = vo_alloc(sizeof *kv);
    if (!kv) return vo_fail(err, VO_ERR_MEMORY, "no memory for a kv cache");
    kv->p = p;
    int64_t dims[] = {p.heads, p.slots, p.head_dim};
    size_t bytes, cells = (size_t)p.rows * (size_t)p.max_length;
    bool ok = vo_dtype_bytes(p.dtype, dims, 3, &bytes);
    if (ok && p.dtype == VO_I8)
        ok = vo_add_size(vo_cache_scales_at(dims), (size_t)(dims[0] * dims[1]) * sizeof(float),
                         &bytes);
    kv->keys = vo_alloc_array((size_t)p.layers, sizeof *kv->keys);
    kv->values = vo_alloc_array((size_t)p.layers, sizeof *kv->values);
    kv->table = vo_alloc_array(cells, sizeof *kv->table);
    kv->spare = vo_alloc_array(cells, sizeof *kv->spare);
    kv->length = vo_alloc_array((size_t)p.rows, sizeof *kv->length);
    kv->spare_length = vo_alloc_array((size_t)p.rows, sizeof *kv->spare_length);
    kv->refs = vo_alloc_array((size_t)p.slots, sizeof *kv->refs);
    kv->free_slots = vo_alloc_array((size_t)p.slots, sizeof *kv->free_slots);
    ok = ok && kv->keys && kv->values && kv->table && kv->spare && kv->length && kv->spare_length &&
         kv->refs && kv->free_slots;
    for (int l = 0; ok && l < p.layers; l++) {
        kv->keys[l] = vo_buffer_create(bytes, err);
        kv->values[l] = vo_buffer_create(bytes, err);
        ok = kv->keys[l] && kv->values[l];
    }
    if (!ok) {
        vo_kv_destroy(kv);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a kv cache of %d positions", p.slots);
    }
    for (int i = 0; i < p.slots; i++) kv->free_slots[i] = p.slots - 1 - i;
    kv->n_free = p.slots;
    *out = kv;
    return VO_OK;
}

void vo_kv_destroy(vo_kv *kv) {
    if (!kv) return;
    for (int l = 0; l < kv->p.layers; l++) {
        if (kv->keys) vo_buffer_unref(kv->keys[l]);
        if (kv->values) vo_buffer_unref(kv->values[l]);
    }
    vo_free(kv->keys);
    vo_free(kv->values);
    vo_free(kv->table);
    vo_free(kv->spare);
    vo_free(kv->length);
    vo_free(kv->spare_length);
    vo_free(kv->refs);
    vo_free(kv->free_slots);
    vo_free(kv);
}

static vo_array *storage(vo_kv *kv, vo_graph *graph, vo_buffer *buffer) {
    int64_t shape[] = {kv->p.heads, kv->p.slots, kv->p.head_dim};
    return vo_state(graph, buffer, kv->p.dtype, shape, 3);
}

vo_array *vo_kv_keys(vo_kv *kv, vo_graph *graph, int layer) {
    return storage(kv, graph, kv->keys[layer]);
}
vo_array *vo_kv_values(vo_kv *kv, vo_graph *graph, int layer) {
    return storage(kv, graph, kv->values[layer]);
}

int vo_kv_slots(const vo_kv *kv) {
    return kv->p.slots;
}
int vo_kv_max_length(const vo_kv *kv) {
    return kv->p.max_length;
}
int vo_kv_length(const vo_kv *kv, int row) {
    return kv->length[row];
}
const int32_t *vo_kv_table(const vo_kv *kv) {
    return kv->table;
}
size_t vo_kv_table_entries(const vo_kv *kv) {
    return (size_t)kv->p.rows * (size_t)kv->p.max_length;
}

vo_status vo_kv_append(vo_kv *kv, int row, int n, int32_t *slots, vo_error *err) {
    if (row < 0 || row >= kv->p.rows || n < 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "kv cache: no row %d", row);
    if (n > kv->p.max_length - kv->length[row])
        return vo_fail(err, VO_ERR_LIMIT, "a sequence exceeds %d tokens", kv->p.max_length);
    if (n > kv->n_free) return vo_fail(err, VO_ERR_LIMIT, "the kv cache is full");
    int32_t *table = kv->table + (size_t)row * (size_t)kv->p.max_length;
    for (int i = 0; i < n; i++) {
        int32_t slot = kv->free_slots[--kv->n_free];
        kv->refs[slot] = 1;
        table[kv->length[row]++] = slots[i] = slot;
    }
    return VO_OK;
}

static void release(vo_kv *kv, int32_t slot) {
    if (--kv->refs[slot] == 0) kv->free_slots[kv->n_free++] = slot;
}

vo_status vo_kv_fork(vo_kv *kv, int first, int rows, const int *parents, int n, vo_error *err) {
    if (first < 0 || rows < 0 || rows > kv->p.rows - first || n < 0 || n > rows)
        return vo_fail(err, VO_ERR_ARGUMENT, "kv cache: %d of %d rows from %d", n, rows, first);
    for (int i = 0; i < n; i++)
        if (parents[i] < 0 || parents[i] >= rows)
            return vo_fail(err, VO_ERR_ARGUMENT, "kv cache: no row %d", parents[i]);
    size_t width = (size_t)kv->p.max_length;
    int32_t *table = kv->table + (size_t)first * width;
    int *lengths = kv->length + first;
    /* First take all new references, then drop all old ones: nothing is freed between. */
    for (int i = 0; i < n; i++) {
        const int32_t *from = table + (size_t)parents[i] * width;
        int length = lengths[parents[i]];
        memcpy(kv->spare + (size_t)i * width, from, (size_t)length * sizeof *from);
        for (int t = 0; t < length; t++) kv->refs[from[t]]++;
        kv->spare_length[i] = length;
    }
    for (int i = n; i < rows; i++) kv->spare_length[i] = 0;
    for (int i = 0; i < rows; i++)
        for (int t = 0; t < lengths[i]; t++) release(kv, table[(size_t)i * width + (size_t)t]);
    /* Plans hold the table's address, so content moves and the pointer stays. */
    for (int i = 0; i < n; i++)
        memcpy(table + (size_t)i * width, kv->spare + (size_t)i * width,
               (size_t)kv->spare_length[i] * sizeof *table);
    memcpy(lengths, kv->spare_length, (size_t)rows * sizeof *lengths);
    return VO_OK;
}

vo_status vo_kv_truncate(vo_kv *kv, int row, int length, vo_error *err) {
    if (row < 0 || row >= kv->p.rows || length < 0 || length > kv->length[row])
        return vo_fail(err, VO_ERR_ARGUMENT, "kv cache: row %d has no %d positions", row, length);
    const int32_t *table = kv->table + (size_t)row * (size_t)kv->p.max_length;
    while (kv->length[row] > length) release(kv, table[--kv->length[row]]);
    return VO_OK;
}
