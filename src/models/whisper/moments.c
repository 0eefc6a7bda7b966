/* SPDX-License-Identifier: MIT
 *
 * A table from weights to sums. The observer looks a product's weight up in it and adds the rows
 * of the product's input; a layer that is no block's (the token table) is not in it. Keys and
 * values of cross-attention have the same input in every block: the decoder's first one stands for
 * all.
 */
#include "models/whisper/moments.h"

#include "base/memory.h"
#include "models/whisper/bind.h"

#include <math.h>
#include <string.h>

enum {
    MOST_CHANNELS = 768, /* of a block of products */
    MULTIPLE = 128,      /* no group of weights crosses the end of a block */
    MANY_ROWS = 512,     /* of one run: audio, whose neighbours are alike: */
    STEP = 8             /* every so many rows of it do */
};

/* ---- one layer ------------------------------------------------------------------------- */

vo_status vo_moments_init(vo_moments *m, int64_t columns, vo_error *err) {
    const int64_t blocks = (columns + MOST_CHANNELS - 1) / MOST_CHANNELS;
    int64_t size = 0;
    *m = (vo_moments){.columns = columns, .block = columns};
    if (blocks > 1)
        m->block = ((columns + blocks - 1) / blocks + MULTIPLE - 1) / MULTIPLE * MULTIPLE;
    const int64_t dims[] = {(columns + m->block - 1) / m->block, m->block, m->block};
    if (vo_count_elements(dims, 3, &size)) {
        m->absolute = vo_alloc_array((size_t)columns, sizeof *m->absolute);
        m->products = vo_alloc_array((size_t)size, sizeof *m->products);
    }
    if (m->absolute && m->products) return VO_OK;
    vo_moments_free(m);
    return vo_fail(err, VO_ERR_MEMORY, "no memory to calibrate a model");
}

void vo_moments_free(vo_moments *m) {
    vo_free(m->absolute);
    vo_free(m->products);
    *m = (vo_moments){0};
}

typedef struct add_job {
    vo_moments *moments;
    const float *x;
    int64_t rows, stride, step;
} add_job;

/* Everything about channel i. */
static void add_channel(void *arg, int64_t i, int thread) {
    const add_job *job = arg;
    vo_moments *m = job->moments;
    const int64_t first = i - i % m->block, left = m->columns - first;
    const int64_t n = left < m->block ? left : m->block;
    float *row = vo_moments_block(m, first) + (i - first) * m->block;
    (void)thread;
    for (int64_t r = 0; r < job->rows; r += job->step) {
        const float *x = job->x + r * job->stride, value = x[i];
        m->absolute[i] += fabsf(value);
        vo_add_scaled(row + (i - first), x + i, value, n - (i - first));
    }
}

void vo_moments_add(vo_moments *m, const float *x, int64_t rows, int64_t stride, int64_t step,
                    vo_pool *pool) {
    add_job job = {m, x, rows, stride, step};
    vo_pool_run(pool, m->columns, add_channel, &job);
    m->rows += (rows + step - 1) / step;
}

bool vo_moments_finish(vo_moments *m) {
    const float scale = 1 / (float)m->rows;
    bool good = m->rows > 0;
    for (int64_t j = 0; j < m->columns; j++) m->absolute[j] *= scale;
    for (int64_t first = 0; first < m->columns; first += m->block) {
        float *block = vo_moments_block(m, first);
        for (int64_t i = 0; i < m->block * m->block; i++) block[i] *= scale;
    }
    for (int64_t j = 0; j < m->columns; j++) good &= isfinite(vo_moments_square(m, j)) != 0;
    return good;
}

/* ---- all layers ------------------------------------------------------------------------- */

typedef struct entry {
    const vo_weight *weight; /* NULL: the block has no such matrix */
    vo_moments sums;
} entry;

struct vo_whisper_moments {
    entry *entries; /* [blocks][BIND_BLOCK_COUNT] */
    int n;
    int n_encoder; /* blocks */
    vo_pool *pool;
};

