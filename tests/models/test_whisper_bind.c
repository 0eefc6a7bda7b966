/* SPDX-License-Identifier: MIT
 *
 * Binding weights of a file that opens but whose tensors are not what a Whisper needs: each is
 * refused with a sentence that names it, before anything reads beyond its memory.
 */
#include "backends/registry.h"
#include "base/memory.h"
#include "models/whisper/whisper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The smallest Whisper: one layer of one head on each side. */
enum { D = 4, MELS = 2, VOCAB = 6, TEXT_CTX = 16, AUDIO_CTX = 5 };
enum { MISSING = -1 };
enum { F32, I8, I16, I32 }; /* as CTranslate2 numbers them */

/* One tensor that is stored otherwise. */
typedef struct change {
    const char *name;
    int type;
    int rank; /* MISSING: left out */
    int dims[3];
    int scales; /* elements of NAME_scale; 0: none */
} change;

typedef struct file {
    vo_buf variables;
    uint32_t n;
    const change *change;
} file;

static void put_u32(vo_buf *b, uint32_t v) {
    unsigned char bytes[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                              (unsigned char)(v >> 24)};
    vo_buf_append(b, bytes, 4);
}

static void put_name(vo_buf *b, const char *name) {
    size_t n = strlen(name) + 1;
    unsigned char length[2] = {(unsigned char)n, (unsigned char)(n >> 8)};
    vo_buf_append(b, length, 2);
    vo_buf_append(b, name, n);
}

/* Zeros, but ones for 8 and 16 bits, so that num_heads is a number. */
static void put_variable(file *f, const char *name, int type, int rank, const int *dims) {
    static const int widths[] = {4, 1, 2, 4};
    unsigned char head[2] = {(unsigned char)rank, (unsigned char)type};
    size_t elements = 1;
    put_name(&f->variables, name);
    vo_buf_append(&f->variables, &head[0], 1);
    for (int i = 0; i < rank; i++) {
        put_u32(&f->variables, (uint32_t)dims[i]);
        elements *= (size_t)dims[i];
    }
    vo_buf_append(&f->variables, &head[1], 1);
    put_u32(&f->variables, (uint32_t)(elements * (size_t)widths[type]));
    for (size_t i = 0; i < elements; i++)
        vo_buf_append(&f->variables, type == F32 ? "\0\0\0" : "\1\0\0", (size_t)widths[type]);
    f->n++;
}

/* The changed tensor comes at the end of the file, where a sanitiser sees who reads too far. */
static void put(file *f, const char *side, const char *name, int a, int b, int c) {
    char full[96];
    snprintf(full, sizeof full, "%s/%s", side, name);
    if (f->change && strcmp(full, f->change->name) == 0) return;
    put_variable(f, full, F32, 1 + (b > 0) + (c > 0), (int[]){a, b, c});
}

static void put_linear(file *f, const char *side, const char *name, int out, int in) {
    char part[64];
    snprintf(part, sizeof part, "layer_0/%s/weight", name);
    put(f, side, part, out, in, 0);
    snprintf(part, sizeof part, "layer_0/%s/bias", name);
    put(f, side, part, out, 0, 0);
}

static void put_norm(file *f, const char *side, const char *name) {
    char part[64];
    snprintf(part, sizeof part, "%slayer_norm/gamma", name);
    put(f, side, part, D, 0, 0);
    snprintf(part, sizeof part, "%slayer_norm/beta", name);
    put(f, side, part, D, 0, 0);
}

static void put_side(file *f, const char *side) {
    put_norm(f, side, "layer_0/self_attention/");
    put_linear(f, side, "self_attention/linear_0", 3 * D, D);
    put_linear(f, side, "self_attention/linear_1", D, D);
    put_norm(f, side, "layer_0/ffn/");
    put_linear(f, side, "ffn/linear_0", 4 * D, D);
    put_linear(f, side, "ffn/linear_1", D, 4 * D);
    put_norm(f, side, "");
}

static void put_change(file *f, const change *c) {
    char scale[96];
    if (!c || c->rank == MISSING) return;
    put_variable(f, c->name, c->type, c->rank, c->dims);
    if (!c->scales) return;
    snprintf(scale, sizeof scale, "%s_scale", c->name);
    put_variable(f, scale, F32, 1, &c->scales);
}

/* The whole file in exactly as much memory as it needs: free(). */
static unsigned char *make_file(const change *c, size_t *size) {
    file f = {.change = c};
    put(&f, "encoder", "conv1/weight", D, MELS, 3);
    put(&f, "encoder", "conv1/bias", D, 0, 0);
    put(&f, "encoder", "conv2/weight", D, D, 3);
    put(&f, "encoder", "conv2/bias", D, 0, 0);
    put(&f, "encoder", "position_encodings/encodings", AUDIO_CTX, D, 0);
    put_side(&f, "encoder");
    put(&f, "decoder", "embeddings/weight", VOCAB, D, 0);
    put(&f, "decoder", "position_encodings/encodings", TEXT_CTX, D, 0);
    put_side(&f, "decoder");
    put_norm(&f, "decoder", "layer_0/attention/");
    put_linear(&f, "decoder", "attention/linear_0", D, D);
    put_linear(&f, "decoder", "attention/linear_1", 2 * D, D);
    put_linear(&f, "decoder", "attention/linear_2", D, D);
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "decoder/num_heads" : "encoder/num_heads";
        if (!c || strcmp(c->name, name) != 0) put_variable(&f, name, I16, 0, NULL);
    }
    put_change(&f, c);
    vo_buf all = {0};
    put_u32(&all, 6);
    put_name(&all, "WhisperSpec");
    put_u32(&all, 3);
    put_u32(&all, f.n);
    vo_buf_append(&all, f.variables.data, f.variables.size);
    put_u32(&all, 0);
    assert_false(all.failed || f.variables.failed);
    unsigned char *exact = malloc(all.size);
    assert_non_null(exact);
    memcpy(exact, all.data, all.size);
    *size = all.size;
    vo_buf_free(&all);
    vo_buf_free(&f.variables);
    return exact;
}

