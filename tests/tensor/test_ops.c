/* SPDX-License-Identifier: MIT
 *
 * Every op of ops.def on the CPU backend against plain loops in double: random shapes, dense
 * rows and slices of wider rows, all and some of the rows active. What an op must not read is
 * NaN, what it must not write is compared afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "tensor/support_tensor.h"

#define EPS 0x1p-24
enum { UNTOUCHED = 12345, MAX_IN = 3 };

static rig rigs[2]; /* plain C on one thread; everything this machine has on three */

static int set_up(void **state) {
    (void)state;
    rnd_seed(7);
    return rig_open(&rigs[0], 1, 0) && rig_open(&rigs[1], 3, vo_cpu_detect()) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
    return 0;
}

/* ---- one case: a graph with inputs, weights and one result ------------------------------- */

typedef struct op_case op_case;
typedef double (*want_fn)(const op_case *c, int64_t i, int64_t j, double *tolerance);

struct op_case {
    const char *name;
    vo_graph *g;
    test_input in[MAX_IN];
    test_weight w[2];
    int n_in, n_w;
    vo_array *y;
    want_fn want;
    double (*scalar)(double a, double b);
    int64_t n, d, k, m; /* sizes whose meaning is the case's */
    vo_conv1d_params conv;
    float scale;
    vo_array *ids_leaf[4];
    int32_t *ids[4];
    int64_t n_ids[4];
};

static op_case case_begin(const char *name) {
    op_case c = {.name = name, .g = vo_graph_create(NULL)};
    assert_non_null(c.g);
    return c;
}

static test_input *add_input(op_case *c, int64_t rows, int64_t columns, bool wide, int64_t unit) {
    c->in[c->n_in] = input_random(c->g, rows, columns, wide, VO_PARAM_ROWS, unit, -4, 4);
    return &c->in[c->n_in++];
}

static vo_array *add_weight(op_case *c, int rank, int64_t a, int64_t b, int64_t d) {
    c->w[c->n_w] = weight_random(rank, a, b, d);
    return vo_constant(c->g, c->w[c->n_w++].weight);
}

static vo_array *add_ids(op_case *c, int slot, int64_t n, int param, int64_t limit) {
    c->ids_leaf[slot] = vo_input(c->g, VO_I32, n, 0, param, 1);
    c->ids[slot] = vo_alloc_array((size_t)n, sizeof(int32_t));
    c->n_ids[slot] = n;
    for (int64_t i = 0; i < n; i++) c->ids[slot][i] = (int32_t)rnd_between(0, limit - 1);
    return c->ids_leaf[slot];
}

static void compare(const op_case *c, const vo_plan *plan, int64_t rows) {
    for (int64_t i = 0; i < c->y->shape[0]; i++)
        for (int64_t j = 0; j < vo_array_columns(c->y); j++) {
            double tolerance = 0, want = UNTOUCHED;
            if (i < rows) want = c->want(c, i, j, &tolerance);
            expect_near(c->name, i, j, (double)result_at(plan, c->y, i, j), want, tolerance);
        }
}

/* Runs the case with all, some, one and no units of rows, on the given runtime, and frees it. */
static void case_run(op_case *c, const rig *r, int64_t units) {
    vo_plan *plan = plan_of(r, c->g, &c->y, 1, false);
    const int64_t active[] = {units, units / 2, 1, 0};
    for (int run = 0; run < 4; run++) {
        for (int i = 0; i < c->n_in; i++) input_write(plan, &c->in[i]);
        for (int i = 0; i < 4; i++)
            if (c->ids[i])
                memcpy(vo_plan_data(plan, c->ids_leaf[i]), c->ids[i],
                       (size_t)c->n_ids[i] * sizeof(int32_t));
        float *y = vo_plan_data(plan, c->y);
        for (int64_t i = 0; i < c->y->shape[0] * c->y->row_stride; i++) y[i] = UNTOUCHED;
        vo_plan_set(plan, VO_PARAM_ROWS, active[run]);
        plan_run(plan);
        compare(c, plan, c->y->rows_param < 0 ? c->y->shape[0] : active[run] * c->y->rows_unit);
    }
    vo_plan_destroy(plan);
    for (int i = 0; i < c->n_in; i++) input_free(&c->in[i]);
    for (int i = 0; i < c->n_w; i++) weight_free(&c->w[i]);
    for (int i = 0; i < 4; i++) vo_free(c->ids[i]);
}

