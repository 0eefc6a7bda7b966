/* SPDX-License-Identifier: MIT
 *
 * How well text compresses: Whisper's measure of a decoder that repeats itself.
 */
#include "text/text.h"

#include <string.h>
#include <zlib.h>

double vo_compression_ratio(const char *text, size_t size) {
    if (size == 0) return 0;
    z_stream stream;
    memset(&stream, 0, sizeof stream);
    if (deflateInit(&stream, 6) != Z_OK) return 0;
    /* Only the length matters, so the output goes to one small buffer again and again. */
    unsigned char out[4096];
    size_t left = size, compressed = 0;
    stream.next_in = (unsigned char *)(uintptr_t)text;
    int status = Z_OK;
    while (status == Z_OK) {
        if (stream.avail_in == 0 && left > 0) {
            uInt part = left > (1u << 30) ? (1u << 30) : (uInt)left;
            stream.avail_in = part;
            left -= part;
        }
        stream.next_out = out;
        stream.avail_out = sizeof out;
        status = deflate(&stream, left > 0 ? Z_NO_FLUSH : Z_FINISH);
        compressed += sizeof out - stream.avail_out;
    }
    deflateEnd(&stream);
    return status == Z_STREAM_END ? (double)size / (double)compressed : 0;
}
