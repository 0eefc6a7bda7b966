/* SPDX-License-Identifier: MIT
 *
 * What the tests of weight files share: files into memory, JSON goldens, tensors as f32.
 */
#ifndef TESTS_FORMATS_SUPPORT_WEIGHTS_H
#define TESTS_FORMATS_SUPPORT_WEIGHTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/dequantize.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/memory.h"
#include "formats/format.h"

#define FIXTURES "tests/data/formats"

/* Path below the folder of an environment variable, in static storage; skips the running test
 * when the variable is not set. */
const char *data_path(const char *variable, const char *name);

json_t *load_json(const char *path);
vo_weights *open_or_fail(const char *path);
/* A copy of exactly n bytes, so that a sanitiser sees any read beyond them. malloc memory. */
unsigned char *exact_copy(const void *data, size_t n);
char *read_all(const char *path, size_t *size);

/* All rows as f32, fresh memory (vo_free). */
float *values_of(const vo_view *view);
/* sha256 of those values. */
void digest_of(const vo_view *view, char hex[65]);
/* De-quantises the first and the last rows of every view: touches all that a view points to. */
void touch_everything(const vo_weights *weights);

/* Opens bytes that must be refused with this status and a sentence containing `part`. */
void assert_refused(const void *data, size_t size, vo_status status, const char *part);

#endif
