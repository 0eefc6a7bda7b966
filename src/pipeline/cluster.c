/* SPDX-License-Identifier: MIT
 *
 * Groups are kept as sums of their points, and the products of all pairs of sums in a matrix: a
 * merge adds two rows, and every distance follows from three entries. Each group remembers its
 * nearest one, so that a merge costs little more than the row.
 */
#include "pipeline/cluster.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

/* Groups that are compared all with all. */
typedef struct agglomeration {
    const vo_cluster_rules *rules;
    int n;
    float *products; /* [n][n] */
    float *scores;   /* [n] of the nearest one; HUGE_VALF when there is none */
    int *nearest;    /* [n] */
    int *into;       /* [n] the group that this one went into, or itself */
    int64_t *count;  /* [n] points */
} agglomeration;

/* Below 0 for groups that are one. */
static float score(const agglomeration *a, int i, int j) {
    const size_t n = (size_t)a->n;
    const float lengths =
        sqrtf(a->products[(size_t)i * n + (size_t)i] * a->products[(size_t)j * n + (size_t)j]);
    const float cosine = lengths > 0 ? a->products[(size_t)i * n + (size_t)j] / lengths : 0;
    const int64_t fewer = a->count[i] < a->count[j] ? a->count[i] : a->count[j];
    return 1 - cosine - (float)(a->rules->threshold + a->rules->noise / (double)fewer);
}

static void find_nearest(agglomeration *a, int i) {
    a->scores[i] = HUGE_VALF;
    a->nearest[i] = -1;
    for (int j = 0; j < a->n; j++) {
        if (j == i || a->into[j] != j) continue;
        const float s = score(a, i, j);
        if (s >= a->scores[i]) continue;
        a->scores[i] = s;
        a->nearest[i] = j;
    }
}

/* The second group goes into the first. */
static void merge(agglomeration *a, int i, int j) {
    const size_t n = (size_t)a->n;
    float *p = a->products, *pi = p + (size_t)i * n;
    for (size_t k = 0; k < n; k++) pi[k] += p[(size_t)j * n + k];
    pi[i] += pi[j];
    for (size_t k = 0; k < n; k++) p[k * n + (size_t)i] = pi[k];
    a->count[i] += a->count[j];
    a->into[j] = i;
    find_nearest(a, i);
    for (int k = 0; k < a->n; k++) {
        if (k == i || a->into[k] != k) continue;
        if (a->nearest[k] == i || a->nearest[k] == j) {
            find_nearest(a, k);
            continue;
        }
        const float s = score(a, k, i);
        if (s < a->scores[k]) {
            a->scores[k] = s;
            a->nearest[k] = i;
        }
    }
}

static float product(const float *x, const float *y, int d) {
    float sums[8] = {0}, rest = 0;
    int i = 0;
    for (; i + 8 <= d; i += 8)
        for (int k = 0; k < 8; k++) sums[k] += x[i + k] * y[i + k];
    for (; i < d; i++) rest += x[i] * y[i];
    for (int k = 0; k < 8; k++) rest += sums[k];
    return rest;
}

static void agglomerate(agglomeration *a, int max) {
    int groups = a->n;
    for (int i = 0; i < a->n; i++) find_nearest(a, i);
    for (;;) {
        int best = -1;
        for (int i = 0; i < a->n; i++)
            if (a->into[i] == i && a->nearest[i] >= 0 &&
                (best < 0 || a->scores[i] < a->scores[best]))
                best = i;
        if (best < 0 || groups <= a->rules->min) return;
        if (a->scores[best] >= 0 && (max == 0 || groups <= max)) return;
        const int other = a->nearest[best];
        merge(a, best < other ? best : other, best < other ? other : best);
        groups--;
    }
}

/* Groups [first, first + n) of sums and counts. Afterwards the groups that are left lie at the
 * front, in the order of their first one, and number[i] says which one each has become. */
