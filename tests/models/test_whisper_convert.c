/* SPDX-License-Identifier: MIT
 *
 * Converting: what is written is read again as the same model, in every type of numbers; nothing
 * that was there is lost, and nothing half-made is left. Tiny models whose weights are a hash,
 * and, where they are, the formats of Whisper base, which must all become one and the same file.
 */
#include "models/support_hash.h"
#include "models/support_real.h"

#include "base/dequantize.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/safetensors_write.h"
#include "pipeline/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static const char jfk_words[] = "And so my fellow Americans ask not what your country can do for "
                                "you, ask what you can do for your country.";

static const vocis_convert_params defaults = {.dtype = "f16", .group_size = 32};

static vo_status convert(const char *from, const char *to, vocis_convert_params p, vo_error *err) {
    *err = (vo_error){0};
    return vo_convert(NULL, from, to, &p, err);
}

static void convert_to(const char *from, const char *to, const char *dtype) {
    vocis_convert_params p = defaults;
    vo_error err;
    p.dtype = dtype;
    if (convert(from, to, p, &err) != VO_OK) fail_msg("%s: %s", dtype, err.message);
}

static vo_weights *open_weights(const char *path) {
    vo_weights *w;
    vo_error err = {0};
    if (vo_weights_open(path, &w, &err) != VO_OK) fail_msg("%s", err.message);
    return w;
}

static float *values_of(const vo_view *v) {
    float *values = vo_alloc_array((size_t)vo_view_elements(v), sizeof *values);
    assert_non_null(values);
    assert_int_equal(vo_dequantize_rows(v, 0, v->rank > 1 ? v->shape[0] : 1, values, NULL), VO_OK);
    return values;
}

/* The name that OpenAI's layout has for a tensor of MLX's. */
static const vo_view *find_original(const vo_weights *w, const char *name) {
    char copy[128];
    const char *mlp = strstr(name, ".mlp");
    bool numbered = mlp && mlp[4] >= '1' && mlp[4] <= '2';
    if (!numbered) return vo_weights_find(w, name);
    snprintf(copy, sizeof copy, "%.*s.mlp.%c%s", (int)(mlp - name), name, mlp[4] == '1' ? '0' : '2',
             mlp + 5);
    return vo_weights_find(w, copy);
}

/* Half a step of the type near x, or a step of the group. */
static float tolerance(const vo_view *v, int64_t i, float x) {
    if (v->dtype == VO_F32) return 0;
    if (v->dtype == VO_F16) return 0x1p-11f * fabsf(x) + 0x1p-25f;
    if (v->dtype == VO_BF16) return 0x1p-8f * fabsf(x);
    uint16_t scale;
    memcpy(&scale, (const char *)v->scales + i / v->group_size * 2, 2);
    return 1.05f * fabsf(vo_f16_to_f32(scale)) + 0x1p-10f * fabsf(x);
}

static void check_tensor(const vo_view *have, const vo_view *want) {
    assert_non_null(want);
    assert_int_equal(vo_view_elements(have), vo_view_elements(want));
    float *x = values_of(have), *y = values_of(want);
    int64_t in = have->rank == 3 ? have->shape[2] : 0;
    for (int64_t i = 0; i < vo_view_elements(have); i++) {
        /* convolutions: [out][kernel][in] from [out][in][kernel] */
        int64_t from = in ? i / (3 * in) * 3 * in + i % in * 3 + i / in % 3 : i;
        if (!(fabsf(x[i] - y[from]) <= tolerance(have, i, y[from])))
            fail_msg("%s[%lld]: %g instead of %g", have->name, (long long)i, (double)x[i],
                     (double)y[from]);
    }
    vo_free(x);
    vo_free(y);
}

