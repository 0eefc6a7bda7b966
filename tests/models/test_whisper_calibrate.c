/* SPDX-License-Identifier: MIT
 *
 * Quantisation that knows what the layers are given: scales fold away, errors shrink, moments are
 * those of the inputs, and what cannot be listened to leaves nothing behind.
 */
#include "models/support_hash.h"
#include "models/support_real.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/quantize.h"
#include "models/whisper/export.h"
#include "models/whisper/gptq.h"
#include "pipeline/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { K = 256, ROWS = 48, SAMPLES = 600, GROUP = 64 };

static uint64_t random_state;
static float uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(random_state >> 40) * 0x1p-23f - 1.0f;
}

/* ---- one layer ------------------------------------------------------------------------------- */

typedef struct layer {
    float w[ROWS * K], x[SAMPLES * K];
    vo_view view;
    vo_moments moments;
} layer;

/* Inputs of which every 16th is 20 times as loud, and that have something in common. */
static layer *make_layer(void) {
    layer *l = vo_alloc(sizeof *l);
    random_state = 3;
    for (int i = 0; i < ROWS * K; i++) l->w[i] = uniform() + uniform();
    for (int s = 0; s < SAMPLES; s++) {
        const float common = uniform();
        for (int j = 0; j < K; j++)
            l->x[s * K + j] = (uniform() + common) * (j % 16 == 3 ? 20.0f : 1.0f);
    }
    l->view = (vo_view){.name = "w",
                        .dtype = VO_F32,
                        .rank = 2,
                        .shape = {ROWS, K},
                        .data = l->w,
                        .bytes = sizeof l->w};
    assert_int_equal(vo_moments_init(&l->moments, K, NULL), VO_OK);
    vo_moments_add(&l->moments, l->x, SAMPLES, K, 1, NULL);
    assert_true(vo_moments_finish(&l->moments));
    return l;
}

/* Squared error of the outputs over all samples, of weights that were multiplied by scales. */
static double output_error(const layer *l, const float *scales, const uint8_t *packed,
                           const float *group_scales, const float *group_biases) {
    double sum = 0;
    for (int s = 0; s < SAMPLES; s++)
        for (int r = 0; r < ROWS; r++) {
            double e = 0;
            for (int j = 0; j < K; j++) {
                const int at = r * K + j, q = packed[at / 2] >> at % 2 * 4 & 15;
                const double w =
                    (double)((float)q * group_scales[at / GROUP] + group_biases[at / GROUP]);
                e += (w / (double)scales[j] - (double)l->w[at]) * (double)l->x[s * K + j];
            }
            sum += e * e;
        }
    return sum;
}

static double error_with(const layer *l, const float *scales, bool compensated) {
    static const vo_awq_params p = {.group_size = GROUP, .bits = 4, .dtype = VO_F16};
    static float rows[ROWS * K], group_scales[ROWS * K / GROUP], group_biases[ROWS * K / GROUP];
    static uint8_t packed[ROWS * K / 2];
    for (int i = 0; i < ROWS * K; i++) rows[i] = l->w[i] * scales[i % K];
    if (compensated) {
        vo_gptq gptq;
        assert_int_equal(vo_gptq_init(&gptq, &l->moments, scales, NULL, NULL), VO_OK);
        assert_true(vo_gptq_quantise(&gptq, &p, rows, ROWS, packed, group_scales, group_biases));
        vo_gptq_free(&gptq);
    } else {
        assert_true(vo_quantize_affine(rows, (int64_t)ROWS * K, GROUP, 4, packed, group_scales,
                                       group_biases));
    }
    return output_error(l, scales, packed, group_scales, group_biases);
}

