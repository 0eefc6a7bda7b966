/* SPDX-License-Identifier: MIT
 *
 * What the tests of the tensor runtime share.
 */
#include "tensor/support_tensor.h"

#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

bool rig_open(rig *r, int threads, uint32_t flags) {
    vo_error err = {0};
    *r = (rig){.pool = vo_pool_create(threads, &err)};
    vo_kernels_init(&r->kernels, flags);
    return r->pool && vo_runtime_create(&r->kernels, r->pool, &r->runtime, &err) == VO_OK;
}

void rig_close(rig *r) {
    vo_runtime_destroy(&r->runtime);
    vo_pool_destroy(r->pool);
}

static uint64_t random_state;

void rnd_seed(uint64_t seed) {
    random_state = seed;
}

uint64_t rnd_next(void) {
    uint64_t z = (random_state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

int64_t rnd_between(int64_t low, int64_t high) {
    return low + (int64_t)(rnd_next() % (uint64_t)(high - low + 1));
}

float rnd_float(float low, float high) {
    return low + (high - low) * (float)(rnd_next() >> 40) * 0x1p-24f;
}

float *rnd_floats(int64_t n, float low, float high) {
    float *x = vo_alloc_array((size_t)n, sizeof *x);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) x[i] = rnd_float(low, high);
    return x;
}

test_weight weight_random(int rank, int64_t a, int64_t b, int64_t c) {
    vo_error err = {0};
    vo_view view = {.name = "w", .dtype = VO_F32, .rank = rank, .shape = {a, b, c}};
    int64_t n = vo_view_elements(&view);
    test_weight w = {.values = rnd_floats(n, -1, 1)};
    view.data = w.values;
    view.bytes = (size_t)n * sizeof(float);
    w.weight = vo_weight_create(&view, NULL, NULL, NULL, &err);
    assert_non_null(w.weight);
    return w;
}

void weight_free(test_weight *w) {
    vo_weight_destroy(w->weight);
    vo_free(w->values);
}

test_input input_random(vo_graph *g, int64_t capacity, int64_t columns, bool wide, int param,
                        int64_t unit, float low, float high) {
    test_input in = {.capacity = capacity, .columns = columns};
    in.values = rnd_floats(capacity * columns, low, high);
    if (!wide) {
        in.leaf = in.array = vo_input(g, VO_F32, capacity, columns, param, unit);
        return in;
    }
    in.begin = rnd_between(0, 5);
    in.leaf = vo_input(g, VO_F32, capacity, in.begin + columns + rnd_between(1, 5), param, unit);
    in.array = vo_columns(g, in.leaf, in.begin, columns);
    return in;
}

void input_write(const vo_plan *plan, const test_input *in) {
    float *at = vo_plan_data(plan, in->leaf);
    for (int64_t i = 0; i < in->capacity; i++, at += in->leaf->row_stride) {
        for (int64_t j = 0; j < in->leaf->shape[1]; j++) at[j] = NAN;
        memcpy(at + in->begin, in->values + i * in->columns,
               (size_t)in->columns * sizeof *in->values);
    }
}

void input_free(test_input *in) {
    vo_free(in->values);
}

float input_at(const test_input *in, int64_t row, int64_t column) {
    return in->values[row * in->columns + column];
}

float result_at(const vo_plan *plan, const vo_array *y, int64_t row, int64_t column) {
    return ((const float *)vo_plan_data(plan, y))[row * y->row_stride + column];
}

vo_plan *plan_of(const rig *r, vo_graph *g, vo_array *const *outputs, int n, bool no_fusion) {
    vo_error err = {0};
    vo_plan *plan = NULL;
    vo_status status = vo_plan_create(&r->runtime, g, outputs, n,
                                      (vo_plan_params){.no_fusion = no_fusion}, &plan, &err);
    if (status != VO_OK) fail_msg("no plan: %s", err.message);
    return plan;
}

void plan_run(vo_plan *plan) {
    vo_error err = {0};
    if (vo_plan_run(plan, &err) != VO_OK) fail_msg("no run: %s", err.message);
}

void expect_near(const char *what, int64_t row, int64_t column, double got, double want,
                 double tolerance) {
    /* Written so that NaN fails. */
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s [%d, %d] = %.9g, not %.9g (tolerance %.3g)", what, (int)row, (int)column, got,
                 want, tolerance);
}
