/* SPDX-License-Identifier: MIT
 *
 * What surrounds an int8 product, written once for any vector: rows of A become bytes, sums become
 * floats. Include a vec_*.h first, and define MR, NR, MAX and ZERO: mr_int8, nr, int8_max,
 * int8_zero.
 *
 * Every level packs A as [k/VO_INT8_K][MR][VO_INT8_K], so that a row stays a run of bytes: products
 * that want four bytes of a row take them from there as cheaply as from interleaved ones, and
 * nothing is transposed.
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

/* x * inverse as bytes, the last block filled with zeros; packed: one row of every block */
static inline void pack_row(int64_t k, const float *x, float inverse, uint8_t *packed) {
    enum { STEP_FLOATS = 4 * VF_LANES };
    const vf factor = v_set(inverse);
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, packed += MR * VO_INT8_K) {
        for (int at = 0; at < VO_INT8_K; at += STEP_FLOATS) {
            const int64_t rest = k - k0 - at;
            vf q[4];
            for (int j = 0; j < 4; j++) {
                const float *from = x + k0 + at + j * VF_LANES;
                q[j] = rest >= STEP_FLOATS ? v_load(from) : load_most(from, rest - j * VF_LANES);
                q[j] = v_mul(q[j], factor);
            }
            v_store_bytes(packed + at, q, ZERO);
        }
    }
}

static void pack_a(int64_t k, int m, const float *a, int64_t lda, uint8_t *packed, float *scales) {
    /* One row ahead, so that the quotient is there when its row is packed. */
    float largest = largest_of(k, a);
    for (int i = 0; i < m; i++) {
        const bool tiny = largest < VO_INT8_TINY;
        const float inverse = tiny ? 0.0f : (float)MAX / largest;
        scales[i] = tiny ? 0.0f : largest / (float)MAX;
        if (i + 1 < m) largest = largest_of(k, a + (i + 1) * lda);
        pack_row(k, a + i * lda, inverse, packed + i * VO_INT8_K);
    }
    for (int i = m; i < MR; i++) scales[i] = 0.0f;
    for (int64_t k0 = 0; m < MR && k0 < k; k0 += VO_INT8_K, packed += MR * VO_INT8_K)
        memset(packed + m * VO_INT8_K, ZERO, (size_t)(MR - m) * VO_INT8_K);
}

static void scale(int64_t rows, int n, const int32_t *c, const float *scales, const float *columns,
                  const int32_t *zero, float *y) {
    for (int j = 0; j < n; j += VF_LANES) {
        const int rest = n - j < VF_LANES ? n - j : VF_LANES;
        const vf column = load_most(columns + j, rest);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = i * NR + j;
            const vf both = v_mul(v_set(scales[i]), column);
            if (rest == VF_LANES)
                v_store(y + at, v_mul(v_difference(c + at, zero + j), both));
            else
                v_store_n(y + at, v_mul(v_difference_n(c + at, zero + j, rest), both), rest);
        }
    }
}

/* The entries of a level whose product is gemm. */
static void int8_fill(vo_kernels *kernels,
                      void (*gemm)(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m,
                                   int accumulate)) {
    kernels->int8_pack_a = pack_a;
    kernels->gemm_int8 = gemm;
    kernels->int8_scale = scale;
    kernels->mr_int8 = MR;
    kernels->int8_max = MAX;
    kernels->int8_zero = ZERO;
}
