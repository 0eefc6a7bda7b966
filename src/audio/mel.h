/* SPDX-License-Identifier: MIT
 *
 * Whisper's log-mel spectrogram (whisper/audio.py): 400-point periodic Hann windows every
 * 160 samples, power, Slaney filter bank, log10, clamp to 8 below the loudest, (x + 4) / 4.
 */
#ifndef VO_AUDIO_MEL_H
#define VO_AUDIO_MEL_H

#include "base/pool.h"
#include "kernels/kernels.h"

enum { VO_MEL_HOP = 160, VO_MEL_WINDOW = 400, VO_MEL_BINS = 201, VO_MEL_FRAMES_PER_SECOND = 100 };

/* Filter bank in sparse form. Immutable, shared between threads. NULL when n_mels is not in
 * 1..1024 or memory is short (err says). */
typedef struct vo_mel vo_mel;
vo_mel *vo_mel_create(int n_mels, vo_error *err);
void vo_mel_destroy(vo_mel *mel); /* NULL allowed */
int vo_mel_count(const vo_mel *mel);

/* (n_samples + pad) / 160 frames of out[frame][n_mels] (time-major). `pad` zero samples are
 * appended first (480000 for a whole file), then both ends are mirrored as torch.stft does with
 * center=True. The clamp runs over everything passed in. Samples that are not finite, or beyond
 * 1e9, count as silence. Frames without sound cost next to nothing. pool may be NULL; the result is
 * the same for any number of threads. */
vo_status vo_mel_compute(const vo_mel *mel, const vo_kernels *kernels, vo_pool *pool,
                         const float *samples, int64_t n_samples, int64_t pad, float *out,
                         vo_error *err);

/* Power in each filter, without logarithm or clamp, as librosa's melspectrogram gives it: row i is
 * about the 400 samples from 160 (first + i) - 200 on, zero where there are none. out:
 * [frames][n_mels]. Samples count as silence as above. On the calling thread. */
vo_status vo_mel_power(const vo_mel *mel, const vo_kernels *kernels, const float *samples,
                       int64_t n_samples, int64_t first, int64_t frames, float *out, vo_error *err);

/* The same as vo_mel_compute for a long input whose windows are wanted one by one: all frames
 * before the clamp, so that the samples, twice as large, can go. */
typedef struct vo_spectrogram {
    float *rows; /* [stored][n_mels]; the frames after these see nothing but padding */
    int64_t stored, frames;
    int n_mels;
    float loudest;
} vo_spectrogram;
vo_status vo_spectrogram_create(const vo_mel *mel, const vo_kernels *kernels, vo_pool *pool,
                                const float *samples, int64_t n_samples, int64_t pad,
                                vo_spectrogram *spectrogram, vo_error *err);
void vo_spectrogram_free(vo_spectrogram *spectrogram);
/* Rows [first, first + count) as vo_mel_compute gives them. VO_ERR_ARGUMENT unless they lie within
 * the frames. */
vo_status vo_spectrogram_read(const vo_spectrogram *spectrogram, int64_t first, int64_t count,
                              float *out, vo_error *err);

/* The dense filter bank [n_mels][201], for tests: fresh memory (vo_free). */
float *vo_mel_filters(int n_mels);

#endif