static void errors_shrink(void **state) {
    static const vo_awq_params p = {.group_size = GROUP, .bits = 4, .dtype = VO_F16};
    layer *l = make_layer();
    float ones[K], scales[K];
    double before, after;
    for (int j = 0; j < K; j++) ones[j] = 1;
    const vo_awq_layer layers[] = {{&l->view, 0, ROWS / 2}, {&l->view, ROWS / 2, ROWS / 2}};
    vo_error err = {0};
    assert_int_equal(vo_awq_search(layers, 2, &l->moments, &p, scales, &before, &after, &err),
                     VO_OK);
    printf("estimate: %.3f of the error without scales\n", after / before);
    assert_true(after < 0.9 * before);
    const double plain = error_with(l, ones, false), scaled = error_with(l, scales, false);
    const double shared = error_with(l, ones, true), both = error_with(l, scales, true);
    printf("error of outputs: plain 1, scaled %.3f, compensated %.3f, both %.3f\n", scaled / plain,
           shared / plain, both / plain);
    assert_true(scaled < 0.7 * plain);
    assert_true(shared < 0.2 * plain);
    assert_true(both < 0.2 * plain && both < shared);
    l->w[5] = NAN;
    assert_int_equal(vo_awq_search(layers, 2, &l->moments, &p, scales, NULL, NULL, &err),
                     VO_ERR_UNSUPPORTED);
    vo_moments_free(&l->moments);
    vo_free(l);
}

/* Also of channels that are cut into blocks of products. */
static void moments_are_means(void **state) {
    enum { WIDTH = 1664, N = 5 };
    static float x[N * WIDTH];
    vo_moments m;
    random_state = 4;
    for (int i = 0; i < N * WIDTH; i++) x[i] = uniform();
    assert_int_equal(vo_moments_init(&m, WIDTH, NULL), VO_OK);
    assert_true(m.block % 128 == 0 && m.block < WIDTH);
    vo_moments_add(&m, x, N, WIDTH, 2, NULL);
    assert_true(vo_moments_finish(&m));
    assert_int_equal(m.rows, 3);
    for (int i = 0; i < WIDTH; i += 7)
        for (int j = i; j < WIDTH && j / m.block == i / m.block; j += 31) {
            double want = 0;
            for (int r = 0; r < N; r += 2)
                want += (double)x[r * WIDTH + i] * (double)x[r * WIDTH + j] / 3;
            const int64_t first = i - i % m.block;
            assert_float_equal(vo_moments_block(&m, first)[(i - first) * m.block + j - first], want,
                               1e-5);
        }
    vo_moments_free(&m);
    assert_int_equal(vo_moments_init(&m, 32, NULL), VO_OK);
    assert_false(vo_moments_finish(&m)); /* of nothing */
    vo_moments_free(&m);
}

/* ---- a model --------------------------------------------------------------------------------- */

static void write_scaled(const char *path) {
    vo_weights *w;
    vo_whisper_dims d;
    vo_whisper_scales *scales;
    vo_error err = {0};
    assert_int_equal(vo_weights_open(hash_folder_at("hash"), &w, &err), VO_OK);
    assert_int_equal(vo_whisper_read_dims(w, &d, &err), VO_OK);
    assert_int_equal(vo_whisper_scales_create(&d, &scales, &err), VO_OK);
    random_state = 6;
    for (int b = 0; b < d.n_audio_layer + d.n_text_layer; b++)
        for (int f = 0; f < VO_FOLD_COUNT; f++)
            for (int j = 0; j < d.n_audio_state; j++)
                vo_whisper_scales_of(scales, b, (vo_fold)f)[j] = expf(1.5f * uniform());
    vo_whisper_export_params p = {.dtype = VO_F32, .group_size = 32, .scales = scales};
    if (vo_whisper_export(w, &p, path, &err) != VO_OK) fail_msg("%s", err.message);
    vo_whisper_scales_destroy(scales);
    vo_weights_close(w);
}

/* The network computes the same when every input is scaled; only the encoder's own output is not,
 * as its last norm takes a scale. */
