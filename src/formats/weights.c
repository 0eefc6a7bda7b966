/* SPDX-License-Identifier: MIT
 *
 * The table of tensors that every format fills: views in file order, one hash table from names
 * to views, facts, vocabulary, and the maps that keep the bytes alive. The content of a file
 * decides which reader gets it; its name decides nothing.
 */
#include "formats/open.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

typedef struct name_entry {
    const char *name;
    uint32_t length;
    uint32_t view;
    uint64_t hash;
} name_entry;

typedef struct fact {
    const char *key;
    const char *text; /* NULL: the fact is `number` */
    int64_t number;
} fact;

struct vo_weights {
    vo_arena *arena; /* names and facts */
    uint64_t seed;
    vo_view *views;
    bool *dropped; /* per view */
    size_t n_views, views_capacity;
    name_entry *names;
    size_t n_names, names_capacity;
    uint32_t *slots; /* index into names + 1; 0: free */
    size_t n_slots;  /* a power of two, at least twice n_names */
    fact *facts;
    size_t n_facts, facts_capacity;
    const char **tokens;
    uint32_t *token_lengths;
    size_t n_tokens;
    vo_map *maps;
    size_t n_maps;
    const vo_weight_format *format;
    vo_layout layout;
    char *folder;
};

/* ---- names ------------------------------------------------------------------------------ */

/* FNV-1a from a seed that differs per object, with a final mix: a file cannot be made in advance
 * so that all of its names collide. */
static uint64_t hash_name(uint64_t seed, const char *name, size_t length) {
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* The slot that holds the name, or the free one where it belongs. */
static uint32_t *find_slot(const vo_weights *w, const char *name, size_t length, uint64_t hash) {
    size_t mask = w->n_slots - 1;
    size_t i = (size_t)hash & mask;
    while (w->slots[i] != 0) {
        const name_entry *e = &w->names[w->slots[i] - 1];
        if (e->hash == hash && e->length == length && memcmp(e->name, name, length) == 0) break;
        i = (i + 1) & mask;
    }
    return &w->slots[i];
}

static const name_entry *find_name(const vo_weights *w, const char *name, size_t length) {
    if (w->n_slots == 0) return NULL;
    uint32_t slot = *find_slot(w, name, length, hash_name(w->seed, name, length));
    return slot != 0 ? &w->names[slot - 1] : NULL;
}

static bool grow_slots(vo_weights *w, size_t n_slots) {
    uint32_t *slots = vo_alloc_array(n_slots, sizeof *slots);
    if (slots == NULL) return false;
    vo_free(w->slots);
    w->slots = slots;
    w->n_slots = n_slots;
    for (size_t i = 0; i < w->n_names; i++) {
        const name_entry *e = &w->names[i];
        *find_slot(w, e->name, e->length, e->hash) = (uint32_t)i + 1;
    }
    return true;
}

/* Room for one more element in an array that doubles. */
static bool reserve(void **array, size_t *capacity, size_t used, size_t element) {
    size_t bytes;
    if (used < *capacity) return true;
    size_t want = *capacity == 0 ? 64 : *capacity * 2;
    if (!vo_mul_size(want, element, &bytes)) return false;
    void *grown = vo_realloc(*array, bytes);
    if (grown == NULL) return false;
    *array = grown;
    *capacity = want;
    return true;
}

static vo_status out_of_memory(const char *file_name, vo_error *err) {
    return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory for the list of tensors", file_name);
}

static vo_status check_name(const char *name, size_t length, const char *file_name, vo_error *err) {
    if (length == 0) return vo_fail(err, VO_ERR_FORMAT, "%s: a tensor has no name", file_name);
    if (length > VO_MAX_NAME)
        return vo_fail(err, VO_ERR_FORMAT, "%s: a tensor's name has %zu bytes, more than %d",
                       file_name, length, (int)VO_MAX_NAME);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7f)
            return vo_fail(err, VO_ERR_FORMAT,
                           "%s: a tensor's name contains the control character 0x%02x", file_name,
                           c);
    }
    if (!vo_utf8_valid(name, length))
        return vo_fail(err, VO_ERR_FORMAT, "%s: a tensor's name is not valid UTF-8", file_name);
    return VO_OK;
}

