/* SPDX-License-Identifier: MIT
 *
 * How fast this machine runs this model: medians of the parts of a transcription on synthetic
 * input, beside the arithmetic peak that the same kernels reach when nothing leaves the L1
 * cache.
 */
#include "pipeline/measure.h"

#include "base/clock.h"
#include "base/memory.h"
#include "pipeline/engine.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_RUNS = 1000,
    PEAK_DEPTH = 128,
    PEAK_TRIES = 5,
    PROMPT = 4,
    READ_BYTES = 64 << 20 /* of one thread: more than its share of any cache */
};
#define PEAK_SECONDS 0.03 /* of one try: long enough for every thread to take part */

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, int n) {
    qsort(times, (size_t)n, sizeof *times, compare);
    return n % 2 ? times[n / 2] : 0.5 * (times[n / 2 - 1] + times[n / 2]);
}

/* Uniform in [-0.5, 0.5), the same in every run. */
static void fill_noise(float *x, int64_t n) {
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / 16777216.0f - 0.5f;
    }
}

/* ---- peak ----------------------------------------------------------------------------------- */

typedef struct peak_job {
    const vo_kernels *kernels;
    vo_compute compute;
    char *memory;  /* [threads][bytes]: a, b and c of one tile, or what is read */
    int64_t bytes; /* of one thread */
    int64_t repeats;
    float *sums; /* [threads * 16], so that reading cannot be left out */
} peak_job;

/* The tile product of the model's arithmetic over and over on what stays in L1. */
static void multiply_tile(void *arg, int64_t tile, int thread) {
    const peak_job *j = arg;
    const vo_kernels *k = j->kernels;
    void *a = j->memory + thread * j->bytes;
    void *b = (char *)a + PEAK_DEPTH * VO_MAX_LOW_MR * sizeof(float);
    void *c = (char *)b + PEAK_DEPTH * VO_MAX_NR * sizeof(float);
    k->tiles_begin();
    for (int64_t i = 0; i < j->repeats; i++) {
        if (j->compute == VO_COMPUTE_INT8)
            k->gemm_int8(PEAK_DEPTH, a, b, c, k->mr_int8, 0, NULL, 0);
        else if (j->compute == VO_COMPUTE_BF16)
            k->gemm_bf16(PEAK_DEPTH, a, b, c, k->mr_bf16, 0, NULL, 0);
        else
            k->gemm_f32(PEAK_DEPTH, a, b, c, k->nr, k->mr, k->nr, 0);
    }
    k->tiles_end();
}

static void read_tile(void *arg, int64_t tile, int thread) {
    const peak_job *j = arg;
    enum { LANES = 64 };
    const float *x = (const float *)(const void *)(j->memory + tile * j->bytes);
    float sums[LANES] = {0};
    for (int64_t r = 0; r < j->repeats; r++)
        for (int64_t i = 0; i + LANES <= j->bytes / 4; i += LANES)
            for (int l = 0; l < LANES; l++) sums[l] += x[i + l];
    for (int l = 0; l < LANES; l++) j->sums[tile * 16] += sums[l];
}

/* Runs fn on all threads, often enough for a time that can be measured; the best of some tries,
 * since whatever else runs on the machine only makes it slower. Repeats a second and thread. */
static double best_rate(vo_pool *pool, peak_job *job, vo_tile_fn fn) {
    double best = 0;
    for (int i = 0; i < PEAK_TRIES;) {
        double begin = vo_clock_seconds();
        vo_pool_run(pool, vo_pool_threads(pool), fn, job);
        double seconds = vo_clock_seconds() - begin;
        if (seconds < PEAK_SECONDS / 2 && job->repeats < INT64_C(1) << 40) {
            job->repeats *= 2;
            continue;
        }
        if ((double)job->repeats / seconds > best) best = (double)job->repeats / seconds;
        i++;
    }
    return best;
}

static vo_status measure_peaks(const vocis_engine *engine, vo_compute compute, vocis_benchmark *out,
                               vo_error *err) {
    const vo_kernels *k = &engine->kernels;
    const int threads = vo_pool_threads(engine->pool);
    if (compute == VO_COMPUTE_INT4) compute = VO_COMPUTE_BF16; /* what its codes become */
    const int mr = compute == VO_COMPUTE_INT8   ? k->mr_int8
                   : compute == VO_COMPUTE_BF16 ? k->mr_bf16
                                                : k->mr;
    peak_job job = {.kernels = k, .compute = compute, .bytes = READ_BYTES, .repeats = 1};
    job.memory = vo_alloc_array((size_t)threads, READ_BYTES);
    job.sums = vo_alloc_array((size_t)threads, 16 * sizeof *job.sums);
    if (!job.memory || !job.sums) {
        vo_free(job.memory);
        vo_free(job.sums);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for a measurement");
    }
    fill_noise((float *)(void *)job.memory, threads * job.bytes / 4);
    out->read_gbs = best_rate(engine->pool, &job, read_tile) * threads * (double)job.bytes / 1e9;
    job.repeats = 64;
    out->peak_gflops = best_rate(engine->pool, &job, multiply_tile) * threads * 2.0 * PEAK_DEPTH *
                       mr * k->nr / 1e9;
    vo_free(job.memory);
    vo_free(job.sums);
    return VO_OK;
}

/* ---- parts of a transcription --------------------------------------------------------------- */

