/* SPDX-License-Identifier: MIT
 *
 * The log-mel spectrogram, in tiles of frames: windows and power by a kernel, then the filter
 * bank as short runs of weights (a triangle covers few of the 201 bins), then log10. A second
 * pass clamps to 8 below the loudest value of all. Tiles own their rows, and a maximum has no
 * order, so threads do not change the result.
 */
#include "audio/mel.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

enum {
    TILE = 64, /* frames */
    HALF = VO_MEL_WINDOW / 2,
    TILE_SAMPLES = (TILE - 1) * VO_MEL_HOP + VO_MEL_WINDOW,
    LD_POWER = 208,
    SPAN = TILE * 8 /* frames per tile of the second pass */
};

#define RANGE    8.0f   /* powers of ten below the loudest value, where the clamp is */
#define SMALLEST 1e-10f /* power that counts as silence */

struct vo_mel {
    int n_mels;
    float window[VO_MEL_WINDOW];
    int *first;     /* [n_mels] first bin of each filter */
    int *offset;    /* [n_mels + 1] where its weights lie */
    float *weights; /* [offset[n_mels]] */
};

/* ---- filter bank ------------------------------------------------------------------------- */

/* Slaney's mel scale (Auditory Toolbox, 1998): linear below 1 kHz, logarithmic above. */
static double mel_to_hz(double mel) {
    const double per_mel = 200.0 / 3.0, knee = 1000.0 / per_mel;
    if (mel < knee) return per_mel * mel;
    return 1000.0 * exp(log(6.4) / 27.0 * (mel - knee));
}

static double hz_to_mel(double hz) {
    const double per_mel = 200.0 / 3.0;
    if (hz < 1000.0) return hz / per_mel;
    return 1000.0 / per_mel + log(hz / 1000.0) / (log(6.4) / 27.0);
}

/* Weight of one bin in one filter: a triangle of unit area (in Hz / 2). */
static double filter_weight(int n_mels, int filter, int bin) {
    const double top = hz_to_mel(8000.0), hz = bin * (8000.0 / (VO_MEL_BINS - 1));
    const double low = mel_to_hz(top * filter / (n_mels + 1));
    const double mid = mel_to_hz(top * (filter + 1) / (n_mels + 1));
    const double high = mel_to_hz(top * (filter + 2) / (n_mels + 1));
    const double rise = (hz - low) / (mid - low), fall = (high - hz) / (high - mid);
    const double height = rise < fall ? rise : fall;
    return height > 0 ? height * 2.0 / (high - low) : 0;
}

float *vo_mel_filters(int n_mels) {
    if (n_mels < 1 || n_mels > 1024) return NULL;
    float *filters = vo_alloc_array((size_t)n_mels * VO_MEL_BINS, sizeof(float));
    if (!filters) return NULL;
    for (int m = 0; m < n_mels; m++)
        for (int b = 0; b < VO_MEL_BINS; b++)
            filters[m * VO_MEL_BINS + b] = (float)filter_weight(n_mels, m, b);
    return filters;
}

void vo_mel_destroy(vo_mel *mel) {
    if (!mel) return;
    vo_free(mel->first);
    vo_free(mel->offset);
    vo_free(mel->weights);
    vo_free(mel);
}

static void make_sparse(vo_mel *mel, const float *dense) {
    int used = 0;
    for (int m = 0; m < mel->n_mels; m++, dense += VO_MEL_BINS) {
        int first = 0, end = VO_MEL_BINS;
        while (first < end && dense[first] == 0) first++;
        while (end > first && dense[end - 1] == 0) end--;
        mel->first[m] = first < VO_MEL_BINS ? first : 0;
        mel->offset[m] = used;
        memcpy(mel->weights + used, dense + first, (size_t)(end - first) * sizeof(float));
        used += end - first;
    }
    mel->offset[mel->n_mels] = used;
}

