/* SPDX-License-Identifier: MIT
 *
 * Weights from SplitMix64 over a tensor's name and an element's index.
 */
#include "models/support_hash.h"

#include "base/file.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE = 32, LAYERS = 2, TEXT_CTX = 448, AUDIO_CTX = 1500 };
static const uint64_t gamma64 = 0x9E3779B97F4A7C15u;

typedef struct file {
    vo_buf header, data;
} file;

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* shape: outermost first, 0 after the last. */
static void put(file *f, const char *name, int a, int b, int c) {
    uint64_t seed = 0;
    for (const char *s = name; *s; s++) seed = mix((seed ^ (unsigned char)*s) + gamma64);
    int inner = (b ? b : 1) * (c ? c : 1);
    bool gain = strstr(name, "ln") && ends_with(name, ".weight");
    float scale = ends_with(name, ".bias")    ? 0.1f
                  : strstr(name, "embedding") ? 0.5f
                                              : (float)(4 / sqrt((double)inner));
    size_t begin = f->data.size;
    for (uint64_t i = 1; i <= (uint64_t)a * (uint64_t)inner; i++) {
        float x = (float)(mix(i * gamma64 + seed) >> 40) * 0x1p-23f - 1.0f;
        x = gain ? 1.0f + 0.3f * x : scale * x;
        vo_buf_append(&f->data, &x, sizeof x);
    }
    vo_buf_printf(&f->header, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[%d", name, a);
    if (b) vo_buf_printf(&f->header, ",%d", b);
    if (c) vo_buf_printf(&f->header, ",%d", c);
    vo_buf_printf(&f->header, "],\"data_offsets\":[%zu,%zu]}", begin, f->data.size);
}

static void put_pair(file *f, const char *base, const char *part, int out, int in, bool bias) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s.weight", base, part);
    put(f, name, out, in, 0);
    snprintf(name, sizeof name, "%s.%s.bias", base, part);
    if (bias) put(f, name, out, 0, 0);
}

static void put_attention(file *f, const char *block, const char *kind) {
    char base[64];
    snprintf(base, sizeof base, "%s.%s", block, kind);
    put_pair(f, base, "query", STATE, STATE, true);
    put_pair(f, base, "key", STATE, STATE, false);
    put_pair(f, base, "value", STATE, STATE, true);
    put_pair(f, base, "out", STATE, STATE, true);
    snprintf(base, sizeof base, "%s_ln", kind);
    put_pair(f, block, base, STATE, 0, true);
}

static void put_blocks(file *f, const char *side, bool cross, int layers) {
    for (int i = 0; i < layers; i++) {
        char block[48];
        snprintf(block, sizeof block, "%s.blocks.%d", side, i);
        put_attention(f, block, "attn");
        if (cross) put_attention(f, block, "cross_attn");
        put_pair(f, block, "mlp.0", 4 * STATE, STATE, true);
        put_pair(f, block, "mlp.2", STATE, 4 * STATE, true);
        put_pair(f, block, "mlp_ln", STATE, 0, true);
    }
}

static bool write_whisper(const char *path, int n_mels, int n_vocab, int layers) {
    file f = {0};
    vo_buf_printf(&f.header,
                  "{\"__metadata__\":{\"dims\":\"{\\\"n_mels\\\": %d, \\\"n_audio_ctx\\\": %d, "
                  "\\\"n_audio_state\\\": %d, \\\"n_audio_head\\\": 2, \\\"n_audio_layer\\\": %d, "
                  "\\\"n_vocab\\\": %d, \\\"n_text_ctx\\\": %d, \\\"n_text_state\\\": %d, "
                  "\\\"n_text_head\\\": 2, \\\"n_text_layer\\\": %d}\"}",
                  n_mels, AUDIO_CTX, STATE, layers, n_vocab, TEXT_CTX, STATE, layers);
    put(&f, "encoder.conv1.weight", STATE, n_mels, 3);
    put(&f, "encoder.conv1.bias", STATE, 0, 0);
    put(&f, "encoder.conv2.weight", STATE, STATE, 3);
    put(&f, "encoder.conv2.bias", STATE, 0, 0);
    put_blocks(&f, "encoder", false, layers);
    put_pair(&f, "encoder", "ln_post", STATE, 0, true);
    put(&f, "decoder.token_embedding.weight", n_vocab, STATE, 0);
    put(&f, "decoder.positional_embedding", TEXT_CTX, STATE, 0);
    put_blocks(&f, "decoder", true, layers);
    put_pair(&f, "decoder", "ln", STATE, 0, true);
    vo_buf_puts(&f.header, "}");
    while (f.header.size % 8) vo_buf_puts(&f.header, " ");
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)((uint64_t)f.header.size >> 8 * i);
    FILE *out = fopen(path, "wb");
    bool ok = out && !f.header.failed && !f.data.failed && fwrite(length, 8, 1, out) == 1 &&
              fwrite(f.header.data, f.header.size, 1, out) == 1 &&
              fwrite(f.data.data, f.data.size, 1, out) == 1;
    if (out && fclose(out) != 0) ok = false;
    vo_buf_free(&f.header);
    vo_buf_free(&f.data);
    return ok;
}

bool hash_write_whisper(const char *path, int n_mels, int n_vocab) {
    return write_whisper(path, n_mels, n_vocab, LAYERS);
}
bool hash_write_small_whisper(const char *path, int n_mels, int n_vocab) {
    return write_whisper(path, n_mels, n_vocab, LAYERS - 1);
}

static char folder[64];

const char *hash_folder_at(const char *name) {
    static char paths[8][160];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

int hash_folder_set_up(void **state) {
    (void)state;
    strcpy(folder, "/tmp/vocis-test-XXXXXX");
    return mkdtemp(folder) && hash_write_whisper(hash_folder_at("hash"), 80, 51865) ? 0 : -1;
}

int hash_folder_tear_down(void **state) {
    (void)state;
    return vo_remove_tree(folder, NULL) == VO_OK ? 0 : -1;
}