/* Loads the model and, if that works, makes a state, which reads every weight. */
static vo_status load(const change *c, vo_error *err) {
    vo_weights *weights = NULL;
    vo_whisper *model = NULL;
    vo_whisper_state *state = NULL;
    vo_kernels kernels;
    vo_runtime runtime;
    size_t size;
    unsigned char *bytes = make_file(c, &size);
    vo_pool *pool = vo_pool_create(1, err);
    assert_non_null(pool);
    vo_kernels_init(&kernels, vo_cpu_detect());
    assert_int_equal(vo_runtime_create(&kernels, pool, &runtime, err), VO_OK);
    vo_status status = vo_weights_open_memory(bytes, size, "made.bin", &weights, err);
    if (status == VO_OK) status = vo_whisper_load(weights, &model, err);
    if (status == VO_OK)
        status = vo_whisper_state_create(
            model, &runtime, (vo_whisper_state_params){.rows = 1, .windows = 1}, &state, err);
    vo_whisper_state_destroy(state);
    vo_whisper_destroy(model);
    vo_runtime_destroy(&runtime);
    vo_pool_destroy(pool);
    free(bytes);
    return status;
}

static void test_accepted(void **state) {
    static const change changes[] = {
        {"encoder/layer_0/ffn/linear_0/bias", F32, 2, {1, 4 * D}, 0},
        {"encoder/layer_0/ffn/linear_0/bias", I8, 1, {4 * D}, 4 * D},
        {"encoder/layer_0/ffn/linear_0/weight", I8, 2, {4 * D, D}, 4 * D},
        {"encoder/layer_0/ffn/linear_0/weight", I16, 2, {4 * D, D}, 1},
        {"encoder/conv1/weight", F32, 3, {D, 3, MELS}, 0},
        {"encoder/conv1/weight", I8, 3, {D, MELS, 3}, D},
        {"encoder/num_heads", I16, 0, {0}, 0},
    };
    vo_error err = {0};
    if (load(NULL, &err) != VO_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        if (load(&changes[i], &err) != VO_OK) fail_msg("%s: %s", changes[i].name, err.message);
}

static void test_refused(void **state) {
    static const change changes[] = {
        {"encoder/layer_0/ffn/linear_0/bias", F32, MISSING, {0}, 0},
        {"encoder/layer_0/ffn/linear_0/bias", F32, 1, {D}, 0},
        {"encoder/layer_0/ffn/linear_0/bias", F32, 0, {0}, 0},
        {"encoder/layer_0/ffn/linear_0/bias", I8, 2, {1, 4 * D}, 1},
        {"encoder/layer_0/ffn/linear_0/bias", I8, 1, {4 * D}, 0},
        {"encoder/layer_0/ffn/linear_1/weight", F32, 2, {4 * D, D}, 0},
        {"encoder/layer_0/ffn/linear_1/weight", I8, 2, {D, 4 * D}, 0},
        {"encoder/layer_0/ffn/linear_1/weight", I16, 2, {D, 4 * D}, 0},
        {"encoder/layer_0/ffn/linear_1/weight", I32, 2, {D, 4 * D}, 0},
        {"encoder/layer_0/ffn/linear_1/weight", I8, 1, {4 * D * D}, 4 * D * D},
        {"decoder/layer_norm/gamma", I32, 1, {D}, 0},
        {"encoder/conv2/weight", F32, 3, {D, 2, 3}, 0},
        {"encoder/conv2/weight", F32, 3, {D, 6, 2}, 0},
        {"encoder/conv2/weight", F32, 2, {D, 3 * D}, 0},
        {"encoder/conv2/weight", I32, 3, {D, D, 3}, 0},
        {"encoder/position_encodings/encodings", F32, 2, {D, AUDIO_CTX}, 0},
        {"decoder/embeddings/weight", I32, 2, {VOCAB, D}, 0},
        {"decoder/position_encodings/encodings", I8, 2, {TEXT_CTX, D}, 0},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        vo_error err = {0};
        vo_status status = load(&changes[i], &err);
        if (status != VO_ERR_FORMAT) fail_msg("%zu, %s: %d", i, changes[i].name, (int)status);
        if (!strstr(err.message, changes[i].name))
            fail_msg("%s is not named: %s", changes[i].name, err.message);
    }
}

/* Sizes come from the tensors: when these are absurd there is no single one to name. */
static void test_absurd_sizes(void **state) {
    static const change changes[] = {
        {"encoder/conv1/weight", F32, MISSING, {0}, 0},
        {"encoder/conv1/weight", F32, 2, {D, MELS * 3}, 0},
        {"encoder/conv1/weight", F32, 3, {0, MELS, 3}, 0},
        {"encoder/conv1/weight", F32, 3, {D, 0, 3}, 0},
        {"encoder/conv1/weight", F32, 3, {D + 1, MELS, 3}, 0},
        {"decoder/embeddings/weight", F32, 1, {VOCAB * D}, 0},
        {"decoder/embeddings/weight", F32, 2, {VOCAB, 2 * D}, 0},
        {"decoder/position_encodings/encodings", F32, 2, {0, D}, 0},
        {"encoder/num_heads", I16, 1, {2}, 0},
        {"encoder/layer_0/ffn/linear_0/weight", F32, MISSING, {0}, 0},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        vo_error err = {0};
        assert_int_equal(load(&changes[i], &err), VO_ERR_FORMAT);
        assert_true(strlen(err.message) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_absurd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
