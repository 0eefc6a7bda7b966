/* SPDX-License-Identifier: MIT
 *
 * Two tables say which tensor a scale multiplies and which it divides; the search tries powers of
 * the inputs' mean sizes on some rows of every layer that shares the inputs.
 */
#include "models/whisper/awq.h"

#include "base/dequantize.h"
#include "base/memory.h"
#include "base/quantize.h"
#include "models/whisper/bind.h"

#include <math.h>
#include <string.h>

/* ---- folding ------------------------------------------------------------------------------- */

struct vo_whisper_scales {
    int n_encoder; /* blocks */
    int64_t width;
    float *values; /* [blocks][VO_FOLD_COUNT][width] */
};

static const struct {
    vo_fold fold;
    bool is_matrix;
} column_folds[BIND_BLOCK_COUNT] = {
    [BIND_SELF_QKV_W] = {VO_FOLD_SELF, true},       [BIND_SELF_OUT_W] = {VO_FOLD_SELF_OUT, true},
    [BIND_CROSS_Q_W] = {VO_FOLD_CROSS, true},       [BIND_CROSS_KV_W] = {VO_FOLD_AUDIO, true},
    [BIND_CROSS_OUT_W] = {VO_FOLD_CROSS_OUT, true}, [BIND_MLP_UP_W] = {VO_FOLD_MLP, true},
};

vo_fold vo_whisper_column_fold(vo_whisper_part p) {
    if (p.block < 0 || !column_folds[p.which].is_matrix) return VO_FOLD_NONE;
    return column_folds[p.which].fold;
}

vo_fold vo_whisper_row_fold(vo_whisper_part p) {
    enum { VALUE_OF_SELF = 2, VALUE_OF_CROSS = 1 }; /* parts of what is stacked */
    if (p.block < 0)
        return p.which == BIND_AUDIO_NORM_W || p.which == BIND_AUDIO_NORM_B ? VO_FOLD_AUDIO
                                                                            : VO_FOLD_NONE;
    switch (p.which) {
    case BIND_SELF_NORM_W:
    case BIND_SELF_NORM_B:
        return VO_FOLD_SELF;
    case BIND_SELF_QKV_W:
    case BIND_SELF_QKV_B:
        return p.part == VALUE_OF_SELF ? VO_FOLD_SELF_OUT : VO_FOLD_NONE;
    case BIND_CROSS_NORM_W:
    case BIND_CROSS_NORM_B:
        return VO_FOLD_CROSS;
    case BIND_CROSS_KV_W:
    case BIND_CROSS_KV_B:
        return p.part == VALUE_OF_CROSS ? VO_FOLD_CROSS_OUT : VO_FOLD_NONE;
    case BIND_MLP_NORM_W:
    case BIND_MLP_NORM_B:
        return VO_FOLD_MLP;
    default:
        return VO_FOLD_NONE;
    }
}

vo_status vo_whisper_scales_create(const vo_whisper_dims *dims, vo_whisper_scales **out,
                                   vo_error *err) {
    const size_t blocks = (size_t)dims->n_audio_layer + (size_t)dims->n_text_layer;
    const size_t width = (size_t)dims->n_audio_state, n = blocks * VO_FOLD_COUNT * width;
    vo_whisper_scales *s = vo_alloc(sizeof *s);
    if (s) s->values = vo_alloc_array(n, sizeof *s->values);
    if (!s || !s->values) {
        vo_whisper_scales_destroy(s);
        return vo_fail(err, VO_ERR_MEMORY, "no memory to scale a model");
    }
    s->n_encoder = dims->n_audio_layer;
    s->width = dims->n_audio_state;
    for (size_t i = 0; i < n; i++) s->values[i] = 1;
    *out = s;
    return VO_OK;
}

void vo_whisper_scales_destroy(vo_whisper_scales *s) {
    if (!s) return;
    vo_free(s->values);
    vo_free(s);
}

float *vo_whisper_scales_of(const vo_whisper_scales *s, int block, vo_fold fold) {
    if (fold == VO_FOLD_AUDIO) block = s->n_encoder;
    return s->values + ((int64_t)block * VO_FOLD_COUNT + (int64_t)fold) * s->width;
}

static const float *scales_or_none(const vo_whisper_scales *s, int block, vo_fold fold) {
    return s && fold != VO_FOLD_NONE ? vo_whisper_scales_of(s, block, fold) : NULL;
}

const float *vo_whisper_column_scales(const vo_whisper_scales *s, vo_whisper_part p) {
    return scales_or_none(s, p.block, vo_whisper_column_fold(p));
}

const float *vo_whisper_row_scales(const vo_whisper_scales *s, vo_whisper_part p) {
    return scales_or_none(s, p.block, vo_whisper_row_fold(p));
}

/* ---- the search ---------------------------------------------------------------------------- */

enum {
    POWERS = 21,      /* 0, 1/20 ... 1 */
    MOST_ROWS = 64,   /* of a layer that are tried: errors of rows are much alike */
    MIN_SHARE = 1000, /* a channel counts as no quieter than the loudest one over this */
};

