/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a journal: as the records of a file, and, because no mutation gets past a checksum,
 * as the content of one record. A segment that is read is written back as the same bytes.
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
    vo_free(aligned);
    return 0;
}
