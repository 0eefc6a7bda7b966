/* SPDX-License-Identifier: MIT
 *
 * With H the products of the inputs and H = R R^T, R upper triangular, R_ii^2 is what an error of
 * column i costs once the columns behind it have made good what they can, and row i of the inverse
 * of R says how they do it. (GPTQ takes the Cholesky factor of the inverse of H, which is that
 * inverse.) Scale and bias of a group are searched for when its first column is reached, with the
 * weights as they are by then.
 */
#include "models/whisper/gptq.h"

#include "base/memory.h"
#include "base/quantize.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Share of the mean of H's diagonal that is added to it: the recordings do not show everything. */
static const double damping = 0.01;
enum { LANES = 8 };

/* ---- the factor -------------------------------------------------------------------------- */

typedef struct factor_job {
    vo_gptq *gptq;
    const vo_moments *moments;
    const float *scales;
    double *work; /* [blocks][block][block] */
    atomic_bool failed;
} factor_job;

static void fill_products(const factor_job *job, int64_t first, int64_t n, double *r) {
    const int64_t width = job->moments->block;
    const float *h = vo_moments_block(job->moments, first);
    double mean = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i; j < n; j++) {
            const double si = job->scales ? (double)job->scales[first + i] : 1;
            const double sj = job->scales ? (double)job->scales[first + j] : 1;
            r[i * width + j] = (double)h[i * width + j] / (si * sj);
        }
    for (int64_t i = 0; i < n; i++) mean += r[i * width + i] / (double)n;
    for (int64_t i = 0; i < n; i++) r[i * width + i] += mean > 0 ? damping * mean : 1;
}

/* Sums side by side, in an order that depends on n alone. */
static double dot(const double *x, const double *y, int64_t n) {
    double lanes[LANES] = {0}, sum = 0;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += x[j + l] * y[j + l];
    for (; j < n; j++) sum += x[j] * y[j];
    for (int l = 0; l < LANES; l++) sum += lanes[l];
    return sum;
}

/* r := R from the last column back; false when H is not positive. Columns of R are dot products of
 * rows, so that all loops run along rows. */
static bool factorise(double *r, int64_t n, int64_t width) {
    for (int64_t j = n - 1; j >= 0; j--) {
        double *row = r + j * width;
        const int64_t later = n - j - 1;
        const double sum = row[j] - dot(row + j + 1, row + j + 1, later);
        if (!(sum > 0) || !isfinite(sum)) return false;
        row[j] = sqrt(sum);
        for (int64_t i = 0; i < j; i++) {
            double *above = r + i * width;
            above[j] = (above[j] - dot(above + j + 1, row + j + 1, later)) / row[j];
        }
    }
    return true;
}

/* r := the inverse of R, from the last row up. */
static void invert(double *r, int64_t n, int64_t width, double *line) {
    for (int64_t i = n - 1; i >= 0; i--) {
        double *row = r + i * width;
        const double diagonal = 1 / row[i];
        memset(line, 0, (size_t)n * sizeof *line);
        for (int64_t k = i + 1; k < n; k++) {
            const double *below = r + k * width, factor = -row[k] * diagonal;
            for (int64_t j = k; j < n; j++) line[j] += factor * below[j];
        }
        line[i] = diagonal;
        memcpy(row + i, line + i, (size_t)(n - i) * sizeof *row);
    }
}

