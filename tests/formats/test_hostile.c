/* SPDX-License-Identifier: MIT
 *
 * Files made to break a reader, most of them after published vulnerabilities of other programs:
 * each must be refused with a sentence that says why.
 */
#include "formats/support_weights.h"

#include "base/clock.h"

/* ---- safetensors ------------------------------------------------------------------------ */

static void put_u64(vo_buf *b, uint64_t v) {
    vo_buf_append(b, &v, 8);
}

/* A file with this header and so many bytes of data. */
static vo_buf safetensors(const char *header, size_t data_bytes) {
    vo_buf b = {0};
    put_u64(&b, strlen(header));
    vo_buf_puts(&b, header);
    for (size_t i = 0; i < data_bytes; i++) vo_buf_append(&b, "\0", 1);
    assert_false(b.failed);
    return b;
}

static void safetensors_headers(void **state) {
#define T(name, shape, a, b)                                                                       \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #a "," #b "]}"
    static const struct {
        const char *header;
        size_t data;
        vo_status status;
        const char *part;
    } cases[] = {
        {"{" T("a", "[2]", 0, 8) "," T("a", "[2]", 8, 16) "}", 16, VO_ERR_FORMAT, "duplicate"},
        {"{" T("a", "[2]", 0, 8) "," T("b", "[2]", 12, 20) "}", 20, VO_ERR_FORMAT, "a hole"},
        {"{" T("a", "[2]", 0, 8) "," T("b", "[2]", 4, 12) "}", 12, VO_ERR_FORMAT, "an overlap"},
        {"{" T("a", "[2]", 0, 8) "," T("b", "[2]", 0, 8) "}", 8, VO_ERR_FORMAT, "an overlap"},
        {"{" T("a", "[2]", 0, 8) "}", 9, VO_ERR_FORMAT, "1 bytes after the last"},
        {"{" T("a", "[2]", 0, 8) "}", 7, VO_ERR_FORMAT, "cut off"},
        {"{" T("a", "[3]", 0, 8) "}", 8, VO_ERR_FORMAT, "shape does not need"},
        {"{" T("a", "[2]", 8, 0) "}", 8, VO_ERR_FORMAT, "data_offsets"},
        {"{" T("a", "[2]", -8, 0) "}", 8, VO_ERR_FORMAT, "data_offsets"},
        {"{" T("a", "[2]", 0.0, 8.0) "}", 8, VO_ERR_FORMAT, "data_offsets"},
        {"{" T("a", "[-2]", 0, 8) "}", 8, VO_ERR_FORMAT, "shape"},
        {"{" T("a", "[2.0]", 0, 8) "}", 8, VO_ERR_FORMAT, "shape"},
        {"{" T("a", "2", 0, 8) "}", 8, VO_ERR_FORMAT, "lacks dtype or shape"},
        /* 4 * product wraps to 16 in 64 bits */
        {"{" T("a", "[4194305,4194305,211106198978564]", 0, 16) "}", 16, VO_ERR_FORMAT, "shape"},
        {"{" T("a", "[4611686018427387904,4]", 0, 0) "}", 0, VO_ERR_FORMAT, "shape"},
        {"{" T("a", "[9223372036854775808]", 0, 0) "}", 0, VO_ERR_FORMAT, "too big integer"},
        {"{" T("a", "[1,1,1,1,1]", 0, 4) "}", 4, VO_ERR_UNSUPPORTED, "5 dimensions"},
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         VO_ERR_UNSUPPORTED, "F8_E4M3"},
        {"{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VO_ERR_FORMAT, "dtype"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, VO_ERR_FORMAT,
         "data_offsets"},
        {"{\"a\":[]}", 0, VO_ERR_FORMAT, "not an object"},
        {"{\"__metadata__\":[]}", 0, VO_ERR_FORMAT, "__metadata__"},
        {"{\"__metadata__\":{\"k\":1}}", 0, VO_ERR_FORMAT, "__metadata__"},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, VO_ERR_FORMAT,
         "no name"},
        {"{\"a\\u001bb\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         VO_ERR_FORMAT, "control character"},
        {"{\"a\\u0000b\":1}", 0, VO_ERR_FORMAT, "JSON"},
        {"{\"a\":", 0, VO_ERR_FORMAT, "JSON"},
        {"{} {}", 0, VO_ERR_FORMAT, "JSON"},
        {"{\"a\":\"\xff\"}", 0, VO_ERR_FORMAT, "JSON"},
    };