static void every_type(void **state) {
    static const char *const types[] = {"f32", "f16", "bf16", "int8", "int4"};
    static const int bits[] = {0, 0, 0, 8, 4};
    static const vo_dtype dtypes[] = {VO_F32, VO_F16, VO_BF16, VO_F16, VO_F16};
    vo_weights *original = open_weights(hash_folder_at("hash"));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        convert_to(hash_folder_at("hash"), hash_folder_at(types[t]), types[t]);
        vo_weights *w = open_weights(hash_folder_at(types[t]));
        assert_int_equal(vo_weights_layout(w), VO_LAYOUT_MLX);
        assert_int_equal(vo_weights_count(w), vo_weights_count(original));
        int quantised = 0;
        for (size_t i = 0; i < vo_weights_count(w); i++) {
            const vo_view *v = vo_weights_at(w, i);
            bool affine = v->dtype == VO_AFFINE;
            if (affine) assert_true(v->bits == bits[t] && v->group_size == 32);
            if (!affine) assert_int_equal(v->dtype, dtypes[t]);
            quantised += affine;
            check_tensor(v, find_original(original, v->name));
        }
        /* two layers: 6 matrices in a block of the encoder, 10 in one of the decoder, tokens */
        assert_int_equal(quantised, bits[t] ? 2 * 6 + 2 * 10 + 1 : 0);
        vo_whisper_dims have, want;
        assert_int_equal(vo_whisper_read_dims(w, &have, NULL), VO_OK);
        assert_int_equal(vo_whisper_read_dims(original, &want, NULL), VO_OK);
        assert_memory_equal(&have, &want, sizeof have);
        vo_weights_close(w);
    }
    vo_weights_close(original);
}

static char *read_weights(const char *path, size_t *size) {
    char *data, *file = vo_path_join(path, "weights.safetensors");
    vo_error err = {0};
    if (vo_file_read(file, (size_t)1 << 31, &data, size, &err) != VO_OK)
        fail_msg("%s", err.message);
    vo_free(file);
    return data;
}

static void assert_same_weights(const char *a, const char *b) {
    size_t n, m;
    char *x = read_weights(a, &n), *y = read_weights(b, &m);
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s and %s hold other weights", a, b);
    vo_free(x);
    vo_free(y);
}

/* Converting what was converted changes nothing, and f32 in between loses nothing. */
static void round_trips(void **state) {
    convert_to(hash_folder_at("hash"), hash_folder_at("once"), "bf16");
    convert_to(hash_folder_at("once"), hash_folder_at("twice"), "bf16");
    assert_same_weights(hash_folder_at("once"), hash_folder_at("twice"));
    convert_to(hash_folder_at("once"), hash_folder_at("wide"), "f32");
    convert_to(hash_folder_at("wide"), hash_folder_at("narrow"), "bf16");
    assert_same_weights(hash_folder_at("once"), hash_folder_at("narrow"));
    /* quantised are the numbers of f16, whatever they were before */
    convert_to(hash_folder_at("hash"), hash_folder_at("half"), "f16");
    convert_to(hash_folder_at("half"), hash_folder_at("from half"), "int4");
    convert_to(hash_folder_at("hash"), hash_folder_at("from single"), "int4");
    assert_same_weights(hash_folder_at("from half"), hash_folder_at("from single"));
}

/* The engine computes with what it reads: f32 is the same model bit for bit. */
static void same_logits(void **state) {
    vo_audio jfk = real_audio(REAL_JFK);
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    convert_to(hash_folder_at("hash"), hash_folder_at("f32"), "f32");
    const char *paths[] = {hash_folder_at("hash"), hash_folder_at("f32")};
    float *first = NULL;
    for (int m = 0; m < 2; m++) {
        vocis_session *s = real_session(engine, paths[m], 1);
        assert_non_null(s);
        real_encode(s, jfk.samples, jfk.n_samples);
        static const int32_t ids[] = {50258, 50259, 50359};
        float *const *logits;
        size_t bytes = (size_t)s->model->whisper->dims.n_vocab * sizeof **logits;
        assert_int_equal(vo_whisper_step(s->workers->state, &(vo_whisper_feed){0, 0, 3, ids, 0}, 1,
                                         &logits, NULL),
                         VO_OK);
        if (m == 0) {
            first = vo_alloc(bytes);
            memcpy(first, logits[0], bytes);
        } else {
            assert_memory_equal(first, logits[0], bytes);
        }
        real_session_destroy(s);
    }
    vo_free(first);
    vo_audio_free(&jfk);
    real_engine_destroy(engine);
}

