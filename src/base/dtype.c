/* SPDX-License-Identifier: MIT
 *
 * The table of element types, and the conversions of 16-bit floats done on their bits, so that
 * every machine rounds alike.
 */
#include "base/dtype.h"
#include "base/memory.h"

#include <string.h>

static const vo_dtype_info infos[VO_DTYPE_COUNT] = {
    [VO_F32] = {"f32", 4, 1},
    [VO_F16] = {"f16", 2, 1},
    [VO_BF16] = {"bf16", 2, 1},
    [VO_F64] = {"f64", 8, 1},
    [VO_I64] = {"i64", 8, 1},
    [VO_I32] = {"i32", 4, 1},
    [VO_I16] = {"i16", 2, 1},
    [VO_I8] = {"i8", 1, 1},
    [VO_U64] = {"u64", 8, 1},
    [VO_U32] = {"u32", 4, 1},
    [VO_U16] = {"u16", 2, 1},
    [VO_U8] = {"u8", 1, 1},
    [VO_BOOL] = {"bool", 1, 1},
    [VO_Q4_0] = {"q4_0", 18, 32},
    [VO_Q4_1] = {"q4_1", 20, 32},
    [VO_Q5_0] = {"q5_0", 22, 32},
    [VO_Q5_1] = {"q5_1", 24, 32},
    [VO_Q8_0] = {"q8_0", 34, 32},
    [VO_Q2_K] = {"q2_k", 84, 256},
    [VO_Q3_K] = {"q3_k", 110, 256},
    [VO_Q4_K] = {"q4_k", 144, 256},
    [VO_Q5_K] = {"q5_k", 176, 256},
    [VO_Q6_K] = {"q6_k", 210, 256},
    [VO_ROWSCALED_I8] = {"rowscaled_i8", 1, 1},
    [VO_SCALED_I16] = {"scaled_i16", 2, 1},
    [VO_AFFINE] = {"affine", 0, 0},
};

const vo_dtype_info *vo_dtype_get_info(vo_dtype dtype) {
    static const vo_dtype_info unknown = {"unknown", 0, 0};
    if ((int)dtype < 0 || dtype >= VO_DTYPE_COUNT) return &unknown;
    return &infos[dtype];
}

bool vo_dtype_is_real(vo_dtype dtype) {
    return dtype <= VO_F64 || dtype >= VO_Q4_0;
}

int64_t vo_view_elements(const vo_view *view) {
    int64_t n = 1;
    for (int i = 0; i < view->rank; i++) n *= view->shape[i];
    return n;
}

bool vo_dtype_bytes(vo_dtype dtype, const int64_t *shape, int rank, size_t *bytes) {
    const vo_dtype_info *info = vo_dtype_get_info(dtype);
    int64_t elements, last = rank > 0 ? shape[rank - 1] : 1;
    if (info->block_elements == 0 || !vo_count_elements(shape, rank, &elements)) return false;
    if (last % info->block_elements != 0) return false;
    uint64_t blocks = (uint64_t)(elements / info->block_elements);
    return blocks <= SIZE_MAX && vo_mul_size((size_t)blocks, (size_t)info->block_bytes, bytes) &&
           *bytes <= PTRDIFF_MAX; /* no object is larger */
}

uint16_t vo_f32_to_f16(float f) {
    const vo_float_bits v = {.f = f};
    uint32_t u = v.u, sign = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x3ff));
    if (u >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* from 65520 on: infinity */
    if (u < 0x38800000) {                          /* below 2^-14: denormal, in units of 2^-24 */
        if (u < 0x33000000) return (uint16_t)sign; /* below half a unit */
        uint32_t shift = 126 - (u >> 23), mantissa = (u & 0x7fffff) | 0x800000;
        uint32_t half = (1u << (shift - 1)) - 1 + (mantissa >> shift & 1);
        return (uint16_t)(sign | (mantissa + half) >> shift);
    }
    u += 0xfff + (u >> 13 & 1); /* a carry runs into the exponent, as it should */
    return (uint16_t)(sign | (u - 0x38000000) >> 13);
}
