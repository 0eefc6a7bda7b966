/* SPDX-License-Identifier: MIT
 *
 * MP4 boxes (ISO 14496-12), as little of them as a pipe needs. Phones write the index (moov)
 * after the media data, and a demuxer on a pipe cannot go back. The one idea: rotate the index
 * to the front in memory and shift the chunk offsets in it.
 */
#include "audio/decode.h"

#include <string.h>

static uint32_t be32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static uint64_t be64(const unsigned char *p) {
    return (uint64_t)be32(p) << 32 | be32(p + 4);
}
static void put32(unsigned char *p, uint32_t v) {
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

/* A box's whole length and the length of its header from its first 16 bytes; `left` bytes lie
 * before the end of what contains it. False when it makes no sense. */
static bool box_size(const unsigned char *h, int64_t have, int64_t left, int64_t *size,
                     int *header) {
    if (have < 8) return false;
    uint64_t bytes = be32(h);
    *header = 8;
    if (bytes == 1) {
        if (have < 16) return false;
        bytes = be64(h + 8);
        *header = 16;
    } else if (bytes == 0) {
        bytes = (uint64_t)left;
    }
    if (bytes < (uint64_t)*header || bytes > INT64_MAX) return false;
    *size = (int64_t)bytes;
    return true;
}

bool vo_mp4_is_cut(vo_input *input) {
    int64_t offset = 0;
    for (int boxes = 0; offset < input->size && boxes < 100000; boxes++) {
        unsigned char h[16];
        int header;
        int64_t size, got = vo_input_read_at(input, offset, h, sizeof(h));
        if (!box_size(h, got, input->size - offset, &size, &header)) return true;
        if (size > input->size - offset) return true;
        offset += size;
    }
    return false;
}

typedef struct shift {
    uint64_t from, to; /* offsets in [from, to) move */
    uint64_t by;
} shift;

/* Chunk offsets in an stco (4 bytes each) or co64 (8 bytes each) box's content. */
static bool shift_table(unsigned char *p, int64_t size, int width, const shift *s) {
    if (size < 8) return false;
    uint64_t count = be32(p + 4);
    if (count > (uint64_t)(size - 8) / (uint64_t)width) return false;
    p += 8;
    for (uint64_t i = 0; i < count; i++, p += width) {
        uint64_t offset = width == 4 ? be32(p) : be64(p);
        if (offset < s->from || offset >= s->to) continue;
        offset += s->by;
        if (width == 4 && offset > UINT32_MAX) return false;
        if (width == 8) put32(p, (uint32_t)(offset >> 32));
        put32(p + width - 4, (uint32_t)offset);
    }
    return true;
}

/* Walks the boxes in p[0..size) down to the offset tables. */
static bool shift_boxes(unsigned char *p, int64_t size, const shift *s, int depth) {
    static const char *const parents[] = {"moov", "trak", "mdia", "minf", "stbl"};
    if (depth > 5) return true;
    while (size >= 8) {
        int64_t bytes;
        int header;
        if (!box_size(p, size, size, &bytes, &header) || bytes > size) return false;
        bool good = true;
        if (memcmp(p + 4, "stco", 4) == 0)
            good = shift_table(p + header, bytes - header, 4, s);
        else if (memcmp(p + 4, "co64", 4) == 0)
            good = shift_table(p + header, bytes - header, 8, s);
        for (int i = 0; i < 5 && good; i++)
            if (memcmp(p + 4, parents[i], 4) == 0)
                good = shift_boxes(p + header, bytes - header, s, depth + 1);
        if (!good) return false;
        p += bytes;
        size -= bytes;
    }
    return true;
}

bool vo_mp4_index_first(unsigned char *data, int64_t size) {
    int64_t media = -1, offset = 0, bytes = 0;
    bool found = false;
    while (offset < size) {
        int header;
        if (!box_size(data + offset, size - offset, size - offset, &bytes, &header)) return false;
        if (bytes > size - offset) return false;
        if (memcmp(data + offset + 4, "mdat", 4) == 0 && media < 0) {
            media = offset;
            /* Length 0, "to the end", would swallow what moves behind it. */
            if (be32(data + offset) == 0) return false;
        }
        found = memcmp(data + offset + 4, "moov", 4) == 0;
        if (found) break;
        offset += bytes;
    }
    if (!found || media < 0) return false;
    unsigned char *index = vo_alloc_uninitialized((size_t)bytes);
    if (!index) return false;
    memcpy(index, data + offset, (size_t)bytes);
    if (be32(index) == 0) put32(index, bytes > UINT32_MAX ? 0 : (uint32_t)bytes);
    shift s = {(uint64_t)media, (uint64_t)offset, (uint64_t)bytes};
    bool good = be32(index) != 0 && shift_boxes(index, bytes, &s, 0);
    if (good) {
        memmove(data + media + bytes, data + media, (size_t)(offset - media));
        memcpy(data + media, index, (size_t)bytes);
    }
    vo_free(index);
    return good;
}
