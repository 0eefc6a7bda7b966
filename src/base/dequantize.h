/* SPDX-License-Identifier: MIT
 *
 * From any stored element type to f32: the values behind a vo_view. Runs once, at load.
 */
#ifndef VO_BASE_DEQUANTIZE_H
#define VO_BASE_DEQUANTIZE_H

#include "base/dtype.h"

/* rows [row0, row0+rows) of a two-dimensional view as f32: out[rows][cols]. Any dtype. A
 * one-dimensional view is one row; more dimensions are flattened after the first. Thread safe. */
vo_status vo_dequantize_rows(const vo_view *view, int64_t row0, int64_t rows, float *out,
                             vo_error *err);

#endif
