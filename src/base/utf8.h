/* SPDX-License-Identifier: MIT */
#ifndef VO_BASE_UTF8_H
#define VO_BASE_UTF8_H

#include "base/status.h"

/* Length of the valid UTF-8 sequence at s (1..4), or 0 if the bytes there are not valid
 * (overlong forms, surrogates and values above U+10FFFF are not). Sets *cp when valid. */
int vo_utf8_next(const char *s, size_t size, uint32_t *cp);
/* Writes cp as UTF-8 (1..4 bytes), returns the length; 0 for invalid code points. */
int vo_utf8_put(uint32_t cp, char out[4]);
bool vo_utf8_valid(const char *s, size_t size);
/* Replaces each maximal invalid part by U+FFFD the way Python's errors="replace" does.
 * Fresh NUL-terminated memory (vo_free), NULL when memory is short. */
char *vo_utf8_sanitize(const char *s, size_t size, size_t *out_size);
/* How many trailing bytes of s may be the beginning of a longer sequence (0..3). */
int vo_utf8_incomplete_tail(const char *s, size_t size);

#endif
