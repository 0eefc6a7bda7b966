/* SPDX-License-Identifier: MIT
 *
 * Byte-level BPE on a table of ranks: the vocabulary as one block of bytes with offsets, a hash
 * table from bytes to rank, and the merge loop.
 */
#ifndef VO_TEXT_BPE_H
#define VO_TEXT_BPE_H

#include "base/status.h"

typedef struct vo_bpe {
    int32_t n_ranks;   /* ids 0..n_ranks-1 take part in merges */
    int32_t n_tokens;  /* n_ranks plus the special tokens added behind them */
    uint32_t *offsets; /* [n_tokens + 1]: token i is bytes[offsets[i]..offsets[i+1]-1), then NUL */
    char *bytes;
    uint32_t *table; /* [table_mask + 1] open addressing: rank + 1, 0 = empty */
    uint32_t table_mask;
    size_t longest;        /* bytes of the longest token */
    size_t size, capacity; /* of bytes */
    int32_t token_capacity;
} vo_bpe;

/* Reads a .tiktoken file ("base64 rank" lines, ranks 0, 1, 2, ...) and leaves room for n_special
 * more tokens. On failure the object is freed. VO_ERR_FORMAT for anything else. */
vo_status vo_bpe_load(vo_bpe *bpe, const char *file, size_t size, int32_t n_special, vo_error *err);
/* Adds one token that takes no part in merges. False when there is no room. */
bool vo_bpe_add_special(vo_bpe *bpe, const char *text);
void vo_bpe_free(vo_bpe *bpe); /* zeroes it; a zeroed one is allowed */

/* Bytes of token id (NUL-terminated, may hold NULs); "" for ids that do not exist. */
const char *vo_bpe_token(const vo_bpe *bpe, int32_t id, size_t *size);

/* Rank of exactly these bytes, -1 if they are no token. */
int32_t vo_bpe_rank(const vo_bpe *bpe, const char *bytes, size_t size);

/* Working memory of the merge loop, reused from piece to piece. Zero-initialise. */
typedef struct vo_bpe_scratch {
    void *memory;
    size_t capacity; /* bytes of text that memory serves */
} vo_bpe_scratch;
void vo_bpe_scratch_free(vo_bpe_scratch *scratch);

/* Encodes one piece (0 < size <= INT32_MAX); ids has room for `size` ids. O(size log size). */
vo_status vo_bpe_encode(const vo_bpe *bpe, const char *piece, size_t size, vo_bpe_scratch *scratch,
                        int32_t *ids, int *n_ids, vo_error *err);

#endif
