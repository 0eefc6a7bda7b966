/* SPDX-License-Identifier: MIT
 *
 * Errors are values. A function that can fail returns a vo_status and writes one
 * sentence into a caller-owned vo_error; nothing in the library prints or exits.
 */
#ifndef VO_BASE_STATUS_H
#define VO_BASE_STATUS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum vo_status {
    VO_OK = 0,
    VO_ERR_ARGUMENT,    /* the caller asked for something impossible */
    VO_ERR_MEMORY,      /* out of memory */
    VO_ERR_IO,          /* the operating system refused a read or a write */
    VO_ERR_FORMAT,      /* a file's content is damaged or hostile */
    VO_ERR_UNSUPPORTED, /* well-formed, but nothing here handles it */
    VO_ERR_NOT_FOUND,   /* no such file, model or name */
    VO_ERR_NETWORK,     /* a download failed */
    VO_ERR_LIMIT,       /* a stated limit was exceeded */
    VO_ERR_ABORTED,     /* the caller's callback asked to stop */
    VO_ERR_INTERNAL     /* our own mistake */
} vo_status;

/* One failure: what kind, and one sentence for a person. Zero-initialise before use. */
typedef struct vo_error {
    vo_status status;
    char message[480];
} vo_error;

#if defined(__GNUC__)
#define VO_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define VO_PRINTF(fmt, args)
#endif

/* Writes status and sentence into err (which may be NULL) and returns status. The first
 * error wins: an err that already holds one is left alone. */
vo_status vo_fail(vo_error *err, vo_status status, const char *fmt, ...) VO_PRINTF(3, 4);

/* A short name for a status, e.g. "damaged file". Never NULL; static storage. */
const char *vo_status_name(vo_status status);

#endif
