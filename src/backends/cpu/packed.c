/* SPDX-License-Identifier: MIT
 *
 * Packing weights, once, when a plan is made. A panel interleaves its nr rows by groups of the
 * steps of k that one instruction multiplies: one for f32 and f16, two for bf16, four for int8; or
 * that fill 32 bits: eight codes of int4.
 */
#include "backends/cpu/packed.h"

#include <math.h>
#include <string.h>

#include "base/dequantize.h"
#include "base/memory.h"
#include "base/quantize.h"

/* Steps of k that share a scale where the source has none. With 64 Whisper base gets two words in a
 * hundred more wrong, for a tenth of the bytes. */
enum { QUANTISED_GROUP = 32 };

typedef struct pack_job {
    const vo_packed *packed;
    const vo_view *view;
    const vo_kernels *kernels;
    float *rows;      /* [threads][nr][k] for what must become f32, or NULL */
    uint32_t *narrow; /* [threads][padded/2]: one row as bf16, int8 or codes */
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

static int32_t sum_of(const int8_t *q, int64_t k) {
    int32_t sum = 0;
    for (int64_t i = 0; i < k; i++) sum += q[i];
    return sum;
}

/* The most that values of one sign make together where kernels add them in 16 bits (kernels.h). */
static int largest_sum(const int8_t *q, int64_t padded) {
    enum { RUN = 4 * VO_INT8_FOURS };
    int largest = 0;
    for (int64_t k0 = 0; k0 < padded; k0 += RUN) {
        int above[2] = {0}, below[2] = {0};
        for (int i = 0; i < RUN; i++) {
            if (q[k0 + i] > 0)
                above[i / 2 % 2] += q[k0 + i];
            else
                below[i / 2 % 2] -= q[k0 + i];
        }
        for (int half = 0; half < 2; half++) {
            if (above[half] > largest) largest = above[half];
            if (below[half] > largest) largest = below[half];
        }
    }
    return largest;
}

/* A row as int8; q is zero beyond k. Kernels that add in 16 bits get a larger scale for rows whose
 * large values stand together: 1.15 times for the weights of Whisper base on average. */
static void narrow_int8(const pack_job *job, const float *row, int8_t *q, float *scale) {
    const int64_t k = job->packed->k, padded = job->packed->padded;
    job->kernels->f32_to_s8(k, row, q, scale);
    if (job->kernels->int8_max == INT8_MAX || !isfinite(*scale)) return;
    for (int sum = largest_sum(q, padded); sum > VO_INT8_ROOM; sum = largest_sum(q, padded)) {
        *scale *= fmaxf(1.001f, (float)sum / VO_INT8_ROOM);
        for (int64_t i = 0; i < k; i++) q[i] = (int8_t)rintf(row[i] / *scale);
    }
}

/* ---- 4-bit codes --------------------------------------------------------------------------- */

/* NaN in the one form that int4_to_bf16 wants. */
static uint16_t scale_f16(float x) {
    return isnan(x) ? 0x7e00 : vo_f32_to_f16(x);
}

/* Column j of a panel from a row of floats. A group that is cut short is filled with its last
 * value, which leaves its range alone; one that is not finite becomes NaN. */
static void quantise_row(const vo_packed *packed, const float *row, uint8_t *codes,
                         uint16_t *affine) {
    enum { GROUP = QUANTISED_GROUP };
    for (int64_t k0 = 0; k0 < packed->k; k0 += GROUP, affine += 2 * packed->nr) {
        const int64_t n = min64(packed->k - k0, GROUP);
        float x[GROUP], scale = 0, bias = 0;
        uint8_t q[GROUP / 2];
        for (int i = 0; i < GROUP; i++) x[i] = row[k0 + min64(i, n - 1)];
        if (!vo_quantize_affine(x, GROUP, GROUP, 4, q, &scale, &bias)) bias = NAN;
        memcpy(codes + k0 / 2, q, (size_t)(n + 1) / 2);
        affine[0] = scale_f16(scale);
        affine[packed->nr] = scale_f16(bias);
    }
}

static uint16_t load_f16(const vo_view *view, const void *from, int64_t at) {
    uint16_t half;
    float value;
    if (view->scale_dtype == VO_F32) {
        memcpy(&value, (const char *)from + at * 4, sizeof value);
        return scale_f16(value);
    }
    memcpy(&half, (const char *)from + at * 2, sizeof half);
    return scale_f16(view->scale_dtype == VO_F16 ? vo_f16_to_f32(half) : vo_bf16_to_f32(half));
}

/* Row i of a view that is kept: its codes already lie in the order of k, the lowest bits first. */
static void copy_codes(const vo_packed *packed, const vo_view *view, int64_t i, uint8_t *codes,
                       uint16_t *affine) {
    const int64_t groups = packed->k / packed->group;
    memcpy(codes, (const char *)view->data + i * packed->k / 2, (size_t)packed->k / 2);
    for (int64_t g = 0; g < groups; g++, affine += 2 * packed->nr) {
        affine[0] = load_f16(view, view->scales, i * groups + g);
        affine[packed->nr] = load_f16(view, view->biases, i * groups + g);
    }
}

bool vo_packed_keeps(const vo_view *view) {
    return view->dtype == VO_AFFINE && view->bits == 4 && view->group_size > 0 &&
           view->group_size % VO_BF16_K == 0 &&
           (view->scale_dtype == VO_F16 || view->scale_dtype == VO_BF16 ||
            view->scale_dtype == VO_F32);
}

/* ---- one panel of 32-bit words ------------------------------------------------------------- */

/* Row `first + j` as words. */
static void narrow_row(const pack_job *job, int64_t first, int j, float *rows, uint32_t *words) {
    const vo_packed *packed = job->packed;
    float *row = rows ? rows + j * packed->k : NULL;
    switch (packed->dtype) {
    case VO_BF16:
        narrow_bf16(row, packed->k, (uint16_t *)(void *)words);
        break;
    case VO_I8:
        for (int64_t i = 0; packed->factors && i < packed->k; i++) row[i] /= packed->factors[i];
        narrow_int8(job, row, (int8_t *)words, &packed->scales[first + j]);
        for (int64_t k0 = 0; k0 < packed->k; k0 += VO_INT8_GROUP)
            vo_packed_zero(packed, first / packed->nr, k0 / VO_INT8_GROUP)[j] =
                sum_of((const int8_t *)words + k0, min64(VO_INT8_GROUP, packed->k - k0)) *
                job->kernels->int8_zero;
        break;
    default: {
        uint16_t *affine = vo_packed_affine(packed, first / packed->nr, 0) + j;
        if (vo_packed_keeps(job->view))
            copy_codes(packed, job->view, first + j, (uint8_t *)words, affine);
        else
            quantise_row(packed, row, (uint8_t *)words, affine);
    }
    }
}

/* Pairs of bf16, fours of int8, eights of codes: words of a row go to every nr-th place. */
static void pack_narrow(const pack_job *job, int64_t first, float *rows, int count, uint32_t *row,
                        uint32_t *panel) {
    const vo_packed *packed = job->packed;
    const int64_t words = vo_packed_bytes(packed, packed->padded) / 4;
    for (int j = 0; j < packed->nr; j++) {
        memset(row, 0, (size_t)words * sizeof *row);
        if (j < count) narrow_row(job, first, j, rows, row);
        for (int64_t i = 0; i < words; i++) panel[i * packed->nr + j] = row[i];
    }
}

static void pack_tile(void *arg, int64_t tile, int thread) {
    const pack_job *job = arg;
    const vo_packed *packed = job->packed;
    int64_t first = tile * packed->nr;
    int count = (int)min64(packed->n - first, packed->nr);
    char *panel = (char *)packed->data + vo_packed_bytes(packed, first * packed->padded);
    if (packed->dtype == VO_F16) {
        const unsigned char *rows = job->view->data;
        pack_f16(packed, rows + first * packed->k * 2, count, (uint16_t *)(void *)panel);
        return;
    }
    float *rows = job->rows ? job->rows + thread * packed->nr * packed->k : NULL;
    /* What is kept is looked at only to check it. */
    const int dequantised = rows ? count : 0;
    if (vo_dequantize_rows(job->view, first, dequantised, rows, &job->errors[thread]) != VO_OK)
        return;
    if (packed->dtype == VO_F32)
        pack_f32(packed, rows, count, (float *)(void *)panel);
    else
        pack_narrow(job, first, rows, count, job->narrow + thread * (packed->padded / 2),
                    (uint32_t *)(void *)panel);
}

/* ---- factors of columns --------------------------------------------------------------------- */

typedef struct column_job {
    const pack_job *pack;
    float *largest; /* [threads][k], of the weights */
} column_job;

static void find_largest(void *arg, int64_t tile, int thread) {
    const column_job *job = arg;
    const vo_packed *packed = job->pack->packed;
    float *rows = job->pack->rows + thread * packed->nr * packed->k;
    float *largest = job->largest + thread * packed->k;
    const int64_t first = tile * packed->nr, count = min64(packed->n - first, packed->nr);
    if (vo_dequantize_rows(job->pack->view, first, count, rows, &job->pack->errors[thread]) !=
        VO_OK)
        return;
    for (int64_t i = 0; i < count; i++)
        for (int64_t kk = 0; kk < packed->k; kk++)
            if (fabsf(rows[i * packed->k + kk]) > largest[kk])
                largest[kk] = fabsf(rows[i * packed->k + kk]);
}

/* A column of A is divided by a^0.85 / w^0.15 with its size a and the largest weight w: of the
 * exponents tried (0.3 to 1) the ones with the smallest error of the encoder of Whisper base. */
static vo_status choose_factors(vo_packed *packed, const pack_job *job, vo_pool *pool,
                                const float *sizes, vo_error *err) {
    const int threads = vo_pool_threads(pool);
    column_job columns = {job, vo_alloc_array((size_t)threads * (size_t)packed->k, sizeof(float))};
    packed->factors = vo_alloc_array((size_t)packed->k, sizeof(*packed->factors));
    if (!columns.largest || !packed->factors) {
        vo_free(columns.largest);
        return vo_fail(err, VO_ERR_MEMORY, "Out of memory for the factors of weights.");
    }
    vo_pool_run(pool, vo_packed_panels(packed), find_largest, &columns);
    for (int64_t i = 0; i < packed->k; i++) {
        float w = 0;
        for (int t = 0; t < threads; t++) w = fmaxf(w, columns.largest[t * packed->k + i]);
        const float factor = powf(w, 0.15f) / powf(sizes[i], 0.85f);
        packed->factors[i] = factor > 1e-6f && factor < 1e6f ? factor : 1.0f;
    }
    vo_free(columns.largest);
    return VO_OK;
}

/* ---- the matrix ------------------------------------------------------------------------ */

/* Sets the sizes from the shape; the product of all sizes is checked here, once. */
static vo_status pack_sizes(vo_packed *packed, const vo_view *view, vo_error *err) {
    const int64_t step = packed->dtype == VO_BF16 || packed->dtype == VO_AFFINE ? VO_BF16_K
                         : packed->dtype == VO_I8                               ? VO_INT8_K
                                                                                : 1;
    int64_t elements = 0;
    packed->n = view->rank > 1 ? view->shape[0] : 1;
    if (view->rank < 1 || !vo_count_elements(view->shape, view->rank, &elements) || elements == 0)
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix must have rows and columns.");
    packed->k = elements / packed->n;
    if (packed->k > INT32_MAX / 512)
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix is too wide to be packed.");
    packed->padded = (packed->k + step - 1) / step * step;
    int64_t dims[3] = {vo_packed_panels(packed), packed->padded * packed->nr, sizeof(float)};
    if (!vo_count_elements(dims, 3, &elements))
        return vo_fail(err, VO_ERR_ARGUMENT, "A weight matrix is too large to be packed.");
    packed->bytes = (size_t)vo_packed_bytes(packed, dims[0] * dims[1]);
    packed->group = vo_packed_keeps(view) ? view->group_size : QUANTISED_GROUP;
    return VO_OK;
}

static bool allocate_scales(vo_packed *packed) {
    const size_t columns = (size_t)(vo_packed_panels(packed) * packed->nr);
    const size_t groups = (size_t)((packed->k + packed->group - 1) / packed->group);
    const int64_t int8_groups = (packed->padded + VO_INT8_GROUP - 1) / VO_INT8_GROUP;
    if (packed->dtype == VO_I8) {
        packed->scales = vo_alloc_array(columns, sizeof(*packed->scales));
        packed->zero = vo_alloc_array(columns * (size_t)int8_groups, sizeof(*packed->zero));
        return packed->scales && packed->zero;
    }
    if (packed->dtype != VO_AFFINE) return true;
    packed->affine = vo_alloc_array(columns * groups, 2 * sizeof(*packed->affine));
    return packed->affine;
}

static bool allocate(vo_packed *packed, pack_job *job, size_t threads) {
    packed->data = vo_alloc_uninitialized(packed->bytes);
    job->errors = vo_alloc_array(threads, sizeof(*job->errors));
    if (!packed->data || !job->errors || !allocate_scales(packed)) return false;
    const bool floats =
        packed->dtype != VO_F16 && !(packed->dtype == VO_AFFINE && vo_packed_keeps(job->view));
    if (floats)
        job->rows = vo_alloc_array(threads * (size_t)packed->nr, (size_t)packed->k * sizeof(float));
    if (floats && !job->rows) return false;
    if (packed->dtype == VO_F32 || packed->dtype == VO_F16) return true;
    job->narrow = vo_alloc_array(threads, (size_t)packed->padded / 2 * sizeof(*job->narrow));
    return job->narrow;
}

vo_status vo_packed_create(vo_packed *packed, const vo_kernels *kernels, vo_pool *pool,
                           const vo_view *view, vo_dtype dtype, const float *sizes, vo_error *err) {
    int threads = vo_pool_threads(pool);
    pack_job job = {.packed = packed, .view = view, .kernels = kernels};
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
    if (dtype == VO_I8 && sizes) status = choose_factors(packed, &job, pool, sizes, err);
    if (status == VO_OK) vo_pool_run(pool, vo_packed_panels(packed), pack_tile, &job);
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
    vo_free(packed->factors);
    vo_free(packed->affine);
    memset(packed, 0, sizeof(*packed));
}

static void affine_row(const vo_packed *packed, int64_t i, float *out) {
    const int64_t panel = i / packed->nr, j = i % packed->nr, nr = packed->nr;
    const uint32_t *words = (const uint32_t *)vo_packed_panel(packed, panel, 0) + j;
    for (int64_t k0 = 0; k0 < packed->k; k0 += packed->group) {
        const uint16_t *affine = vo_packed_affine(packed, panel, k0) + j;
        const float scale = vo_f16_to_f32(affine[0]), bias = vo_f16_to_f32(affine[nr]);
        for (int64_t kk = k0; kk < min64(k0 + packed->group, packed->k); kk++)
            out[kk] = (float)(words[kk / 8 * nr] >> 4 * (kk % 8) & 15) * scale + bias;
    }
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
        for (int64_t kk = 0; kk < packed->k; kk++) {
            const int64_t at = (kk / 4 * nr + j) * 4 + kk % 4;
            const float factor = packed->factors ? packed->factors[kk] : 1.0f;
            out[kk] = packed->scales[i] * factor * (float)((const int8_t *)panel)[at];
        }
        break;
    case VO_AFFINE:
        affine_row(packed, i, out);
        break;
    default:
        for (int64_t kk = 0; kk < packed->k; kk++) out[kk] = ((const float *)panel)[kk * nr + j];
    }
}
