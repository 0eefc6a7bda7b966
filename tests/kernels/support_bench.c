/* SPDX-License-Identifier: MIT
 *
 * Times every kernel at every level (see support_bench.h). Sizes are those of Whisper base:
 * rows of 512, heads of 64, 1500 positions, 3000 frames.
 */
#include "kernels/support_bench.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"

/* ---- one call of each kernel -------------------------------------------------------------- */

enum { N = 8192, ROWS = 16, WIDTH = 512, HIDDEN = 2048, KEYS = 1500, HEAD = 64, FRAMES = 3000 };
enum { FLOATS = 3 << 20 };

/* Arrays of FLOATS each; a call of a kernel notes what it computed and moved. */
typedef struct workload {
    const vo_kernels *k;
    float *a, *b, *c, *d;
    uint16_t *half, *bf16, *packed;
    double flops, bytes;
} workload;

static void cost(workload *w, double flops, double bytes) {
    w->flops = flops;
    w->bytes = bytes;
}

static void run_add(workload *w) {
    w->k->add(N, w->a, w->b, w->c);
    cost(w, N, 12.0 * N);
}
static void run_mul(workload *w) {
    w->k->mul(N, w->a, w->b, w->c);
    cost(w, N, 12.0 * N);
}
static void run_scale(workload *w) {
    w->k->scale(N, w->a, 0.5f, w->c);
    cost(w, N, 8.0 * N);
}
static void run_axpy(workload *w) {
    w->k->axpy(N, 1e-6f, w->a, w->c);
    cost(w, 2.0 * N, 12.0 * N);
}
static void unary(workload *w, void (*f)(int64_t, const float *, float *)) {
    f(N, w->a, w->c);
    cost(w, N, 8.0 * N);
}
static void run_gelu(workload *w) {
    unary(w, w->k->gelu);
}
static void run_relu(workload *w) {
    unary(w, w->k->relu);
}
static void run_sigmoid(workload *w) {
    unary(w, w->k->sigmoid);
}
static void run_tanh(workload *w) {
    unary(w, w->k->tanh);
}
static void run_sqrt(workload *w) {
    unary(w, w->k->sqrt);
}
static void run_exp(workload *w) {
    unary(w, w->k->exp);
}
static void run_f16_to_f32(workload *w) {
    w->k->f16_to_f32(N, w->half, w->c);
    cost(w, N, 6.0 * N);
}
static void run_f32_to_f16(workload *w) {
    w->k->f32_to_f16(N, w->a, (uint16_t *)(void *)w->c);
    cost(w, N, 6.0 * N);
}
static void run_layer_norm(workload *w) {
    w->k->layer_norm(ROWS, WIDTH, w->a, WIDTH, w->b, w->b + WIDTH, 1e-5f, w->c, WIDTH);
    cost(w, 8.0 * ROWS * WIDTH, 8.0 * ROWS * WIDTH);
}
static void run_softmax(workload *w) {
    w->k->softmax(ROWS, KEYS, w->a, KEYS, w->c, KEYS);
    cost(w, 3.0 * ROWS * KEYS, 8.0 * ROWS * KEYS);
}
static void run_epilogue(workload *w) {
    w->k->epilogue(ROWS, WIDTH, w->c, WIDTH, w->b, 1, w->a, WIDTH, w->c, WIDTH);
    cost(w, 3.0 * ROWS * WIDTH, 12.0 * ROWS * WIDTH);
}
static void run_gemm_f32(workload *w) {
    w->k->gemm_f32(WIDTH, w->a, w->b, w->c, WIDTH, w->k->mr, w->k->nr, 0);
    cost(w, 2.0 * WIDTH * w->k->mr * w->k->nr, 4.0 * WIDTH * (w->k->mr + w->k->nr));
}
static void run_gemm_f16(workload *w) {
    w->k->gemm_f16(WIDTH, w->a, w->half, w->c, WIDTH, w->k->mr, w->k->nr, 0);
    cost(w, 2.0 * WIDTH * w->k->mr * w->k->nr, WIDTH * (4.0 * w->k->mr + 2.0 * w->k->nr));
}
/* one row against a matrix of 4 MB, which leaves the L2 cache of most cores */
static void run_skinny_f32(workload *w) {
    const int64_t panels = HIDDEN / w->k->nr;
    w->k->skinny_f32(WIDTH, panels, w->a, WIDTH, w->b, w->c, HIDDEN, 1);
    cost(w, 2.0 * WIDTH * HIDDEN, 4.0 * WIDTH * HIDDEN);
}
static void run_skinny_f16(workload *w) {
    const int64_t panels = HIDDEN / w->k->nr;
    w->k->skinny_f16(WIDTH, panels, w->a, WIDTH, w->half, w->c, HIDDEN, 1);
    cost(w, 2.0 * WIDTH * HIDDEN, 2.0 * WIDTH * HIDDEN);
}
static void run_gemm_pack_a(workload *w) {
    w->k->gemm_pack_a(WIDTH, w->k->mr, w->a, WIDTH, w->c);
    cost(w, 0, 8.0 * WIDTH * w->k->mr);
}
/* A tile of A and a panel of B that fit together into the first-level cache. */
static void run_bf16_pack_a(workload *w) {
    w->k->bf16_pack_a(WIDTH, w->k->mr_bf16, w->a, WIDTH, w->packed);
    cost(w, 0, 6.0 * WIDTH * w->k->mr_bf16);
}
static void run_gemm_bf16(workload *w) {
    const int mr = w->k->mr_bf16, nr = w->k->nr, k = WIDTH / 2;
    w->k->gemm_bf16(k, w->packed, w->bf16, w->c, mr, 0, NULL, 0);
    cost(w, 2.0 * k * mr * nr, 2.0 * k * (mr + nr));
}
static void run_int8_pack_a(workload *w) {
    w->k->int8_pack_a(WIDTH, w->k->mr_int8, w->a, WIDTH, NULL, (uint8_t *)w->packed, w->d);
    cost(w, 0, 5.0 * WIDTH * w->k->mr_int8);
}
static void run_gemm_int8(workload *w) {
    const int mr = w->k->mr_int8, nr = w->k->nr;
    w->k->gemm_int8(WIDTH, (const uint8_t *)w->packed, (const int8_t *)w->bf16,
                    (int32_t *)(void *)w->c, mr, 0, NULL, 0);
    cost(w, 2.0 * WIDTH * mr * nr, 1.0 * WIDTH * (mr + nr));
}
static void run_int8_scale(workload *w) {
    const int nr = w->k->nr;
    w->k->int8_scale(ROWS, nr, (const int32_t *)(const void *)w->a, w->b, w->b,
                     (const int32_t *)(const void *)w->b, w->c, 0);
    cost(w, 3.0 * ROWS * nr, 8.0 * ROWS * nr);
}
static void run_int4_to_bf16(workload *w) {
    const int nr = w->k->nr, k = WIDTH / 2;
    w->k->int4_to_bf16(k, 64, (const uint32_t *)(const void *)w->a, w->half, w->packed);
    cost(w, 2.0 * k * nr, 2.5 * k * nr + 4.0 * k * nr / 64);
}
/* Each leaves what the others need: configured tiles. */
static void run_tiles_begin(workload *w) {
    w->k->tiles_begin();
    cost(w, 0, 0);
}
static void run_tiles_end(workload *w) {
    w->k->tiles_end();
    w->k->tiles_begin();
    cost(w, 0, 0);
}
static void run_attend_block(workload *w) {
    const int64_t nq = w->k->attn_queries;
    w->k->attend_block(nq, KEYS, HEAD, 0.125f, w->a, WIDTH, w->b, w->b + (KEYS + 64) * HEAD, w->c,
                       WIDTH, w->d);
    cost(w, 4.0 * (double)nq * KEYS * HEAD, 8.0 * KEYS * HEAD);
}
static void run_attend_block_bf16(workload *w) {
    w->k->tiles_begin();
    w->k->attend_block_bf16(VO_ATTEND_BF16_QUERIES, KEYS, 0.125f, w->a, WIDTH, w->half, w->c, WIDTH,
                            w->d);
    w->k->tiles_end();
    cost(w, 4.0 * VO_ATTEND_BF16_QUERIES * KEYS * HEAD, 4.0 * KEYS * HEAD);
}
static void run_attend_pack_bf16(workload *w) {
    w->k->attend_pack_bf16(VO_ATTEND_BF16_KEYS, w->a, WIDTH, w->b, WIDTH, (uint16_t *)(void *)w->c);
    cost(w, 0, 12.0 * VO_ATTEND_BF16_KEYS * HEAD);
}
static void run_attend_block_s8(workload *w) {
    w->k->attend_block_s8(VO_ATTEND_BF16_QUERIES, KEYS, 0.125f, w->a, WIDTH,
                          (const vo_attend_s8 *)(const void *)w->half, w->c, WIDTH, w->d);
    cost(w, 4.0 * VO_ATTEND_BF16_QUERIES * KEYS * HEAD, 2.0 * KEYS * HEAD);
}
static void run_attend_pack_s8(workload *w) {
    w->k->attend_pack_s8(VO_ATTEND_BF16_KEYS, w->a, WIDTH, w->b, WIDTH,
                         (vo_attend_s8 *)(void *)w->c);
    cost(w, 0, 12.0 * VO_ATTEND_BF16_KEYS * HEAD);
}
static void run_attend_cached(workload *w) {
    w->k->attend_cached(1, KEYS, HEAD, 0.125f, w->a, HEAD, w->b, w->b + KEYS * HEAD, NULL, w->c,
                        HEAD, w->d);
    cost(w, 4.0 * KEYS * HEAD, 8.0 * KEYS * HEAD);
}
static void run_attend_cached_f16(workload *w) {
    w->k->attend_cached_f16(1, KEYS, HEAD, 0.125f, w->a, HEAD, w->half, w->half + KEYS * HEAD, NULL,
                            w->c, HEAD, w->d);
    cost(w, 4.0 * KEYS * HEAD, 4.0 * KEYS * HEAD);
}
static void run_attend_cached_s8(workload *w) {
    const int8_t *cells = (const int8_t *)w->half;
    /* scores as a model has them: weights of far larger ones would be denormal */
    w->k->attend_cached_s8(1, KEYS, HEAD, 0.125f / 128.0f, w->a, HEAD, cells, w->b,
                           cells + KEYS * HEAD, w->b, NULL, w->c, HEAD, w->d);
    cost(w, 4.0 * KEYS * HEAD, 2.0 * KEYS * (HEAD + 4));
}
static void run_weigh_cached(workload *w) {
    w->k->weigh_cached(8, KEYS, HEAD, 0.125f, w->a, HEAD, w->b, w->c, KEYS);
    cost(w, 16.0 * KEYS * HEAD, 4.0 * KEYS * HEAD);
}
static void run_weigh_cached_f16(workload *w) {
    w->k->weigh_cached_f16(8, KEYS, HEAD, 0.125f, w->a, HEAD, w->half, w->c, KEYS);
    cost(w, 16.0 * KEYS * HEAD, 2.0 * KEYS * HEAD);
}
static void run_weigh_cached_s8(workload *w) {
    w->k->weigh_cached_s8(8, KEYS, HEAD, 0.125f, w->a, HEAD, (const int8_t *)w->half, w->b, w->c,
                          KEYS);
    cost(w, 16.0 * KEYS * HEAD, 1.0 * KEYS * (HEAD + 4));
}
static void run_f32_to_s8(workload *w) {
    w->k->f32_to_s8(HEAD, w->a, (int8_t *)(void *)w->c, w->d);
    cost(w, 3.0 * HEAD, 5.0 * HEAD);
}
static void run_stft400_power(workload *w) {
    w->k->stft400_power(FRAMES, w->a, 160, w->b, w->c, 201, w->d);
    cost(w, 8000.0 * FRAMES, 4.0 * FRAMES * (160 + 201));
}

