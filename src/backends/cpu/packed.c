/* SPDX-License-Identifier: MIT
 *
 * Packing weights, once, when a plan is made. A panel interleaves its nr rows by groups of the
 * steps of k that one instruction multiplies: one for f32 and f16, two for bf16, four for int8.
 */
#include "backends/cpu/packed.h"

#include <math.h>
#include <string.h>

#include "base/dequantize.h"
#include "base/memory.h"

typedef struct pack_job {
    const vo_packed *packed;
    const vo_view *view;
    int int8_zero;
    float *rows;      /* [threads][nr][k] for what must become f32, or NULL */
    uint32_t *narrow; /* [threads][padded/2]: one row as bf16 or int8 */
    vo_error *errors; /* [threads] */
} pack_job;

static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- one panel ------------------------------------------------------------------------- */

/* Halves are copied as they are; the source may be unaligned. Small steps of k keep both sides in
 * L1. */
static void pack_f16(const vo_packed *packed, const unsigned char *rows, int count,
                     uint16_t *panel) {
    for (int64_t k0 = 0; k0 < packed->k; k0 += 32) {
        int64_t steps = min64(packed->k - k0, 32);
        for (int j = 0; j < packed->nr; j++) {
            uint16_t part[32] = {0};
            if (j < count) memcpy(part, rows + (j * packed->k + k0) * 2, (size_t)steps * 2);
            for (int64_t i = 0; i < steps; i++) panel[(k0 + i) * packed->nr + j] = part[i];
        }
    }
}

static void pack_f32(const vo_packed *packed, const float *rows, int count, float *panel) {
    for (int64_t k0 = 0; k0 < packed->k; k0 += 16) {
        int64_t steps = min64(packed->k - k0, 16);
        for (int j = 0; j < packed->nr; j++)
            for (int64_t i = k0; i < k0 + steps; i++)
                panel[i * packed->nr + j] = j < count ? rows[j * packed->k + i] : 0.0f;
    }
}

static void narrow_bf16(const float *row, int64_t k, uint16_t *to) {
    for (int64_t i = 0; i < k; i++) to[i] = vo_f32_to_bf16(row[i]);
}

/* Returns the scale. */
static float narrow_int8(const float *row, int64_t k, int8_t *to, int32_t *sum) {
    enum { MAX = 127 };
    float largest = 0.0f;
    int32_t total = 0;
    for (int64_t i = 0; i < k; i++) {
        const float size = fabsf(row[i]);
        largest = size > largest ? size : largest;
    }
    const float inverse = largest > 0.0f ? (float)MAX / largest : 0.0f;
    for (int64_t i = 0; i < k; i++) {
        to[i] = (int8_t)fmaxf(fminf(rintf(row[i] * inverse), MAX), -MAX);
        total += to[i];
    }
    *sum = total;
    return largest / (float)MAX;
}

/* Pairs of bf16 and fours of int8 are both 32 bits: groups of a row go to every nr-th place. */
static void pack_narrow(const pack_job *job, int64_t first, const float *rows, int count,
                        uint32_t *row, uint32_t *panel) {
    const vo_packed *packed = job->packed;
    const int64_t groups = packed->padded * (int64_t)vo_packed_element(packed) / 4;
    for (int j = 0; j < packed->nr; j++) {
        memset(row, 0, (size_t)groups * sizeof *row);
        if (j < count && packed->dtype == VO_BF16)
            narrow_bf16(rows + j * packed->k, packed->k, (uint16_t *)(void *)row);
        if (j < count && packed->dtype == VO_I8) {
            int32_t sum;
            packed->scales[first + j] =
                narrow_int8(rows + j * packed->k, packed->k, (int8_t *)(void *)row, &sum);
            packed->zero[first + j] = sum * job->int8_zero;
        }
        for (int64_t g = 0; g < groups; g++) panel[g * packed->nr + j] = row[g];
    }
}

static void pack_tile(void *arg, int64_t tile, int thread) {
    const pack_job *job = arg;
    const vo_packed *packed = job->packed;
    int64_t first = tile * packed->nr;
    int count = (int)min64(packed->n - first, packed->nr);
    char *panel =
        (char *)packed->data + (size_t)(first * packed->padded) * vo_packed_element(packed);
    if (packed->dtype == VO_F16) {
        const unsigned char *rows = job->view->data;
        pack_f16(packed, rows + first * packed->k * 2, count, (uint16_t *)(void *)panel);
        return;
    }
    float *rows = job->rows + thread * packed->nr * packed->k;
    if (vo_dequantize_rows(job->view, first, count, rows, &job->errors[thread]) != VO_OK) return;
    if (packed->dtype == VO_F32)
        pack_f32(packed, rows, count, (float *)(void *)panel);
    else
        pack_narrow(job, first, rows, count, job->narrow + thread * (packed->padded / 2),
                    (uint32_t *)(void *)panel);
}

