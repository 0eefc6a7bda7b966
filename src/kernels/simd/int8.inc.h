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
#include <string.h>

#include "kernels/simd/bytes.inc.h"

/* x * inverse as bytes, the last block filled with zeros; packed: one row of every block */
static inline void pack_row(int64_t k, const float *x, float inverse, uint8_t *packed) {
    const vf factor = v_set(inverse);
    for (int64_t k0 = 0; k0 < k; k0 += VO_INT8_K, packed += MR * VO_INT8_K)
        for (int at = 0; at < VO_INT8_K; at += BYTES_FLOATS)
            store_bytes(x + k0 + at, k - k0 - at, factor, ZERO, packed + at);
}

/* x times factors, in `scaled`; or x */
static inline const float *times(int64_t k, const float *x, const float *factors, float *scaled) {
    if (!factors) return x;
    int64_t i = 0;
    for (; i + VF_LANES <= k; i += VF_LANES)
        v_store(scaled + i, v_mul(v_load(x + i), v_load(factors + i)));
    for (; i < k; i++) scaled[i] = x[i] * factors[i];
    return scaled;
}

static void pack_a(int64_t k, int m, const float *a, int64_t lda, const float *factors,
                   uint8_t *packed, float *scales) {
    /* One row ahead, so that the quotient is there when its row is packed. */
    float scaled[2][VO_INT8_GROUP];
    const float *row = times(k, a, factors, scaled[0]);
    float largest = largest_of(k, row);
    for (int i = 0; i < m; i++) {
        const float inverse = inverse_scale(largest, MAX, &scales[i]), *next = NULL;
        if (i + 1 < m) {
            next = times(k, a + (i + 1) * lda, factors, scaled[(i + 1) % 2]);
            largest = largest_of(k, next);
        }
        pack_row(k, row, inverse, packed + i * VO_INT8_K);
        row = next;
    }
    for (int i = m; i < MR; i++) scales[i] = 0.0f;
    for (int64_t k0 = 0; m < MR && k0 < k; k0 += VO_INT8_K, packed += MR * VO_INT8_K)
        memset(packed + m * VO_INT8_K, ZERO, (size_t)(MR - m) * VO_INT8_K);
}

/* The kernel int8_scale, with add known */
static inline void scale_columns(int64_t rows, int n, const int32_t *c, const float *scales,
                                 const float *columns, const int32_t *zero, float *y,
                                 const int add) {
    for (int j = 0; j < n; j += VF_LANES) {
        const int rest = n - j < VF_LANES ? n - j : VF_LANES;
        const vf column = load_most(columns + j, rest);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t at = i * NR + j;
            const vf both = v_mul(v_set(scales[i]), column);
            if (rest == VF_LANES) {
                const vf sum = v_difference(c + at, zero + j);
                v_store(y + at, add ? v_fma(sum, both, v_load(y + at)) : v_mul(sum, both));
            } else {
                const vf sum = v_difference_n(c + at, zero + j, rest);
                v_store_n(y + at, add ? v_fma(sum, both, v_load_n(y + at, rest)) : v_mul(sum, both),
                          rest);
            }
        }
    }
}

static void scale(int64_t rows, int n, const int32_t *c, const float *scales, const float *columns,
                  const int32_t *zero, float *y, int add) {
    if (add)
        scale_columns(rows, n, c, scales, columns, zero, y, 1);
    else
        scale_columns(rows, n, c, scales, columns, zero, y, 0);
}

/* The entries of a level whose product is gemm. */
static void int8_fill(vo_kernels *kernels,
                      void (*gemm)(int64_t k, const uint8_t *a, const int8_t *b, int32_t *c, int m,
                                   int accumulate, const void *next, int64_t next_bytes)) {
    kernels->int8_pack_a = pack_a;
    kernels->gemm_int8 = gemm;
    kernels->int8_scale = scale;
    kernels->mr_int8 = MR;
    kernels->int8_max = MAX;
    kernels->int8_zero = ZERO;
}
