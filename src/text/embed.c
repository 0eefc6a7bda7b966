/* SPDX-License-Identifier: MIT
 *
 * Data files put into the object file by the assembler. The build defines VO_TEXT_DATA, the folder
 * of the files with a slash at the end.
 */
#include "text/embed.h"

#include "base/incbin.h"

#define EMBED(name, file)                                                                          \
    VO_INCBIN(name, VO_TEXT_DATA file)                                                             \
    vo_embedded name(void) {                                                                       \
        vo_embedded result = {name##_begin, (size_t)(name##_end - name##_begin)};                  \
        return result;                                                                             \
    }

EMBED(vo_embedded_gpt2, "gpt2.tiktoken")
EMBED(vo_embedded_multilingual, "multilingual.tiktoken")
EMBED(vo_embedded_english_spelling, "english_spelling.txt")
