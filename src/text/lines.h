/* SPDX-License-Identifier: MIT
 *
 * What breaking text into lines has to know about writing: how many columns a character takes,
 * where a line may break, and where a sentence or a clause ends. Reads valid UTF-8 only, keeps
 * nothing, and is thread safe.
 */
#ifndef VO_TEXT_LINES_H
#define VO_TEXT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a reader takes for one character: an extended grapheme cluster (UAX #29), such as a letter
 * with its accents, a flag, or a family of emoji. */
typedef struct vo_grapheme {
    size_t size;          /* bytes */
    int code_points;      /* how many */
    int columns;          /* on a display of fixed width: 2 if wide (UAX #11), 0 if only marks */
    uint32_t first, last; /* code points */
} vo_grapheme;

/* The one at s[pos]; pos < size. */
vo_grapheme vo_grapheme_at(const char *s, size_t size, size_t pos);

/* Whether the script of a character is written without blanks between words. */
bool vo_is_spaceless(uint32_t cp);

/* Whether a line may break between two characters with no blank between them: next to a character
 * of a script without blanks, but not before closing punctuation, marks and small kana, nor after
 * opening punctuation (the common part of UAX #14 and JIS X 4051). */
bool vo_may_break(uint32_t before, uint32_t after);

typedef enum vo_stop { VO_STOP_NONE, VO_STOP_CLAUSE, VO_STOP_SENTENCE } vo_stop;

/* What ends with s[0..size), a piece without outer blanks, when the text goes on with the
 * character `next` (0: not at all). A stop before a small letter, or after a single letter ("J.",
 * "U.S."), is none of a sentence. */
vo_stop vo_stop_of(const char *s, size_t size, uint32_t next);

#endif