static vo_status measure_mel(vocis_session *s, double *times, int runs, double *seconds,
                             vo_error *err) {
    const vocis_engine *engine = s->model->engine;
    int64_t frames = 2 * (int64_t)s->model->whisper->dims.n_audio_ctx, n = frames * VO_MEL_HOP;
    float *samples = vo_alloc_array((size_t)n, sizeof *samples);
    float *mel = vo_alloc_array((size_t)(frames * s->model->whisper->dims.n_mels), sizeof *mel);
    vo_status status =
        samples && mel ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for a measurement");
    if (status == VO_OK) fill_noise(samples, n);
    for (int i = -1; status == VO_OK && i < runs; i++) {
        double begin = vo_clock_seconds();
        status =
            vo_mel_compute(s->model->mel, &engine->kernels, engine->pool, samples, n, 0, mel, err);
        if (i >= 0) times[i] = vo_clock_seconds() - begin;
    }
    if (status == VO_OK) *seconds = median(times, runs);
    vo_free(samples);
    vo_free(mel);
    return status;
}

/* Multiplications and additions of one window, in 10^9: the encoder, and the keys and values of
 * cross-attention that are made with it. Norms, biases and GELU are not counted. */
static double encoder_gflop(const vo_whisper_dims *d) {
    double t = d->n_audio_ctx, w = d->n_audio_state;
    double convolutions = 2 * (2 * t) * w * 3 * d->n_mels + 2 * t * w * 3 * w;
    double attention = 8 * t * w * w + 4 * t * t * w, mlp = 16 * t * w * w;
    double cross = 4 * t * w * w * d->n_text_layer;
    return (convolutions + d->n_audio_layer * (attention + mlp) + cross) / 1e9;
}

/* Every window is encoded at least once: of keys and values that were never written the system
 * gives steps one page of zeros, which would stay in the cache. */
static vo_status measure_encoder(vocis_session *s, double *times, int runs, double *seconds,
                                 vo_error *err) {
    const vo_whisper_dims *d = &s->model->whisper->dims;
    vo_status status = VO_OK;
    for (int i = -1; status == VO_OK && (i < runs || i + 1 < s->max_windows); i++) {
        fill_noise(vo_whisper_mel(s->workers->state), 2 * (int64_t)d->n_audio_ctx * d->n_mels);
        double begin = vo_clock_seconds();
        status = vo_whisper_encode(s->workers->state, (i + 1) % s->max_windows, err);
        if (i >= 0 && i < runs) times[i] = vo_clock_seconds() - begin;
    }
    if (status == VO_OK) *seconds = median(times, runs);
    return status;
}

static vo_status empty_rows(vocis_session *s, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; status == VO_OK && i < s->max_sequences * s->max_windows; i++)
        status = vo_kv_truncate(vo_whisper_cache(s->workers->state), i, 0, err);
    return status;
}

/* One token for each of the rows, which hold a prompt; neighbouring rows share a window. */
static vo_status measure_step(vocis_session *s, vocis_step_time *step, double *times, int runs,
                              vo_error *err) {
    const int32_t sot = vo_tokenizer_ids(s->model->tokenizer)->sot;
    const int32_t tokens[PROMPT] = {sot, sot, sot, sot};
    const int shared = step->rows / step->windows;
    int limit = s->model->whisper->dims.n_text_ctx / 2;
    float *const *logits;
    vo_status status = VO_OK;
    for (int i = -1; status == VO_OK && i < runs; i++) {
        bool first = i < 0 || vo_kv_length(vo_whisper_cache(s->workers->state), 0) >= limit;
        if (first) status = empty_rows(s, err);
        for (int r = 0; first && status == VO_OK && r < step->rows; r++) {
            vo_whisper_feed prompt = {
                .row = r, .window = r / shared, .n_tokens = PROMPT, .tokens = tokens};
            status = vo_whisper_step(s->workers->state, &prompt, 1, &logits, err);
        }
        for (int r = 0; r < step->rows; r++)
            s->workers->feeds[r] = (vo_whisper_feed){
                .row = r, .window = r / shared, .n_tokens = 1, .tokens = &tokens[0]};
        double begin = vo_clock_seconds();
        if (status == VO_OK)
            status =
                vo_whisper_step(s->workers->state, s->workers->feeds, step->rows, &logits, err);
        if (i >= 0) times[i] = vo_clock_seconds() - begin;
    }
    if (status == VO_OK) step->seconds = median(times, runs);
    step->megabytes = (double)vo_whisper_step_bytes(s->workers->state, step->windows) / 1e6;
    return status == VO_OK ? empty_rows(s, err) : status;
}

vo_status vo_benchmark(vocis_session *s, int runs, vocis_benchmark *out, vo_error *err) {
    static const int sizes[VOCIS_STEP_TIMES][2] = {{1, 1}, {5, 1}, {4, 4}, {8, 8}, {16, 16}};
    const int rows = s->max_sequences * s->max_windows;
    *out = (vocis_benchmark){0};
    if (runs < 1 || runs > MAX_RUNS)
        return vo_fail(err, VO_ERR_ARGUMENT, "runs must lie between 1 and %d, not %d", MAX_RUNS,
                       runs);
    double *times = vo_alloc_array((size_t)runs, sizeof *times);
    if (!times) return vo_fail(err, VO_ERR_MEMORY, "no memory for a measurement");
    vo_status status = measure_peaks(s->model->engine, s->model->whisper->compute, out, err);
    if (status == VO_OK) status = measure_mel(s, times, runs, &out->mel_seconds, err);
    if (status == VO_OK) status = measure_encoder(s, times, runs, &out->encode_seconds, err);
    out->encode_gflops = encoder_gflop(&s->model->whisper->dims);
    for (int i = 0; i < VOCIS_STEP_TIMES; i++) {
        out->steps[i] = (vocis_step_time){.rows = sizes[i][0], .windows = sizes[i][1]};
        if (status == VO_OK && sizes[i][0] <= rows && sizes[i][1] <= s->max_windows)
            status = measure_step(s, &out->steps[i], times, runs, err);
    }
    vo_free(times);
    return status;
}
