/* SPDX-License-Identifier: MIT
 *
 * The builder behind vo_weights: what a format's reader calls while it walks a file. Names are
 * copied and hashed, data stays where it lies. A reader adds every tensor, then its `finish`
 * joins quantised data with the scales beside it.
 */
#ifndef VO_FORMATS_WEIGHTS_H
#define VO_FORMATS_WEIGHTS_H

#include "formats/format.h"

enum { VO_MAX_NAME = 512 }; /* bytes of a tensor's name; published models stay below 120 */

/* Adds one tensor under `name` (not NUL-terminated), which must be new. view->name is ignored,
 * view->bytes must be what dtype and shape need. */
vo_status vo_weights_add(vo_weights *weights, const char *name, size_t length, const vo_view *view,
                         const char *file_name, vo_error *err);
/* Makes a second name for a tensor that was added before. */
vo_status vo_weights_add_alias(vo_weights *weights, const char *alias, size_t alias_length,
                               const char *target, size_t target_length, const char *file_name,
                               vo_error *err);

/* Facts for vo_weights_integer and vo_weights_string. */
vo_status vo_weights_set_integer(vo_weights *weights, const char *key, int64_t value,
                                 vo_error *err);
vo_status vo_weights_set_string(vo_weights *weights, const char *key, const char *value,
                                size_t length, vo_error *err);
/* Takes both arrays (vo_alloc memory) whatever happens. */
void vo_weights_set_vocabulary(vo_weights *weights, size_t count, const char **tokens,
                               uint32_t *lengths);
void vo_weights_set_layout(vo_weights *weights, vo_layout layout);

/* The view of that base name with a suffix ("a.b" + ".scales"), or NULL. For `finish`. */
vo_view *vo_weights_sibling(vo_weights *weights, const char *base, size_t length,
                            const char *suffix);
/* `finish` changes views in place and marks those that were merged into another one; the
 * marked ones and their names disappear when it returns. */
vo_view *vo_weights_edit(vo_weights *weights, size_t index);
void vo_weights_drop(vo_weights *weights, const vo_view *view);

/* ---- a bounded reader of little-endian bytes ------------------------------------------- */

typedef struct vo_cursor {
    const unsigned char *data;
    size_t size, at;
    const char *file_name;
} vo_cursor;
/* The next n bytes, or NULL with the error set ("X: cut off at byte N, in WHAT"). */
const unsigned char *vo_cursor_take(vo_cursor *cursor, size_t n, const char *what, vo_error *err);
vo_status vo_cursor_u32(vo_cursor *cursor, uint32_t *value, const char *what, vo_error *err);
static inline size_t vo_cursor_left(const vo_cursor *cursor) {
    return cursor->size - cursor->at;
}

#endif
