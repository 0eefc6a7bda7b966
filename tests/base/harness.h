/* SPDX-License-Identifier: MIT
 *
 * cmocka with the headers it wants before it, and a random generator with a fixed seed.
 */
#ifndef TESTS_BASE_HARNESS_H
#define TESTS_BASE_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
