/* SPDX-License-Identifier: MIT
 *
 * magic, then records of { size, type, checksum, 0, data, zeros up to a multiple of 8 }. One write
 * appends one record. A write that a crash cuts short fails its checksum and is cut off by whoever
 * opens the file next.
 */
#define _DEFAULT_SOURCE /* flock */
#include "base/records.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/pool.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct header {
    uint32_t size, type, crc, zero;
} header;

struct vo_records {
    int fd;
    char *path;
    char *data; /* [size], as it was when opened */
    size_t size;
    vo_mutex *mutex; /* guards what follows */
    vo_buf frame;
    off_t end;     /* of the last whole record */
    double synced; /* when it was last flushed */
    bool broken;   /* a piece of a record is stuck at the end */
};

static size_t padded(size_t size) {
    return (size + 7) & ~(size_t)7;
}

static uint32_t checksum(const header *h, const void *data) {
    return vo_crc32c(vo_crc32c(0, h, 2 * sizeof h->size), data, padded(h->size));
}

bool vo_record_read(const void *data, size_t size, size_t *at, vo_record *record) {
    header h;
    if (*at > size || size - *at < sizeof h) return false;
    const unsigned char *p = (const unsigned char *)data + *at;
    memcpy(&h, p, sizeof h);
    if (h.size > VO_RECORDS_MAX_ONE || padded(h.size) > size - *at - sizeof h || h.zero ||
        checksum(&h, p + sizeof h) != h.crc)
        return false;
    *record = (vo_record){h.type, p + sizeof h, h.size};
    *at += sizeof h + padded(h.size);
    return true;
}

bool vo_records_next(const vo_records *r, size_t *at, vo_record *record) {
    if (*at == 0) *at = VO_RECORDS_MAGIC;
    return vo_record_read(r->data, r->size, at, record);
}

/* ---- opening ------------------------------------------------------------------------------ */

