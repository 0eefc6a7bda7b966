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

#endif
