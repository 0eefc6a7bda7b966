/* SPDX-License-Identifier: MIT
 *
 * The file system over POSIX calls. Every descriptor is opened close-on-exec, so that child
 * processes inherit nothing.
 */
#define _DEFAULT_SOURCE /* madvise, flock */
#include "base/file.h"
#include "base/memory.h"
#include "base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* remove_tree holds one open folder per level. */
enum { MAX_TREE_DEPTH = 64, READ_CHUNK = 1 << 16 };

int vo_open(const char *path, int flags, unsigned mode) {
    int fd;
    do {
        fd = open(path, flags | O_CLOEXEC, (mode_t)mode);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static ssize_t read_retry(int fd, void *data, size_t size) {
    ssize_t n;
    do {
        n = read(fd, data, size);
    } while (n < 0 && errno == EINTR);
    return n;
}

vo_status vo_map_open(const char *path, vo_map *map, vo_error *err) {
    *map = (vo_map){0};
    vo_status status = VO_OK;
    int fd = vo_open(path, O_RDONLY | O_NONBLOCK, 0); /* a pipe must not block us here */
    if (fd < 0) return vo_fail_system(err, errno, "cannot open", path);
    struct stat st;
    if (fstat(fd, &st) != 0) {
        status = vo_fail_system(err, errno, "cannot read", path);
    } else if (!S_ISREG(st.st_mode)) {
        status = vo_fail(err, VO_ERR_IO, "cannot read %s: not a regular file", path);
    } else if ((uintmax_t)st.st_size > PTRDIFF_MAX) {
        status = vo_fail(err, VO_ERR_LIMIT, "cannot map %s: too large for this machine", path);
    } else if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) {
            status = vo_fail_system(err, errno, "cannot map", path);
        } else {
            map->data = data;
            map->size = (size_t)st.st_size;
            map->handle = data;
        }
    }
    close(fd); /* the mapping outlives the descriptor */
    return status;
}

void vo_map_forget(const vo_map *map, const void *data, size_t bytes) {
    if (map->handle == NULL || bytes == 0) return;
    /* Whole pages inside the range: a page at the edge may hold a neighbour. */
    long page_size = sysconf(_SC_PAGESIZE);
    if (page_size <= 0) return;
    size_t page = (size_t)page_size, begin = (size_t)((const unsigned char *)data - map->data);
    if (begin > map->size || bytes > map->size - begin) return;
    size_t end = begin + bytes;
    begin = (begin + page - 1) / page * page;
    if (end != map->size) end = end / page * page;
    if (begin < end) (void)madvise((char *)map->handle + begin, end - begin, MADV_DONTNEED);
}

void vo_map_close(vo_map *map) {
    if (map->handle != NULL) munmap(map->handle, map->size);
    *map = (vo_map){0};
}

vo_status vo_file_read(const char *path, size_t limit, char **data, size_t *size, vo_error *err) {
    vo_buf buf = {0};
    vo_status status = VO_OK;
    *data = NULL;
    *size = 0;
    int fd = vo_open(path, O_RDONLY, 0);
    if (fd < 0) return vo_fail_system(err, errno, "cannot open", path);
    struct stat st;
    size_t chunk = READ_CHUNK;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        chunk = (uintmax_t)st.st_size < limit ? (size_t)st.st_size : limit;
    }
    char *piece = vo_alloc_uninitialized(chunk < READ_CHUNK ? READ_CHUNK : chunk);
    if (piece == NULL) goto memory;
    if (chunk < READ_CHUNK) chunk = READ_CHUNK;
    for (;;) {
        ssize_t n = read_retry(fd, piece, chunk);
        if (n < 0) {
            status = vo_fail_system(err, errno, "cannot read", path);
            goto done;
        }
        if (n == 0) break;
        if ((size_t)n > limit - buf.size) {
            status = vo_fail(err, VO_ERR_LIMIT, "%s is larger than %zu bytes", path, limit);
            goto done;
        }
        vo_buf_append(&buf, piece, (size_t)n);
        if (buf.failed) goto memory;
    }
    vo_buf_append(&buf, "", 0); /* an empty file, too, is a string */
    if (buf.failed) goto memory;
    *data = buf.data;
    *size = buf.size;
    buf = (vo_buf){0};
    goto done;
memory:
    status = vo_fail(err, VO_ERR_MEMORY, "out of memory while reading %s", path);
done:
    vo_free(piece);
    vo_buf_free(&buf);
    close(fd);
    return status;
}

void vo_sync_folder_of(const char *path) {
    size_t n = (size_t)(vo_path_base(path) - path);
    char *dir = n == 0 ? vo_strdup(".") : vo_strndup(path, n);
    if (dir == NULL) return;
    int fd = vo_open(dir, O_RDONLY | O_DIRECTORY, 0);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    vo_free(dir);
}

