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
enum { FORMAT = 3, HEX = 64 };
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
    _Static_assert(sizeof(void *) != 8 || sizeof *p == 232, "members of the fingerprint");
    const int32_t integers[] = {(int32_t)p->task,
                                p->best_of,
                                p->beam_size,
                                p->suppress_blank,
                                p->carry_initial_prompt,
                                p->condition_on_previous_text,
                                p->without_timestamps,
                                p->word_timestamps,
                                p->recover,
                                p->guard,
                                (int32_t)p->chunking,
                                p->max_tokens,
                                p->clip_timestamps ? p->n_clip_timestamps : 0};
    const float floats[] = {
        p->temperature,         p->temperature_increment,       p->patience,
        p->length_penalty,      p->compression_ratio_threshold, p->logprob_threshold,
        p->no_speech_threshold, p->max_initial_timestamp,       p->hallucination_silence_threshold};
    const char *const texts[] = {p->language,           p->languages, p->suppress_tokens,
                                 p->initial_prompt,     p->prefix,    p->prepend_punctuations,
                                 p->append_punctuations};
    put(hash, integers, sizeof integers);
    put(hash, floats, sizeof floats);
    put(hash, &p->seed, sizeof p->seed);
    if (p->clip_timestamps && p->n_clip_timestamps > 0)
        put(hash, p->clip_timestamps, (size_t)p->n_clip_timestamps * sizeof *p->clip_timestamps);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) put_text(hash, texts[i]);
    for (int i = 0; p->boost && i < p->n_boost; i++) {
        put_text(hash, p->boost[i].phrase);
        put(hash, &p->boost[i].weight, sizeof p->boost[i].weight);
    }
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
