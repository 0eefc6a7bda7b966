/* SPDX-License-Identifier: MIT
 *
 * Models by name: a name or path goes in, a folder on disk comes out. Nothing else in the
 * program knows about hubs, mirrors, Python packages or caches.
 */
#ifndef VO_HUB_HUB_H
#define VO_HUB_HUB_H

#include "base/log.h"
#include "base/status.h"

/* One line of models.def. Borrowed, static. */
typedef struct vo_hub_model {
    const char *name;    /* "base" */
    const char *family;  /* "whisper" */
    const char *repo;    /* "Systran/faster-whisper-base" */
    const char *licence; /* "MIT" */
    const char *description;
    int64_t bytes; /* of all files */
} vo_hub_model;
int vo_hub_count(void);
const vo_hub_model *vo_hub_at(int index);
/* By name, alias ("large" is "large-v3") or repository; NULL when unknown. */
const vo_hub_model *vo_hub_find(const char *name);

/* Progress of a download; return false to stop it. done and total count the bytes of `file`;
 * total is 0 while unknown. Called on the thread that resolves, some 20 times a second at most. */
typedef bool (*vo_hub_progress_fn)(void *user, const char *file, int64_t done, int64_t total);

typedef struct vo_hub_params {
    const char *cache_dir; /* NULL: vo_cache_dir()/models */
    bool offline;          /* only look, never download */
    vo_hub_progress_fn progress;
    void *progress_user;
    vo_log log;
} vo_hub_params;

/* name: a name of the table (NULL: "base"), a path that exists, or "owner/repo" of the Hugging
 * Face hub. The table comes first, so that a folder called base in the working folder changes
 * nothing; "./base" names that one.
 * Gives the folder (or file) in fresh memory (vo_free). Looks in our cache, then in the Hugging
 * Face cache, then downloads from the first source that answers, checks sha256 and renames
 * into place. Safe to run in two processes at once; resumes partial files. */
vo_status vo_hub_resolve(const char *name, const vo_hub_params *params, char **path, vo_error *err);
/* Only what is on disk already: NULL when it is not there. Fresh memory. */
char *vo_hub_lookup(const char *name, const vo_hub_params *params);

#endif
