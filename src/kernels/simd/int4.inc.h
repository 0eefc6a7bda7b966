/* SPDX-License-Identifier: MIT
 *
 * From 4-bit codes to the panel that gemm_bf16 reads, written once for any vector: a word holds
 * eight steps of k of one column, so a vector of words becomes vectors of floats by shifts alone,
 * and two neighbouring steps make a vector of pairs. Scales and biases stay in registers for a
 * group. Before it a level includes its vec_*.h and defines
 *
 *   vw, load_words(p)             VF_LANES words of 32 bits
 *   lowest(w)                     the lowest four bits of each as a float
 *   shift(w)                      each without its lowest four bits
 *   store_pairs(p, even, odd)     pairs of bf16, rounded to the nearest even
 *   prefetch(p)
 *   NR
 *   VO_FN
 */
#include "kernels/unroll.h"

enum {
    V = NR / VF_LANES,
    CODES = 8,   /* in a word */
    AHEAD = 4096 /* bytes of codes that are prefetched; a harmless look beyond their end */
};

void VO_FN(int4_to_bf16)(int64_t k, int64_t group, const uint32_t *codes, const uint16_t *scales,
                         uint16_t *y) {
    for (int64_t k0 = 0; k0 < k; k0 += group, scales += 2 * NR) {
        const int64_t end = k0 + group < k ? k0 + group : k;
        vf scale[V], bias[V];
        VO_UNROLL for (int j = 0; j < V; j++) {
            scale[j] = v_load_f16(scales + j * VF_LANES);
            bias[j] = v_load_f16(scales + NR + j * VF_LANES);
        }
        for (int64_t kk = k0; kk < end; kk += CODES, codes += NR, y += CODES * NR) {
            VO_UNROLL for (int i = 0; i < 4 * NR; i += 64)
                prefetch((const char *)((uintptr_t)codes + (uintptr_t)i + AHEAD));
            VO_UNROLL for (int j = 0; j < V; j++) {
                vw words = load_words(codes + j * VF_LANES);
                VO_UNROLL for (int i = 0; i < CODES; i += 2) {
                    const vf even = v_fma(lowest(words), scale[j], bias[j]);
                    words = shift(words);
                    const vf odd = v_fma(lowest(words), scale[j], bias[j]);
                    words = shift(words);
                    store_pairs(y + i * NR + 2 * j * VF_LANES, even, odd);
                }
            }
        }
    }
}
