/* SPDX-License-Identifier: MIT
 *
 * The Hugging Face hub as a source: GET {endpoint}/{repo}/resolve/{commit}/{file}. A file
 * grows under the name FILE.incomplete and gets its own name only after its size and hash
 * were found right; so whatever has its own name is done, and whatever has not is resumed.
 */
#include "base/file.h"
#include "base/hash.h"
#include "hub/hub_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ATTEMPTS = 40, MAX_FRUITLESS = 3, MAX_LISTING = 8 << 20, MAX_REPO_FILES = 256 };
/* An attempt that brought less than this got us nowhere: the line only trickles. */
enum { WORTHWHILE_BYTES = 64 * 1024 };

static const char *endpoint_url(void) {
    const char *value = getenv("HF_ENDPOINT");
    return value && *value ? value : "https://huggingface.co";
}

static vo_status open_hub(vo_hub_context *context, vo_http **http, vo_error *err) {
    char *token = vo_hf_token();
    vo_status status = vo_http_open(endpoint_url(), token, context, http, err);
    vo_free(token);
    return status;
}

/* ---- checking ---- */

vo_status vo_hub_accept_file(const char *unchecked, const char *dir, const vo_hub_file *file,
                             const char *sha256, vo_error *err) {
    char found[65];
    int64_t size = vo_file_size(unchecked);
    if (file->bytes > 0 && size != file->bytes) {
        vo_remove_file(unchecked, NULL);
        return vo_fail(err, VO_ERR_FORMAT, "%s has %lld bytes instead of %lld and was removed",
                       file->name, (long long)size, (long long)file->bytes);
    }
    if (sha256) {
        vo_status status = vo_sha256_file(unchecked, found, err);
        if (status != VO_OK) return status;
        if (strcmp(found, sha256) != 0) {
            vo_remove_file(unchecked, NULL);
            return vo_fail(err, VO_ERR_FORMAT,
                           "%s is damaged and was removed: its sha256 is %s instead of %s",
                           file->name, found, sha256);
        }
    }
    char *path = vo_path_join(dir, file->name);
    if (!path) return vo_fail(err, VO_ERR_MEMORY, "out of memory while downloading");
    vo_status status = vo_rename(unchecked, path, err);
    vo_free(path);
    return status;
}

bool vo_hub_file_is_done(const vo_hub_file *file, const char *dir) {
    char found[65];
    char *path = vo_path_join(dir, file->name);
    if (!path) return false;
    bool there = vo_path_exists(path);
    bool done = there && (file->bytes <= 0 || vo_file_size(path) == file->bytes);
    if (done && file->sha256)
        done = vo_sha256_file(path, found, NULL) == VO_OK && strcmp(found, file->sha256) == 0;
    if (there && !done) vo_remove_file(path, NULL);
    vo_free(path);
    return done;
}

/* ---- one file ---- */

static void pause_before_attempt(int fruitless) {
    struct timespec wait = {.tv_sec = fruitless > 1 ? fruitless - 1 : 0,
                            .tv_nsec = fruitless > 1 ? 0 : 200 * 1000 * 1000};
    nanosleep(&wait, NULL);
}

/* Asks until the file is there, as long as every attempt brings it further. */
static vo_status get_with_retries(vo_http *http, const char *url_path, const char *to,
                                  const vo_hub_file *file, vo_hub_context *context,
                                  vo_http_answer *answer, vo_error *err) {
    char stated[65] = "";
    bool resumed = false;
    vo_error why = {0};
    vo_status status = VO_OK;
    for (int attempt = 0, fruitless = 0; attempt < MAX_ATTEMPTS; attempt++) {
        memset(&why, 0, sizeof why);
        status = vo_http_get_file(http, url_path, to, file->name, file->bytes, answer, &why);
        if (answer->sha256[0]) memcpy(stated, answer->sha256, sizeof stated);
        resumed = !answer->from_the_start;
        if (status == VO_OK || !answer->worth_retrying) break;
        fruitless = answer->received >= WORTHWHILE_BYTES ? 0 : fruitless + 1;
        if (fruitless == MAX_FRUITLESS) break;
        vo_log_line(&context->params.log, VO_LOG_INFO, "%s; trying again", why.message);
        pause_before_attempt(fruitless);
    }
    memcpy(answer->sha256, stated, sizeof stated);
    answer->from_the_start = !resumed;
    if (status != VO_OK) vo_fail(err, why.status, "%s", why.message);
    return status;
}

