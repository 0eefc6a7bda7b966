/* SPDX-License-Identifier: MIT
 *
 * Tiny files of every format, written by tests/fuzz/make_corpus.py: what a reader sees, what it
 * does with every prefix of them, and with every byte of them changed.
 */
#include "formats/support_weights.h"

#define TINY FIXTURES "/tiny/"

typedef void (*file_fn)(const char *name, const json_t *expected, const char *data, size_t size);

static void for_each_file(file_fn fn) {
    const char *name;
    json_t *expected, *all = load_json(TINY "expected.json");
    assert_true(json_object_size(all) >= 20);
    json_object_foreach(all, name, expected) {
        size_t size;
        char *path = vo_path_join(TINY, name), *data = read_all(path, &size);
        fn(name, expected, data, size);
        vo_free(data);
        vo_free(path);
    }
    json_decref(all);
}

static vo_layout layout_named(const char *name) {
    static const char *const names[] = {"unknown", "huggingface", "mlx",
                                        "openai",  "ctranslate2", "silero"};
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0) return (vo_layout)i;
    fail_msg("no layout %s", name);
    return VO_LAYOUT_UNKNOWN;
}

static void check_tensor(const vo_weights *w, const char *name, const json_t *expected) {
    const vo_view *v = vo_weights_find(w, name);
    if (v == NULL) fail_msg("%s is missing", name);
    assert_string_equal(vo_dtype_get_info(v->dtype)->name,
                        json_string_value(json_object_get(expected, "dtype")));
    const json_t *shape = json_object_get(expected, "shape");
    const json_t *values = json_object_get(expected, "values");
    assert_int_equal(v->rank, json_array_size(shape));
    for (int i = 0; i < v->rank; i++)
        assert_int_equal(v->shape[i], json_integer_value(json_array_get(shape, (size_t)i)));
    assert_int_equal(vo_view_elements(v), json_array_size(values));
    float *got = values_of(v);
    for (size_t i = 0; i < json_array_size(values); i++) {
        float want = (float)json_number_value(json_array_get(values, i));
        if (got[i] != want) fail_msg("%s[%zu]: %.9g, not %.9g", name, i, got[i], want);
    }
    vo_free(got);
}

static void check_file(const char *name, const json_t *expected, const char *data, size_t size) {
    vo_weights *w;
    vo_error err = {0};
    const char *tensor;
    json_t *want, *tensors = json_object_get(expected, "tensors");
    if (vo_weights_open_memory(data, size, name, &w, &err) != VO_OK) fail_msg("%s", err.message);
    assert_string_equal(vo_weights_format(w),
                        json_string_value(json_object_get(expected, "format")));
    assert_int_equal(vo_weights_layout(w),
                     layout_named(json_string_value(json_object_get(expected, "layout"))));
    json_object_foreach(tensors, tensor, want) check_tensor(w, tensor, want);
    size_t aliases = vo_weights_find(w, "decoder/projection/weight") != NULL;
    assert_int_equal(vo_weights_count(w) + aliases, json_object_size(tensors));
    assert_null(vo_weights_find(w, "no such tensor"));
    assert_null(vo_weights_find(w, "decoder/embeddings/weight_scale"));
    assert_null(vo_weights_at(w, vo_weights_count(w)));
    assert_null(vo_weights_folder(w));
    vo_weights_close(w);
}

static void contents(void **state) {
    for_each_file(check_file);
}

static void tied_tensor_is_one_view(void **state) {
    vo_weights *w = open_or_fail(TINY "ctranslate2/i8.bin");
    const vo_view *embedding = vo_weights_find(w, "decoder/embeddings/weight");
    assert_non_null(embedding);
    assert_ptr_equal(vo_weights_find(w, "decoder/projection/weight"), embedding);
    assert_string_equal(embedding->name, "decoder/embeddings/weight");
    assert_string_equal(vo_weights_string(w, "spec"), "WhisperSpec");
    int64_t version = 0;
    assert_true(vo_weights_integer(w, "version", &version));
    assert_int_equal(version, 6);
    vo_weights_close(w);
}

