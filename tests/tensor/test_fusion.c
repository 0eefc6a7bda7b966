/* SPDX-License-Identifier: MIT
 *
 * Each fusion of fuse.c: a plan with it and a plan without give the same bits, and it happens
 * exactly where it may. Attention against its fallback in simple ops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/support_tensor.h"

enum {
    N = 50,
    D = 80,
    WINDOW = 5
}; /* one window takes the path of few rows, several panels wide */

static rig cpu;
static test_weight square, bias, kernel, up, up_bias;

static int set_up(void **state) {
    (void)state;
    rnd_seed(5);
    square = weight_random(2, D, D, 0);
    bias = weight_random(1, D, 0, 0);
    kernel = weight_random(3, D, 3, D);
    up = weight_random(2, 4 * D, D, 0);
    up_bias = weight_random(1, 4 * D, 0, 0);
    return rig_open(&cpu, 2, vo_cpu_detect()) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    weight_free(&square);
    weight_free(&bias);
    weight_free(&kernel);
    weight_free(&up);
    weight_free(&up_bias);
    rig_close(&cpu);
    return 0;
}

/* What a case records: up to three outputs over inputs a and b. */
typedef struct recording {
    vo_graph *g;
    vo_array *a, *b; /* [N, D] */
    vo_buffer *buffer;
    vo_array *outputs[3];
    int n_outputs;
} recording;

static vo_array *linear(recording *r, vo_array *x) {
    return vo_linear(r->g, x, vo_constant(r->g, square.weight), vo_constant(r->g, bias.weight));
}
static vo_array *conv(recording *r, vo_array *x) {
    vo_conv1d_params p = {.window = WINDOW, .kernel = 3, .stride = 1, .pad = 1};
    return vo_conv1d(r->g, x, vo_constant(r->g, kernel.weight), vo_constant(r->g, bias.weight), p);
}
static void output(recording *r, vo_array *y) {
    r->outputs[r->n_outputs++] = y;
}

static void linear_gelu(recording *r) {
    output(r, vo_gelu(r->g, linear(r, r->a)));
}
static void conv_gelu(recording *r) {
    output(r, vo_gelu(r->g, conv(r, r->a)));
}
static void residual_left(recording *r) {
    output(r, vo_add(r->g, r->b, linear(r, r->a)));
}
static void residual_right(recording *r) {
    output(r, vo_add(r->g, linear(r, r->a), r->b));
}
static void gelu_then_residual(recording *r) {
    output(r, vo_add(r->g, r->b, vo_gelu(r->g, linear(r, r->a))));
}
static void two_products(recording *r) { /* only one of them can take the other in */
    output(r, vo_add(r->g, linear(r, r->a), linear(r, r->b)));
}
static void residual_in_place(recording *r) { /* a whole block: the sum stays where it is */
    vo_array *x = vo_scale(r->g, r->a, 0.5f);
    for (int i = 0; i < 3; i++) {
        vo_array *h = vo_gelu(r->g, vo_linear(r->g, x, vo_constant(r->g, up.weight),
                                              vo_constant(r->g, up_bias.weight)));
        h = vo_columns(r->g, h, D, D);
        x = vo_add(r->g, x, linear(r, h));
    }
    output(r, x);
}
static void residual_is_input(recording *r) { /* linear(x) + x */
    vo_array *x = vo_scale(r->g, r->a, 0.5f);
    output(r, vo_add(r->g, x, linear(r, x)));
}
static void residual_slice(recording *r) { /* a residual whose rows lie apart */
    vo_array *wide = vo_linear(r->g, r->b, vo_constant(r->g, up.weight), NULL);
    output(r, vo_add(r->g, vo_columns(r->g, wide, D, D), linear(r, r->a)));
}
static void residual_later(recording *r) { /* recorded after the product that it is added to */
    vo_array *y = linear(r, r->a);
    output(r, vo_add(r->g, y, vo_tanh(r->g, r->b)));
}

/* Nothing may be fused here. */
static void used_twice(recording *r) {
    vo_array *y = linear(r, r->a);
    output(r, vo_gelu(r->g, y));
    output(r, vo_add(r->g, r->b, y));
}
static void product_is_output(recording *r) {
    vo_array *y = linear(r, r->a);
    output(r, y);
    output(r, vo_gelu(r->g, y));
}
static void added_to_itself(recording *r) {
    vo_array *y = linear(r, r->a);
    output(r, vo_add(r->g, y, y));
}
static void gelu_of_slice(recording *r) {
    vo_array *y = linear(r, r->a);
    output(r, vo_gelu(r->g, vo_columns(r->g, y, 2, 9)));
}
static void residual_of_conv(recording *r) {
    output(r, vo_add(r->g, r->b, conv(r, r->a)));
}
/* The product reads h before the LSTM writes it: moving it behind would change it. */
static void state_changes_between(recording *r) {
    static const int64_t shape[] = {2, D};
    vo_array *state = vo_state(r->g, r->buffer, VO_F32, shape, 2);
    vo_array *before = linear(r, state);
    vo_array *gates = vo_linear(r->g, r->a, vo_constant(r->g, up.weight), NULL);
    output(r, vo_lstm(r->g, gates, vo_constant(r->g, up.weight), state));
    output(r, vo_gelu(r->g, before));
}

