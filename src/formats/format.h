/* SPDX-License-Identifier: MIT
 *
 * Weight files as views: name, dtype, shape, pointer into the map. One file per format, one
 * vtable each, recognised by content. Everything a file says is checked before use; damaged
 * files give a sentence with file, offset and reason.
 */
#ifndef VO_FORMATS_FORMAT_H
#define VO_FORMATS_FORMAT_H

#include "base/dtype.h"
#include "base/file.h"

typedef struct vo_weights vo_weights;

/* Which naming and layout the file follows: what weight binding switches on. */
typedef enum vo_layout {
    VO_LAYOUT_UNKNOWN,
    VO_LAYOUT_HUGGINGFACE, /* safetensors, model.encoder.layers.0.self_attn.q_proj.weight */
    VO_LAYOUT_MLX,         /* safetensors, encoder.blocks.0.attn.query.weight, convs [out,k,in] */
    VO_LAYOUT_OPENAI,      /* the same names, convs [out,in,k] (ggml, converted .pt) */
    VO_LAYOUT_CTRANSLATE2, /* encoder/layer_0/self_attention/linear_0/weight */
    VO_LAYOUT_SILERO       /* safetensors of the voice activity detector */
} vo_layout;

/* Opens a model: a folder (model.safetensors, its sharded index, weights.safetensors, model.bin)
 * or one weight file. Nothing is copied: views point into the maps until vo_weights_close. */
vo_status vo_weights_open(const char *path, vo_weights **weights, vo_error *err);
/* The same from bytes in memory that outlive the object (fuzzing, embedded weights). `name` is for
 * error sentences. */
vo_status vo_weights_open_memory(const void *data, size_t size, const char *name,
                                 vo_weights **weights, vo_error *err);
void vo_weights_close(vo_weights *weights);

const char *vo_weights_format(const vo_weights *weights); /* "safetensors", "ctranslate2", "ggml" */
vo_layout vo_weights_layout(const vo_weights *weights);
size_t vo_weights_count(const vo_weights *weights);
const vo_view *vo_weights_at(const vo_weights *weights, size_t index);
/* Hash look-up; NULL when absent. Aliases (tied tensors) resolve. Quantised tensors are
 * already joined with their scales into one logical view [out][in]. */
const vo_view *vo_weights_find(const vo_weights *weights, const char *name);
/* Integer and string facts from the header or a metadata block, e.g. ggml's "n_vocab". */
bool vo_weights_integer(const vo_weights *weights, const char *key, int64_t *value);
const char *vo_weights_string(const vo_weights *weights, const char *key);
/* Path of the folder the weights came from (config.json and vocabulary lie there), or NULL. */
const char *vo_weights_folder(const vo_weights *weights);
/* Byte-level vocabulary stored in the file itself (ggml), or NULL: count entries of bytes. */
size_t vo_weights_vocabulary(const vo_weights *weights, const char *const **tokens,
                             const uint32_t **lengths);
/* The bytes of a view were packed elsewhere and may leave memory (they stay mapped). */
void vo_weights_forget(const vo_weights *weights, const vo_view *view);

/* The vtable of one format. `read` parses data[0..size) and calls the builder in weights.h. */
typedef struct vo_weight_format {
    const char *name;
    bool (*matches)(const unsigned char *data, size_t size);
    vo_status (*read)(vo_weights *weights, const unsigned char *data, size_t size,
                      const char *file_name, vo_error *err);
    /* Runs once, after the last file of a model was read: joins quantised tensors with their
     * scales and names the layout. NULL where there is nothing to do. */
    vo_status (*finish)(vo_weights *weights, vo_error *err);
} vo_weight_format;
extern const vo_weight_format vo_weight_format_safetensors, vo_weight_format_ctranslate2,
    vo_weight_format_ggml;

#endif
