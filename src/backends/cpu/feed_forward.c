/* SPDX-License-Identifier: MIT
 *
 * For every slice of the columns between the two products: the first product makes it, it is
 * packed, and the second one adds what it contributes to all of its sums.
 */
#include "backends/cpu/feed_forward.h"

#include "backends/cpu/matmul_block.h"

typedef struct pair {
    vo_block_job first, second; /* the second one of a slice */
    int64_t slice, width;       /* columns of a slice, and those that there are */
    int64_t rows;               /* m, up to whole tiles of both */
    /* Offsets in the workspace: */
    int64_t a[2], scales[2]; /* packed inputs of both */
    int64_t between;         /* [m][width] */
    int64_t c;               /* of the first: [rows][nr] */
    int64_t results;         /* of the second, not finished: [panels][rows][nr] */
    int64_t sums, converted;
    int64_t bytes;
} pair;

/* Whole panels of the first, whole steps of the second product, and up to VO_SLICE columns if that
 * is not less than one of each. */
static int64_t slice_of(const vo_packed *first, const vo_packed *second, vo_form form) {
    const int64_t step = second->dtype == VO_I8 ? VO_INT8_GROUP : form.k_step;
    int64_t unit = step;
    while (unit % first->nr) unit += step;
    return unit < VO_SLICE ? VO_SLICE / unit * unit : unit;
}

static int64_t take(pair *p, int64_t bytes) {
    const int64_t at = p->bytes;
    p->bytes += vo_round_line(bytes);
    return at;
}

static pair pair_of(const vo_kernels *kernels, int64_t m, const vo_packed *first,
                    const vo_packed *second) {
    pair p = {.first = vo_block_job_of(kernels, first), .second = vo_block_job_of(kernels, second)};
    const vo_block_job *jobs[] = {&p.first, &p.second};
    const int64_t nr = kernels->nr;
    p.slice = slice_of(first, second, p.second.form);
    p.width = vo_min64(p.slice, vo_packed_panels(first) * nr);
    p.second.k = vo_min64(p.slice, second->padded);
    for (int i = 0; i < 2; i++) {
        const int mr = jobs[i]->form.mr;
        const int64_t tiles = vo_ceil_div(m, mr);
        p.rows = vo_max64(p.rows, tiles * mr);
        p.a[i] = take(&p, tiles * vo_tile_bytes(jobs[i]));
        p.scales[i] = take(&p, vo_scale_bytes(jobs[i], tiles * mr));
    }
    p.between = take(&p, m * p.width * (int64_t)sizeof(float));
    p.c = take(&p, p.rows * nr * (int64_t)sizeof(float));
    p.results = take(&p, vo_packed_panels(second) * p.rows * nr * (int64_t)sizeof(float));
    p.sums = take(&p, VO_MAX_LOW_MR * nr * (int64_t)sizeof(int32_t));
    p.converted = take(&p, vo_max64(vo_converted_bytes(&p.first), vo_converted_bytes(&p.second)));
    return p;
}

size_t vo_feed_forward_workspace(const vo_kernels *kernels, int64_t m, const vo_packed *first,
                                 const vo_packed *second) {
    return (size_t)pair_of(kernels, m, first, second).bytes;
}

static float *floats_at(char *workspace, int64_t offset) {
    return (float *)(void *)(workspace + offset);
}

/* A block of all rows, whose input is packed: of the first product, or of the second. */
static vo_block block_of(const pair *p, int which, char *workspace) {
    const vo_block_job *job = which ? &p->second : &p->first;
    const int64_t m = job->gemm->m, mr = job->form.mr;
    vo_block at = {.rows = m, .scale_rows = vo_ceil_div(m, mr) * mr};
    at.a = workspace + p->a[which];
    at.scales = floats_at(workspace, p->scales[which]);
    at.sums = (int32_t *)(void *)(workspace + p->sums);
    at.converted = workspace + p->converted;
    for (int64_t i = 0; i * mr < m; i++)
        vo_block_pack(job, i, at.a + i * vo_tile_bytes(job), at.scales + i * mr, at.scale_rows);
    return at;
}

/* Columns [column, column + slice) of the first result, where its c is */
static void make_slice(pair *p, vo_block *at, int64_t column) {
    const vo_packed *b = p->first.b;
    p->first.c_column = column;
    at->last_panel = vo_min64((column + p->slice) / b->nr, vo_packed_panels(b));
    for (int64_t i = column / b->nr; i < at->last_panel; i++)
        vo_block_panel(&p->first, at, i, false, true);
}

void vo_feed_forward_run(const vo_gemm *first, const vo_gemm *second, const vo_kernels *kernels,
                         void *workspace) {
    pair p = pair_of(kernels, first->m, first->b, second->b);
    vo_gemm make = *first, take_up = *second;
    const int64_t k = second->b->padded, panels = vo_packed_panels(second->b);
    make.c = floats_at(workspace, p.between);
    take_up.a = make.c;
    make.ldc = take_up.lda = p.width;
    p.first.gemm = &make;
    p.second.gemm = &take_up;
    kernels->tiles_begin();
    vo_block one = block_of(&p, 0, workspace);
    one.c = floats_at(workspace, p.c);
    for (int64_t column = 0; column < k; column += p.slice) {
        make_slice(&p, &one, column);
        p.second.first = column;
        p.second.k = vo_min64(p.slice, k - column);
        vo_block two = block_of(&p, 1, workspace);
        two.last_panel = panels;
        for (int64_t i = 0; i < panels; i++) {
            two.c = floats_at(workspace, p.results) + i * p.rows * kernels->nr;
            vo_block_panel(&p.second, &two, i, column > 0, column + p.slice >= k);
        }
    }
    kernels->tiles_end();
}
