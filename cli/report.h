/* SPDX-License-Identifier: MIT
 *
 * What the program says: results on standard output, everything else on standard error; notes
 * and the progress bar only where somebody looks. A write that fails is an error. Signals ask
 * to stop, and stop at once when they come twice.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "vocis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void report_start(void); /* signals; called first */
void report_configure(bool quiet, bool json_errors);
bool interrupted(void);

/* "vocis: NAME: message", or one line of JSON. name may be NULL. */
void report_error(const char *name, vocis_status status, const char *message);
/* "vocis: warning: NAME: sentence", or one line of JSON with the status "warning". */
void report_warning(const char *name, const char *sentence);
/* For a terminal only, and not when quiet. */
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line of the library's log. */
void report_log(void *user, vocis_log_level level, const char *line);

/* Seconds on a clock that never goes back. */
double now(void);

/* The bar: a label, how far, and some words behind it. Drawn at most ten times a second. */
void progress_draw(const char *label, double fraction, const char *behind);
void progress_clear(void);
bool progress_download(void *user, const char *file, int64_t done, int64_t total);

/* Standard output. After a failure, which is reported once, nothing more is written. */
bool output_write(const char *data, size_t size);
bool output_puts(const char *text);
bool output_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
bool output_flush(void);
/* Flushes to the disk, when it is a file. */
bool output_sync(void);
bool output_failed(void);
int output_width(void); /* columns of its terminal, 80 where unknown */
/* Flushes and closes; the exit status is `status`, or a failure. */
int output_finish(int status);

/* Files: a temporary name beside `path`, on the disk before the rename, and the new name after it.
 * False: reported under `name`. */
bool file_write_atomic(const char *name, const char *path, const char *data, size_t size);
bool make_folders(const char *path);
/* The whole of a file or, for "-", of standard input: NUL-terminated, free(). NULL: reported. */
char *file_read_all(const char *path, size_t *size);

/* Text for a terminal: control characters become blanks, invalid bytes U+FFFD, blanks at the
 * ends go. free(). Ends the program when memory is short. */
char *clean_line(const char *text);
/* printf into fresh memory: free(). Ends the program when memory is short. */
char *format_text(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *checked(void *memory); /* ends the program for NULL */
/* 145.2 MB */
void format_bytes(int64_t bytes, char *out, size_t size);

#endif
