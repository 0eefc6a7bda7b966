/* SPDX-License-Identifier: MIT
 *
 * Token lists, and what stands before the text of a window: previous text, start, language,
 * task, prefix (decoding.py, _get_initial_tokens).
 */
#ifndef VO_PIPELINE_PROMPT_H
#define VO_PIPELINE_PROMPT_H

#include "pipeline/engine.h"

typedef struct vo_token_list {
    int32_t *ids;
    int n, capacity;
} vo_token_list;
vo_status vo_tokens_append(vo_token_list *list, const int32_t *ids, int n, vo_error *err);
void vo_tokens_free(vo_token_list *list);

/* Text without blanks at its ends: where it begins and how long it is. */
const char *vo_strip(const char *text, size_t *length);
/* Appends the ids of " " + stripped text. */
vo_status vo_encode_spaced(const vo_tokenizer *tokenizer, const char *text, vo_token_list *list,
                           vo_error *err);
/* "-1", "-1,50,60", "" or NULL: the ids that are never allowed, special ones included. */
vo_status vo_parse_suppress(const vo_tokenizer *tokenizer, const char *text, vo_token_list *list,
                            vo_error *err);
/* Start, language, task: returns how many. */
enum { VO_MAX_START = 4 };
int vo_start_tokens(const vocis_session *session, const vocis_transcribe_params *params,
                    int32_t language, int32_t start[VO_MAX_START]);
/* Everything that is fed before the first choice; *sot_index is where the start token stands. */
vo_status vo_build_prompt(const vocis_session *session, const vocis_transcribe_params *params,
                          const vo_token_list *all, int n_initial, int reset_since,
                          int32_t language, const vo_token_list *prefix, vo_token_list *prompt,
                          int *sot_index, vo_error *err);

#endif
