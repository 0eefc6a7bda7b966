/* SPDX-License-Identifier: MIT
 *
 * A stream: the thread that listens, decodes and makes events. The verbs are those of vocis.h.
 */
#ifndef VO_PIPELINE_STREAM_H
#define VO_PIPELINE_STREAM_H

#include "pipeline/engine.h"

vocis_stream_params vo_stream_default_params(void);
vo_status vo_stream_create(vocis_session *session, const vocis_stream_params *params,
                           vocis_stream **stream, vo_error *err);
vo_status vo_stream_push(vocis_stream *stream, const float *samples, int64_t n, vo_error *err);
vo_status vo_stream_next(vocis_stream *stream, double seconds, vocis_event *event, vo_error *err);
void vo_stream_finish(vocis_stream *stream);
void vo_stream_destroy(vocis_stream *stream);

#endif