/* Locks the file that has the name, which its last user may have removed meanwhile. */
static vo_status open_locked(vo_records *r, vo_error *err) {
    enum { TRIES = 100 };
    struct stat mine, named;
    for (int i = 0; i < TRIES; i++) {
        r->fd = vo_open(r->path, O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK, 0666);
        if (r->fd < 0 || fstat(r->fd, &mine) != 0)
            return vo_fail_system(err, errno, "cannot open", r->path);
        if (!S_ISREG(mine.st_mode))
            return vo_fail(err, VO_ERR_IO, "cannot open %s: not a regular file", r->path);
        if (flock(r->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                return vo_fail(err, VO_ERR_IO, "%s is in use by another process", r->path);
            return vo_fail_system(err, errno, "cannot lock", r->path);
        }
        if (stat(r->path, &named) == 0 && named.st_dev == mine.st_dev &&
            named.st_ino == mine.st_ino)
            return VO_OK;
        close(r->fd);
        r->fd = -1;
    }
    return vo_fail(err, VO_ERR_IO, "%s comes and goes", r->path);
}

static bool write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        const ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

static vo_status begin_anew(vo_records *r, const char *magic, vo_error *err) {
    vo_free(r->data);
    r->data = NULL;
    r->size = 0;
    if (ftruncate(r->fd, 0) != 0 || !write_all(r->fd, magic, VO_RECORDS_MAGIC) || fsync(r->fd) != 0)
        return vo_fail_system(err, errno, "cannot write", r->path);
    r->end = VO_RECORDS_MAGIC;
    vo_sync_folder_of(r->path);
    return VO_OK;
}

/* Reads all there is and cuts off what is damaged. */
static vo_status read_all(vo_records *r, const char *magic, vo_error *err) {
    vo_record record;
    vo_status status = vo_file_read(r->path, VO_RECORDS_MAX, &r->data, &r->size, err);
    if (status != VO_OK) return status;
    if (memcmp(r->data, magic, r->size < VO_RECORDS_MAGIC ? r->size : VO_RECORDS_MAGIC) != 0)
        return vo_fail(err, VO_ERR_FORMAT, "%s is something else and is left as it is", r->path);
    if (r->size < VO_RECORDS_MAGIC) return begin_anew(r, magic, err);
    size_t at = 0, end = VO_RECORDS_MAGIC;
    while (vo_records_next(r, &at, &record)) end = at;
    if (end < r->size && ftruncate(r->fd, (off_t)end) != 0)
        return vo_fail_system(err, errno, "cannot write", r->path);
    r->size = end;
    r->end = (off_t)end;
    return VO_OK;
}

vo_status vo_records_open(const char *path, const char *magic, vo_records **records,
                          vo_error *err) {
    vo_records *r = vo_alloc(sizeof *r);
    vo_status status = VO_OK;
    *records = NULL;
    if (!r) return vo_fail(err, VO_ERR_MEMORY, "no memory for %s", path);
    r->fd = -1;
    r->path = vo_strdup(path);
    r->mutex = vo_mutex_create();
    r->synced = vo_clock_seconds();
    if (!r->path || !r->mutex) status = vo_fail(err, VO_ERR_MEMORY, "no memory for %s", path);
    if (status == VO_OK) status = open_locked(r, err);
    if (status == VO_OK) status = read_all(r, magic, err);
    if (status == VO_OK)
        *records = r;
    else
        vo_records_close(r);
    return status;
}

void vo_records_close(vo_records *r) {
    if (!r) return;
    if (r->fd >= 0) {
        (void)fdatasync(r->fd);
        close(r->fd); /* unlocks */
    }
    vo_mutex_destroy(r->mutex);
    vo_buf_free(&r->frame);
    vo_free(r->data);
    vo_free(r->path);
    vo_free(r);
}

/* ---- writing ------------------------------------------------------------------------------ */

vo_status vo_records_clear(vo_records *r, vo_error *err) {
    r->size = 0;
    r->end = VO_RECORDS_MAGIC;
    if (ftruncate(r->fd, r->end) == 0) return VO_OK;
    return vo_fail_system(err, errno, "cannot write", r->path);
}

static vo_status append_frame(vo_records *r, vo_error *err) {
    const double seconds_between_flushes = 1;
    if (r->broken) return vo_fail(err, VO_ERR_IO, "cannot write %s any more", r->path);
    if (!write_all(r->fd, r->frame.data, r->frame.size)) {
        const int code = errno;
        r->broken = ftruncate(r->fd, r->end) != 0;
        return vo_fail_system(err, code, "cannot write", r->path);
    }
    r->end += (off_t)r->frame.size;
    const double now = vo_clock_seconds();
    if (now - r->synced < seconds_between_flushes) return VO_OK;
    r->synced = now;
    return fdatasync(r->fd) == 0 ? VO_OK : vo_fail_system(err, errno, "cannot write", r->path);
}

vo_status vo_records_append(vo_records *r, uint32_t type, const void *data, size_t size,
                            vo_error *err) {
    static const char zeros[8];
    vo_status status;
    if (size > VO_RECORDS_MAX_ONE)
        return vo_fail(err, VO_ERR_LIMIT, "%s: a record of %zu bytes is too large", r->path, size);
    vo_mutex_lock(r->mutex);
    header h = {.size = (uint32_t)size, .type = type};
    vo_buf_clear(&r->frame);
    vo_buf_append(&r->frame, &h, sizeof h);
    vo_buf_append(&r->frame, data, size);
    vo_buf_append(&r->frame, zeros, padded(size) - size);
    if (r->frame.failed) {
        vo_buf_free(&r->frame);
        status = vo_fail(err, VO_ERR_MEMORY, "no memory for a record of %s", r->path);
    } else {
        h.crc = checksum(&h, r->frame.data + sizeof h);
        memcpy(r->frame.data, &h, sizeof h);
        status = append_frame(r, err);
    }
    vo_mutex_unlock(r->mutex);
    return status;
}
