/* SPDX-License-Identifier: MIT
 *
 * Transcribing an input of any length in memory that does not grow with it.
 */
#ifndef CLI_STREAM_H
#define CLI_STREAM_H

#include "vocis.h"

/* One input: a path, or "-" for standard input. Segments go to params.on_segment as they are found;
 * params.on_abort is polled, too. *audio tells what was read. */
vocis_status stream_transcribe(vocis_session *session, const char *path, vocis_audio_params audio,
                               vocis_transcribe_params params, vocis_audio *read, vocis_error *err);

#endif
