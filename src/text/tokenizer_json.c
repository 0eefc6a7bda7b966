/* SPDX-License-Identifier: MIT
 *
 * The built-in vocabulary in the form of Hugging Face's tokenizers. That form wants merges where
 * tiktoken has ranks: the merge that makes a token is the last step of encoding its bytes with
 * lower ranks only. Bytes are written as GPT-2 does it, each as a printable character.
 */
#include "text/bpe.h"
#include "text/embed.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST = 256, N_TIMESTAMPS = 1501 };

/* Printable bytes stand for themselves, the others for the characters from U+0100 on. */
static void fill_characters(uint32_t characters[256]) {
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; b++) {
        bool printable = (b > 0x20 && b < 0x7f) || (b > 0xa0 && b != 0xad);
        characters[b] = printable ? b : next++;
    }
}

static void put_bytes(vo_buf *out, const uint32_t characters[256], const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) {
        uint32_t c = characters[(unsigned char)bytes[i]];
        if (c == '"' || c == '\\') vo_buf_puts(out, "\\");
        vo_append_char(out, c);
    }
}

/* Where the bytes of a token are cut by its own merge; 0 when there is none: bytes, and tokens
 * that can only be written down. */
static size_t last_cut(const vo_bpe *bpe, int32_t id) {
    size_t ends[LONGEST], n = 0, size;
    const char *bytes = vo_bpe_token(bpe, id, &size);
    if (size < 2 || size > LONGEST) return 0;
    for (; n < size; n++) ends[n] = n + 1;
    for (;;) {
        int32_t best = id;
        size_t at = 0;
        for (size_t i = 0; i + 1 < n; i++) {
            size_t begin = i > 0 ? ends[i - 1] : 0;
            int32_t rank = vo_bpe_rank(bpe, bytes + begin, ends[i + 1] - begin);
            if (rank < 0 || rank >= best) continue;
            best = rank;
            at = i;
        }
        if (best == id) break;
        memmove(ends + at, ends + at + 1, (n - at - 1) * sizeof *ends);
        n--;
    }
    return n == 2 ? ends[0] : 0;
}

static void put_vocabulary(vo_buf *out, const vo_bpe *bpe, const uint32_t characters[256]) {
    vo_buf_puts(out, "\"vocab\":{");
    for (int32_t id = 0; id < bpe->n_ranks; id++) {
        size_t size;
        const char *bytes = vo_bpe_token(bpe, id, &size);
        vo_buf_puts(out, id > 0 ? ",\"" : "\"");
        put_bytes(out, characters, bytes, size);
        vo_buf_printf(out, "\":%d", (int)id);
    }
    vo_buf_puts(out, "},\"merges\":[");
    bool first = true;
    for (int32_t id = 0; id < bpe->n_ranks; id++) {
        size_t size, cut = last_cut(bpe, id);
        if (cut == 0) continue;
        const char *bytes = vo_bpe_token(bpe, id, &size);
        vo_buf_puts(out, first ? "\"" : ",\"");
        put_bytes(out, characters, bytes, cut);
        vo_buf_puts(out, " ");
        put_bytes(out, characters, bytes + cut, size - cut);
        vo_buf_puts(out, "\"");
        first = false;
    }
    vo_buf_puts(out, "]");
}

static void put_added(vo_buf *out, int32_t id, const char *text, bool special) {
    vo_buf_printf(out,
                  "%s{\"id\":%d,\"content\":\"%s\",\"single_word\":false,\"lstrip\":false,"
                  "\"rstrip\":false,\"normalized\":false,\"special\":%s}",
                  out->data[out->size - 1] == '[' ? "" : ",", (int)id, text,
                  special ? "true" : "false");
}

/* Hugging Face calls silence "no captions" except in the newest vocabulary, and counts times as
 * ordinary tokens. */
static void put_specials(vo_buf *out, const vo_tokenizer *t) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(t);
    vo_buf_puts(out, "\"added_tokens\":[");
    for (int32_t id = ids->eot; id < ids->timestamp_begin && !out->failed; id++) {
        bool renamed = id == ids->no_speech && ids->n_languages < 100;
        put_added(out, id, renamed ? "<|nocaptions|>" : vo_tokenizer_token(t, id, NULL), true);
    }
    for (int i = 0; i < N_TIMESTAMPS && !out->failed; i++) {
        char text[16];
        snprintf(text, sizeof text, "<|%d.%02d|>", i / 50, i % 50 * 2);
        put_added(out, ids->timestamp_begin + i, text, false);
    }
    vo_buf_puts(out, "],");
}

/* What a text gets around it when it is encoded for training. */
static void put_template(vo_buf *out, const vo_whisper_ids *ids) {
    static const char *const names[] = {"<|startoftranscript|>", "<|notimestamps|>",
                                        "<|endoftext|>"};
    const int32_t numbers[] = {ids->sot, ids->no_timestamps, ids->eot};
    for (int pair = 0; pair < 2; pair++) {
        vo_buf_printf(out, "%s", pair ? ",\"pair\":[" : "\"single\":[");
        for (int i = 0; i < 2; i++)
            vo_buf_printf(out, "{\"SpecialToken\":{\"id\":\"%s\",\"type_id\":0}},", names[i]);
        for (int i = 0; i <= pair; i++)
            vo_buf_printf(out, "{\"Sequence\":{\"id\":\"%c\",\"type_id\":%d}},", 'A' + i, i);
        vo_buf_printf(out, "{\"SpecialToken\":{\"id\":\"%s\",\"type_id\":%d}}]", names[2], pair);
    }
    vo_buf_puts(out, ",\"special_tokens\":{");
    for (int i = 0; i < 3; i++)
        vo_buf_printf(out, "%s\"%s\":{\"id\":\"%s\",\"ids\":[%d],\"tokens\":[\"%s\"]}",
                      i > 0 ? "," : "", names[i], names[i], (int)numbers[i], names[i]);
    vo_buf_puts(out, "}");
}

char *vo_tokenizer_json(const vo_tokenizer *tokenizer) {
    const vo_whisper_ids *ids = vo_tokenizer_ids(tokenizer);
    vo_embedded file = ids->multilingual ? vo_embedded_multilingual() : vo_embedded_gpt2();
    vo_bpe bpe;
    vo_buf out = {0};
    uint32_t characters[256];
    if (vo_bpe_load(&bpe, file.data, file.size, 0, NULL) != VO_OK) return NULL;
    fill_characters(characters);
    vo_buf_puts(&out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
    put_specials(&out, tokenizer);
    vo_buf_puts(&out, "\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                      "\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":true},"
                      "\"post_processor\":{\"type\":\"TemplateProcessing\",");
    put_template(&out, ids);
    vo_buf_puts(&out, "},\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                      "\"trim_offsets\":true,\"use_regex\":true},\"model\":{\"type\":\"BPE\","
                      "\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":\"\","
                      "\"end_of_word_suffix\":\"\",\"fuse_unk\":false,");
    put_vocabulary(&out, &bpe, characters);
    vo_buf_puts(&out, "}}\n");
    vo_bpe_free(&bpe);
    if (!out.failed) return out.data;
    vo_buf_free(&out);
    return NULL;
}