static void scales_fold_away(void **state) {
    vo_audio jfk = real_audio(REAL_JFK);
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    static const int32_t ids[] = {50258, 50259, 50359, 50363, 400, 370};
    vocis_convert_params f32 = {.dtype = "f32", .group_size = 32};
    vo_error err = {0};
    float *first = NULL;
    if (vo_convert(NULL, hash_folder_at("hash"), hash_folder_at("f32"), &f32, &err) != VO_OK)
        fail_msg("%s", err.message);
    for (int m = 0; m < 2; m++) {
        if (m == 1) remove(hash_folder_at("f32/weights.safetensors"));
        if (m == 1) write_scaled(hash_folder_at("f32/weights.safetensors"));
        vocis_session *s = real_session(engine, hash_folder_at("f32"), 1);
        assert_non_null(s);
        real_encode(s, jfk.samples, jfk.n_samples);
        float *const *logits;
        const int n = s->model->whisper->dims.n_vocab;
        assert_int_equal(vo_whisper_step(s->workers->state, &(vo_whisper_feed){0, 0, 6, ids, 0}, 1,
                                         &logits, NULL),
                         VO_OK);
        if (m == 0) first = vo_alloc((size_t)n * sizeof *first);
        double error = 0, size = 0;
        for (int i = 0; i < n; i++) {
            if (m == 0) first[i] = logits[0][i];
            error += pow((double)logits[0][i] - (double)first[i], 2);
            size += pow((double)first[i], 2);
        }
        assert_true(sqrt(error / size) < 1e-4);
        real_session_destroy(s);
    }
    vo_free(first);
    vo_audio_free(&jfk);
    real_engine_destroy(engine);
}

static void calibrated_models_are_read(void **state) {
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    const char *files[] = {REAL_JFK, NULL};
    vocis_convert_params p = {.dtype = "int4", .group_size = 32, .calibrate = files};
    vo_error err = {0};
    if (vo_convert(engine, hash_folder_at("hash"), hash_folder_at("out"), &p, &err) != VO_OK)
        fail_msg("%s", err.message);
    vocis_session *s = real_session(engine, hash_folder_at("out"), 1);
    assert_non_null(s);
    real_session_destroy(s);
    /* some layers of what shares an input are kept */
    p.keep = "*.query,*.mlp1,decoder.blocks.1.cross_attn.*";
    p.overwrite = true;
    if (vo_convert(engine, hash_folder_at("hash"), hash_folder_at("out"), &p, &err) != VO_OK)
        fail_msg("%s", err.message);
    real_engine_destroy(engine);
}

static bool stop(void *user, int64_t done, int64_t total) {
    return false;
}

static void nothing_is_left(void **state) {
    vocis_engine *engine = real_engine(0, getenv("VOCIS_CPU"));
    static const char empty[44] =
        "RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x80\x3e\0\0\0\x7d\0\0\2\0"
        "\x10\0data";
    vo_error err = {0};
    assert_int_equal(vo_file_write_atomic(hash_folder_at("empty.wav"), empty, sizeof empty, NULL),
                     VO_OK);
    assert_int_equal(vo_file_write_atomic(hash_folder_at("text"), "no sound", 8, NULL), VO_OK);
    char *const names[] = {"none.wav", "empty.wav", "text"};
    for (int i = 0; i < 3; i++) {
        const char *files[] = {REAL_JFK, hash_folder_at(names[i]), NULL};
        vocis_convert_params p = {.dtype = "int4", .group_size = 32, .calibrate = files};
        err = (vo_error){0};
        assert_int_not_equal(
            vo_convert(engine, hash_folder_at("hash"), hash_folder_at("out"), &p, &err), VO_OK);
        assert_non_null(strstr(err.message, names[i]));
        assert_false(vo_path_exists(hash_folder_at("out")));
    }
    const char *files[] = {REAL_JFK, NULL};
    vocis_convert_params p = {
        .dtype = "int4", .group_size = 32, .calibrate = files, .progress = stop};
    assert_int_equal(vo_convert(engine, hash_folder_at("hash"), hash_folder_at("out"), &p, NULL),
                     VO_ERR_ABORTED);
    p.progress = NULL;
    assert_int_equal(vo_convert(NULL, hash_folder_at("hash"), hash_folder_at("out"), &p, NULL),
                     VO_ERR_ARGUMENT);
    p.dtype = "int8";
    assert_int_equal(vo_convert(engine, hash_folder_at("hash"), hash_folder_at("out"), &p, NULL),
                     VO_ERR_ARGUMENT);
    p.dtype = "int4";
    p.calibrate = files + 1;
    assert_int_equal(vo_convert(engine, hash_folder_at("hash"), hash_folder_at("out"), &p, NULL),
                     VO_ERR_ARGUMENT);
    assert_false(vo_path_exists(hash_folder_at("out")));
    real_engine_destroy(engine);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hash_folder_set_up, hash_folder_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_shrink), cmocka_unit_test(moments_are_means),
        TEST(scales_fold_away),          TEST(calibrated_models_are_read),
        TEST(nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
