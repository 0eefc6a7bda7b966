/* SPDX-License-Identifier: MIT
 *
 * The most that each multiplying instruction can do on one core: chains of it that never leave the
 * registers, enough of them to hide its latency (see bench_peak in support_bench.h).
 */
#include "kernels/support_bench.h"

#include "base/clock.h"
#include "kernels/unroll.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { CHAINS = 12, LOOPS = 100000, TILE_CHAINS = 4 };

/* One instruction: the flags it needs, what it multiplies, what one of it counts for. The first of
 * a unit that the flags allow is used, so the best stand first. */
typedef struct peak {
    uint32_t flags;
    bench_unit unit;
    int chains, ops; /* multiplications and additions */
    void (*loop)(void);
} peak;

/* A loop over CHAINS independent sums; %0 is a sum and %1 a vector of x. Instructions are written
 * out, since around some intrinsics compilers keep sums in memory. Nothing is zero: some processors
 * are faster then. */
#define LOOP(name, features, type, x, reg, scratch, instructions)                                  \
    TARGET(features) static void name(void) {                                                      \
        type sums[CHAINS];                                                                         \
        const type operand = x;                                                                    \
        for (int j = 0; j < CHAINS; j++) sums[j] = x;                                              \
        for (int i = 0; i < LOOPS; i++) {                                                          \
            VO_UNROLL for (int j = 0; j < CHAINS; j++) {                                           \
                type sum = sums[j]; /* or gcc leaves the array in memory */                        \
                __asm__ volatile(instructions : "+" reg(sum) : reg(operand) : scratch);            \
                sums[j] = sum;                                                                     \
            }                                                                                      \
        }                                                                                          \
    }

#if defined(__x86_64__)

#define TARGET(features)                               __attribute__((target(features)))
#define FLOATS_256                                     __m256, _mm256_set1_ps(1), "x", "xmm15"
#define FLOATS_512                                     __m512, _mm512_set1_ps(1), "v", "xmm15"
#define BYTES_256                                      __m256i, _mm256_set1_epi8(1), "x", "xmm15"
#define BYTES_512                                      __m512i, _mm512_set1_epi8(1), "v", "xmm15"
#define LOOP_OF(name, features, vectors, instructions) LOOP(name, features, vectors, instructions)

LOOP_OF(fma_avx2, "avx2,fma", FLOATS_256, "vfmadd231ps %1, %1, %0")
LOOP_OF(fma_avx512, "avx512f", FLOATS_512, "vfmadd231ps %1, %1, %0")
LOOP_OF(dot_bf16, "avx512f", FLOATS_512, "vdpbf16ps %1, %1, %0")
LOOP_OF(dot_vnni, "avx512f", BYTES_512, "vpdpbusd %1, %1, %0")
LOOP_OF(dot_avxvnni, "avx2", BYTES_256, "%{vex%} vpdpbusd %1, %1, %0")
/* Without a dot product, four steps: pairs and the addition of pairs, pairs of pairs, sum. */
#define PAIRS(r) "vpmaddubsw %1, %1, %%" r "\n\t"
#define MORE(r)  PAIRS(r) "vpaddw %1, %%" r ", %%" r "\n\t"
#define MADD(r)  MORE(r) MORE(r) MORE(r) PAIRS(r) "vpmaddwd %1, %%" r ", %%" r "\n\t" SUM(r)
#define SUM(r)   "vpaddd %%" r ", %0, %0"
LOOP_OF(madd_avx512, "avx512f", BYTES_512, MADD("zmm15"))
LOOP_OF(madd_avx2, "avx2", BYTES_256, MADD("ymm15"))

