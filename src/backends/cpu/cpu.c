/* SPDX-License-Identifier: MIT
 *
 * The backend object, its table of ops, and the two forms a weight can take on a CPU: packed
 * panels for products, plain f32 for everything else.
 */
#include "backends/cpu/cpu.h"

#include "backends/cpu/packed.h"
#include "base/dequantize.h"
#include "base/memory.h"

#include <math.h>

static const vo_cpu_op *const ops[VO_OP_COUNT] = {
#define VO_OP(name, donor) [VO_OP_##name] = &vo_cpu_##name,
#include "tensor/ops.def"
#undef VO_OP
};

static vo_status cpu_prepare(vo_backend *backend, vo_array *node, size_t *workspace,
                             vo_error *err) {
    *workspace = 0;
    if (!ops[node->op])
        return vo_fail(err, VO_ERR_UNSUPPORTED, "%s has no CPU version", vo_op_name(node->op));
    if (!ops[node->op]->prepare) return VO_OK;
    vo_cpu_backend cpu = *(vo_cpu_backend *)backend;
    if (!node->chain) return ops[node->op]->prepare(&cpu, node, workspace, err);
    /* Workspace for one block on one thread; weights are still packed by all. */
    vo_array block = *node;
    if (vo_array_worked_rows(node) == node) block.shape[0] = node->chain->block;
    cpu.pool = NULL;
    return ops[node->op]->prepare(&cpu, &block, workspace, err);
}

const vo_cpu_op *vo_cpu_find_op(vo_op op) {
    return ops[op];
}

static void cpu_run(vo_backend *backend, const vo_array *node, const int64_t params[VO_PARAM_COUNT],
                    void *workspace) {
    int64_t rows = vo_array_rows(vo_array_worked_rows(node), params);
    if (rows > 0) ops[node->op]->run((vo_cpu_backend *)backend, node, rows, workspace);
}

static vo_status cpu_share(const vo_backend *backend, vo_pool *pool, vo_backend **shared,
                           vo_error *err) {
    vo_cpu_backend *cpu = vo_alloc(sizeof *cpu);
    if (!cpu) return vo_fail(err, VO_ERR_MEMORY, "no memory for the CPU backend");
    *cpu = *(const vo_cpu_backend *)backend;
    cpu->pool = pool;
    *shared = &cpu->base;
    return VO_OK;
}

static void cpu_destroy(vo_backend *backend) {
    vo_free(backend);
}

static const vo_backend_vtable cpu_vtable = {.name = "cpu",
                                             .prepare = cpu_prepare,
                                             .plan_chain = vo_cpu_plan_chain,
                                             .run_chain = vo_cpu_run_chain,
                                             .run = cpu_run,
                                             .share = cpu_share,
                                             .destroy = cpu_destroy};

vo_status vo_cpu_backend_create(const vo_kernels *kernels, vo_pool *pool, vo_backend **backend,
                                vo_error *err) {
    vo_cpu_backend *cpu = vo_alloc(sizeof *cpu);
    if (!cpu) return vo_fail(err, VO_ERR_MEMORY, "no memory for the CPU backend");
    cpu->base.vtable = &cpu_vtable;
    cpu->kernels = *kernels;
    cpu->pool = pool;
    cpu->packers = pool;
    *backend = &cpu->base;
    return VO_OK;
}

typedef struct packing {
    vo_cpu_backend *cpu;
    const vo_array *node;
} packing;

/* The type of the panels. Convolutions see the raw input and are a small part: they stay above
 * int8, and leave f32 only where bf16 products are faster. Tables of embeddings, which may also
 * make the logits, stay at int8 unless the file has them in four bits. */
static vo_dtype panel_type(const packing *p, const vo_view *view) {
    const vo_dtype exact = view->dtype == VO_F16 ? VO_F16 : VO_F32;
    const bool fast_bf16 = vo_cpu_multiplies_bf16(p->cpu->kernels.flags);
    vo_compute compute = p->node->compute;
    if (p->node->op == VO_OP_conv1d && compute != VO_COMPUTE_F32)
        compute = fast_bf16 ? VO_COMPUTE_BF16 : VO_COMPUTE_F32;
    if (compute == VO_COMPUTE_INT4 && p->node->op == VO_OP_embed && !vo_packed_keeps(view))
        compute = VO_COMPUTE_INT8;
    if (compute == VO_COMPUTE_INT4) return VO_AFFINE;
    if (compute == VO_COMPUTE_INT8) return VO_I8;
    return compute == VO_COMPUTE_BF16 ? VO_BF16 : exact;
}

/* The norm that makes a product's input, or NULL */
static const vo_array *norm_before(const vo_array *node) {
    const vo_array *x = node->op == VO_OP_linear ? node->in[0] : NULL;
    return x && x->op == VO_OP_layer_norm ? x : NULL;
}

/* How large the columns of a product's input are: what a norm's gain and bias make of numbers
 * around 0 with a deviation of 1. NULL without a norm. */
