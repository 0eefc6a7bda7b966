/* SPDX-License-Identifier: MIT
 *
 * Text measures: Whisper's normalisers, error rates, compression ratio.
 */
#ifndef VO_TEXT_TEXT_H
#define VO_TEXT_TEXT_H

#include "base/status.h"

/* Whisper's EnglishTextNormalizer and BasicTextNormalizer (docs/models/whisper.md). Input is
 * UTF-8. Fresh memory (vo_free), NULL when memory is short. */
char *vo_normalize_english(const char *text);
char *vo_normalize_basic(const char *text, bool remove_diacritics, bool split_letters);

/* Edit distance over words or characters: counts of the cheapest alignment. */
typedef struct vo_error_rate {
    int64_t substitutions, deletions, insertions, reference; /* reference = units in it */
} vo_error_rate;
vo_status vo_word_errors(const char *reference, const char *hypothesis, vo_error_rate *out,
                         vo_error *err);
vo_status vo_char_errors(const char *reference, const char *hypothesis, vo_error_rate *out,
                         vo_error *err);

/* len(utf8) / len(zlib level 6); 0 for empty text (Whisper's measure of repetition). */
double vo_compression_ratio(const char *text, size_t size);

#endif
