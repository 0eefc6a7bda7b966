/* SPDX-License-Identifier: MIT
 *
 * What a transcription has decided so far, in a file: the language, where the input is cut, and
 * for every window that was decoded its segments and where its track goes on. A later run with the
 * same input, model and settings begins with that and gives the same result.
 */
#ifndef VO_PIPELINE_JOURNAL_H
#define VO_PIPELINE_JOURNAL_H

#include "base/memory.h"
#include "base/records.h"
#include "pipeline/chunks.h"
#include "pipeline/engine.h"

typedef struct vo_journal vo_journal;

/* Opens or creates the journal that params names. One of another input, model, version or setting
 * is begun anew, with a warning. */
vo_status vo_journal_open(const vocis_session *session, const float *samples, int64_t n_samples,
                          const vocis_transcribe_params *params, vo_journal **journal,
                          vo_error *err);
void vo_journal_close(vo_journal *journal); /* NULL allowed */

/* False when the language was not decided on. */
bool vo_journal_language(const vo_journal *journal, int n_languages, int *index,
                         float *probability);
vo_status vo_journal_put_language(vo_journal *journal, int index, float probability, vo_error *err);
/* *found: false when the input was not cut. *chunks is fresh memory (vo_free). */
vo_status vo_journal_chunks(const vo_journal *journal, bool *found, vo_chunk **chunks, int *n,
                            vo_error *err);
vo_status vo_journal_put_chunks(vo_journal *journal, const vo_chunk *chunks, int n, vo_error *err);
/* Windows in the order in which they were decoded, of all tracks: *at is 0 at first; false at the
 * end. The bytes are what track.c put. Any thread may put. */
bool vo_journal_next_window(const vo_journal *journal, size_t *at, vo_record *window);
vo_status vo_journal_put_window(vo_journal *journal, const vo_buf *window, vo_error *err);

#endif
