/* SPDX-License-Identifier: MIT
 *
 * Writing the weights of a Whisper in the layout of MLX, which mlx-whisper and mlx-audio load.
 */
#ifndef VO_MODELS_WHISPER_EXPORT_H
#define VO_MODELS_WHISPER_EXPORT_H

#include "models/whisper/awq.h"

typedef struct vo_whisper_export_params {
    vo_dtype dtype; /* VO_F32, VO_F16 or VO_BF16: of scales, and of what is not quantised */
    int bits;       /* 0: nothing is quantised; else 4 or 8 */
    int group_size; /* weights that share a scale: 32, 64 or 128 */
    /* Layers that are not quantised: patterns with * and ?, separated by commas, for names such as
     * decoder.token_embedding and encoder.blocks.0.attn.query. NULL: none. */
    const char *keep;
    const int64_t *alignment_heads; /* [n_alignment_heads][2]: layer, head; may be none */
    int n_alignment_heads;
    /* What the layers' inputs are like (NULL: not known): with it, the layers of blocks are
     * quantised so that the errors of their outputs are small, by scales of inputs (awq.h) and by
     * making columns take over the errors of others (gptq.h). */
    const vo_whisper_moments *moments;
    /* Scales of inputs to fold into the weights; NULL: those that a search finds when the moments
     * are known, else none. */
    const vo_whisper_scales *scales;
    vo_pool *pool; /* for the search; NULL: the calling thread alone */
    /* Bytes written; false to stop with VO_ERR_ABORTED. May be NULL. */
    bool (*progress)(void *user, int64_t done, int64_t total);
    void *user;
} vo_whisper_export_params;

/* Writes a safetensors file from weights of any layout. Every linear layer and the embedding of
 * tokens is quantised unless it is kept, or its rows are no multiple of the group. Memory needed
 * does not depend on the size of the model. VO_ERR_UNSUPPORTED when a number does not fit the
 * dtype or the model is not expressible in this layout; then nothing is left at `path`. */
vo_status vo_whisper_export(const vo_weights *weights, const vo_whisper_export_params *params,
                            const char *path, vo_error *err);

#endif
