/* SPDX-License-Identifier: MIT
 *
 * Attention in less than f32 (see support_attention.h).
 */
#include "kernels/support_attention.h"

#include <string.h>

/* ---- a cache of f16 --------------------------------------------------------------------- */

/* Halves of size at most `size`, and what they are as floats. */
static void fill_halves(uint16_t *halves, float *floats, int64_t n, float size) {
    for (int64_t i = 0; i < n; i++) {
        halves[i] = vo_f32_to_f16(check_uniform(-size, size));
        floats[i] = vo_f16_to_f32(halves[i]);
    }
}

/* A random permutation, grown in place. */
static void shuffle(int32_t *table, int64_t n) {
    for (int32_t t = 0; t < (int32_t)n; t++) {
        const int other = check_below(t + 1);
        table[t] = table[other];
        table[other] = t;
    }
}

/* The kernel of f32, tested against sums in double, says what is right. */
static void cached_case(const vo_kernels *k, int64_t nq, int64_t len, int64_t hd, bool mapped,
                        float size) {
    const int64_t ldq = hd + check_below(3), ldo = hd + check_below(3);
    const int64_t out_floats = (nq - 1) * ldo + hd;
    const float scale = 1 / sqrtf((float)hd);
    float *q = check_floats(0, (nq - 1) * ldq + hd), *scores = check_floats(1, nq * len);
    uint16_t *keys = check_halves(2, len * hd), *values = check_halves(3, len * hd);
    float *floats = check_floats(4, 2 * len * hd), *out = check_floats(5, out_floats);
    int32_t *table = (int32_t *)(void *)check_floats(6, len);
    float *want = check_floats(7, out_floats);
    shuffle(table, len);
    if (!mapped) table = NULL;
    check_fill(q, (nq - 1) * ldq + hd, -size, size);
    fill_halves(keys, floats, len * hd, size);
    fill_halves(values, floats + len * hd, len * hd, 2);
    k->attend_cached(nq, len, hd, scale, q, ldq, floats, floats + len * hd, table, want, ldo,
                     scores);
    k->attend_cached_f16(nq, len, hd, scale, q, ldq, keys, values, table, out, ldo, scores);
    if (memcmp(out, want, (size_t)out_floats * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: not what floats give", (long long)nq, (long long)len,
                   (long long)hd);
    if (!check_slots_intact()) check_fail("wrote before the start of an array");
    float *alone = check_floats(7, hd);
    k->attend_cached_f16(1, len, hd, scale, q + (nq - 1) * ldq, ldq, keys, values, table, alone,
                         ldo, scores);
    if (memcmp(alone, out + (nq - 1) * ldo, (size_t)hd * sizeof *out))
        check_fail("nq=%lld len=%lld hd=%lld: a query depends on its neighbours", (long long)nq,
                   (long long)len, (long long)hd);
}

void test_attend_cached_f16(const vo_kernels *k) {
    static const int64_t lengths[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 63, 64, 65, 130, 448, 1500};
    static const int64_t heads[] = {64, 128, 80, 20, 13, 1, 64};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof heads / sizeof *heads; j++)
            cached_case(k, 1 + check_below(VO_SKINNY_ROWS), lengths[i], heads[j], (i + j) & 1,
                        j == 1 ? 30 : 2);
    for (int nq = 1; nq <= VO_SKINNY_ROWS; nq++)
        for (int mapped = 0; mapped < 2; mapped++) cached_case(k, nq, 100, 64, mapped, 2);
}
