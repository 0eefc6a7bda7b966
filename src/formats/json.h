/* SPDX-License-Identifier: MIT */
#ifndef VO_FORMATS_JSON_H
#define VO_FORMATS_JSON_H

#include "base/status.h"

#include <jansson.h>

/* What it means that a text was not loaded: VO_ERR_FORMAT or VO_ERR_MEMORY, for which jansson often
 * leaves the sentence empty. */
static inline vo_status vo_json_status(const json_error_t *why) {
    bool memory = json_error_code(why) == json_error_out_of_memory || why->text[0] == '\0';
    return memory ? VO_ERR_MEMORY : VO_ERR_FORMAT;
}

#endif
