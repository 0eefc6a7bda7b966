/* SPDX-License-Identifier: MIT */
#ifndef VO_PIPELINE_INSPECT_H
#define VO_PIPELINE_INSPECT_H

#include "base/status.h"

/* Facts of a weight file or model folder as a JSON object: path, format, layout, bytes, number of
 * tensors and parameters, bytes per dtype, Whisper's dims when it is one, and with `tensors` the
 * list of names, dtypes and shapes. *json: vo_free. Nothing is loaded beyond the header. */
vo_status vo_inspect(const char *path, bool tensors, char **json, vo_error *err);

#endif
