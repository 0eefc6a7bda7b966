/* SPDX-License-Identifier: MIT
 *
 * Log lines go to a callback or nowhere; the library never prints.
 */
#ifndef VO_BASE_LOG_H
#define VO_BASE_LOG_H

#include "base/status.h"

typedef enum vo_log_level { VO_LOG_DEBUG, VO_LOG_INFO, VO_LOG_WARN, VO_LOG_ERROR } vo_log_level;

/* Called with one line without newline, possibly from several threads at once. */
typedef void (*vo_log_fn)(void *user, vo_log_level level, const char *line);

/* Passed by value to whatever may want to speak; a zeroed one is silent. */
typedef struct vo_log {
    vo_log_fn fn;
    void *user;
    vo_log_level level; /* lines below this level are dropped before formatting */
} vo_log;

void vo_log_line(const vo_log *log, vo_log_level level, const char *fmt, ...) VO_PRINTF(3, 4);

#endif
