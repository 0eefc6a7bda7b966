/* SPDX-License-Identifier: MIT
 *
 * Every allocation of the process, counted: malloc and its kin are replaced in the test program
 * (glibc only, and not under a sanitizer that brings its own).
 */
#ifndef VO_TESTS_TENSOR_SUPPORT_COUNT_H
#define VO_TESTS_TENSOR_SUPPORT_COUNT_H

#include <stdbool.h>

bool heap_is_counted(void);
long heap_calls(void); /* allocations so far, on all threads */

#endif
