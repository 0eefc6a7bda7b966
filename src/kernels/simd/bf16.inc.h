/* SPDX-License-Identifier: MIT
 *
 * Rows of A for a product in bf16, written once for any vector (include a vec_*.h first, and define
 * store_bf16(p, x), which rounds the lanes of x). Every level packs A as [k/VO_BF16_K][mr]
 * [VO_BF16_K]: a row stays a run of pairs, from which a tile takes one pair as cheaply as from
 * interleaved rows, and nothing is transposed.
 */
#include <string.h>

#include "kernels/simd/load.inc.h"

static inline void bf16_pack(int mr, int64_t k, int m, const float *a, int64_t lda,
                             uint16_t *packed) {
    for (int64_t k0 = 0; k0 < k; k0 += VO_BF16_K, packed += mr * VO_BF16_K) {
        for (int i = 0; i < m; i++) {
            const float *x = a + i * lda + k0;
            for (int at = 0; at < VO_BF16_K; at += VF_LANES)
                store_bf16(packed + i * VO_BF16_K + at, load_most(x + at, k - k0 - at));
        }
        memset(packed + m * VO_BF16_K, 0, (size_t)(mr - m) * VO_BF16_K * sizeof *packed);
    }
}