vo_mel *vo_mel_create(int n_mels, vo_error *err) {
    if (n_mels < 1 || n_mels > 1024) {
        vo_fail(err, VO_ERR_ARGUMENT, "%d mel bins: not between 1 and 1024", n_mels);
        return NULL;
    }
    float *dense = vo_mel_filters(n_mels);
    vo_mel *mel = vo_alloc(sizeof(*mel));
    if (!mel || !dense) goto fail;
    mel->n_mels = n_mels;
    mel->first = vo_alloc_array((size_t)n_mels, sizeof(int));
    mel->offset = vo_alloc_array((size_t)n_mels + 1, sizeof(int));
    mel->weights = vo_alloc_array((size_t)n_mels * VO_MEL_BINS, sizeof(float));
    if (!mel->first || !mel->offset || !mel->weights) goto fail;
    make_sparse(mel, dense);
    for (int i = 0; i < VO_MEL_WINDOW; i++)
        mel->window[i] = (float)(0.5 - 0.5 * cos(2.0 * 3.14159265358979323846 * i / VO_MEL_WINDOW));
    vo_free(dense);
    return mel;
fail:
    vo_fail(err, VO_ERR_MEMORY, "not enough memory for the mel filters");
    vo_free(dense);
    vo_mel_destroy(mel);
    return NULL;
}

int vo_mel_count(const vo_mel *mel) {
    return mel->n_mels;
}

/* ---- spectrogram ------------------------------------------------------------------------- */

typedef struct mel_job {
    const vo_mel *mel;
    const vo_kernels *kernels;
    const float *samples;
    int64_t n_samples, n_padded;
    int64_t frames;
    float *out;     /* [frames][n_mels] */
    float *scratch; /* per thread: samples, power, the kernel's own */
    size_t scratch_floats;
    float *loudest; /* [tiles] */
    float limit;
} mel_job;

/* log10 of x > 0 and normal, within 5e-7: exponent + 2 atanh((m - 1) / (m + 1)), as the sum of
 * odd powers. Written without branches, for the vectoriser. */
static float log10_fast(float x) {
    union {
        float f;
        uint32_t u;
    } v = {x};
    /* m in [1/sqrt 2, sqrt 2) */
    uint32_t shifted = v.u - 0x3F3504F3u;
    int32_t exponent = (int32_t)shifted >> 23;
    v.u = (shifted & 0x007FFFFFu) + 0x3F3504F3u;
    float s = (v.f - 1.0f) / (v.f + 1.0f), q = s * s;
    float ln =
        2.0f * s * (1.0f + q * (0.333333333f + q * (0.2f + q * (0.142857143f + q * 0.111111111f))));
    /* log10(2) in two parts: the first is exact when multiplied by an exponent. */
    float e = (float)exponent;
    return e * 0.30102539f + (e * 4.6050390e-6f + ln * 0.43429448f);
}

/* One row of power through the filter bank. */
static void filter_row(const vo_mel *mel, const float *power, float *out) {
    for (int m = 0; m < mel->n_mels; m++) {
        const float *w = mel->weights + mel->offset[m], *p = power + mel->first[m];
        int n = mel->offset[m + 1] - mel->offset[m];
        float sum = 0;
        for (int i = 0; i < n; i++) sum += w[i] * p[i];
        out[m] = sum;
    }
}

/* Rows of out: log10 of the filter bank's sums. */
static float apply_filters(const vo_mel *mel, const float *power, int64_t frames, float *out) {
    float loudest = -INFINITY;
    for (int64_t f = 0; f < frames; f++, power += LD_POWER, out += mel->n_mels) {
        filter_row(mel, power, out);
        for (int m = 0; m < mel->n_mels; m++) out[m] = out[m] > SMALLEST ? out[m] : SMALLEST;
        for (int m = 0; m < mel->n_mels; m++) out[m] = log10_fast(out[m]);
        for (int m = 0; m < mel->n_mels; m++) loudest = out[m] > loudest ? out[m] : loudest;
    }
    return loudest;
}

/* Beyond this a value is damage, and so is what is no number. One of them would make everything
 * else silence, by the clamp. */
static bool is_sane(float x) {
    return fabsf(x) <= 1e9f;
}

/* Sample i of the padded signal, whose ends are mirrored without repeating the edge. */
static float sample_at(const mel_job *job, int64_t i) {
    const int64_t last = job->n_padded - 1;
    while (last > 0 && (i < 0 || i > last)) i = i < 0 ? -i : 2 * last - i;
    if (last == 0) i = 0;
    return i < job->n_samples && is_sane(job->samples[i]) ? job->samples[i] : 0.0f;
}

static bool all_sane(const float *x, int64_t n) {
    int bad = 0;
    for (int64_t i = 0; i < n; i++) bad |= !is_sane(x[i]);
    return !bad;
}

