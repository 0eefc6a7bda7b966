/* SPDX-License-Identifier: MIT
 *
 * The tests of attention in less than f32, one for each kernel.
 */
#ifndef VO_TESTS_KERNELS_SUPPORT_ATTENTION_H
#define VO_TESTS_KERNELS_SUPPORT_ATTENTION_H

#include "kernels/support_check.h"

void test_attend_cached_f16(const vo_kernels *k);
void test_attend_cached_s8(const vo_kernels *k);
void test_weigh_cached(const vo_kernels *k);
void test_weigh_cached_f16(const vo_kernels *k);
void test_weigh_cached_s8(const vo_kernels *k);
void test_f32_to_s8(const vo_kernels *k);
void test_attend_pack_bf16(const vo_kernels *k);
void test_attend_block_bf16(const vo_kernels *k);
void test_attend_pack_s8(const vo_kernels *k);
void test_attend_block_s8(const vo_kernels *k);

#endif
