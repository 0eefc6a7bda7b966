/* SPDX-License-Identifier: MIT
 *
 * CTranslate2's model.bin, binary versions 4 to 6 (all of Whisper's): a flat list of named
 * variables, then aliases for tied ones. Integers are little-endian, nothing is aligned.
 *
 *   u32 version, str spec, u32 revision
 *   u32 n, n x { str name, u8 rank, u32 dims[rank], u8 dtype, u32 bytes, data }
 *   u32 n, n x { str alias, str name }          str = u16 length with NUL, bytes, NUL
 *
 * Quantised variables have their scale beside them: X/weight and X/weight_scale become one view.
 */
#include "formats/weights.h"

#include "base/memory.h"

#include <string.h>

enum { FIRST_VERSION = 4, LAST_VERSION = 6, MAX_SPEC = 64 };

static const vo_dtype dtypes[] = {VO_F32, VO_I8, VO_I16, VO_I32, VO_F16, VO_BF16};

/* Version, then a string that fits, ends in NUL and looks like "WhisperSpec". */
static bool matches(const unsigned char *data, size_t size) {
    if (size < 8 || data[0] > 32 || data[1] != 0 || data[2] != 0 || data[3] != 0) return false;
    size_t n = (size_t)data[4] | (size_t)data[5] << 8;
    if (n < 2 || n > MAX_SPEC || n > size - 6 || data[6 + n - 1] != 0) return false;
    for (size_t i = 0; i + 1 < n; i++) {
        unsigned char c = data[6 + i];
        bool letter = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!letter && c != '_') return false;
    }
    return true;
}

static vo_status take_string(vo_cursor *c, const char **text, size_t *length, const char *what,
                             vo_error *err) {
    const unsigned char *p = vo_cursor_take(c, 2, what, err);
    if (p == NULL) return VO_ERR_FORMAT;
    size_t n = (size_t)p[0] | (size_t)p[1] << 8;
    p = vo_cursor_take(c, n, what, err);
    if (p == NULL) return VO_ERR_FORMAT;
    if (n == 0 || p[n - 1] != 0)
        return vo_fail(err, VO_ERR_FORMAT, "%s: %s at byte %zu has no closing NUL", c->file_name,
                       what, c->at - n);
    *text = (const char *)p;
    *length = n - 1;
    return VO_OK;
}

static vo_status read_header(vo_weights *w, vo_cursor *c, vo_error *err) {
    uint32_t version, revision;
    const char *spec;
    size_t length;
    vo_status status = vo_cursor_u32(c, &version, "the version", err);
    if (status != VO_OK) return status;
    if (version < FIRST_VERSION || version > LAST_VERSION)
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s: CTranslate2 binary version %u is not read, only %d to %d", c->file_name,
                       (unsigned)version, (int)FIRST_VERSION, (int)LAST_VERSION);
    status = take_string(c, &spec, &length, "the name of the specification", err);
    if (status == VO_OK) status = vo_cursor_u32(c, &revision, "the revision", err);
    if (status == VO_OK) status = vo_weights_set_string(w, "spec", spec, length, err);
    if (status == VO_OK) status = vo_weights_set_integer(w, "version", version, err);
    if (status == VO_OK) status = vo_weights_set_integer(w, "revision", revision, err);
    return status;
}

static vo_status read_variable(vo_weights *w, vo_cursor *c, vo_error *err) {
    const char *name;
    size_t length, start = c->at;
    vo_view view = {0};
    uint32_t dim, bytes;
    vo_status status = take_string(c, &name, &length, "a variable's name", err);
    if (status != VO_OK) return status;
    int shown = (int)(length < 200 ? length : 200);
    const unsigned char *p = vo_cursor_take(c, 1, "a variable's rank", err);
    if (p == NULL) return VO_ERR_FORMAT;
    if (p[0] > VO_MAX_DIMS)
        return vo_fail(err, VO_ERR_FORMAT, "%s: variable %.*s at byte %zu has %d dimensions",
                       c->file_name, shown, name, start, (int)p[0]);
    view.rank = p[0];
    for (int i = 0; i < view.rank; i++) {
        status = vo_cursor_u32(c, &dim, "a variable's shape", err);
        if (status != VO_OK) return status;
        view.shape[i] = dim;
    }
    p = vo_cursor_take(c, 1, "a variable's type", err);
    if (p == NULL) return VO_ERR_FORMAT;
    if (p[0] >= sizeof dtypes / sizeof dtypes[0])
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s: variable %.*s has the unknown type %d",
                       c->file_name, shown, name, (int)p[0]);
    view.dtype = dtypes[p[0]];
    status = vo_cursor_u32(c, &bytes, "a variable's size", err);
    if (status != VO_OK) return status;
    view.bytes = bytes;
    view.data = vo_cursor_take(c, bytes, "a variable's data", err);
    if (view.data == NULL) return VO_ERR_FORMAT;
    return vo_weights_add(w, name, length, &view, c->file_name, err);
}

