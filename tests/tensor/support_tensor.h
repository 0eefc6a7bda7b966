/* SPDX-License-Identifier: MIT
 *
 * What the tests of the tensor runtime share: a CPU runtime, seeded numbers, weights, and inputs
 * that an op sees either dense or as a slice of wider rows whose other columns are NaN.
 */
#ifndef VO_TESTS_TENSOR_SUPPORT_H
#define VO_TESTS_TENSOR_SUPPORT_H

#include "backends/registry.h"
#include "tensor/plan.h"

/* ---- a runtime */
typedef struct rig {
    vo_kernels kernels;
    vo_pool *pool;
    vo_runtime runtime;
} rig;
/* flags: those of vo_cpu_detect(), or 0 for plain C. false when it cannot be made. */
bool rig_open(rig *r, int threads, uint32_t flags);
void rig_close(rig *r);

/* ---- random numbers (splitmix64) */
void rnd_seed(uint64_t seed);
uint64_t rnd_next(void);
int64_t rnd_between(int64_t low, int64_t high); /* both included */
float rnd_float(float low, float high);
float *rnd_floats(int64_t n, float low, float high); /* vo_free */

/* ---- weights: random f32 values that live as long as the weight */
typedef struct test_weight {
    vo_weight *weight;
    float *values;
} test_weight;
test_weight weight_random(int rank, int64_t a, int64_t b, int64_t c);
void weight_free(test_weight *w);

/* ---- inputs */
typedef struct test_input {
    vo_array *leaf, *array; /* what is written; what the op reads */
    int64_t capacity, columns, begin;
    float *values; /* [capacity][columns] */
} test_input;
/* wide: the op reads a slice of the leaf. param may be VO_PARAM_NONE. */
test_input input_random(vo_graph *g, int64_t capacity, int64_t columns, bool wide, int param,
                        int64_t unit, float low, float high);
void input_write(const vo_plan *plan, const test_input *in);
void input_free(test_input *in);
float input_at(const test_input *in, int64_t row, int64_t column);

/* ---- results */
float result_at(const vo_plan *plan, const vo_array *y, int64_t row, int64_t column);
/* Makes a plan or fails the test with the sentence of the error. */
vo_plan *plan_of(const rig *r, vo_graph *g, vo_array *const *outputs, int n, bool no_fusion);
void plan_run(vo_plan *plan); /* fails the test on an error */
/* Fails the test with the place unless |got - want| <= tolerance. */
void expect_near(const char *what, int64_t row, int64_t column, double got, double want,
                 double tolerance);

#endif
