/* SPDX-License-Identifier: MIT
 *
 * The first record is a fingerprint of everything that decides on the result: what follows it is
 * true for that alone. What is only about speed (threads, windows side by side) is not in it.
 */
#include "pipeline/journal.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

/* FORMAT is of the records below: a journal of another one has another fingerprint. */
enum { FORMAT = 1, HEX = 64 };
static const char magic[VO_RECORDS_MAGIC + 1] = "vocis journal\r\n\n";

typedef enum record_type { FINGERPRINT = 1, LANGUAGE, CHUNKS, WINDOW } record_type;

struct vo_journal {
    vo_records *records;
};

/* ---- fingerprint --------------------------------------------------------------------------- */

static void put(vo_sha256 *hash, const void *data, size_t size) {
    vo_sha256_update(hash, data, size);
}

static void put_text(vo_sha256 *hash, const char *text) {
    const uint64_t size = text ? strlen(text) : UINT64_MAX;
    put(hash, &size, sizeof size);
    if (text) put(hash, text, (size_t)size);
}

/* Sizes and, of long data, strips all over it: whoever trains or quantises a model changes all of a
 * tensor. */
static void put_tensor(vo_sha256 *hash, const void *data, size_t bytes) {
    enum { STRIPS = 16, STRIP = 4096 };
    const uint64_t size = bytes;
    put(hash, &size, sizeof size);
    if (bytes <= STRIPS * STRIP) {
        put(hash, data, bytes);
        return;
    }
    for (size_t i = 0; i < STRIPS; i++)
        put(hash, (const char *)data + (bytes - STRIP) / (STRIPS - 1) * i, STRIP);
}

static size_t bytes_of_scales(const vo_view *v) {
    const size_t width = (size_t)vo_dtype_get_info(v->scale_dtype)->block_bytes;
    switch (v->dtype) {
    case VO_AFFINE:
        return (size_t)(vo_view_elements(v) / v->group_size) * width;
    case VO_ROWSCALED_I8:
        return (size_t)v->shape[0] * width;
    default:
        return v->scales ? width : 0;
    }
}

static void put_model(vo_sha256 *hash, const vo_whisper *model) {
    const int32_t compute = (int32_t)model->compute;
    put(hash, &compute, sizeof compute);
    put(hash, &model->dims, sizeof model->dims);
    for (size_t i = 0; i < vo_weights_count(model->file); i++) {
        const vo_view *v = vo_weights_at(model->file, i);
        const int32_t facts[] = {(int32_t)v->dtype, v->rank, (int32_t)v->scale_dtype, v->group_size,
                                 v->bits};
        put_text(hash, v->name);
        put(hash, facts, sizeof facts);
        put(hash, v->shape, sizeof v->shape);
        put_tensor(hash, v->data, v->bytes);
        put_tensor(hash, v->scales, bytes_of_scales(v));
        put_tensor(hash, v->biases, v->biases ? bytes_of_scales(v) : 0);
    }
}

/* All but callbacks and the journal itself. */
static void put_params(vo_sha256 *hash, const vocis_transcribe_params *p) {
    /* Who adds a member that changes the result puts it below. */
    _Static_assert(sizeof(void *) != 8 || sizeof *p == 208, "members of the fingerprint");
    const int32_t integers[] = {(int32_t)p->task,
                                p->best_of,
                                p->beam_size,
                                p->suppress_blank,
                                p->carry_initial_prompt,
                                p->condition_on_previous_text,
                                p->without_timestamps,
                                p->word_timestamps,
                                (int32_t)p->chunking,
                                p->max_tokens,
                                p->clip_timestamps ? p->n_clip_timestamps : 0};
    const float floats[] = {
        p->temperature,         p->temperature_increment,       p->patience,
        p->length_penalty,      p->compression_ratio_threshold, p->logprob_threshold,
        p->no_speech_threshold, p->max_initial_timestamp,       p->hallucination_silence_threshold};
    const char *const texts[] = {p->language, p->suppress_tokens,      p->initial_prompt,
                                 p->prefix,   p->prepend_punctuations, p->append_punctuations};
    put(hash, integers, sizeof integers);
    put(hash, floats, sizeof floats);
    put(hash, &p->seed, sizeof p->seed);
    if (p->clip_timestamps && p->n_clip_timestamps > 0)
        put(hash, p->clip_timestamps, (size_t)p->n_clip_timestamps * sizeof *p->clip_timestamps);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) put_text(hash, texts[i]);
}

static vo_status make_fingerprint(const vocis_session *session, const float *samples,
                                  int64_t n_samples, const vocis_transcribe_params *params,
                                  char hex[HEX + 1], vo_error *err) {
    const vocis_model *model = session->model;
    const uint32_t facts[] = {FORMAT, model->engine->cpu_flags};
    vo_sha256 *hash = vo_sha256_create();
    if (!hash) return vo_fail(err, VO_ERR_MEMORY, "no memory for a journal");
    put_text(hash, VO_VERSION);
    put(hash, facts, sizeof facts); /* instruction sets may differ in the last bits */
    put_model(hash, model->whisper);
    put_params(hash, params);
    put(hash, &n_samples, sizeof n_samples);
    put(hash, samples, (size_t)n_samples * sizeof *samples);
    vo_sha256_finish(hash, hex);
    vo_sha256_destroy(hash);
    return hex[0] ? VO_OK : vo_fail(err, VO_ERR_INTERNAL, "cannot hash the input");
}

/* ---- the file ------------------------------------------------------------------------------ */

