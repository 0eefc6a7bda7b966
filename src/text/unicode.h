/* SPDX-License-Identifier: MIT
 *
 * Character classes and the few Unicode transformations that tokenizer and normalisers share.
 * Data come from utf8proc; classes are those of Python's re (word, digit, space) and of the
 * Unicode general categories (letter, number).
 */
#ifndef VO_TEXT_UNICODE_H
#define VO_TEXT_UNICODE_H

#include "base/memory.h"
#include "base/status.h"

bool vo_is_letter(uint32_t cp);          /* category L */
bool vo_is_number(uint32_t cp);          /* category N */
bool vo_is_digit(uint32_t cp);           /* category Nd */
bool vo_is_symbol_or_mark(uint32_t cp);  /* category M, S or P */
bool vo_is_nonspacing_mark(uint32_t cp); /* category Mn */
bool vo_is_word(uint32_t cp);            /* \w: letter, number, underscore */
bool vo_is_white_space(uint32_t cp);     /* the White_Space property: \s of the tokenizer */
bool vo_is_python_space(uint32_t cp);    /* White_Space and U+001C..1F: \s and split() of Python */

/* 0..9 for a character of category Nd. */
int vo_digit_value(uint32_t cp);

/* Code point at s[*pos] of valid UTF-8; advances *pos. *pos must be below size. */
uint32_t vo_read_char(const char *s, size_t size, size_t *pos);
/* Code point that ends before s[pos], 0 at the beginning. */
uint32_t vo_char_before(const char *s, size_t pos);
/* Code point that begins at s[pos], 0 at the end. */
uint32_t vo_char_at(const char *s, size_t size, size_t pos);
void vo_append_char(vo_buf *out, uint32_t cp);

/* Lower case with the rules of Python's str.lower (final sigma, dotted capital I). Input valid
 * UTF-8; appends to out. */
void vo_append_lower(const char *s, size_t size, vo_buf *out);

/* Compatibility decomposition of one character, in no canonical order: at most
 * VO_MAX_DECOMPOSED code points, returns their number. */
#define VO_MAX_DECOMPOSED 32
int vo_decompose(uint32_t cp, int32_t out[VO_MAX_DECOMPOSED]);

/* NFKC of valid UTF-8: *n code points in fresh memory (vo_free), NULL when memory is short.
 * Linear time, also for long runs of combining marks. */
int32_t *vo_compose(const char *s, size_t size, size_t *n);

#endif
