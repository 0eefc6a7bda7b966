/* SPDX-License-Identifier: MIT
 *
 * Helpers of the weight file tests; see the header.
 */
#include "formats/support_weights.h"

#include <stdio.h>

const char *data_path(const char *variable, const char *name) {
    static char path[1024];
    const char *folder = getenv(variable);
    if (folder == NULL) {
        print_message("skipped: %s is not set\n", variable);
        skip();
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

json_t *load_json(const char *path) {
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why);
    if (root == NULL) fail_msg("%s: %s", path, why.text);
    return root;
}

vo_weights *open_or_fail(const char *path) {
    vo_weights *w;
    vo_error err = {0};
    if (vo_weights_open(path, &w, &err) != VO_OK) fail_msg("%s", err.message);
    return w;
}

unsigned char *exact_copy(const void *data, size_t n) {
    unsigned char *copy = malloc(n > 0 ? n : 1);
    assert_non_null(copy);
    if (n > 0) memcpy(copy, data, n);
    return copy;
}

char *read_all(const char *path, size_t *size) {
    char *data;
    vo_error err = {0};
    if (vo_file_read(path, 1 << 30, &data, size, &err) != VO_OK) fail_msg("%s", err.message);
    return data;
}

float *values_of(const vo_view *view) {
    vo_error err = {0};
    size_t n = (size_t)vo_view_elements(view);
    float *values = vo_alloc_array(n + 1, sizeof *values);
    assert_non_null(values);
    int64_t rows = view->rank > 1 ? view->shape[0] : 1;
    if (vo_dequantize_rows(view, 0, rows, values, &err) != VO_OK) fail_msg("%s", err.message);
    return values;
}

void digest_of(const vo_view *view, char hex[65]) {
    float *values = values_of(view);
    vo_sha256 *hash = vo_sha256_create();
    vo_sha256_update(hash, values, (size_t)vo_view_elements(view) * sizeof *values);
    vo_sha256_finish(hash, hex);
    vo_sha256_destroy(hash);
    vo_free(values);
}

void touch_everything(const vo_weights *w) {
    for (size_t i = 0; i < vo_weights_count(w); i++) {
        const vo_view *v = vo_weights_at(w, i);
        int64_t rows = v->rank > 1 ? v->shape[0] : 1;
        int64_t cols = rows > 0 ? vo_view_elements(v) / rows : 0;
        if (rows == 0 || cols == 0) continue;
        vo_error err = {0};
        float *row = vo_alloc_array((size_t)cols, sizeof *row);
        assert_non_null(row);
        assert_int_equal(vo_dequantize_rows(v, 0, 1, row, &err), VO_OK);
        assert_int_equal(vo_dequantize_rows(v, rows - 1, 1, row, &err), VO_OK);
        vo_free(row);
        assert_ptr_equal(vo_weights_find(w, v->name), v);
    }
}

void assert_refused(const void *data, size_t size, vo_status status, const char *part) {
    vo_weights *w = NULL;
    vo_error err = {0};
    size_t before = vo_memory_get_stats().active_bytes;
    unsigned char *copy = exact_copy(data, size);
    vo_status got = vo_weights_open_memory(copy, size, "x.bin", &w, &err);
    free(copy);
    if (got != status || strstr(err.message, part) == NULL)
        fail_msg("status %d (%s) instead of %d, \"%s\"", got, err.message, status, part);
    assert_null(w);
    assert_non_null(strstr(err.message, "x.bin"));
    assert_int_equal(vo_memory_get_stats().active_bytes, before);
}
