/* SPDX-License-Identifier: MIT
 *
 * Element types, quantised block layouts, and the view of one stored tensor: the one thing
 * that file formats, kernels and the tensor runtime share.
 */
#ifndef VO_BASE_DTYPE_H
#define VO_BASE_DTYPE_H

#include "base/status.h"

typedef enum vo_dtype {
    VO_F32,
    VO_F16,
    VO_BF16,
    VO_F64,
    VO_I64,
    VO_I32,
    VO_I16,
    VO_I8,
    VO_U64,
    VO_U32,
    VO_U16,
    VO_U8,
    VO_BOOL,
    /* ggml blocks along the last axis (docs/formats.md) */
    VO_Q4_0,
    VO_Q4_1,
    VO_Q5_0,
    VO_Q5_1,
    VO_Q8_0,
    VO_Q2_K,
    VO_Q3_K,
    VO_Q4_K,
    VO_Q5_K,
    VO_Q6_K,
    /* with scales beside the data */
    VO_ROWSCALED_I8, /* CTranslate2: value = q / scale[row] */
    VO_SCALED_I16,   /* CTranslate2: value = q / scale[0] */
    VO_AFFINE,       /* MLX: value = q * scale + bias per group along the last axis */
    VO_DTYPE_COUNT
} vo_dtype;

/* Bytes of one block and elements in it: (4, 1) for VO_F32, (18, 32) for VO_Q4_0. VO_AFFINE
 * has bits that vary and reports (0, 0). */
typedef struct vo_dtype_info {
    const char *name;
    int block_bytes, block_elements;
} vo_dtype_info;
const vo_dtype_info *vo_dtype_get_info(vo_dtype dtype); /* never NULL */

#define VO_MAX_DIMS 4

/* One tensor as it lies in a file or in memory. Nothing is owned. shape[0] is the slowest
 * dimension (rows), as in NumPy; data may be unaligned. */
typedef struct vo_view {
    const char *name;
    vo_dtype dtype;
    int rank;                   /* 0: a scalar */
    int64_t shape[VO_MAX_DIMS]; /* logical elements, also for quantised types */
    const void *data;
    size_t bytes;
    /* quantised types with scales beside the data */
    const void *scales, *biases; /* scale_dtype each; NULL where there are none */
    vo_dtype scale_dtype;
    int group_size, bits; /* VO_AFFINE only */
} vo_view;

/* Whether values of this type can be weights: floats and quantised floats. Plain whole numbers are
 * settings and tables. */
bool vo_dtype_is_real(vo_dtype dtype);
/* Number of elements; shapes in a view were checked when it was made, so this cannot overflow. */
int64_t vo_view_elements(const vo_view *view);
/* Bytes that a tensor of this type and shape takes; false on overflow (PTRDIFF_MAX) or when the
 * last dimension is no multiple of the block. Not for VO_AFFINE. */
bool vo_dtype_bytes(vo_dtype dtype, const int64_t *shape, int rank, size_t *bytes);

/* Half-precision conversions, exact where exact is possible, round to nearest even; a NaN becomes
 * quiet. Those without branches become vectors in a loop: most weights are halves, and this is what
 * loading waits for. */
typedef union vo_float_bits {
    uint32_t u;
    float f;
} vo_float_bits;

static inline float vo_f16_to_f32(uint16_t h) {
    const uint32_t magnitude = h & 0x7fff;
    vo_float_bits v = {magnitude << 13};
    v.f *= 0x1p112f; /* moves the exponent: exact, for denormals too */
    v.u |= (magnitude >= 0x7c00 ? 0x7f800000u : 0u) | (magnitude > 0x7c00 ? 0x400000u : 0u);
    v.u |= (uint32_t)(h & 0x8000) << 16;
    return v.f;
}
uint16_t vo_f32_to_f16(float f);
static inline float vo_bf16_to_f32(uint16_t h) {
    const vo_float_bits v = {(uint32_t)h << 16};
    return v.f;
}
static inline uint16_t vo_f32_to_bf16(float f) {
    const vo_float_bits v = {.f = f};
    const uint32_t nearest = (v.u + 0x7fff + (v.u >> 16 & 1)) >> 16, nan = v.u >> 16 | 0x40;
    return (uint16_t)((v.u & 0x7fffffff) > 0x7f800000 ? nan : nearest);
}

#endif