static vo_status input_sizes(const packing *p, float **sizes, vo_error *err) {
    const vo_array *norm = norm_before(p->node);
    if (!norm) return VO_OK;
    const float *gain = norm->in[1]->prepared, *bias = norm->in[2]->prepared;
    *sizes = vo_alloc_array((size_t)norm->shape[1], sizeof **sizes);
    if (!*sizes) return vo_fail(err, VO_ERR_MEMORY, "no memory for weights");
    for (int64_t i = 0; i < norm->shape[1]; i++) (*sizes)[i] = 3 * fabsf(gain[i]) + fabsf(bias[i]);
    return VO_OK;
}

static vo_status make_packed(void *user, const vo_view *view, void **prepared, vo_error *err) {
    const packing *p = user;
    vo_cpu_backend *cpu = p->cpu;
    vo_packed *packed = vo_alloc(sizeof *packed);
    if (!packed) return vo_fail(err, VO_ERR_MEMORY, "no memory for weights");
    const vo_dtype type = panel_type(p, view);
    float *sizes = NULL;
    vo_status status = type == VO_I8 ? input_sizes(p, &sizes, err) : VO_OK;
    if (status == VO_OK)
        status = vo_packed_create(packed, &cpu->kernels, cpu->packers, view, type, sizes, err);
    vo_free(sizes);
    if (status != VO_OK) {
        vo_free(packed);
        return status;
    }
    *prepared = packed;
    return VO_OK;
}

static void destroy_packed(void *prepared) {
    vo_packed_destroy(prepared);
    vo_free(prepared);
}

vo_status vo_cpu_prepare_packed(vo_cpu_backend *cpu, const vo_array *node, vo_array *weight,
                                vo_error *err) {
    packing p = {cpu, node};
    const vo_array *norm = norm_before(node);
    for (int i = 1; norm && i <= 2; i++) {
        vo_status status = vo_cpu_prepare_f32(cpu, norm->in[i], err);
        if (status != VO_OK) return status;
    }
    return vo_weight_prepare(weight->weight, weight->stream, make_packed, destroy_packed, &p,
                             &weight->prepared, err);
}

static vo_status make_f32(void *user, const vo_view *view, void **prepared, vo_error *err) {
    int64_t rows = view->rank ? view->shape[0] : 1, columns = 1;
    for (int i = 1; i < view->rank; i++) columns *= view->shape[i];
    if (view->rank == 1) columns = rows, rows = 1;
    float *data = vo_alloc_array((size_t)(rows * columns), sizeof *data);
    if (!data) return vo_fail(err, VO_ERR_MEMORY, "no memory for weights");
    vo_status status = vo_dequantize_rows(view, 0, rows, data, err);
    if (status != VO_OK)
        vo_free(data);
    else
        *prepared = data;
    return status;
}

vo_status vo_cpu_prepare_f32(vo_cpu_backend *cpu, vo_array *weight, vo_error *err) {
    return vo_weight_prepare(weight->weight, weight->stream, make_f32, vo_free, cpu,
                             &weight->prepared, err);
}

static vo_status make_f16(void *user, const vo_view *view, void **prepared, vo_error *err) {
    const int64_t n = vo_view_elements(view);
    uint16_t *halves = vo_alloc_array((size_t)n, sizeof *halves);
    void *data = NULL;
    vo_status status = halves ? make_f32(user, view, &data, err)
                              : vo_fail(err, VO_ERR_MEMORY, "no memory for weights");
    if (status == VO_OK) {
        ((vo_cpu_backend *)user)->kernels.f32_to_f16(n, data, halves);
        *prepared = halves;
    } else {
        vo_free(halves);
    }
    vo_free(data);
    return status;
}

vo_status vo_cpu_prepare_f16(vo_cpu_backend *cpu, vo_array *weight, vo_error *err) {
    return vo_weight_prepare(weight->weight, weight->stream, make_f16, vo_free, cpu,
                             &weight->prepared, err);
}

typedef struct over_rows {
    vo_cpu_backend *cpu;
    const vo_array *node;
    int64_t rows, tile;
    vo_rows_fn fn;
} over_rows;

static void run_tile(void *arg, int64_t tile, int thread) {
    const over_rows *o = arg;
    int64_t row0 = tile * o->tile;
    o->fn(o->cpu, o->node, row0, o->rows - row0 < o->tile ? o->rows - row0 : o->tile);
}

void vo_cpu_over_rows(vo_cpu_backend *cpu, const vo_array *node, int64_t rows, int64_t columns,
                      vo_rows_fn fn) {
    int64_t tile = columns >= 16384 ? 1 : 16384 / (columns > 0 ? columns : 1);
    if (rows <= tile) {
        fn(cpu, node, 0, rows);
        return;
    }
    over_rows o = {cpu, node, rows, tile, fn};
    vo_pool_run(cpu->pool, (rows + tile - 1) / tile, run_tile, &o);
}
