/* SPDX-License-Identifier: MIT
 *
 * Text in a script that its language is not written in: speech was translated, or what stands
 * before a window has led the decoder into another language. If the window sounds like the language
 * it was to be written in, it is decoded once more, without text before it and without tokens of
 * other scripts.
 */
#ifndef VO_PIPELINE_RESCRIPT_H
#define VO_PIPELINE_RESCRIPT_H

#include "pipeline/prompt.h"

typedef enum vo_rescript_state {
    VO_SCRIPT_FREE,
    VO_SCRIPT_FORCED,
    VO_SCRIPT_GIVEN_UP
} vo_rescript_state;

/* Of one window. */
typedef struct vo_rescript {
    vo_rescript_state state;
    char *before;         /* FORCED: the text that did not agree */
    vo_token_list banned; /* tokens of other scripts than `language` is written in */
    int language;
    vo_suppress_filter filter; /* of those */
} vo_rescript;

/* Whether most letters of a text, and not just a few, are of scripts that the language is not
 * written in. language: an index. */
bool vo_rescript_disagrees(const char *text, size_t length, int language);

/* FREE to FORCED. */
vo_status vo_rescript_force(vo_rescript *self, const vo_tokenizer *tokenizer, int language,
                            const char *before, vo_error *err);
/* For the next window. */
void vo_rescript_reset(vo_rescript *self);
void vo_rescript_free(vo_rescript *self);

#endif
