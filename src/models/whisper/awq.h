/* SPDX-License-Identifier: MIT
 *
 * Activation-aware scaling (Lin et al. 2023, "AWQ: Activation-aware Weight Quantization"): an input
 * channel that is loud makes the errors of its weights loud. Its weights are multiplied by a scale
 * before they are quantised, which makes their share of the group's errors smaller, and what
 * produces the channel is divided by the same scale, so that the network computes the same.
 */
#ifndef VO_MODELS_WHISPER_AWQ_H
#define VO_MODELS_WHISPER_AWQ_H

#include "base/pool.h"
#include "models/whisper/moments.h"

/* ---- where scales go: a network without new ops -------------------------------------------- */

/* The inputs that can be scaled, in every block. What produces them takes the inverse: a norm's
 * gain and bias, or the rows of the value matrix, since attention only averages values. The inputs
 * of the second matrix of the feed-forward part come out of GELU, which takes no scale. */
typedef enum vo_fold {
    VO_FOLD_SELF,      /* query, key and value of self-attention <- its norm */
    VO_FOLD_SELF_OUT,  /* output matrix <- value */
    VO_FOLD_CROSS,     /* query of cross-attention <- its norm */
    VO_FOLD_CROSS_OUT, /* output matrix <- value */
    VO_FOLD_MLP,       /* first matrix of the feed-forward part <- its norm */
    VO_FOLD_AUDIO,     /* keys and values of cross-attention in every block of the decoder <- the
                          encoder's last norm: one scale, that of the decoder's first block */
    VO_FOLD_COUNT,
    VO_FOLD_NONE = VO_FOLD_COUNT
} vo_fold;

typedef struct vo_whisper_scales vo_whisper_scales;
vo_status vo_whisper_scales_create(const vo_whisper_dims *dims, vo_whisper_scales **scales,
                                   vo_error *err);
void vo_whisper_scales_destroy(vo_whisper_scales *scales);
/* [d] to be written: ones at first. block: those of the encoder, then of the decoder. */
float *vo_whisper_scales_of(const vo_whisper_scales *scales, int block, vo_fold fold);

/* A tensor of the model. block -1: `which` is a single one (BIND_AUDIO_NORM_W ...). */
typedef struct vo_whisper_part {
    int block, which, part;
} vo_whisper_part;
/* By what its columns are multiplied, and its rows divided; VO_FOLD_NONE: by nothing. */
vo_fold vo_whisper_column_fold(vo_whisper_part part);
vo_fold vo_whisper_row_fold(vo_whisper_part part);
/* The scales of these folds; NULL: ones. */
const float *vo_whisper_column_scales(const vo_whisper_scales *scales, vo_whisper_part part);
const float *vo_whisper_row_scales(const vo_whisper_scales *scales, vo_whisper_part part);

/* ---- the search ------------------------------------------------------------------------------ */

/* Some rows [row, row + rows) of a stored matrix: one of the layers that share an input. */
typedef struct vo_awq_layer {
    const vo_view *view;
    int64_t row, rows;
} vo_awq_layer;

typedef struct vo_awq_params {
    int group_size, bits; /* of the quantisation */
    vo_dtype dtype;       /* of its scales */
    vo_pool *pool;        /* NULL: the calling thread alone */
} vo_awq_params;

/* Finds scales [columns]: powers of the mean size of each input between 0 (no scale) and 1, of
 * which the one with the least error of the layers' outputs is taken. before, after: that error
 * without and with scales, of some rows; may be NULL. VO_ERR_UNSUPPORTED when a weight is not
 * finite. */
vo_status vo_awq_search(const vo_awq_layer *layers, int n, const vo_moments *moments,
                        const vo_awq_params *params, float *scales, double *before, double *after,
                        vo_error *err);

#endif
