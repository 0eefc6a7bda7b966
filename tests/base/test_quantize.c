/* SPDX-License-Identifier: MIT
 *
 * What quantised groups promise whatever the numbers are, and narrowing against the conversions
 * of single numbers. Values of MLX itself are in formats/test_quantize.c.
 */
#include "base/dequantize.h"
#include "base/harness.h"
#include "base/quantize.h"

#include <math.h>
#include <string.h>

enum { N = 256 };

static float random_float(uint64_t *state) {
    return (float)(next_random(state) >> 40) * 0x1p-23f - 1.0f;
}

/* Quantises x[N] and gives the values back as the dequantiser reads them. */
static void there_and_back(const float *x, int group, int bits, float *y, float *scales) {
    uint8_t packed[N];
    float biases[N];
    assert_true(vo_quantize_affine(x, N, group, bits, packed, scales, biases));
    vo_view v = {.name = "x",
                 .dtype = VO_AFFINE,
                 .rank = 2,
                 .shape = {1, N},
                 .data = packed,
                 .bytes = (size_t)(N * bits / 8),
                 .scales = scales,
                 .biases = biases,
                 .scale_dtype = VO_F32,
                 .group_size = group,
                 .bits = bits};
    assert_int_equal(vo_dequantize_rows(&v, 0, 1, y, NULL), VO_OK);
}

static void errors_are_small(void **state) {
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        int group = 32 << round % 3, bits = round % 2 ? 4 : 8;
        float x[N], y[N], scales[N], shift = random_float(&seed);
        float size = ldexpf(1, (int)(next_random(&seed) % 30) - 15);
        for (int i = 0; i < N; i++) x[i] = size * (random_float(&seed) + 2 * shift);
        there_and_back(x, group, bits, y, scales);
        for (int g = 0; g < N / group; g++) {
            float edge = 0, largest = 0;
            for (int i = g * group; i < (g + 1) * group; i++) {
                if (fabsf(x[i]) > largest) largest = fabsf(x[i]), edge = fabsf(x[i] - y[i]);
                /* half a step; the far end of a group may lie one more half beyond the last step,
                 * since steps are stretched to meet zero */
                assert_true(fabsf(x[i] - y[i]) <= 1.02f * fabsf(scales[g]) + 1e-6f * size);
            }
            assert_true(edge <= 1e-6f * largest); /* the outermost number is met */
        }
    }
}

static void zero_stays_zero(void **state) {
    uint64_t seed = 8;
    for (int bits = 4; bits <= 8; bits += 4) {
        float x[N], y[N], scales[N];
        for (int i = 0; i < N; i++) x[i] = i % 5 ? random_float(&seed) : 0;
        there_and_back(x, 64, bits, y, scales);
        for (int i = 0; i < N; i += 5) assert_true(fabsf(y[i]) < 1e-6f);
        memset(x, 0, sizeof x);
        there_and_back(x, 64, bits, y, scales);
        for (int i = 0; i < N; i++) assert_true(y[i] == 0);
    }
}

static void what_is_not_finite_is_refused(void **state) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint8_t packed[N];
    float x[N] = {0}, scales[N], biases[N];
    for (int i = 0; i < 3; i++) {
        x[100] = bad[i];
        assert_false(vo_quantize_affine(x, N, 64, 8, packed, scales, biases));
    }
    x[100] = 3e38f;
    assert_true(vo_quantize_affine(x, N, 64, 8, packed, scales, biases));
    x[101] = -3e38f;
    assert_false(vo_quantize_affine(x, N, 64, 8, packed, scales, biases));
}

