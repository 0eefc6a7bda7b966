/* SPDX-License-Identifier: MIT
 *
 * Plans: intermediates share memory without stepping on each other, run-time parameters bound
 * the rows, wrong shapes become one sticky error, and running allocates nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/support_count.h"
#include "tensor/support_tensor.h"

static rig cpu;

static int set_up(void **state) {
    (void)state;
    rnd_seed(11);
    return rig_open(&cpu, 3, vo_cpu_detect()) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    rig_close(&cpu);
    return 0;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void test_chain_runs_in_place(void **state) {
    (void)state;
    vo_graph *g = vo_graph_create(NULL);
    test_input x = input_random(g, 64, 32, false, VO_PARAM_NONE, 0, -1, 1);
    vo_array *y = x.array;
    for (int i = 0; i < 10; i++) y = vo_scale(g, y, 1.5f);
    vo_plan *plan = plan_of(&cpu, g, &y, 1, false);
    vo_plan_stats stats = vo_plan_get_stats(plan);
    /* The input, and one block for all ten results. */
    assert_int_equal(stats.arena_bytes, 2 * 64 * 32 * sizeof(float));
    assert_int_equal(stats.recorded, 10);
    assert_int_equal(stats.executed, 10);
    for (int run = 0; run < 2; run++) {
        input_write(plan, &x);
        plan_run(plan);
        for (int64_t i = 0; i < 64; i++)
            for (int64_t j = 0; j < 32; j++)
                expect_near("chain", i, j, (double)result_at(plan, y, i, j),
                            (double)input_at(&x, i, j) * pow(1.5, 10), 1e-4);
    }
    vo_plan_destroy(plan);
    input_free(&x);
}

static void test_arena_is_reused(void **state) {
    (void)state;
    vo_graph *g = vo_graph_create(NULL);
    test_weight w = weight_random(2, 32, 32, 0);
    test_input x = input_random(g, 64, 32, false, VO_PARAM_NONE, 0, -1, 1);
    vo_array *y = x.array, *weight = vo_constant(g, w.weight);
    for (int i = 0; i < 10; i++) y = vo_linear(g, y, weight, NULL);
    vo_plan *plan = plan_of(&cpu, g, &y, 1, false);
    vo_plan_stats stats = vo_plan_get_stats(plan);
    size_t one = 64 * 32 * sizeof(float);
    /* Two places that take turns, the first with the input, and the scratch of one product. */
    assert_int_equal(stats.arena_bytes, 2 * one + stats.workspace_bytes);
    assert_int_equal(stats.naive_bytes, 11 * one);
    vo_plan_destroy(plan);
    weight_free(&w);
    input_free(&x);
}

/* Random graphs: every value is computed a second time in double, node by node. Whatever the
 * plan puts where, all outputs must be right and inputs must survive. */
enum { MAX_NODES = 40, ROWS = 5, COLUMNS = 8 };

typedef struct random_graph {
    vo_graph *g;
    vo_array *nodes[MAX_NODES];
    double values[MAX_NODES][ROWS * COLUMNS];
    int n;
    test_input in[3];
} random_graph;

static void push(random_graph *r, vo_array *node, int a, int b, int op) {
    double *y = r->values[r->n];
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double u = r->values[a][i], v = r->values[b][i];
        if (op == 0) y[i] = u + v;
        if (op == 1) y[i] = u * v;
        if (op == 2) y[i] = -0.5 * u;
        if (op == 3) y[i] = tanh(u);
        /* columns 2..5 of u beside columns 4..7 of v */
        if (op == 4) y[i] = i % COLUMNS < 4 ? r->values[a][i + 2] : r->values[b][i];
        /* rows of two joined, their halves swapped, cut again: a view of a view */
        if (op == 5) y[i] = u + u;
    }
    assert_non_null(node);
    r->nodes[r->n++] = node;
}

static void push_random(random_graph *r) {
    int a = (int)rnd_between(0, r->n - 1), b = (int)rnd_between(0, r->n - 1);
    vo_array *u = r->nodes[a], *v = r->nodes[b];
    switch (rnd_between(0, 5)) {
    case 0:
        push(r, vo_add(r->g, u, v), a, b, 0);
        break;
    case 1:
        push(r, vo_mul(r->g, u, v), a, b, 1);
        break;
    case 2:
        push(r, vo_scale(r->g, u, -0.5f), a, b, 2);
        break;
    case 3:
        push(r, vo_tanh(r->g, u), a, b, 3);
        break;
    case 4:
        push(r, vo_concat(r->g, vo_columns(r->g, u, 2, 4), vo_columns(r->g, v, 4, 4)), a, b, 4);
        break;
    default:
        push(r, vo_regroup(r->g, vo_scale(r->g, vo_regroup(r->g, u, -2), 2), 2), a, b, 5);
        break;
    }
}

