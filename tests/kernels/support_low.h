/* SPDX-License-Identifier: MIT
 *
 * The tests of the GEMM kernels in bf16 and in int8, one for each kernel of that group.
 */
#ifndef VO_TESTS_KERNELS_SUPPORT_LOW_H
#define VO_TESTS_KERNELS_SUPPORT_LOW_H

#include "kernels/support_check.h"

void test_bf16_pack_a(const vo_kernels *k);
void test_gemm_bf16(const vo_kernels *k);
void test_int8_pack_a(const vo_kernels *k);
void test_gemm_int8(const vo_kernels *k);
void test_int8_scale(const vo_kernels *k);
void test_int4_to_bf16(const vo_kernels *k);
void test_tiles_begin(const vo_kernels *k);
void test_tiles_end(const vo_kernels *k);

#endif
