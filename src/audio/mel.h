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

/* The same in two passes, for long inputs: the loudest value of all frames, then any frames against
 * it, as often as wanted. No more than the wanted frames are in memory. */
typedef struct vo_mel_signal {
    const vo_mel *mel;
    const vo_kernels *kernels;
    vo_pool *pool;        /* may be NULL */
    const float *samples; /* [n_samples] */
    int64_t n_samples, pad;
} vo_mel_signal;
vo_status vo_mel_loudest(const vo_mel_signal *signal, float *loudest, vo_error *err);
/* VO_ERR_ARGUMENT unless [first, first + frames) lies within (n_samples + pad) / 160. */
vo_status vo_mel_frames(const vo_mel_signal *signal, int64_t first, int64_t frames, float loudest,
                        float *out, vo_error *err);

/* The dense filter bank [n_mels][201], for tests: fresh memory (vo_free). */
float *vo_mel_filters(int n_mels);

#endif