static void test_random_graphs(void **state) {
    (void)state;
    for (int round = 0; round < 300; round++) {
        random_graph *r = vo_alloc(sizeof *r);
        r->g = vo_graph_create(NULL);
        for (int i = 0; i < 3; i++) {
            r->in[i] = input_random(r->g, ROWS, COLUMNS, false, VO_PARAM_NONE, 0, -1, 1);
            for (int j = 0; j < ROWS * COLUMNS; j++) r->values[i][j] = (double)r->in[i].values[j];
            r->nodes[r->n++] = r->in[i].array;
        }
        int count = (int)rnd_between(5, MAX_NODES);
        while (r->n < count) push_random(r);
        vo_array *outputs[4];
        int which[4], n_outputs = (int)rnd_between(1, 4);
        for (int i = 0; i < n_outputs; i++)
            outputs[i] = r->nodes[which[i] = i ? (int)rnd_between(0, r->n - 1) : r->n - 1];
        vo_plan *plan = plan_of(&cpu, r->g, outputs, n_outputs, round % 2 != 0);
        for (int run = 0; run < 2; run++) {
            for (int i = 0; i < 3; i++) input_write(plan, &r->in[i]);
            plan_run(plan);
            for (int o = 0; o < n_outputs; o++)
                for (int i = 0; i < ROWS * COLUMNS; i++) {
                    double want = r->values[which[o]][i];
                    expect_near("graph", i / COLUMNS, i % COLUMNS,
                                (double)result_at(plan, outputs[o], i / COLUMNS, i % COLUMNS), want,
                                1e-3 * (1 + fabs(want)));
                }
        }
        vo_plan_stats stats = vo_plan_get_stats(plan);
        assert_true(stats.arena_bytes <= stats.naive_bytes);
        vo_plan_destroy(plan);
        for (int i = 0; i < 3; i++) input_free(&r->in[i]);
        vo_free(r);
    }
}

/* ---- run-time parameters ------------------------------------------------------------------- */

