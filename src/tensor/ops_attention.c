/* SPDX-License-Identifier: MIT
 *
 * Fronts of attention: whole windows (encoder), caches (decoder), and the fallback in simple
 * ops that defines what the fused op must give.
 */
#include "tensor/record.h"

static bool same_shape(const vo_array *a, const vo_array *b) {
    return a->dtype == VO_F32 && b->dtype == VO_F32 && a->rank == 2 && b->rank == 2 &&
           a->shape[1] == b->shape[1] && vo_same_rows(a, b);
}

vo_array *vo_attention(vo_graph *graph, vo_array *q, vo_array *k, vo_array *v, int heads,
                       int64_t window, float scale) {
    if (!q || !k || !v) return NULL;
    bool fits = same_shape(q, k) && same_shape(q, v) && heads > 0 && q->shape[1] % heads == 0 &&
                window > 0 && q->shape[0] % window == 0 &&
                (q->rows_param < 0 || q->rows_unit % window == 0);
    if (!vo_check(graph, fits, "attention", "q, k, v, heads or window do not fit")) return NULL;
    vo_shape s = vo_shape_like(q);
    vo_array *in[] = {q, k, v};
    vo_array *node = vo_record(graph, VO_OP_attention, &s, in, 3);
    if (!node) return NULL;
    node->attr.heads = heads;
    node->attr.window = window;
    node->attr.scale = scale;
    return node;
}

vo_array *vo_attention_fallback(vo_graph *graph, vo_array *q, vo_array *k, vo_array *v, int heads,
                                float scale) {
    if (!q || !k || !v) return NULL;
    bool fits = same_shape(q, k) && same_shape(q, v) && heads > 0 && q->shape[1] % heads == 0;
    if (!vo_check(graph, fits, "attention", "q, k, v or heads do not fit")) return NULL;
    int64_t hd = q->shape[1] / heads;
    vo_array *out = NULL;
    for (int h = 0; h < heads; h++) {
        vo_array *qh = vo_columns(graph, q, h * hd, hd);
        vo_array *kh = vo_columns(graph, k, h * hd, hd);
        vo_array *vh = vo_columns(graph, v, h * hd, hd);
        vo_array *p = vo_softmax(graph, vo_scale(graph, vo_matmul(graph, qh, kh, true), scale));
        vo_array *head = vo_matmul(graph, p, vh, false);
        out = out ? vo_concat(graph, out, head) : head;
    }
    return out;
}

static bool is_cache(const vo_array *c) {
    return c->rank == 3 && (c->dtype == VO_F32 || c->dtype == VO_F16 || c->dtype == VO_I8) &&
           (c->op == VO_OP_STATE || c->op == VO_OP_kv_store);
}
static bool is_ids(const vo_array *x) {
    return x->dtype == VO_I32 && x->rank == 1;
}

vo_array *vo_kv_store(vo_graph *graph, vo_array *cache, vo_array *x, vo_array *slots) {
    if (!cache || !x || !slots) return NULL;
    bool fits = is_cache(cache) && x->dtype == VO_F32 && x->rank == 2 && is_ids(slots) &&
                x->shape[1] == cache->shape[0] * cache->shape[2] && vo_same_rows(x, slots);
    if (!vo_check(graph, fits, "kv_store", "rows do not fit the cache")) return NULL;
    vo_shape s = vo_shape_like(cache);
    vo_array *in[] = {cache, x, slots};
    return vo_record(graph, VO_OP_kv_store, &s, in, 3);
}

vo_array *vo_attention_cached(vo_graph *graph, vo_array *q, vo_array *k, vo_array *v,
                              vo_array *table, vo_array *seq, vo_array *len, int64_t max_length,
                              float scale) {
    if (!q || !k || !v || !seq || !len) return NULL;
    bool fits = is_cache(k) && is_cache(v) && k->dtype == v->dtype && k->shape[1] == v->shape[1] &&
                q->rank == 2 && q->dtype == VO_F32 && q->shape[1] == k->shape[0] * k->shape[2] &&
                is_ids(seq) && is_ids(len) && vo_same_rows(seq, q) && vo_same_rows(len, q) &&
                (!table || table->dtype == VO_I32) && max_length > 0;
    if (!vo_check(graph, fits, "attention_cached", "queries and caches do not fit")) return NULL;
    vo_shape s = vo_shape_like(q);
    vo_array *in[] = {q, k, v, seq, len, table};
    vo_array *node = vo_record(graph, VO_OP_attention_cached, &s, in, 6);
    if (!node) return NULL;
    node->attr.heads = (int)k->shape[0];
    node->attr.slots = k->shape[1];
    node->attr.max_length = max_length;
    node->attr.scale = scale;
    return node;
}

vo_array *vo_attention_weights(vo_graph *graph, vo_array *q, vo_array *k, int head, vo_array *seq,
                               vo_array *len, int64_t max_length, float scale) {
    if (!q || !k || !seq || !len) return NULL;
    bool fits = is_cache(k) && q->rank == 2 && q->dtype == VO_F32 &&
                q->shape[1] == k->shape[0] * k->shape[2] && head >= 0 && head < k->shape[0] &&
                is_ids(seq) && is_ids(len) && vo_same_rows(seq, q) && vo_same_rows(len, q) &&
                max_length > 0 && max_length <= k->shape[1];
    if (!vo_check(graph, fits, "attention_weights", "queries, cache or head do not fit"))
        return NULL;
    vo_shape s = vo_shape_rows(q, max_length);
    vo_array *in[] = {q, k, seq, len};
    vo_array *node = vo_record(graph, VO_OP_attention_weights, &s, in, 4);
    if (!node) return NULL;
    node->attr.head = head;
    node->attr.scale = scale;
    return node;
}
