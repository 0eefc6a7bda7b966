/* SPDX-License-Identifier: MIT
 *
 * Bytes for the decoders: at any place of a file or of memory, or forward only from a stream, whose
 * beginning can be kept so that another decoder starts over.
 */
#include <string.h>

#include "audio/decode.h"

enum { SPOOL_BLOCK = 256 * 1024 };

int64_t vo_input_read_at(vo_input *input, int64_t offset, void *data, int64_t size) {
    if (offset < 0 || size <= 0 || offset >= input->size) return 0;
    if (size > input->size - offset) size = input->size - offset;
    if (input->data) {
        memcpy(data, input->data + offset, (size_t)size);
        return size;
    }
    if (input->position != offset) {
        if (fseeko(input->file, offset, SEEK_SET)) {
            input->position = -1;
            return 0;
        }
        input->position = offset;
    }
    size_t got = fread(data, 1, (size_t)size, input->file);
    input->position += (int64_t)got;
    return (int64_t)got;
}

/* From the source alone, as much as it takes to fill. */
static int64_t read_source(vo_stream *s, unsigned char *data, int64_t size) {
    int64_t total = 0;
    while (total < size && !s->failed) {
        int64_t got = s->source->read(s->source->user, data + total, (size_t)(size - total));
        if (got == 0) break;
        if (got < 0 || got > size - total)
            s->failed = true;
        else
            total += got;
    }
    return total;
}

int64_t vo_stream_read(vo_stream *s, void *data, int64_t size) {
    unsigned char *out = data;
    int64_t total = 0;
    if (s->input) {
        total = vo_input_read_at(s->input, s->position, data, size);
        s->position += total;
        return total;
    }
    if (s->replayed < s->head.size) {
        size_t n = s->head.size - s->replayed;
        if (n > (size_t)size) n = (size_t)size;
        memcpy(out, s->head.data + s->replayed, n);
        s->replayed += n;
        total = (int64_t)n;
    }
    if (total < size) {
        int64_t got = read_source(s, out + total, size - total);
        if (s->recording) {
            vo_buf_append(&s->head, out + total, (size_t)got);
            s->replayed += (size_t)got;
        }
        total += got;
    }
    s->position += total;
    return total;
}

bool vo_stream_skip(vo_stream *s, int64_t size) {
    unsigned char scratch[4096];
    if (s->input) {
        if (size > s->input->size - s->position) return false;
        s->position += size;
        return true;
    }
    while (size > 0) {
        int64_t n = size < (int64_t)sizeof(scratch) ? size : (int64_t)sizeof(scratch);
        if (s->recording && s->head.size > s->max_bytes) return false;
        if (vo_stream_read(s, scratch, n) < n) return false;
        size -= n;
    }
    return true;
}

vo_status vo_stream_spool(vo_stream *s, vo_error *err) {
    unsigned char *block = vo_alloc_uninitialized(SPOOL_BLOCK);
    if (!block) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", s->name);
    int64_t got;
    s->replayed = s->head.size;
    do {
        got = read_source(s, block, SPOOL_BLOCK);
        vo_buf_append(&s->head, block, (size_t)got);
    } while (got == SPOOL_BLOCK && s->head.size <= s->max_bytes && !s->head.failed);
    vo_free(block);
    if (s->head.failed)
        return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory to hold it", s->name);
    if (s->head.size > s->max_bytes)
        return vo_fail(err, VO_ERR_LIMIT, "%s: more than %zu bytes from a stream", s->name,
                       s->max_bytes);
    if (s->failed) return vo_fail(err, VO_ERR_IO, "%s: reading it failed", s->name);
    return VO_OK;
}
