/* SPDX-License-Identifier: MIT
 *
 * What a transcription gives: segments that grow while it runs.
 */
#ifndef VO_PIPELINE_RESULT_H
#define VO_PIPELINE_RESULT_H

#include "base/memory.h"
#include "base/status.h"
#include "vocis.h"

struct vocis_result {
    vocis_segment *segments;
    int n_segments, capacity;
    char *text;           /* all segments joined, stripped of outer blanks; "" until finished */
    const char *language; /* code, static */
    float language_probability;
    bool language_detected;
    vocis_task task;
    double duration;
    vocis_timings timings;
    size_t peak_bytes;
    vocis_transcribe_params settings; /* pointers in it are not kept */
};

vocis_result *vo_result_create(void);
/* Copies text, tokens, logprobs and words. Sets id. */
vo_status vo_result_add(vocis_result *result, const vocis_segment *segment, vo_error *err);
/* Moves all segments of `from` behind those of `result`, which leaves `from` without any. */
vo_status vo_result_move(vocis_result *result, vocis_result *from, vo_error *err);
/* Segments and text. */
void vo_result_swap(vocis_result *a, vocis_result *b);
vo_status vo_result_finish(vocis_result *result, vo_error *err);
void vo_result_destroy(vocis_result *result);

/* write.c */
vo_status vo_result_write(const vocis_result *result, const char *format, vocis_write_params params,
                          char **document, size_t *size, vo_error *err);
/* write_json.c */
void vo_write_json(vo_buf *out, const vocis_result *result, const vocis_write_params *params);

#endif