static vo_status get_and_check(vo_http *http, const char *url_path, const char *to,
                               const vo_hub_file *file, const char *dir, vo_hub_context *context,
                               bool *resumed, vo_error *err) {
    vo_http_answer answer = {.bytes = -1};
    vo_status status = VO_OK;
    *resumed = false;
    /* A full-sized file needs the check alone, for which its hash must be known. */
    bool full = file->sha256 && file->bytes > 0 && vo_file_size(to) == file->bytes;
    if (full)
        *resumed = true;
    else
        status = get_with_retries(http, url_path, to, file, context, &answer, err);
    if (status != VO_OK && vo_file_size(to) == 0) vo_remove_file(to, NULL);
    if (status != VO_OK) return status;
    if (!full) *resumed = !answer.from_the_start;
    vo_hub_file known = *file;
    if (known.bytes <= 0 && answer.bytes > 0) known.bytes = answer.bytes;
    const char *sha256 = file->sha256 ? file->sha256 : answer.sha256[0] ? answer.sha256 : NULL;
    return vo_hub_accept_file(to, dir, &known, sha256, err);
}

static vo_status get_file(vo_http *http, const char *repo, const char *revision,
                          const vo_hub_file *file, const char *dir, vo_hub_context *context,
                          vo_error *err) {
    char *url_path = vo_format("/%s/resolve/%s/%s", repo, revision, file->name);
    char *to = vo_format("%s/%s.incomplete", dir, file->name);
    vo_status status = VO_ERR_MEMORY;
    bool resumed = false;
    vo_error why = {0};
    if (!url_path || !to) {
        vo_fail(&why, VO_ERR_MEMORY, "out of memory while downloading");
        goto done;
    }
    status = get_and_check(http, url_path, to, file, dir, context, &resumed, &why);
    if (status == VO_ERR_FORMAT && resumed) {
        /* The beginning came from an earlier run, perhaps one that a crash cut short. */
        vo_log_line(&context->params.log, VO_LOG_WARN, "%s; downloading it anew", why.message);
        memset(&why, 0, sizeof why);
        status = get_and_check(http, url_path, to, file, dir, context, &resumed, &why);
    }
done:
    if (status != VO_OK) vo_fail(err, why.status, "%s", why.message);
    vo_free(url_path);
    vo_free(to);
    return status;
}

static bool report_done(const vo_hub_file *file, const char *dir, vo_hub_context *context) {
    char *path = vo_path_join(dir, file->name);
    int64_t bytes = path ? vo_file_size(path) : file->bytes;
    vo_free(path);
    return vo_hub_report(context, file->name, bytes, bytes, true);
}

static vo_status get_all(vo_http *http, const char *repo, const vo_hub_entry *entry,
                         const char *dir, vo_hub_context *context, vo_error *err) {
    for (const vo_hub_file *f = entry->files; f->name; f++) {
        if (vo_hub_file_is_done(f, dir)) continue;
        vo_error why = {0};
        vo_status status = get_file(http, repo, entry->revision, f, dir, context, &why);
        if (status == VO_ERR_NOT_FOUND && f->optional) continue;
        if (status != VO_OK) return vo_fail(err, status, "%s", why.message);
        if (!report_done(f, dir, context))
            return vo_fail(err, VO_ERR_ABORTED, "the download was stopped");
    }
    return VO_OK;
}

vo_status vo_hub_download(const vo_hub_entry *entry, const char *dir, vo_hub_context *context,
                          vo_error *err) {
    vo_http *http = NULL;
    vo_error why = {0};
    vo_status status = open_hub(context, &http, &why);
    if (status == VO_OK) status = get_all(http, entry->model.repo, entry, dir, context, &why);
    if (status == VO_ERR_NOT_FOUND && entry->also_repo) {
        memset(&why, 0, sizeof why);
        status = get_all(http, entry->also_repo, entry, dir, context, &why);
    }
    if (status != VO_OK) vo_fail(err, why.status, "%s", why.message);
    vo_http_close(http);
    return status;
}

/* ---- what a repository holds ---- */

static const char *const side_files[] = {
    "config.json",
    "generation_config.json",
    "preprocessor_config.json",
    "tokenizer.json",
    "vocabulary.txt",
    "vocabulary.json",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    "added_tokens.json",
    "special_tokens_map.json",
    "normalizer.json",
};

static const char *sibling_name(const json_t *sibling) {
    const char *name = json_string_value(json_object_get(sibling, "rfilename"));
    return name && vo_hub_file_name_is_safe(name) ? name : NULL;
}

static bool has_sibling(const json_t *siblings, const char *wanted) {
    size_t i;
    json_t *sibling;
    json_array_foreach(siblings, i, sibling) {
        const char *name = sibling_name(sibling);
        if (name && strcmp(name, wanted) == 0) return true;
    }
    return false;
}

