/* SPDX-License-Identifier: MIT
 *
 * What the kernel tests share (see support_check.h).
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "kernels/support_check.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- random numbers */

static uint64_t rng;

void check_seed(uint64_t seed) {
    rng = seed;
}

uint64_t check_random(void) {
    uint64_t z = rng += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int check_below(int n) {
    return (int)(check_random() % (uint64_t)n);
}

float check_uniform(float low, float high) {
    return low + (high - low) * (float)(check_random() >> 40) * 0x1p-24f;
}

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float check_any_finite(void) {
    const uint32_t bits = (uint32_t)check_random();
    return (bits >> 23 & 255) == 255 ? 1.0f : from_bits(bits);
}

float check_special(int i) {
    static const uint32_t bits[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000, 0x80800000,
        0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
        0xffc00001, 0x42b17218, 0x42b17217, 0xc2cff1b5, 0xc2aeac50, 0x33800000, 0xb3800000};
    return from_bits(bits[i % (int)(sizeof bits / sizeof *bits)]);
}

void check_fill(float *x, int64_t n, float low, float high) {
    for (int64_t i = 0; i < n; i++) x[i] = check_uniform(low, high);
}

/* ---- guarded memory */

enum { FRONT = 256 }; /* bytes before an array that are compared */
static const uint32_t untouched = 0x7fc5a5a5;

static struct slot {
    unsigned char *end; /* the first byte that is not mapped */
    unsigned char *data;
} slots[CHECK_SLOTS];

bool check_slots_open(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < CHECK_SLOTS; i++) {
        unsigned char *p = mmap(NULL, CHECK_SLOT_BYTES + 2 * page, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return false;
        slots[i].end = p + page + CHECK_SLOT_BYTES;
        if (mprotect(slots[i].end, page, PROT_NONE) || mprotect(p, page, PROT_NONE)) return false;
    }
    return true;
}

static unsigned char *take(int slot, size_t bytes) {
    if (bytes > CHECK_SLOT_BYTES - FRONT) {
        fprintf(stderr, "the test asks for %zu bytes, a slot has %d\n", bytes, CHECK_SLOT_BYTES);
        _exit(2);
    }
    struct slot *s = &slots[slot];
    s->data = s->end - bytes;
    memset(s->data - FRONT, 0xa5, FRONT);
    return s->data;
}

float *check_floats(int slot, int64_t n) {
    unsigned char *data = take(slot, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) memcpy(data + i * 4, &untouched, 4);
    return (float *)(void *)data;
}

uint16_t *check_halves(int slot, int64_t n) {
    unsigned char *data = take(slot, (size_t)n * sizeof(uint16_t));
    memset(data, 0xa5, (size_t)n * sizeof(uint16_t));
    return (uint16_t *)(void *)data;
}

bool check_slots_intact(void) {
    for (int i = 0; i < CHECK_SLOTS; i++)
        for (int j = 1; slots[i].data && j <= FRONT; j++)
            if (slots[i].data[-j] != 0xa5) return false;
    return true;
}

bool check_gaps_intact(const float *c, int64_t rows, int64_t n, int64_t ld) {
    for (int64_t i = 0; i + 1 < rows; i++)
        for (int64_t j = n; j < ld; j++)
            if (to_bits(c[i * ld + j]) != untouched) return false;
    return true;
}

/* ---- comparison */

bool check_near(double got, double want, double tolerance) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= tolerance;
}

bool check_same_bits(float a, float b) {
    return (isnan(a) && isnan(b)) || to_bits(a) == to_bits(b);
}

double check_ulps(float got, double want) {
    if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
    const float rounded = (float)want;
    if (isinf(rounded) || isinf(got)) return got == rounded ? 0 : INFINITY;
    int exponent;
    frexp(want, &exponent);
    if (exponent < -125) exponent = -125;
    return fabs((double)got - want) / ldexp(1.0, exponent - 24);
}

/* ---- failures */

check_state check = {"", "", 0};

void check_fail(const char *fmt, ...) {
    if (++check.failures > 20) return;
    printf("FAIL %s %s: ", check.level, check.kernel);
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf(check.failures == 20 ? "\n(no more failures are printed)\n" : "\n");
}

static void say(const char *s) {
    if (write(STDERR_FILENO, s, strlen(s)) < 0) return;
}

static void on_crash(int number) {
    say("CRASH in ");
    say(check.level);
    say(" ");
    say(check.kernel);
    say(number == SIGILL ? " (illegal instruction)\n" : " (access outside its arrays?)\n");
    signal(number, SIG_DFL);
    raise(number);
}

void check_catch_crashes(void) {
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGILL, on_crash);
    signal(SIGFPE, on_crash);
}

/* ---- levels */

static bool same_functions(const vo_kernels *a, const vo_kernels *b) {
#define VO_KERNEL(name, args)                                                                      \
    if (a->name != b->name) return false;
#include "kernels/kernels.def"
#undef VO_KERNEL
    return true;
}

int check_levels(const char *only, check_level levels[8], vo_error *err) {
    static const char *const names[] = {"c",       "avx2", "avxvnni", "avx512", "neon",
                                        "dotprod", "vnni", "bf16",    "amx"};
    int n = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint32_t mask;
        const char *name = only ? only : names[i];
        if (vo_cpu_level_mask(name, &mask, err) != VO_OK) return -1;
        vo_kernels_init(&levels[n].kernels, vo_cpu_detect() & mask);
        bool is_new = true;
        for (int j = 0; j < n; j++)
            is_new &= !same_functions(&levels[n].kernels, &levels[j].kernels);
        if (is_new) snprintf(levels[n++].name, sizeof levels->name, "%s", name);
        if (only) break;
    }
    return n;
}
