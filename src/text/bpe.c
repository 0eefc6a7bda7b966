/* SPDX-License-Identifier: MIT
 *
 * Byte-pair encoding (Sennrich et al. 2016, section 3.2; on bytes as in GPT-2): of all adjacent
 * pairs whose joined bytes are a token, the one of lowest rank is merged, the leftmost first. The
 * parts are a linked list over the text and the candidate pairs a heap, so that a piece of n
 * bytes takes O(n log n); entries that a merge made stale are recognised when they surface.
 */
#include "text/bpe.h"

#include "base/memory.h"

#include <string.h>

#define NO_RANK UINT32_MAX

static uint32_t hash_bytes(const char *bytes, size_t size) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, then a mix because the low bits choose the slot */
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return (uint32_t)(h ^ (h >> 32) ^ (h >> 17));
}

const char *vo_bpe_token(const vo_bpe *bpe, int32_t id, size_t *size) {
    if (size) *size = 0;
    if (id < 0 || id >= bpe->n_tokens) return "";
    if (size) *size = bpe->offsets[id + 1] - bpe->offsets[id] - 1;
    return bpe->bytes + bpe->offsets[id];
}

int32_t vo_bpe_rank(const vo_bpe *bpe, const char *bytes, size_t size) {
    if (size == 0 || size > bpe->longest) return -1;
    for (uint32_t slot = hash_bytes(bytes, size) & bpe->table_mask; bpe->table[slot];
         slot = (slot + 1) & bpe->table_mask) {
        int32_t rank = (int32_t)bpe->table[slot] - 1;
        size_t length;
        const char *token = vo_bpe_token(bpe, rank, &length);
        if (length == size && memcmp(token, bytes, size) == 0) return rank;
    }
    return -1;
}

/* Values of the base64 alphabet, -1 elsewhere. */
static void fill_base64(signed char values[256]) {
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    memset(values, -1, 256);
    for (int i = 0; i < 64; i++) values[(unsigned char)alphabet[i]] = (signed char)i;
}

/* Decodes up to the first character outside the alphabet, then skips padding. */
static const char *decode_base64(const signed char values[256], const char *p, const char *end,
                                 char *out, size_t *size) {
    uint32_t word = 0;
    int bits = 0;
    *size = 0;
    for (; p < end && values[(unsigned char)*p] >= 0; p++) {
        word = (word << 6) | (uint32_t)values[(unsigned char)*p];
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[(*size)++] = (char)(word >> bits);
        }
    }
    while (p < end && *p == '=') p++;
    return p;
}

static void end_token(vo_bpe *bpe, size_t length) {
    bpe->size += length;
    bpe->bytes[bpe->size++] = '\0';
    bpe->offsets[++bpe->n_tokens] = (uint32_t)bpe->size;
}

/* Parses one "base64 rank" line at p; NULL when it is something else. */
static const char *load_line(vo_bpe *bpe, const signed char values[256], const char *p,
                             const char *end) {
    size_t length;
    /* Base64 is longer than what it holds, so with the NUL a token still fits `capacity`. */
    p = decode_base64(values, p, end, bpe->bytes + bpe->size, &length);
    if (p >= end || *p++ != ' ') return NULL;
    int32_t rank = 0;
    const char *digits = p;
    for (; p < end && *p >= '0' && *p <= '9' && rank < 10000000; p++) rank = rank * 10 + (*p - '0');
    if (p == digits || rank != bpe->n_tokens || p >= end || *p++ != '\n') return NULL;
    if (length > bpe->longest) bpe->longest = length;
    end_token(bpe, length);
    return p;
}

static void fill_table(vo_bpe *bpe) {
    for (int32_t id = 0; id < bpe->n_ranks; id++) {
        size_t length;
        const char *token = vo_bpe_token(bpe, id, &length);
        if (length == 0) continue;
        uint32_t slot = hash_bytes(token, length) & bpe->table_mask;
        while (bpe->table[slot]) slot = (slot + 1) & bpe->table_mask;
        bpe->table[slot] = (uint32_t)id + 1;
    }
}

#define SPECIAL_BYTES 32 /* room for one special token */

vo_status vo_bpe_load(vo_bpe *bpe, const char *file, size_t size, int32_t n_special,
                      vo_error *err) {
    memset(bpe, 0, sizeof *bpe);
    if (size > (1u << 28) || n_special < 0 || n_special > (1 << 20))
        return vo_fail(err, VO_ERR_LIMIT, "The vocabulary is too large.");
    int32_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += file[i] == '\n';
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)lines) slots *= 2;

    vo_status status = VO_ERR_MEMORY;
    bpe->capacity = size + (size_t)n_special * SPECIAL_BYTES;
    bpe->token_capacity = lines + n_special;
    bpe->table_mask = slots - 1;
    bpe->bytes = vo_alloc_uninitialized(bpe->capacity);
    bpe->offsets = vo_alloc_array((size_t)bpe->token_capacity + 1, sizeof bpe->offsets[0]);
    bpe->table = vo_alloc_array(slots, sizeof bpe->table[0]);
    if (!bpe->bytes || !bpe->offsets || !bpe->table) {
        vo_fail(err, status, "Out of memory while reading a vocabulary.");
        goto fail;
    }
    signed char values[256];
    fill_base64(values);
    for (const char *p = file, *end = file + size; p < end;) {
        p = load_line(bpe, values, p, end);
        if (!p) {
            status = vo_fail(err, VO_ERR_FORMAT, "Line %d of the vocabulary is damaged.",
                             (int)bpe->n_tokens + 1);
            goto fail;
        }
    }
    bpe->n_ranks = bpe->n_tokens;
    fill_table(bpe);
    return VO_OK;
