/* SPDX-License-Identifier: MIT
 *
 * What all sources of models keep to: which names may become paths, when a folder is whole, how
 * often progress is told.
 */
#include "base/clock.h"
#include "base/file.h"
#include "hub/hub_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 96, MAX_INDEX = 16 << 20 };

bool vo_hub_report(vo_hub_context *context, const char *file, int64_t done, int64_t total,
                   bool force) {
    if (!context->params.progress) return true;
    double now = vo_clock_seconds();
    if (!force && now - context->last_report < 0.05) return true;
    context->last_report = now;
    return context->params.progress(context->params.progress_user, file, done, total);
}

/* ---- names ---- */

static bool part_is_safe(const char *s, size_t n) {
    if (n == 0 || n > MAX_NAME || s[0] == '.' || s[0] == '-') return false;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && c != '.' && c != '_' && c != '-') return false;
        /* "--" separates owner and repository in folder names. */
        if (i > 0 && s[i - 1] == c && (c == '.' || c == '-')) return false;
    }
    return true;
}

bool vo_hub_ends_with(const char *s, const char *end) {
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

bool vo_hub_name_is_safe(const char *name) {
    if (!name || vo_hub_ends_with(name, ".partial") || vo_hub_ends_with(name, ".lock"))
        return false;
    const char *slash = strchr(name, '/');
    if (!slash) return part_is_safe(name, strlen(name));
    return part_is_safe(name, (size_t)(slash - name)) && part_is_safe(slash + 1, strlen(slash + 1));
}

bool vo_hub_file_name_is_safe(const char *name) {
    return name && !strchr(name, '/') && part_is_safe(name, strlen(name)) &&
           !vo_hub_ends_with(name, ".incomplete");
}

bool vo_hub_revision_is_safe(const char *revision) {
    return revision && part_is_safe(revision, strlen(revision));
}

/* ---- what is whole ---- */

static bool file_is_there(const char *dir, const char *name, int64_t bytes) {
    char *path = vo_path_join(dir, name);
    bool there = path && vo_path_exists(path) && !vo_path_is_dir(path) &&
                 (bytes <= 0 || vo_file_size(path) == bytes);
    vo_free(path);
    return there;
}

/* Every shard that an index of safetensors names is there. */
static bool shards_are_there(const char *dir, const char *index_name) {
    char *text = NULL;
    size_t size = 0;
    bool whole = false;
    json_error_t reason;
    const char *tensor;
    json_t *shard, *root = NULL;
    char *path = vo_path_join(dir, index_name);
    if (!path || vo_file_read(path, MAX_INDEX, &text, &size, NULL) != VO_OK) goto done;
    root = json_loadb(text, size, 0, &reason);
    json_t *map = json_object_get(root, "weight_map");
    whole = json_object_size(map) > 0;
    const char *last = "";
    json_object_foreach(map, tensor, shard) {
        const char *name = json_string_value(shard);
        if (name && strcmp(name, last) == 0) continue;
        last = name ? name : "";
        whole = whole && vo_hub_file_name_is_safe(name) && file_is_there(dir, name, 0);
    }
done:
    json_decref(root);
    vo_free(text);
    vo_free(path);
    return whole;
}

static vo_status find_safetensors(void *user, const char *name, bool is_dir) {
    if (!is_dir && vo_hub_ends_with(name, ".safetensors")) *(bool *)user = true;
    return VO_OK;
}

bool vo_hub_folder_is_whole(const char *dir, const vo_hub_entry *entry) {
    if (!vo_path_is_dir(dir)) return false;
    if (entry) {
        for (const vo_hub_file *f = entry->files; f->name; f++)
            if (!f->optional && !file_is_there(dir, f->name, f->bytes)) return false;
        return true;
    }
    static const char index_name[] = "model.safetensors.index.json";
    if (!file_is_there(dir, "config.json", 0)) return false;
    if (file_is_there(dir, "model.bin", 0) || file_is_there(dir, "model.safetensors", 0))
        return true;
    if (file_is_there(dir, index_name, 0)) return shards_are_there(dir, index_name);
    bool found = false;
    vo_dir_list(dir, find_safetensors, &found, NULL);
    return found;
}
