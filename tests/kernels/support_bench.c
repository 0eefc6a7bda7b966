/* SPDX-License-Identifier: MIT
 *
 * Times every kernel at every level (see support_bench.h). Sizes are those of Whisper base:
 * rows of 512, heads of 64, 1500 positions, 3000 frames.
 */
#include "kernels/support_bench.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* ---- the most that fused multiply-adds can do, in registers only -------------------------- */

enum { CHAINS = 12, PEAK_LOOPS = 200000 };

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static float fma_loop_avx2(void) {
    __m256 acc[CHAINS], x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm256_set1_ps((float)j);
    for (int i = 0; i < PEAK_LOOPS; i++)
        for (int j = 0; j < CHAINS; j++) acc[j] = _mm256_fmadd_ps(acc[j], x, y);
    for (int j = 1; j < CHAINS; j++) acc[0] = _mm256_add_ps(acc[0], acc[j]);
    return _mm256_cvtss_f32(acc[0]);
}
__attribute__((target("avx512f"))) static float fma_loop_avx512(void) {
    __m512 acc[CHAINS], x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
    for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_set1_ps((float)j);
    for (int i = 0; i < PEAK_LOOPS; i++)
        for (int j = 0; j < CHAINS; j++) acc[j] = _mm512_fmadd_ps(acc[j], x, y);
    for (int j = 1; j < CHAINS; j++) acc[0] = _mm512_add_ps(acc[0], acc[j]);
    return _mm512_cvtss_f32(acc[0]);
}
#elif defined(__aarch64__)
static float fma_loop_neon(void) {
    float32x4_t acc[CHAINS], x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
    for (int j = 0; j < CHAINS; j++) acc[j] = vdupq_n_f32((float)j);
    for (int i = 0; i < PEAK_LOOPS; i++)
        for (int j = 0; j < CHAINS; j++) acc[j] = vfmaq_f32(y, acc[j], x);
    for (int j = 1; j < CHAINS; j++) acc[0] = vaddq_f32(acc[0], acc[j]);
    return vgetq_lane_f32(acc[0], 0);
}
#endif

double bench_fma_peak(uint32_t flags) {
    float (*loop)(void) = NULL;
    int lanes = 0;
#if defined(__x86_64__)
    if (flags & VO_CPU_AVX2) loop = fma_loop_avx2, lanes = 8;
    if (flags & VO_CPU_AVX512) loop = fma_loop_avx512, lanes = 16;
#elif defined(__aarch64__)
    if (flags & VO_CPU_NEON) loop = fma_loop_neon, lanes = 4;
#endif
    if (!loop) return 0;
    volatile float sink = loop(); /* warms the core up */
    double best = 1e9;
    for (int i = 0; i < 30; i++) {
        const double start = vo_clock_seconds();
        sink = loop();
        const double seconds = vo_clock_seconds() - start;
        if (seconds < best) best = seconds;
    }
    (void)sink;
    return 2.0 * lanes * CHAINS * PEAK_LOOPS / best * 1e-9;
}

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
/* A whole tile from caches; memory is what limits few rows. */
static void run_bf16_pack_a(workload *w) {
    w->k->bf16_pack_a(WIDTH, w->k->mr_bf16, w->a, WIDTH, w->packed);
    cost(w, 0, 6.0 * WIDTH * w->k->mr_bf16);
}
static void run_gemm_bf16(workload *w) {
    const int mr = w->k->mr_bf16, nr = w->k->nr;
    w->k->gemm_bf16(WIDTH, w->packed, w->bf16, w->c, mr, 0);
    cost(w, 2.0 * WIDTH * mr * nr, 2.0 * WIDTH * (mr + nr));
}
static void run_int8_pack_a(workload *w) {
    w->k->int8_pack_a(WIDTH, w->k->mr_int8, w->a, WIDTH, (uint8_t *)w->packed, w->d);
    cost(w, 0, 5.0 * WIDTH * w->k->mr_int8);
}
static void run_gemm_int8(workload *w) {
    const int mr = w->k->mr_int8, nr = w->k->nr;
    w->k->gemm_int8(WIDTH, (const uint8_t *)w->packed, (const int8_t *)w->bf16,
                    (int32_t *)(void *)w->c, mr, 0);
    cost(w, 2.0 * WIDTH * mr * nr, 1.0 * WIDTH * (mr + nr));
}
static void run_int8_scale(workload *w) {
    const int nr = w->k->nr;
    w->k->int8_scale(ROWS, nr, (const int32_t *)(const void *)w->a, w->b, w->b,
                     (const int32_t *)(const void *)w->b, w->c);
    cost(w, 3.0 * ROWS * nr, 8.0 * ROWS * nr);
}
static void run_tiles_begin(workload *w) {
    w->k->tiles_begin();
    w->k->tiles_end();
    cost(w, 0, 0);
}
static void run_tiles_end(workload *w) {
    run_tiles_begin(w);
}
static void run_attend_block(workload *w) {
    const int64_t nq = w->k->attn_queries;
    w->k->attend_block(nq, KEYS, HEAD, 0.125f, w->a, WIDTH, w->b, w->b + (KEYS + 64) * HEAD, w->c,
                       WIDTH, w->d);
    cost(w, 4.0 * (double)nq * KEYS * HEAD, 8.0 * KEYS * HEAD);
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

/* ---- timing ------------------------------------------------------------------------------ */

/* seconds per call: the best of several rounds, each long enough for the clock */
static double time_calls(workload *w, void (*run)(workload *w)) {
    int64_t calls = 1;
    double best = 1e9;
    for (int round = 0; round < 7;) {
        const double start = vo_clock_seconds();
        for (int64_t i = 0; i < calls; i++) run(w);
        const double seconds = vo_clock_seconds() - start;
        if (seconds < 4e-3 && calls < (1 << 24)) {
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

int bench_kernels(const check_level *levels, int n_levels, const char *only) {
    workload w;
    if (!workload_create(&w)) {
        fprintf(stderr, "no memory for the benchmark\n");
        workload_destroy(&w);
        return 2;
    }
    printf("%-8s %-14s %12s %10s %8s %8s\n", "level", "kernel", "ns", "GFLOP/s", "of peak", "GB/s");
    for (int i = 0; i < n_levels; i++) {
        const double peak = bench_fma_peak(levels[i].kernels.flags);
        check.level = levels[i].name;
        w.k = &levels[i].kernels;
        for (size_t j = 0; j < sizeof benches / sizeof *benches; j++) {
            if (only && strcmp(only, benches[j].name)) continue;
            check.kernel = benches[j].name;
            const double seconds = time_calls(&w, benches[j].run);
            const double rate = w.flops / seconds * 1e-9;
            printf("%-8s %-14s %12.0f %10.2f ", levels[i].name, benches[j].name, seconds * 1e9,
                   rate);
            if (peak > 0)
                printf("%7.0f%% ", 100 * rate / peak);
            else
                printf("%8s ", "");
            printf("%8.2f\n", w.bytes / seconds * 1e-9);
            fflush(stdout);
        }
        if (peak > 0) printf("%-8s %-14s %12s %10.2f\n", levels[i].name, "(fma peak)", "", peak);
    }
    workload_destroy(&w);
    return only ? 0 : bench_products(levels, n_levels);
}
