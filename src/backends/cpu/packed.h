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
    vo_dtype dtype; /* VO_F32, VO_F16, VO_BF16 or VO_I8 */
    int64_t n, k;
    int64_t padded; /* k rounded up to what the kernels take at a time */
    int nr;
    void *data; /* ceil(n/nr) panels of padded*nr elements */
    size_t bytes;
    float *scales; /* int8: [panels*nr], value = q * scale; else NULL */
    int32_t *zero; /* int8: [panels*nr], what int8_zero of A adds to a sum; else NULL */
} vo_packed;

/* Packs the rows of view (shape [n][k], or [n][...] flattened) in parallel as dtype: VO_F16 for
 * f16 sources only, the others for any source. int8 takes one symmetric scale per row. */
vo_status vo_packed_create(vo_packed *packed, const vo_kernels *kernels, vo_pool *pool,
                           const vo_view *view, vo_dtype dtype, vo_error *err);
void vo_packed_destroy(vo_packed *packed); /* zeroed ones are allowed */
/* Row i of the original matrix (an embedding look-up): out[k]. */
void vo_packed_row(const vo_packed *packed, int64_t i, float *out);

/* Bytes of one element in the panels. */
static inline size_t vo_packed_element(const vo_packed *packed) {
    return packed->dtype == VO_F32 ? 4 : packed->dtype == VO_I8 ? 1 : 2;
}
static inline int64_t vo_packed_panels(const vo_packed *packed) {
    return (packed->n + packed->nr - 1) / packed->nr;
}
/* Where panel p keeps what step k0 multiplies; k0 is 0 or a multiple of what the kernels take. */
static inline const void *vo_packed_panel(const vo_packed *packed, int64_t p, int64_t k0) {
    return (const char *)packed->data +
           (size_t)((p * packed->padded + k0) * packed->nr) * vo_packed_element(packed);
}

#endif