static vo_status add_name(vo_weights *w, const char *name, size_t length, size_t view,
                          const char *file_name, vo_error *err) {
    vo_status status = check_name(name, length, file_name, err);
    if (status != VO_OK) return status;
    if (w->n_names >= UINT32_MAX / 4)
        return vo_fail(err, VO_ERR_LIMIT, "%s: too many tensors", file_name);
    if (!reserve((void **)&w->names, &w->names_capacity, w->n_names, sizeof *w->names))
        return out_of_memory(file_name, err);
    if ((w->n_names + 1) * 2 > w->n_slots && !grow_slots(w, w->n_slots == 0 ? 128 : w->n_slots * 2))
        return out_of_memory(file_name, err);
    uint64_t hash = hash_name(w->seed, name, length);
    uint32_t *slot = find_slot(w, name, length, hash);
    if (*slot != 0)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the tensor %.*s appears twice", file_name,
                       (int)length, name);
    char *copy = vo_arena_alloc(w->arena, length + 1);
    if (copy == NULL) return out_of_memory(file_name, err);
    memcpy(copy, name, length);
    w->names[w->n_names] = (name_entry){copy, (uint32_t)length, (uint32_t)view, hash};
    *slot = (uint32_t)++w->n_names;
    return VO_OK;
}

/* ---- the builder ------------------------------------------------------------------------ */

static bool reserve_view(vo_weights *w) {
    size_t capacity = w->views_capacity;
    if (!reserve((void **)&w->dropped, &capacity, w->n_views, sizeof *w->dropped)) return false;
    return reserve((void **)&w->views, &w->views_capacity, w->n_views, sizeof *w->views);
}

vo_status vo_weights_add(vo_weights *w, const char *name, size_t length, const vo_view *view,
                         const char *file_name, vo_error *err) {
    size_t bytes;
    if (!vo_dtype_bytes(view->dtype, view->shape, view->rank, &bytes) || bytes != view->bytes)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the size of tensor %.*s does not fit its shape",
                       file_name, (int)(length < VO_MAX_NAME ? length : VO_MAX_NAME), name);
    if (!reserve_view(w)) return out_of_memory(file_name, err);
    vo_status status = add_name(w, name, length, w->n_views, file_name, err);
    if (status != VO_OK) return status;
    w->views[w->n_views] = *view;
    w->views[w->n_views].name = w->names[w->n_names - 1].name;
    w->dropped[w->n_views] = false;
    w->n_views++;
    return VO_OK;
}

vo_status vo_weights_add_alias(vo_weights *w, const char *alias, size_t alias_length,
                               const char *target, size_t target_length, const char *file_name,
                               vo_error *err) {
    vo_status status = check_name(target, target_length, file_name, err);
    if (status != VO_OK) return status;
    const name_entry *e = find_name(w, target, target_length);
    if (e == NULL)
        return vo_fail(err, VO_ERR_FORMAT, "%s: an alias points to %.*s, which is not in the file",
                       file_name, (int)target_length, target);
    return add_name(w, alias, alias_length, e->view, file_name, err);
}

static vo_status add_fact(vo_weights *w, const char *key, const char *text, size_t length,
                          int64_t number, vo_error *err) {
    if (!reserve((void **)&w->facts, &w->facts_capacity, w->n_facts, sizeof *w->facts)) goto fail;
    fact f = {vo_arena_strdup(w->arena, key), NULL, number};
    if (f.key == NULL) goto fail;
    if (text != NULL) {
        char *copy = vo_arena_alloc(w->arena, length + 1);
        if (copy == NULL) goto fail;
        memcpy(copy, text, length);
        f.text = copy;
    }
    w->facts[w->n_facts++] = f;
    return VO_OK;
fail:
    return vo_fail(err, VO_ERR_MEMORY, "not enough memory for the header of a weight file");
}

vo_status vo_weights_set_integer(vo_weights *w, const char *key, int64_t value, vo_error *err) {
    return add_fact(w, key, NULL, 0, value, err);
}