typedef struct search {
    const vo_awq_params *p;
    const vo_moments *moments;
    float *rows; /* [n_rows][columns], unscaled */
    int64_t n_rows;
    float *scratch;        /* [POWERS][5][columns] */
    double errors[POWERS]; /* negative: cannot be quantised */
} search;

/* How much a squared error of a weight in each column counts, in weights that are multiplied by
 * scales. */
static void fill_importance(const vo_moments *m, const float *scales, float *importance) {
    for (int64_t j = 0; j < m->columns; j++)
        importance[j] = vo_moments_square(m, j) / (scales[j] * scales[j]);
}

/* The mean sizes to a power, around one. */
static void fill_scales(const vo_moments *m, double power, float *scales) {
    double loudest = 0, low = INFINITY, high = 0;
    for (int64_t j = 0; j < m->columns; j++) loudest = fmax(loudest, (double)m->absolute[j]);
    for (int64_t j = 0; j < m->columns; j++) {
        const double size = fmax((double)m->absolute[j], loudest / MIN_SHARE);
        const double scale = size > 0 ? pow(size, power) : 1;
        low = fmin(low, scale);
        high = fmax(high, scale);
        scales[j] = (float)scale;
    }
    const float middle = (float)sqrt(low * high);
    for (int64_t j = 0; j < m->columns; j++) scales[j] /= middle;
}

/* What quantisation adds to weight j of a row. */
static double error_of(const vo_awq_params *p, const float *row, int64_t j, const uint8_t *packed,
                       const float *scales, const float *biases) {
    const int q = p->bits == 8 ? packed[j] : packed[j / 2] >> j % 2 * 4 & 15;
    const int64_t g = j / p->group_size;
    return (double)((float)q * scales[g] + biases[g]) - (double)row[j];
}

/* Error of one row's outputs once it is quantised; negative when it cannot be. */
static double row_error(const search *s, const float *row, const float *importance,
                        float *scratch) {
    const int64_t k = s->moments->columns;
    uint8_t *packed = (uint8_t *)scratch; /* of bits / 8 for a weight */
    float *scales = scratch + k / 4 + 1, *biases = scales + k / s->p->group_size;
    double sum = 0;
    if (!vo_quantize_affine_weighted(row, importance, k, s->p->group_size, s->p->bits, s->p->dtype,
                                     packed, scales, biases))
        return -1;
    for (int64_t j = 0; j < k; j++) {
        const double e = error_of(s->p, row, j, packed, scales, biases);
        sum += (double)importance[j] * e * e;
    }
    return sum;
}

static void try_power(void *arg, int64_t power, int thread) {
    search *s = arg;
    const int64_t k = s->moments->columns;
    float *scales = s->scratch + power * 5 * k, *importance = scales + k, *row = importance + k;
    double sum = 0;
    (void)thread;
    fill_scales(s->moments, (double)power / (POWERS - 1), scales);
    fill_importance(s->moments, scales, importance);
    for (int64_t r = 0; r < s->n_rows && sum >= 0; r++) {
        for (int64_t j = 0; j < k; j++) row[j] = s->rows[r * k + j] * scales[j];
        const double error = row_error(s, row, importance, row + k);
        sum = error < 0 ? -1 : sum + error;
    }
    s->errors[power] = sum;
}

/* Rows of every layer at even distances. */
static vo_status sample_rows(search *s, const vo_awq_layer *layers, int n, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; i < n; i++) {
        const int64_t rows = layers[i].rows < MOST_ROWS ? layers[i].rows : MOST_ROWS;
        for (int64_t r = 0; r < rows && status == VO_OK; r++)
            status = vo_dequantize_rows(layers[i].view, layers[i].row + r * layers[i].rows / rows,
                                        1, s->rows + s->n_rows++ * s->moments->columns, err);
    }
    return status;
}

vo_status vo_awq_search(const vo_awq_layer *layers, int n, const vo_moments *moments,
                        const vo_awq_params *params, float *scales, double *before, double *after,
                        vo_error *err) {
    const size_t k = (size_t)moments->columns;
    search s = {.p = params, .moments = moments};
    int best = 0;
    s.rows = vo_alloc_array((size_t)n * MOST_ROWS, k * sizeof *s.rows);
    s.scratch = vo_alloc_array(POWERS * 5, k * sizeof *s.scratch);
    vo_status status = s.rows && s.scratch
                           ? sample_rows(&s, layers, n, err)
                           : vo_fail(err, VO_ERR_MEMORY, "no memory to scale a model");
    if (status == VO_OK) vo_pool_run(params->pool, POWERS, try_power, &s);
    for (int i = 0; status == VO_OK && i < POWERS; i++) {
        if (s.errors[i] < 0 && i == 0)
            status = vo_fail(err, VO_ERR_UNSUPPORTED,
                             "the tensor %s holds something but finite numbers, or too large ones, "
                             "and cannot be quantised",
                             layers[0].view->name);
        if (s.errors[i] >= 0 && s.errors[i] < s.errors[best]) best = i;
    }
    if (status == VO_OK) memcpy(scales, s.scratch + (size_t)best * 5 * k, k * sizeof *scales);
    if (status == VO_OK && before) *before = s.errors[0];
    if (status == VO_OK && after) *after = s.errors[best];
    vo_free(s.rows);
    vo_free(s.scratch);
    return status;
}