static void test_parameters(void **state) {
    (void)state;
    vo_error err = {0};
    vo_graph *g = vo_graph_create(NULL);
    test_input x = input_random(g, 20, 3, false, VO_PARAM_ROWS, 4, -1, 1);
    vo_array *ids = vo_input(g, VO_I32, 6, 0, VO_PARAM_OUT, 1);
    vo_array *y = vo_take_rows(g, vo_scale(g, x.array, 2), ids);
    vo_plan *plan = plan_of(&cpu, g, &y, 1, false);
    input_write(plan, &x);
    for (int32_t i = 0; i < 6; i++) ((int32_t *)vo_plan_data(plan, ids))[i] = 3 * i;
    vo_plan_set(plan, VO_PARAM_ROWS, 5);
    vo_plan_set(plan, VO_PARAM_OUT, 6);
    plan_run(plan);
    for (int64_t i = 0; i < 6; i++)
        expect_near("taken", i, 2, (double)result_at(plan, y, i, 2),
                    2 * (double)input_at(&x, 3 * i, 2), 0);
    static const int64_t wrong[][2] = {{6, 6}, {5, 7}, {-1, 6}, {5, -1}, {INT64_MAX, 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        err = (vo_error){0};
        vo_plan_set(plan, VO_PARAM_ROWS, wrong[i][0]);
        vo_plan_set(plan, VO_PARAM_OUT, wrong[i][1]);
        assert_int_equal(vo_plan_run(plan, &err), VO_ERR_ARGUMENT);
        assert_true(err.message[0] != 0);
    }
    /* What no parameter is may be set, and changes nothing. */
    vo_plan_set(plan, -1, 99);
    vo_plan_set(plan, VO_PARAM_COUNT, 99);
    vo_plan_set(plan, VO_PARAM_ROWS, 5);
    vo_plan_set(plan, VO_PARAM_OUT, 6);
    input_write(plan, &x);
    for (int32_t i = 0; i < 6; i++) ((int32_t *)vo_plan_data(plan, ids))[i] = 3 * i;
    plan_run(plan);
    vo_plan_destroy(plan);
    input_free(&x);
}

static void test_eval(void **state) {
    (void)state;
    vo_error err = {0};
    vo_graph *g = vo_graph_create(NULL);
    vo_array *x = vo_input(g, VO_F32, 4, 2, VO_PARAM_ROWS, 2), *y = vo_sigmoid(g, x);
    vo_plan *plan = NULL;
    assert_int_equal(vo_eval(&cpu.runtime, g, &y, 1, &plan, &err), VO_OK);
    assert_non_null(vo_plan_data(plan, y));
    vo_plan_destroy(plan);
    vo_plan_destroy(NULL);
    vo_graph_destroy(NULL);
    /* A graph that does nothing is a plan that does nothing. */
    plan = plan_of(&cpu, vo_graph_create(NULL), NULL, 0, false);
    plan_run(plan);
    vo_plan_destroy(plan);
}

/* ---- errors -------------------------------------------------------------------------------- */

typedef struct parts {
    vo_array *x;      /* [6, 4], 2 rows a unit */
    vo_array *narrow; /* [6, 3] */
    vo_array *fixed;  /* [6, 4], always */
    vo_array *other;  /* [6, 4], 3 rows a unit */
    vo_array *ids, *state, *cache;
    vo_array *w;       /* weight [5, 4] */
    vo_array *w3;      /* weight [5, 3, 4] */
    vo_array *b4, *b5; /* weights [4], [5] */
} parts;

static vo_conv1d_params conv(int64_t window, int kernel, int stride, int pad) {
    return (vo_conv1d_params){.window = window, .kernel = kernel, .stride = stride, .pad = pad};
}

/* Each records one thing that must be refused. */
static vo_array *wrong_storage(vo_graph *g, const parts *p, int which) {
    const int64_t big[] = {1 << 20, 1 << 20}, row[] = {2, 4};
    switch (which) {
    case 44:
        return vo_kv_store(g, p->cache, p->narrow, p->ids);
    case 45:
        return vo_kv_store(g, p->x, p->x, p->ids);
    case 46:
        return vo_kv_store(g, p->cache, p->fixed, p->ids);
    case 47:
        return vo_attention_cached(g, p->narrow, p->cache, p->cache, NULL, p->ids, p->ids, 4, 1);
    case 48:
        return vo_attention_cached(g, p->fixed, p->cache, p->cache, NULL, p->ids, p->ids, 4, 1);
    case 49:
        return vo_attention_cached(g, p->x, p->cache, p->cache, NULL, p->ids, p->ids, 0, 1);
    case 50:
        return vo_lstm(g, p->x, p->w, p->state);
    case 51:
        return vo_input(g, VO_F32, 0, 4, VO_PARAM_NONE, 0);
    case 52:
        return vo_input(g, VO_F32, 4, 4, VO_PARAM_COUNT, 1);
    case 53:
        return vo_input(g, VO_F32, 4, 4, VO_PARAM_ROWS, 0);
    case 54:
        return vo_input(g, VO_F32, 4, 4, -2, 1);
    case 55:
        return vo_input(g, VO_F32, INT64_MAX, 4, VO_PARAM_NONE, 0);
    case 56:
        return vo_input(g, VO_I64, 4, 4, VO_PARAM_NONE, 0);
    case 57:
        return vo_constant(g, NULL);
    case 58:
        return vo_state(g, NULL, VO_F32, row, 2);
    case 59:
        return vo_state(g, p->state->buffer, VO_F32, big, 2);
    case 60:
        return vo_state(g, p->state->buffer, VO_F32, row, 0);
    case 61:
        return vo_kv_store(g, p->w3, p->x, p->ids);
    case 62:
        return vo_linear(g, p->x, p->w3, NULL);
    case 63:
        return vo_lstm(g, p->fixed, vo_input(g, VO_F32, 4, 1, VO_PARAM_NONE, 0), p->state);
    default:
        return NULL;
    }
}

static vo_array *wrong_rows(vo_graph *g, const parts *p, int which) {
    switch (which) {
    case 21:
        return vo_conv1d(g, p->x, p->w3, p->b5, conv(3, 3, 1, 1));
    case 22:
        return vo_conv1d(g, p->x, p->w3, p->b5, conv(2, 3, 0, 1));
    case 23:
        return vo_conv1d(g, p->x, p->w3, p->b5, conv(2, 3, 1, 0));
    case 24:
        return vo_conv1d(g, p->x, p->w3, p->b4, conv(2, 3, 1, 1));
    case 25:
        return vo_conv1d(g, p->x, p->w3, p->b5, conv(2, 2, 1, 1));
    case 26:
        return vo_conv1d(g, p->x, p->w3, p->b5, conv(2, 3, 1, -1));
    case 27:
        return vo_layer_norm(g, p->x, p->b5, p->b4, 1e-5f);
    case 28:
        return vo_layer_norm(g, p->x, p->b4, p->fixed, 1e-5f);
    case 29:
        return vo_softmax(g, p->ids);
    case 30:
        return vo_embed(g, p->x, p->ids);
    case 31:
        return vo_embed(g, p->w, p->x);
    case 32:
        return vo_take_rows(g, p->x, p->fixed);
    case 33:
        return vo_take_rows(g, p->w, p->ids);
    case 34:
        return vo_concat(g, p->x, p->fixed);
    case 35:
        return vo_concat(g, p->x, p->other);
    case 36:
        return vo_add_table(g, p->x, p->fixed);
    case 37:
        return vo_add_table(g, p->x, p->w);
    case 38:
        return vo_attention(g, p->x, p->x, p->narrow, 2, 2, 1);
    case 39:
        return vo_attention(g, p->x, p->x, p->x, 3, 2, 1);
    case 40:
        return vo_attention(g, p->x, p->x, p->x, 0, 2, 1);
    case 41:
        return vo_attention(g, p->x, p->x, p->x, 2, 4, 1);
    case 42:
        return vo_attention(g, p->x, p->other, p->x, 2, 2, 1);
    case 43:
        return vo_attention_fallback(g, p->x, p->x, p->x, 0, 1);
    default:
        return wrong_storage(g, p, which);
    }
}

static vo_array *record_wrong(vo_graph *g, const parts *p, int which) {
    switch (which) {
    case 0:
        return vo_add(g, p->x, p->narrow);
    case 1:
        return vo_add(g, p->x, p->fixed);
    case 2:
        return vo_mul(g, p->x, p->other);
    case 3:
        return vo_add(g, p->x, p->w);
    case 4:
        return vo_relu(g, p->ids);
    case 5:
        return vo_relu(g, p->w);
    case 6:
        return vo_columns(g, p->x, 2, 3);
    case 7:
        return vo_columns(g, p->x, -1, 2);
    case 8:
        return vo_columns(g, p->x, INT64_MAX, 1);
    case 9:
        return vo_columns(g, p->w, 0, 2);
    case 10:
        return vo_regroup(g, p->x, 4);
    case 11:
        return vo_regroup(g, p->x, -3);
    case 12:
        return vo_regroup(g, p->x, 0);
    case 13:
        return vo_regroup(g, p->x, INT64_MIN);
    case 14:
        return vo_regroup(g, vo_columns(g, p->x, 0, 2), 2);
    case 15:
        return vo_linear(g, p->narrow, p->w, NULL);
    case 16:
        return vo_linear(g, p->x, p->w, p->b4);
    case 17:
        return vo_linear(g, p->x, p->fixed, NULL);
    case 18:
        return vo_linear(g, p->w, p->w, NULL);
    case 19:
        return vo_matmul(g, p->x, p->narrow, true);
    case 20:
        return vo_matmul(g, p->fixed, p->x, true);
    default:
        return wrong_rows(g, p, which);
    }
}

static void test_wrong_shapes(void **state) {
    (void)state;
    test_weight w = weight_random(2, 5, 4, 0), w3 = weight_random(3, 5, 3, 4);
    test_weight b4 = weight_random(1, 4, 0, 0), b5 = weight_random(1, 5, 0, 0);
    vo_buffer *buffer = vo_buffer_create(4096, NULL);
    int refused = 0;
    for (int which = 0; which <= 63; which++) {
        vo_error err = {0};
        vo_graph *g = vo_graph_create(NULL);
        parts p = {.x = vo_input(g, VO_F32, 6, 4, VO_PARAM_ROWS, 2),
                   .narrow = vo_input(g, VO_F32, 6, 3, VO_PARAM_ROWS, 2),
                   .fixed = vo_input(g, VO_F32, 6, 4, VO_PARAM_NONE, 0),
                   .other = vo_input(g, VO_F32, 6, 4, VO_PARAM_ROWS, 3),
                   .ids = vo_input(g, VO_I32, 6, 0, VO_PARAM_ROWS, 2),
                   .state = vo_state(g, buffer, VO_F32, (const int64_t[]){2, 1}, 2),
                   .cache = vo_state(g, buffer, VO_F32, (const int64_t[]){2, 8, 2}, 3),
                   .w = vo_constant(g, w.weight),
                   .w3 = vo_constant(g, w3.weight),
                   .b4 = vo_constant(g, b4.weight),
                   .b5 = vo_constant(g, b5.weight)};
        assert_int_equal(vo_graph_status(g, &err), VO_OK);
        if (record_wrong(g, &p, which)) fail_msg("case %d was accepted", which);
        if (vo_graph_status(g, &err) != VO_ERR_ARGUMENT) fail_msg("case %d left no error", which);
        /* It sticks: what is right now fails too, quietly, and so does the plan. */
        char first[sizeof err.message];
        strcpy(first, err.message);
        assert_true(strlen(first) > 10);
        vo_array *y = vo_relu(g, p.x);
        assert_null(y);
        assert_null(vo_linear(g, vo_add(g, y, p.x), p.w, NULL));
        err = (vo_error){0};
        vo_plan *plan = NULL;
        assert_int_equal(vo_plan_create(&cpu.runtime, g, &y, 1, (vo_plan_params){0}, &plan, &err),
                         VO_ERR_ARGUMENT);
        assert_string_equal(err.message, first);
        assert_null(plan);
        refused++;
    }
    assert_int_equal(refused, 64);
    vo_buffer_unref(buffer);
    weight_free(&w);
    weight_free(&w3);
    weight_free(&b4);
    weight_free(&b5);
}

static void test_null_propagates(void **state) {
    (void)state;
    vo_error err = {0};
    vo_graph *g = vo_graph_create(NULL);
    vo_array *x = vo_input(g, VO_F32, 2, 2, VO_PARAM_NONE, 0);
    assert_null(vo_add(g, NULL, x));
    assert_null(vo_add(g, x, NULL));
    assert_null(vo_mul(g, NULL, NULL));
    assert_null(vo_add_table(g, NULL, NULL));
    assert_null(vo_scale(g, NULL, 2));
    assert_null(vo_gelu(g, NULL));
    assert_null(vo_columns(g, NULL, 0, 1));
    assert_null(vo_regroup(g, NULL, 2));
    assert_null(vo_layer_norm(g, x, NULL, NULL, 1));
    assert_null(vo_softmax(g, NULL));
    assert_null(vo_embed(g, NULL, x));
    assert_null(vo_take_rows(g, x, NULL));
    assert_null(vo_concat(g, x, NULL));
    assert_null(vo_linear(g, NULL, NULL, NULL));
    assert_null(vo_matmul(g, x, NULL, true));
    assert_null(vo_conv1d(g, NULL, NULL, NULL, conv(1, 1, 1, 0)));
    assert_null(vo_attention(g, x, NULL, x, 1, 2, 1));
    assert_null(vo_attention_fallback(g, NULL, x, x, 1, 1));
    assert_null(vo_kv_store(g, NULL, x, x));
    assert_null(vo_attention_cached(g, x, NULL, NULL, NULL, x, x, 2, 1));
    assert_null(vo_lstm(g, x, x, NULL));
    /* NULL alone is no failure of the graph; a NULL output is one of the plan. */
    assert_int_equal(vo_graph_status(g, &err), VO_OK);
    vo_array *nothing = NULL;
    vo_plan *plan = NULL;
    assert_int_equal(vo_plan_create(&cpu.runtime, g, &nothing, 1, (vo_plan_params){0}, &plan, &err),
                     VO_ERR_ARGUMENT);
    assert_null(plan);
}

static void test_no_such_stream(void **state) {
    (void)state;
    vo_error err = {0};
    vo_graph *g = vo_graph_create(NULL);
    vo_array *x = vo_input(g, VO_F32, 2, 2, VO_PARAM_NONE, 0);
    vo_graph_set_stream(g, VO_STREAM_GPU);
    vo_array *y = vo_relu(g, x);
    vo_runtime only_cpu = cpu.runtime;
    only_cpu.streams[VO_STREAM_GPU] = NULL;
    vo_plan *plan = NULL;
    assert_int_equal(vo_plan_create(&only_cpu, g, &y, 1, (vo_plan_params){0}, &plan, &err),
                     VO_ERR_UNSUPPORTED);
    assert_null(plan);
}

static void test_weight_as_output(void **state) {
    (void)state;
    vo_error err = {0};
    test_weight w = weight_random(1, 4, 0, 0);
    vo_graph *g = vo_graph_create(NULL);
    vo_array *y = vo_constant(g, w.weight);
    vo_plan *plan = NULL;
    assert_int_equal(vo_plan_create(&cpu.runtime, g, &y, 1, (vo_plan_params){0}, &plan, &err),
                     VO_ERR_ARGUMENT);
    weight_free(&w);
}

/* ---- names and weights --------------------------------------------------------------------- */

static void test_names(void **state) {
    (void)state;
    assert_string_equal(vo_op_name(VO_OP_WEIGHT), "weight");
    assert_string_equal(vo_op_name(VO_OP_add), "add");
    assert_string_equal(vo_op_name(VO_OP_lstm), "lstm");
    assert_string_equal(vo_op_name(VO_OP_COUNT), "?");
    assert_int_equal(vo_op_donor(VO_OP_add), 0);
    assert_int_equal(vo_op_donor(VO_OP_linear), 3);
    assert_int_equal(vo_op_donor(VO_OP_INPUT), -1);
}

static int forgotten;
static void count_forgotten(void *user, const vo_view *view) {
    assert_ptr_equal(user, &forgotten);
    forgotten++;
}

static void test_weight_forms(void **state) {
    (void)state;
    vo_error err = {0};
    float *owned = rnd_floats(12, -1, 1);
    vo_view view = {.name = "w", .dtype = VO_F32, .rank = 2, .shape = {3, 4}};
    view.data = owned;
    view.bytes = 12 * sizeof *owned;
    vo_weight *w = vo_weight_create(&view, owned, count_forgotten, &forgotten, &err);
    for (int i = 0; i < 2; i++) { /* prepared once, the second plan takes what is there */
        vo_graph *g = vo_graph_create(NULL);
        vo_array *x = vo_input(g, VO_F32, 2, 4, VO_PARAM_NONE, 0);
        vo_array *y = vo_linear(g, x, vo_constant(g, w), NULL);
        vo_plan *plan = plan_of(&cpu, g, &y, 1, false);
        plan_run(plan);
        vo_plan_destroy(plan);
        assert_int_equal(forgotten, 1);
        assert_null(vo_weight_view(w)->data);
    }
    /* As plain f32 it cannot be had any more. */
    vo_graph *g = vo_graph_create(NULL);
    vo_array *x = vo_input(g, VO_F32, 3, 4, VO_PARAM_NONE, 0);
    vo_array *y = vo_add_table(g, x, vo_constant(g, w));
    vo_plan *plan = NULL;
    assert_int_equal(vo_plan_create(&cpu.runtime, g, &y, 1, (vo_plan_params){0}, &plan, &err),
                     VO_ERR_INTERNAL);
    vo_weight_destroy(w);
    vo_weight_destroy(NULL);
}

/* ---- allocations --------------------------------------------------------------------------- */

static void test_runs_allocate_nothing(void **state) {
    (void)state;
    test_weight w = weight_random(2, 4 * 48, 48, 0), b = weight_random(1, 4 * 48, 0, 0);
    test_weight k = weight_random(3, 48, 3, 48), kb = weight_random(1, 48, 0, 0);
    vo_graph *g = vo_graph_create(NULL);
    vo_buffer *buffer = vo_buffer_create(2 * 48 * sizeof(float), NULL);
    test_input x = input_random(g, 900, 48, false, VO_PARAM_ROWS, 300, -1, 1);
    vo_array *y = vo_conv1d(g, x.array, vo_constant(g, k.weight), vo_constant(g, kb.weight),
                            conv(300, 3, 1, 1));
    y = vo_attention(g, y, y, y, 3, 300, 0.25f);
    y = vo_add(g, x.array, vo_softmax(g, y));
    y = vo_linear(g, y, vo_constant(g, w.weight), vo_constant(g, b.weight));
    vo_array *carried = vo_state(g, buffer, VO_F32, (const int64_t[]){2, 48}, 2);
    y = vo_lstm(g, y, vo_constant(g, w.weight), carried);
    vo_plan *plan = plan_of(&cpu, g, &y, 1, false);
    vo_plan_set(plan, VO_PARAM_ROWS, 3);
    uint64_t ours = vo_memory_get_stats().allocations;
    long all = heap_calls();
    for (int64_t run = 0; run < 4; run++) {
        input_write(plan, &x);
        vo_plan_set(plan, VO_PARAM_ROWS, run);
        plan_run(plan);
    }
    long after = heap_calls();
    assert_int_equal(vo_memory_get_stats().allocations, ours);
    assert_int_equal(after, all);
    /* The counter does count. */
    vo_free(vo_alloc(10));
    assert_int_equal(vo_memory_get_stats().allocations, ours + 1);
    if (heap_is_counted()) assert_true(heap_calls() > after);
    vo_plan_destroy(plan);
    vo_buffer_unref(buffer);
    weight_free(&w);
    weight_free(&b);
    weight_free(&k);
    weight_free(&kb);
    input_free(&x);
}

/* ---- observing ----------------------------------------------------------------------------- */

typedef struct seen {
    int steps, products;
    int64_t rows;
    double sum; /* of the products' inputs */
} seen;

static void see(void *user, const vo_array *node, int64_t rows) {
    seen *s = user;
    s->steps++;
    s->rows = rows;
    if (node->op != VO_OP_linear) return;
    const vo_array *x = node->in[0];
    s->products++;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < vo_array_columns(x); j++)
            s->sum += (double)((const float *)x->data)[i * x->row_stride + j];
}