static const struct {
    const char *name;
    void (*record)(recording *r);
    int fused; /* nodes that disappear */
} cases[] = {
    {"gelu(linear)", linear_gelu, 1},
    {"gelu(conv1d)", conv_gelu, 1},
    {"add(r, linear)", residual_left, 1},
    {"add(linear, r)", residual_right, 1},
    {"add(r, gelu(linear))", gelu_then_residual, 2},
    {"add(linear, linear)", two_products, 1},
    {"blocks in place", residual_in_place, 6},
    {"add(x, linear(x))", residual_is_input, 1},
    {"add(slice, linear)", residual_slice, 1},
    {"add(linear, later)", residual_later, 1},
    {"used twice", used_twice, 0},
    {"product is an output", product_is_output, 0},
    {"added to itself", added_to_itself, 0},
    {"gelu of a slice", gelu_of_slice, 0},
    {"add(r, conv1d)", residual_of_conv, 0},
    {"state changes between", state_changes_between, 0},
};

/* Runs a case; results dense in *out, their number returned. */
static size_t run_case(int which, bool no_fusion, int64_t units, const float *a, const float *b,
                       float *out, int *removed) {
    recording r = {.g = vo_graph_create(NULL)};
    r.a = vo_input(r.g, VO_F32, N, D, VO_PARAM_ROWS, WINDOW);
    r.b = vo_input(r.g, VO_F32, N, D, VO_PARAM_ROWS, WINDOW);
    r.buffer = vo_buffer_create(2 * D * sizeof(float), NULL);
    for (int i = 0; i < 2 * D; i++) ((float *)vo_buffer_data(r.buffer))[i] = 0.01f * (float)i;
    cases[which].record(&r);
    vo_plan *plan = plan_of(&cpu, r.g, r.outputs, r.n_outputs, no_fusion);
    vo_plan_stats stats = vo_plan_get_stats(plan);
    *removed = stats.recorded - stats.executed;
    memcpy(vo_plan_data(plan, r.a), a, N * D * sizeof *a);
    memcpy(vo_plan_data(plan, r.b), b, N * D * sizeof *b);
    vo_plan_set(plan, VO_PARAM_ROWS, units);
    plan_run(plan);
    size_t n = 0;
    const int64_t params[VO_PARAM_COUNT] = {units};
    for (int o = 0; o < r.n_outputs; o++)
        for (int64_t i = 0; i < vo_array_rows(r.outputs[o], params); i++)
            for (int64_t j = 0; j < r.outputs[o]->shape[1]; j++)
                out[n++] = result_at(plan, r.outputs[o], i, j);
    vo_plan_destroy(plan);
    vo_buffer_unref(r.buffer);
    return n;
}

static void test_fusions(void **state) {
    (void)state;
    float *a = rnd_floats(N * D, -2, 2), *b = rnd_floats(N * D, -2, 2);
    float *fused = rnd_floats(3 * N * D, 0, 1), *plain = rnd_floats(3 * N * D, 2, 3);
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        for (int64_t units = 1; units <= N / WINDOW; units += 3) {
            int removed, none;
            size_t n = run_case(i, false, units, a, b, fused, &removed);
            assert_int_equal(run_case(i, true, units, a, b, plain, &none), n);
            assert_int_equal(none, 0);
            if (removed != cases[i].fused)
                fail_msg("%s: %d nodes removed, not %d", cases[i].name, removed, cases[i].fused);
            for (size_t k = 0; k < n; k++)
                if (memcmp(&fused[k], &plain[k], sizeof *plain) != 0)
                    fail_msg("%s: element %zu is %.9g fused, %.9g plain", cases[i].name, k,
                             (double)fused[k], (double)plain[k]);
        }
    vo_free(a);
    vo_free(b);
    vo_free(fused);
    vo_free(plain);
}

static void test_attention_fallback(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 1, 8}, {7, 2, 5}, {50, 3, 16}, {181, 2, 64}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t n = sizes[s][0], heads = sizes[s][1], d = heads * sizes[s][2];
        vo_graph *g = vo_graph_create(NULL);
        test_input qkv = input_random(g, n, 3 * d, false, VO_PARAM_NONE, 0, -2, 2);
        vo_array *q = vo_columns(g, qkv.array, 0, d), *k = vo_columns(g, qkv.array, d, d);
        vo_array *v = vo_columns(g, qkv.array, 2 * d, d);
        vo_array *y[] = {vo_attention(g, q, k, v, (int)heads, n, 0.3f),
                         vo_attention_fallback(g, q, k, v, (int)heads, 0.3f)};
        vo_plan *plan = plan_of(&cpu, g, y, 2, false);
        input_write(plan, &qkv);
        plan_run(plan);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < d; j++)
                expect_near("attention", i, j, (double)result_at(plan, y[0], i, j),
                            (double)result_at(plan, y[1], i, j), 1e-5);
        vo_plan_destroy(plan);
        input_free(&qkv);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fusions),
                                       cmocka_unit_test(test_attention_fallback)};
    return cmocka_run_group_tests_name("tensor: fusion", tests, set_up, tear_down);
}
