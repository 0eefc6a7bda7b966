/* SPDX-License-Identifier: MIT
 *
 * VO_INCBIN(name, path): a file put into the object file by the assembler, between name_begin and
 * name_end, in the read-only section and at the start of a cache line. Nothing has to be
 * generated, so cross-compiling needs no program on the build machine. path is a string literal.
 */
#ifndef VO_BASE_INCBIN_H
#define VO_BASE_INCBIN_H

#define VO_INCBIN_TEXT_OF(x)   #x
#define VO_INCBIN_EXPAND(x)    VO_INCBIN_TEXT_OF(x)
#define VO_INCBIN_SYMBOL(name) VO_INCBIN_EXPAND(__USER_LABEL_PREFIX__) name

#if defined(__APPLE__)
#define VO_INCBIN_SECTION      ".section __TEXT,__const\n"
#define VO_INCBIN_HIDDEN(name) ".private_extern " VO_INCBIN_SYMBOL(name) "\n"
#else
#define VO_INCBIN_SECTION      ".section .rodata,\"a\"\n"
#define VO_INCBIN_HIDDEN(name) ".hidden " VO_INCBIN_SYMBOL(name) "\n"
#endif

/* Global and hidden rather than local, so that the references also resolve when the compiler
 * splits a file for link-time optimisation. */
#define VO_INCBIN_LABEL(name)                                                                      \
    ".globl " VO_INCBIN_SYMBOL(name) "\n" VO_INCBIN_HIDDEN(name) VO_INCBIN_SYMBOL(name) ":\n"

#define VO_INCBIN(name, path)                                                                      \
    extern const char name##_begin[] __attribute__((visibility("hidden")));                        \
    extern const char name##_end[] __attribute__((visibility("hidden")));                          \
    __asm__(VO_INCBIN_SECTION ".balign 64\n" VO_INCBIN_LABEL(                                      \
        #name "_begin") ".incbin \"" path                                                          \
                        "\"\n" VO_INCBIN_LABEL(#name "_end") ".byte 0\n.previous\n");

#endif
