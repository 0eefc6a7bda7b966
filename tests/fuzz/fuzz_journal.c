/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a journal: as the records of a file, and, because no mutation gets past a checksum,
 * as the content of one record, and as changes of a record that holds everything. A segment that is
 * read is written back as the same bytes.
 */
#include "pipeline/segment.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) abort();
}

/* All that lies there is read: the sanitizers watch. */
static void touch(const vocis_segment *s) {
    size_t sum = strlen(s->text);
    for (int i = 0; i < s->n_tokens; i++)
        sum += (size_t)s->tokens[i] + (s->token_logprobs[i] > 0 ? 1 : 0);
    for (int i = 0; i < s->n_words; i++) sum += strlen(s->words[i].text);
    volatile size_t sink = sum;
    (void)sink;
}

static void fuzz_segments(const vo_record *record) {
    size_t at = 0;
    vocis_segment s;
    vo_error err = {0};
    for (;;) {
        const size_t from = at;
        if (vo_segment_load(record, &at, &s, &err) != VO_OK) break;
        require(at > from && at <= record->size && at % 8 == 0);
        touch(&s);
        vo_buf first = {0}, again = {0};
        vo_segment_save(&first, &s);
        require(first.size == at - from);
        vo_free((void *)s.words);
        const vo_record copy = {0, (const unsigned char *)first.data, first.size};
        size_t end = 0;
        require(vo_segment_load(&copy, &end, &s, NULL) == VO_OK && end == first.size);
        vo_segment_save(&again, &s);
        require(again.size == first.size && memcmp(again.data, first.data, again.size) == 0);
        vo_free((void *)s.words);
        vo_buf_free(&first);
        vo_buf_free(&again);
    }
    require(!s.words);
}

/* Two segments with words. */
static vo_buf make_record(void) {
    static const vocis_word words[] = {{" One", 0.5, 1, 0.25f, 1}, {" word.", 1, 2, 0.5f, -1}};
    static const int32_t tokens[] = {5, 6, 7};
    static const float logprobs[] = {-1, -2, 0};
    const vocis_segment s = {.text = " One word.",
                             .tokens = tokens,
                             .token_logprobs = logprobs,
                             .n_tokens = 3,
                             .words = words,
                             .n_words = 2};
    vo_buf buf = {0};
    for (int i = 0; i < 2; i++) vo_segment_save(&buf, &s);
    require(!buf.failed);
    return buf;
}

/* Three bytes are one change: where, and what is there. The last byte may cut the end off. */
static void fuzz_changes(const uint8_t *data, size_t size) {
    vo_buf buf = make_record();
    for (size_t i = 0; i + 2 < size; i += 3)
        buf.data[(data[i] | (size_t)data[i + 1] << 8) % buf.size] = (char)data[i + 2];
    size_t cut = size % 3 == 1 ? data[size - 1] : 0;
    fuzz_segments(&(vo_record){0, (const unsigned char *)buf.data, buf.size - cut});
    vo_buf_free(&buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    vo_record record;
    size_t at = 0;
    unsigned char *aligned = vo_alloc(size); /* as the bytes of a file are */
    require(aligned != NULL);
    if (size > 0) memcpy(aligned, data, size);
    for (size_t before = 0; vo_record_read(aligned, size, &at, &record); before = at) {
        require(at > before && at <= size);
        fuzz_segments(&record);
    }
    record = (vo_record){0, aligned, size};
    fuzz_segments(&record);
    fuzz_changes(data, size);
    vo_free(aligned);
    return 0;
}
