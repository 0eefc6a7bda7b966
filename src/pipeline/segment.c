/* SPDX-License-Identifier: MIT
 *
 * A segment as bytes: its numbers, then text, tokens, log-probabilities and words, each filled up
 * with zeros to a multiple of 8, so that everything can be read where it lies.
 */
#include "pipeline/segment.h"

#include "text/tokenizer.h"

#include <string.h>

/* Followed by text, tokens, log-probabilities, words, and the text of every word. */
typedef struct stored_segment {
    double start, end;
    int64_t seek;
    int32_t text_bytes, n_tokens, n_words, speaker; /* text with its NUL */
    float temperature, avg_logprob, compression_ratio, no_speech_prob;
    float language_probability;
    int32_t recovered, language, zero; /* index; -1: none */
} stored_segment;

typedef struct stored_word {
    double start, end;
    float probability;
    int32_t speaker, text_bytes, zero;
} stored_word;

_Static_assert(sizeof(stored_segment) == 72 && sizeof(stored_word) == 32, "no padding");
_Static_assert(sizeof(void *) != 8 || (sizeof(vocis_segment) == 120 && sizeof(vocis_word) == 32),
               "members of a segment");

/* With zeros up to a multiple of 8. */
static void save(vo_buf *out, const void *data, size_t size) {
    static const char zeros[8];
    vo_buf_append(out, data, size);
    vo_buf_append(out, zeros, (8 - size % 8) % 8);
}

void vo_segment_save(vo_buf *out, const vocis_segment *s) {
    const size_t n = (size_t)s->n_tokens;
    const stored_segment stored = {s->start,
                                   s->end,
                                   s->seek,
                                   (int32_t)strlen(s->text) + 1,
                                   s->n_tokens,
                                   s->n_words,
                                   s->speaker,
                                   s->temperature,
                                   s->avg_logprob,
                                   s->compression_ratio,
                                   s->no_speech_prob,
                                   s->language_probability,
                                   s->recovered,
                                   vo_language_find(s->language),
                                   0};
    save(out, &stored, sizeof stored);
    save(out, s->text, (size_t)stored.text_bytes);
    save(out, s->tokens, n * sizeof *s->tokens);
    save(out, s->token_logprobs, n * sizeof *s->token_logprobs);
    for (int i = 0; i < s->n_words; i++) {
        const vocis_word *w = &s->words[i];
        const stored_word word = {
            w->start, w->end, w->probability, w->speaker, (int32_t)strlen(w->text) + 1, 0};
        save(out, &word, sizeof word);
    }
    for (int i = 0; i < s->n_words; i++) save(out, s->words[i].text, strlen(s->words[i].text) + 1);
}

/* The next `count` things of `size` bytes of a record and the zeros after them; NULL when there are
 * not so many. */
static const void *load(const vo_record *record, size_t *at, int32_t count, size_t size) {
    size_t bytes, all;
    if (count < 0 || !vo_mul_size((size_t)count, size, &bytes) || !vo_add_size(bytes, 7, &all) ||
        *at > record->size || (all & ~(size_t)7) > record->size - *at)
        return NULL;
    const void *p = record->data + *at;
    *at += all & ~(size_t)7;
    return p;
}

static const char *load_text(const vo_record *record, size_t *at, int32_t bytes) {
    const char *text = load(record, at, bytes, 1);
    return text && bytes > 0 && memchr(text, 0, (size_t)bytes) == text + bytes - 1 ? text : NULL;
}

static bool load_words(const vo_record *record, size_t *at, int n, vocis_word *words) {
    size_t from = *at;
    for (int i = 0; i < n; i++) {
        stored_word w;
        const void *p = load(record, &from, 1, sizeof w);
        if (!p) return false;
        memcpy(&w, p, sizeof w);
        words[i] = (vocis_word){NULL, w.start, w.end, w.probability, w.speaker};
    }
    for (int i = 0; i < n; i++) {
        stored_word w;
        memcpy(&w, load(record, at, 1, sizeof w), sizeof w);
        words[i].text = load_text(record, &from, w.text_bytes);
        if (!words[i].text) return false;
    }
    *at = from;
    return true;
}

vo_status vo_segment_load(const vo_record *record, size_t *at, vocis_segment *s, vo_error *err) {
    static const char damaged[] = "the journal holds an impossible segment";
    stored_segment stored;
    const void *p = load(record, at, 1, sizeof stored);
    *s = (vocis_segment){0};
    if (!p) return vo_fail(err, VO_ERR_FORMAT, damaged);
    memcpy(&stored, p, sizeof stored);
    *s = (vocis_segment){.start = stored.start,
                         .end = stored.end,
                         .seek = stored.seek,
                         .n_tokens = stored.n_tokens,
                         .n_words = stored.n_words,
                         .speaker = stored.speaker,
                         .temperature = stored.temperature,
                         .avg_logprob = stored.avg_logprob,
                         .compression_ratio = stored.compression_ratio,
                         .no_speech_prob = stored.no_speech_prob,
                         .language = vo_language_code(stored.language),
                         .language_probability = stored.language_probability,
                         .recovered = stored.recovered != 0};
    s->text = load_text(record, at, stored.text_bytes);
    s->tokens = load(record, at, stored.n_tokens, sizeof *s->tokens);
    s->token_logprobs = load(record, at, stored.n_tokens, sizeof *s->token_logprobs);
    if (!s->text || !s->tokens || !s->token_logprobs || stored.n_words < 0 ||
        (size_t)stored.n_words > (record->size - *at) / sizeof(stored_word))
        return vo_fail(err, VO_ERR_FORMAT, damaged);
    if (stored.n_words == 0) return VO_OK;
    vocis_word *words = vo_alloc_array((size_t)stored.n_words, sizeof *words);
    if (!words) return vo_fail(err, VO_ERR_MEMORY, "no memory for words of a journal");
    if (!load_words(record, at, stored.n_words, words)) {
        vo_free(words);
        return vo_fail(err, VO_ERR_FORMAT, damaged);
    }
    s->words = words;
    return VO_OK;
}

void vo_segment_save_tokens(vo_buf *out, const int32_t *tokens, int n) {
    save(out, tokens, (size_t)n * sizeof *tokens);
}

const int32_t *vo_segment_load_tokens(const vo_record *record, size_t *at, int32_t n) {
    return load(record, at, n, sizeof(int32_t));
}