/* Repositories hold the same weights in several forms; one of them is enough. */
static bool is_wanted_weight(const json_t *siblings, const char *name) {
    if (has_sibling(siblings, "model.bin")) return strcmp(name, "model.bin") == 0;
    if (!vo_hub_ends_with(name, ".safetensors") &&
        !vo_hub_ends_with(name, ".safetensors.index.json"))
        return false;
    if (has_sibling(siblings, "model.safetensors")) return strcmp(name, "model.safetensors") == 0;
    if (has_sibling(siblings, "model.safetensors.index.json"))
        return strcmp(name, "model.safetensors.index.json") == 0 ||
               (strncmp(name, "model-", 6) == 0 && vo_hub_ends_with(name, ".safetensors"));
    if (has_sibling(siblings, "weights.safetensors"))
        return strcmp(name, "weights.safetensors") == 0;
    return vo_hub_ends_with(name, ".safetensors");
}

static bool is_side_file(const char *name) {
    for (size_t i = 0; i < sizeof side_files / sizeof side_files[0]; i++)
        if (strcmp(side_files[i], name) == 0) return true;
    return false;
}

static bool is_sha256(const char *s) {
    return s && strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64;
}

static vo_status take_files(const json_t *siblings, const char *repo, vo_arena *arena,
                            vo_hub_entry *entry, vo_error *err) {
    vo_hub_file *files = vo_arena_alloc(arena, sizeof *files * (MAX_REPO_FILES + 1));
    size_t i, n = 0;
    bool weights = false;
    json_t *sibling;
    if (!files) return vo_fail(err, VO_ERR_MEMORY, "out of memory");
    json_array_foreach(siblings, i, sibling) {
        const char *name = sibling_name(sibling);
        bool weight = name && is_wanted_weight(siblings, name);
        if (!weight && !(name && is_side_file(name))) continue;
        if (n == MAX_REPO_FILES)
            return vo_fail(err, VO_ERR_LIMIT, "%s holds more than %d model files", repo,
                           MAX_REPO_FILES);
        weights = weights || weight;
        const json_t *lfs = json_object_get(sibling, "lfs");
        const char *sha256 = json_string_value(json_object_get(lfs, "sha256"));
        files[n].name = vo_arena_strdup(arena, name);
        files[n].sha256 = is_sha256(sha256) ? vo_arena_strdup(arena, sha256) : NULL;
        json_int_t bytes = json_integer_value(json_object_get(sibling, "size"));
        files[n].bytes = bytes > 0 ? bytes : 0;
        if (!files[n].name) return vo_fail(err, VO_ERR_MEMORY, "out of memory");
        if (__builtin_add_overflow(entry->model.bytes, files[n].bytes, &entry->model.bytes))
            return vo_fail(err, VO_ERR_FORMAT, "the sizes listed for %s are nonsense", repo);
        n++;
    }
    entry->files = files;
    if (weights) return VO_OK;
    return vo_fail(err, VO_ERR_UNSUPPORTED,
                   "%s holds neither model.bin (CTranslate2) nor *.safetensors", repo);
}

vo_status vo_hub_list_repo(const char *repo, vo_hub_context *context, vo_arena *arena,
                           vo_hub_entry **out, vo_error *err) {
    vo_http *http = NULL;
    vo_buf text = {0};
    json_t *root = NULL;
    json_error_t reason;
    char *url_path = vo_format("/api/models/%s?blobs=true", repo);
    vo_hub_entry *entry = vo_arena_alloc(arena, sizeof *entry);
    vo_status status = VO_ERR_MEMORY;
    if (!url_path || !entry) {
        vo_fail(err, status, "out of memory");
        goto done;
    }
    status = open_hub(context, &http, err);
    if (status == VO_OK) status = vo_http_get_text(http, url_path, MAX_LISTING, &text, err);
    if (status != VO_OK) goto done;
    root = json_loadb(text.data ? text.data : "", text.size, JSON_REJECT_DUPLICATES, &reason);
    const char *commit = json_string_value(json_object_get(root, "sha"));
    const json_t *siblings = json_object_get(root, "siblings");
    if (!json_is_array(siblings) || !commit || strlen(commit) != 40 ||
        !vo_hub_revision_is_safe(commit)) {
        status =
            vo_fail(err, VO_ERR_FORMAT, "the hub's list of the files of %s cannot be read", repo);
        goto done;
    }
    entry->model.name = entry->model.repo = vo_arena_strdup(arena, repo);
    entry->model.family = "whisper";
    entry->model.licence = entry->model.description = "";
    entry->revision = vo_arena_strdup(arena, commit);
    status = entry->revision && entry->model.repo ? take_files(siblings, repo, arena, entry, err)
                                                  : vo_fail(err, VO_ERR_MEMORY, "out of memory");
    *out = entry;
done:
    json_decref(root);
    vo_http_close(http);
    vo_buf_free(&text);
    vo_free(url_path);
    return status;
}
