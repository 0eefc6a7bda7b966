/* SPDX-License-Identifier: MIT
 *
 * Static KV caches. The storage is one block per layer and side, [heads, slots, hd], sized at
 * creation. A row (one token sequence) is a table that says in which slot each of its
 * positions lies; rows that share a past share slots. So append takes free slots, fork copies
 * a table, rewind and truncate give slots back: no key or value ever moves. Stored as f16 they are
 * half as much to read, which is most of what a step of the decoder does.
 */
#ifndef VO_NN_KV_H
#define VO_NN_KV_H

#include "tensor/graph.h"

typedef struct vo_kv vo_kv;

typedef struct vo_kv_params {
    int layers, heads, head_dim;
    int rows;       /* sequences that live at once */
    int max_length; /* positions per row */
    int slots;      /* positions stored in all; 0: rows * max_length */
    vo_dtype dtype; /* of keys and values: VO_F32, VO_F16, or VO_I8 with a scale per row */
} vo_kv_params;

vo_status vo_kv_create(vo_kv_params params, vo_kv **kv, vo_error *err);
void vo_kv_destroy(vo_kv *kv);

/* Storage as state arrays of a graph. */
vo_array *vo_kv_keys(vo_kv *kv, vo_graph *graph, int layer);
vo_array *vo_kv_values(vo_kv *kv, vo_graph *graph, int layer);

int vo_kv_slots(const vo_kv *kv);
int vo_kv_max_length(const vo_kv *kv);
int vo_kv_length(const vo_kv *kv, int row);
/* int32 [rows * max_length], row-major: what attention_cached takes as its table. */
const int32_t *vo_kv_table(const vo_kv *kv);
size_t vo_kv_table_entries(const vo_kv *kv);

/* Adds n positions to a row; slots[i] is where each is to be stored. VO_ERR_LIMIT when the
 * row or the cache is full; then nothing changed. Allocates nothing. */
vo_status vo_kv_append(vo_kv *kv, int row, int n, int32_t *slots, vo_error *err);
/* Among rows first .. first + rows - 1, counted from 0: row i becomes what row parents[i] was, for
 * i < n; rows >= n become empty. Other rows are not touched. */
vo_status vo_kv_fork(vo_kv *kv, int first, int rows, const int *parents, int n, vo_error *err);
/* Keeps the first `length` positions of a row. */
vo_status vo_kv_truncate(vo_kv *kv, int row, int length, vo_error *err);

#endif