static void ggml_header_and_vocabulary(void **state) {
    const char *const *tokens;
    const uint32_t *lengths;
    int64_t value = 0;
    vo_weights *w = open_or_fail(TINY "ggml/empty.bin");
    assert_int_equal(vo_weights_count(w), 0);
    assert_int_equal(vo_weights_vocabulary(w, &tokens, &lengths), 3);
    assert_int_equal(lengths[0], 1);
    assert_int_equal(lengths[1], 0);
    assert_int_equal(lengths[2], 2);
    assert_memory_equal(tokens[2], "bc", 2);
    assert_true(vo_weights_integer(w, "n_vocab", &value));
    assert_int_equal(value, 4);
    assert_true(vo_weights_integer(w, "n_mels", &value));
    assert_int_equal(value, 2);
    assert_true(vo_weights_integer(w, "ftype", &value));
    assert_int_equal(value, 1);
    assert_false(vo_weights_integer(w, "n_mel", &value));
    assert_null(vo_weights_string(w, "n_vocab"));
    vo_weights_close(w);
}

static void metadata_and_no_vocabulary(void **state) {
    const char *const *tokens;
    const uint32_t *lengths;
    vo_weights *w = open_or_fail(TINY "safetensors/openai.bin");
    assert_string_equal(vo_weights_string(w, "note"), "tiny");
    assert_null(vo_weights_string(w, "other"));
    assert_int_equal(vo_weights_vocabulary(w, &tokens, &lengths), 0);
    assert_null(tokens);
    const vo_view *heads = vo_weights_find(w, "alignment_heads");
    assert_int_equal(heads->dtype, VO_I64);
    assert_int_equal(heads->rank, 2);
    vo_weights_close(w);
}

/* A ggml file tells no number of tensors, so cutting it between two leaves a shorter valid file;
 * every other prefix of any file is an error. */
static void check_prefixes(const char *name, const json_t *expected, const char *data,
                           size_t size) {
    bool ggml = strncmp(name, "ggml/", 5) == 0;
    size_t accepted = 0, before = vo_memory_get_stats().active_bytes;
    for (size_t n = 0; n < size; n++) {
        vo_weights *w = NULL;
        vo_error err = {0};
        unsigned char *copy = exact_copy(data, n);
        if (vo_weights_open_memory(copy, n, name, &w, &err) == VO_OK) {
            touch_everything(w);
            assert_int_equal(vo_weights_count(w), accepted);
            accepted++;
            vo_weights_close(w);
        } else {
            assert_null(w);
            assert_int_equal(err.status, VO_ERR_FORMAT);
            assert_non_null(strstr(err.message, name));
        }
        free(copy);
    }
    size_t tensors = json_object_size(json_object_get(expected, "tensors"));
    assert_int_equal(accepted, ggml ? tensors : 0);
    assert_int_equal(vo_memory_get_stats().active_bytes, before);
}

static void every_prefix(void **state) {
    for_each_file(check_prefixes);
}

/* Whatever one byte does, the answer is an error sentence or a file whose views are all sound. */
static void check_changes(const char *name, const json_t *expected, const char *data, size_t size) {
    static const unsigned char masks[] = {0x01, 0x02, 0x10, 0x80, 0xff};
    unsigned char *copy = exact_copy(data, size);
    size_t before = vo_memory_get_stats().active_bytes;
    for (size_t i = 0; i < size; i++) {
        for (size_t m = 0; m < sizeof masks; m++) {
            vo_weights *w = NULL;
            vo_error err = {0};
            copy[i] ^= masks[m];
            if (vo_weights_open_memory(copy, size, name, &w, &err) == VO_OK)
                touch_everything(w);
            else
                assert_true(err.status != VO_OK && err.message[0] != '\0');
            vo_weights_close(w);
            copy[i] ^= masks[m];
        }
    }
    free(copy);
    assert_int_equal(vo_memory_get_stats().active_bytes, before);
}

static void every_byte_changed(void **state) {
    for_each_file(check_changes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents),
        cmocka_unit_test(tied_tensor_is_one_view),
        cmocka_unit_test(ggml_header_and_vocabulary),
        cmocka_unit_test(metadata_and_no_vocabulary),
        cmocka_unit_test(every_prefix),
        cmocka_unit_test(every_byte_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
