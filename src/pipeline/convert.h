/* SPDX-License-Identifier: MIT */
#ifndef VO_PIPELINE_CONVERT_H
#define VO_PIPELINE_CONVERT_H

#include "base/log.h"
#include "vocis.h"

/* See vocis_model_convert. */
vo_status vo_convert(const vo_log *log, const char *path, const char *folder,
                     const vocis_convert_params *params, vo_error *err);

#endif
