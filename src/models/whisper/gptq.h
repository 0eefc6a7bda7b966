/* SPDX-License-Identifier: MIT
 *
 * Rounding weights one column after the other, each time moving the columns that are still to come
 * so that they make good what the error does to the layer's output (Frantar et al. 2022, "GPTQ:
 * Accurate Post-Training Quantization for Generative Pre-trained Transformers", section 3).
 */
#ifndef VO_MODELS_WHISPER_GPTQ_H
#define VO_MODELS_WHISPER_GPTQ_H

#include "models/whisper/awq.h"

typedef struct vo_gptq {
    int64_t columns, block; /* as of the moments */
    float *importance;      /* [columns] what an error costs that later columns cannot make good */
    float *shares;          /* [blocks][block][block], j > i: how much of the error of column i
                               column j takes over */
} vo_gptq;

/* For matrices whose inputs have these moments and whose columns are multiplied by scales [columns]
 * (NULL: ones). vo_gptq_free takes a zeroed one, too. */
vo_status vo_gptq_init(vo_gptq *gptq, const vo_moments *moments, const float *scales, vo_pool *pool,
                       vo_error *err);
void vo_gptq_free(vo_gptq *gptq);

/* Quantises rows [n][columns], which are overwritten: whole numbers at packed, scales and biases of
 * groups, each [n][columns / group]. False when something is not finite or does not fit. */
bool vo_gptq_quantise(const vo_gptq *gptq, const vo_awq_params *params, float *rows, int64_t n,
                      uint8_t *packed, float *scales, float *biases);

#endif
