/* SPDX-License-Identifier: MIT
 *
 * vo_attend_full_run where less than f32 is allowed, at every level: close to sums in double, bit
 * for bit equal for any number of threads and for an item alone or in a batch; and f32 to the bit
 * where neither bf16 nor s8 applies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "backends/cpu/attention.h"
#include "kernels/support_drivers.h"

enum { MAX_T = 350 };

/* q, k and v side by side in rows of `job.ldq`; out in slot `slot` */
static float *run(const vo_kernels *k, vo_attend_full job, vo_compute compute, int pool, int slot) {
    const int64_t rows = job.batch * job.t, width = job.heads * job.hd;
    job.compute = compute;
    job.out = check_floats(slot, (rows - 1) * job.ldo + width);
    size_t bytes = vo_attend_full_workspace(&job, k, vo_pool_threads(drivers_pools[pool]));
    vo_attend_full_run(&job, k, drivers_pools[pool], drivers_workspace(bytes));
    if (!check_slots_intact() || !check_gaps_intact(job.out, rows, width, job.ldo))
        check_fail("wrote outside its rows");
    return job.out;
}

static double attention_at(const vo_attend_full *job, int64_t row, int64_t head, int64_t d) {
    static double p[MAX_T];
    const int64_t first = row / job->t * job->t, column = head * job->hd;
    double max = -INFINITY, total = 0, sum = 0;
    for (int64_t t = 0; t < job->t; t++) {
        p[t] = 0;
        for (int64_t e = column; e < column + job->hd; e++)
            p[t] += (double)job->q[row * job->ldq + e] * (double)job->k[(first + t) * job->ldk + e];
        p[t] *= (double)job->scale;
        max = fmax(max, p[t]);
    }
    for (int64_t t = 0; t < job->t; t++) {
        total += p[t] = exp(p[t] - max);
        sum += p[t] * (double)job->v[(first + t) * job->ldv + column + d];
    }
    return sum / total;
}

static void full_case(const vo_kernels *k, vo_compute compute, int64_t batch, int64_t t,
                      int64_t heads, int64_t hd) {
    const int64_t width = heads * hd, ld = 3 * width + 5, rows = batch * t;
    float *qkv = check_floats(0, rows * ld);
    check_fill(qkv, rows * ld, -1.5f, 1.5f);
    vo_attend_full job = {.batch = batch,
                          .t = t,
                          .heads = heads,
                          .hd = hd,
                          .scale = 1 / sqrtf((float)hd),
                          .q = qkv,
                          .k = qkv + width,
                          .v = qkv + 2 * width,
                          .ldq = ld,
                          .ldk = ld,
                          .ldv = ld,
                          .ldo = width + 2};
    const size_t bytes = (size_t)((rows - 1) * job.ldo + width) * sizeof(float);
    const float *low = run(k, job, compute, 0, 1), *exact = run(k, job, VO_COMPUTE_F32, 0, 2);
    const bool used =
        hd == VO_ATTEND_BF16_HD && (k->attn_bf16 || (k->attn_s8 && compute != VO_COMPUTE_BF16));
    if (used == !memcmp(low, exact, bytes))
        check_fail("t=%d hd=%d: less than f32 was%s used", (int)t, (int)hd, used ? " not" : "");
    for (int i = 1; i < DRIVERS_POOLS; i++)
        if (memcmp(low, run(k, job, compute, i, 3), bytes))
            check_fail("t=%d differs with %d threads", (int)t, vo_pool_threads(drivers_pools[i]));
    double error = 0, size = 0;
    for (int64_t row = 0; row < rows; row += 1 + row % 7)
        for (int64_t c = 0; c < width; c += 1 + c % 5) {
            const double want = attention_at(&job, row, c / hd, c % hd);
            error += pow((double)low[row * job.ldo + c] - want, 2);
            size += pow(want, 2);
        }
    const bool bytes_used =
        k->attn_s8 && (compute == VO_COMPUTE_INT8 || (compute == VO_COMPUTE_INT4 && !k->attn_bf16));
    if (!(sqrt(error / size) <= (bytes_used ? 3e-2 : 1e-2)))
        check_fail("t=%d hd=%d: off by %.2g of the result", (int)t, (int)hd, sqrt(error / size));
    job.q += (batch - 1) * t * ld;
    job.k += (batch - 1) * t * ld;
    job.v += (batch - 1) * t * ld;
    job.batch = 1;
    if (memcmp(low + (batch - 1) * t * job.ldo, run(k, job, compute, 1, 3),
               (size_t)((t - 1) * job.ldo + width) * sizeof(float)))
        check_fail("t=%d: an item depends on its neighbours", (int)t);
}

static void full_shapes(const vo_kernels *k) {
    static const int64_t lengths[] = {1, 33, 64, 170, MAX_T};
    static const vo_compute computes[] = {VO_COMPUTE_BF16, VO_COMPUTE_INT8, VO_COMPUTE_INT4};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 5; j++) full_case(k, computes[i], 1 + j % 2, lengths[j], 1 + j % 3, 64);
        full_case(k, computes[i], 2, 70, 2, 20);
    }
}

static void test_attend_full_low(void **state) {
    (void)state;
    drivers_at_all_levels("vo_attend_full_run", full_shapes);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_attend_full_low)};
    return cmocka_run_group_tests_name("kernels: attention in less than f32", tests, drivers_set_up,
                                       drivers_tear_down);
}
