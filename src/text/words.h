/* SPDX-License-Identifier: MIT
 *
 * Token ids as words, by the rules of openai-whisper (tokenizer.py, split_to_word_tokens;
 * timing.py, merge_punctuations).
 */
#ifndef VO_TEXT_WORDS_H
#define VO_TEXT_WORDS_H

#include "text/tokenizer.h"

typedef struct vo_text_word {
    char *text; /* UTF-8 with its leading space; "" once it was merged into a neighbour */
    int n_ids;  /* 0 then */
} vo_text_word;

/* Words of text ids in their order: *words [*n] in fresh memory (vo_text_words_free), NULL when
 * there are none. language: a code, NULL for a model that knows English only; what is written
 * without spaces is cut wherever tokens end with whole characters. Ids at the end that are no whole
 * character, and as in the reference the word that they belong to, are left out. */
vo_status vo_split_words(const vo_tokenizer *tokenizer, const int32_t *ids, int n_ids,
                         const char *language, vo_text_word **words, int *n, vo_error *err);
void vo_text_words_free(vo_text_word *words, int n);

/* Gives marks to the word after them or before them. Each list of marks is one string, of which a
 * word that is to be merged must be a part. */
vo_status vo_merge_punctuations(vo_text_word *words, int n, const char *prepended,
                                const char *appended, vo_error *err);

#endif
