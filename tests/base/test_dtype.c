/* SPDX-License-Identifier: MIT
 *
 * Half precision against its definition in double arithmetic, for all halves and many floats;
 * sizes of tensors of every type.
 */
#include "base/dequantize.h"
#include "base/harness.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* IEEE 754 binary16, as written in the standard. */
static double half_value(uint16_t h) {
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    if (exponent == 31) v = INFINITY;
    return (h & 0x8000) != 0 ? -v : v;
}

static bool is_half_nan(uint16_t h) {
    return (h & 0x7fff) > 0x7c00;
}

/* Loading converts rows by a loop of its own. */
static void rows_of_halves(void **state) {
    static uint16_t halves[65536];
    static float out[65536];
    for (uint32_t i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    vo_view view = {.name = "all", .dtype = VO_F16, .rank = 2, .shape = {256, 256}, .data = halves};
    view.bytes = sizeof halves;
    assert_int_equal(vo_dequantize_rows(&view, 0, 256, out, NULL), VO_OK);
    for (uint32_t i = 0; i < 65536; i++)
        assert_int_equal(bits_of(out[i]), bits_of(vo_f16_to_f32(halves[i])));
}

static void every_half(void **state) {
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = vo_f16_to_f32(h);
        if (is_half_nan(h)) { /* sign and payload stay, the NaN becomes quiet */
            assert_int_equal(bits_of(f), (h & 0x8000u) << 16 | 0x7fc00000 | (h & 0x3ffu) << 13);
            assert_int_equal(vo_f32_to_f16(f), h | 0x200);
            continue;
        }
        assert_true((double)f == half_value(h));
        assert_int_equal(signbit(f) != 0, h >> 15);
        assert_int_equal(vo_f32_to_f16(f), h);
    }
}

/* Neighbours, middles and their neighbours: where rounding can go wrong. */
static void rounding_between_all_halves(void **state) {
    for (uint32_t i = 0; i < 0x7c00; i++) {
        double low = half_value((uint16_t)i);
        double high = i + 1 < 0x7c00 ? half_value((uint16_t)(i + 1)) : 65536.0;
        uint16_t even = (uint16_t)(i % 2 == 0 ? i : i + 1);
        float middle = (float)((low + high) / 2); /* exact in float */
        for (uint16_t sign = 0; sign <= 1; sign++) {
            uint16_t s = (uint16_t)(sign << 15);
            float m = sign != 0 ? -middle : middle, inf = sign != 0 ? -INFINITY : INFINITY;
            assert_int_equal(vo_f32_to_f16(m), s | even);
            assert_int_equal(vo_f32_to_f16(nextafterf(m, 0)), s | i);
            assert_int_equal(vo_f32_to_f16(nextafterf(m, inf)), s | (i + 1));
        }
    }
    assert_int_equal(vo_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(vo_f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(vo_f32_to_f16(float_of(1)), 0);
    assert_int_equal(vo_f32_to_f16(-0.0f), 0x8000);
    assert_true(is_half_nan(vo_f32_to_f16(float_of(0x7f800001)))); /* must not become infinity */
    assert_true(is_half_nan(vo_f32_to_f16(float_of(0xff802000))));
}

/* Whatever the float, no other half is nearer. */
static void random_floats_go_to_the_nearest_half(void **state) {
    uint64_t seed = 2;
    for (int i = 0; i < 2000000; i++) {
        uint32_t u = (uint32_t)next_random(&seed);
        if (i % 2 == 0) u = (u & 0x807fffff) | (95 + u % 50) << 23; /* where halves are */
        float f = float_of(u);
        uint16_t h = vo_f32_to_f16(f);
        if (isnan(f)) {
            assert_true(is_half_nan(h));
            continue;
        }
        assert_int_equal(h >> 15, signbit(f) != 0);
        uint16_t m = h & 0x7fff;
        double x = fabs((double)f), distance = fabs(x - (m == 0x7c00 ? 65536.0 : half_value(m)));
        if (x >= 65536) {
            assert_int_equal(m, 0x7c00);
            continue;
        }
        if (m > 0) assert_true(distance <= fabs(x - half_value((uint16_t)(m - 1))));
        if (m < 0x7bff) assert_true(distance <= fabs(x - half_value((uint16_t)(m + 1))));
    }
}

static void bf16(void **state) {
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = vo_bf16_to_f32(h);
        assert_int_equal(bits_of(f), i << 16);
        bool nan = (h & 0x7fff) > 0x7f80;
        assert_int_equal(vo_f32_to_bf16(f), nan ? h | 0x40 : h);
        if ((h & 0x7fff) >= 0x7f80) continue;
        assert_int_equal(vo_f32_to_bf16(float_of(i << 16 | 0x7fff)), h);
        assert_int_equal(vo_f32_to_bf16(float_of(i << 16 | 0x8000)), h + (h & 1));
        assert_int_equal(vo_f32_to_bf16(float_of(i << 16 | 0x8001)), h + 1);
    }
    assert_int_equal(vo_f32_to_bf16(float_of(0x7f800001)), 0x7fc0);
    assert_int_equal(vo_f32_to_bf16(float_of(0x7fffffff)), 0x7fff);
    assert_int_equal(vo_f32_to_bf16(3.4028234e38f), 0x7f80);
}

static void sizes_of_types(void **state) {
    static const struct {
        vo_dtype dtype;
        const char *name;
        int bytes, elements;
    } want[] = {
        {VO_F32, "f32", 4, 1},       {VO_F16, "f16", 2, 1},       {VO_BF16, "bf16", 2, 1},
        {VO_F64, "f64", 8, 1},       {VO_I8, "i8", 1, 1},         {VO_BOOL, "bool", 1, 1},
        {VO_Q4_0, "q4_0", 18, 32},   {VO_Q4_1, "q4_1", 20, 32},   {VO_Q5_0, "q5_0", 22, 32},
        {VO_Q5_1, "q5_1", 24, 32},   {VO_Q8_0, "q8_0", 34, 32},   {VO_Q2_K, "q2_k", 84, 256},
        {VO_Q3_K, "q3_k", 110, 256}, {VO_Q4_K, "q4_k", 144, 256}, {VO_Q5_K, "q5_k", 176, 256},
        {VO_Q6_K, "q6_k", 210, 256},
    };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        const vo_dtype_info *info = vo_dtype_get_info(want[i].dtype);
        assert_string_equal(info->name, want[i].name);
        assert_int_equal(info->block_bytes, want[i].bytes);
        assert_int_equal(info->block_elements, want[i].elements);
    }
    for (int i = 0; i < VO_DTYPE_COUNT; i++) {
        const vo_dtype_info *info = vo_dtype_get_info((vo_dtype)i);
        assert_non_null(info->name);
        assert_int_equal(info->block_elements == 0, i == VO_AFFINE);
    }
    assert_int_equal(vo_dtype_get_info((vo_dtype)-1)->block_elements, 0);
    assert_int_equal(vo_dtype_get_info(VO_DTYPE_COUNT)->block_elements, 0);
}