/* Both runtimes, small and large, dense and not. */
static void for_all(void (*one)(const rig *r, int64_t n, int64_t d, bool wide)) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 7}, {17, 64}, {560, 31}, {9, 259}};
    for (int r = 0; r < 2; r++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int wide = 0; wide < 2; wide++) one(&rigs[r], sizes[s][0], sizes[s][1], wide != 0);
}

/* ---- element-wise -------------------------------------------------------------------------- */

static double f_add(double a, double b) {
    return a + b;
}
static double f_mul(double a, double b) {
    return a * b;
}
static double f_gelu(double a, double b) {
    return 0.5 * a * erfc(-a * 0.70710678118654752440);
}
static double f_relu(double a, double b) {
    return a > 0 ? a : 0;
}
static double f_sigmoid(double a, double b) {
    return 1 / (1 + exp(-a));
}
static double f_tanh(double a, double b) {
    return tanh(a);
}
static double f_sqrt(double a, double b) {
    return sqrt(a);
}

static double want_scalar(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    double b = c->n_in > 1 ? (double)input_at(&c->in[1], i, j) : 0;
    double y = c->scalar((double)input_at(&c->in[0], i, j), b);
    *tolerance = 8 * EPS * fabs(y) + 5e-7;
    return y;
}

static const struct {
    const char *name;
    vo_array *(*front)(vo_graph *graph, vo_array *x);
    double (*scalar)(double a, double b);
} unary_ops[] = {{"gelu", vo_gelu, f_gelu},
                 {"relu", vo_relu, f_relu},
                 {"sigmoid", vo_sigmoid, f_sigmoid},
                 {"tanh", vo_tanh, f_tanh},
                 {"sqrt", vo_sqrt, f_sqrt}};

static void unary_cases(const rig *r, int64_t n, int64_t d, bool wide) {
    for (size_t op = 0; op < sizeof unary_ops / sizeof *unary_ops; op++) {
        op_case c = case_begin(unary_ops[op].name);
        test_input *x = add_input(&c, n, d, wide, 1);
        for (int64_t i = 0; unary_ops[op].scalar == f_sqrt && i < n * d; i++)
            x->values[i] = fabsf(x->values[i]);
        c.scalar = unary_ops[op].scalar;
        c.want = want_scalar;
        c.y = unary_ops[op].front(c.g, x->array);
        case_run(&c, r, n);
    }
}

static void binary_cases(const rig *r, int64_t n, int64_t d, bool wide) {
    for (int op = 0; op < 2; op++) {
        op_case c = case_begin(op ? "mul" : "add");
        vo_array *a = add_input(&c, n, d, wide, 1)->array;
        vo_array *b = add_input(&c, n, d, !wide, 1)->array;
        c.scalar = op ? f_mul : f_add;
        c.want = want_scalar;
        c.y = op ? vo_mul(c.g, a, b) : vo_add(c.g, a, b);
        case_run(&c, r, n);
    }
}

static double want_scale(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    double y = (double)c->scale * (double)input_at(&c->in[0], i, j);
    *tolerance = EPS * fabs(y);
    return y;
}

static void scale_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("scale");
    c.scale = -0.37f;
    c.want = want_scale;
    c.y = vo_scale(c.g, add_input(&c, n, d, wide, 1)->array, c.scale);
    case_run(&c, r, n);
}

static double want_table(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    *tolerance = 4 * EPS;
    return (double)input_at(&c->in[0], i, j) + (double)c->w[0].values[i % c->n * c->d + j];
}

static void add_table_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("add_table");
    c.n = n;
    c.d = d;
    c.want = want_table;
    vo_array *x = add_input(&c, 4 * n, d, wide, n)->array;
    c.y = vo_add_table(c.g, x, add_weight(&c, 2, n, d, 0));
    case_run(&c, r, 4);
}

static void test_elementwise(void **state) {
    (void)state;
    for_all(unary_cases);
    for_all(binary_cases);
    for_all(scale_case);
    for_all(add_table_case);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static double want_norm(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    double sum = 0, squares = 0;
    for (int64_t l = 0; l < c->d; l++) sum += (double)input_at(&c->in[0], i, l);
    double mean = sum / (double)c->d;
    for (int64_t l = 0; l < c->d; l++) {
        double x = (double)input_at(&c->in[0], i, l) - mean;
        squares += x * x;
    }
    *tolerance = 1e-5;
    return ((double)input_at(&c->in[0], i, j) - mean) / sqrt(squares / (double)c->d + 1e-3) *
               (double)c->w[0].values[j] +
           (double)c->w[1].values[j];
}

static void layer_norm_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("layer_norm");
    c.d = d;
    c.want = want_norm;
    vo_array *x = add_input(&c, n, d, wide, 1)->array;
    vo_array *gamma = add_weight(&c, 1, d, 0, 0), *beta = add_weight(&c, 1, d, 0, 0);
    c.y = vo_layer_norm(c.g, x, gamma, beta, 1e-3f);
    case_run(&c, r, n);
}

