/* SPDX-License-Identifier: MIT
 *
 * Whisper (Radford et al. 2022): an encoder over log-mel windows and a decoder over text
 * tokens. The model is immutable and shared; a state is one mutable set of caches and plans
 * and belongs to one thread at a time. docs/models/whisper.md describes the network.
 */
#ifndef VO_MODELS_WHISPER_WHISPER_H
#define VO_MODELS_WHISPER_WHISPER_H

#include "formats/format.h"
#include "nn/kv.h"
#include "nn/nn.h"
#include "tensor/plan.h"

/* Sizes, all read from the file. */
typedef struct vo_whisper_dims {
    int n_mels, n_audio_ctx, n_audio_state, n_audio_head, n_audio_layer;
    int n_vocab, n_text_ctx, n_text_state, n_text_head, n_text_layer;
} vo_whisper_dims;

enum { VO_WHISPER_MAX_LAYERS = 64 };

typedef struct vo_whisper_attention {
    vo_nn_norm norm;
    vo_nn_linear query; /* cross-attention only: [d, d] */
    vo_nn_linear qkv;   /* self: query, key, value stacked [3d, d]; cross: key, value [2d, d] */
    vo_nn_linear out;   /* [d, d] */
} vo_whisper_attention;

typedef struct vo_whisper_block {
    vo_whisper_attention self, cross; /* cross: decoder only */
    vo_nn_norm mlp_norm;
    vo_nn_mlp mlp;
} vo_whisper_block;

typedef struct vo_whisper {
    vo_whisper_dims dims;
    vo_compute compute; /* of every product; f32 after loading, may be set before the first state */
    vo_observer observer; /* of every plan; none after loading, may be set before the first state */
    vo_nn_conv conv1, conv2;    /* [d, 3, n_mels], [d, 3, d] */
    vo_weight *audio_positions; /* [n_audio_ctx, d] */
    vo_nn_norm audio_norm;      /* after the last encoder block */
    vo_weight *token_embedding; /* [n_vocab, d], also the output matrix */
    vo_weight *text_positions;  /* [n_text_ctx, d] */
    vo_nn_norm text_norm;
    vo_whisper_block *encoder, *decoder; /* [n_audio_layer], [n_text_layer] */
    int64_t *alignment_heads; /* [n_alignment_heads][2], layer and head: cross-attention there
                                 follows the audio */
    int n_alignment_heads;
    vo_weights *file; /* owned: views point into its maps */
    vo_weight **all;  /* every weight, for destruction */
    int n_all;
} vo_whisper;

/* Loads a model of any supported layout. Takes `weights` over, also on failure. */
vo_status vo_whisper_load(vo_weights *weights, vo_whisper **model, vo_error *err);
void vo_whisper_destroy(vo_whisper *model);
/* Sizes only; VO_ERR_FORMAT when the weights are not those of a Whisper. */
vo_status vo_whisper_read_dims(const vo_weights *weights, vo_whisper_dims *dims, vo_error *err);

/* forward.c: records the network. mel [windows * 2 * n_audio_ctx, n_mels] -> [windows *
 * n_audio_ctx, d] */
vo_array *vo_whisper_encoder(vo_graph *graph, const vo_whisper *model, vo_array *mel);

/* What the decoder reads besides tokens. */
typedef struct vo_whisper_text_inputs {
    vo_array *tokens, *positions;    /* int32 [n] */
    vo_array *slots;                 /* int32 [n]: where each token's key and value go */
    vo_array *row, *length;          /* int32 [n]: cache row, and positions that it sees */
    vo_array *window, *audio_length; /* int32 [n]: audio window, and frames that it sees */
    vo_array *table;                 /* int32: the self cache's slot table */
    vo_array *picked;                /* int32 [m]: which of the n get logits */
    int64_t max_length;
    vo_array *heard; /* int32 [windows * n_audio_ctx]: slots of the audio positions that a window
                        stands for; NULL: its own, from the first on */
    vo_array *seen;  /* int32 [n]: audio positions that weights count; NULL: nobody wants any */
    vo_array *
        *weights; /* [n_alignment_heads] results: [n, n_audio_ctx], see vo_attention_weights */
} vo_whisper_text_inputs;
/* -> logits [m, n_vocab] */
vo_array *vo_whisper_decoder(vo_graph *graph, const vo_whisper *model, vo_kv *self, vo_kv *cross,
                             const vo_whisper_text_inputs *in);
