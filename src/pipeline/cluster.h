/* SPDX-License-Identifier: MIT
 *
 * Which unit vectors belong together, without knowing how many groups there are: agglomerative
 * clustering with centroid linkage on the cosine distance.
 */
#ifndef VO_PIPELINE_CLUSTER_H
#define VO_PIPELINE_CLUSTER_H

#include "base/status.h"

/* Two groups of a and b points are one while the cosine distance of their mean directions is below
 * threshold + noise / min(a, b): the direction of few points is known less well. */
typedef struct vo_cluster_rules {
    double threshold, noise;
    int min, max; /* how many groups there may be; max 0: any number */
} vo_cluster_rules;

/* points: [n][d], each of length 1 or 0; they are overwritten. labels: [n], numbered by first
 * appearance. Up to VO_CLUSTER_LIMIT points are compared all with all, which takes a matrix of 4
 * bytes for each pair. More are first clustered in blocks of that many neighbours, by the same
 * rules, and then the groups of the blocks. The same result for any number of threads: there are
 * none. */
enum { VO_CLUSTER_LIMIT = 2048 };
vo_status vo_cluster(float *points, int64_t n, int d, const vo_cluster_rules *rules, int *labels,
                     int *n_groups, vo_error *err);

#endif