static double want_softmax(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    double sum = 0;
    for (int64_t l = 0; l < c->d; l++) sum += exp((double)input_at(&c->in[0], i, l));
    *tolerance = 1e-6;
    return exp((double)input_at(&c->in[0], i, j)) / sum;
}

static void softmax_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("softmax");
    c.d = d;
    c.want = want_softmax;
    c.y = vo_softmax(c.g, add_input(&c, n, d, wide, 1)->array);
    case_run(&c, r, n);
}

static double want_embed(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    int32_t id = c->ids[0][i];
    return id < 0 || id >= c->m ? 0 : (double)c->w[0].values[id * c->d + j];
}

static void embed_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("embed");
    c.d = d;
    c.m = 37;
    c.want = want_embed;
    vo_array *table = add_weight(&c, 2, c.m, d, 0);
    c.y = vo_embed(c.g, table, add_ids(&c, 0, n, VO_PARAM_ROWS, c.m));
    c.ids[0][0] = n > 1 ? -1 : 0;
    c.ids[0][n - 1] = n > 2 ? (int32_t)c.m : 36;
    case_run(&c, r, n);
}

static double want_taken(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    int32_t id = c->ids[0][i];
    return id < 0 || id >= c->n ? 0 : (double)input_at(&c->in[0], id, j);
}

static void take_rows_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("take_rows");
    c.n = n;
    c.want = want_taken;
    vo_array *x = add_input(&c, n, d, wide, 1)->array;
    c.y = vo_take_rows(c.g, x, add_ids(&c, 0, n + 5, VO_PARAM_NONE, n));
    c.ids[0][1] = -1;
    c.ids[0][2] = (int32_t)n;
    case_run(&c, r, n);
}

static double want_concat(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    return (double)(j < c->d ? input_at(&c->in[0], i, j) : input_at(&c->in[1], i, j - c->d));
}

static void concat_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("concat");
    c.d = d;
    c.want = want_concat;
    vo_array *a = add_input(&c, n, d, wide, 1)->array;
    c.y = vo_concat(c.g, a, add_input(&c, n, 2 * d + 1, !wide, 1)->array);
    case_run(&c, r, n);
}

static void test_rows(void **state) {
    (void)state;
    for_all(layer_norm_case);
    for_all(softmax_case);
    for_all(embed_case);
    for_all(take_rows_case);
    for_all(concat_case);
}

/* ---- products ------------------------------------------------------------------------------ */

static double product_tolerance(int64_t k, double size) {
    return 1.2 * EPS * (double)(k + 4) * size;
}

static double want_linear(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    double sum = c->n_w > 1 ? (double)c->w[1].values[j] : 0, size = fabs(sum);
    for (int64_t l = 0; l < c->k; l++) {
        double p = (double)input_at(&c->in[0], i, l) * (double)c->w[0].values[j * c->k + l];
        sum += p;
        size += fabs(p);
    }
    *tolerance = product_tolerance(c->k, size);
    return sum;
}

static void linear_case(const rig *r, int64_t n, int64_t d, bool wide) {
    op_case c = case_begin("linear");
    c.k = d;
    c.want = want_linear;
    vo_array *x = add_input(&c, n, d, wide, 1)->array;
    vo_array *w = add_weight(&c, 2, d / 2 + 3, d, 0);
    c.y = vo_linear(c.g, x, w, d % 2 ? add_weight(&c, 1, d / 2 + 3, 0, 0) : NULL);
    case_run(&c, r, n);
}

static double want_matmul(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    double sum = 0, size = 0;
    for (int64_t l = 0; l < c->k; l++) {
        float b = c->m ? input_at(&c->in[1], j, l) : input_at(&c->in[1], l, j);
        double p = (double)input_at(&c->in[0], i, l) * (double)b;
        sum += p;
        size += fabs(p);
    }
    *tolerance = product_tolerance(c->k, size);
    return sum;
}

static void matmul_cases(const rig *r, int64_t n, int64_t d, bool wide) {
    for (int transpose = 0; transpose < 2; transpose++) {
        op_case c = case_begin("matmul");
        c.k = d;
        c.m = transpose;
        c.want = want_matmul;
        int64_t rows = transpose ? 11 : d, columns = transpose ? d : 11;
        vo_array *a = add_input(&c, n, d, wide, 1)->array;
        c.in[1] = input_random(c.g, rows, columns, !wide, VO_PARAM_NONE, 0, -1, 1);
        c.n_in = 2;
        c.y = vo_matmul(c.g, a, c.in[1].array, transpose != 0);
        case_run(&c, r, n);
    }
}

