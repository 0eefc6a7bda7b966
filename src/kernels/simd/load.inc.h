/* SPDX-License-Identifier: MIT
 *
 * Loads at the end of a row, for any vector. Include a vec_*.h first.
 */
#ifndef VO_KERNELS_SIMD_LOAD_INC_H
#define VO_KERNELS_SIMD_LOAD_INC_H

/* The first n floats of a vector, n of any size; the others are 0. */
static inline vf load_most(const float *x, int64_t n) {
    return n >= VF_LANES ? v_load(x) : n > 0 ? v_load_n(x, (int)n) : v_set(0.0f);
}

#endif
