/* SPDX-License-Identifier: MIT
 *
 * Whisper's tokenizer: byte-level BPE over the pieces of GPT-2's split pattern, with the special
 * tokens counted up behind the last rank in the order of the reference (openai/whisper,
 * tokenizer.py).
 */
#include "text/tokenizer.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/embed.h"
#include "text/split.h"

#include <stdio.h>
#include <string.h>

enum {
    ENGLISH_VOCAB = 51864,      /* 50256 ranks, 99 languages */
    MULTILINGUAL_VOCAB = 51865, /* 50257 ranks, 99 languages; each language more adds one id */
    ENGLISH_RANKS = 50256,
    MULTILINGUAL_RANKS = 50257,
    ALL_LANGUAGES = 100
};

struct vo_tokenizer {
    vo_whisper_ids ids;
    vo_bpe bpe;
    int32_t *non_speech;
    int n_non_speech;
};

vo_status vo_whisper_ids_from_vocab(int32_t n_vocab, vo_whisper_ids *ids, vo_error *err) {
    memset(ids, 0, sizeof *ids);
    if (n_vocab < ENGLISH_VOCAB)
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "A vocabulary of %d entries is not one of Whisper's (at least %d).",
                       (int)n_vocab, ENGLISH_VOCAB);
    ids->n_vocab = n_vocab;
    ids->multilingual = n_vocab >= MULTILINGUAL_VOCAB;
    ids->n_languages = 99;
    if (n_vocab > MULTILINGUAL_VOCAB) ids->n_languages = ALL_LANGUAGES;
    ids->eot = ids->multilingual ? MULTILINGUAL_RANKS : ENGLISH_RANKS;
    ids->sot = ids->eot + 1;
    ids->first_language = ids->sot + 1;
    ids->translate = ids->first_language + ids->n_languages;
    ids->transcribe = ids->translate + 1;
    ids->sot_lm = ids->transcribe + 1;
    ids->sot_prev = ids->sot_lm + 1;
    ids->no_speech = ids->sot_prev + 1;
    ids->no_timestamps = ids->no_speech + 1;
    ids->timestamp_begin = ids->no_timestamps + 1;
    return VO_OK;
}