static void warn(const vocis_transcribe_params *params) {
    char *sentence = vo_format("%s is of another input, model, version or setting: the work begins "
                               "anew",
                               params->journal);
    if (params->on_warning && sentence) params->on_warning(params->user, sentence);
    vo_free(sentence);
}

vo_status vo_journal_open(const vocis_session *session, const float *samples, int64_t n_samples,
                          const vocis_transcribe_params *params, vo_journal **journal,
                          vo_error *err) {
    char hex[HEX + 1];
    vo_record first;
    size_t at = 0;
    vo_journal *j = vo_alloc(sizeof *j);
    *journal = NULL;
    if (!j) return vo_fail(err, VO_ERR_MEMORY, "no memory for a journal");
    vo_status status = make_fingerprint(session, samples, n_samples, params, hex, err);
    if (status == VO_OK) status = vo_records_open(params->journal, magic, &j->records, err);
    if (status == VO_OK) {
        const bool any = vo_records_next(j->records, &at, &first);
        const bool same = any && first.type == FINGERPRINT && first.size == HEX &&
                          memcmp(first.data, hex, HEX) == 0;
        if (any && !same) {
            warn(params);
            status = vo_records_clear(j->records, err);
        }
        if (!same && status == VO_OK)
            status = vo_records_append(j->records, FINGERPRINT, hex, HEX, err);
    }
    if (status == VO_OK)
        *journal = j;
    else
        vo_journal_close(j);
    return status;
}

void vo_journal_close(vo_journal *j) {
    if (!j) return;
    vo_records_close(j->records);
    vo_free(j);
}

static bool next(const vo_journal *j, record_type type, size_t *at, vo_record *record) {
    while (vo_records_next(j->records, at, record))
        if (record->type == (uint32_t)type) return true;
    return false;
}

typedef struct stored_language {
    int32_t index;
    float probability;
} stored_language;

bool vo_journal_language(const vo_journal *j, int n_languages, int *index, float *probability) {
    vo_record record;
    stored_language l;
    size_t at = 0;
    if (!next(j, LANGUAGE, &at, &record) || record.size != sizeof l) return false;
    memcpy(&l, record.data, sizeof l);
    if (l.index < 0 || l.index >= n_languages) return false;
    *index = l.index;
    *probability = l.probability;
    return true;
}

vo_status vo_journal_put_language(vo_journal *j, int index, float probability, vo_error *err) {
    const stored_language l = {index, probability};
    return vo_records_append(j->records, LANGUAGE, &l, sizeof l, err);
}

vo_status vo_journal_chunks(const vo_journal *j, bool *found, vo_chunk **chunks, int *n,
                            vo_error *err) {
    vo_record record;
    size_t at = 0;
    *chunks = NULL;
    *n = 0;
    *found = next(j, CHUNKS, &at, &record) && record.size % sizeof **chunks == 0;
    if (!*found || record.size == 0) return VO_OK;
    vo_chunk *c = vo_alloc(record.size);
    if (!c) return vo_fail(err, VO_ERR_MEMORY, "no memory for the chunks of a journal");
    memcpy(c, record.data, record.size);
    *chunks = c;
    *n = (int)(record.size / sizeof *c);
    for (int i = 0; i < *n && *found; i++)
        *found = c[i].start >= 0 && c[i].end >= c[i].start && c[i].quiet >= 0;
    if (*found) return VO_OK;
    vo_free(c);
    *chunks = NULL;
    *n = 0;
    return VO_OK;
}

vo_status vo_journal_put_chunks(vo_journal *j, const vo_chunk *chunks, int n, vo_error *err) {
    return vo_records_append(j->records, CHUNKS, chunks, (size_t)n * sizeof *chunks, err);
}

bool vo_journal_next_window(const vo_journal *j, size_t *at, vo_record *window) {
    return next(j, WINDOW, at, window);
}

vo_status vo_journal_put_window(vo_journal *j, const vo_buf *window, vo_error *err) {
    if (window->failed) return vo_fail(err, VO_ERR_MEMORY, "no memory for a journal");
    return vo_records_append(j->records, WINDOW, window->data, window->size, err);
}

/* ---- segments ------------------------------------------------------------------------------ */

/* Followed by text, tokens, log-probabilities, words, and the text of every word. */
typedef struct stored_segment {
    double start, end;
    int64_t seek;
    int32_t text_bytes, n_tokens, n_words, speaker; /* text with its NUL */
    float temperature, avg_logprob, compression_ratio, no_speech_prob;
} stored_segment;

typedef struct stored_word {
    double start, end;
    float probability;
    int32_t speaker, text_bytes, zero;
} stored_word;

_Static_assert(sizeof(stored_segment) == 56 && sizeof(stored_word) == 32, "no padding");
_Static_assert(sizeof(void *) != 8 || (sizeof(vocis_segment) == 96 && sizeof(vocis_word) == 32),
               "members of a segment");

/* With zeros up to a multiple of 8. */
static void save(vo_buf *out, const void *data, size_t size) {
    static const char zeros[8];
    vo_buf_append(out, data, size);
    vo_buf_append(out, zeros, (8 - size % 8) % 8);
}

void vo_segment_save(vo_buf *out, const vocis_segment *s) {
    const size_t n = (size_t)s->n_tokens;
    const stored_segment stored = {s->start,         s->end,
                                   s->seek,          (int32_t)strlen(s->text) + 1,
                                   s->n_tokens,      s->n_words,
                                   s->speaker,       s->temperature,
                                   s->avg_logprob,   s->compression_ratio,
                                   s->no_speech_prob};
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
                         .no_speech_prob = stored.no_speech_prob};
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
