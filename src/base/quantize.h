/* SPDX-License-Identifier: MIT
 *
 * From f32 to stored types, the way back of dequantize.h: narrower floats, and the affine groups
 * of MLX. Runs when a model is converted, a row at a time.
 */
#ifndef VO_BASE_QUANTIZE_H
#define VO_BASE_QUANTIZE_H

#include "base/dtype.h"

/* x[n] as VO_F32, VO_F16 or VO_BF16 at `out`, to nearest even. False, with all n written, when a
 * finite number became infinite. Thread safe. */
bool vo_narrow_floats(vo_dtype dtype, const float *x, int64_t n, void *out);

/* x[n] in groups of `group` (which divides n) as n * bits / 8 bytes of whole numbers of 4 or 8
 * bits, lowest bits first, with a scale and a bias for each group, both [n / group]: value = q *
 * scale + bias. The arithmetic of mlx.core.quantize (mode "affine") on f32, bit for bit: whole
 * numbers are chosen with the scales as given here, before anyone rounds these to fewer bits.
 * False when a number is not finite. Thread safe. */
bool vo_quantize_affine(const float *x, int64_t n, int group, int bits, uint8_t *packed,
                        float *scales, float *biases);

/* Scale and bias for one group x[n] (at most 128, a multiple of 16) whose errors do not all weigh
 * the same: those that make the sum of importance[i] * error^2 small, never larger than above. They
 * are numbers of `dtype` already (VO_F32, VO_F16, VO_BF16). importance[n]: not negative. False when
 * a number is not finite or a scale does not fit the dtype. Thread safe. */
bool vo_quantize_search(const float *x, const float *importance, int n, int bits, vo_dtype dtype,
                        float *scale, float *bias);

/* vo_quantize_affine with scales and biases that are searched for; whole numbers are chosen with
 * them as they are stored. */
bool vo_quantize_affine_weighted(const float *x, const float *importance, int64_t n, int group,
                                 int bits, vo_dtype dtype, uint8_t *packed, float *scales,
                                 float *biases);

#endif