vo_status vo_weights_set_string(vo_weights *w, const char *key, const char *value, size_t length,
                                vo_error *err) {
    return add_fact(w, key, value, length, 0, err);
}

void vo_weights_set_vocabulary(vo_weights *w, size_t count, const char **tokens,
                               uint32_t *lengths) {
    vo_free(w->tokens);
    vo_free(w->token_lengths);
    w->tokens = tokens;
    w->token_lengths = lengths;
    w->n_tokens = count;
}

void vo_weights_set_layout(vo_weights *w, vo_layout layout) {
    w->layout = layout;
}

vo_view *vo_weights_sibling(vo_weights *w, const char *base, size_t length, const char *suffix) {
    char name[VO_MAX_NAME + 1];
    size_t extra = strlen(suffix);
    if (length > VO_MAX_NAME || extra > VO_MAX_NAME - length) return NULL;
    memcpy(name, base, length);
    memcpy(name + length, suffix, extra);
    const name_entry *e = find_name(w, name, length + extra);
    return e != NULL ? &w->views[e->view] : NULL;
}

vo_view *vo_weights_edit(vo_weights *w, size_t index) {
    return &w->views[index];
}

void vo_weights_drop(vo_weights *w, const vo_view *view) {
    w->dropped[view - w->views] = true;
}

/* Removes dropped views and every name that led to one. */
static vo_status remove_dropped(vo_weights *w, vo_error *err) {
    size_t kept = 0, named = 0;
    uint32_t *moved = vo_alloc_array(w->n_views + 1, sizeof *moved);
    if (moved == NULL) return out_of_memory("weights", err);
    for (size_t i = 0; i < w->n_views; i++) {
        moved[i] = (uint32_t)kept;
        if (!w->dropped[i]) w->views[kept++] = w->views[i];
    }
    for (size_t i = 0; i < w->n_names; i++) {
        name_entry e = w->names[i];
        if (w->dropped[e.view]) continue;
        e.view = moved[e.view];
        w->names[named++] = e;
    }
    vo_free(moved);
    bool changed = kept != w->n_views;
    w->n_views = kept;
    w->n_names = named;
    if (kept > 0) memset(w->dropped, 0, kept * sizeof *w->dropped);
    if (changed && !grow_slots(w, w->n_slots)) return out_of_memory("weights", err);
    return VO_OK;
}

/* ---- reading bytes ---------------------------------------------------------------------- */

const unsigned char *vo_cursor_take(vo_cursor *c, size_t n, const char *what, vo_error *err) {
    if (n > c->size - c->at) {
        vo_fail(err, VO_ERR_FORMAT, "%s: cut off: %s at byte %zu needs %zu bytes, %zu are left",
                c->file_name, what, c->at, n, c->size - c->at);
        return NULL;
    }
    const unsigned char *p = c->data + c->at;
    c->at += n;
    return p;
}

vo_status vo_cursor_u32(vo_cursor *c, uint32_t *value, const char *what, vo_error *err) {
    const unsigned char *p = vo_cursor_take(c, 4, what, err);
    if (p == NULL) return VO_ERR_FORMAT;
    *value = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return VO_OK;
}

/* ---- opening ---------------------------------------------------------------------------- */

vo_status vo_weights_create(vo_weights **weights, vo_error *err) {
    vo_weights *w = vo_alloc(sizeof *w);
    *weights = NULL;
    if (w == NULL) return out_of_memory("weights", err);
    w->arena = vo_arena_create(32 * 1024);
    if (w->arena == NULL) {
        vo_free(w);
        return out_of_memory("weights", err);
    }
    double now = vo_clock_seconds();
    memcpy(&w->seed, &now, sizeof w->seed);
    w->seed = (w->seed ^ (uint64_t)(uintptr_t)w) * 0x9e3779b97f4a7c15u;
    *weights = w;
    return VO_OK;
}

vo_status vo_weights_take_map(vo_weights *w, vo_map *map, vo_error *err) {
    vo_map *maps = vo_realloc(w->maps, (w->n_maps + 1) * sizeof *maps);
    if (maps == NULL) {
        vo_map_close(map);
        return out_of_memory("weights", err);
    }
    w->maps = maps;
    w->maps[w->n_maps++] = *map;
    return VO_OK;
}

