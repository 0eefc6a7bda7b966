/* SPDX-License-Identifier: MIT
 *
 * Files and folders: everything that touches the file system goes through here. Paths are
 * UTF-8. Error sentences name the path and the system's reason.
 */
#ifndef VO_BASE_FILE_H
#define VO_BASE_FILE_H

#include "base/status.h"

/* A read-only mapping of a whole file. Should somebody shorten the file afterwards, touching the
 * lost part ends the process (SIGBUS): files that change are read, not mapped. */
typedef struct vo_map {
    const unsigned char *data; /* NULL for an empty file */
    size_t size;
    void *handle; /* private */
} vo_map;
vo_status vo_map_open(const char *path, vo_map *map, vo_error *err);
/* Tells the system that these bytes are not needed for now; they can be read again. */
void vo_map_forget(const vo_map *map, const void *data, size_t bytes);
void vo_map_close(vo_map *map); /* zeroes it; a zeroed map is allowed */

/* Whole file into memory (free with vo_free), refused above `limit` bytes. NUL-terminated. Works
 * for pipes and /proc, too. */
vo_status vo_file_read(const char *path, size_t limit, char **data, size_t *size, vo_error *err);

/* A name beside path that no other process or call takes; vo_free. NULL when memory is short. */
char *vo_temp_name(const char *path);
/* Writes to a temporary name beside `path`, flushes, renames: readers see all or nothing. */
vo_status vo_file_write_atomic(const char *path, const void *data, size_t size, vo_error *err);

/* The same for a file that is made piece by piece. One thread at a time. */
typedef struct vo_output vo_output;
vo_status vo_output_create(const char *path, vo_output **output, vo_error *err);
/* Pieces come in any order; what lies between them reads as zeros. */
vo_status vo_output_write(vo_output *output, uint64_t offset, const void *data, size_t size,
                          vo_error *err);
/* Puts the file in its place. Frees the output, also on failure, which leaves nothing behind. */
vo_status vo_output_commit(vo_output *output, vo_error *err);
void vo_output_discard(vo_output *output); /* instead of committing; NULL allowed */

bool vo_path_exists(const char *path);
bool vo_path_is_dir(const char *path);
int64_t vo_file_size(const char *path);                  /* -1 when there is none */
vo_status vo_make_dirs(const char *path, vo_error *err); /* like mkdir -p */
vo_status vo_rename(const char *from, const char *to, vo_error *err);
vo_status vo_remove_file(const char *path, vo_error *err);
/* Never follows symbolic links; fine when there is nothing. At most 64 levels deep. */
vo_status vo_remove_tree(const char *path, vo_error *err);
/* "dir/name" in fresh memory (vo_free); an absolute name replaces dir. */
char *vo_path_join(const char *dir, const char *name);
/* Last component, borrowed from path. */
const char *vo_path_base(const char *path);
/* Where user caches live: $VOCIS_CACHE, else $XDG_CACHE_HOME/vocis, else ~/.cache/vocis. */
char *vo_cache_dir(void);

/* Calls fn for each entry of a folder (not "." and ".."), in byte order of the names. */
typedef vo_status (*vo_dir_fn)(void *user, const char *name, bool is_dir);
vo_status vo_dir_list(const char *path, vo_dir_fn fn, void *user, vo_error *err);

/* An advisory lock on a file (created if missing), held until released; waits for others,
 * threads as well as processes. */
typedef struct vo_lock vo_lock;
vo_status vo_lock_acquire(const char *path, vo_lock **lock, vo_error *err);
void vo_lock_release(vo_lock *lock);

#endif