static bool add_specials(vo_tokenizer *t) {
    static const char *const tail[] = {"<|translate|>",   "<|transcribe|>", "<|startoflm|>",
                                       "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};
    bool ok = vo_bpe_add_special(&t->bpe, "<|endoftext|>") &&
              vo_bpe_add_special(&t->bpe, "<|startoftranscript|>");
    for (int i = 0; i < t->ids.n_languages; i++) {
        char text[16];
        snprintf(text, sizeof text, "<|%s|>", vo_language_code(i));
        ok = ok && vo_bpe_add_special(&t->bpe, text);
    }
    for (size_t i = 0; i < sizeof tail / sizeof tail[0]; i++)
        ok = ok && vo_bpe_add_special(&t->bpe, tail[i]);
    return ok;
}

/* What a speaker does not say: brackets, musical notes, markup. Each counts with and without a
 * space before it. */
static const char *const symbols[] = {
    "\"",  "#",  "(",  ")",   "*",   "+",   "/",   ":",  ";",   "<",  "=",   ">",
    "@",   "[",  "\\", "]",   "^",   "_",   "`",   "{",  "|",   "}",  "~",   "「",
    "」",  "『", "』", "<<",  ">>",  "<<<", ">>>", "--", "---", "-(", "-[",  "('",
    "(\"", "((", "))", "(((", ")))", "[[",  "]]",  "{{", "}}",  "♪♪", "♪♪♪",
};
/* These may be several tokens each; then the first, which they share with other symbols of the
 * same block only, stands for them. */
static const char *const musical[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Adds the first id of prefix + symbol, if that is the only one or `always`. */
static vo_status add_non_speech(vo_tokenizer *t, const char *prefix, const char *symbol,
                                bool always, vo_error *err) {
    char text[16];
    int size = snprintf(text, sizeof text, "%s%s", prefix, symbol), n;
    int32_t *ids;
    vo_status status = vo_tokenizer_encode(t, text, (size_t)size, &ids, &n, err);
    if (status) return status;
    if (n == 1 || (n > 1 && always)) {
        int at = 0;
        while (at < t->n_non_speech && t->non_speech[at] < ids[0]) at++;
        if (at == t->n_non_speech || t->non_speech[at] != ids[0]) {
            memmove(t->non_speech + at + 1, t->non_speech + at,
                    (size_t)(t->n_non_speech - at) * sizeof t->non_speech[0]);
            t->non_speech[at] = ids[0];
            t->n_non_speech++;
        }
    }
    vo_free(ids);
    return VO_OK;
}

static vo_status find_non_speech(vo_tokenizer *t, vo_error *err) {
    t->non_speech = vo_alloc_array(2 + 2 * (COUNT(symbols) + COUNT(musical)), sizeof(int32_t));
    if (!t->non_speech)
        return vo_fail(err, VO_ERR_MEMORY, "Out of memory while creating a tokenizer.");
    /* Hyphen and apostrophe are wanted inside a word, not at its beginning. */
    vo_status status = add_non_speech(t, " ", "-", true, err);
    if (!status) status = add_non_speech(t, " ", "'", true, err);
    for (size_t i = 0; i < 2 * COUNT(symbols) && !status; i++)
        status = add_non_speech(t, i & 1 ? " " : "", symbols[i / 2], false, err);
    for (size_t i = 0; i < 2 * COUNT(musical) && !status; i++)
        status = add_non_speech(t, i & 1 ? " " : "", musical[i / 2], true, err);
    return status;
}

vo_status vo_tokenizer_create(int32_t n_vocab, vo_tokenizer **tokenizer, vo_error *err) {
    *tokenizer = NULL;
    vo_whisper_ids ids;
    vo_status status = vo_whisper_ids_from_vocab(n_vocab, &ids, err);
    if (status) return status;
    vo_tokenizer *t = vo_alloc(sizeof *t);
    if (!t) return vo_fail(err, VO_ERR_MEMORY, "Out of memory while creating a tokenizer.");
    t->ids = ids;
    vo_embedded file = ids.multilingual ? vo_embedded_multilingual() : vo_embedded_gpt2();
    status = vo_bpe_load(&t->bpe, file.data, file.size, ids.timestamp_begin - ids.eot, err);
    if (status) goto fail;
    if (t->bpe.n_ranks != ids.eot || !add_specials(t)) {
        status = vo_fail(err, VO_ERR_INTERNAL, "The built-in vocabulary has a wrong size.");
        goto fail;
    }
    status = find_non_speech(t, err);
    if (status) goto fail;
    *tokenizer = t;
    return VO_OK;
fail:
    vo_tokenizer_destroy(t);
    return status;
}

void vo_tokenizer_destroy(vo_tokenizer *tokenizer) {
    if (!tokenizer) return;
    vo_bpe_free(&tokenizer->bpe);
    vo_free(tokenizer->non_speech);
    vo_free(tokenizer);
}

const vo_whisper_ids *vo_tokenizer_ids(const vo_tokenizer *tokenizer) {
    return &tokenizer->ids;
}

vo_status vo_tokenizer_encode(const vo_tokenizer *tokenizer, const char *text, size_t size,
                              int32_t **ids, int *n_ids, vo_error *err) {
    *ids = NULL;
    *n_ids = 0;
    if (size > INT32_MAX / 2)
        return vo_fail(err, VO_ERR_LIMIT, "A text of %zu bytes is too long to encode.", size);
    vo_status status = VO_OK;
    vo_bpe_scratch scratch = {0};
    int32_t *out = vo_alloc_uninitialized(size * sizeof out[0]); /* no token is empty */
    if (!out)
        return vo_fail(err, VO_ERR_MEMORY, "Out of memory while encoding %zu bytes of text.", size);
    for (size_t pos = 0; pos < size;) {
        size_t length = vo_split_gpt2(text + pos, size - pos);
        int n;
        status =
            vo_bpe_encode(&tokenizer->bpe, text + pos, length, &scratch, out + *n_ids, &n, err);
        if (status) goto fail;
        *n_ids += n;
        pos += length;
    }
    vo_bpe_scratch_free(&scratch);
    *ids = out;
    return VO_OK;
fail:
    vo_bpe_scratch_free(&scratch);
    vo_free(out);
    *n_ids = 0;
    return status;
}

const char *vo_tokenizer_token(const vo_tokenizer *tokenizer, int32_t id, size_t *size) {
    return vo_bpe_token(&tokenizer->bpe, id, size);
}

char *vo_tokenizer_decode(const vo_tokenizer *tokenizer, const int32_t *ids, int n_ids) {
    vo_buf bytes = {0};
    for (int i = 0; i < n_ids; i++) {
        size_t size;
        const char *token = vo_bpe_token(&tokenizer->bpe, ids[i], &size);
        vo_buf_append(&bytes, token, size);
    }
    size_t size;
    char *text =
        bytes.failed ? NULL : vo_utf8_sanitize(bytes.data ? bytes.data : "", bytes.size, &size);
    vo_buf_free(&bytes);
    return text;
}

const int32_t *vo_tokenizer_non_speech(const vo_tokenizer *tokenizer, int *n) {
    *n = tokenizer->n_non_speech;
    return tokenizer->non_speech;
}
