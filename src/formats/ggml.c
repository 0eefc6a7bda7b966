/* SPDX-License-Identifier: MIT
 *
 * whisper.cpp's model files (ggml-base.bin, ggml-base-q5_1.bin): a header of integers, mel
 * filters, the vocabulary, then tensors until the file ends. Little-endian, nothing aligned.
 *
 *   u32 magic; i32 n_vocab ... ftype; i32 n_mel, n_fft, f32 filters[n_mel*n_fft]
 *   i32 n_tokens, n_tokens x { u32 length, bytes }
 *   { i32 n_dims, name_length, type; i32 ne[n_dims]; name; data }   ne[0] is the fastest
 *
 * Nothing tells how many tensors there should be: a file that was cut between two of them parses,
 * and weight binding misses the rest. Voice activity files of the same project ("silero-16k")
 * are read too, under their own names and with layout VO_LAYOUT_SILERO.
 */
#include "formats/weights.h"

#include "base/memory.h"

#include <string.h>

enum { MAX_HEADER_VALUE = 1 << 24, QUANTISATION_VERSION = 2, FTYPE_FACTOR = 1000 };

static const unsigned char magic[4] = {'l', 'm', 'g', 'g'};
static const char silero_name[] = "silero-16k";

static bool matches(const unsigned char *data, size_t size) {
    return size >= 8 && memcmp(data, magic, 4) == 0;
}

/* ggml_type numbers; the gaps are types that were removed or that never met Whisper. */
static bool find_dtype(uint32_t type, vo_dtype *dtype) {
    static const struct {
        uint32_t type;
        vo_dtype dtype;
    } known[] = {{0, VO_F32},   {1, VO_F16},   {2, VO_Q4_0},  {3, VO_Q4_1},  {6, VO_Q5_0},
                 {7, VO_Q5_1},  {8, VO_Q8_0},  {10, VO_Q2_K}, {11, VO_Q3_K}, {12, VO_Q4_K},
                 {13, VO_Q5_K}, {14, VO_Q6_K}, {30, VO_BF16}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].type == type) {
            *dtype = known[i].dtype;
            return true;
        }
    }
    return false;
}

/* A header integer in 1..2^24 (0 allowed for ftype), kept under its name. */
static vo_status read_integer(vo_weights *w, vo_cursor *c, const char *key, uint32_t smallest,
                              uint32_t *value, vo_error *err) {
    size_t at = c->at;
    vo_status status = vo_cursor_u32(c, value, key, err);
    if (status != VO_OK) return status;
    if (*value < smallest || *value > MAX_HEADER_VALUE)
        return vo_fail(err, VO_ERR_FORMAT, "%s: %s at byte %zu is %d", c->file_name, key, at,
                       (int)(int32_t)*value);
    return vo_weights_set_integer(w, key, *value, err);
}

/* Quantised blocks changed twice in early 2023; files from before are refused as whisper.cpp
 * refuses them. The type of each tensor is in the tensor's own header. */
static vo_status check_ftype(const vo_cursor *c, uint32_t ftype, vo_error *err) {
    bool quantised = ftype % FTYPE_FACTOR > 1;
    if (quantised && ftype / FTYPE_FACTOR != QUANTISATION_VERSION)
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s: quantised with an old layout (ftype %u); quantise the model again with "
                       "a current whisper.cpp",
                       c->file_name, (unsigned)ftype);
    return VO_OK;
}

static vo_status read_filters(vo_weights *w, vo_cursor *c, vo_error *err) {
    uint32_t n_mel, n_fft;
    size_t count, bytes;
    vo_status status = read_integer(w, c, "filters_n_mel", 1, &n_mel, err);
    if (status == VO_OK) status = read_integer(w, c, "filters_n_fft", 1, &n_fft, err);
    if (status != VO_OK) return status;
    if (!vo_mul_size(n_mel, n_fft, &count) || !vo_mul_size(count, sizeof(float), &bytes))
        return vo_fail(err, VO_ERR_FORMAT, "%s: the mel filters are too large", c->file_name);
    return vo_cursor_take(c, bytes, "the mel filters", err) != NULL ? VO_OK : VO_ERR_FORMAT;
}

static vo_status read_vocabulary(vo_weights *w, vo_cursor *c, vo_error *err) {
    uint32_t n;
    vo_status status = vo_cursor_u32(c, &n, "the number of tokens", err);
    if (status != VO_OK) return status;
    /* each token takes at least its length field, so this bounds the allocation by the file */
    if (n > MAX_HEADER_VALUE || n > vo_cursor_left(c) / 4)
        return vo_fail(err, VO_ERR_FORMAT, "%s: %u tokens do not fit into the %zu bytes left",
                       c->file_name, (unsigned)n, vo_cursor_left(c));
    const char **tokens = vo_alloc_array((size_t)n + 1, sizeof *tokens);
    uint32_t *lengths = vo_alloc_array((size_t)n + 1, sizeof *lengths);
    if (tokens == NULL || lengths == NULL)
        status = vo_fail(err, VO_ERR_MEMORY, "%s: not enough memory for %u tokens", c->file_name,
                         (unsigned)n);
    for (uint32_t i = 0; status == VO_OK && i < n; i++) {
        status = vo_cursor_u32(c, &lengths[i], "a token's length", err);
        if (status != VO_OK) break;
        tokens[i] = (const char *)vo_cursor_take(c, lengths[i], "a token", err);
        if (tokens[i] == NULL) status = VO_ERR_FORMAT;
    }
    vo_weights_set_vocabulary(w, status == VO_OK ? n : 0, tokens, lengths);
    return status;
}

