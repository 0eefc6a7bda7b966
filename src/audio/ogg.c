/* SPDX-License-Identifier: MIT
 *
 * Ogg: a file may be several complete streams one after the other (RFC 3533, "chaining"), as
 * radio recorders and joined Opus files are, each with a rate and channels of its own.
 * libsndfile reads the first only. The one idea: find where the links begin and give it each.
 */
#include "audio/decode.h"

#include <string.h>

enum { PAGE_HEADER = 27, BEGINS = 2, ENDS = 4, MAX_LINKS = 20000, SEARCH = 64 * 1024 };

typedef struct page {
    int64_t end; /* offset after it */
    int flags;
    bool cut; /* it reaches beyond the file */
} page;

static bool read_page(vo_input *input, int64_t offset, page *p) {
    unsigned char h[PAGE_HEADER + 255];
    int64_t got = vo_input_read_at(input, offset, h, sizeof(h));
    if (got < PAGE_HEADER || memcmp(h, "OggS", 4) != 0 || h[4] != 0) return false;
    int segments = h[26];
    p->flags = h[5];
    p->end = offset + PAGE_HEADER + segments;
    if (got < PAGE_HEADER + segments) {
        p->end = input->size;
        p->cut = true;
        return true;
    }
    for (int i = 0; i < segments; i++) p->end += h[PAGE_HEADER + i];
    p->cut = p->end > input->size;
    if (p->cut) p->end = input->size;
    return true;
}

/* Offset of the next "OggS" at or after offset, or the size of the input. */
static int64_t find_page(vo_input *input, int64_t offset, unsigned char *buffer) {
    for (;;) {
        int64_t got = vo_input_read_at(input, offset, buffer, SEARCH);
        for (int64_t i = 0; i + 4 <= got; i++)
            if (buffer[i] == 'O' && memcmp(buffer + i, "OggS", 4) == 0) return offset + i;
        if (got < SEARCH) return input->size;
        offset += got - 3;
    }
}

/* End of the link that begins at start: the first beginning-of-stream page after others.
 * *complete: the last page said that the stream ends. */
static int64_t link_end(vo_input *input, int64_t start, unsigned char *buffer, bool *complete) {
    bool content = false;
    *complete = false;
    for (int64_t offset = start; offset < input->size;) {
        page p;
        if (!read_page(input, offset, &p)) {
            offset = find_page(input, offset + 1, buffer);
            continue;
        }
        if (p.flags & BEGINS) {
            if (content) return offset;
        } else {
            content = true;
        }
        *complete = (p.flags & ENDS) && !p.cut;
        offset = p.end;
    }
    return input->size;
}

vo_status vo_ogg_decode(vo_input *input, int64_t start, vo_mixer *mixer, vo_error *err) {
    unsigned char *buffer = vo_alloc_uninitialized(SEARCH);
    if (!buffer) return vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory", input->name);
    vo_status status = VO_OK;
    bool complete = true;
    int64_t unread = 0, links = 0;
    while (start < input->size) {
        if (++links > MAX_LINKS) {
            vo_audio_warn(mixer->audio, "it is made of too many parts, the rest was left out");
            break;
        }
        int64_t end = link_end(input, start, buffer, &complete);
        vo_error why = {0};
        status = vo_sndfile_decode(input, start, end - start, mixer, &why);
        if (status == VO_ERR_UNSUPPORTED || status == VO_ERR_FORMAT) {
            if (mixer->parts == 0) {
                vo_fail(err, VO_ERR_UNSUPPORTED, "%s", why.message);
                break;
            }
            unread++;
            status = VO_OK;
        } else if (status) {
            vo_fail(err, status, "%s", why.message);
            break;
        }
        start = end;
    }
    vo_free(buffer);
    if (status) return status == VO_ERR_FORMAT ? VO_ERR_UNSUPPORTED : status;
    if (unread)
        vo_audio_warn(mixer->audio, "%lld of its parts could not be read", (long long)unread);
    else if (!complete)
        vo_audio_warn(mixer->audio, "it ends early");
    return VO_OK;
}
