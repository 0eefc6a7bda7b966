/* SPDX-License-Identifier: MIT
 *
 * What jansson leaves to its user: sums of failures, invalid bytes, and documents in our buffers.
 */
#include "pipeline/json.h"

#include "base/utf8.h"

#include <string.h>

void vo_json_put(json_t *object, const char *key, json_t *value, bool *failed) {
    if (json_object_set_new(object, key, value) != 0) *failed = true;
}

json_t *vo_json_text(const char *text) {
    if (!text) return json_null();
    size_t size;
    char *clean = vo_utf8_sanitize(text, strlen(text), &size);
    json_t *json = clean ? json_stringn(clean, size) : NULL;
    vo_free(clean);
    return json;
}

static int append(const char *data, size_t size, void *user) {
    vo_buf *out = user;
    vo_buf_append(out, data, size);
    return out->failed ? -1 : 0;
}

/* Not json_dumps: when memory is short it leaves out keys and says nothing. */
void vo_json_write(const json_t *json, size_t flags, vo_buf *out) {
    if (json_dump_callback(json, append, out, flags) != 0) out->failed = true;
}
