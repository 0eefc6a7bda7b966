/* SPDX-License-Identifier: MIT */
#ifndef VO_FORMATS_MLX_H
#define VO_FORMATS_MLX_H

#include "formats/weights.h"

/* Turns every X.weight (u32) with X.scales and X.biases into one VO_AFFINE view X.weight of
 * shape [out][in]. Bits and group size come from the folder's config.json, else from shapes. */
vo_status vo_mlx_join_quantised(vo_weights *weights, vo_error *err);

#endif
