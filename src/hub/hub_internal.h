/* SPDX-License-Identifier: MIT
 *
 * What the files of this folder share: an entry says which files make a model, where each may
 * come from and how each is checked. A line of models.def is one; the listing of a repository
 * on the Hugging Face hub becomes one too. So every source works on the same description, and
 * a download begun from one source can be finished from another.
 */
#ifndef VO_HUB_HUB_INTERNAL_H
#define VO_HUB_HUB_INTERNAL_H

#include "base/memory.h"
#include "hub/hub.h"

typedef struct vo_hub_file {
    const char *name;   /* a plain file name, never a path; NULL ends a list */
    int64_t bytes;      /* 0: unknown */
    const char *sha256; /* 64 hex digits; NULL: what the hub states at download */
    bool optional;      /* the model is whole without it */
} vo_hub_file;

/* One piece of a file inside the wheel of a Python package. Pieces of a file are joined in
 * the order of the list. */
typedef struct vo_hub_part {
    const char *file; /* which file it belongs to; NULL ends a list */
    const char *package, *version;
    const char *path; /* inside the wheel */
} vo_hub_part;

typedef struct vo_hub_entry {
    vo_hub_model model;
    const char *aliases;      /* separated by spaces; NULL: none */
    const char *also_repo;    /* the same files under a second name on the hub, or NULL */
    const char *revision;     /* commit on the hub */
    const vo_hub_file *files; /* ends with a NULL name */
    const vo_hub_part *parts; /* NULL: in no Python package */
} vo_hub_entry;

/* By name, alias, or name of the repository; NULL when unknown. */
const vo_hub_entry *vo_hub_find_entry(const char *name);
const vo_hub_file *vo_hub_find_file(const vo_hub_entry *entry, const char *name);

typedef struct vo_hub_timeouts {
    long connect_seconds; /* until a connection stands */
    long stall_seconds;   /* without progress worth the name */
} vo_hub_timeouts;

/* Everything one call of vo_hub_resolve carries along. */
typedef struct vo_hub_context {
    vo_hub_params params;
    vo_hub_timeouts timeouts;
    double last_report;
} vo_hub_context;
vo_hub_context vo_hub_context_for(const vo_hub_params *params);

/* Tells the caller's callback, at most some 20 times a second unless `force`. False: stop. */
bool vo_hub_report(vo_hub_context *context, const char *file, int64_t done, int64_t total,
                   bool force);
bool vo_hub_is_offline(const vo_hub_context *context);

bool vo_hub_ends_with(const char *s, const char *end);
/* A name that may become part of a path: [A-Za-z0-9._-]+ or two such with one '/' between,
 * none of which begins with '.' or '-' or holds ".." or "--". */
bool vo_hub_name_is_safe(const char *name);
/* One plain file name of the same alphabet. */
bool vo_hub_file_name_is_safe(const char *name);
/* A full commit id or a branch name that may become part of a path. */
bool vo_hub_revision_is_safe(const char *revision);

/* Whether `dir` holds every file the entry needs, by size where sizes are known. With entry
 * NULL: a configuration and weights, all shards of an index included. */
bool vo_hub_folder_is_whole(const char *dir, const vo_hub_entry *entry);

/* The same as the public ones for an entry that need not be in the table. */
vo_status vo_hub_resolve_entry(const vo_hub_entry *entry, vo_hub_context *context, char **path,
                               vo_error *err);
char *vo_hub_lookup_entry(const vo_hub_entry *entry, const vo_hub_context *context);

/* ---- the Hugging Face cache (hf_cache.c): only ever read ---- */

/* The snapshot folder of a repository in fresh memory, NULL when no whole one is there. The
 * commit `revision` is preferred, then what refs/main names. entry as in
 * vo_hub_folder_is_whole. */
char *vo_hf_cache_find(const char *repo, const char *revision, const vo_hub_entry *entry);
/* $HF_HOME, else $XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. Fresh memory. */
char *vo_hf_home(void);
/* HF_TOKEN or the token file, in fresh memory; NULL: none, or one that is no header value. */
char *vo_hf_token(void);

/* ---- HTTP (http.c) ---- */

typedef struct vo_http vo_http;

/* What the answer said about the file. Only the endpoint itself is believed, not the hosts it
 * sends us on to. */
typedef struct vo_http_answer {
    int status;
    char sha256[65];     /* empty: not stated */
    int64_t bytes;       /* -1: not stated */
    int64_t received;    /* bytes that arrived in this call */
    bool from_the_start; /* the server ignored the range, or there was nothing to resume */
    bool worth_retrying; /* on failure: a cut line or a busy server, not a refusal */
} vo_http_answer;

/* Requests to `endpoint` carry the token; requests to any other scheme, host or port do not. */
vo_status vo_http_open(const char *endpoint, const char *token, vo_hub_context *context,
                       vo_http **http, vo_error *err);
/* Path is appended to the endpoint. Refused above `limit` bytes. */
vo_status vo_http_get_text(vo_http *http, const char *path, size_t limit, vo_buf *text,
                           vo_error *err);
/* Appends to the file `to` from its present end, or begins anew when the server cannot
 * resume. label is for progress. bytes: what the file must come to, 0 when unknown. */
vo_status vo_http_get_file(vo_http *http, const char *path, const char *to, const char *label,
                           int64_t bytes, vo_http_answer *answer, vo_error *err);
void vo_http_close(vo_http *http);

/* ---- sources: each fills what is missing in `dir` ---- */

/* VO_ERR_NETWORK or VO_ERR_NOT_FOUND mean that another source may have it. */
vo_status vo_hub_download(const vo_hub_entry *entry, const char *dir, vo_hub_context *context,
                          vo_error *err);
vo_status vo_pypi_fetch(const vo_hub_entry *entry, const char *dir, vo_hub_context *context,
                        vo_error *err);

/* The files of "owner/repo" that a speech model needs, as an entry in the arena. */
vo_status vo_hub_list_repo(const char *repo, vo_hub_context *context, vo_arena *arena,
                           vo_hub_entry **entry, vo_error *err);

/* Whether `dir` already holds the file, checked by hash where one is known. A wrong one is
 * removed. */
bool vo_hub_file_is_done(const vo_hub_file *file, const char *dir);
/* Checks `unchecked` against size and hash (NULL: none), then renames it to its name in `dir`.
 * A wrong one is removed and the sentence names both hashes. */
vo_status vo_hub_accept_file(const char *unchecked, const char *dir, const vo_hub_file *file,
                             const char *sha256, vo_error *err);

#endif