static double want_conv(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    const vo_conv1d_params *p = &c->conv;
    int64_t out = (p->window + 2 * p->pad - p->kernel) / p->stride + 1;
    int64_t window = i / out, t = i % out;
    double sum = (double)c->w[1].values[j], size = fabs(sum);
    for (int k = 0; k < p->kernel; k++) {
        int64_t at = t * p->stride + k - p->pad;
        if (at < 0 || at >= p->window) continue;
        for (int64_t l = 0; l < c->d; l++) {
            double x = (double)input_at(&c->in[0], window * p->window + at, l) *
                       (double)c->w[0].values[(j * p->kernel + k) * c->d + l];
            sum += x;
            size += fabs(x);
        }
    }
    *tolerance = product_tolerance(p->kernel * c->d, size);
    return sum;
}

static void conv_case(const rig *r, vo_conv1d_params p, int64_t windows, int64_t channels) {
    op_case c = case_begin("conv1d");
    c.d = channels;
    c.conv = p;
    c.want = want_conv;
    vo_array *x = add_input(&c, windows * p.window, channels, false, p.window)->array;
    vo_array *w = add_weight(&c, 3, 13, p.kernel, channels), *b = add_weight(&c, 1, 13, 0, 0);
    c.y = vo_conv1d(c.g, x, w, b, p);
    case_run(&c, r, windows);
}

static void test_products(void **state) {
    (void)state;
    static const vo_conv1d_params convs[] = {
        {.window = 1, .kernel = 3, .stride = 1, .pad = 1}, /* fewer rows than the kernel */
        {.window = 2, .kernel = 3, .stride = 2, .pad = 1},
        {.window = 2, .kernel = 2, .stride = 1, .pad = 3}, /* patches of padding alone */
        {.window = 5, .kernel = 2, .stride = 3, .pad = 0},
        {.window = 4, .kernel = 5, .stride = 1, .pad = 4},
        {.window = 40, .kernel = 16, .stride = 8, .pad = 0},
        {.window = 255, .kernel = 3, .stride = 1, .pad = 1},
        {.window = 520, .kernel = 3, .stride = 1, .pad = 1},
        {.window = 520, .kernel = 3, .stride = 2, .pad = 1},
    };
    for_all(linear_case);
    for_all(matmul_cases);
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < sizeof convs / sizeof *convs; i++) {
            conv_case(&rigs[r], convs[i], convs[i].window > 100 ? 2 : 300, 6);
            conv_case(&rigs[r], convs[i], 3, 1);
        }
}

/* ---- attention ----------------------------------------------------------------------------- */

/* softmax(scale q k^T) v over positions 0..n-1, one output element */
static double attend(int64_t n, int64_t hd, double scale, const float *q,
                     const float *(*key)(const void *ctx, int64_t p),
                     const float *(*value)(const void *ctx, int64_t p), const void *ctx,
                     int64_t column) {
    double top = -INFINITY, sum = 0, out = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t p = 0; p < n; p++) {
            double score = 0;
            for (int64_t l = 0; l < hd; l++) score += (double)q[l] * (double)key(ctx, p)[l];
            score *= scale;
            if (pass == 0) {
                if (score > top) top = score;
                continue;
            }
            sum += exp(score - top);
            out += exp(score - top) * (double)value(ctx, p)[column];
        }
    return n ? out / sum : 0;
}

typedef struct window_view {
    const op_case *c;
    int64_t row0, column0;
} window_view;

static const float *window_key(const void *ctx, int64_t p) {
    const window_view *w = ctx;
    return w->c->in[1].values + (w->row0 + p) * w->c->d + w->column0;
}
static const float *window_value(const void *ctx, int64_t p) {
    const window_view *w = ctx;
    return w->c->in[2].values + (w->row0 + p) * w->c->d + w->column0;
}

static double want_attention(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    int64_t hd = c->d / c->m;
    window_view w = {c, i / c->n * c->n, j / hd * hd};
    *tolerance = 2e-5;
    return attend(c->n, hd, (double)c->scale, c->in[0].values + i * c->d + w.column0, window_key,
                  window_value, &w, j % hd);
}

