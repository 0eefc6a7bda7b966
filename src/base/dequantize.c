/* SPDX-License-Identifier: MIT
 *
 * Every stored element type to f32, a block or a row at a time. Data comes straight from a file
 * and is aligned to nothing, so all reads go byte by byte or through memcpy. The block layouts
 * are ggml's (docs/formats.md); sums and products are ordered as ggml orders them, which makes
 * results equal to its own bit for bit.
 */
#include "base/dequantize.h"

#include "base/memory.h"

#include <string.h>

/* A block's bytes to its 32 or 256 values. */
typedef void (*block_fn)(const uint8_t *block, float *y);

static uint16_t load_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load_u32(const uint8_t *p) {
    return (uint32_t)load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

static uint64_t load_u64(const uint8_t *p) {
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

static float load_f16(const uint8_t *p) {
    return vo_f16_to_f32(load_u16(p));
}

static float load_f32(const uint8_t *p) {
    uint32_t u = load_u32(p);
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static double load_f64(const uint8_t *p) {
    uint64_t u = load_u64(p);
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

/* ---- blocks of 32: low nibbles are elements 0..15, high nibbles 16..31 ------------------- */

static void q4_0(const uint8_t *b, float *y) {
    float d = load_f16(b);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)((b[2 + j] & 15) - 8) * d;
        y[j + 16] = (float)((b[2 + j] >> 4) - 8) * d;
    }
}

static void q4_1(const uint8_t *b, float *y) {
    float d = load_f16(b), m = load_f16(b + 2);
    for (int j = 0; j < 16; j++) {
        y[j] = (float)(b[4 + j] & 15) * d + m;
        y[j + 16] = (float)(b[4 + j] >> 4) * d + m;
    }
}

/* The fifth bits of a Q5 block: bit j of `high` belongs to element j. */
static int five_bits(uint32_t high, const uint8_t *nibbles, int j) {
    int low = j < 16 ? nibbles[j] & 15 : nibbles[j - 16] >> 4;
    return low | (int)(high >> j & 1) << 4;
}

static void q5_0(const uint8_t *b, float *y) {
    float d = load_f16(b);
    uint32_t high = load_u32(b + 2);
    for (int j = 0; j < 32; j++) y[j] = (float)(five_bits(high, b + 6, j) - 16) * d;
}

static void q5_1(const uint8_t *b, float *y) {
    float d = load_f16(b), m = load_f16(b + 2);
    uint32_t high = load_u32(b + 4);
    for (int j = 0; j < 32; j++) y[j] = (float)five_bits(high, b + 8, j) * d + m;
}

static void q8_0(const uint8_t *b, float *y) {
    float d = load_f16(b);
    for (int j = 0; j < 32; j++) y[j] = (float)(int8_t)b[2 + j] * d;
}

/* ---- blocks of 256 ---------------------------------------------------------------------- */

/* 16 B of 4-bit scales and minima, 64 B of 2-bit values, f16 d, f16 dmin */
static void q2_k(const uint8_t *b, float *y) {
    const uint8_t *scales = b, *q = b + 16;
    float d = load_f16(b + 80), dmin = load_f16(b + 82);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, plane = i % 128 / 32, group = i / 16;
        float scale = d * (float)(scales[group] & 15), minimum = dmin * (float)(scales[group] >> 4);
        y[i] = scale * (float)(q[32 * half + i % 32] >> 2 * plane & 3) - minimum;
    }
}

/* 32 B of third bits, 64 B of 2-bit values, 12 B of sixteen 6-bit scales, f16 d */
static void q3_k(const uint8_t *b, float *y) {
    const uint8_t *high = b, *q = b + 32, *s = b + 96;
    float d = load_f16(b + 108), scales[16];
    for (int j = 0; j < 16; j++) {
        int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
        int top = s[8 + j % 4] >> 2 * (j / 4) & 3;
        scales[j] = d * (float)((low | top << 4) - 32);
    }
    for (int i = 0; i < 256; i++) {
        int half = i / 128, plane = i % 128 / 32;
        int value = q[32 * half + i % 32] >> 2 * plane & 3;
        int third = high[i % 32] >> (4 * half + plane) & 1; /* a clear bit subtracts four */
        y[i] = scales[i / 16] * (float)(value - (third ? 0 : 4));
    }
}

/* The j-th 6-bit scale and minimum of a Q4_K or Q5_K block. */
static void scale_and_min(const uint8_t *s, int j, int *scale, int *minimum) {
    if (j < 4) {
        *scale = s[j] & 63;
        *minimum = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | s[j - 4] >> 6 << 4;
        *minimum = s[j + 4] >> 4 | s[j] >> 6 << 4;
    }
}

/* f16 d, f16 dmin, 12 B of scales and minima, then high bits (Q5_K only) and nibbles */
static void q45_k(const uint8_t *b, const uint8_t *high, const uint8_t *nibbles, float *y) {
    float d = load_f16(b), dmin = load_f16(b + 2);
    for (int j = 0; j < 8; j++) { /* 32 values each */
        int s, m;
        scale_and_min(b + 4, j, &s, &m);
        float scale = d * (float)s, minimum = dmin * (float)m;
        const uint8_t *q = nibbles + 32 * (j / 2);
        for (int l = 0; l < 32; l++) {
            int value = j % 2 == 0 ? q[l] & 15 : q[l] >> 4;
            if (high != NULL) value |= (high[l] >> j & 1) << 4;
            y[32 * j + l] = scale * (float)value - minimum;
        }
    }
}

static void q4_k(const uint8_t *b, float *y) {
    q45_k(b, NULL, b + 16, y);
}

static void q5_k(const uint8_t *b, float *y) {
    q45_k(b, b + 16, b + 48, y);
}

/* 128 B of low nibbles, 64 B of upper bit pairs, 16 signed scales, f16 d */
static void q6_k(const uint8_t *b, float *y) {
    float d = load_f16(b + 208);
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32, l = i % 32;
        uint8_t nibbles = b[64 * half + 32 * (quarter & 1) + l];
        int low = quarter < 2 ? nibbles & 15 : nibbles >> 4;
        int top = b[128 + 32 * half + l] >> 2 * quarter & 3;
        float scale = d * (float)(int8_t)b[192 + i / 16];
        y[i] = scale * (float)((low | top << 4) - 32);
    }
}