static const struct bench {
    const char *name;
    void (*run)(workload *w);
} benches[] = {
#define VO_KERNEL(name, args) {#name, run_##name},
#include "kernels/kernels.def"
#undef VO_KERNEL
};

/* What a kernel multiplies with, by the words of its name. */
static bench_unit unit_of(const char *kernel) {
    if (!strcmp(kernel, "int4_to_bf16")) return BENCH_F32;
    return strstr(kernel, "bf16") ? BENCH_BF16 : strstr(kernel, "int8") ? BENCH_INT8 : BENCH_F32;
}

/* ---- timing ------------------------------------------------------------------------------ */

/* Seconds that this thread ran, whoever else wants the core. */
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* seconds per call: the best of many rounds, each long enough for the clock */
static double time_calls(workload *w, void (*run)(workload *w)) {
    int64_t calls = 1;
    double best = 1e9;
    for (int round = 0; round < 40;) {
        const double start = thread_seconds();
        for (int64_t i = 0; i < calls; i++) run(w);
        const double seconds = thread_seconds() - start;
        if (seconds < 1e-3 && calls < (1 << 24)) {
            calls *= 2;
            continue;
        }
        if (seconds / (double)calls < best) best = seconds / (double)calls;
        round++;
    }
    return best;
}

static bool workload_create(workload *w) {
    memset(w, 0, sizeof *w);
    float **const arrays[] = {&w->a, &w->b, &w->c, &w->d};
    check_seed(1);
    for (int i = 0; i < 4; i++) {
        *arrays[i] = vo_alloc_array(FLOATS, sizeof(float));
        if (!*arrays[i]) return false;
        check_fill(*arrays[i], FLOATS, -1, 1);
    }
    uint16_t **const halves[] = {&w->half, &w->bf16, &w->packed};
    for (int i = 0; i < 3; i++) {
        *halves[i] = vo_alloc_array(FLOATS, sizeof(uint16_t));
        if (!*halves[i]) return false;
    }
    for (int64_t i = 0; i < FLOATS; i++) {
        w->half[i] = vo_f32_to_f16(w->a[i]);
        w->bf16[i] = vo_f32_to_bf16(w->a[i]);
        w->packed[i] = w->bf16[i];
    }
    return true;
}

