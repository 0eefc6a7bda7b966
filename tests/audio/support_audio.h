/* SPDX-License-Identifier: MIT
 *
 * What the audio tests share: the Kennedy clip as numbers, bytes as a stream, files in a
 * temporary folder, encoders, and comparison.
 */
#ifndef SUPPORT_AUDIO_H
#define SUPPORT_AUDIO_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sndfile.h>

#include "audio/audio.h"
#include "base/memory.h"

enum { JFK_SAMPLES = 176000 };

/* [JFK_SAMPLES] 16-bit values, and the same / 32768. Read once, without the code under test. */
const int16_t *jfk_pcm(void);
const float *jfk(void);

/* ---- bytes ------------------------------------------------------------------------------- */

void put16(vo_buf *buf, uint32_t v);
void put32(vo_buf *buf, uint32_t v);
/* name, 32-bit size, content, and a zero where the length is odd */
void put_chunk(vo_buf *buf, const char *name, const void *data, size_t size);
void put_fmt(vo_buf *buf, int tag, int channels, uint32_t rate, int bits);
/* RIFF header, fmt, then a data chunk header of data_size: what follows is the caller's. */
void put_wav_head(vo_buf *buf, int tag, int channels, uint32_t rate, int bits, uint32_t data_size);
/* 16-bit mono 16 kHz WAV of the first n samples of the clip */
void put_jfk_wav(vo_buf *buf, int n);

/* Loads bytes as a stream that hands out `piece` bytes at a time (0: all). */
vo_status load_bytes(const vo_buf *buf, size_t piece, const vo_audio_params *params,
                     vo_audio *audio, vo_error *err);
/* The same with default parameters, and it must succeed. */
vo_audio must_load(const vo_buf *buf);
/* It must fail with this status and a sentence that contains `part`. */
void must_refuse(const vo_buf *buf, vo_status status, const char *part);

/* Writes a file into a folder that lives as long as the program; returns its path. */
const char *temp_file(const char *name, const vo_buf *buf);
const char *temp_path(const char *name);
void temp_cleanup(void);

/* Encodes x[frames][channels] through libsndfile; appends to buf. */
void encode(vo_buf *buf, int format, int rate, int channels, const float *x, int64_t frames);

/* Path below $VOCIS_TEST_DATA in static storage, or NULL. */
const char *data_path(const char *relative);

/* ---- comparison -------------------------------------------------------------------------- */

/* Correlation coefficient of a and b, at the lag within +-max_lag where it is largest. */
double correlation(const float *a, int64_t na, const float *b, int64_t nb, int max_lag);
double rms(const float *x, int64_t n);
double max_difference(const float *a, const float *b, int64_t n);

/* A small .npy file of f32: values in fresh memory (vo_free), shape[2] (1 where there is none). */
float *read_npy(const char *path, int64_t shape[2]);

#endif
