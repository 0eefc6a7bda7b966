/* SPDX-License-Identifier: MIT
 *
 * The data files that are part of the library. The bytes lie in the read-only section of the
 * program, so that reading them costs no file access and no copy.
 */
#ifndef VO_TEXT_EMBED_H
#define VO_TEXT_EMBED_H

#include "base/status.h"

typedef struct vo_embedded {
    const char *data; /* not NUL-terminated */
    size_t size;
} vo_embedded;

/* Static storage, valid always. data/README.md says what each file holds. */
vo_embedded vo_embedded_gpt2(void);
vo_embedded vo_embedded_multilingual(void);
vo_embedded vo_embedded_english_spelling(void);

#endif
