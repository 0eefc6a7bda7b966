/* SPDX-License-Identifier: MIT
 *
 * A folder of its own for a test program: set up before a test, removed after it.
 */
#ifndef TESTS_BASE_SUPPORT_SCRATCH_H
#define TESTS_BASE_SUPPORT_SCRATCH_H

/* For cmocka_unit_test_setup_teardown; *state becomes the folder's path. */
int scratch_setup(void **state);
int scratch_teardown(void **state);

/* "folder/name" in one of a few static buffers, which the fifth call after overwrites. */
const char *scratch_path(const char *folder, const char *name);
/* Writes a small text file, making its folders. */
void scratch_write(const char *folder, const char *name, const char *text);

#endif