static int cluster_block(float *sums, int64_t *count, int n, int d, const vo_cluster_rules *rules,
                         int max, agglomeration *a, int *number) {
    a->n = n;
    for (int i = 0; i < n; i++) {
        a->into[i] = i;
        a->count[i] = count[i];
        for (int j = 0; j <= i; j++) {
            const float p = product(sums + (int64_t)i * d, sums + (int64_t)j * d, d);
            a->products[(size_t)i * (size_t)n + (size_t)j] = p;
            a->products[(size_t)j * (size_t)n + (size_t)i] = p;
        }
    }
    a->rules = rules;
    agglomerate(a, max);
    int left = 0;
    for (int i = 0; i < n; i++) { /* a group always goes into one before it */
        float *from = sums + (int64_t)i * d;
        if (a->into[i] == i) {
            number[i] = left++;
            float *to = sums + (int64_t)number[i] * d;
            if (to != from) memcpy(to, from, (size_t)d * sizeof *to);
            count[number[i]] = count[i];
            continue;
        }
        number[i] = number[a->into[i]];
        float *to = sums + (int64_t)number[i] * d;
        for (int k = 0; k < d; k++) to[k] += from[k];
        count[number[i]] += count[i];
    }
    return left;
}

/* One pass over all groups in blocks; returns how many are left. */
static int64_t pass(float *sums, int64_t *count, int64_t n, int d, const vo_cluster_rules *rules,
                    agglomeration *a, int *number) {
    int64_t left = 0;
    for (int64_t first = 0; first < n; first += VO_CLUSTER_LIMIT) {
        const int size = (int)(n - first < VO_CLUSTER_LIMIT ? n - first : VO_CLUSTER_LIMIT);
        const bool all = n <= VO_CLUSTER_LIMIT;
        /* Half of a block must go, or passes would not end; no recording has so many voices. */
        const int max = all ? rules->max : (size + 1) / 2;
        const int kept =
            cluster_block(sums + first * d, count + first, size, d, rules, max, a, number + first);
        memmove(sums + left * d, sums + first * d, (size_t)kept * (size_t)d * sizeof *sums);
        memmove(count + left, count + first, (size_t)kept * sizeof *count);
        for (int i = 0; i < size; i++) number[first + i] += (int)left;
        left += kept;
    }
    return left;
}

static bool reserve(agglomeration *a, int64_t n) {
    const size_t size = (size_t)(n < VO_CLUSTER_LIMIT ? n : VO_CLUSTER_LIMIT);
    a->products = vo_alloc_array(size * size, sizeof *a->products);
    a->scores = vo_alloc_array(size, sizeof *a->scores);
    a->nearest = vo_alloc_array(size, sizeof *a->nearest);
    a->into = vo_alloc_array(size, sizeof *a->into);
    a->count = vo_alloc_array(size, sizeof *a->count);
    return a->products && a->scores && a->nearest && a->into && a->count;
}

vo_status vo_cluster(float *points, int64_t n, int d, const vo_cluster_rules *rules, int *labels,
                     int *n_groups, vo_error *err) {
    *n_groups = 0;
    if (n > INT32_MAX) return vo_fail(err, VO_ERR_LIMIT, "too many points to cluster");
    if (n == 0) return VO_OK;
    agglomeration a = {0};
    vo_status status = VO_OK;
    int64_t *count = vo_alloc_array((size_t)n, sizeof *count);
    int *number = vo_alloc_array((size_t)n, sizeof *number);
    if (!count || !number || !reserve(&a, n)) {
        status = vo_fail(err, VO_ERR_MEMORY, "no memory to cluster %lld points", (long long)n);
        goto end;
    }
    for (int64_t i = 0; i < n; i++) {
        labels[i] = (int)i;
        count[i] = 1;
    }
    int64_t left = n;
    for (bool last = false; !last;) {
        last = left <= VO_CLUSTER_LIMIT;
        left = pass(points, count, left, d, rules, &a, number);
        for (int64_t i = 0; i < n; i++) labels[i] = number[labels[i]];
    }
    *n_groups = (int)left;
end:
    vo_free(a.products);
    vo_free(a.scores);
    vo_free(a.nearest);
    vo_free(a.into);
    vo_free(a.count);
    vo_free(count);
    vo_free(number);
    return status;
}