#undef T
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vo_buf b = safetensors(cases[i].header, cases[i].data);
        assert_refused(b.data, b.size, cases[i].status, cases[i].part);
        vo_buf_free(&b);
    }
}

static void safetensors_lengths(void **state) {
    static const uint64_t lengths[] = {100000001, UINT64_MAX, UINT64_MAX - 7, 1ull << 63,
                                       1ull << 40};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        vo_buf b = {0};
        put_u64(&b, lengths[i]);
        vo_buf_puts(&b, "{}");
        /* lengths beyond 2^40 are not taken for safetensors at all */
        assert_refused(b.data, b.size, i == 0 ? VO_ERR_LIMIT : VO_ERR_FORMAT,
                       i == 0 ? "100 MB" : "x.bin");
        vo_buf_free(&b);
    }
}

static void safetensors_deep_nesting(void **state) {
    vo_buf b = {0};
    put_u64(&b, 1 + 4 + 100000);
    vo_buf_puts(&b, "{\"a\":");
    for (int i = 0; i < 100000; i++) vo_buf_puts(&b, "[");
    assert_refused(b.data, b.size, VO_ERR_FORMAT, "depth");
    vo_buf_free(&b);
}

static void padded_and_empty_are_fine(void **state) {
    vo_weights *w;
    vo_buf b = safetensors("{}      ", 0);
    assert_int_equal(vo_weights_open_memory(b.data, b.size, "x", &w, NULL), VO_OK);
    assert_int_equal(vo_weights_count(w), 0);
    assert_int_equal(vo_weights_layout(w), VO_LAYOUT_UNKNOWN);
    vo_weights_close(w);
    vo_buf_free(&b);
}

/* 100,000 names and one that is there twice: found without comparing all with all. */
static void many_tensors(void **state) {
    enum { N = 100000 };
    vo_buf h = {0};
    vo_buf_puts(&h, "{");
    for (int i = 0; i < N; i++)
        vo_buf_printf(&h, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
                      i > 0 ? "," : "", i);
    vo_buf_puts(&h, "}");
    vo_buf b = safetensors(h.data, 0);
    vo_weights *w;
    double start = vo_clock_seconds();
    assert_int_equal(vo_weights_open_memory(b.data, b.size, "x", &w, NULL), VO_OK);
    assert_int_equal(vo_weights_count(w), N);
    assert_string_equal(vo_weights_find(w, "t77777")->name, "t77777");
    assert_true(vo_clock_seconds() - start < 20); /* a tenth of a second; N*N takes minutes */
    vo_weights_close(w);
    vo_buf_free(&b);
    vo_buf_free(&h);
}

/* ---- MLX -------------------------------------------------------------------------------- */

static void mlx_parts_that_do_not_fit(void **state) {
#define E(name, dtype, shape, a, b)                                                                \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #a "," #b "]}"
    static const struct {
        const char *header;
        size_t data;
        vo_status status;
        const char *part;
    } cases[] = {
        {"{" E("x.weight", "U32", "[1,8]", 0, 32) "," E("x.scales", "F16", "[1,1]", 32, 34) "}", 34,
         VO_ERR_UNSUPPORTED, "mxfp4"},
        {"{" E("x.weight", "U32", "[1,8]", 0, 32) "," E("x.scales", "F16", "[2,1]", 32, 36) "," E(
             "x.biases", "F16", "[2,1]", 36, 40) "}",
         40, VO_ERR_FORMAT, "do not fit together"},
        {"{" E("x.weight", "U32", "[1,8]", 0, 32) "," E("x.scales", "F16", "[1,1]", 32, 34) "," E(
             "x.biases", "F16", "[1,2]", 34, 38) "}",
         38, VO_ERR_FORMAT, "do not fit together"},
        {"{" E("x.weight", "U32", "[1,7]", 0, 28) "," E("x.scales", "F16", "[1,1]", 28, 30) "," E(
             "x.biases", "F16", "[1,1]", 30, 32) "}",
         32, VO_ERR_FORMAT, "fit no bits and group size"},
        {"{" E("x.weight", "U32", "[1,8]", 0, 32) "," E("x.scales", "F16", "[1,0]", 32, 32) "," E(
             "x.biases", "F16", "[1,0]", 32, 32) "}",
         32, VO_ERR_FORMAT, "fit no bits and group size"},
        {"{" E("x.weight", "U32", "[0,4611686018427387904]", 0, 0) "," E(
             "x.scales", "F16", "[0,1]", 0, 0) "," E("x.biases", "F16", "[0,1]", 0, 0) "}",
         0, VO_ERR_FORMAT, "fit no bits and group size"},
    };
#undef E
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vo_buf b = safetensors(cases[i].header, cases[i].data);
        vo_weights *w;
        vo_error err = {0};
        assert_int_equal(vo_weights_open_memory(b.data, b.size, "x.bin", &w, &err),
                         cases[i].status);
        if (strstr(err.message, cases[i].part) == NULL) fail_msg("case %zu: %s", i, err.message);
        vo_buf_free(&b);
    }
}