static int count_quantised(const char *path, const char *part, int *all) {
    vo_weights *w = open_weights(path);
    int n = 0;
    *all = 0;
    for (size_t i = 0; i < vo_weights_count(w); i++) {
        const vo_view *v = vo_weights_at(w, i);
        if (v->dtype != VO_AFFINE) continue;
        ++*all;
        n += strstr(v->name, part) != NULL;
    }
    vo_weights_close(w);
    return n;
}

static void kept_layers(void **state) {
    static const struct {
        const char *keep, *part;
        int quantised;
    } cases[] = {
        {"decoder.token_embedding", "token_embedding", 32},
        {"encoder.blocks.0.*", "encoder.blocks.0", 27},
        {"*.mlp?", "mlp", 25},
        {"decoder.token_embedding,*.cross_attn.*,", "cross_attn", 24},
        {"*", ".", 0},
    };
    vocis_convert_params p = defaults;
    vo_error err;
    int all;
    p.dtype = "int8";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        p.keep = cases[i].keep;
        p.overwrite = i > 0;
        if (convert(hash_folder_at("hash"), hash_folder_at("kept"), p, &err) != VO_OK)
            fail_msg("%s", err.message);
        assert_int_equal(count_quantised(hash_folder_at("kept"), cases[i].part, &all), 0);
        assert_int_equal(all, cases[i].quantised);
    }
    static const char *const nothing[] = {"decoder.tokens", "*.conv1", "decoder.positional_*",
                                          "*.mlp", "encoder.blocks.0.attn.query,typo"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        p.keep = nothing[i];
        assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("kept"), p, &err),
                         VO_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, "no layer"));
    }
    /* rows of 32 are no groups of 64: only the second matrix of each MLP has longer ones */
    p = (vocis_convert_params){.dtype = "int4", .group_size = 64, .overwrite = true};
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("kept"), p, &err), VO_OK);
    assert_int_equal(count_quantised(hash_folder_at("kept"), "mlp2", &all), 4);
    assert_int_equal(all, 4);
}

static vo_status count_entry(void *user, const char *name, bool is_dir) {
    ++*(int *)user;
    return VO_OK;
}

static int entries(const char *path) {
    int n = 0;
    assert_int_equal(vo_dir_list(path, count_entry, &n, NULL), VO_OK);
    return n;
}

static bool stop(void *user, int64_t done, int64_t total) {
    assert_true(done > 0 && done <= total);
    return done < total / 2;
}

static void nothing_is_overwritten(void **state) {
    vocis_convert_params p = defaults, force = defaults;
    vo_error err;
    force.overwrite = true;
    convert_to(hash_folder_at("hash"), hash_folder_at("deep/er/out///"),
               "f16"); /* folders are made */
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("deep/er/out"), p, &err),
                     VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "exists already"));
    assert_int_equal(entries(hash_folder_at("deep/er/out")), 5);
    /* in its own place, from maps of the files that go */
    force.dtype = "int8";
    assert_int_equal(
        convert(hash_folder_at("deep/er/out"), hash_folder_at("deep/er/out/"), force, &err), VO_OK);
    int all;
    count_quantised(hash_folder_at("deep/er/out"), "x", &all);
    assert_int_equal(all, 33);
    assert_int_equal(entries(hash_folder_at("deep/er")), 1);
    /* stopping leaves the old one, and nothing else */
    force.dtype = "f32";
    force.progress = stop;
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("deep/er/out"), force, &err),
                     VO_ERR_ABORTED);
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("deep/er/other"), force, &err),
                     VO_ERR_ABORTED);
    assert_int_equal(entries(hash_folder_at("deep/er")), 1);
    count_quantised(hash_folder_at("deep/er/out"), "x", &all);
    assert_int_equal(all, 33);
    /* somebody's files are nobody's to replace */
    force.progress = NULL;
    assert_int_equal(
        vo_file_write_atomic(hash_folder_at("deep/er/out/model.safetensors"), "x", 1, NULL), VO_OK);
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("deep/er/out"), force, &err),
                     VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "model.safetensors"));
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("hash"), force, &err),
                     VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "is no folder"));
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("hash/inside"), p, &err),
                     VO_ERR_IO);
    assert_int_equal(vo_make_dirs(hash_folder_at("empty"), NULL), VO_OK);
    convert_to(hash_folder_at("hash"), hash_folder_at("empty"), "f16");
}