static const uint8_t tile_config[64] = {
    [0] = 1,   [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64,
    [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16,
};

/* bench_kernels configures tiles, too: this leaves them as it found them. */
#define TILE_LOOP(name, features, product)                                                         \
    __attribute__((target(features))) static void name(void) {                                     \
        uint8_t before[64];                                                                        \
        _tile_storeconfig(before);                                                                 \
        _tile_loadconfig(tile_config);                                                             \
        float ones[16];                                                                            \
        for (int i = 0; i < 16; i++) ones[i] = 1.0f;                                               \
        _tile_loadd(4, ones, 0); /* every row is the same */                                       \
        _tile_loadd(5, ones, 0);                                                                   \
        for (int i = 0; i < LOOPS; i++) {                                                          \
            product(0, 4, 5);                                                                      \
            product(1, 4, 5);                                                                      \
            product(2, 4, 5);                                                                      \
            product(3, 4, 5);                                                                      \
        }                                                                                          \
        if (before[0])                                                                             \
            _tile_loadconfig(before);                                                              \
        else                                                                                       \
            _tile_release();                                                                       \
    }
TILE_LOOP(tiles_bf16, "amx-tile,amx-bf16", _tile_dpbf16ps)
TILE_LOOP(tiles_int8, "amx-tile,amx-int8", _tile_dpbusd)

static const peak peaks[] = {
    {VO_CPU_AVX512, BENCH_F32, CHAINS, 2 * 16, fma_avx512},
    {VO_CPU_AVX2, BENCH_F32, CHAINS, 2 * 8, fma_avx2},
    {VO_CPU_AMX, BENCH_BF16, TILE_CHAINS, 2 * 16 * 16 * 32, tiles_bf16},
    {VO_CPU_AVX512_BF16, BENCH_BF16, CHAINS, 2 * 32, dot_bf16},
    {VO_CPU_AVX512, BENCH_BF16, CHAINS, 2 * 16, fma_avx512},
    {VO_CPU_AVX2, BENCH_BF16, CHAINS, 2 * 8, fma_avx2},
    {VO_CPU_AMX, BENCH_INT8, TILE_CHAINS, 2 * 16 * 16 * 64, tiles_int8},
    {VO_CPU_AVX512_VNNI, BENCH_INT8, CHAINS, 2 * 64, dot_vnni},
    {VO_CPU_AVX512, BENCH_INT8, CHAINS, 4 * 2 * 64, madd_avx512},
    {VO_CPU_AVX_VNNI, BENCH_INT8, CHAINS, 2 * 32, dot_avxvnni},
    {VO_CPU_AVX2, BENCH_INT8, CHAINS, 4 * 2 * 32, madd_avx2},
};

#elif defined(__aarch64__)

#define TARGET(features)
LOOP(fma_neon, , float32x4_t, vdupq_n_f32(1), "w", "v31", "fmla %0.4s, %1.4s, %1.4s")
LOOP(dot_neon, , int32x4_t, vdupq_n_s32(1), "w", "v31",
     ".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %1.16b")
LOOP(mmla_neon, , int32x4_t, vdupq_n_s32(1), "w", "v31",
     ".arch armv8.2-a+dotprod+i8mm\n\tsmmla %0.4s, %1.16b, %1.16b")

static const peak peaks[] = {
    {VO_CPU_NEON, BENCH_F32, CHAINS, 2 * 4, fma_neon},
    {VO_CPU_NEON, BENCH_BF16, CHAINS, 2 * 4, fma_neon},
    {VO_CPU_I8MM, BENCH_INT8, CHAINS, 2 * 32, mmla_neon},
    {VO_CPU_DOTPROD, BENCH_INT8, CHAINS, 2 * 16, dot_neon},
};

#else
static const peak peaks[] = {{0, BENCH_F32, 1, 0, NULL}};
#endif

double bench_peak(uint32_t flags, bench_unit unit) {
    const peak *p = NULL;
    for (size_t i = 0; !p && i < sizeof peaks / sizeof *peaks; i++)
        if (peaks[i].unit == unit && (flags & peaks[i].flags)) p = &peaks[i];
    if (!p) return 0;
    p->loop(); /* warms the core up */
    double best = 1e9;
    for (int i = 0; i < 10; i++) {
        const double start = vo_clock_seconds();
        p->loop();
        const double seconds = vo_clock_seconds() - start;
        if (seconds < best) best = seconds;
    }
    return (double)p->ops * p->chains * LOOPS / best * 1e-9;
}
