/* SPDX-License-Identifier: MIT
 *
 * What the text tests share: JSON goldens, and the includes that cmocka needs in this order.
 */
#ifndef TESTS_TEXT_SUPPORT_TEXT_H
#define TESTS_TEXT_SUPPORT_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

/* Loads a JSON file; fails the test when it is not there. */
json_t *load_json(const char *path);
/* String member of an object; fails the test when there is none. */
const char *get_string(const json_t *object, const char *key);

/* Calls visit for every string under a key "text" or "reference", at any depth. */
void visit_texts(const json_t *value, void (*visit)(void *user, const char *text), void *user);

/* Path of a file below the folder that VOCIS_TEST_DATA names; skips the test when it is unset. */
const char *test_data(const char *name, char path[1024]);

#endif