static void wrong_requests(void **state) {
    vocis_convert_params p = defaults;
    vo_error err;
    p.dtype = "int3";
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("out"), p, &err),
                     VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "int3"));
    p.dtype = NULL;
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("out"), p, &err),
                     VO_ERR_ARGUMENT);
    p = (vocis_convert_params){.dtype = "int8", .group_size = 48};
    assert_int_equal(convert(hash_folder_at("hash"), hash_folder_at("out"), p, &err),
                     VO_ERR_ARGUMENT);
    assert_int_equal(convert(hash_folder_at("none"), hash_folder_at("out"), defaults, &err),
                     VO_ERR_NOT_FOUND);
    assert_int_equal(convert("tests/data/formats/tiny/safetensors/every_type.bin",
                             hash_folder_at("out"), defaults, &err),
                     VO_ERR_FORMAT);
    assert_int_equal(entries(hash_folder_at("")), 1);
}

/* The hashed model again, with one tensor changed or added. */
static void write_changed(const char *path, const char *name, const float *data, size_t count,
                          const int64_t *shape, int rank) {
    vo_weights *from = open_weights(hash_folder_at("hash"));
    vo_safetensors_writer *w;
    size_t index[256], n = vo_weights_count(from), changed;
    assert_true(n < 256);
    assert_int_equal(vo_safetensors_create(path, true, &w, NULL), VO_OK);
    for (size_t i = 0; i < n; i++) {
        const vo_view *v = vo_weights_at(from, i);
        if (strcmp(v->name, name) == 0) continue;
        assert_int_equal(
            vo_safetensors_add(w, v->name, v->dtype, v->shape, v->rank, &index[i], NULL), VO_OK);
    }
    assert_int_equal(vo_safetensors_add(w, name, VO_F32, shape, rank, &changed, NULL), VO_OK);
    assert_int_equal(vo_safetensors_metadata(w, "dims", vo_weights_string(from, "dims"), NULL),
                     VO_OK);
    assert_int_equal(vo_safetensors_begin(w, NULL), VO_OK);
    for (size_t i = 0; i < n; i++) {
        const vo_view *v = vo_weights_at(from, i);
        if (strcmp(v->name, name) == 0) continue;
        assert_int_equal(vo_safetensors_write(w, index[i], v->data, v->bytes, NULL), VO_OK);
    }
    assert_int_equal(vo_safetensors_write(w, changed, data, count * sizeof *data, NULL), VO_OK);
    assert_int_equal(vo_safetensors_commit(w, NULL), VO_OK);
    vo_safetensors_destroy(w);
    vo_weights_close(from);
}

