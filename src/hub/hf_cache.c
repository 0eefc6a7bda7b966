/* SPDX-License-Identifier: MIT
 *
 * The cache that the Hugging Face tools keep, so that a model is on disk once:
 *   <root>/models--<owner>--<repo>/refs/<branch>          one line, a commit
 *   <root>/models--<owner>--<repo>/snapshots/<commit>/<file> links to ../../blobs/<etag>
 * We read it and never write to it. Their tools publish a file only when it is complete, so a
 * whole set of files is a whole model.
 */
#include "base/file.h"
#include "hub/hub_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *env_or_null(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* "~/x" as the Hugging Face tools expand it; fresh memory. */
static char *expand_home(const char *path) {
    const char *home = env_or_null("HOME");
    if (path[0] == '~' && (path[1] == '/' || !path[1]) && home)
        return vo_format("%s%s", home, path + 1);
    return vo_strdup(path);
}

char *vo_hf_home(void) {
    const char *value = env_or_null("HF_HOME");
    if (value) return expand_home(value);
    value = env_or_null("XDG_CACHE_HOME");
    if (value) return vo_format("%s/huggingface", value);
    value = env_or_null("HOME");
    return value ? vo_format("%s/.cache/huggingface", value) : NULL;
}

static char *cache_root(void) {
    const char *value = env_or_null("HF_HUB_CACHE");
    if (!value) value = env_or_null("HUGGINGFACE_HUB_CACHE");
    if (value) return expand_home(value);
    char *home = vo_hf_home();
    char *root = home ? vo_path_join(home, "hub") : NULL;
    vo_free(home);
    return root;
}

/* First line of a small file without the white space around it; fresh memory or NULL. */
static char *read_line(const char *path) {
    char *text = NULL;
    size_t size = 0;
    if (!vo_path_exists(path) || vo_file_read(path, 4096, &text, &size, NULL) != VO_OK) return NULL;
    char *start = text + strspn(text, " \t\r\n");
    char *line = vo_strndup(start, strcspn(start, " \t\r\n"));
    vo_free(text);
    return line;
}

static char *whole_snapshot(const char *snapshots, const char *revision,
                            const vo_hub_entry *entry) {
    if (!revision || !vo_hub_revision_is_safe(revision)) return NULL;
    char *dir = vo_path_join(snapshots, revision);
    if (dir && vo_hub_folder_is_whole(dir, entry)) return dir;
    vo_free(dir);
    return NULL;
}

char *vo_hf_cache_find(const char *repo, const char *revision, const vo_hub_entry *entry) {
    if (!vo_hub_name_is_safe(repo)) return NULL;
    const char *slash = strchr(repo, '/');
    if (!slash) return NULL;
    char *found = NULL, *snapshots = NULL, *ref = NULL, *head = NULL;
    char *root = cache_root();
    char *folder = vo_format("models--%.*s--%s", (int)(slash - repo), repo, slash + 1);
    char *dir = root && folder ? vo_path_join(root, folder) : NULL;
    if (!dir || !vo_path_is_dir(dir)) goto done;
    snapshots = vo_path_join(dir, "snapshots");
    ref = vo_path_join(dir, "refs/main");
    if (!snapshots || !ref) goto done;
    found = whole_snapshot(snapshots, revision, entry);
    if (!found) {
        head = read_line(ref);
        found = whole_snapshot(snapshots, head, entry);
    }
done:
    vo_free(root);
    vo_free(folder);
    vo_free(dir);
    vo_free(snapshots);
    vo_free(ref);
    vo_free(head);
    return found;
}

static bool is_true(const char *value) {
    return value &&
           (strcmp(value, "1") == 0 || strcmp(value, "true") == 0 || strcmp(value, "TRUE") == 0 ||
            strcmp(value, "True") == 0 || strcmp(value, "yes") == 0 || strcmp(value, "YES") == 0 ||
            strcmp(value, "on") == 0 || strcmp(value, "ON") == 0);
}

bool vo_hub_is_offline(const vo_hub_context *context) {
    return context->params.offline || is_true(getenv("HF_HUB_OFFLINE"));
}

static char *token_from_file(void) {
    const char *path = env_or_null("HF_TOKEN_PATH");
    char *home = NULL, *file = NULL, *token = NULL;
    if (path) {
        file = expand_home(path);
    } else {
        home = vo_hf_home();
        file = home ? vo_path_join(home, "token") : NULL;
    }
    if (file) token = read_line(file);
    vo_free(home);
    vo_free(file);
    return token;
}

char *vo_hf_token(void) {
    const char *value = env_or_null("HF_TOKEN");
    if (!value) value = env_or_null("HUGGING_FACE_HUB_TOKEN");
    char *token = NULL;
    if (value)
        token = vo_strdup(value);
    else if (!is_true(getenv("HF_HUB_DISABLE_IMPLICIT_TOKEN")))
        token = token_from_file();
    if (!token) return NULL;
    bool printable = *token != '\0';
    for (const char *p = token; *p; p++)
        if (*p <= ' ' || *p > '~') printable = false;
    if (printable) return token;
    vo_free(token);
    return NULL;
}