static vo_status read_whisper_header(vo_weights *w, vo_cursor *c, vo_error *err) {
    static const char *const keys[] = {
        "n_vocab",    "n_audio_ctx",  "n_audio_state", "n_audio_head", "n_audio_layer",
        "n_text_ctx", "n_text_state", "n_text_head",   "n_text_layer", "n_mels"};
    uint32_t value, ftype;
    vo_status status = VO_OK;
    for (size_t i = 0; status == VO_OK && i < sizeof keys / sizeof keys[0]; i++)
        status = read_integer(w, c, keys[i], 1, &value, err);
    if (status == VO_OK) status = read_integer(w, c, "ftype", 0, &ftype, err);
    if (status == VO_OK) status = check_ftype(c, ftype, err);
    if (status == VO_OK) status = read_filters(w, c, err);
    if (status == VO_OK) status = read_vocabulary(w, c, err);
    vo_weights_set_layout(w, VO_LAYOUT_OPENAI);
    return status;
}

/* { i32 length, "silero-16k"; i32 version[3], window, context; i32 n, n x { in, out, kernel };
 *   i32 lstm_in, lstm_hidden, final_in, final_out } */
static vo_status read_silero_header(vo_weights *w, vo_cursor *c, vo_error *err) {
    static const char *const keys[] = {"version_major", "version_minor", "version_patch", "window",
                                       "context"};
    uint32_t value, layers;
    vo_status status = VO_OK;
    if (vo_cursor_take(c, 4 + sizeof silero_name - 1, "the model's type", err) == NULL)
        return VO_ERR_FORMAT;
    status = vo_weights_set_string(w, "type", silero_name, sizeof silero_name - 1, err);
    for (size_t i = 0; status == VO_OK && i < sizeof keys / sizeof keys[0]; i++)
        status = read_integer(w, c, keys[i], 0, &value, err);
    if (status == VO_OK) status = read_integer(w, c, "n_encoder_layers", 1, &layers, err);
    if (status != VO_OK) return status;
    vo_weights_set_layout(w, VO_LAYOUT_SILERO);
    size_t bytes = (size_t)layers * 12 + 16;
    return vo_cursor_take(c, bytes, "the layer sizes", err) != NULL ? VO_OK : VO_ERR_FORMAT;
}

static bool is_silero(const vo_cursor *c) {
    static const unsigned char length[4] = {sizeof silero_name - 1, 0, 0, 0};
    const unsigned char *p = c->data + c->at;
    return vo_cursor_left(c) >= 4 + sizeof silero_name - 1 && memcmp(p, length, 4) == 0 &&
           memcmp(p + 4, silero_name, sizeof silero_name - 1) == 0;
}

static vo_status read_shape(vo_cursor *c, uint32_t n_dims, vo_view *view, vo_error *err) {
    uint32_t ne;
    view->rank = (int)n_dims;
    for (int i = view->rank - 1; i >= 0; i--) { /* ne[0] is the last axis */
        size_t at = c->at;
        vo_status status = vo_cursor_u32(c, &ne, "a tensor's shape", err);
        if (status != VO_OK) return status;
        if (ne == 0 || ne > INT32_MAX)
            return vo_fail(err, VO_ERR_FORMAT, "%s: a dimension at byte %zu is %d", c->file_name,
                           at, (int)(int32_t)ne);
        view->shape[i] = ne;
    }
    return VO_OK;
}

static vo_status read_tensor(vo_weights *w, vo_cursor *c, vo_error *err) {
    uint32_t n_dims, name_length, type;
    vo_view view = {0};
    size_t start = c->at;
    vo_status status = vo_cursor_u32(c, &n_dims, "a tensor's header", err);
    if (status == VO_OK) status = vo_cursor_u32(c, &name_length, "a tensor's header", err);
    if (status == VO_OK) status = vo_cursor_u32(c, &type, "a tensor's header", err);
    if (status != VO_OK) return status;
    if (n_dims > VO_MAX_DIMS)
        return vo_fail(err, VO_ERR_FORMAT, "%s: the tensor at byte %zu has %u dimensions",
                       c->file_name, start, (unsigned)n_dims);
    if (!find_dtype(type, &view.dtype))
        return vo_fail(err, VO_ERR_UNSUPPORTED,
                       "%s: the tensor at byte %zu has the unknown type %u", c->file_name, start,
                       (unsigned)type);
    status = read_shape(c, n_dims, &view, err);
    if (status != VO_OK) return status;
    const char *name = (const char *)vo_cursor_take(c, name_length, "a tensor's name", err);
    if (name == NULL) return VO_ERR_FORMAT;
    if (!vo_dtype_bytes(view.dtype, view.shape, view.rank, &view.bytes))
        return vo_fail(err, VO_ERR_FORMAT,
                       "%s: the shape of the tensor at byte %zu is impossible for its type",
                       c->file_name, start);
    view.data = vo_cursor_take(c, view.bytes, "a tensor's data", err);
    if (view.data == NULL) return VO_ERR_FORMAT;
    return vo_weights_add(w, name, name_length, &view, c->file_name, err);
}

static vo_status read_file(vo_weights *w, const unsigned char *data, size_t size,
                           const char *file_name, vo_error *err) {
    vo_cursor c = {data, size, sizeof magic, file_name};
    vo_status status =
        is_silero(&c) ? read_silero_header(w, &c, err) : read_whisper_header(w, &c, err);
    while (status == VO_OK && vo_cursor_left(&c) > 0) status = read_tensor(w, &c, err);
    return status;
}

const vo_weight_format vo_weight_format_ggml = {"ggml", matches, read_file, NULL};