static block_fn find_block_fn(vo_dtype dtype) {
    switch (dtype) {
    case VO_Q4_0:
        return q4_0;
    case VO_Q4_1:
        return q4_1;
    case VO_Q5_0:
        return q5_0;
    case VO_Q5_1:
        return q5_1;
    case VO_Q8_0:
        return q8_0;
    case VO_Q2_K:
        return q2_k;
    case VO_Q3_K:
        return q3_k;
    case VO_Q4_K:
        return q4_k;
    case VO_Q5_K:
        return q5_k;
    case VO_Q6_K:
        return q6_k;
    default:
        return NULL;
    }
}

/* ---- one value an element --------------------------------------------------------------- */

static float load_scalar(vo_dtype dtype, const uint8_t *p) {
    switch (dtype) {
    case VO_F32:
        return load_f32(p);
    case VO_F16:
        return load_f16(p);
    case VO_BF16:
        return vo_bf16_to_f32(load_u16(p));
    case VO_F64:
        return (float)load_f64(p);
    case VO_I64:
        return (float)(int64_t)load_u64(p);
    case VO_I32:
        return (float)(int32_t)load_u32(p);
    case VO_I16:
    case VO_SCALED_I16:
        return (float)(int16_t)load_u16(p);
    case VO_I8:
    case VO_ROWSCALED_I8:
        return (float)(int8_t)p[0];
    case VO_U64:
        return (float)load_u64(p);
    case VO_U32:
        return (float)load_u32(p);
    case VO_U16:
        return (float)load_u16(p);
    case VO_U8:
        return (float)p[0];
    case VO_BOOL:
        return p[0] != 0 ? 1.0f : 0.0f;
    default:
        return 0.0f;
    }
}

static void plain_rows(const vo_view *v, int64_t first, int64_t n, float *y) {
    size_t width = (size_t)vo_dtype_get_info(v->dtype)->block_bytes;
    const uint8_t *p = (const uint8_t *)v->data + (size_t)first * width;
    switch (v->dtype) { /* the types of real weights, in loops that a compiler can unroll */
    case VO_F32:
        if (n > 0) memcpy(y, p, (size_t)n * sizeof *y);
        break;
    case VO_F16:
        for (int64_t i = 0; i < n; i++) y[i] = load_f16(p + 2 * i);
        break;
    case VO_BF16:
        for (int64_t i = 0; i < n; i++) y[i] = vo_bf16_to_f32(load_u16(p + 2 * i));
        break;
    default:
        for (int64_t i = 0; i < n; i++) y[i] = load_scalar(v->dtype, p + width * (size_t)i);
    }
}

/* ---- with scales beside the data -------------------------------------------------------- */

static float load_scale(const vo_view *v, const void *scales, int64_t index) {
    size_t width = (size_t)vo_dtype_get_info(v->scale_dtype)->block_bytes;
    return load_scalar(v->scale_dtype, (const uint8_t *)scales + width * (size_t)index);
}

