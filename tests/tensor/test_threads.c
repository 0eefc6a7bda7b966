/* SPDX-License-Identifier: MIT
 *
 * Determinism: one network with every kind of op gives the same bits on 1, 2, 3 and 7 threads,
 * run after run, and a row's result does not depend on how many rows are active.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/support_tensor.h"

enum { T = 120, WINDOWS = 4, N = T * WINDOWS, D = 48, HEADS = 3, WIDE = 4 * D };

static test_weight stem, stem_bias, gamma, beta, qkv, out, up, up_bias, down, gates, recurrent;

static int set_up(void **state) {
    (void)state;
    rnd_seed(9);
    stem = weight_random(3, D, 3, D);
    stem_bias = weight_random(1, D, 0, 0);
    gamma = weight_random(1, D, 0, 0);
    beta = weight_random(1, D, 0, 0);
    qkv = weight_random(2, 3 * D, D, 0);
    out = weight_random(2, D, D, 0);
    up = weight_random(2, WIDE, D, 0);
    up_bias = weight_random(1, WIDE, 0, 0);
    down = weight_random(2, D, WIDE, 0);
    gates = weight_random(2, 4 * D, D, 0);
    recurrent = weight_random(2, 4 * D, D, 0);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    test_weight *all[] = {&stem, &stem_bias, &gamma, &beta,  &qkv,      &out,
                          &up,   &up_bias,   &down,  &gates, &recurrent};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) weight_free(all[i]);
    return 0;
}

/* x [N, D] -> [N, D] in windows of T rows, then an LSTM over all of them. */
static void network(vo_graph *g, vo_array *x, vo_buffer *memory, vo_array **outputs) {
    static const int64_t shape[] = {2, D};
    vo_conv1d_params p = {.window = T, .kernel = 3, .stride = 1, .pad = 1};
    x = vo_gelu(g,
                vo_conv1d(g, x, vo_constant(g, stem.weight), vo_constant(g, stem_bias.weight), p));
    vo_array *h =
        vo_layer_norm(g, x, vo_constant(g, gamma.weight), vo_constant(g, beta.weight), 1e-5f);
    h = vo_linear(g, h, vo_constant(g, qkv.weight), NULL);
    h = vo_attention(g, vo_columns(g, h, 0, D), vo_columns(g, h, D, D), vo_columns(g, h, 2 * D, D),
                     HEADS, T, 0.25f);
    x = vo_add(g, x, vo_linear(g, h, vo_constant(g, out.weight), NULL));
    h = vo_gelu(g, vo_linear(g, x, vo_constant(g, up.weight), vo_constant(g, up_bias.weight)));
    x = vo_add(g, x, vo_linear(g, h, vo_constant(g, down.weight), NULL));
    outputs[0] = vo_softmax(g, x);
    h = vo_linear(g, vo_tanh(g, x), vo_constant(g, gates.weight), NULL);
    outputs[1] =
        vo_lstm(g, h, vo_constant(g, recurrent.weight), vo_state(g, memory, VO_F32, shape, 2));
}

/* Both outputs of `windows` active windows, dense: [2][windows * T][D]. */
static void run_on(int threads, int64_t windows, const float *x, float *result) {
    rig cpu;
    assert_true(rig_open(&cpu, threads, vo_cpu_detect()));
    vo_graph *g = vo_graph_create(NULL);
    vo_buffer *memory = vo_buffer_create(2 * D * sizeof(float), NULL);
    vo_array *in = vo_input(g, VO_F32, N, D, VO_PARAM_ROWS, T), *y[2];
    network(g, in, memory, y);
    vo_plan *plan = plan_of(&cpu, g, y, 2, false);
    for (int run = 0; run < 2; run++) {
        memset(vo_buffer_data(memory), 0, vo_buffer_bytes(memory));
        memcpy(vo_plan_data(plan, in), x, N * D * sizeof *x);
        vo_plan_set(plan, VO_PARAM_ROWS, windows);
        plan_run(plan);
        size_t bytes = (size_t)(windows * T * D) * sizeof(float);
        for (int o = 0; o < 2; o++) {
            char *at = (char *)result + (size_t)o * bytes;
            if (run) assert_memory_equal(at, vo_plan_data(plan, y[o]), bytes);
            memcpy(at, vo_plan_data(plan, y[o]), bytes);
        }
    }
    vo_plan_destroy(plan);
    vo_buffer_unref(memory);
    rig_close(&cpu);
}

static void test_threads(void **state) {
    (void)state;
    static const int threads[] = {2, 3, 7};
    float *x = rnd_floats(N * D, -1, 1), *one = rnd_floats(2 * N * D, 0, 1);
    float *many = rnd_floats(2 * N * D, 2, 3);
    for (int64_t windows = 1; windows <= WINDOWS; windows += 3) {
        run_on(1, windows, x, one);
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            run_on(threads[i], windows, x, many);
            assert_memory_equal(many, one, (size_t)(2 * windows * T * D) * sizeof *one);
        }
    }
    vo_free(x);
    vo_free(one);
    vo_free(many);
}

static void test_neighbours(void **state) {
    (void)state;
    float *x = rnd_floats(N * D, -1, 1), *all = rnd_floats(2 * N * D, 0, 1);
    float *alone = rnd_floats(2 * N * D, 2, 3);
    run_on(2, WINDOWS, x, all);
    run_on(2, 1, x, alone);
    for (int o = 0; o < 2; o++)
        assert_memory_equal(alone + o * T * D, all + (size_t)o * N * D, T * D * sizeof *all);
    vo_free(x);
    vo_free(all);
    vo_free(alone);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads),
                                       cmocka_unit_test(test_neighbours)};
    return cmocka_run_group_tests_name("tensor: threads", tests, set_up, tear_down);
}
