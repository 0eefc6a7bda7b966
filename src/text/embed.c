/* SPDX-License-Identifier: MIT
 *
 * Data files put into the object file by the assembler's .incbin: nothing has to be generated,
 * so cross-compiling needs no program on the build machine. The build defines VO_TEXT_DATA, the
 * folder of the files with a slash at the end.
 */
#include "text/embed.h"

#define TEXT_OF(x)   #x
#define EXPAND(x)    TEXT_OF(x)
#define SYMBOL(name) EXPAND(__USER_LABEL_PREFIX__) name

#if defined(__APPLE__)
#define SECTION      ".section __TEXT,__const\n"
#define HIDDEN(name) ".private_extern " SYMBOL(name) "\n"
#else
#define SECTION      ".section .rodata,\"a\"\n"
#define HIDDEN(name) ".hidden " SYMBOL(name) "\n"
#endif

/* Global and hidden rather than local, so that the references also resolve when the compiler
 * splits this file for link-time optimisation. */
#define LABEL(name) ".globl " SYMBOL(name) "\n" HIDDEN(name) SYMBOL(name) ":\n"

#define EMBED(name, file)                                                                          \
    extern const char name##_begin[] __attribute__((visibility("hidden")));                        \
    extern const char name##_end[] __attribute__((visibility("hidden")));                          \
    __asm__(SECTION                                                                                \
            ".balign 64\n" LABEL(#name "_begin") ".incbin \"" VO_TEXT_DATA file "\"\n" LABEL(      \
                #name "_end") ".byte 0\n.previous\n");                                             \
    vo_embedded name(void) {                                                                       \
        vo_embedded result = {name##_begin, (size_t)(name##_end - name##_begin)};                  \
        return result;                                                                             \
    }

EMBED(vo_embedded_gpt2, "gpt2.tiktoken")
EMBED(vo_embedded_multilingual, "multilingual.tiktoken")
EMBED(vo_embedded_english_spelling, "english_spelling.txt")