static void attention_case(const rig *r, int64_t window, int64_t heads, int64_t hd, bool wide) {
    op_case c = case_begin("attention");
    c.n = window;
    c.m = heads;
    c.d = heads * hd;
    c.scale = 0.21f;
    c.want = want_attention;
    for (int i = 0; i < 3; i++) add_input(&c, 3 * window, c.d, wide, window);
    c.y =
        vo_attention(c.g, c.in[0].array, c.in[1].array, c.in[2].array, (int)heads, window, c.scale);
    case_run(&c, r, 3);
}

enum { CACHE_SLOTS = 90, CACHE_LENGTH = 40, CACHE_SEQUENCES = 4 };
static float *cache_values[2]; /* keys, values: [heads][CACHE_SLOTS][hd] */

typedef struct cache_view {
    const int32_t *table;
    int64_t sequence, head, hd;
} cache_view;

static const float *cache_at(const cache_view *v, int side, int64_t p) {
    int64_t cell = v->sequence * CACHE_LENGTH + p;
    int64_t slot = v->table ? v->table[cell] : cell;
    return cache_values[side] + (v->head * CACHE_SLOTS + slot) * v->hd;
}
static const float *cache_key(const void *ctx, int64_t p) {
    return cache_at(ctx, 0, p);
}
static const float *cache_value(const void *ctx, int64_t p) {
    return cache_at(ctx, 1, p);
}

static double want_cached(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    int64_t hd = c->d / c->m;
    cache_view v = {c->ids[2], c->ids[0][i], j / hd, hd};
    *tolerance = 2e-5;
    return attend(c->ids[1][i], hd, (double)c->scale, c->in[0].values + i * c->d + v.head * hd,
                  cache_key, cache_value, &v, j % hd);
}

/* Makes cache_values[side]; of f16 those of a second array, which is returned. */
static uint16_t *make_cache(vo_graph *g, int side, vo_dtype dtype, const int64_t shape[3],
                            vo_array **array) {
    int64_t n = shape[0] * shape[1] * shape[2];
    float *values = cache_values[side] = rnd_floats(n, -1, 1);
    uint16_t *halves = dtype == VO_F16 ? vo_alloc_array((size_t)n, sizeof *halves) : NULL;
    for (int64_t i = 0; halves && i < n; i++)
        values[i] = vo_f16_to_f32(halves[i] = vo_f32_to_f16(values[i]));
    vo_buffer *buffer = vo_buffer_borrow(halves ? (void *)halves : (void *)values,
                                         (size_t)n * (halves ? 2 : 4), NULL);
    *array = vo_state(g, buffer, dtype, shape, 3);
    vo_buffer_unref(buffer);
    return halves;
}

static void cached_case(const rig *r, vo_dtype dtype, int64_t n, int64_t heads, int64_t hd,
                        bool use_table, bool wide) {
    op_case c = case_begin("attention_cached");
    int64_t shape[] = {heads, CACHE_SLOTS, hd};
    vo_array *sides[2];
    uint16_t *halves[2];
    for (int i = 0; i < 2; i++) halves[i] = make_cache(c.g, i, dtype, shape, &sides[i]);
    c.m = heads;
    c.d = heads * hd;
    c.scale = 0.3f;
    c.want = want_cached;
    vo_array *q = add_input(&c, n, c.d, wide, 1)->array;
    vo_array *seq = add_ids(&c, 0, n, VO_PARAM_ROWS, use_table ? CACHE_SEQUENCES : 2);
    vo_array *len = add_ids(&c, 1, n, VO_PARAM_ROWS, CACHE_LENGTH + 1);
    vo_array *table = NULL;
    if (use_table)
        table = add_ids(&c, 2, CACHE_SEQUENCES * CACHE_LENGTH, VO_PARAM_NONE, CACHE_SLOTS);
    for (int64_t i = 1; i < n; i++) /* neighbours with the same view share work */
        if (rnd_between(0, 2)) c.ids[0][i] = c.ids[0][i - 1], c.ids[1][i] = c.ids[1][i - 1];
    c.y = vo_attention_cached(c.g, q, sides[0], sides[1], table, seq, len, CACHE_LENGTH, c.scale);
    case_run(&c, r, n);
    for (int i = 0; i < 2; i++) {
        vo_free(cache_values[i]);
        vo_free(halves[i]);
    }
}

/* ---- what a head looks at */

static double want_weights(const op_case *c, int64_t i, int64_t j, double *tolerance) {
    const int64_t hd = c->d / c->m, len = c->ids[1][i];
    const cache_view v = {NULL, c->ids[0][i], 1, hd};
    double total = 0, max = -INFINITY, scores[CACHE_LENGTH];
    *tolerance = 1e-5;
    if (j >= len) return 0;
    for (int64_t p = 0; p < len; p++) {
        scores[p] = 0;
        for (int64_t d = 0; d < hd; d++)
            scores[p] += (double)c->in[0].values[i * c->d + hd + d] * (double)cache_key(&v, p)[d];
        scores[p] *= (double)c->scale;
        max = fmax(max, scores[p]);
    }
    for (int64_t p = 0; p < len; p++) total += exp(scores[p] - max);
    return exp(scores[j] - max) / total;
}