fail:
    vo_bpe_free(bpe);
    return status;
}

bool vo_bpe_add_special(vo_bpe *bpe, const char *text) {
    size_t length = strlen(text);
    if (bpe->n_tokens >= bpe->token_capacity || bpe->capacity - bpe->size < length + 1)
        return false;
    memcpy(bpe->bytes + bpe->size, text, length);
    end_token(bpe, length);
    return true;
}

void vo_bpe_free(vo_bpe *bpe) {
    vo_free(bpe->offsets);
    vo_free(bpe->bytes);
    vo_free(bpe->table);
    memset(bpe, 0, sizeof *bpe);
}

void vo_bpe_scratch_free(vo_bpe_scratch *scratch) {
    vo_free(scratch->memory);
    memset(scratch, 0, sizeof *scratch);
}

/* A part is named by the byte where it begins; it ends where the next one begins. */
typedef struct parts {
    uint64_t *heap; /* rank << 32 | part: the smallest is the lowest rank, then the leftmost */
    size_t heap_size;
    uint32_t *next; /* [size + 1] */
    uint32_t *prev; /* [size + 1]; part 0 has none */
    uint32_t *rank; /* [size] of a part joined with the next, NO_RANK when that is no token */
} parts;

/* A merge removes one pair and offers two, so at most 3 * size entries are ever pushed. */
static bool reserve(vo_bpe_scratch *scratch, size_t size, parts *p) {
    if (size > scratch->capacity) {
        size_t bytes, capacity = size + size / 2 + 64;
        if (!vo_mul_size(capacity, 3 * sizeof(uint64_t) + 3 * sizeof(uint32_t), &bytes) ||
            !vo_add_size(bytes, 64, &bytes))
            return false;
        vo_free(scratch->memory);
        scratch->capacity = 0;
        scratch->memory = vo_alloc_uninitialized(bytes);
        if (!scratch->memory) return false;
        scratch->capacity = capacity;
    }
    p->heap = scratch->memory;
    p->heap_size = 0;
    p->next = (uint32_t *)(void *)(p->heap + 3 * size);
    p->prev = p->next + size + 1;
    p->rank = p->prev + size + 1;
    return true;
}

static void heap_push(parts *p, uint64_t key) {
    size_t i = p->heap_size++;
    while (i > 0 && p->heap[(i - 1) / 2] > key) {
        p->heap[i] = p->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    p->heap[i] = key;
}

static uint64_t heap_pop(parts *p) {
    uint64_t top = p->heap[0], last = p->heap[--p->heap_size];
    size_t i = 0, child;
    while ((child = 2 * i + 1) < p->heap_size) {
        if (child + 1 < p->heap_size && p->heap[child + 1] < p->heap[child]) child++;
        if (p->heap[child] >= last) break;
        p->heap[i] = p->heap[child];
        i = child;
    }
    p->heap[i] = last;
    return top;
}

/* Looks up the pair (part, next part) and offers it if it is a token. */
static void offer_pair(const vo_bpe *bpe, parts *p, const char *piece, size_t size, uint32_t part) {
    p->rank[part] = NO_RANK;
    uint32_t right = p->next[part];
    if (right >= size) return;
    int32_t rank = vo_bpe_rank(bpe, piece + part, p->next[right] - part);
    if (rank < 0) return;
    p->rank[part] = (uint32_t)rank;
    heap_push(p, (uint64_t)rank << 32 | part);
}

static void merge_all(const vo_bpe *bpe, parts *p, const char *piece, size_t size) {
    while (p->heap_size > 0) {
        uint64_t top = heap_pop(p);
        uint32_t part = (uint32_t)top;
        if (p->rank[part] != (uint32_t)(top >> 32)) continue; /* stale */
        uint32_t right = p->next[part];
        p->rank[right] = NO_RANK;
        p->next[part] = p->next[right];
        p->prev[p->next[part]] = part;
        offer_pair(bpe, p, piece, size, part);
        if (part > 0) offer_pair(bpe, p, piece, size, p->prev[part]);
    }
}

vo_status vo_bpe_encode(const vo_bpe *bpe, const char *piece, size_t size, vo_bpe_scratch *scratch,
                        int32_t *ids, int *n_ids, vo_error *err) {
    *n_ids = 0;
    int32_t whole = vo_bpe_rank(bpe, piece, size);
    if (whole >= 0) {
        ids[(*n_ids)++] = whole;
        return VO_OK;
    }
    parts p;
    if (!reserve(scratch, size, &p))
        return vo_fail(err, VO_ERR_MEMORY, "Out of memory while encoding %zu bytes of text.", size);
    for (uint32_t i = 0; i <= size; i++) {
        p.next[i] = i + 1;
        p.prev[i] = i - 1;
    }
    for (uint32_t i = 0; i < size; i++) offer_pair(bpe, &p, piece, size, i);
    merge_all(bpe, &p, piece, size);
    for (uint32_t i = 0; i < size; i = p.next[i]) {
        int32_t rank = vo_bpe_rank(bpe, piece + i, p.next[i] - i);
        if (rank < 0) return vo_fail(err, VO_ERR_INTERNAL, "The vocabulary lacks a single byte.");
        ids[(*n_ids)++] = rank;
    }
    return VO_OK;
}
