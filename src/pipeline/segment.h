/* SPDX-License-Identifier: MIT
 *
 * Segments as bytes of a record.
 */
#ifndef VO_PIPELINE_SEGMENT_H
#define VO_PIPELINE_SEGMENT_H

#include "base/memory.h"
#include "base/records.h"
#include "vocis.h"

/* A segment at the end of `out`, whose size must be a multiple of 8 and stays one. */
void vo_segment_save(vo_buf *out, const vocis_segment *segment);
/* The segment at record.data + *at, which moves behind it. Text and arrays are borrowed from the
 * record, but for words: vo_free them. VO_ERR_FORMAT when there is none. */
vo_status vo_segment_load(const vo_record *record, size_t *at, vocis_segment *segment,
                          vo_error *err);
/* Tokens by themselves, likewise; NULL when there are not so many. */
void vo_segment_save_tokens(vo_buf *out, const int32_t *tokens, int n);
const int32_t *vo_segment_load_tokens(const vo_record *record, size_t *at, int32_t n);

#endif