static void prepare_block(void *arg, int64_t b, int thread) {
    factor_job *job = arg;
    const int64_t width = job->gptq->block, first = b * width;
    const int64_t left = job->gptq->columns - first, n = left < width ? left : width;
    double *r = job->work + b * width * (width + 1), *line = r + width * width;
    float *shares = job->gptq->shares + first * width;
    (void)thread;
    fill_products(job, first, n, r);
    if (!factorise(r, n, width)) {
        atomic_store(&job->failed, true);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        job->gptq->importance[first + i] = (float)(r[i * width + i] * r[i * width + i]);
    invert(r, n, width, line);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            shares[i * width + j] = (float)(r[i * width + j] / r[i * width + i]);
}

vo_status vo_gptq_init(vo_gptq *gptq, const vo_moments *m, const float *scales, vo_pool *pool,
                       vo_error *err) {
    const int64_t width = m->block, blocks = (m->columns + width - 1) / width;
    factor_job job = {.gptq = gptq, .moments = m, .scales = scales};
    *gptq = (vo_gptq){.columns = m->columns, .block = width};
    job.work = vo_alloc_array((size_t)(blocks * width * (width + 1)), sizeof *job.work);
    gptq->importance = vo_alloc_array((size_t)m->columns, sizeof *gptq->importance);
    gptq->shares = vo_alloc_array((size_t)(blocks * width * width), sizeof *gptq->shares);
    vo_status status = VO_OK;
    if (!job.work || !gptq->importance || !gptq->shares)
        status = vo_fail(err, VO_ERR_MEMORY, "no memory to quantise a model");
    if (status == VO_OK) vo_pool_run(pool, blocks, prepare_block, &job);
    if (atomic_load(&job.failed))
        status = vo_fail(err, VO_ERR_ARGUMENT, "the recordings cannot be calibrated with");
    vo_free(job.work);
    if (status != VO_OK) vo_gptq_free(gptq);
    return status;
}

void vo_gptq_free(vo_gptq *gptq) {
    vo_free(gptq->importance);
    vo_free(gptq->shares);
    *gptq = (vo_gptq){0};
}

/* ---- rounding ---------------------------------------------------------------------------- */

typedef struct rows_job {
    const vo_gptq *gptq;
    const vo_awq_params *p;
    float *rows;
    uint8_t *packed;
    float *scales, *biases;
    atomic_bool failed;
} rows_job;

/* Quantises column i of a row and hands its error on. */
static int round_column(const vo_gptq *gptq, float *row, int64_t i, float scale, float bias,
                        float steps) {
    const int64_t first = i - i % gptq->block, left = gptq->columns - first;
    const int64_t n = left < gptq->block ? left : gptq->block;
    const float *shares = gptq->shares + i * gptq->block;
    const float q = fminf(fmaxf(rintf((row[i] - bias) / scale), 0), steps);
    const float error = row[i] - (q * scale + bias);
    vo_add_scaled(row + i + 1, shares + i - first + 1, -error, n - (i - first) - 1);
    return (int)q;
}

static void quantise_row(void *arg, int64_t r, int thread) {
    rows_job *job = arg;
    const vo_gptq *gptq = job->gptq;
    const int group = job->p->group_size, bits = job->p->bits;
    const int64_t k = gptq->columns;
    const float steps = (float)((1 << bits) - 1);
    float *row = job->rows + r * k;
    uint8_t *packed = job->packed + r * k / 8 * bits;
    (void)thread;
    for (int64_t first = 0; first < k; first += group) {
        float *scale = job->scales + (r * k + first) / group;
        float *bias = job->biases + (r * k + first) / group;
        uint8_t *at = packed + first / 8 * bits;
        if (!vo_quantize_search(row + first, gptq->importance + first, group, bits, job->p->dtype,
                                scale, bias)) {
            atomic_store(&job->failed, true);
            return;
        }
        memset(at, 0, (size_t)group / 8 * (size_t)bits);
        for (int i = 0; i < group; i++)
            at[i * bits / 8] |=
                (uint8_t)(round_column(gptq, row, first + i, *scale, *bias, steps) << i * bits % 8);
    }
}

bool vo_gptq_quantise(const vo_gptq *gptq, const vo_awq_params *params, float *rows, int64_t n,
                      uint8_t *packed, float *scales, float *biases) {
    rows_job job = {.gptq = gptq,
                    .p = params,
                    .rows = rows,
                    .packed = packed,
                    .scales = scales,
                    .biases = biases};
    vo_pool_run(params->pool, n, quantise_row, &job);
    return !atomic_load(&job.failed);
}
