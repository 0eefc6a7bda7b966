/* SPDX-License-Identifier: MIT
 *
 * What the three weight file fuzzers share.
 */
#include "fuzz/support_weights.h"

#include "base/dequantize.h"
#include "base/memory.h"
#include "formats/format.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROW = 1 << 20 };

static void require(bool condition) {
    if (!condition) abort();
}

/* The first, the middle and the last row. */
static void read_rows(const vo_view *v, float *row) {
    vo_error err = {0};
    int64_t rows = v->rank > 1 ? v->shape[0] : 1;
    int64_t cols = rows > 0 ? vo_view_elements(v) / rows : 0;
    if (rows == 0 || cols > MAX_ROW) return;
    require(vo_dequantize_rows(v, 0, 1, row, &err) == VO_OK);
    require(vo_dequantize_rows(v, rows / 2, 1, row, &err) == VO_OK);
    require(vo_dequantize_rows(v, rows - 1, 1, row, &err) == VO_OK);
}

/* The sum keeps the reads alive; no token is that long. */
static void read_vocabulary(const vo_weights *w) {
    const char *const *tokens;
    const uint32_t *lengths;
    uint64_t sum = 0;
    size_t n = vo_weights_vocabulary(w, &tokens, &lengths);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < lengths[i]; k++) sum += (unsigned char)tokens[i][k];
    require(sum < UINT64_MAX / 2);
}

void fuzz_weights(const uint8_t *data, size_t size) {
    static float *row;
    vo_weights *w = NULL;
    vo_error err = {0};
    if (row == NULL) row = malloc(MAX_ROW * sizeof *row);
    size_t before = vo_memory_get_stats().active_bytes;
    vo_status status = vo_weights_open_memory(data, size, "fuzz", &w, &err);
    if (status == VO_OK) {
        for (size_t i = 0; i < vo_weights_count(w); i++) {
            const vo_view *v = vo_weights_at(w, i);
            require(vo_weights_find(w, v->name) == v);
            read_rows(v, row);
        }
        read_vocabulary(w);
        vo_weights_close(w);
    } else {
        require(w == NULL && err.status == status && err.message[0] != '\0');
    }
    require(vo_memory_get_stats().active_bytes == before);
}