/* Keys and values of every decoder layer for audio [windows * n_audio_ctx, d], stored at slots
 * int32; outputs[2 * layer], [2 * layer + 1] are the written caches. */
void vo_whisper_cross_store(vo_graph *graph, const vo_whisper *model, vo_kv *cross, vo_array *audio,
                            vo_array *slots, vo_array **outputs);

/* ---- one mutable set of caches and plans ---------------------------------------------------- */

typedef struct vo_whisper_state vo_whisper_state;

enum { VO_WHISPER_MAX_ROWS = 256, VO_WHISPER_MAX_AHEAD = 16 };

typedef struct vo_whisper_state_params {
    int rows;    /* token sequences at once: beams or samples */
    int windows; /* audio windows held at once */
    int ahead;   /* logits that a step may give for each window besides one for each row */
    /* A state of a model with the same sizes, whose audio windows this one listens to: it has none
     * of its own and cannot encode. It must outlive this one. NULL: its own */
    struct vo_whisper_state *heard;
} vo_whisper_state_params;

vo_status vo_whisper_state_create(const vo_whisper *model, const vo_runtime *runtime,
                                  vo_whisper_state_params params, vo_whisper_state **state,
                                  vo_error *err);
void vo_whisper_state_destroy(vo_whisper_state *state);
bool vo_whisper_same_dims(const vo_whisper *a, const vo_whisper *b);

/* Where to write one window of mel, [2 * n_audio_ctx][n_mels], before each vo_whisper_encode. */
float *vo_whisper_mel(vo_whisper_state *state);
/* Encodes that window and stores its keys and values as audio window `window`. */
vo_status vo_whisper_encode(vo_whisper_state *state, int window, vo_error *err);
/* The encoder's output of the last vo_whisper_encode: [n_audio_ctx][d], borrowed. */
const float *vo_whisper_audio(const vo_whisper_state *state);

/* Tokens to append to a row that listens to an audio window. */
typedef struct vo_whisper_feed {
    int row, window;
    int n_tokens;
    const int32_t *tokens; /* checked against the vocabulary */
    int n_logits;          /* after how many of its last tokens logits are wanted; 0: 1 */
} vo_whisper_feed;
/* Runs the decoder; *logits are those wanted, [n_vocab] each, one feed's after the other's,
 * borrowed until the next call. Allocates nothing. */
vo_status vo_whisper_step(vo_whisper_state *state, const vo_whisper_feed *feeds, int n_feeds,
                          float *const **logits, vo_error *err);
vo_kv *vo_whisper_cache(vo_whisper_state *state); /* rows: fork, truncate */

/* align.c: one pass of the decoder over a text that is known. */
typedef struct vo_whisper_alignment {
    vo_whisper_feed feed; /* tokens from the start token on; its row is empty before and after */
    int n_seen;           /* audio positions to spread weights over, from the first on */
    int first, n_scored;  /* tokens [first, first + n_scored) get probabilities; first > 0 */
    int n_text_ids;       /* among ids below this */
    /* results, in memory of the caller */
    float *weights;       /* [n_alignment_heads][n_tokens][n_seen] */
    float *probabilities; /* [n_scored]: of each token after those before it */
} vo_whisper_alignment;
/* The first call makes a plan of its own. The result does not depend on anything else that the
 * state holds. */
vo_status vo_whisper_align(vo_whisper_state *state, const vo_whisper_alignment *job, vo_error *err);

/* Audio positions [from, from + count) of a window. */
typedef struct vo_whisper_positions {
    int from, count;
} vo_whisper_positions;

enum { VO_WHISPER_MAX_PARTS = 16 };

/* listen.c: the logits after one token at the beginning of a text when only that part of a window
 * is listened to, for each of n parts: [n], [n_vocab] each, borrowed until the next call. Rows are
 * not touched. The first call makes a plan of its own. */
vo_status vo_whisper_listen(vo_whisper_state *state, int window, int32_t token,
                            const vo_whisper_positions *parts, int n, const float *const **logits,
                            vo_error *err);

/* Bytes that a step of the decoder reads at least: its matrices, and the keys and values of as many
 * windows. */
int64_t vo_whisper_step_bytes(const vo_whisper_state *state, int windows);

#endif