/* ---- the matrix ------------------------------------------------------------------------ */

/* Sets the sizes from the shape; the product of all sizes is checked here, once. */
static vo_status pack_sizes(vo_packed *packed, const vo_view *view, vo_error *err) {
    const int64_t step = packed->dtype == VO_BF16 ? VO_BF16_K
                         : packed->dtype == VO_I8 ? VO_INT8_K
                                                  : 1;
    int64_t elements = 0, bytes = 0;
    packed->n = view->rank > 1 ? view->shape[0] : 1;
    if (view->rank < 1 || !vo_count_elements(view->shape, view->rank, &elements) || elements == 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix must have rows and columns.");
    packed->k = elements / packed->n;
    if (packed->k > INT32_MAX / 512)
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix is too wide to be packed.");
    packed->padded = (packed->k + step - 1) / step * step;
    int64_t dims[3] = {vo_packed_panels(packed), packed->padded * packed->nr,
                       (int64_t)vo_packed_element(packed)};
    if (!vo_count_elements(dims, 3, &bytes))
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix is too large to be packed.");
    packed->bytes = (size_t)bytes;
    return VO_OK;
}

static bool allocate(vo_packed *packed, pack_job *job, size_t threads) {
    const size_t columns = (size_t)(vo_packed_panels(packed) * packed->nr);
    packed->data = vo_alloc_uninitialized(packed->bytes);
    job->errors = vo_alloc_array(threads, sizeof(*job->errors));
    if (!packed->data || !job->errors) return false;
    if (packed->dtype == VO_F16) return true;
    job->rows = vo_alloc_array(threads * (size_t)packed->nr, (size_t)packed->k * sizeof(float));
    if (!job->rows) return false;
    if (packed->dtype == VO_F32) return true;
    job->narrow = vo_alloc_array(threads, (size_t)packed->padded / 2 * sizeof(*job->narrow));
    if (packed->dtype == VO_I8) {
        packed->scales = vo_alloc_array(columns, sizeof(*packed->scales));
        packed->zero = vo_alloc_array(columns, sizeof(*packed->zero));
    }
    return job->narrow && (packed->dtype != VO_I8 || (packed->scales && packed->zero));
}

vo_status vo_packed_create(vo_packed *packed, const vo_kernels *kernels, vo_pool *pool,
                           const vo_view *view, vo_dtype dtype, vo_error *err) {
    int threads = vo_pool_threads(pool);
    pack_job job = {.packed = packed, .view = view, .int8_zero = kernels->int8_zero};
    memset(packed, 0, sizeof(*packed));
    packed->dtype = dtype;
    packed->nr = kernels->nr;
    vo_status status = pack_sizes(packed, view, err);
    if (status != VO_OK) goto fail;
    if (!allocate(packed, &job, (size_t)threads)) {
        status = vo_fail(err, VO_ERR_MEMORY, "Out of memory for %zu bytes of packed weights.",
                         packed->bytes);
        goto fail;
    }
    vo_pool_run(pool, vo_packed_panels(packed), pack_tile, &job);
    for (int i = 0; i < threads && status == VO_OK; i++)
        if (job.errors[i].status != VO_OK)
            status = vo_fail(err, job.errors[i].status, "%s", job.errors[i].message);
fail:
    vo_free(job.rows);
    vo_free(job.narrow);
    vo_free(job.errors);
    if (status != VO_OK) vo_packed_destroy(packed);
    return status;
}

void vo_packed_destroy(vo_packed *packed) {
    if (!packed) return;
    vo_free(packed->data);
    vo_free(packed->scales);
    vo_free(packed->zero);
    memset(packed, 0, sizeof(*packed));
}

void vo_packed_row(const vo_packed *packed, int64_t i, float *out) {
    const void *panel = vo_packed_panel(packed, i / packed->nr, 0);
    const int64_t j = i % packed->nr, nr = packed->nr;
    switch (packed->dtype) {
    case VO_F16:
        for (int64_t kk = 0; kk < packed->k; kk++)
            out[kk] = vo_f16_to_f32(((const uint16_t *)panel)[kk * nr + j]);
        break;
    case VO_BF16:
        for (int64_t kk = 0; kk < packed->k; kk++)
            out[kk] = vo_bf16_to_f32(((const uint16_t *)panel)[(kk / 2 * nr + j) * 2 + kk % 2]);
        break;
    case VO_I8:
        for (int64_t kk = 0; kk < packed->k; kk++)
            out[kk] =
                packed->scales[i] * (float)((const int8_t *)panel)[(kk / 4 * nr + j) * 4 + kk % 4];
        break;
    default:
        for (int64_t kk = 0; kk < packed->k; kk++) out[kk] = ((const float *)panel)[kk * nr + j];
    }
}