/* ---- ggml ------------------------------------------------------------------------------- */

static void put_i32(vo_buf *b, int64_t v) {
    int32_t w = (int32_t)(uint32_t)v;
    vo_buf_append(b, &w, 4);
}

enum { HEADER_INTEGERS = 11, N_MEL = 11, N_FFT = 12, N_TOKENS = 13, FIELDS = 14 };

/* magic, integers, filters, no tokens; one field can be given another value */
static vo_buf ggml_header(int field, int64_t value) {
    vo_buf b = {0};
    static const float filters[2];
    vo_buf_append(&b, "lmgg", 4);
    for (int i = 0; i < FIELDS; i++) {
        int64_t usual = i < HEADER_INTEGERS - 1 || i == N_MEL ? 1 : i == N_FFT ? 2 : 0;
        if (i == N_TOKENS) vo_buf_append(&b, filters, sizeof filters);
        put_i32(&b, i == field ? value : usual);
    }
    return b;
}

static void ggml_headers(void **state) {
    for (int field = 0; field < FIELDS; field++) {
        static const int64_t values[] = {0, -1, INT32_MAX, INT32_MIN, 1 << 25, 1000000, 65536};
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            bool fine = (field < HEADER_INTEGERS - 1 && values[i] > 0 && values[i] <= 1 << 24) ||
                        (field >= 10 && values[i] == 0 && field != N_MEL && field != N_FFT) ||
                        (field == 10 && (values[i] == 1000000 || values[i] == 65536));
            vo_buf b = ggml_header(field, values[i]);
            if (!fine) assert_refused(b.data, b.size, VO_ERR_FORMAT, "x.bin");
            vo_buf_free(&b);
        }
    }
    vo_buf old = ggml_header(10, 1002);
    assert_refused(old.data, old.size, VO_ERR_UNSUPPORTED, "old layout");
    vo_buf_free(&old);
}

static void ggml_token_lengths(void **state) {
    static const int64_t lengths[] = {-1, INT32_MAX, 5, INT32_MIN};
    for (size_t i = 0; i < 4; i++) {
        vo_buf b = ggml_header(N_TOKENS, 1);
        put_i32(&b, lengths[i]);
        vo_buf_puts(&b, "abcd");
        assert_refused(b.data, b.size, VO_ERR_FORMAT, "a token");
        vo_buf_free(&b);
    }
}

static void put_tensor(vo_buf *b, int64_t n_dims, int64_t name_length, int64_t type,
                       const int64_t ne[4], const char *name, size_t data) {
    put_i32(b, n_dims);
    put_i32(b, name_length);
    put_i32(b, type);
    for (int i = 0; i < 4 && i < n_dims; i++) put_i32(b, ne[i]);
    vo_buf_puts(b, name);
    for (size_t i = 0; i < data; i++) vo_buf_append(b, "\0", 1);
}

