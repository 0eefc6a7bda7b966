/* SPDX-License-Identifier: MIT
 *
 * The trie of boosted phrases and the walk over it. Children of a node lie side by side in order
 * of their tokens, those of the root at 1, 2, ...
 */
#include "decode/boost.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* However many places of a window are plausible, only so many may pay: a bound on what a list can
 * do to one window. */
enum { MOST_PAID = 32 };

typedef struct node {
    int32_t token;
    int32_t first, n; /* children */
    float most;       /* largest budget of the phrases through here */
    float budget;     /* of the phrase that ends here; -1: none does */
} node;

struct vo_boost {
    node *nodes; /* [n_nodes], 0 is the root */
    int n_nodes, n_text, depth;
    uint8_t *kinds;
};

/* ---- building ------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const vo_boost_phrase *p = a, *q = b;
    int n = p->n < q->n ? p->n : q->n;
    for (int i = 0; i < n; i++)
        if (p->tokens[i] != q->tokens[i]) return p->tokens[i] < q->tokens[i] ? -1 : 1;
    return (p->n > q->n) - (p->n < q->n);
}

/* Phrases [low, high), sorted, have the first `depth` tokens in common: those of a node. */
typedef struct span {
    int low, high, depth;
} span;

/* Gives a node its budgets and appends its children. */
static void expand(vo_boost *b, const vo_boost_phrase *sorted, span *spans, int index) {
    node *parent = &b->nodes[index];
    const span s = spans[index];
    int i = s.low;
    parent->first = b->n_nodes;
    for (; i < s.high && sorted[i].n == s.depth; i++)
        if (sorted[i].budget > parent->budget) parent->budget = sorted[i].budget;
    parent->most = parent->budget;
    while (i < s.high) {
        const int32_t token = sorted[i].tokens[s.depth];
        const int low = i;
        for (; i < s.high && sorted[i].tokens[s.depth] == token; i++)
            if (sorted[i].budget > parent->most) parent->most = sorted[i].budget;
        spans[b->n_nodes] = (span){low, i, s.depth + 1};
        b->nodes[b->n_nodes++] = (node){.token = token, .budget = -1};
        parent->n++;
    }
    if (s.depth > b->depth) b->depth = s.depth;
}

static vo_status check(const vo_boost_phrase *phrases, int n, int n_text, size_t *n_tokens,
                       vo_error *err) {
    *n_tokens = 0;
    for (int i = 0; i < n; i++) {
        const vo_boost_phrase *p = &phrases[i];
        bool good = p->n >= 0 && p->budget >= 0 && p->budget <= 1e6f;
        for (int k = 0; good && k < p->n; k++) good = p->tokens[k] >= 0 && p->tokens[k] < n_text;
        if (!good) return vo_fail(err, VO_ERR_ARGUMENT, "phrase %d cannot be boosted", i);
        *n_tokens += (size_t)p->n;
    }
    if (*n_tokens >= INT32_MAX / 2)
        return vo_fail(err, VO_ERR_LIMIT, "%zu tokens of phrases are too many", *n_tokens);
    return VO_OK;
}

vo_status vo_boost_create(const vo_boost_phrase *phrases, int n, const uint8_t *kinds, int n_text,
                          vo_boost **out, vo_error *err) {
    size_t n_tokens;
    *out = NULL;
    vo_status status = check(phrases, n, n_text, &n_tokens, err);
    if (status != VO_OK) return status;
    vo_boost *b = vo_alloc(sizeof *b);
    vo_boost_phrase *sorted = vo_alloc_array((size_t)n + 1, sizeof *sorted);
    span *spans = vo_alloc_array(n_tokens + 1, sizeof *spans);
    if (b) {
        b->nodes = vo_alloc_array(n_tokens + 1, sizeof *b->nodes);
        b->kinds = vo_alloc((size_t)n_text);
    }
    if (!b || !sorted || !spans || !b->nodes || !b->kinds) {
        vo_boost_destroy(b);
        status = vo_fail(err, VO_ERR_MEMORY, "no memory for %d boosted phrases", n);
        goto end;
    }
    b->n_text = n_text;
    memcpy(b->kinds, kinds, (size_t)n_text);
    int filled = 0;
    for (int i = 0; i < n; i++)
        if (phrases[i].n > 0) sorted[filled++] = phrases[i];
    qsort(sorted, (size_t)filled, sizeof *sorted, compare);
    b->nodes[0] = (node){.token = -1, .budget = -1};
    spans[0] = (span){0, filled, 0};
    b->n_nodes = 1;
    for (int i = 0; i < b->n_nodes; i++) expand(b, sorted, spans, i);
    *out = b;
end:
    vo_free(spans);
    vo_free(sorted);
    return status;
}

void vo_boost_destroy(vo_boost *boost) {
    if (!boost) return;
    vo_free(boost->nodes);
    vo_free(boost->kinds);
    vo_free(boost);
}