void vo_weights_set_folder(vo_weights *w, char *folder) {
    vo_free(w->folder);
    w->folder = folder;
}

vo_status vo_weights_read(vo_weights *w, const unsigned char *data, size_t size,
                          const char *file_name, vo_error *err) {
    const vo_weight_format *format = NULL;
    vo_status status = vo_weight_format_recognise(data, size, file_name, &format, err);
    if (status != VO_OK) return status;
    if (w->format != NULL && w->format != format)
        return vo_fail(err, VO_ERR_FORMAT, "%s: is %s while its other parts are %s", file_name,
                       format->name, w->format->name);
    w->format = format;
    return format->read(w, data, size, file_name, err);
}

vo_status vo_weights_finish(vo_weights *w, vo_error *err) {
    vo_status status = VO_OK;
    if (w->format->finish != NULL) status = w->format->finish(w, err);
    return status == VO_OK ? remove_dropped(w, err) : status;
}

vo_status vo_weights_open_memory(const void *data, size_t size, const char *name,
                                 vo_weights **weights, vo_error *err) {
    vo_status status = vo_weights_create(weights, err);
    if (status != VO_OK) return status;
    status = vo_weights_read(*weights, data, size, name, err);
    if (status == VO_OK) status = vo_weights_finish(*weights, err);
    if (status != VO_OK) {
        vo_weights_close(*weights);
        *weights = NULL;
    }
    return status;
}

void vo_weights_close(vo_weights *w) {
    if (w == NULL) return;
    for (size_t i = 0; i < w->n_maps; i++) vo_map_close(&w->maps[i]);
    vo_free(w->maps);
    vo_free(w->views);
    vo_free(w->dropped);
    vo_free(w->names);
    vo_free(w->slots);
    vo_free(w->facts);
    vo_free(w->tokens);
    vo_free(w->token_lengths);
    vo_free(w->folder);
    vo_arena_destroy(w->arena);
    vo_free(w);
}

/* ---- looking ---------------------------------------------------------------------------- */

const char *vo_weights_format(const vo_weights *w) {
    return w->format->name;
}

vo_layout vo_weights_layout(const vo_weights *w) {
    return w->layout;
}

size_t vo_weights_count(const vo_weights *w) {
    return w->n_views;
}

const vo_view *vo_weights_at(const vo_weights *w, size_t index) {
    return index < w->n_views ? &w->views[index] : NULL;
}

const vo_view *vo_weights_find(const vo_weights *w, const char *name) {
    const name_entry *e = find_name(w, name, strlen(name));
    return e != NULL ? &w->views[e->view] : NULL;
}

static const fact *find_fact(const vo_weights *w, const char *key, bool text) {
    for (size_t i = 0; i < w->n_facts; i++)
        if ((w->facts[i].text != NULL) == text && strcmp(w->facts[i].key, key) == 0)
            return &w->facts[i];
    return NULL;
}

bool vo_weights_integer(const vo_weights *w, const char *key, int64_t *value) {
    const fact *f = find_fact(w, key, false);
    if (f != NULL) *value = f->number;
    return f != NULL;
}

const char *vo_weights_string(const vo_weights *w, const char *key) {
    const fact *f = find_fact(w, key, true);
    return f != NULL ? f->text : NULL;
}

const char *vo_weights_folder(const vo_weights *w) {
    return w->folder;
}

size_t vo_weights_vocabulary(const vo_weights *w, const char *const **tokens,
                             const uint32_t **lengths) {
    *tokens = w->tokens;
    *lengths = w->token_lengths;
    return w->n_tokens;
}

void vo_weights_forget(const vo_weights *w, const vo_view *view) {
    const unsigned char *data = view->data;
    for (size_t i = 0; i < w->n_maps; i++) {
        const vo_map *map = &w->maps[i];
        if (data >= map->data && data < map->data + map->size) {
            vo_map_forget(map, data, view->bytes);
            return;
        }
    }
}
