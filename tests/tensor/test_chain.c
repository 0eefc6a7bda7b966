/* SPDX-License-Identifier: MIT
 *
 * Chains of row-wise steps: the same bits as the steps one by one, for any number of threads and
 * active rows, in every arithmetic; less memory; and no chain where rows mix.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/plan_internal.h"
#include "tensor/support_tensor.h"

enum { N = 1100, UNIT = 10, D = 64, WIDE = 9 * D, HEADS = 4 }; /* WIDE: two slices */

typedef struct weights {
    test_weight gamma, beta, square, up, down, bias, up_bias;
} weights;

/* A weight has one form per stream: every plan gets its own, of the same values. */
static void make_weights(weights *w) {
    rnd_seed(11);
    w->gamma = weight_random(1, D, 0, 0);
    w->beta = weight_random(1, D, 0, 0);
    w->square = weight_random(2, D, D, 0);
    w->up = weight_random(2, WIDE, D, 0);
    w->down = weight_random(2, D, WIDE, 0);
    w->bias = weight_random(1, D, 0, 0);
    w->up_bias = weight_random(1, WIDE, 0, 0);
}
static void free_weights(weights *w) {
    weight_free(&w->gamma);
    weight_free(&w->beta);
    weight_free(&w->square);
    weight_free(&w->up);
    weight_free(&w->down);
    weight_free(&w->bias);
    weight_free(&w->up_bias);
}

typedef struct network {
    weights w;
    vo_buffer *cache;
    test_input x, r;
    vo_array *slots, *outputs[3];
    vo_plan *plan;
} network;

static vo_array *norm(vo_graph *g, const weights *w, vo_array *x) {
    return vo_layer_norm(g, x, vo_constant(g, w->gamma.weight), vo_constant(g, w->beta.weight),
                         1e-5f);
}

/* A block as transformers have it, a store of some columns, and attention between two of them. */
static void build(network *n, const rig *cpu, vo_compute compute, bool one_by_one) {
    vo_error err = {0};
    make_weights(&n->w);
    vo_graph *g = vo_graph_create(&err);
    vo_graph_set_compute(g, compute);
    n->x = input_random(g, N, D, false, VO_PARAM_ROWS, UNIT, -1, 1);
    n->r = input_random(g, N, D, true, VO_PARAM_ROWS, UNIT, -1, 1);
    n->slots = vo_input(g, VO_I32, N, 0, VO_PARAM_ROWS, UNIT);
    const int64_t shape[] = {HEADS, N, D / HEADS};
    n->cache = vo_buffer_create(N * D * sizeof(float), &err);
    vo_array *cache = vo_state(g, n->cache, VO_F32, shape, 3);
    const weights *w = &n->w;
    vo_array *square = vo_constant(g, w->square.weight), *bias = vo_constant(g, w->bias.weight);
    vo_array *x = vo_add(g, n->r.array, vo_linear(g, n->x.array, square, bias));
    for (int i = 0; i < 2; i++) {
        vo_array *h = vo_linear(g, norm(g, w, x), vo_constant(g, w->up.weight),
                                vo_constant(g, w->up_bias.weight));
        x = vo_add(g, x, vo_linear(g, vo_gelu(g, h), vo_constant(g, w->down.weight), bias));
    }
    n->outputs[0] = norm(g, w, x);
    vo_array *wide = vo_linear(g, n->outputs[0], vo_constant(g, w->up.weight), NULL);
    n->outputs[1] = vo_kv_store(g, cache, vo_columns(g, wide, D, D), n->slots);
    vo_array *a = vo_attention(g, vo_columns(g, wide, 0, D), vo_columns(g, wide, D, D),
                               vo_columns(g, wide, 2 * D, D), HEADS, UNIT, 0.25f);
    n->outputs[2] = vo_scale(g, norm(g, w, vo_linear(g, a, square, bias)), 0.5f);
    n->plan = plan_of(cpu, g, n->outputs, 3, one_by_one);
}

static void run(network *n, int64_t rows) {
    input_write(n->plan, &n->x);
    input_write(n->plan, &n->r);
    int32_t *slots = vo_plan_data(n->plan, n->slots);
    for (int32_t i = 0; i < N; i++) slots[i] = (i * 7 + 3) % N;
    memset(vo_buffer_data(n->cache), 0, N * D * sizeof(float));
    vo_plan_set(n->plan, VO_PARAM_ROWS, rows / UNIT);
    plan_run(n->plan);
}

static void destroy(network *n) {
    vo_plan_destroy(n->plan);
    vo_buffer_unref(n->cache);
    input_free(&n->x);
    input_free(&n->r);
    free_weights(&n->w);
}

static void compare(vo_compute compute, int threads, bool expect_chains) {
    static const int64_t counts[] = {N, 10, 640, 650, N};
    rig cpu;
    network chained = {0}, plain = {0};
    assert_true(rig_open(&cpu, threads, vo_cpu_detect()));
    build(&chained, &cpu, compute, false);
    build(&plain, &cpu, compute, true);
    assert_int_equal(plain.plan->n_chains, 0);
    assert_int_equal(chained.plan->n_chains, expect_chains ? 2 : 0);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        run(&chained, counts[c]);
        run(&plain, counts[c]);
        for (int o = 0; o < 3; o += 2)
            for (int64_t i = 0; i < counts[c]; i++)
                assert_memory_equal((float *)chained.outputs[o]->data + i * D,
                                    (float *)plain.outputs[o]->data + i * D, D * sizeof(float));
        assert_memory_equal(vo_buffer_data(chained.cache), vo_buffer_data(plain.cache),
                            N * D * sizeof(float));
    }
    destroy(&chained);
    destroy(&plain);
    rig_close(&cpu);
}

static void test_bf16(void **state) {
    compare(VO_COMPUTE_BF16, 1, true);
    compare(VO_COMPUTE_BF16, 3, true);
}
static void test_int8(void **state) {
    compare(VO_COMPUTE_INT8, 2, true);
}
static void test_f32_needs_none(void **state) {
    compare(VO_COMPUTE_F32, 2, false);
}

static void test_locals_take_less_memory(void **state) {
    rig cpu;
    network chained = {0};
    assert_true(rig_open(&cpu, 1, vo_cpu_detect()));
    build(&chained, &cpu, VO_COMPUTE_INT8, false);
    const vo_chain *first = &chained.plan->chains[0];
    assert_true(first->block < N && first->n >= 7);
    int locals = 0, sliced = 0;
    for (int i = 0; i < first->n; i++) locals += first->nodes[i]->local;
    for (int i = 0; i < first->n; i++) sliced += first->nodes[i]->sliced;
    assert_true(locals >= 4);    /* norms and what lies between two products, */
    assert_int_equal(sliced, 2); /* which does not exist as a whole */
    assert_true(first->bytes < (size_t)N * 2 * WIDE * sizeof(float));
    destroy(&chained);
    rig_close(&cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_int8),
        cmocka_unit_test(test_f32_needs_none),
        cmocka_unit_test(test_locals_take_less_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