static void narrow_floats(void **state) {
    uint64_t seed = 9;
    float x[N];
    uint16_t halves[N];
    float same[N];
    for (int i = 0; i < N; i++)
        x[i] = ldexpf(random_float(&seed), (int)(next_random(&seed) % 40) - 25);
    assert_true(vo_narrow_floats(VO_F32, x, N, same));
    assert_memory_equal(x, same, sizeof x);
    assert_true(vo_narrow_floats(VO_F16, x, N, halves));
    for (int i = 0; i < N; i++) assert_int_equal(halves[i], vo_f32_to_f16(x[i]));
    assert_true(vo_narrow_floats(VO_BF16, x, N, halves));
    for (int i = 0; i < N; i++) assert_int_equal(halves[i], vo_f32_to_bf16(x[i]));
}

static void overflow_is_told(void **state) {
    uint16_t halves[4];
    const float large[] = {1, 65519.0f, -INFINITY, NAN}, too_large[] = {1, -65520.0f, 2, 3};
    const float huge[] = {1, 3.4e38f, 2, 3};
    assert_true(vo_narrow_floats(VO_F16, large, 4, halves));
    assert_false(vo_narrow_floats(VO_F16, too_large, 4, halves));
    assert_int_equal(halves[3], vo_f32_to_f16(3));
    assert_true(vo_narrow_floats(VO_BF16, too_large, 4, halves));
    assert_false(vo_narrow_floats(VO_BF16, huge, 4, halves));
}

static double weighted_error(const float *x, const float *importance, int group,
                             const uint8_t *packed, const float *scales, const float *biases) {
    double sum = 0;
    for (int i = 0; i < N; i++) {
        const int q = packed[i / 2] >> i % 2 * 4 & 15;
        const double e = (double)((float)q * scales[i / group] + biases[i / group] - x[i]);
        sum += (double)importance[i] * e * e;
    }
    return sum;
}

/* Never worse than the plain way, and better by a tenth at least in the mean. */
static void searched_ranges(void **state) {
    uint64_t seed = 9;
    double plain = 0, searched = 0;
    for (int round = 0; round < 100; round++) {
        const int group = 32 << round % 3;
        float x[N], importance[N], scales[N], biases[N];
        uint8_t packed[N];
        for (int i = 0; i < N; i++) {
            x[i] = random_float(&seed) + random_float(&seed) + random_float(&seed);
            importance[i] = expf(3 * random_float(&seed));
        }
        assert_true(vo_quantize_affine(x, N, group, 4, packed, scales, biases));
        const double before = weighted_error(x, importance, group, packed, scales, biases);
        assert_true(vo_quantize_affine_weighted(x, importance, N, group, 4, VO_F32, packed, scales,
                                                biases));
        const double after = weighted_error(x, importance, group, packed, scales, biases);
        assert_true(after <= before * 1.0001);
        plain += before;
        searched += after;
        assert_true(vo_quantize_affine_weighted(x, importance, N, group, 4, VO_F16, packed, scales,
                                                biases));
        for (int g = 0; g < N / group; g++)
            assert_true(vo_f16_to_f32(vo_f32_to_f16(scales[g])) == scales[g] &&
                        vo_f16_to_f32(vo_f32_to_f16(biases[g])) == biases[g]);
    }
    assert_true(searched < 0.9 * plain);
    /* flat groups, none that matters, and what cannot be */
    float x[N] = {0}, none[N] = {0}, scales[N], biases[N];
    uint8_t packed[N];
    assert_true(vo_quantize_affine_weighted(x, none, N, 64, 4, VO_F16, packed, scales, biases));
    for (int i = 0; i < N; i++) x[i] = 0.25f;
    assert_true(vo_quantize_affine_weighted(x, none, N, 64, 4, VO_F16, packed, scales, biases));
    x[70] = NAN;
    assert_false(vo_quantize_affine_weighted(x, none, N, 64, 4, VO_F16, packed, scales, biases));
    x[70] = 1e9f;
    assert_false(vo_quantize_affine_weighted(x, none, N, 64, 4, VO_F16, packed, scales, biases));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_small), cmocka_unit_test(searched_ranges),
        cmocka_unit_test(zero_stays_zero),  cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(narrow_floats),    cmocka_unit_test(overflow_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
