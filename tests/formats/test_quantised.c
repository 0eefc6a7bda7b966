/* SPDX-License-Identifier: MIT
 *
 * De-quantisation against the values of the programs that made the formats: ggml's own for its
 * blocks, MLX's own for affine matrices, and real models in several formats against each other.
 */
#include "formats/support_weights.h"

#include <math.h>

static void check_digest(const vo_weights *w, const char *name, const json_t *expected) {
    char hex[65];
    const vo_view *v = vo_weights_find(w, name);
    if (v == NULL) fail_msg("%s is missing", name);
    const json_t *shape = json_object_get(expected, "shape");
    assert_int_equal(v->rank, json_array_size(shape));
    for (int i = 0; i < v->rank; i++)
        assert_int_equal(v->shape[i], json_integer_value(json_array_get(shape, (size_t)i)));
    digest_of(v, hex);
    if (strcmp(hex, json_string_value(json_object_get(expected, "sha256"))) != 0)
        fail_msg("%s (%s): other values", name, vo_dtype_get_info(v->dtype)->name);
}

static void ggml_blocks(void **state) {
    json_t *expected, *golden = load_json(FIXTURES "/blocks.json");
    const char *name;
    vo_weights *w = open_or_fail(FIXTURES "/blocks.bin");
    assert_int_equal(json_object_size(golden), 10);
    json_object_foreach(golden, name, expected) {
        const vo_view *v = vo_weights_find(w, name);
        assert_non_null(v);
        assert_string_equal(vo_dtype_get_info(v->dtype)->name, name);
        check_digest(w, name, expected);
        /* single rows, from the middle too */
        json_t *some = json_object_get(expected, "some");
        float row[512];
        for (int64_t r = 0; r < v->shape[0]; r++) {
            assert_int_equal(vo_dequantize_rows(v, r, 1, row, NULL), VO_OK);
            float want = (float)json_number_value(json_array_get(some, (size_t)r));
            assert_true(row[100] == want);
        }
    }
    vo_weights_close(w);
    json_decref(golden);
}

static void mlx_matrices(void **state) {
    int checked = 0;
    vo_weights *w = open_or_fail(FIXTURES "/mlx");
    assert_string_equal(vo_weights_folder(w), FIXTURES "/mlx");
    for (int bits = 2; bits <= 8; bits++) {
        for (int group = 32; group <= 128; group *= 2) {
            char *name = vo_format("b%dg%d.weight", bits, group);
            char *truth = vo_format("b%dg%d.expected", bits, group);
            const vo_view *v = vo_weights_find(w, name), *t = vo_weights_find(w, truth);
            vo_free(name);
            vo_free(truth);
            assert_int_equal(v == NULL, bits == 7);
            if (v == NULL) continue;
            assert_int_equal(v->dtype, VO_AFFINE);
            assert_int_equal(v->bits, bits);
            assert_int_equal(v->group_size, group);
            assert_int_equal(v->shape[0], 3);
            assert_int_equal(v->shape[1], 128);
            float *got = values_of(v), *want = values_of(t);
            /* MLX may fuse product and sum: one rounding less */
            for (int i = 0; i < 3 * 128; i++)
                if (!(fabsf(got[i] - want[i]) <= 2e-7f * (1 + fabsf(want[i]))))
                    fail_msg("%d bits, group %d, element %d: %.9g, not %.9g", bits, group, i,
                             got[i], want[i]);
            vo_free(got);
            vo_free(want);
            checked++;
        }
    }
    assert_int_equal(checked, 18);
    assert_int_equal(vo_weights_count(w), 36); /* 18 matrices and 18 truths: scales are gone */
    vo_weights_close(w);
}