static void divide_row(const vo_view *v, int64_t row, int64_t cols, float *y) {
    float scale = load_scale(v, v->scales, v->dtype == VO_ROWSCALED_I8 ? row : 0);
    plain_rows(v, row * cols, cols, y);
    for (int64_t i = 0; i < cols; i++) y[i] /= scale;
}

/* One row of MLX's affine form. For all widths the row is one stream of bits, lowest first: the
 * u32 lanes of 2, 4 and 8 bits and the byte groups of 3, 5 and 6 bits come to the same. */
static void affine_row(const vo_view *v, int64_t row, int64_t cols, float *y) {
    size_t row_bytes = (size_t)cols / 8 * (size_t)v->bits;
    const uint8_t *p = (const uint8_t *)v->data + row_bytes * (size_t)row;
    int64_t groups = cols / v->group_size;
    unsigned mask = (1u << v->bits) - 1;
    for (int64_t g = 0; g < groups; g++) {
        float scale = load_scale(v, v->scales, row * groups + g);
        float bias = load_scale(v, v->biases, row * groups + g);
        for (int64_t k = g * v->group_size; k < (g + 1) * v->group_size; k++) {
            size_t bit = (size_t)k * (size_t)v->bits, byte = bit / 8;
            unsigned word = p[byte];
            if (byte + 1 < row_bytes) word |= (unsigned)p[byte + 1] << 8;
            y[k] = scale * (float)(word >> bit % 8 & mask) + bias;
        }
    }
}

/* ---- the door --------------------------------------------------------------------------- */

/* What a view must hold for the loops above to stay inside it. */
static bool check_view(const vo_view *v, int64_t rows, int64_t cols) {
    size_t bytes;
    bool scaled = v->dtype == VO_ROWSCALED_I8 || v->dtype == VO_SCALED_I16;
    if (scaled && v->scales == NULL) return false;
    if (v->dtype != VO_AFFINE)
        return vo_dtype_bytes(v->dtype, v->shape, v->rank, &bytes) && bytes <= v->bytes;
    if (v->bits < 2 || v->bits > 8 || v->group_size <= 0 || cols % v->group_size != 0 ||
        cols % 32 != 0 || v->scales == NULL || v->biases == NULL)
        return false;
    return vo_mul_size((size_t)cols / 8 * (size_t)v->bits, (size_t)rows, &bytes) &&
           bytes <= v->bytes;
}

vo_status vo_dequantize_rows(const vo_view *view, int64_t row0, int64_t rows, float *out,
                             vo_error *err) {
    int64_t elements = vo_view_elements(view);
    int64_t all_rows = view->rank > 1 ? view->shape[0] : 1;
    int64_t cols = all_rows > 0 ? elements / all_rows : 0;
    if (row0 < 0 || rows < 0 || row0 > all_rows || rows > all_rows - row0)
        return vo_fail(err, VO_ERR_ARGUMENT, "%s has %lld rows, not %lld from %lld on", view->name,
                       (long long)all_rows, (long long)rows, (long long)row0);
    if (!check_view(view, all_rows, cols))
        return vo_fail(err, VO_ERR_ARGUMENT, "%s: a view of type %s that contradicts itself",
                       view->name, vo_dtype_get_info(view->dtype)->name);
    block_fn fn = find_block_fn(view->dtype);
    if (fn != NULL) {
        const vo_dtype_info *info = vo_dtype_get_info(view->dtype);
        int64_t n = rows * cols / info->block_elements;
        const uint8_t *p = view->data;
        p += (size_t)(row0 * cols / info->block_elements) * (size_t)info->block_bytes;
        for (int64_t i = 0; i < n; i++)
            fn(p + (size_t)i * (size_t)info->block_bytes, out + i * info->block_elements);
        return VO_OK;
    }
    if (view->dtype == VO_AFFINE) {
        for (int64_t r = 0; r < rows; r++) affine_row(view, row0 + r, cols, out + r * cols);
    } else if (view->dtype == VO_ROWSCALED_I8 || view->dtype == VO_SCALED_I16) {
        /* a vector is one row to the caller, but each of its elements has a scale of its own */
        bool vector = view->dtype == VO_ROWSCALED_I8 && view->rank == 1;
        int64_t width = vector ? 1 : cols, n = vector ? cols * rows : rows;
        for (int64_t r = 0; r < n; r++) divide_row(view, row0 + r, width, out + r * width);
    } else {
        plain_rows(view, row0 * cols, rows * cols, out);
    }
    return VO_OK;
}