/* The samples under `frames` windows from frame `first` on; NULL when all are zero. */
static const float *gather(const mel_job *job, int64_t first, int64_t frames, float *buffer) {
    const int64_t begin = first * VO_MEL_HOP - HALF;
    const int64_t n = (frames - 1) * VO_MEL_HOP + VO_MEL_WINDOW;
    const float *x = buffer;
    if (begin >= job->n_samples && begin + n <= job->n_padded) return NULL;
    if (begin >= 0 && begin + n <= job->n_samples && all_sane(job->samples + begin, n))
        x = job->samples + begin;
    else
        for (int64_t i = 0; i < n; i++) buffer[i] = sample_at(job, begin + i);
    for (int64_t i = 0; i < n; i++)
        if (x[i] != 0) return x;
    return NULL;
}

static void mel_tile(void *arg, int64_t tile, int thread) {
    const mel_job *job = arg;
    const int n_mels = job->mel->n_mels;
    const int64_t first = tile * TILE;
    const int64_t frames = job->frames - first < TILE ? job->frames - first : TILE;
    float *buffer = job->scratch + (size_t)thread * job->scratch_floats;
    float *power = buffer + TILE_SAMPLES, *scratch = power + TILE * LD_POWER;
    float *out = job->out + first * n_mels;
    const float *x = gather(job, first, frames, buffer);
    if (!x) {
        const float floor = log10_fast(SMALLEST);
        for (int64_t i = 0; i < frames * n_mels; i++) out[i] = floor;
        job->loudest[tile] = floor;
        return;
    }
    job->kernels->stft400_power(frames, x, VO_MEL_HOP, job->mel->window, power, LD_POWER, scratch);
    job->loudest[tile] = apply_filters(job->mel, power, frames, out);
}

/* n values as the model sees them, when nothing counts below `limit`. */
static void normalise(const float *x, int64_t n, float limit, float *out) {
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i] > limit ? x[i] : limit;
        out[i] = (v + 4.0f) * 0.25f;
    }
}

static void normalise_tile(void *arg, int64_t tile, int thread) {
    const mel_job *job = arg;
    const int64_t n_mels = job->mel->n_mels, first = tile * SPAN;
    const int64_t frames = job->frames - first < SPAN ? job->frames - first : SPAN;
    float *out = job->out + first * n_mels;
    normalise(out, frames * n_mels, job->limit, out);
}

static void run(vo_pool *pool, int64_t tiles, vo_tile_fn fn, mel_job *job) {
    if (pool) {
        vo_pool_run(pool, tiles, fn, job);
        return;
    }
    for (int64_t t = 0; t < tiles; t++) fn(job, t, 0);
}

/* Frames of the whole padded signal; false if they cannot be counted. */
static bool count_frames(int64_t n_samples, int64_t pad, int64_t *n_padded, int64_t *frames) {
    if (n_samples < 0 || pad < 0 || __builtin_add_overflow(n_samples, pad, n_padded)) return false;
    *frames = *n_padded / VO_MEL_HOP;
    return true;
}

/* Log values of job->frames frames into job->out, and the loudest of them. */
static vo_status measure(mel_job *job, vo_pool *pool, float *loudest, vo_error *err) {
    *loudest = log10_fast(SMALLEST);
    if (job->frames == 0) return VO_OK;
    const int64_t tiles = (job->frames + TILE - 1) / TILE;
    const int threads = pool ? vo_pool_threads(pool) : 1;
    job->scratch_floats = TILE_SAMPLES + TILE * LD_POWER + VO_STFT_SCRATCH;
    job->scratch_floats = (job->scratch_floats + 15) / 16 * 16;
    job->scratch = vo_alloc_array((size_t)threads * job->scratch_floats, sizeof(float));
    job->loudest = vo_alloc_array((size_t)tiles, sizeof(float));
    vo_status status = VO_OK;
    if (!job->scratch || !job->loudest) {
        status = vo_fail(err, VO_ERR_MEMORY, "not enough memory for the spectrogram");
    } else {
        run(pool, tiles, mel_tile, job);
        for (int64_t t = 0; t < tiles; t++)
            if (job->loudest[t] > *loudest) *loudest = job->loudest[t];
    }
    vo_free(job->scratch);
    vo_free(job->loudest);
    return status;
}

