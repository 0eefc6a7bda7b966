/* SPDX-License-Identifier: MIT
 *
 * The one place where an error sentence is written. The first error wins, since it is the
 * cause and what follows it are consequences.
 */
#include "base/status.h"
#include "base/system.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

vo_status vo_fail(vo_error *err, vo_status status, const char *fmt, ...) {
    if (err == NULL || err->status != VO_OK) return status;
    err->status = status;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    if (n < 0) {
        err->message[0] = '\0';
    } else if ((size_t)n >= sizeof err->message) {
        size_t len = sizeof err->message - 1;
        err->message[len - (size_t)vo_utf8_incomplete_tail(err->message, len)] = '\0';
    }
    return status;
}

static vo_status status_of_errno(int code) {
    switch (code) {
    case ENOENT:
    case ENOTDIR:
        return VO_ERR_NOT_FOUND;
    case ENOMEM:
        return VO_ERR_MEMORY;
    default:
        return VO_ERR_IO;
    }
}

vo_status vo_fail_system(vo_error *err, int code, const char *what, const char *subject) {
    char reason[128] = "";
    if (strerror_r(code, reason, sizeof reason) != 0 || reason[0] == '\0') {
        snprintf(reason, sizeof reason, "system error %d", code);
    }
    return vo_fail(err, status_of_errno(code), "%s %s: %s", what, subject, reason);
}

const char *vo_status_name(vo_status status) {
    switch (status) {
    case VO_OK:
        return "no error";
    case VO_ERR_ARGUMENT:
        return "invalid argument";
    case VO_ERR_MEMORY:
        return "out of memory";
    case VO_ERR_IO:
        return "input/output error";
    case VO_ERR_FORMAT:
        return "damaged file";
    case VO_ERR_UNSUPPORTED:
        return "unsupported";
    case VO_ERR_NOT_FOUND:
        return "not found";
    case VO_ERR_NETWORK:
        return "network error";
    case VO_ERR_LIMIT:
        return "limit exceeded";
    case VO_ERR_ABORTED:
        return "aborted";
    case VO_ERR_INTERNAL:
        return "internal error";
    }
    return "unknown error";
}
