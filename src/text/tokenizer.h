/* SPDX-License-Identifier: MIT
 *
 * Whisper's byte-level BPE (the GPT-2 scheme of tiktoken): text to ids and back, plus the
 * special ids, which follow from the vocabulary size alone (docs/models/whisper.md).
 */
#ifndef VO_TEXT_TOKENIZER_H
#define VO_TEXT_TOKENIZER_H

#include "base/status.h"

typedef struct vo_tokenizer vo_tokenizer;

/* Special ids of one Whisper vocabulary. */
typedef struct vo_whisper_ids {
    int32_t n_vocab;
    int32_t eot, sot, first_language, n_languages, translate, transcribe, sot_lm, sot_prev,
        no_speech, no_timestamps, timestamp_begin;
    bool multilingual;
} vo_whisper_ids;
/* VO_ERR_UNSUPPORTED for sizes below 51864. */
vo_status vo_whisper_ids_from_vocab(int32_t n_vocab, vo_whisper_ids *ids, vo_error *err);

/* The vocabularies are built in (gpt2 and multilingual); n_vocab chooses. Immutable. */
vo_status vo_tokenizer_create(int32_t n_vocab, vo_tokenizer **tokenizer, vo_error *err);
void vo_tokenizer_destroy(vo_tokenizer *tokenizer);
const vo_whisper_ids *vo_tokenizer_ids(const vo_tokenizer *tokenizer);

/* Ordinary text to ids (special tokens in the text are not recognised). ids is fresh memory
 * (vo_free). Text must be UTF-8; invalid bytes are encoded as bytes. Linear time. */
vo_status vo_tokenizer_encode(const vo_tokenizer *tokenizer, const char *text, size_t size,
                              int32_t **ids, int *n_ids, vo_error *err);
/* Bytes of one ordinary or special id (borrowed); timestamps give an empty string. */
const char *vo_tokenizer_token(const vo_tokenizer *tokenizer, int32_t id, size_t *size);
/* Text of ids below timestamp_begin, as the reference's tokenizer.decode: UTF-8, broken
 * sequences replaced. Fresh memory (vo_free). */
char *vo_tokenizer_decode(const vo_tokenizer *tokenizer, const int32_t *ids, int n_ids);

/* The same vocabulary as a tokenizer.json of Hugging Face's tokenizers, which other programs read:
 * fresh memory (vo_free), NULL when memory is short. */
char *vo_tokenizer_json(const vo_tokenizer *tokenizer);

/* The ids that "-1" in suppress_tokens stands for (non-speech symbols), ascending. */
const int32_t *vo_tokenizer_non_speech(const vo_tokenizer *tokenizer, int *n);

/* Languages: "en" or "English" or "ENGLISH" or an alias ("castilian") to an index; -1 if
 * unknown. */
enum { VO_MAX_LANGUAGES = 128 };
int vo_language_find(const char *name);
const char *vo_language_code(int index); /* "en", NULL out of range; 100 entries */
const char *vo_language_name(int index); /* "english" */

#endif
