/* SPDX-License-Identifier: MIT
 *
 * Quantisation bit for bit as mlx.core.quantize does it: tools/golden/formats.py stored numbers in
 * f32, f16 and bf16 and what MLX made of them, scales in the type of the numbers.
 */
#include "formats/support_weights.h"

#include "base/quantize.h"

enum { ROWS = 6, COLUMNS = 128, COUNT = ROWS * COLUMNS };

/* Only pointers and the type of scales count of `want`: shapes alone do not tell bits and group. */
static void check(const char *name, int bits, int group, const vo_view *input,
                  const vo_view *want) {
    uint8_t packed[COUNT];
    float scales[COUNT / 32], biases[COUNT / 32];
    char narrow_scales[COUNT / 8], narrow_biases[COUNT / 8];
    int64_t groups = COUNT / group;
    size_t width = (size_t)vo_dtype_get_info(want->scale_dtype)->block_bytes;
    float *x = values_of(input);
    assert_int_equal(input->dtype, want->scale_dtype);
    assert_int_equal(vo_view_elements(input), COUNT);
    assert_true(vo_quantize_affine(x, COUNT, group, bits, packed, scales, biases));
    assert_true(vo_narrow_floats(want->scale_dtype, scales, groups, narrow_scales));
    assert_true(vo_narrow_floats(want->scale_dtype, biases, groups, narrow_biases));
    if (memcmp(packed, want->data, (size_t)(COUNT * bits / 8)) != 0 ||
        memcmp(narrow_scales, want->scales, (size_t)groups * width) != 0 ||
        memcmp(narrow_biases, want->biases, (size_t)groups * width) != 0)
        fail_msg("%s: other bits than MLX's", name);
    vo_free(x);
}

static void as_mlx_does_it(void **state) {
    static const char *const types[] = {"float32", "float16", "bfloat16"};
    int checked = 0;
    vo_weights *w = open_or_fail(FIXTURES "/quantize.safetensors");
    for (int bits = 4; bits <= 8; bits += 4) {
        for (int group = 32; group <= 128; group *= 2) {
            for (int t = 0; t < 3; t++) {
                char *name = vo_format("b%dg%d%s", bits, group, types[t]);
                char *input = vo_format("%s.input", name), *weight = vo_format("%s.weight", name);
                const vo_view *want = vo_weights_find(w, weight);
                assert_non_null(want);
                check(name, bits, group, vo_weights_find(w, input), want);
                checked++;
                vo_free(name);
                vo_free(input);
                vo_free(weight);
            }
        }
    }
    assert_int_equal(checked, 18);
    vo_weights_close(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_mlx_does_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