/* Of the second head; neighbours often have the same view. */
static void weights_case(const rig *r, vo_dtype dtype, int64_t n, int64_t heads, int64_t hd,
                         bool wide) {
    op_case c = case_begin("attention_weights");
    vo_array *keys;
    uint16_t *halves = make_cache(c.g, 0, dtype, (const int64_t[]){heads, CACHE_SLOTS, hd}, &keys);
    c.m = heads;
    c.d = heads * hd;
    c.scale = 0.3f;
    c.want = want_weights;
    vo_array *q = add_input(&c, n, c.d, wide, 1)->array;
    vo_array *seq = add_ids(&c, 0, n, VO_PARAM_ROWS, 2);
    vo_array *len = add_ids(&c, 1, n, VO_PARAM_ROWS, CACHE_LENGTH + 1);
    for (int64_t i = 1; i < n; i++)
        if (rnd_between(0, 2)) c.ids[0][i] = c.ids[0][i - 1], c.ids[1][i] = c.ids[1][i - 1];
    c.y = vo_attention_weights(c.g, q, keys, 1, seq, len, CACHE_LENGTH, c.scale);
    case_run(&c, r, n);
    vo_free(cache_values[0]);
    vo_free(halves);
}

static void test_weights(void **state) {
    (void)state;
    for (int r = 0; r < 2; r++)
        for (int wide = 0; wide < 2; wide++) {
            weights_case(&rigs[r], VO_F32, 1, 2, 16, wide);
            weights_case(&rigs[r], VO_F32, 23, 3, 32, wide);
            weights_case(&rigs[r], VO_F16, 23, 2, 64, wide);
        }
    vo_error err = {0};
    vo_graph *g = vo_graph_create(&err);
    vo_array *q = vo_input(g, VO_F32, 4, 32, VO_PARAM_ROWS, 1), *keys;
    vo_array *ids = vo_input(g, VO_I32, 4, 0, VO_PARAM_ROWS, 1);
    make_cache(g, 0, VO_F32, (const int64_t[]){2, CACHE_SLOTS, 16}, &keys);
    assert_null(vo_attention_weights(g, q, keys, 2, ids, ids, CACHE_LENGTH, 1)); /* no such head */
    assert_int_equal(vo_graph_status(g, &err), VO_ERR_ARGUMENT);
    vo_graph_destroy(g);
    vo_free(cache_values[0]);
}

static void test_attention(void **state) {
    (void)state;
    for (int r = 0; r < 2; r++)
        for (int wide = 0; wide < 2; wide++) {
            attention_case(&rigs[r], 1, 1, 8, wide);
            attention_case(&rigs[r], 37, 3, 16, wide);
            attention_case(&rigs[r], 170, 1, 8, wide);
            for (int table = 0; table < 2; table++) {
                cached_case(&rigs[r], VO_F32, 1, 1, 16, table, wide);
                cached_case(&rigs[r], VO_F32, 23, 3, 32, table, wide);
                cached_case(&rigs[r], VO_F16, 1, 1, 16, table, wide);
                cached_case(&rigs[r], VO_F16, 23, 3, 64, table, wide);
            }
        }
}