static void numbers_that_do_not_fit(void **state) {
    enum { WIDTH = 32, POSITIONS = 20 };
    float matrix[WIDTH * WIDTH] = {0};
    vocis_convert_params p = defaults;
    vo_error err;
    const char *name = "encoder.blocks.1.attn.key.weight";
    matrix[100] = 70000;
    write_changed(hash_folder_at("large"), name, matrix, WIDTH * WIDTH, (int64_t[]){WIDTH, WIDTH},
                  2);
    assert_int_equal(convert(hash_folder_at("large"), hash_folder_at("out"), p, &err),
                     VO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, name));
    p.dtype = "int8";
    assert_int_equal(convert(hash_folder_at("large"), hash_folder_at("out"), p, &err),
                     VO_ERR_UNSUPPORTED);
    assert_false(vo_path_exists(hash_folder_at("out")));
    convert_to(hash_folder_at("large"), hash_folder_at("large-bf16"), "bf16");
    matrix[100] = NAN;
    write_changed(hash_folder_at("large"), name, matrix, WIDTH * WIDTH, (int64_t[]){WIDTH, WIDTH},
                  2);
    assert_int_equal(convert(hash_folder_at("large"), hash_folder_at("out"), p, &err),
                     VO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "finite"));
    /* other positions than sines would be lost */
    float positions[POSITIONS * WIDTH];
    for (int t = 0; t < POSITIONS; t++)
        for (int c = 0; c < WIDTH / 2; c++) {
            double x = t * exp(-c * log(10000.0) / (WIDTH / 2 - 1));
            positions[t * WIDTH + c] = (float)sin(x);
            positions[t * WIDTH + WIDTH / 2 + c] = (float)cos(x);
        }
    name = "encoder.positional_embedding";
    write_changed(hash_folder_at("short"), name, positions, POSITIONS * WIDTH,
                  (int64_t[]){POSITIONS, WIDTH}, 2);
    convert_to(hash_folder_at("short"), hash_folder_at("short-f16"), "f16");
    vo_weights *w = open_weights(hash_folder_at("short-f16"));
    vo_whisper_dims dims;
    assert_int_equal(vo_whisper_read_dims(w, &dims, NULL), VO_OK);
    assert_int_equal(dims.n_audio_ctx, POSITIONS);
    vo_weights_close(w);
    positions[WIDTH + 3] += 0.05f;
    write_changed(hash_folder_at("short"), name, positions, POSITIONS * WIDTH,
                  (int64_t[]){POSITIONS, WIDTH}, 2);
    assert_int_equal(convert(hash_folder_at("short"), hash_folder_at("out"), p, &err),
                     VO_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, name));
}

/* What other programs want beside the weights. */
static void files_beside(void **state) {
    vo_error err;
    assert_int_equal(vo_make_dirs(hash_folder_at("in"), NULL), VO_OK);
    assert_int_equal(
        vo_rename(hash_folder_at("hash"), hash_folder_at("in/model.safetensors"), NULL), VO_OK);
    const char *config = "{\"alignment_heads\": [[1, 0], [0, 1]]}";
    assert_int_equal(vo_file_write_atomic(hash_folder_at("in/generation_config.json"), config,
                                          strlen(config), NULL),
                     VO_OK);
    convert_to(hash_folder_at("in"), hash_folder_at("out"), "f16");
    json_t *sizes = json_load_file(hash_folder_at("out/config.json"), 0, NULL),
           *heads = json_load_file(hash_folder_at("out/generation_config.json"), 0, NULL),
           *front = json_load_file(hash_folder_at("out/preprocessor_config.json"), 0, NULL),
           *tokens = json_load_file(hash_folder_at("out/tokenizer.json"), 0, NULL);
    assert_int_equal(json_object_size(sizes), 11); /* mlx-whisper accepts no other key */
    assert_int_equal(json_integer_value(json_object_get(sizes, "n_text_head")), 2);
    assert_int_equal(json_array_size(json_object_get(heads, "alignment_heads")), 2);
    assert_int_equal(json_integer_value(json_object_get(front, "feature_size")), 80);
    const json_t *model = json_object_get(tokens, "model");
    assert_int_equal(json_object_size(json_object_get(model, "vocab")), 50257);
    assert_int_equal(json_array_size(json_object_get(model, "merges")), 50000);
    json_decref(sizes);
    json_decref(heads);
    json_decref(front);
    json_decref(tokens);
    vo_weights *w = open_weights(hash_folder_at("out"));
    const vo_view *v = vo_weights_find(w, "alignment_heads");
    assert_true(v && v->dtype == VO_I64 && v->shape[0] == 2 && v->shape[1] == 2);
    assert_memory_equal(v->data, ((int64_t[]){1, 0, 0, 1}), 32);
    vo_weights_close(w);
    /* they survive the next conversion, where they come from the weights */
    convert_to(hash_folder_at("out"), hash_folder_at("again"), "f16");
    assert_same_weights(hash_folder_at("out"), hash_folder_at("again"));
    config = "{\"alignment_heads\": [[1, 2]]}";
    assert_int_equal(vo_file_write_atomic(hash_folder_at("in/generation_config.json"), config,
                                          strlen(config), NULL),
                     VO_OK);
    assert_int_equal(convert(hash_folder_at("in"), hash_folder_at("bad"), defaults, &err),
                     VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "generation_config.json"));
}