static vo_status read_alias(vo_weights *w, vo_cursor *c, vo_error *err) {
    const char *alias, *target;
    size_t alias_length, target_length;
    vo_status status = take_string(c, &alias, &alias_length, "an alias", err);
    if (status == VO_OK) status = take_string(c, &target, &target_length, "an alias", err);
    if (status != VO_OK) return status;
    return vo_weights_add_alias(w, alias, alias_length, target, target_length, c->file_name, err);
}

static vo_status read_file(vo_weights *w, const unsigned char *data, size_t size,
                           const char *file_name, vo_error *err) {
    vo_cursor c = {data, size, 0, file_name};
    uint32_t n = 0;
    vo_status status = read_header(w, &c, err);
    if (status == VO_OK) status = vo_cursor_u32(&c, &n, "the number of variables", err);
    /* a count that lies ends the loop at the end of the file; nothing is allocated from it */
    for (uint32_t i = 0; status == VO_OK && i < n; i++) status = read_variable(w, &c, err);
    if (status == VO_OK) status = vo_cursor_u32(&c, &n, "the number of aliases", err);
    for (uint32_t i = 0; status == VO_OK && i < n; i++) status = read_alias(w, &c, err);
    if (status != VO_OK) return status;
    if (vo_cursor_left(&c) != 0)
        return vo_fail(err, VO_ERR_FORMAT, "%s: %zu bytes too many after the aliases at byte %zu",
                       file_name, vo_cursor_left(&c), c.at);
    return VO_OK;
}

/* Joins X (i8 or i16) with X_scale, which stays in memory as part of X's view. */
static vo_status join_scale(vo_weights *w, vo_view *view, const vo_view *scale, vo_error *err) {
    int64_t want = view->dtype == VO_I8 ? view->shape[0] : 1;
    bool is_float = scale->dtype == VO_F32 || scale->dtype == VO_F16 || scale->dtype == VO_BF16;
    if (view->rank < 1 || !is_float || scale->rank > 1 || vo_view_elements(scale) != want)
        return vo_fail(err, VO_ERR_FORMAT, "the scale of %.200s does not fit it", view->name);
    view->scales = scale->data;
    view->scale_dtype = scale->dtype;
    view->dtype = view->dtype == VO_I8 ? VO_ROWSCALED_I8 : VO_SCALED_I16;
    vo_weights_drop(w, scale);
    return VO_OK;
}

static vo_status finish(vo_weights *w, vo_error *err) {
    size_t n = vo_weights_count(w);
    for (size_t i = 0; i < n; i++) {
        vo_view *view = vo_weights_edit(w, i);
        if (view->dtype != VO_I8 && view->dtype != VO_I16) continue;
        vo_view *scale = vo_weights_sibling(w, view->name, strlen(view->name), "_scale");
        /* an integer without a scale is a setting such as num_heads, not a weight */
        if (scale == NULL || scale == view) continue;
        vo_status status = join_scale(w, view, scale, err);
        if (status != VO_OK) return status;
    }
    const char *spec = vo_weights_string(w, "spec");
    if (spec != NULL && strcmp(spec, "WhisperSpec") == 0)
        vo_weights_set_layout(w, VO_LAYOUT_CTRANSLATE2);
    return VO_OK;
}

const vo_weight_format vo_weight_format_ctranslate2 = {"ctranslate2", matches, read_file, finish};
