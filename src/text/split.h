/* SPDX-License-Identifier: MIT */
#ifndef VO_TEXT_SPLIT_H
#define VO_TEXT_SPLIT_H

#include "base/status.h"

/* Bytes of the first piece of s (size > 0) under GPT-2's pre-tokenisation pattern
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * A byte that is no valid UTF-8 counts as a symbol. Merges never cross pieces. */
size_t vo_split_gpt2(const char *s, size_t size);

#endif
