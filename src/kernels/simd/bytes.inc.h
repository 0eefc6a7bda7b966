/* SPDX-License-Identifier: MIT
 *
 * Rows of floats as bytes with one scale, for any vector. Include a vec_*.h first.
 */
#include <stdbool.h>

#include "kernels/simd/load.inc.h"

enum { BYTES_FLOATS = 4 * VF_LANES /* that become bytes together */ };

/* max |x[i]|; infinite or NaN where one x[i] is. */
static inline float largest_of(int64_t n, const float *x) {
    vf most[4] = {v_set(0.0f), v_set(0.0f), v_set(0.0f), v_set(0.0f)};
    int64_t i = 0;
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        for (int j = 0; j < 4; j++)
            most[j] = v_max_bits(most[j], v_abs(v_load(x + i + j * VF_LANES)));
    for (; i < n; i += VF_LANES) most[0] = v_max_bits(most[0], v_abs(load_most(x + i, n - i)));
    return v_hmax_bits(v_max_bits(v_max_bits(most[0], most[1]), v_max_bits(most[2], most[3])));
}

/* What a row is multiplied with to reach max bytes; its scale goes to *scale. */
static inline float inverse_scale(float largest, float max, float *scale) {
    const bool tiny = largest < VO_INT8_TINY;
    *scale = tiny ? 0.0f : largest / max;
    return tiny ? 0.0f : max / largest;
}

/* BYTES_FLOATS numbers times factor, plus zero; the first n exist, the others are 0. */
static inline void store_bytes(const float *x, int64_t n, vf factor, int zero, uint8_t *y) {
    vf q[4];
    for (int j = 0; j < 4; j++)
        q[j] = v_mul(n >= BYTES_FLOATS ? v_load(x + j * VF_LANES)
                                       : load_most(x + j * VF_LANES, n - j * VF_LANES),
                     factor);
    v_store_bytes(y, q, zero);
}
