/* SPDX-License-Identifier: MIT
 *
 * A file of records that only grows: what a process has done must outlive it, whenever it dies.
 * A record is there whole or not at all. Numbers lie as the processor has them: such a file is for
 * the machine that wrote it.
 */
#ifndef VO_BASE_RECORDS_H
#define VO_BASE_RECORDS_H

#include "base/status.h"

enum {
    VO_RECORDS_MAGIC = 16,         /* bytes that a file begins with */
    VO_RECORDS_MAX = 256 << 20,    /* bytes of a file */
    VO_RECORDS_MAX_ONE = 64 << 20, /* bytes of one record */
};

typedef struct vo_record {
    uint32_t type;
    const unsigned char *data; /* aligned to 8 bytes when the file's bytes are */
    size_t size;
} vo_record;

/* The record at data[*at..size), which moves *at behind it. False at the end, and where the first
 * damage is: nothing after it counts. */
bool vo_record_read(const void *data, size_t size, size_t *at, vo_record *record);

typedef struct vo_records vo_records;
/* Opens or creates a file and keeps others, threads as well as processes, from opening it. What
 * follows the last whole record is cut off. VO_ERR_FORMAT, and nothing is touched, when it begins
 * otherwise than with magic[VO_RECORDS_MAGIC]; VO_ERR_IO while somebody else has it. */
vo_status vo_records_open(const char *path, const char *magic, vo_records **records, vo_error *err);
/* The records that were there when it was opened: *at is 0 at first. Borrowed until it is cleared
 * or closed. */
bool vo_records_next(const vo_records *records, size_t *at, vo_record *record);
/* Forgets them all. */
vo_status vo_records_clear(vo_records *records, vo_error *err);
/* Written before it returns, so that the death of the process loses nothing. A power cut loses at
 * most what was written within a second after the last flush. Thread safe. A record that could not
 * be written whole leaves the file as it was. */
vo_status vo_records_append(vo_records *records, uint32_t type, const void *data, size_t size,
                            vo_error *err);
void vo_records_close(vo_records *records); /* flushes; NULL allowed */

#endif
