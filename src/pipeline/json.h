/* SPDX-License-Identifier: MIT
 *
 * Making JSON where memory may be short: a value that is missing is noticed, never left out.
 */
#ifndef VO_PIPELINE_JSON_H
#define VO_PIPELINE_JSON_H

#include "base/memory.h"

#include <jansson.h>

/* Takes the value. Sets `failed` when it, or the memory for it, is missing. */
void vo_json_put(json_t *object, const char *key, json_t *value, bool *failed);
/* Any bytes as valid UTF-8; null for NULL. NULL only when memory is short. */
json_t *vo_json_text(const char *text);
/* Appends the document. out->failed when memory is short. */
void vo_json_write(const json_t *json, size_t flags, vo_buf *out);

#endif
