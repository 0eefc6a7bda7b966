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

enum { MAX_RUNS = 1000, PEAK_DEPTH = 128, PEAK_TRIES = 5, PROMPT = 4 };
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
    float *memory; /* [threads][floats]: a, b and c of one tile */
    int64_t floats, repeats;
} peak_job;

static void peak_tile(void *arg, int64_t tile, int thread) {
    const peak_job *j = arg;
    const vo_kernels *k = j->kernels;
    float *a = j->memory + thread * j->floats; /* [depth][mr] */
    float *b = a + PEAK_DEPTH * k->mr;         /* [depth][nr] */
    float *c = b + PEAK_DEPTH * k->nr;         /* [mr][nr] */
    for (int64_t i = 0; i < j->repeats; i++)
        k->gemm_f32(PEAK_DEPTH, a, b, c, k->nr, k->mr, k->nr, 0);
}

/* The best of some tries: whatever else runs on the machine only makes it lower. */
static vo_status measure_peak(const vocis_engine *engine, double *gflops, vo_error *err) {
    const vo_kernels *k = &engine->kernels;
    int threads = vo_pool_threads(engine->pool);
    peak_job job = {.kernels = k,
                    .floats = (int64_t)PEAK_DEPTH * (k->mr + k->nr) + (int64_t)k->mr * k->nr,
                    .repeats = 64};
    job.floats = (job.floats + 1023) / 1024 * 1024; /* threads share no cache line */
    job.memory = vo_alloc_array((size_t)(threads * job.floats), sizeof *job.memory);
    if (!job.memory) return vo_fail(err, VO_ERR_MEMORY, "no memory for a measurement");
    fill_noise(job.memory, threads * job.floats);
    double work = 2.0 * PEAK_DEPTH * k->mr * k->nr * threads;
    *gflops = 0;
    for (int i = 0; i < PEAK_TRIES;) {
        double begin = vo_clock_seconds();
        vo_pool_run(engine->pool, threads, peak_tile, &job);
        double seconds = vo_clock_seconds() - begin;
        if (seconds < PEAK_SECONDS / 2 && job.repeats < INT64_C(1) << 40) {
            job.repeats *= 2;
            continue;
        }
        double rate = work * (double)job.repeats / seconds / 1e9;
        if (rate > *gflops) *gflops = rate;
        i++;
    }
    vo_free(job.memory);
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

static vo_status measure_encoder(vocis_session *s, double *times, int runs, double *seconds,
                                 vo_error *err) {
    const vo_whisper_dims *d = &s->model->whisper->dims;
    vo_status status = VO_OK;
    for (int i = -1; status == VO_OK && i < runs; i++) {
        fill_noise(vo_whisper_mel(s->state), 2 * (int64_t)d->n_audio_ctx * d->n_mels);
        double begin = vo_clock_seconds();
        status = vo_whisper_encode(s->state, 0, err);
        if (i >= 0) times[i] = vo_clock_seconds() - begin;
    }
    if (status == VO_OK) *seconds = median(times, runs);
    return status;
}

static vo_status empty_rows(vocis_session *s, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; status == VO_OK && i < s->max_sequences; i++)
        status = vo_kv_truncate(vo_whisper_cache(s->state), i, 0, err);
    return status;
}

/* One token for each of `rows` rows that hold a prompt, as a beam does. */
static vo_status measure_step(vocis_session *s, int rows, double *times, int runs, double *seconds,
                              vo_error *err) {
    const int32_t sot = vo_tokenizer_ids(s->model->tokenizer)->sot;
    const int32_t tokens[PROMPT] = {sot, sot, sot, sot};
    int limit = s->model->whisper->dims.n_text_ctx / 2;
    float *const *logits;
    vo_status status = VO_OK;
    for (int i = -1; status == VO_OK && i < runs; i++) {
        bool first = i < 0 || vo_kv_length(vo_whisper_cache(s->state), 0) >= limit;
        if (first) status = empty_rows(s, err);
        for (int r = 0; first && status == VO_OK && r < rows; r++) {
            vo_whisper_feed prompt = {.row = r, .n_tokens = PROMPT, .tokens = tokens};
            status = vo_whisper_step(s->state, &prompt, 1, &logits, err);
        }
        for (int r = 0; r < rows; r++)
            s->feeds[r] = (vo_whisper_feed){.row = r, .n_tokens = 1, .tokens = &tokens[0]};
        double begin = vo_clock_seconds();
        if (status == VO_OK) status = vo_whisper_step(s->state, s->feeds, rows, &logits, err);
        if (i >= 0) times[i] = vo_clock_seconds() - begin;
    }
    if (status == VO_OK) *seconds = median(times, runs);
    return status == VO_OK ? empty_rows(s, err) : status;
}

vo_status vo_benchmark(vocis_session *s, int runs, vocis_benchmark *out, vo_error *err) {
    static const int rows[3] = {1, 5, 16};
    *out = (vocis_benchmark){0};
    if (runs < 1 || runs > MAX_RUNS)
        return vo_fail(err, VO_ERR_ARGUMENT, "runs must lie between 1 and %d, not %d", MAX_RUNS,
                       runs);
    double *times = vo_alloc_array((size_t)runs, sizeof *times);
    if (!times) return vo_fail(err, VO_ERR_MEMORY, "no memory for a measurement");
    vo_status status = measure_peak(s->model->engine, &out->peak_gflops, err);
    if (status == VO_OK) status = measure_mel(s, times, runs, &out->mel_seconds, err);
    if (status == VO_OK) status = measure_encoder(s, times, runs, &out->encode_seconds, err);
    out->encode_gflops = encoder_gflop(&s->model->whisper->dims);
    for (int i = 0; i < 3; i++) {
        out->step_rows[i] = rows[i];
        if (status == VO_OK && rows[i] <= s->max_sequences)
            status = measure_step(s, rows[i], times, runs, &out->step_seconds[i], err);
    }
    vo_free(times);
    return status;
}
