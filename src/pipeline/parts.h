/* SPDX-License-Identifier: MIT
 *
 * Segments that stand over speech which they do not hold: the model has left a sentence out, and
 * its timestamps say nothing of it. The times of words show where. Such a segment is parted there,
 * so that the speech counts as left out and what a second look finds in it has a place in between.
 */
#ifndef VO_PIPELINE_PARTS_H
#define VO_PIPELINE_PARTS_H

#include "pipeline/speech.h"
#include "pipeline/words.h"

/* Whether a segment has too few tokens for the speech that its times span. */
bool vo_is_sparse(const vo_voice *voice, const vo_draft_segment *draft);

/* Whether it has many more than the speech that its times span can hold: they are wrong, and so may
 * be those of the whole window. */
bool vo_is_dense(const vo_voice *voice, const vo_draft_segment *draft);

/* Parts the drafts that are not `whole`, whose words are those of `list`, in place: *n grows, at
 * most to the number of words. Words that were stretched over speech shrink. tokens: what was
 * decoded; eot: ids below it are text. */
void vo_words_part(const vo_voice *voice, const vo_word_list *list, const int32_t *tokens,
                   int32_t eot, vo_draft_segment *drafts, int *n);

#endif
