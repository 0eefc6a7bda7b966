/* SPDX-License-Identifier: MIT
 *
 * Chains of ops on the CPU: a thread takes a block of rows through all of them. Every op runs as it
 * does outside a chain, on copies of its arrays that show the block alone, and on one thread; but
 * two products of which the first is wide become one step (feed_forward.h).
 */
#include "backends/cpu/cpu.h"
#include "backends/cpu/feed_forward.h"
#include "backends/cpu/packed.h"

static bool is_narrow_linear(const vo_array *y) {
    return y->op == VO_OP_linear && y->compute != VO_COMPUTE_F32;
}

/* Wide products that only the next step reads, which is a product, too */
static void mark_sliced(const vo_chain *chain) {
    for (int i = 0; i + 1 < chain->n; i++) {
        vo_array *y = chain->nodes[i];
        const vo_array *next = chain->nodes[i + 1];
        y->sliced = is_narrow_linear(y) && is_narrow_linear(next) && next->in[0] == y &&
                    y->uses == 1 && !y->in[3] && y->shape[1] > VO_SLICE;
    }
}

/* Rows for which what a product reads and writes takes three quarters of L2; the weights that pass
 * by need the rest. */
static int64_t rows_in_cache(const vo_chain *chain) {
    enum { PACKED = 2 }; /* bytes of an element of A in narrow products */
    int64_t widest = 1;
    for (int i = 0; i < chain->n; i++) {
        const vo_array *y = chain->nodes[i];
        if (y->op != VO_OP_linear) continue;
        int64_t bytes = 0;
        if (!y->in[0]->sliced) bytes += y->in[0]->shape[1] * (4 + PACKED);
        if (!y->sliced) bytes += y->shape[1] * 4;
        if (y->sliced || y->in[0]->sliced) bytes += VO_SLICE * (4 + PACKED);
        if (bytes > widest) widest = bytes;
    }
    return (int64_t)(vo_cpu_get_caches().l2 / 4 * 3) / widest;
}

bool vo_cpu_plan_chain(vo_backend *backend, vo_chain *chain) {
    enum { MULTIPLE = VO_MAX_LOW_MR, LEAST = 64 };
    const vo_cpu_backend *cpu = (vo_cpu_backend *)backend;
    const vo_array *first = chain->nodes[0];
    const int64_t rows = first->shape[0];
    bool narrow = false;
    for (int i = 0; i < chain->n; i++) narrow = narrow || is_narrow_linear(chain->nodes[i]);
    if (!narrow) return false; /* f32 products are limited by arithmetic, not by memory */
    mark_sliced(chain);
    chain->threads = vo_pool_threads(cpu->pool);
    int64_t most = rows_in_cache(chain);
    if (most < LEAST) most = LEAST;
    /* As many blocks for every thread. */
    int64_t rounds = (rows + most * chain->threads - 1) / (most * chain->threads);
    int64_t blocks = rounds * chain->threads;
    chain->block = (rows + blocks - 1) / blocks;
    chain->block = (chain->block + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    return true;
}

typedef struct chain_job {
    vo_cpu_backend cpu; /* without a pool */
    const vo_chain *chain;
    int64_t rows;
    char *memory;
} chain_job;

/* Where a local array lies in a thread's memory. */
static char *local_data(const vo_array *a, char *memory) {
    if (a->op == VO_OP_VIEW) return local_data(a->in[0], memory) + a->offset * sizeof(float);
    return a->base == a ? memory + a->offset : local_data(a->base, memory);
}

/* a as it looks to a block: its rows from row0 on. All elements have four bytes. */
static vo_array block_of(const vo_array *a, int64_t row0, int64_t rows, char *memory) {
    vo_array block = *a;
    if (a->op == VO_OP_WEIGHT || a->op == VO_OP_STATE || a->op == VO_OP_kv_store) return block;
    block.shape[0] = rows;
    block.data = vo_array_root(a)->local
                     ? local_data(a, memory)
                     : (char *)a->data + (size_t)(row0 * a->row_stride) * sizeof(float);
    return block;
}

/* A node and its inputs as a block sees them. */
static void show_block(vo_array *node, vo_array in[VO_MAX_INPUTS], const vo_array *of, int64_t row0,
                       int64_t rows, char *memory) {
    *node = block_of(of, row0, rows, memory);
    for (int k = 0; k < node->n_in; k++) {
        if (!node->in[k]) continue;
        in[k] = block_of(node->in[k], row0, rows, memory);
        node->in[k] = &in[k];
    }
}

static void chain_tile(void *arg, int64_t tile, int thread) {
    chain_job *job = arg;
    const vo_chain *chain = job->chain;
    char *memory = job->memory + (size_t)thread * chain->bytes;
    int64_t row0 = tile * chain->block;
    int64_t rows = job->rows - row0 < chain->block ? job->rows - row0 : chain->block;
    for (int i = 0; i < chain->n; i++) {
        vo_array node, in[VO_MAX_INPUTS], before[VO_MAX_INPUTS];
        if (chain->nodes[i]->sliced) continue;
        show_block(&node, in, chain->nodes[i], row0, rows, memory);
        if (node.n_in && chain->nodes[i]->in[0]->sliced)
            show_block(&in[0], before, chain->nodes[i]->in[0], row0, rows, memory);
        vo_cpu_find_op(node.op)->run(&job->cpu, &node, rows, memory + chain->workspace);
    }
}

void vo_cpu_run_chain(vo_backend *backend, const vo_chain *chain, int64_t rows, void *memory) {
    chain_job job = {*(vo_cpu_backend *)backend, chain, rows, memory};
    vo_pool *pool = job.cpu.pool;
    job.cpu.pool = NULL;
    vo_pool_run(pool, (rows + chain->block - 1) / chain->block, chain_tile, &job);
}
