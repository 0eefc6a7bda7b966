/* SPDX-License-Identifier: MIT
 *
 * Paths: what a folder is searched for, shards and their index, configuration beside the
 * weights, and the sentences for formats that are not read.
 */
#include "formats/support_weights.h"

#include <unistd.h>

static char folder[64];

static int make_folder(void **state) {
    strcpy(folder, "/tmp/vocis-formats-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    return vo_remove_tree(folder, NULL) != VO_OK;
}

static void write_bytes(const char *name, const void *data, size_t size) {
    vo_error err = {0};
    char *path = vo_path_join(folder, name);
    if (vo_file_write_atomic(path, data, size, &err) != VO_OK) fail_msg("%s", err.message);
    vo_free(path);
}

static void write_text(const char *name, const char *text) {
    write_bytes(name, text, strlen(text));
}

static void copy_fixture(const char *fixture, const char *name) {
    size_t size;
    char *path = vo_path_join(FIXTURES, fixture), *data = read_all(path, &size);
    write_bytes(name, data, size);
    vo_free(data);
    vo_free(path);
}

static void assert_error(const char *name, vo_status status, const char *part) {
    vo_weights *w = NULL;
    vo_error err = {0};
    char *path = name[0] != '\0' ? vo_path_join(folder, name) : vo_strdup(folder);
    vo_status got = vo_weights_open(path, &w, &err);
    if (got != status || strstr(err.message, part) == NULL)
        fail_msg("status %d (%s) instead of %d, \"%s\"", got, err.message, status, part);
    assert_null(w);
    vo_free(path);
}

static void folders(void **state) {
    assert_error("", VO_ERR_NOT_FOUND, "holds no weights");
    assert_error("none", VO_ERR_NOT_FOUND, "no such file or folder");
    copy_fixture("tiny/ctranslate2/f16.bin", "model.bin");
    vo_weights *w = open_or_fail(folder);
    assert_int_equal(vo_weights_layout(w), VO_LAYOUT_CTRANSLATE2);
    assert_string_equal(vo_weights_folder(w), folder);
    vo_weights_forget(w, vo_weights_at(w, 0));
    touch_everything(w);
    vo_weights_close(w);
    /* safetensors come first; content decides, whatever the name says */
    copy_fixture("tiny/ggml/f16.bin", "weights.safetensors");
    w = open_or_fail(folder);
    assert_string_equal(vo_weights_format(w), "ggml");
    vo_weights_close(w);
    copy_fixture("tiny/safetensors/huggingface.bin", "model.safetensors");
    w = open_or_fail(folder);
    assert_int_equal(vo_weights_layout(w), VO_LAYOUT_HUGGINGFACE);
    vo_weights_close(w);
}

static void single_files(void **state) {
    copy_fixture("tiny/ggml/q5_1.bin", "ggml-tiny-q5_1.bin");
    char *path = vo_path_join(folder, "ggml-tiny-q5_1.bin");
    vo_weights *w = open_or_fail(path);
    assert_string_equal(vo_weights_folder(w), folder);
    assert_int_equal(vo_weights_find(w, "w")->dtype, VO_Q5_1);
    vo_weights_close(w);
    vo_free(path);
}

static void refused_formats(void **state) {
    static const struct {
        const char *name, *content, *part;
        vo_status status;
    } cases[] = {
        {"a.gguf", "GGUF\3", "GGUF", VO_ERR_UNSUPPORTED},
        {"a.pt", "PK\3\4....archive/data.pkl", "pt_to_safetensors.py", VO_ERR_UNSUPPORTED},
        {"a.npz", "PK\3\4....decoder.ln.bias.npy", "save_safetensors", VO_ERR_UNSUPPORTED},
        {"a.pkl", "\x80\x02}q", "pt_to_safetensors.py", VO_ERR_UNSUPPORTED},
        {"a.bin", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull", VO_ERR_FORMAT},
        {"b.bin", "<!DOCTYPE html>", "no weight file that is known", VO_ERR_FORMAT},
        {"c.bin", "", "empty", VO_ERR_FORMAT},
        {"d.bin", "lmgg", "cut off", VO_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(cases[i].name, cases[i].content);
        assert_error(cases[i].name, cases[i].status, cases[i].part);
    }
    write_text("weights.npz", "PK\3\4....x.npy");
    assert_error("", VO_ERR_UNSUPPORTED, "NumPy archive");
}

static void shards(void **state) {
    copy_fixture("tiny/safetensors/openai.bin", "a.safetensors");
    copy_fixture("tiny/safetensors/silero.bin", "b.safetensors");
    write_text("model.safetensors.index.json",
               "{\"metadata\":{},\"weight_map\":{\"encoder.conv1.weight\":\"a.safetensors\","
               "\"stft_conv.weight\":\"b.safetensors\",\"alignment_heads\":\"a.safetensors\"}}");
    vo_weights *w = open_or_fail(folder);
    assert_int_equal(vo_weights_count(w), 5);
    assert_non_null(vo_weights_find(w, "lstm_cell.bias_ih"));
    assert_int_equal(vo_weights_layout(w), VO_LAYOUT_OPENAI);
    touch_everything(w);
    for (size_t i = 0; i < 5; i++) vo_weights_forget(w, vo_weights_at(w, i));
    touch_everything(w);
    vo_weights_close(w);
}

static void wrong_indexes(void **state) {
    static const struct {
        const char *map, *part;
        vo_status status;
    } cases[] = {
        {"{\"weight_map\":{\"x\":\"a.safetensors\"}}", "lack the tensor x", VO_ERR_FORMAT},
        {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}", "plain file name", VO_ERR_FORMAT},
        {"{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "plain file name", VO_ERR_FORMAT},
        {"{\"weight_map\":{\"x\":\"none.safetensors\"}}", "none.safetensors", VO_ERR_NOT_FOUND},
        {"{\"weight_map\":{\"x\":1}}", "not a string", VO_ERR_FORMAT},
        {"{\"weight_map\":{}}", "empty", VO_ERR_FORMAT},
        {"{\"weight_map\":[]}", "no weight_map", VO_ERR_FORMAT},
        {"{", "model.safetensors.index.json", VO_ERR_FORMAT},
        /* the same tensors in two shards */
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"c.safetensors\"}}", "appears twice",
         VO_ERR_FORMAT},
        {"{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"d.safetensors\"}}", "is ggml while",
         VO_ERR_FORMAT},
    };
    copy_fixture("tiny/safetensors/openai.bin", "a.safetensors");
    copy_fixture("tiny/safetensors/openai.bin", "c.safetensors");
    copy_fixture("tiny/ggml/f16.bin", "d.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text("model.safetensors.index.json", cases[i].map);
        assert_error("", cases[i].status, cases[i].part);
    }
}

static void mlx_configuration(void **state) {
    static const struct {
        const char *config, *part; /* part NULL: opens with these bits and group */
        int bits, group;
    } cases[] = {
        {"{}", NULL, 4, 64},
        {"{\"quantization\":{\"group_size\":64,\"bits\":4}}", NULL, 4, 64},
        {"{\"quantization_config\":{\"group_size\":32,\"bits\":8,\"mode\":\"affine\"}}", NULL, 8,
         32},
        {"{\"quantization\":{\"group_size\":64,\"bits\":2,\"encoder.blocks.0.mlp1\":"
         "{\"group_size\":128,\"bits\":2}}}",
         NULL, 2, 128},
        {"{\"quantization\":{\"group_size\":32,\"bits\":4,\"mode\":\"mxfp4\","
         "\"encoder.blocks.0.mlp1\":{\"group_size\":64,\"bits\":4,\"mode\":\"affine\"}}}",
         NULL, 4, 64},
        {"{\"quantization\":{\"group_size\":64,\"bits\":8}}", "config.json allows", 0, 0},
        {"{\"quantization\":{\"group_size\":64,\"bits\":7}}", "do not exist", 0, 0},
        {"{\"quantization\":{\"group_size\":-1,\"bits\":4}}", "do not exist", 0, 0},
        {"{\"quantization\":{\"group_size\":64,\"bits\":4,\"mode\":\"nvfp4\"}}", "nvfp4", 0, 0},
        {"{\"quantization\":4}", "not an object", 0, 0},
        {"{\"quantization\"", "JSON", 0, 0},
    };
    copy_fixture("tiny/safetensors/mlx_4.bin", "weights.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text("config.json", cases[i].config);
        if (cases[i].part != NULL) {
            vo_weights *w;
            vo_error err = {0};
            assert_int_not_equal(vo_weights_open(folder, &w, &err), VO_OK);
            if (strstr(err.message, cases[i].part) == NULL) fail_msg("%zu: %s", i, err.message);
            continue;
        }
        vo_weights *w = open_or_fail(folder);
        const vo_view *v = vo_weights_find(w, "encoder.blocks.0.mlp1.weight");
        assert_int_equal(v->bits, cases[i].bits);
        assert_int_equal(v->group_size, cases[i].group);
        assert_int_equal(v->shape[1], cases[i].group); /* the fixture has one group a row */
        touch_everything(w);
        vo_weights_close(w);
    }
}

static void close_accepts_null(void **state) {
    vo_weights_close(NULL);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(folders),
        IN_FOLDER(single_files),
        IN_FOLDER(refused_formats),
        IN_FOLDER(shards),
        IN_FOLDER(wrong_indexes),
        IN_FOLDER(mlx_configuration),
        cmocka_unit_test(close_accepts_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
