/* SPDX-License-Identifier: MIT
 *
 * Which script a letter belongs to, and in which scripts a language is written. Sets are bits.
 */
#ifndef VO_TEXT_SCRIPT_H
#define VO_TEXT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t vo_scripts;

/* The script of a letter; 0 for what is no letter, and for letters of scripts that no language of
 * Whisper is written in. */
vo_scripts vo_script_of(uint32_t cp);

/* Of a language by its index; what it is usually written in, two where both are usual. Latin for
 * an index out of range. */
vo_scripts vo_language_scripts(int language);

/* Letters in UTF-8: those of the scripts, and all whose script is known. Bytes that are no UTF-8
 * are passed over. */
typedef struct vo_letters {
    size_t inside, all;
} vo_letters;
vo_letters vo_count_letters(const char *text, size_t size, vo_scripts scripts);

#endif