/* Every step is shown with its active rows, also of what would be a chain, and nothing changes. */
static void test_observer(void **state) {
    (void)state;
    enum { CAPACITY = 600, ACTIVE = 550, WIDTH = 32 };
    test_weight a = weight_random(2, WIDTH, WIDTH, 0), b = weight_random(2, WIDTH, WIDTH, 0);
    test_input x;
    float *first = vo_alloc(ACTIVE * WIDTH * sizeof *first);
    seen s = {0};
    double want = 0;
    for (int run = 0; run < 2; run++) {
        vo_graph *g = vo_graph_create(NULL);
        vo_plan *plan;
        vo_error err = {0};
        rnd_seed(5);
        x = input_random(g, CAPACITY, WIDTH, false, VO_PARAM_ROWS, 1, -1, 1);
        vo_array *h = vo_gelu(g, vo_linear(g, x.array, vo_constant(g, a.weight), NULL));
        vo_array *y = vo_add(g, x.array, vo_linear(g, h, vo_constant(g, b.weight), NULL));
        vo_plan_params params = {.observer = {run ? see : NULL, &s}};
        assert_int_equal(vo_plan_create(&cpu.runtime, g, &y, 1, params, &plan, &err), VO_OK);
        vo_plan_set(plan, VO_PARAM_ROWS, ACTIVE);
        input_write(plan, &x);
        plan_run(plan);
        for (int64_t i = 0; i < ACTIVE; i++)
            for (int64_t j = 0; j < WIDTH; j++) {
                float value = result_at(plan, y, i, j);
                if (run == 0) first[i * WIDTH + j] = value;
                assert_memory_equal(&value, &first[i * WIDTH + j], sizeof value);
                want += run ? (double)input_at(&x, i, j) : 0;
            }
        vo_plan_destroy(plan);
        input_free(&x);
    }
    assert_int_equal(s.steps, 2); /* gelu and the sum are in the products */
    assert_int_equal(s.products, 2);
    assert_int_equal(s.rows, ACTIVE);
    assert_true(isfinite(s.sum) && s.sum != want); /* the hidden layer is in it, too */
    vo_free(first);
    weight_free(&a);
    weight_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_runs_in_place),
        cmocka_unit_test(test_observer),
        cmocka_unit_test(test_arena_is_reused),
        cmocka_unit_test(test_random_graphs),
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_eval),
        cmocka_unit_test(test_wrong_shapes),
        cmocka_unit_test(test_null_propagates),
        cmocka_unit_test(test_no_such_stream),
        cmocka_unit_test(test_weight_as_output),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_weight_forms),
        cmocka_unit_test(test_runs_allocate_nothing),
    };
    return cmocka_run_group_tests_name("tensor: plans", tests, set_up, tear_down);
}
