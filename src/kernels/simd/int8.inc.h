/* SPDX-License-Identifier: MIT
 *
 * What surrounds an int8 product, written once for any vector (include a vec_*.h first): rows of A
 * become bytes, sums become floats. Every level packs A as [k/VO_INT8_K][mr][VO_INT8_K], so that a
 * row stays a run of bytes: products that want four bytes of a row take them from there as cheaply
 * as from interleaved ones, and nothing is transposed.
 */
#include <stdbool.h>
#include <string.h>

/* The first n floats of a vector, n of any size. */
static inline vf load_most(const float *x, int64_t n) {
    return n >= VF_LANES ? v_load(x) : v_load_n(x, n > 0 ? (int)n : 0);
}

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

/* Row x in blocks of VO_INT8_K bytes that begin `stride` bytes apart, the last one filled with
 * zeros; returns its scale. */
static inline float int8_pack_row(int64_t k, const float *x, int max, int zero, int64_t stride,
                                  uint8_t *packed) {
    enum { STEP = 4 * VF_LANES };
    const float largest = largest_of(k, x);
    const bool tiny = largest < VO_INT8_TINY;
    const vf inverse = v_set(tiny ? 0.0f : (float)max / largest);
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, packed += stride) {
        for (int at = 0; at < VO_INT8_K; at += STEP) {
            const int64_t rest = k - k0 - at;
            vf q[4];
            for (int j = 0; j < 4; j++) {
                const float *from = x + k0 + at + j * VF_LANES;
                q[j] = rest >= STEP ? v_load(from) : load_most(from, rest - j * VF_LANES);
                q[j] = v_mul(q[j], inverse);
            }
            v_store_bytes(packed + at, q, zero);
        }
    }
    return tiny ? 0.0f : largest / (float)max;
}

static inline void int8_pack(int mr, int max, int zero, int64_t k, int m, const float *a,
                             int64_t lda, uint8_t *packed, float *scales) {
    const int64_t stride = (int64_t)mr * VO_INT8_K;
    for (int i = 0; i < m; i++)
        scales[i] = int8_pack_row(k, a + i * lda, max, zero, stride, packed + i * VO_INT8_K);
    for (int i = m; i < mr; i++) scales[i] = 0.0f;
    for (int64_t k0 = 0; m < mr && k0 < k; k0 += VO_INT8_K, packed += stride)
        memset(packed + m * VO_INT8_K, zero, (size_t)(mr - m) * VO_INT8_K);
}

static inline void int8_unpack(int nr, int64_t rows, int n, const int32_t *c, const float *scales,
                               const float *columns, const int32_t *zero, float *y) {
    for (int j = 0; j < n; j += VF_LANES) {
        const int rest = n - j < VF_LANES ? n - j : VF_LANES;
        const vf column = load_most(columns + j, rest);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = i * nr + j;
            const vf scale = v_mul(v_set(scales[i]), column);
            if (rest == VF_LANES)
                v_store(y + at, v_mul(v_difference(c + at, zero + j), scale));
            else
                v_store_n(y + at, v_mul(v_difference_n(c + at, zero + j, rest), scale), rest);
        }
    }
}