static bool add_layer(entry *block, int which, const vo_nn_linear *layer) {
    entry *e = &block[which];
    e->weight = layer->weight;
    return vo_moments_init(&e->sums, vo_weight_view(layer->weight)->shape[1], NULL) == VO_OK;
}

/* layer: of the decoder; -1 in the encoder. */
static bool add_block(entry *at, const vo_whisper_block *block, int layer) {
    bool good = add_layer(at, BIND_SELF_QKV_W, &block->self.qkv) &&
                add_layer(at, BIND_SELF_OUT_W, &block->self.out) &&
                add_layer(at, BIND_MLP_UP_W, &block->mlp.up) &&
                add_layer(at, BIND_MLP_DOWN_W, &block->mlp.down);
    if (good && layer >= 0)
        good = add_layer(at, BIND_CROSS_Q_W, &block->cross.query) &&
               add_layer(at, BIND_CROSS_OUT_W, &block->cross.out);
    return good && (layer != 0 || add_layer(at, BIND_CROSS_KV_W, &block->cross.qkv));
}

vo_status vo_whisper_moments_create(const vo_whisper *model, vo_pool *pool,
                                    vo_whisper_moments **out, vo_error *err) {
    const int n_encoder = model->dims.n_audio_layer, n = n_encoder + model->dims.n_text_layer;
    vo_whisper_moments *m = vo_alloc(sizeof *m);
    if (m) m->entries = vo_alloc_array((size_t)n, BIND_BLOCK_COUNT * sizeof *m->entries);
    bool good = m && m->entries;
    if (good) m->n = n * BIND_BLOCK_COUNT;
    if (good) m->n_encoder = n_encoder;
    if (good) m->pool = pool;
    for (int i = 0; good && i < n; i++)
        good = add_block(m->entries + (ptrdiff_t)i * BIND_BLOCK_COUNT,
                         i < n_encoder ? &model->encoder[i] : &model->decoder[i - n_encoder],
                         i - n_encoder);
    if (good) {
        *out = m;
        return VO_OK;
    }
    vo_whisper_moments_destroy(m);
    return vo_fail(err, VO_ERR_MEMORY, "no memory to calibrate a model");
}

void vo_whisper_moments_destroy(vo_whisper_moments *m) {
    if (!m) return;
    for (int i = 0; i < m->n; i++) vo_moments_free(&m->entries[i].sums);
    vo_free(m->entries);
    vo_free(m);
}

static void see(void *user, const vo_array *node, int64_t rows) {
    vo_whisper_moments *m = user;
    if (node->op != VO_OP_linear || node->in[1]->op != VO_OP_WEIGHT) return;
    for (int i = 0; i < m->n; i++)
        if (m->entries[i].weight == node->in[1]->weight) {
            const vo_array *x = node->in[0];
            vo_moments_add(&m->entries[i].sums, x->data, rows, x->row_stride,
                           rows < MANY_ROWS ? 1 : STEP, m->pool);
            return;
        }
}

vo_observer vo_whisper_moments_observer(vo_whisper_moments *moments) {
    return (vo_observer){see, moments};
}

vo_status vo_whisper_moments_finish(vo_whisper_moments *m, vo_error *err) {
    for (int i = 0; i < m->n; i++) {
        if (!m->entries[i].weight) continue;
        m->entries[i].weight = NULL; /* may be gone from now on */
        if (!vo_moments_finish(&m->entries[i].sums))
            return vo_fail(err, VO_ERR_ARGUMENT,
                           "the recordings to calibrate with give the model nothing to do, or "
                           "make it compute something but finite numbers");
    }
    return VO_OK;
}

const vo_moments *vo_whisper_moments_of(const vo_whisper_moments *m, int block, int which) {
    if (which == BIND_CROSS_KV_W) block = m->n_encoder;
    return &m->entries[block * BIND_BLOCK_COUNT + which].sums;
}
