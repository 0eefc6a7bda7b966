/* SPDX-License-Identifier: MIT
 *
 * What the linear layers of a Whisper are given: mean sizes and products of input channels,
 * gathered while the model works. Quantisation asks them which errors matter.
 */
#ifndef VO_MODELS_WHISPER_MOMENTS_H
#define VO_MODELS_WHISPER_MOMENTS_H

#include "base/pool.h"
#include "models/whisper/whisper.h"

/* Of the inputs x [columns] of one linear layer. Products are known of channels of the same block
 * of `block` channels (the last one may be shorter), so that their memory grows with the weights'
 * and not faster. Sums until they are finished, means then. */
typedef struct vo_moments {
    int64_t rows, columns;
    int64_t block;   /* a multiple of 128, or all columns */
    float *absolute; /* of |x|: [columns] */
    float *products; /* of x_i x_j, j >= i: [blocks][block][block] */
} vo_moments;

/* Where the products of channels from `first` on begin, a multiple of block. */
static inline float *vo_moments_block(const vo_moments *m, int64_t first) {
    return m->products + first * m->block;
}
/* The mean of x_j squared. */
static inline float vo_moments_square(const vo_moments *m, int64_t j) {
    const int64_t i = j % m->block;
    return vo_moments_block(m, j - i)[i * m->block + i];
}

/* y[n] += f x[n] in steps that a vector holds: y and x do not overlap. */
static inline void vo_add_scaled(float *restrict y, const float *restrict x, float f, int64_t n) {
    enum { LANES = 16 };
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++) y[j + l] += f * x[j + l];
    for (; j < n; j++) y[j] += f * x[j];
}

/* Sums of nothing; VO_ERR_MEMORY. vo_moments_free takes a zeroed one, too. */
vo_status vo_moments_init(vo_moments *moments, int64_t columns, vo_error *err);
void vo_moments_free(vo_moments *moments);
/* Adds rows of `stride` elements, every `step`-th of them. pool: NULL for the calling thread. */
void vo_moments_add(vo_moments *moments, const float *x, int64_t rows, int64_t stride, int64_t step,
                    vo_pool *pool);
/* Makes means of sums; false when they are not finite, or of nothing. */
bool vo_moments_finish(vo_moments *moments);

/* ---- of every linear layer of a model's blocks ----------------------------------------------- */

typedef struct vo_whisper_moments vo_whisper_moments;

/* The model and the pool (NULL: none) must outlive only the observing. */
vo_status vo_whisper_moments_create(const vo_whisper *model, vo_pool *pool,
                                    vo_whisper_moments **moments, vo_error *err);
void vo_whisper_moments_destroy(vo_whisper_moments *moments);
/* To be set in the model before its first state. One thread at a time. */
vo_observer vo_whisper_moments_observer(vo_whisper_moments *moments);
/* Once, after the last observation. VO_ERR_ARGUMENT when a layer has seen nothing, or something
 * that is not finite. */
vo_status vo_whisper_moments_finish(vo_whisper_moments *moments, vo_error *err);

/* which: a matrix of a block (BIND_..._W). block: those of the encoder, then of the decoder. */
const vo_moments *vo_whisper_moments_of(const vo_whisper_moments *moments, int block, int which);

#endif
