/* SPDX-License-Identifier: MIT
 *
 * From names in a file to weights of the model. Private to models/whisper.
 */
#ifndef VO_MODELS_WHISPER_BIND_H
#define VO_MODELS_WHISPER_BIND_H

#include "models/whisper/whisper.h"

enum { /* per block */
       BIND_SELF_NORM_W,
       BIND_SELF_NORM_B,
       BIND_SELF_QKV_W,
       BIND_SELF_QKV_B,
       BIND_SELF_OUT_W,
       BIND_SELF_OUT_B,
       BIND_CROSS_NORM_W,
       BIND_CROSS_NORM_B,
       BIND_CROSS_Q_W,
       BIND_CROSS_Q_B,
       BIND_CROSS_KV_W,
       BIND_CROSS_KV_B,
       BIND_CROSS_OUT_W,
       BIND_CROSS_OUT_B,
       BIND_MLP_NORM_W,
       BIND_MLP_NORM_B,
       BIND_MLP_UP_W,
       BIND_MLP_UP_B,
       BIND_MLP_DOWN_W,
       BIND_MLP_DOWN_B,
       BIND_BLOCK_COUNT
};
enum { /* once */
       BIND_CONV1_W,
       BIND_CONV1_B,
       BIND_CONV2_W,
       BIND_CONV2_B,
       BIND_AUDIO_POSITIONS,
       BIND_AUDIO_NORM_W,
       BIND_AUDIO_NORM_B,
       BIND_TOKENS,
       BIND_TEXT_POSITIONS,
       BIND_TEXT_NORM_W,
       BIND_TEXT_NORM_B,
       BIND_SINGLE_COUNT
};

/* Errors stick: after the first, every bind returns NULL. */
typedef struct vo_binder {
    vo_weights *file;
    vo_whisper *model;
    int capacity;  /* of model->all */
    vo_error *err; /* never NULL */
} vo_binder;

const vo_view *vo_whisper_find(const vo_weights *file, int single);
bool vo_whisper_has_layer(const vo_weights *file, const char *side, int layer);
vo_weight *vo_bind_single(vo_binder *b, int single, const int64_t *shape, int rank);
vo_weight *vo_bind_block(vo_binder *b, int which, const char *side, int layer, const int64_t *shape,
                         int rank);
vo_weight *vo_bind_conv(vo_binder *b, int single, int64_t out, int64_t in);
vo_weight *vo_bind_sinusoids(vo_binder *b, int64_t length, int64_t channels);

/* Where the values of one tensor of the MLX layout lie in a file of any layout: rows [row, row +
 * rows) of a view. A bias that is zeros by definition has no view. */
typedef struct vo_bind_place {
    char name[128]; /* as MLX calls it */
    const vo_view *view;
    int64_t row, rows;
} vo_bind_place;
/* shape: of the one part. False after an error, and for a part that does not exist. */
bool vo_bind_place_single(vo_binder *b, int single, const int64_t *shape, int rank,
                          vo_bind_place *place);
bool vo_bind_place_block(vo_binder *b, int which, const char *side, int layer, int part,
                         const int64_t *shape, int rank, vo_bind_place *place);
/* VO_ERR_UNSUPPORTED when the encoder's positions are others than those that MLX computes. */
vo_status vo_bind_check_sinusoids(const vo_weights *file, int64_t length, int64_t channels,
                                  vo_error *err);

#endif
