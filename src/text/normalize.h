/* SPDX-License-Identifier: MIT
 *
 * Steps that the normalisers share. Each reads valid UTF-8 from one buffer and appends to
 * another; when memory is short, out->failed says so.
 */
#ifndef VO_TEXT_NORMALIZE_H
#define VO_TEXT_NORMALIZE_H

#include "base/memory.h"
#include "base/status.h"

/* Drops <...> and [...] (either closing bracket ends either), then (...). */
void vo_remove_brackets(const char *s, size_t size, vo_buf *out);
void vo_remove_parentheses(const char *s, size_t size, vo_buf *out);

/* NFKD; marks of category Mn dropped; other marks, symbols and punctuation become spaces;
 * letters that do not decompose (ø, ß, ...) are spelt in ASCII. Characters of `keep` stay. */
void vo_remove_diacritics(const char *s, size_t size, const char *keep, vo_buf *out);

/* Each run of white space becomes one space. */
void vo_collapse_spaces(const char *s, size_t size, vo_buf *out);

/* Spoken numbers to digits (english_numbers.c). */
void vo_normalize_numbers(const char *s, size_t size, vo_buf *out);

/* True when s[pos] begins, or s[..pos) ends, with a word character: \b lies where they differ. */
bool vo_word_at(const char *s, size_t size, size_t pos);
bool vo_word_before(const char *s, size_t pos);

/* Python's split(): sets *word and *length to the next word from *pos on; false at the end. */
bool vo_next_word(const char *s, size_t size, size_t *pos, const char **word, size_t *length);

/* First position of the byte c in s[from..size), or size. */
size_t vo_find_byte(const char *s, size_t size, size_t from, char c);

#endif
