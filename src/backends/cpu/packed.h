/* SPDX-License-Identifier: MIT
 *
 * Weight matrices in the form that the product kernels read: panels of nr columns.
 */
#ifndef VO_BACKENDS_CPU_PACKED_H
#define VO_BACKENDS_CPU_PACKED_H

#include "base/pool.h"
#include "kernels/kernels.h"

/* A weight matrix [n][k] in panels (kernels.h says how each type lies in them). Immutable after
 * creation; safe to share between threads. */
typedef struct vo_packed {
    vo_dtype dtype; /* VO_F32, VO_F16, VO_BF16, VO_I8, or VO_AFFINE: 4-bit codes */
    int64_t n, k;
    int64_t padded; /* k rounded up to what the kernels take at a time */
    int nr;
    void *data; /* ceil(n/nr) panels of padded*nr elements */
    size_t bytes;
    float *scales;    /* int8: [panels*nr], value = q * scale; else NULL */
    int32_t *zero;    /* int8: [panels][groups of VO_INT8_GROUP][nr], what int8_zero of A adds to a
                       * sum of a group; else NULL */
    float *factors;   /* int8: [k], of the columns of A before they are rounded, or NULL */
    int group;        /* VO_AFFINE: steps of k that share a scale and a bias */
    uint16_t *affine; /* VO_AFFINE: [panels][groups][2][nr] f16: scales, biases; else NULL */
} vo_packed;

/* Whether VO_AFFINE keeps this view as it is, code for code. */
bool vo_packed_keeps(const vo_view *view);
/* Packs the rows of view (shape [n][k], or [n][...] flattened) in parallel as dtype: VO_F16 for
 * f16 sources only, the others for any source. int8 takes one symmetric scale per row. VO_AFFINE
 * takes a scale and a bias per group of a row: its own where vo_packed_keeps, else those of 32.
 * sizes: [k], how large the columns of A will be, or NULL if nobody knows. Where some are much
 * larger than others int8 moves a part of that to the weights (Xiao et al. 2023, SmoothQuant),
 * which have a column's scale to themselves. */
vo_status vo_packed_create(vo_packed *packed, const vo_kernels *kernels, vo_pool *pool,
                           const vo_view *view, vo_dtype dtype, const float *sizes, vo_error *err);
void vo_packed_destroy(vo_packed *packed); /* zeroed ones are allowed */
/* Row i of the original matrix (an embedding look-up): out[k]. */
void vo_packed_row(const vo_packed *packed, int64_t i, float *out);

/* Bytes of elements in the panels; of 4-bit codes there is an even number. */
static inline int64_t vo_packed_bytes(const vo_packed *packed, int64_t elements) {
    switch (packed->dtype) {
    case VO_F32:
        return elements * 4;
    case VO_I8:
        return elements;
    case VO_AFFINE:
        return elements / 2;
    default:
        return elements * 2;
    }
}
static inline int64_t vo_packed_panels(const vo_packed *packed) {
    return (packed->n + packed->nr - 1) / packed->nr;
}
/* Where panel p keeps what step k0 multiplies; k0 is 0 or a multiple of what the kernels take. */
static inline const void *vo_packed_panel(const vo_packed *packed, int64_t p, int64_t k0) {
    return (const char *)packed->data +
           vo_packed_bytes(packed, (p * packed->padded + k0) * packed->nr);
}
/* int8: what int8_zero adds to the sums of a group. */
static inline int32_t *vo_packed_zero(const vo_packed *packed, int64_t p, int64_t group) {
    const int64_t groups = (packed->padded + VO_INT8_GROUP - 1) / VO_INT8_GROUP;
    return packed->zero + (p * groups + group) * packed->nr;
}
/* VO_AFFINE: scales and biases from step k0 of panel p on; k0 is a multiple of the group. */
static inline uint16_t *vo_packed_affine(const vo_packed *packed, int64_t p, int64_t k0) {
    const int64_t groups = (packed->k + packed->group - 1) / packed->group;
    return packed->affine + (p * groups + k0 / packed->group) * 2 * packed->nr;
}

#endif
