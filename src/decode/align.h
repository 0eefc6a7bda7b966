/* SPDX-License-Identifier: MIT
 *
 * From what attention looks at to when each token is said, as openai-whisper's timing.py
 * (find_alignment) does it; dynamic time warping is Sakoe and Chiba 1978. Knows no model.
 *
 * Where the reference divides by a deviation of 0 the score is 0 here, not NaN.
 */
#ifndef VO_DECODE_ALIGN_H
#define VO_DECODE_ALIGN_H

#include "base/status.h"

/* weights: [heads][tokens][frames] from softmax over frames; used as working memory. start[i]: the
 * frame at which token first + i begins, for i < count. All sizes > 0, first + count <= tokens. */
vo_status vo_align_tokens(float *weights, int heads, int tokens, int frames, int first, int count,
                          int32_t *start, vo_error *err);

/* ---- its parts ------------------------------------------------------------------------------ */

/* Every column of x [tokens][frames] less its mean, over its standard deviation. sums: [2 * frames]
 * of scratch. */
void vo_align_standardize(float *x, int tokens, int frames, double *sums);
/* y[i] += median of x[i - 3 .. i + 3], reflected at both ends; x itself where n < 4. padded: [n +
 * 6] of scratch. */
void vo_align_add_median7(const float *x, int n, float *padded, float *y);
/* A path through -x [n][m] from the first row and column to the last, in steps down a row, along a
 * row, or both; start[i] is the column where it enters row i. As in the reference both is chosen
 * where it costs less than each of the others, down where it costs less than each of the others,
 * and along wherever neither does, even when the two tie below it. */
vo_status vo_align_dtw(const float *x, int n, int m, int32_t *start, vo_error *err);

#endif