static void bytes_of_tensors(void **state) {
    size_t n = 0;
    assert_true(vo_dtype_bytes(VO_F32, (int64_t[]){3, 5}, 2, &n));
    assert_int_equal(n, 60);
    assert_true(vo_dtype_bytes(VO_F16, NULL, 0, &n));
    assert_int_equal(n, 2);
    assert_true(vo_dtype_bytes(VO_Q4_K, (int64_t[]){3, 512}, 2, &n));
    assert_int_equal(n, 3 * 2 * 144);
    assert_true(vo_dtype_bytes(VO_Q4_0, (int64_t[]){7, 0}, 2, &n));
    assert_int_equal(n, 0);
    assert_false(vo_dtype_bytes(VO_Q4_K, (int64_t[]){512, 3}, 2, &n)); /* rows are what counts */
    assert_false(vo_dtype_bytes(VO_Q4_0, NULL, 0, &n));
    assert_false(vo_dtype_bytes(VO_F32, (int64_t[]){-1}, 1, &n));
    assert_false(vo_dtype_bytes(VO_F32, (int64_t[]){INT64_MAX / 2}, 1, &n));
    assert_false(vo_dtype_bytes(VO_I8, (int64_t[]){1LL << 40, 1LL << 40}, 2, &n));
    assert_false(vo_dtype_bytes(VO_AFFINE, (int64_t[]){64}, 1, &n));
    assert_false(vo_dtype_bytes(VO_DTYPE_COUNT, (int64_t[]){64}, 1, &n));
    vo_view view = {.rank = 3, .shape = {2, 3, 4}}, scalar = {0};
    assert_int_equal(vo_view_elements(&view), 24);
    assert_int_equal(vo_view_elements(&scalar), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_half),
        cmocka_unit_test(rows_of_halves),
        cmocka_unit_test(rounding_between_all_halves),
        cmocka_unit_test(random_floats_go_to_the_nearest_half),
        cmocka_unit_test(bf16),
        cmocka_unit_test(sizes_of_types),
        cmocka_unit_test(bytes_of_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
