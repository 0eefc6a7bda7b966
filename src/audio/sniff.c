/* SPDX-License-Identifier: MIT
 *
 * What a file is, from its first bytes. One table of magic numbers; a row says who reads it
 * and how to name it in a sentence.
 */
#include "audio/decode.h"

#include <string.h>

typedef struct magic {
    int offset, size;
    const char *bytes;
    vo_container container;
} magic;

#define WAV      VO_CONTAINER_WAV
#define SNDFILE_ VO_CONTAINER_SNDFILE
#define MP4      VO_CONTAINER_MP4
#define FFMPEG   VO_CONTAINER_FFMPEG
#define NO_AUDIO VO_CONTAINER_NO_AUDIO

/* Rows with two magics (RIFF + AVI) are told apart in vo_container_sniff. */
static const magic magics[] = {
    {8, 4, "WAVE", {WAV, "a WAV file", "wav"}},
    {0, 8, "riff\x2e\x91\xcf\x11", {WAV, "a Wave64 file", "w64"}},
    {0, 4, "OggS", {VO_CONTAINER_OGG, "an Ogg file", "ogg"}},
    {0, 4, "fLaC", {SNDFILE_, "a FLAC file", "flac"}},
    {8, 4, "AIFF", {SNDFILE_, "an AIFF file", "aiff"}},
    {8, 4, "AIFC", {SNDFILE_, "an AIFF-C file", "aiff"}},
    {0, 8, "caff\0\1\0\0", {SNDFILE_, "a CAF file", "caf"}},
    {0, 4, ".snd", {SNDFILE_, "an AU file", "au"}},
    {0, 4, "Crea", {SNDFILE_, "a VOC file", "voc"}},
    {4, 4, "ftyp", {MP4, "an MP4, M4A or MOV file", "mov"}},
    {4, 4, "moov", {MP4, "a MOV file", "mov"}},
    {4, 4, "mdat", {MP4, "a MOV file", "mov"}},
    {4, 4, "wide", {MP4, "a MOV file", "mov"}},
    {4, 4, "styp", {MP4, "a fragment of an MP4 stream", "mov"}},
    {0, 4, "\x1a\x45\xdf\xa3", {FFMPEG, "a WebM or Matroska file", "matroska"}},
    {0, 8, "\x30\x26\xb2\x75\x8e\x66\xcf\x11", {FFMPEG, "a WMA or ASF file", "asf"}},
    {8, 4, "AVI ", {FFMPEG, "an AVI file", "avi"}},
    {0, 5, "#!AMR", {FFMPEG, "an AMR file", "amr"}},
    {0, 4, "FLV\x01", {FFMPEG, "an FLV file", "flv"}},
    {0, 4, "wvpk", {FFMPEG, "a WavPack file", "wv"}},
    {0, 4, "MAC ", {FFMPEG, "a Monkey's Audio file", "ape"}},
    {0, 4, "TTA1", {FFMPEG, "a True Audio file", "tta"}},
    {0, 4, "DSD ", {FFMPEG, "a DSF file", "dsf"}},
    {0, 4, ".RMF", {FFMPEG, "a RealMedia file", "rm"}},
    {0, 4, "MPCK", {FFMPEG, "a Musepack file", "mpc8"}},
    {0, 3, "MP+", {FFMPEG, "a Musepack file", "mpc"}},
    {0, 4, "ADIF", {FFMPEG, "an AAC file", "aac"}},
    {0, 4, "\x7f\xfe\x80\x01", {FFMPEG, "a DTS file", "dts"}},
    {0, 2, "\x0b\x77", {FFMPEG, "an AC-3 file", "ac3"}},
    {0, 4, "\0\0\1\xba", {FFMPEG, "an MPEG program stream", "mpeg"}},
    {0, 5, "%PDF-", {NO_AUDIO, "a PDF document", NULL}},
    {0, 4, "PK\3\4", {NO_AUDIO, "a ZIP archive or office document", NULL}},
    {0, 3, "\x1f\x8b\x08", {NO_AUDIO, "a gzip archive", NULL}},
    {0, 6, "7z\xbc\xaf\x27\x1c", {NO_AUDIO, "a 7z archive", NULL}},
    {0,
     6,
     "\xfd"
     "7zXZ\0",
     {NO_AUDIO, "an xz archive", NULL}},
    {0, 8, "\x89PNG\r\n\x1a\n", {NO_AUDIO, "a PNG picture", NULL}},
    {0, 3, "\xff\xd8\xff", {NO_AUDIO, "a JPEG picture", NULL}},
    {0, 4, "GIF8", {NO_AUDIO, "a GIF picture", NULL}},
    {8, 4, "WEBP", {NO_AUDIO, "a WebP picture", NULL}},
    {0,
     4,
     "\x7f"
     "ELF",
     {NO_AUDIO, "a program", NULL}},
    {0, 4, "MThd", {NO_AUDIO, "a MIDI file, which holds notes and no sound", NULL}},
    {0, 4, "GGUF", {NO_AUDIO, "a model file", NULL}},
    {0, 4, "lmgg", {NO_AUDIO, "a model file", NULL}},
};

static const vo_container unknown = {VO_CONTAINER_UNKNOWN, "in no known audio format", NULL};
static const vo_container text = {NO_AUDIO, "text", NULL};
static const vo_container playlist = {NO_AUDIO, "a playlist, which holds no sound itself", NULL};
static const vo_container mpeg = {VO_CONTAINER_MPEG, "an MP3 file", "mp3"};
static const vo_container adts = {FFMPEG, "an AAC file", "aac"};
static const vo_container transport = {FFMPEG, "an MPEG transport stream", "mpegts"};

/* Nothing but printable ASCII and white space, or UTF-8 beyond it. */
static bool is_text(const unsigned char *head, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = head[i];
        if (c < 32 && c != '\n' && c != '\r' && c != '\t' && c != '\f') return false;
        if (c == 127 || c == 0xC0 || c == 0xC1 || c > 0xF4) return false;
    }
    return size > 0;
}

const vo_container *vo_container_sniff(const unsigned char *head, size_t size) {
    static const char *const outer[] = {"RIFF", "RF64", "BW64", "FORM"};
    for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++) {
        const magic *m = &magics[i];
        if (size < (size_t)m->offset + (size_t)m->size ||
            memcmp(head + m->offset, m->bytes, (size_t)m->size) != 0)
            continue;
        if (m->offset != 8) return &m->container;
        for (size_t k = 0; k < sizeof(outer) / sizeof(outer[0]); k++)
            if (memcmp(head, outer[k], 4) == 0) return &m->container;
    }
    if (size >= 4 && head[0] == 0xFF && (head[1] & 0xE0) == 0xE0) {
        /* Layer bits 00 are AAC's ADTS header; the others are MPEG layers 1 to 3. */
        if ((head[1] & 0xF6) == 0xF0) return &adts;
        if (head[1] & 6) return &mpeg;
    }
    if (size > 376 && head[0] == 0x47 && head[188] == 0x47 && head[376] == 0x47) return &transport;
    if (size >= 7 && memcmp(head, "#EXTM3U", 7) == 0) return &playlist;
    /* Some of libsndfile's headers are text (NIST SPHERE). */
    if (size >= 8 && memcmp(head, "NIST_1A\n", 8) == 0) return &unknown;
    return is_text(head, size) ? &text : &unknown;
}