char *vo_temp_name(const char *path) {
    static atomic_uint serial;
    return vo_format("%s.%ld.%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1u));
}

struct vo_output {
    int fd;
    char *path, *temp; /* temp: NULL when there is nothing to remove */
};

vo_status vo_output_create(const char *path, vo_output **output, vo_error *err) {
    vo_status status = VO_OK;
    vo_output *o = vo_alloc(sizeof *o);
    *output = NULL;
    if (o == NULL) return vo_fail(err, VO_ERR_MEMORY, "out of memory while writing %s", path);
    o->fd = -1;
    o->path = vo_strdup(path);
    char *temp = vo_temp_name(path);
    if (o->path == NULL || temp == NULL) {
        status = vo_fail(err, VO_ERR_MEMORY, "out of memory while writing %s", path);
        goto fail;
    }
    o->fd = vo_open(temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (o->fd < 0) {
        status = vo_fail_system(err, errno, "cannot create", temp);
        goto fail;
    }
    o->temp = temp;
    *output = o;
    return VO_OK;
fail:
    vo_free(temp);
    vo_output_discard(o);
    return status;
}

vo_status vo_output_write(vo_output *o, uint64_t offset, const void *data, size_t size,
                          vo_error *err) {
    const char *p = data;
    while (size > 0) {
        size_t piece = size < (size_t)1 << 30 ? size : (size_t)1 << 30;
        if (offset > INT64_MAX - piece) return vo_fail_system(err, EFBIG, "cannot write", o->path);
        ssize_t n = pwrite(o->fd, p, piece, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return vo_fail_system(err, errno, "cannot write", o->path);
        p += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return VO_OK;
}

vo_status vo_output_commit(vo_output *o, vo_error *err) {
    vo_status status = VO_OK;
    bool good = fsync(o->fd) == 0;
    int code = errno;
    if (close(o->fd) != 0 && good) {
        good = false;
        code = errno;
    }
    o->fd = -1;
    if (good && rename(o->temp, o->path) != 0) {
        good = false;
        code = errno;
    }
    if (good) {
        vo_free(o->temp);
        o->temp = NULL;
        vo_sync_folder_of(o->path);
    } else {
        status = vo_fail_system(err, code, "cannot write", o->path);
    }
    vo_output_discard(o);
    return status;
}

void vo_output_discard(vo_output *o) {
    if (o == NULL) return;
    if (o->fd >= 0) close(o->fd);
    if (o->temp != NULL) (void)unlink(o->temp);
    vo_free(o->temp);
    vo_free(o->path);
    vo_free(o);
}

vo_status vo_file_write_atomic(const char *path, const void *data, size_t size, vo_error *err) {
    vo_output *output;
    vo_status status = vo_output_create(path, &output, err);
    if (status != VO_OK) return status;
    status = vo_output_write(output, 0, data, size, err);
    if (status == VO_OK) return vo_output_commit(output, err);
    vo_output_discard(output);
    return status;
}

bool vo_path_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

bool vo_path_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int64_t vo_file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

vo_status vo_make_dirs(const char *path, vo_error *err) {
    vo_status status = VO_OK;
    char *copy = vo_strdup(path);
    if (copy == NULL) return vo_fail(err, VO_ERR_MEMORY, "out of memory while creating %s", path);
    char *p = copy;
    do {
        while (*p == '/') p++;
        while (*p != '\0' && *p != '/') p++;
        char end = *p;
        *p = '\0';
        /* mkdir of an existing folder may also say EROFS or EACCES, so look before judging */
        if (copy[0] != '\0' && mkdir(copy, 0777) != 0) {
            int code = errno;
            if (!vo_path_is_dir(copy)) {
                status = vo_fail_system(err, code, "cannot create folder", path);
                break;
            }
        }
        *p = end;
    } while (*p != '\0');
    vo_free(copy);
    return status;
}

vo_status vo_rename(const char *from, const char *to, vo_error *err) {
    if (rename(from, to) == 0) return VO_OK;
    int code = errno;
    char *both = vo_format("%s to %s", from, to);
    vo_status status = vo_fail_system(err, code, "cannot rename", both != NULL ? both : from);
    vo_free(both);
    return status;
}

vo_status vo_remove_file(const char *path, vo_error *err) {
    return unlink(path) == 0 ? VO_OK : vo_fail_system(err, errno, "cannot remove", path);
}

/* Removes `name` inside folder `at`; `path` is for the sentence. Working from descriptors means
 * that nobody can swap a folder for a link between the look and the removal. */
static vo_status remove_at(int at, const char *name, const char *path, int depth, vo_error *err) {
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT) return VO_OK;
    int code = errno;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return vo_fail_system(err, code, "cannot remove", path);
    if (depth >= MAX_TREE_DEPTH) {
        close(fd);
        return vo_fail(err, VO_ERR_LIMIT, "cannot remove %s: more than %d levels deep", path,
                       MAX_TREE_DEPTH);
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        code = errno;
        close(fd);
        return vo_fail_system(err, code, "cannot list", path);
    }
    vo_status status = VO_OK;
    const struct dirent *entry;
    while (status == VO_OK && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = remove_at(dirfd(dir), entry->d_name, path, depth + 1, err);
    }
    closedir(dir);
    if (status == VO_OK && unlinkat(at, name, AT_REMOVEDIR) != 0) {
        status = vo_fail_system(err, errno, "cannot remove", path);
    }
    return status;
}

vo_status vo_remove_tree(const char *path, vo_error *err) {
    return remove_at(AT_FDCWD, path, path, 0, err);
}

char *vo_path_join(const char *dir, const char *name) {
    if (name[0] == '/' || dir[0] == '\0') return vo_strdup(name);
    return vo_format(dir[strlen(dir) - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
}

const char *vo_path_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

char *vo_cache_dir(void) {
    const char *own = getenv("VOCIS_CACHE"), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (own != NULL && own[0] != '\0') return vo_strdup(own);
    /* the XDG specification says that a relative path there is to be ignored */
    if (xdg != NULL && xdg[0] == '/') return vo_path_join(xdg, "vocis");
    if (home != NULL && home[0] != '\0') return vo_path_join(home, ".cache/vocis");
    char room[4096];
    struct passwd entry, *found = NULL;
    if (getpwuid_r(getuid(), &entry, room, sizeof room, &found) == 0 && found != NULL &&
        found->pw_dir != NULL && found->pw_dir[0] == '/') {
        return vo_path_join(found->pw_dir, ".cache/vocis");
    }
    return vo_strdup(".cache/vocis");
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names of a folder, each in the arena, in the array that `names` becomes. */
static vo_status read_names(const char *path, vo_arena *arena, vo_buf *names, vo_error *err) {
    vo_status status = VO_OK;
    DIR *dir = opendir(path);
    if (dir == NULL) return vo_fail_system(err, errno, "cannot list", path);
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            if (errno != 0) status = vo_fail_system(err, errno, "cannot list", path);
            break;
        }
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        const char *copy = vo_arena_strdup(arena, entry->d_name);
        vo_buf_append(names, &copy, sizeof copy);
        if (copy == NULL || names->failed) {
            status = vo_fail(err, VO_ERR_MEMORY, "out of memory while listing %s", path);
            break;
        }
    }
    closedir(dir);
    return status;
}

vo_status vo_dir_list(const char *path, vo_dir_fn fn, void *user, vo_error *err) {
    vo_buf names = {0};
    vo_status status;
    vo_arena *arena = vo_arena_create(4096);
    if (arena == NULL) return vo_fail(err, VO_ERR_MEMORY, "out of memory while listing %s", path);
    status = read_names(path, arena, &names, err);
    size_t n = names.size / sizeof(char *);
    char **list = (char **)(void *)names.data;
    if (status == VO_OK && n > 1) qsort(list, n, sizeof *list, compare_names);
    for (size_t i = 0; i < n && status == VO_OK; i++) {
        char *full = vo_path_join(path, list[i]);
        if (full == NULL) {
            status = vo_fail(err, VO_ERR_MEMORY, "out of memory while listing %s", path);
            break;
        }
        bool is_dir = vo_path_is_dir(full);
        vo_free(full);
        status = fn(user, list[i], is_dir);
    }
    vo_buf_free(&names);
    vo_arena_destroy(arena);
    return status;
}

struct vo_lock {
    int fd;
};

vo_status vo_lock_acquire(const char *path, vo_lock **lock, vo_error *err) {
    *lock = vo_alloc(sizeof **lock);
    if (*lock == NULL) return vo_fail(err, VO_ERR_MEMORY, "out of memory while locking %s", path);
    int fd = (*lock)->fd = vo_open(path, O_RDWR | O_CREAT, 0666), result = fd < 0 ? -1 : 0;
    if (fd >= 0) {
        do {
            result = flock(fd, LOCK_EX); /* of this open file: threads exclude each other, too */
        } while (result != 0 && errno == EINTR);
    }
    if (result == 0) return VO_OK;
    vo_status status = vo_fail_system(err, errno, "cannot lock", path);
    vo_lock_release(*lock);
    *lock = NULL;
    return status;
}

void vo_lock_release(vo_lock *lock) {
    if (lock == NULL) return;
    if (lock->fd >= 0) close(lock->fd); /* closing unlocks */
    vo_free(lock);
}
