/* SPDX-License-Identifier: MIT
 *
 * The attention ops in terms of attention.h, and the store into a cache.
 */
#include "backends/cpu/attention.h"
#include "backends/cpu/cpu.h"

#include <string.h>

/* Without its data. */
static vo_attend_full full_args(const vo_array *y) {
    return (vo_attend_full){.t = y->attr.window,
                            .heads = y->attr.heads,
                            .hd = y->shape[1] / y->attr.heads,
                            .compute = y->compute,
                            .scale = y->attr.scale};
}

static vo_status prepare_attention(vo_cpu_backend *cpu, vo_array *y, size_t *workspace,
                                   vo_error *err) {
    const vo_attend_full args = full_args(y);
    *workspace = vo_attend_full_workspace(&args, &cpu->kernels, vo_pool_threads(cpu->pool));
    return VO_OK;
}

static void run_attention(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *q = y->in[0], *k = y->in[1], *v = y->in[2];
    vo_attend_full args = full_args(y);
    args.batch = rows / y->attr.window;
    args.q = q->data;
    args.k = k->data;
    args.v = v->data;
    args.ldq = q->row_stride;
    args.ldk = k->row_stride;
    args.ldv = v->row_stride;
    args.out = y->data;
    args.ldo = y->row_stride;
    vo_attend_full_run(&args, &cpu->kernels, cpu->pool, workspace);
}

static float *cache_scales(const vo_array *cache) {
    if (cache->dtype != VO_I8) return NULL;
    return (float *)(void *)((char *)cache->data + vo_cache_scales_at(cache->shape));
}

/* Heads become the slowest dimension, so that one head's keys lie side by side. */
static void store_tile(vo_cpu_backend *cpu, const vo_array *y, int64_t row0, int64_t rows) {
    const vo_array *cache = y->in[0], *x = y->in[1];
    const int32_t *slots = y->in[2]->data;
    int64_t heads = cache->shape[0], n_slots = cache->shape[1], hd = cache->shape[2];
    for (int64_t i = row0; i < row0 + rows; i++) {
        const float *from = (const float *)x->data + i * x->row_stride;
        if (slots[i] < 0 || slots[i] >= n_slots) continue;
        for (int64_t h = 0; h < heads; h++) {
            int64_t at = (h * n_slots + slots[i]) * hd;
            if (cache->dtype == VO_I8)
                cpu->kernels.f32_to_s8(hd, from + h * hd, (int8_t *)cache->data + at,
                                       cache_scales(cache) + h * n_slots + slots[i]);
            else if (cache->dtype == VO_F16)
                cpu->kernels.f32_to_f16(hd, from + h * hd, (uint16_t *)cache->data + at);
            else
                memcpy((float *)cache->data + at, from + h * hd, (size_t)hd * sizeof(float));
        }
    }
}

static void run_kv_store(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    vo_cpu_over_rows(cpu, y, rows, y->in[1]->shape[1], store_tile);
}

static vo_status prepare_cached(vo_cpu_backend *cpu, vo_array *y, size_t *workspace,
                                vo_error *err) {
    *workspace = vo_attend_cached_workspace(vo_pool_threads(cpu->pool), y->attr.max_length);
    return VO_OK;
}

static void run_cached(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *q = y->in[0];
    vo_attend_cached args = {.rows = rows,
                             .heads = y->attr.heads,
                             .hd = y->shape[1] / y->attr.heads,
                             .slots = y->attr.slots,
                             .max_len = y->attr.max_length,
                             .scale = y->attr.scale,
                             .q = q->data,
                             .ldq = q->row_stride,
                             .dtype = y->in[1]->dtype,
                             .k = y->in[1]->data,
                             .v = y->in[2]->data,
                             .k_scales = cache_scales(y->in[1]),
                             .v_scales = cache_scales(y->in[2]),
                             .seq = y->in[3]->data,
                             .len = y->in[4]->data,
                             .table = y->in[5] ? y->in[5]->data : NULL,
                             .out = y->data,
                             .ldo = y->row_stride};
    vo_attend_cached_run(&args, &cpu->kernels, cpu->pool, workspace);
}

static void run_weights(vo_cpu_backend *cpu, const vo_array *y, int64_t rows, void *workspace) {
    const vo_array *q = y->in[0], *k = y->in[1];
    const int64_t head = y->attr.head, slots = k->shape[1], hd = k->shape[2];
    const size_t cell = k->dtype == VO_I8 ? 1 : k->dtype == VO_F16 ? 2 : 4;
    const float *scales = cache_scales(k);
    const vo_weigh_cached args = {.rows = rows,
                                  .hd = hd,
                                  .max_len = y->shape[1],
                                  .scale = y->attr.scale,
                                  .q = (const float *)q->data + head * hd,
                                  .ldq = q->row_stride,
                                  .dtype = k->dtype,
                                  .k = (const char *)k->data + (size_t)(head * slots * hd) * cell,
                                  .k_scales = scales ? scales + head * slots : NULL,
                                  .seq = y->in[2]->data,
                                  .len = y->in[3]->data,
                                  .out = y->data,
                                  .ldo = y->row_stride};
    vo_weigh_cached_run(&args, &cpu->kernels, cpu->pool);
}

const vo_cpu_op vo_cpu_attention = {prepare_attention, run_attention};
const vo_cpu_op vo_cpu_kv_store = {NULL, run_kv_store};
const vo_cpu_op vo_cpu_attention_cached = {prepare_cached, run_cached};
const vo_cpu_op vo_cpu_attention_weights = {NULL, run_weights};
