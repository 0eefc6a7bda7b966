/* SPDX-License-Identifier: MIT
 *
 * Names of documents: two inputs never get the same one.
 */
#ifndef CLI_NAMES_H
#define CLI_NAMES_H

/* For each input a stem: its file name without the last extension, "stdin" for "-". An input
 * whose stem an earlier one has gets "-2", "-3" ... behind it, whatever is free. Strings and
 * array: free(). */
char **names_of_documents(const char *const *inputs, int n);
/* The input that is the same file as `path`, or NULL. */
const char *names_same_file(const char *path, const char *const *inputs, int n);

#endif