static void impossible_requests(void **state) {
    float out[4];
    static const uint8_t bytes[64];
    vo_error err = {0};
    vo_view v = {
        .name = "v", .dtype = VO_F32, .rank = 2, .shape = {2, 2}, .data = bytes, .bytes = 16};
    assert_int_equal(vo_dequantize_rows(&v, 2, 1, out, &err), VO_ERR_ARGUMENT);
    assert_int_equal(vo_dequantize_rows(&v, -1, 1, out, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_dequantize_rows(&v, 0, INT64_MAX, out, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_dequantize_rows(&v, 2, 0, out, NULL), VO_OK);
    v.bytes = 15;
    assert_int_equal(vo_dequantize_rows(&v, 0, 1, out, NULL), VO_ERR_ARGUMENT);
    v.bytes = 4;
    v.dtype = VO_ROWSCALED_I8; /* without scales */
    assert_int_equal(vo_dequantize_rows(&v, 0, 1, out, NULL), VO_ERR_ARGUMENT);
}

/* ---- the larger data set ---------------------------------------------------------------- */

static void whisper_cpp_models(void **state) {
    data_path("VOCIS_TEST_DATA", ""); /* skips here, before anything is allocated */
    const char *file, *name;
    json_t *tensors, *expected, *golden = load_json(FIXTURES "/whisper_ggml.json");
    assert_int_equal(json_object_size(golden), 6);
    json_object_foreach(golden, file, tensors) {
        char *below = vo_format("golden/whisper_ggml/%s", file);
        vo_weights *w = open_or_fail(data_path("VOCIS_TEST_DATA", below));
        vo_free(below);
        assert_int_equal(vo_weights_layout(w), VO_LAYOUT_OPENAI);
        assert_int_equal(vo_weights_count(w), json_object_size(tensors));
        json_object_foreach(tensors, name, expected) check_digest(w, name, expected);
        vo_weights_close(w);
    }
    json_decref(golden);
}

/* Largest error of a block of 32, as a part of the block's largest magnitude: half a step, or
 * a whole one where the scale has a sign and the far end is cut off. */
static double step_of(vo_dtype dtype) {
    switch (dtype) {
    case VO_Q4_0:
        return 1.0 / 8;
    case VO_Q4_1:
        return 1.0 / 15;
    case VO_Q5_0:
        return 1.0 / 16;
    case VO_Q5_1:
        return 1.0 / 31;
    case VO_Q8_0:
        return 0.5 / 127;
    default:
        return 0;
    }
}

static void compare_with_truth(const vo_view *v, const vo_view *truth) {
    int64_t n = vo_view_elements(v);
    assert_int_equal(n, vo_view_elements(truth));
    float *got = values_of(v), *want = values_of(truth);
    for (int64_t i = 0; i < n; i += 32) {
        double top = 0, worst = 0;
        for (int64_t k = i; k < i + 32 && k < n; k++) {
            top = fmax(top, fabs(want[k]));
            worst = fmax(worst, fabs((double)got[k] - want[k]));
        }
        /* 2^-10: d and m are rounded to half precision */
        if (worst > top * (step_of(v->dtype) + (step_of(v->dtype) > 0 ? 0x1p-10 : 0)))
            fail_msg("%s (%s): error %g in a block of %g", v->name,
                     vo_dtype_get_info(v->dtype)->name, worst, top);
    }
    vo_free(got);
    vo_free(want);
}

static void quantised_models_near_their_source(void **state) {
    data_path("VOCIS_TEST_DATA", ""); /* skips here, before anything is allocated */
    static const char *const pairs[][2] = {{"multi_f16.bin", "multi"},  {"multi_q4_1.bin", "multi"},
                                           {"multi_q5_0.bin", "multi"}, {"multi_q8_0.bin", "multi"},
                                           {"en_q4_0.bin", "en"},       {"v3_q5_1.bin", "v3"}};
    for (size_t p = 0; p < 6; p++) {
        char *a = vo_format("golden/whisper_ggml/%s", pairs[p][0]);
        char *b = vo_format("golden/whisper_random/%s_f16.safetensors", pairs[p][1]);
        vo_weights *w = open_or_fail(data_path("VOCIS_TEST_DATA", a));
        vo_weights *truth = open_or_fail(data_path("VOCIS_TEST_DATA", b));
        assert_int_equal(vo_weights_layout(truth), VO_LAYOUT_OPENAI);
        assert_non_null(vo_weights_string(truth, "dims"));
        assert_int_equal(vo_weights_count(w), vo_weights_count(truth));
        size_t quantised = 0;
        for (size_t i = 0; i < vo_weights_count(w); i++) {
            const vo_view *v = vo_weights_at(w, i), *t = vo_weights_find(truth, v->name);
            assert_non_null(t);
            compare_with_truth(v, t);
            quantised += v->dtype >= VO_Q4_0;
        }
        assert_int_equal(quantised, p == 0 ? 0 : 33);
        vo_weights_close(w);
        vo_weights_close(truth);
        vo_free(a);
        vo_free(b);
    }
}

static void published_files(void **state) {
    data_path("VOCIS_TEST_DATA", ""); /* skips here, before anything is allocated */
    static const char folder[] = "ggml-org__whisper.cpp/models";
    static const struct {
        const char *file;
        size_t tensors, tokens;
        vo_layout layout;
    } files[] = {{"for-tests-ggml-tiny.bin", 0, 50257, VO_LAYOUT_OPENAI},
                 {"for-tests-ggml-base.en.bin", 0, 50257, VO_LAYOUT_OPENAI},
                 {"for-tests-ggml-large.bin", 0, 50257, VO_LAYOUT_OPENAI},
                 {"for-tests-silero-v6.2.0-ggml.bin", 15, 0, VO_LAYOUT_SILERO},
                 {"for-tests-silero-v5.1.2-ggml.bin", 15, 0, VO_LAYOUT_SILERO}};
    const char *const *tokens;
    const uint32_t *lengths;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *below = vo_format("%s/%s", folder, files[i].file);
        vo_weights *w = open_or_fail(data_path("VOCIS_TEST_DATA", below));
        vo_free(below);
        assert_int_equal(vo_weights_count(w), files[i].tensors);
        assert_int_equal(vo_weights_vocabulary(w, &tokens, &lengths), files[i].tokens);
        assert_int_equal(vo_weights_layout(w), files[i].layout);
        touch_everything(w);
        vo_weights_close(w);
    }
    char *bad = vo_format("%s/for-tests-ggml-whisper-bad-ndims.bin", folder);
    vo_weights *w;
    vo_error err = {0};
    assert_int_equal(vo_weights_open(data_path("VOCIS_TEST_DATA", bad), &w, &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "64 dimensions"));
    vo_free(bad);
}

static void silero_safetensors(void **state) {
    vo_weights *w = open_or_fail(
        data_path("VOCIS_TEST_DATA", "snakers4__silero-vad/v6.2.1/silero_vad_16k.safetensors"));
    assert_int_equal(vo_weights_layout(w), VO_LAYOUT_SILERO);
    assert_int_equal(vo_weights_count(w), 15);
    vo_weights_close(w);
}

/* ---- the real base model, in the formats that tools/convert wrote ------------------------- */

static double relative_error(const float *got, const float *want, int64_t n) {
    double difference = 0, total = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        total += (double)want[i] * want[i];
    }
    return sqrt(difference / total);
}