static void workload_destroy(workload *w) {
    vo_free(w->a);
    vo_free(w->b);
    vo_free(w->c);
    vo_free(w->d);
    vo_free(w->half);
    vo_free(w->bf16);
    vo_free(w->packed);
}

/* The peak is that of the same moment: it is taken before and after. */
static void bench_one(workload *w, const check_level *level, size_t which) {
    const bench_unit unit = unit_of(benches[which].name);
    check.kernel = benches[which].name;
    const double before = bench_peak(level->kernels.flags, unit);
    const double seconds = time_calls(w, benches[which].run);
    const double peak = fmax(before, bench_peak(level->kernels.flags, unit));
    const double rate = w->flops / seconds * 1e-9;
    printf("%-8s %-14s %12.0f %10.2f ", level->name, benches[which].name, seconds * 1e9, rate);
    if (peak > 0 && rate > 0)
        printf("%10.2f %7.0f%% ", peak, 100 * rate / peak);
    else
        printf("%10s %8s ", "", "");
    printf("%8.2f\n", w->bytes / seconds * 1e-9);
    fflush(stdout);
}

int bench_kernels(const check_level *levels, int n_levels, const char *only) {
    workload w;
    if (!workload_create(&w)) {
        fprintf(stderr, "no memory for the benchmark\n");
        workload_destroy(&w);
        return 2;
    }
    printf("%-8s %-14s %12s %10s %10s %8s %8s\n", "level", "kernel", "ns", "GFLOP/s", "peak",
           "of peak", "GB/s");
    for (int i = 0; i < n_levels; i++) {
        check.level = levels[i].name;
        w.k = &levels[i].kernels;
        w.k->tiles_begin();
        for (size_t j = 0; j < sizeof benches / sizeof *benches; j++)
            if (!only || !strcmp(only, benches[j].name)) bench_one(&w, &levels[i], j);
        w.k->tiles_end();
    }
    workload_destroy(&w);
    return only ? 0 : bench_products(levels, n_levels);
}