vo_status vo_mel_compute(const vo_mel *mel, const vo_kernels *kernels, vo_pool *pool,
                         const float *samples, int64_t n_samples, int64_t pad, float *out,
                         vo_error *err) {
    mel_job job = {
        .mel = mel, .kernels = kernels, .samples = samples, .n_samples = n_samples, .out = out};
    float loudest;
    if (!count_frames(n_samples, pad, &job.n_padded, &job.frames))
        return vo_fail(err, VO_ERR_ARGUMENT, "the number of samples makes no sense");
    vo_status status = measure(&job, pool, &loudest, err);
    job.limit = loudest - RANGE;
    if (status == VO_OK) run(pool, (job.frames + SPAN - 1) / SPAN, normalise_tile, &job);
    return status;
}

vo_status vo_mel_power(const vo_mel *mel, const vo_kernels *kernels, const float *samples,
                       int64_t n_samples, int64_t first, int64_t frames, float *out,
                       vo_error *err) {
    const size_t floats = TILE_SAMPLES + TILE * LD_POWER + VO_STFT_SCRATCH;
    float *buffer = vo_alloc_uninitialized(floats * sizeof *buffer);
    if (!buffer) return vo_fail(err, VO_ERR_MEMORY, "not enough memory for the spectrogram");
    float *power = buffer + TILE_SAMPLES, *scratch = power + TILE * LD_POWER;
    for (int64_t done = 0; done < frames; done += TILE) {
        const int64_t count = frames - done < TILE ? frames - done : TILE;
        const int64_t begin = (first + done) * VO_MEL_HOP - HALF;
        for (int64_t i = 0; i < (count - 1) * VO_MEL_HOP + VO_MEL_WINDOW; i++) {
            const bool there = begin + i >= 0 && begin + i < n_samples;
            buffer[i] = there && is_sane(samples[begin + i]) ? samples[begin + i] : 0;
        }
        kernels->stft400_power(count, buffer, VO_MEL_HOP, mel->window, power, LD_POWER, scratch);
        for (int64_t f = 0; f < count; f++)
            filter_row(mel, power + f * LD_POWER, out + (done + f) * mel->n_mels);
    }
    vo_free(buffer);
    return VO_OK;
}

/* ---- spectrogram of a long input ----------------------------------------------------------- */

vo_status vo_spectrogram_create(const vo_mel *mel, const vo_kernels *kernels, vo_pool *pool,
                                const float *samples, int64_t n_samples, int64_t pad,
                                vo_spectrogram *spectrogram, vo_error *err) {
    mel_job job = {.mel = mel, .kernels = kernels, .samples = samples, .n_samples = n_samples};
    *spectrogram = (vo_spectrogram){.n_mels = mel->n_mels};
    if (!count_frames(n_samples, pad, &job.n_padded, &spectrogram->frames))
        return vo_fail(err, VO_ERR_ARGUMENT, "the number of samples makes no sense");
    /* Windows that begin after the samples see the padding, or its mirror image, unless there is
     * too little of it. */
    job.frames = pad < VO_MEL_WINDOW ? spectrogram->frames : (n_samples + HALF) / VO_MEL_HOP + 1;
    if (job.frames > spectrogram->frames) job.frames = spectrogram->frames;
    job.out = vo_alloc_array((size_t)job.frames * (size_t)mel->n_mels, sizeof(float));
    vo_status status = job.out ? measure(&job, pool, &spectrogram->loudest, err)
                               : vo_fail(err, VO_ERR_MEMORY, "no memory for the spectrogram");
    if (status != VO_OK) {
        vo_free(job.out);
        return status;
    }
    spectrogram->rows = job.out;
    spectrogram->stored = job.frames;
    return VO_OK;
}

void vo_spectrogram_free(vo_spectrogram *spectrogram) {
    vo_free(spectrogram->rows);
    *spectrogram = (vo_spectrogram){0};
}

vo_status vo_spectrogram_read(const vo_spectrogram *s, int64_t first, int64_t count, float *out,
                              vo_error *err) {
    if (first < 0 || count < 0 || first > s->frames || count > s->frames - first)
        return vo_fail(err, VO_ERR_ARGUMENT, "the signal has no such frames");
    const float limit = s->loudest - RANGE, floor = log10_fast(SMALLEST);
    int64_t kept = first < s->stored ? s->stored - first : 0;
    if (kept > count) kept = count;
    if (kept > 0) normalise(s->rows + first * s->n_mels, kept * s->n_mels, limit, out);
    for (int64_t i = kept * s->n_mels; i < count * s->n_mels; i++)
        normalise(&floor, 1, limit, out + i);
    return VO_OK;
}