static void kv_store_case(vo_dtype dtype) {
    enum { HEADS = 3, SLOTS = 20, HD = 8, ROWS = 6 };
    for (int64_t active = 0; active <= ROWS; active += 3) {
        vo_graph *g = vo_graph_create(NULL);
        size_t bytes = HEADS * SLOTS * HD * (dtype == VO_F16 ? sizeof(uint16_t) : sizeof(float));
        float *cache = rnd_floats(HEADS * SLOTS * HD, -1, 1); /* halves use a part of it */
        float *want = rnd_floats(HEADS * SLOTS * HD, -1, 1);
        memcpy(want, cache, bytes);
        vo_buffer *buffer = vo_buffer_borrow(cache, bytes, NULL);
        vo_array *state_array = vo_state(g, buffer, dtype, (const int64_t[]){HEADS, SLOTS, HD}, 3);
        vo_buffer_unref(buffer);
        test_input x = input_random(g, ROWS, HEADS * HD, true, VO_PARAM_ROWS, 1, -1, 1);
        vo_array *slots = vo_input(g, VO_I32, ROWS, 0, VO_PARAM_ROWS, 1);
        vo_array *y = vo_kv_store(g, state_array, x.array, slots);
        vo_plan *plan = plan_of(&rigs[1], g, &y, 1, false);
        input_write(plan, &x);
        /* The fourth row has no slot, the fifth one beyond the end: both are left out. */
        static const int32_t to[ROWS] = {7, 0, 19, -1, SLOTS, 3};
        memcpy(vo_plan_data(plan, slots), to, sizeof to);
        for (int64_t i = 0; i < active; i++)
            for (int64_t j = 0; to[i] >= 0 && to[i] < SLOTS && j < HEADS * HD; j++) {
                int64_t at = (j / HD * SLOTS + to[i]) * HD + j % HD;
                if (dtype == VO_F16)
                    ((uint16_t *)(void *)want)[at] = vo_f32_to_f16(input_at(&x, i, j));
                else
                    want[at] = input_at(&x, i, j);
            }
        vo_plan_set(plan, VO_PARAM_ROWS, active);
        plan_run(plan);
        assert_ptr_equal(vo_plan_data(plan, y), cache);
        assert_memory_equal(cache, want, bytes);
        vo_plan_destroy(plan);
        input_free(&x);
        vo_free(cache);
        vo_free(want);
    }
}

static void test_kv_store(void **state) {
    (void)state;
    kv_store_case(VO_F32);
    kv_store_case(VO_F16);
}

/* ---- recurrence ---------------------------------------------------------------------------- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* One step in double; h and c are carried on. */
static void lstm_step(int64_t hidden, const float *gates, const float *w, double *h, double *c) {
    double *g = vo_alloc_array((size_t)(4 * hidden), sizeof *g);
    for (int64_t i = 0; i < 4 * hidden; i++) {
        g[i] = (double)gates[i];
        for (int64_t j = 0; j < hidden; j++) g[i] += (double)w[i * hidden + j] * h[j];
    }
    for (int64_t j = 0; j < hidden; j++) {
        c[j] = sigmoid(g[hidden + j]) * c[j] + sigmoid(g[j]) * tanh(g[2 * hidden + j]);
        h[j] = sigmoid(g[3 * hidden + j]) * tanh(c[j]);
    }
    vo_free(g);
}

/* Two runs of different length over one state. */
static void lstm_case(const rig *r, int64_t hidden, bool wide) {
    enum { STEPS = 9 };
    vo_graph *g = vo_graph_create(NULL);
    test_input gates = input_random(g, STEPS, 4 * hidden, wide, VO_PARAM_ROWS, 1, -1, 1);
    test_weight w = weight_random(2, 4 * hidden, hidden, 0);
    vo_buffer *buffer = vo_buffer_create((size_t)(2 * hidden) * sizeof(float), NULL);
    vo_array *carried = vo_state(g, buffer, VO_F32, (const int64_t[]){2, hidden}, 2);
    vo_array *y = vo_lstm(g, gates.array, vo_constant(g, w.weight), carried);
    vo_plan *plan = plan_of(r, g, &y, 1, false);
    double *h = vo_alloc_array((size_t)hidden, sizeof *h);
    double *c = vo_alloc_array((size_t)hidden, sizeof *c);
    static const int64_t steps[] = {STEPS, 0, 4};
    for (int run = 0; run < 3; run++) {
        input_write(plan, &gates);
        vo_plan_set(plan, VO_PARAM_ROWS, steps[run]);
        plan_run(plan);
        for (int64_t t = 0; t < steps[run]; t++) {
            lstm_step(hidden, gates.values + t * 4 * hidden, w.values, h, c);
            for (int64_t j = 0; j < hidden; j++)
                expect_near("lstm", t, j, (double)result_at(plan, y, t, j), h[j], 2e-5);
        }
    }
    const float *at = vo_buffer_data(buffer);
    for (int64_t j = 0; j < hidden; j++) {
        expect_near("lstm h", 0, j, (double)at[j], h[j], 2e-5);
        expect_near("lstm c", 1, j, (double)at[hidden + j], c[j], 2e-5);
    }
    vo_plan_destroy(plan);
    vo_buffer_unref(buffer);
    weight_free(&w);
    input_free(&gates);
    vo_free(h);
    vo_free(c);
}

