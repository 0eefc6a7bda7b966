/* SPDX-License-Identifier: MIT
 *
 * A log line is formatted on the stack, so that logging never allocates, and made one line.
 */
#include "base/log.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

void vo_log_line(const vo_log *log, vo_log_level level, const char *fmt, ...) {
    if (log == NULL || log->fn == NULL || level < log->level) return;
    char line[1024];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0) return;
    size_t len = strlen(line);
    if ((size_t)n >= sizeof line) {
        len -= (size_t)vo_utf8_incomplete_tail(line, len);
        line[len] = '\0';
    }
    while (len > 0 && line[len - 1] == '\n') line[--len] = '\0';
    for (char *p = line; *p != '\0'; p++) {
        if (*p == '\n' || *p == '\r') *p = ' ';
    }
    log->fn(log->user, level, line);
}