/* ---- Whisper base ---------------------------------------------------------------------------- */

/* All of its files hold the same numbers, but only some know which heads follow the audio. */
static void every_source_of_base(void **state) {
    static const char *const with_heads[] = {"base-hf", "base-mlx", "base-ct2-f32"};
    if (!real_model("base")) skip();
    convert_to(real_model("base"), hash_folder_at("base"), "f16");
    for (size_t i = 0; i < sizeof with_heads / sizeof *with_heads; i++) {
        if (!real_model(with_heads[i])) skip();
        convert_to(real_model(with_heads[i]), hash_folder_at(with_heads[i]), "f16");
        assert_same_weights(hash_folder_at("base"), hash_folder_at(with_heads[i]));
    }
    if (!real_model("base-ggml-f16.bin")) skip();
    convert_to(real_model("base-ggml-f16.bin"), hash_folder_at("ggml"), "f16");
    vo_weights *a = open_weights(hash_folder_at("base")), *b = open_weights(hash_folder_at("ggml"));
    for (size_t i = 0; i < vo_weights_count(b); i++) {
        const vo_view *v = vo_weights_at(b, i), *want = vo_weights_find(a, v->name);
        assert_true(want && want->bytes == v->bytes);
        assert_memory_equal(want->data, v->data, v->bytes);
    }
    assert_int_equal(vo_weights_count(b) + 1, vo_weights_count(a));
    vo_weights_close(a);
    vo_weights_close(b);
}

static void transcribe(vocis_engine *engine, const char *path, int32_t *ids, int *n, int *errors) {
    vocis_session *session = real_session(engine, path, 1);
    vocis_transcribe_params params = real_params(1);
    assert_non_null(session);
    vocis_result *result = real_transcribe(session, REAL_JFK, &params);
    assert_non_null(result);
    *n = real_result_ids(result, ids, 256);
    *errors = real_word_errors(jfk_words, result->text);
    vo_result_destroy(result);
    real_session_destroy(session);
}

static void words_of_base(void **state) {
    static const char *const types[] = {"f16", "f32", "bf16", "int8", "int4"};
    if (!real_model("base")) skip();
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    int32_t want[256], have[256];
    int n_want, n_have, errors;
    transcribe(engine, real_model("base"), want, &n_want, &errors);
    assert_int_equal(errors, 0);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        vocis_convert_params p = {.dtype = types[t], .group_size = 64};
        vo_error err;
        if (convert(real_model("base"), hash_folder_at(types[t]), p, &err) != VO_OK)
            fail_msg("%s", err.message);
        transcribe(engine, hash_folder_at(types[t]), have, &n_have, &errors);
        printf("%s: %d word errors\n", types[t], errors);
        assert_int_equal(errors, 0);
        if (t < 2) real_assert_ids(types[t], have, n_have, want, n_want);
    }
    real_engine_destroy(engine);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hash_folder_set_up, hash_folder_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_type),
        TEST(round_trips),
        TEST(same_logits),
        TEST(kept_layers),
        TEST(nothing_is_overwritten),
        TEST(wrong_requests),
        TEST(numbers_that_do_not_fit),
        TEST(files_beside),
        TEST(every_source_of_base),
        TEST(words_of_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