/* ---- walking -------------------------------------------------------------------------------- */

/* The child of a node, 0 if there is none. */
static int32_t child(const vo_boost *b, int32_t parent, int32_t token) {
    int32_t low = b->nodes[parent].first, high = low + b->nodes[parent].n;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (b->nodes[middle].token < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->nodes[parent].first + b->nodes[parent].n && b->nodes[low].token == token ? low
                                                                                             : 0;
}

static int kind(const vo_boost *b, int32_t token) {
    return token >= 0 && token < b->n_text ? b->kinds[token] : 0;
}

/* Phrases are words: none begins in the middle of one. */
static bool may_begin(const vo_boost *b, const int32_t *chosen, int n_chosen, int32_t token) {
    return n_chosen == 0 || !(kind(b, token) & VO_TOKEN_BEGINS_INSIDE) ||
           !(kind(b, chosen[n_chosen - 1]) & VO_TOKEN_ENDS_INSIDE);
}

/* Whether token, chosen next, makes sure that the phrase paid for is the whole word. */
static bool keeps(const vo_boost *b, const vo_boost_state *s, int32_t token) {
    return s->whole && !(kind(b, b->nodes[s->node].token) & VO_TOKEN_ENDS_INSIDE &&
                         kind(b, token) & VO_TOKEN_BEGINS_INSIDE);
}

/* Puts an option among the at most k with the most slack; returns how many there are. */
static int insert(vo_boost_option *options, int n, int k, vo_boost_option option) {
    int at = n;
    while (at > 0 && options[at - 1].slack < option.slack) at--;
    if (at == k) return n;
    if (n < k) n++;
    for (int i = n - 1; i > at; i--) options[i] = options[i - 1];
    options[at] = option;
    return n;
}

int vo_boost_options(const vo_boost *b, const vo_boost_state *s, const float *logits, float best,
                     int32_t own, const int32_t *chosen, int n_chosen, vo_boost_option *options,
                     int k) {
    /* A word that goes on by itself is first shown to be another one, or the listed one. */
    const bool open = s->spent > 0 && !keeps(b, s, own);
    const bool may_pay_anew = s->n_paid < MOST_PAID && !open;
    int n = 0;
    for (int32_t i = 0; s->node && i < b->nodes[s->node].n; i++) {
        const node *c = &b->nodes[b->nodes[s->node].first + i];
        const float gap = best - logits[c->token], spent = keeps(b, s, c->token) ? 0 : s->spent;
        if (!(c->most - spent - gap >= 0) || (gap > 0 && spent <= 0 && !may_pay_anew)) continue;
        n = insert(options, n, k,
                   (vo_boost_option){c->token, logits[c->token], gap, c->most - spent - gap});
    }
    if (own >= b->n_text || !may_pay_anew) return n;
    for (int32_t i = 0; i < b->nodes[0].n; i++) {
        const node *c = &b->nodes[b->nodes[0].first + i];
        const float gap = best - logits[c->token];
        if (!(c->most - gap >= 0) || !may_begin(b, chosen, n_chosen, c->token)) continue;
        if (s->node && child(b, s->node, c->token)) continue;
        /* what was just written is not written again for its budget */
        if (gap > 0 && s->n_paid > 0 && s->end == n_chosen && s->first == c->token) continue;
        n = insert(options, n, k,
                   (vo_boost_option){c->token, logits[c->token], gap, c->most - gap});
    }
    return n;
}

bool vo_boost_breaks(const vo_boost *b, const vo_boost_state *s, int32_t token) {
    return s->spent > 0 && !keeps(b, s, token) && !child(b, s->node, token);
}

/* The longest end of what was chosen that begins a phrase, and its number of tokens. */
static int32_t find_node(const vo_boost *b, const int32_t *chosen, int n, int *length) {
    for (int from = n > b->depth ? n - b->depth : 0; from < n; from++) {
        if (!may_begin(b, chosen, from, chosen[from])) continue;
        int32_t at = 0;
        int i = from;
        do at = child(b, at, chosen[i++]);
        while (at && i < n);
        *length = n - from;
        if (at) return at;
    }
    *length = 0;
    return 0;
}

void vo_boost_advance(const vo_boost *b, vo_boost_state *s, const int32_t *chosen, int n_chosen,
                      float gap) {
    const int32_t token = chosen[n_chosen - 1], next = s->node ? child(b, s->node, token) : 0;
    if (!next || keeps(b, s, token)) s->spent = 0;
    s->whole = false;
    s->node = next;
    if (next)
        s->length++;
    else
        s->node = find_node(b, chosen, n_chosen, &s->length);
    if (gap > 0 && s->spent <= 0) s->n_paid++;
    s->spent += gap;
    if (s->spent > 0 && b->nodes[s->node].budget >= s->spent) {
        s->whole = true;
        s->first = chosen[n_chosen - s->length];
        s->end = n_chosen;
    }
}
