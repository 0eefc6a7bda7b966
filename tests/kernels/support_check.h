/* SPDX-License-Identifier: MIT
 *
 * What the kernel tests share: a seeded random source, memory whose every byte outside is
 * guarded, comparison with a stated tolerance, and a list of the CPU levels to test.
 */
#ifndef VO_TESTS_KERNELS_SUPPORT_CHECK_H
#define VO_TESTS_KERNELS_SUPPORT_CHECK_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#include "kernels/kernels.h"

/* ---- random numbers (splitmix64) */
void check_seed(uint64_t seed);
uint64_t check_random(void);
int check_below(int n); /* 0..n-1 */
float check_uniform(float low, float high);
float check_any_finite(void); /* every exponent is equally likely, denormals included */
float check_special(int i);   /* zeros, denormals, infinities, NaN, limits, in turn */
void check_fill(float *x, int64_t n, float low, float high);

/* ---- guarded memory: slot s holds one array at a time. It ends where an unmapped page
 * begins, so that any access beyond it crashes; before it lie bytes that are compared. */
enum { CHECK_SLOTS = 8, CHECK_SLOT_BYTES = 32 << 20 };
bool check_slots_open(void);
float *check_floats(int slot, int64_t n); /* filled with CHECK_UNTOUCHED */
uint16_t *check_halves(int slot, int64_t n);
/* false when bytes before the array of any slot have changed */
bool check_slots_intact(void);
/* true while elements beyond column n of each row still hold the fill of check_floats */
bool check_gaps_intact(const float *c, int64_t rows, int64_t n, int64_t ld);

/* ---- comparison */
/* got is want within tolerance; NaN equals NaN, an infinity only itself */
bool check_near(double got, double want, double tolerance);
bool check_same_bits(float a, float b);    /* any NaN equals any NaN */
double check_ulps(float got, double want); /* distance in units of the last place of want */

/* ---- failures: counted, the first ones printed with level and kernel */
typedef struct check_state {
    const char *level;
    const char *kernel; /* named when the process crashes */
    int failures;
} check_state;
extern check_state check;
void check_fail(const char *fmt, ...) VO_PRINTF(1, 2);
void check_catch_crashes(void);

/* ---- levels that this machine has and that differ from the ones before */
typedef struct check_level {
    char name[16];
    vo_kernels kernels;
} check_level;
/* only: one level by name, or NULL for all. Returns how many (at most 8), or -1 with err. */
int check_levels(const char *only, check_level levels[8], vo_error *err);

#endif
