/* SPDX-License-Identifier: MIT
 *
 * A token is said where the heads look while it is decided on. Columns are standardised, so that
 * frames which every token looks at say nothing; a median along time removes spikes; then tokens
 * and frames are brought together in order.
 */
#include "decode/align.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { MEDIAN = 7, HALF = MEDIAN / 2 };

void vo_align_standardize(float *x, int tokens, int frames, double *sums) {
    double *mean = sums, *square = sums + frames;
    const size_t n = (size_t)frames;
    memset(sums, 0, 2 * n * sizeof *sums);
    for (int i = 0; i < tokens; i++)
        for (size_t t = 0; t < n; t++) mean[t] += (double)x[(size_t)i * n + t];
    for (size_t t = 0; t < n; t++) mean[t] /= tokens;
    for (int i = 0; i < tokens; i++)
        for (size_t t = 0; t < n; t++) {
            const double off = (double)x[(size_t)i * n + t] - mean[t];
            square[t] += off * off;
        }
    for (size_t t = 0; t < n; t++) square[t] = sqrt(square[t] / tokens);
    for (int i = 0; i < tokens; i++)
        for (size_t t = 0; t < n; t++) {
            float *at = x + (size_t)i * n + t;
            *at = square[t] > 0 ? (*at - (float)mean[t]) / (float)square[t] : 0.0f;
        }
}

static inline void order(float *a, float *b) {
    const float x = *a, y = *b;
    *a = x < y ? x : y;
    *b = x < y ? y : x;
}

/* The middle one of seven without branches, so that compilers make vectors of it. Each step throws
 * away the smallest and the largest of as many as there must be one below and one above it. */
static inline float median7(const float *p) {
    float a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6];
    /* of a..e the smallest to a, the largest to e */
    order(&a, &b);
    order(&c, &d);
    order(&a, &c);
    order(&b, &d);
    order(&a, &e);
    order(&d, &e);
    /* of b, c, d, f the smallest to b, the largest to f */
    order(&b, &c);
    order(&d, &f);
    order(&b, &d);
    order(&c, &f);
    /* of c, d, g the middle one */
    order(&c, &d);
    order(&d, &g);
    order(&c, &d);
    return d;
}

void vo_align_add_median7(const float *x, int n, float *padded, float *y) {
    if (n <= HALF) {
        for (int i = 0; i < n; i++) y[i] += x[i];
        return;
    }
    for (int i = 0; i < HALF; i++) {
        padded[i] = x[HALF - i];
        padded[HALF + n + i] = x[n - 2 - i];
    }
    memcpy(padded + HALF, x, (size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) y[i] += median7(padded + i);
}

/* ---- dynamic time warping -------------------------------------------------------------------- */

enum { BOTH, DOWN, ALONG };

/* Costs of one row after those of the row above; both begin with the column before the first.
 * Names what each step came from. */
static void extend_row(const float *x, int m, const float *above, float *costs, uint8_t *from) {
    for (int j = 1; j <= m; j++) {
        const float both = above[j - 1], down = above[j], along = costs[j - 1];
        float least = along;
        from[j] = ALONG;
        if (both < down && both < along)
            least = both, from[j] = BOTH;
        else if (down < both && down < along)
            least = down, from[j] = DOWN;
        costs[j] = least - x[j - 1];
    }
}

static void trace_back(const uint8_t *from, int n, int m, int32_t *start) {
    const size_t width = (size_t)m + 1;
    for (int i = n, j = m; i > 0;) {
        start[i - 1] = j > 0 ? j - 1 : 0;
        const uint8_t step = j > 0 ? from[(size_t)i * width + (size_t)j] : DOWN;
        if (step != ALONG) i--;
        if (step != DOWN) j--;
    }
}

vo_status vo_align_dtw(const float *x, int n, int m, int32_t *start, vo_error *err) {
    const size_t width = (size_t)m + 1;
    float *costs = vo_alloc_array(2 * width, sizeof *costs);
    uint8_t *from = vo_alloc_array(width, (size_t)n + 1);
    vo_status status =
        costs && from ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for times of words");
    if (status == VO_OK) {
        for (size_t j = 1; j < width; j++) costs[j] = INFINITY;
        for (int i = 1; i <= n; i++) {
            float *above = costs + (size_t)((i - 1) % 2) * width,
                  *row = costs + (size_t)(i % 2) * width;
            row[0] = INFINITY;
            extend_row(x + (size_t)(i - 1) * (size_t)m, m, above, row, from + (size_t)i * width);
        }
        trace_back(from, n, m, start);
    }
    vo_free(costs);
    vo_free(from);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

vo_status vo_align_tokens(float *weights, int heads, int tokens, int frames, int first, int count,
                          int32_t *start, vo_error *err) {
    const size_t width = (size_t)frames;
    float *matrix = vo_alloc_array((size_t)count, width * sizeof *matrix);
    float *padded = vo_alloc_array(width + 2 * HALF, sizeof *padded);
    double *sums = vo_alloc_array(width, 2 * sizeof *sums);
    vo_status status = matrix && padded && sums
                           ? VO_OK
                           : vo_fail(err, VO_ERR_MEMORY, "no memory for times of words");
    for (int h = 0; status == VO_OK && h < heads; h++) {
        float *head = weights + (size_t)h * (size_t)tokens * width;
        vo_align_standardize(head, tokens, frames, sums);
        for (int i = 0; i < count; i++)
            vo_align_add_median7(head + (size_t)(first + i) * width, frames, padded,
                                 matrix + (size_t)i * width);
    }
    for (size_t i = 0; status == VO_OK && i < (size_t)count * width; i++) matrix[i] /= (float)heads;
    if (status == VO_OK) status = vo_align_dtw(matrix, count, frames, start, err);
    vo_free(matrix);
    vo_free(padded);
    vo_free(sums);
    return status;
}
