/* SPDX-License-Identifier: MIT
 *
 * The heads of cross-attention that follow the audio.
 */
#ifndef VO_MODELS_WHISPER_ALIGNMENT_H
#define VO_MODELS_WHISPER_ALIGNMENT_H

#include "models/whisper/whisper.h"

/* As told by the file or a JSON file beside it: *heads [*n][2] (layer, head) in fresh memory, NULL
 * when nobody tells. VO_ERR_FORMAT for heads that the model has not. */
vo_status vo_whisper_read_alignment(const vo_weights *weights, int64_t **heads, int *n,
                                    vo_error *err);
/* The same, or, when nobody tells or what is told cannot be, those of OpenAI's model with these
 * sizes, else all heads of the upper half of the decoder's layers. *n > 0. VO_ERR_MEMORY only. */
vo_status vo_whisper_find_alignment(const vo_weights *weights, const vo_whisper_dims *dims,
                                    int64_t **heads, int *n, vo_error *err);

#endif
