/* SPDX-License-Identifier: MIT
 *
 * A child process read through a pipe, with limits. No shell is involved.
 */
#ifndef VO_BASE_PROCESS_H
#define VO_BASE_PROCESS_H

#include "base/status.h"

typedef struct vo_process vo_process;

typedef struct vo_process_params {
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in PATH */
    const void *input;       /* bytes fed to its standard input; NULL: /dev/null */
    size_t input_size;
    /* Instead of `input`: called from vo_process_read and vo_process_finish, on their thread,
     * when the child can take more. Returns the number of bytes written to data, 0 at the end,
     * negative when it cannot go on (the child is killed, VO_ERR_ABORTED). The timeout does not
     * interrupt it. */
    int64_t (*read_input)(void *user, void *data, size_t size);
    void *user;
    double timeout_seconds; /* for the whole life of the child; 0: none */
    size_t memory_limit;    /* address space in bytes; 0: none */
} vo_process_params;

/* VO_ERR_NOT_FOUND when the program is not installed. `input` must live until the end; argv
 * need not. */
vo_status vo_process_start(const vo_process_params *params, vo_process **process, vo_error *err);
/* Next bytes of its standard output; *got = 0 at the end. VO_ERR_LIMIT after the timeout. */
vo_status vo_process_read(vo_process *process, void *data, size_t size, size_t *got, vo_error *err);
/* Drops output that was not read and waits; a non-zero exit is VO_ERR_FORMAT with the last line
 * of its standard error. */
vo_status vo_process_finish(vo_process *process, vo_error *err);
void vo_process_destroy(vo_process *process); /* kills it if it still runs; NULL allowed */

/* True when a program of that name is in PATH. */
bool vo_process_available(const char *program);

#endif