static void ggml_tensors(void **state) {
    static const struct {
        int64_t n_dims, name_length, type, ne[4];
        size_t data;
        vo_status status;
        const char *part;
    } cases[] = {
        {5, 1, 0, {1, 1, 1, 1}, 64, VO_ERR_FORMAT, "5 dimensions"},
        {-1, 1, 0, {1}, 64, VO_ERR_FORMAT, "dimensions"},
        {INT32_MAX, 1, 0, {1, 1, 1, 1}, 64, VO_ERR_FORMAT, "dimensions"},
        {INT32_MIN, 1, 0, {1}, 64, VO_ERR_FORMAT, "dimensions"},
        {1, 0, 0, {1}, 4, VO_ERR_FORMAT, ""},
        {1, -1, 0, {1}, 64, VO_ERR_FORMAT, "name"},
        {1, INT32_MAX, 0, {1}, 64, VO_ERR_FORMAT, "name"},
        {1, 1000, 0, {1}, 2000, VO_ERR_FORMAT, "name has 1000 bytes"},
        {1, 1, 4, {32}, 64, VO_ERR_UNSUPPORTED, "type 4"},
        {1, 1, -1, {1}, 64, VO_ERR_UNSUPPORTED, "type"},
        {1, 1, 99, {1}, 64, VO_ERR_UNSUPPORTED, "type 99"},
        {2, 1, 0, {0, 4}, 64, VO_ERR_FORMAT, "dimension"},
        {2, 1, 0, {-4, -4}, 64, VO_ERR_FORMAT, "dimension"},
        {2, 1, 0, {4, 4}, 63, VO_ERR_FORMAT, "cut off"},
        {4, 1, 0, {65536, 65536, 65536, 65536}, 64, VO_ERR_FORMAT, "impossible"},
        {4, 1, 0, {INT32_MAX, INT32_MAX, 2, 1}, 64, VO_ERR_FORMAT, "impossible"},
        {3, 1, 0, {INT32_MAX, INT32_MAX, 1}, 64, VO_ERR_FORMAT, ""},
        {1, 1, 2, {33}, 64, VO_ERR_FORMAT, "impossible"},
        {2, 1, 12, {32, 8}, 200, VO_ERR_FORMAT, "impossible"},
        {1, 1, 2, {32}, 17, VO_ERR_FORMAT, "cut off"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        vo_buf b = ggml_header(-1, 0);
        put_tensor(&b, cases[i].n_dims, cases[i].name_length, cases[i].type, cases[i].ne, "a",
                   cases[i].data);
        assert_refused(b.data, b.size, cases[i].status, cases[i].part);
        vo_buf_free(&b);
    }
}

static void ggml_duplicates(void **state) {
    static const int64_t ne[4] = {2};
    vo_buf b = ggml_header(-1, 0);
    put_tensor(&b, 1, 1, 0, ne, "a", 8);
    put_tensor(&b, 1, 1, 0, ne, "a", 8);
    assert_refused(b.data, b.size, VO_ERR_FORMAT, "the tensor a appears twice");
    vo_buf_free(&b);
}

/* ---- CTranslate2 ------------------------------------------------------------------------ */

static void put_string(vo_buf *b, const char *text) {
    uint16_t n = (uint16_t)(strlen(text) + 1);
    vo_buf_append(b, &n, 2);
    vo_buf_append(b, text, n);
}

static vo_buf ct2_header(uint32_t version, uint32_t variables) {
    vo_buf b = {0};
    put_i32(&b, version);
    put_string(&b, "WhisperSpec");
    put_i32(&b, 3);
    put_i32(&b, variables);
    return b;
}

static void put_variable(vo_buf *b, const char *name, int rank, const int64_t *dims, int dtype,
                         int64_t bytes, size_t data) {
    unsigned char r = (unsigned char)rank, t = (unsigned char)dtype;
    put_string(b, name);
    vo_buf_append(b, &r, 1);
    for (int i = 0; i < rank; i++) put_i32(b, dims[i]);
    vo_buf_append(b, &t, 1);
    put_i32(b, bytes);
    for (size_t i = 0; i < data; i++) vo_buf_append(b, "\1", 1);
}

static void ct2_variables(void **state) {
    static const int64_t big[4] = {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, two[2] = {2, 2};
    vo_buf b;
    static const uint32_t versions[] = {0, 1, 3, 7, 32};
    for (size_t i = 0; i < 5; i++) {
        b = ct2_header(versions[i], 0);
        put_i32(&b, 0);
        assert_refused(b.data, b.size, VO_ERR_UNSUPPORTED, "binary version");
        vo_buf_free(&b);
    }
    static const struct {
        int rank, dtype;
        const int64_t *dims;
        int64_t bytes;
        size_t data;
        vo_status status;
        const char *part;
    } cases[] = {
        {2, 0, two, 12, 16, VO_ERR_FORMAT, "does not fit its shape"},
        {2, 0, two, 20, 20, VO_ERR_FORMAT, "does not fit its shape"},
        {2, 0, two, 16, 15, VO_ERR_FORMAT, "cut off"},
        {2, 0, two, 0xffffffff, 16, VO_ERR_FORMAT, "cut off"},
        {4, 0, big, 0, 16, VO_ERR_FORMAT, "does not fit its shape"},
        {2, 6, two, 4, 16, VO_ERR_UNSUPPORTED, "type 6"},
        {2, 255, two, 4, 16, VO_ERR_UNSUPPORTED, "type 255"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        b = ct2_header(6, 1);
        put_variable(&b, "a", cases[i].rank, cases[i].dims, cases[i].dtype, cases[i].bytes,
                     cases[i].data);
        if (cases[i].data == 16 || cases[i].data == 20) put_i32(&b, 0);
        assert_refused(b.data, b.size, cases[i].status, cases[i].part);
        vo_buf_free(&b);
    }
    b = ct2_header(6, 1);
    put_variable(&b, "a", 5, (const int64_t[5]){1, 1, 1, 1, 1}, 0, 4, 4);
    assert_refused(b.data, b.size, VO_ERR_FORMAT, "5 dimensions");
    vo_buf_free(&b);
}

static void ct2_counts_and_aliases(void **state) {
    static const int64_t one[1] = {1};
    vo_buf b = ct2_header(6, 0xffffffff);
    assert_refused(b.data, b.size, VO_ERR_FORMAT, "cut off");
    vo_buf_free(&b);

    b = ct2_header(6, 2);
    put_variable(&b, "a", 1, one, 1, 1, 1);
    put_variable(&b, "a", 1, one, 1, 1, 1);
    put_i32(&b, 0);
    assert_refused(b.data, b.size, VO_ERR_FORMAT, "appears twice");
    vo_buf_free(&b);

    static const char *const aliases[][3] = {
        {"b", "c", "points to c"}, {"a", "a", "twice"}, {"", "a", "no name"}};
    for (size_t i = 0; i < 3; i++) {
        b = ct2_header(6, 1);
        put_variable(&b, "a", 1, one, 1, 1, 1);
        put_i32(&b, 1);
        put_string(&b, aliases[i][0]);
        put_string(&b, aliases[i][1]);
        assert_refused(b.data, b.size, VO_ERR_FORMAT, aliases[i][2]);
        vo_buf_free(&b);
    }
    b = ct2_header(6, 0);
    put_i32(&b, 0);
    vo_buf_puts(&b, "x");
    assert_refused(b.data, b.size, VO_ERR_FORMAT, "1 bytes too many");
    vo_buf_free(&b);
}

static void ct2_scales_that_do_not_fit(void **state) {
    static const int64_t shape[2] = {2, 2}, three[1] = {3};
    for (int dtype = 1; dtype <= 2; dtype++) { /* i8, i16 */
        vo_buf b = ct2_header(6, 2);
        put_variable(&b, "a", 2, shape, dtype, 4 * dtype, (size_t)(4 * dtype));
        put_variable(&b, "a_scale", 1, three, 0, 12, 12);
        put_i32(&b, 0);
        vo_weights *w;
        vo_error err = {0};
        assert_int_equal(vo_weights_open_memory(b.data, b.size, "x", &w, &err), VO_ERR_FORMAT);
        assert_non_null(strstr(err.message, "the scale of a does not fit"));
        vo_buf_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safetensors_headers),
        cmocka_unit_test(safetensors_lengths),
        cmocka_unit_test(safetensors_deep_nesting),
        cmocka_unit_test(padded_and_empty_are_fine),
        cmocka_unit_test(many_tensors),
        cmocka_unit_test(mlx_parts_that_do_not_fit),
        cmocka_unit_test(ggml_headers),
        cmocka_unit_test(ggml_token_lengths),
        cmocka_unit_test(ggml_tensors),
        cmocka_unit_test(ggml_duplicates),
        cmocka_unit_test(ct2_variables),
        cmocka_unit_test(ct2_counts_and_aliases),
        cmocka_unit_test(ct2_scales_that_do_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