/* Sequences side by side get what each gets alone, bit for bit. */
static void lstm_batch(const rig *r, int64_t hidden) {
    enum { STEPS = 5, B = 11 };
    test_weight w = weight_random(2, 4 * hidden, hidden, 0);
    vo_plan *plans[2];
    vo_array *y[2];
    test_input gates[2];
    vo_buffer *memory[2];
    for (int k = 0; k < 2; k++) {
        const int64_t b = k ? B : 1;
        vo_graph *g = vo_graph_create(NULL);
        gates[k] = input_random(g, STEPS * b, 4 * hidden, false, VO_PARAM_ROWS, 1, -1, 1);
        memory[k] = vo_buffer_create((size_t)(2 * b * hidden) * sizeof(float), NULL);
        vo_array *carried = vo_state(g, memory[k], VO_F32, (const int64_t[]){2 * b, hidden}, 2);
        y[k] = vo_lstm(g, gates[k].array, vo_constant(g, w.weight), carried);
        plans[k] = plan_of(r, g, &y[k], 1, false);
    }
    input_write(plans[1], &gates[1]);
    vo_plan_set(plans[1], VO_PARAM_ROWS, STEPS * B);
    plan_run(plans[1]);
    for (int64_t i = 0; i < B; i++) {
        for (int64_t t = 0; t < STEPS; t++)
            memcpy(gates[0].values + t * 4 * hidden, gates[1].values + (t * B + i) * 4 * hidden,
                   (size_t)(4 * hidden) * sizeof(float));
        memset(vo_buffer_data(memory[0]), 0, vo_buffer_bytes(memory[0]));
        input_write(plans[0], &gates[0]);
        vo_plan_set(plans[0], VO_PARAM_ROWS, STEPS);
        plan_run(plans[0]);
        for (int64_t t = 0; t < STEPS; t++)
            for (int64_t j = 0; j < hidden; j++)
                assert_true(result_at(plans[0], y[0], t, j) ==
                            result_at(plans[1], y[1], t * B + i, j));
        const float *one = vo_buffer_data(memory[0]), *all = vo_buffer_data(memory[1]);
        for (int64_t part = 0; part < 2; part++)
            assert_memory_equal(one + part * hidden, all + (part * B + i) * hidden,
                                (size_t)hidden * sizeof(float));
    }
    for (int k = 0; k < 2; k++) {
        vo_plan_destroy(plans[k]);
        vo_buffer_unref(memory[k]);
        input_free(&gates[k]);
    }
    weight_free(&w);
}

static void test_lstm(void **state) {
    (void)state;
    for (int r = 0; r < 2; r++)
        for (int wide = 0; wide < 2; wide++) {
            lstm_case(&rigs[r], 1, wide);
            lstm_case(&rigs[r], 5, wide);
            lstm_case(&rigs[r], 64, wide);
        }
    for (int r = 0; r < 2; r++) {
        lstm_batch(&rigs[r], 5);
        lstm_batch(&rigs[r], 256);
    }
}

/* ---- views --------------------------------------------------------------------------------- */

static void test_views(void **state) {
    (void)state;
    vo_graph *g = vo_graph_create(NULL);
    test_input x = input_random(g, 12, 6, false, VO_PARAM_ROWS, 4, -1, 1);
    vo_array *pairs = vo_regroup(g, x.array, 2);                 /* [6, 12] */
    vo_array *slice = vo_columns(g, pairs, 3, 7);                /* [6, 7]  */
    vo_array *inner = vo_columns(g, slice, 2, 4);                /* [6, 4]  */
    vo_array *halves = vo_regroup(g, vo_scale(g, inner, 2), -2); /* [12, 2] */
    vo_array *y = vo_scale(g, halves, 3);
    vo_plan *plan = plan_of(&rigs[1], g, &y, 1, false);
    assert_int_equal(y->shape[0], 12);
    assert_int_equal(y->shape[1], 2);
    for (int64_t units = 0; units <= 3; units++) {
        int64_t params[VO_PARAM_COUNT] = {units};
        input_write(plan, &x);
        vo_plan_set(plan, VO_PARAM_ROWS, units);
        plan_run(plan);
        assert_int_equal(vo_array_rows(y, params), 4 * units);
        for (int64_t i = 0; i < 4 * units; i++)
            for (int64_t j = 0; j < 2; j++) {
                int64_t at = i / 2 * 12 + 3 + 2 + i % 2 * 2 + j;
                expect_near("views", i, j, (double)result_at(plan, y, i, j),
                            6 * (double)x.values[at], 1e-6);
            }
    }
    vo_plan_destroy(plan);
    input_free(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_products),    cmocka_unit_test(test_attention),
        cmocka_unit_test(test_weights),     cmocka_unit_test(test_kv_store),
        cmocka_unit_test(test_lstm),        cmocka_unit_test(test_views),
    };
    return cmocka_run_group_tests_name("tensor: ops", tests, set_up, tear_down);
}