static void real_model_in_every_format(void **state) {
    static const struct {
        const char *path, *embedding, *mlp;
        vo_dtype dtype;
        vo_layout layout;
        double tolerance;
    } files[] = {
        {"base-ct2-f32", "decoder/embeddings/weight", "encoder/layer_2/ffn/linear_0/weight", VO_F32,
         VO_LAYOUT_CTRANSLATE2, 0},
        {"base-ct2-bf16", "decoder/embeddings/weight", "encoder/layer_2/ffn/linear_0/weight",
         VO_BF16, VO_LAYOUT_CTRANSLATE2, 3e-3},
        {"base-ct2-int8", "decoder/projection/weight", "encoder/layer_2/ffn/linear_0/weight",
         VO_ROWSCALED_I8, VO_LAYOUT_CTRANSLATE2, 2e-2},
        {"base-ct2-int16", "decoder/projection/weight", "encoder/layer_2/ffn/linear_0/weight",
         VO_SCALED_I16, VO_LAYOUT_CTRANSLATE2, 2e-2},
        {"base-hf", "model.decoder.embed_tokens.weight", "model.encoder.layers.2.fc1.weight",
         VO_F16, VO_LAYOUT_HUGGINGFACE, 0},
        {"base-mlx", "decoder.token_embedding.weight", "encoder.blocks.2.mlp1.weight", VO_F16,
         VO_LAYOUT_MLX, 0},
        {"base-mlx-q4", "decoder.token_embedding.weight", "encoder.blocks.2.mlp1.weight", VO_AFFINE,
         VO_LAYOUT_MLX, 0.1},
        {"base-mlx-q8", "decoder.token_embedding.weight", "encoder.blocks.2.mlp1.weight", VO_AFFINE,
         VO_LAYOUT_MLX, 7e-3},
        {"base-ggml-f16.bin", "decoder.token_embedding.weight", "encoder.blocks.2.mlp.0.weight",
         VO_F16, VO_LAYOUT_OPENAI, 0},
    };
    vo_weights *base = open_or_fail(data_path("VOCIS_TEST_MODELS", "base"));
    const vo_view *truth[2] = {vo_weights_find(base, "decoder/embeddings/weight"),
                               vo_weights_find(base, "encoder/layer_2/ffn/linear_0/weight")};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        vo_weights *w = open_or_fail(data_path("VOCIS_TEST_MODELS", files[i].path));
        const char *names[2] = {files[i].embedding, files[i].mlp};
        assert_int_equal(vo_weights_layout(w), files[i].layout);
        for (int k = 0; k < 2; k++) {
            const vo_view *v = vo_weights_find(w, names[k]);
            if (v == NULL) fail_msg("%s: %s is missing", files[i].path, names[k]);
            assert_int_equal(v->dtype, files[i].dtype);
            assert_int_equal(v->shape[0], truth[k]->shape[0]);
            assert_int_equal(v->shape[1], truth[k]->shape[1]);
            float *got = values_of(v), *want = values_of(truth[k]);
            double error = relative_error(got, want, vo_view_elements(v));
            vo_free(got);
            vo_free(want);
            if (error > files[i].tolerance)
                fail_msg("%s: %s is off by %g", files[i].path, names[k], error);
            if (files[i].tolerance > 0) assert_true(error > files[i].tolerance / 1000);
        }
        vo_weights_close(w);
    }
    vo_weights_close(base);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ggml_blocks),
        cmocka_unit_test(mlx_matrices),
        cmocka_unit_test(impossible_requests),
        cmocka_unit_test(whisper_cpp_models),
        cmocka_unit_test(quantised_models_near_their_source),
        cmocka_unit_test(published_files),
        cmocka_unit_test(silero_safetensors),
        cmocka_unit_test(real_model_in_every_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
