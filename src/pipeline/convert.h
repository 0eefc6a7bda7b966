/* SPDX-License-Identifier: MIT */
#ifndef VO_PIPELINE_CONVERT_H
#define VO_PIPELINE_CONVERT_H

#include "base/status.h"
#include "vocis.h"

/* See vocis_model_convert. */
vo_status vo_convert(vocis_engine *engine, const char *path, const char *folder,
                     const vocis_convert_params *params, vo_error *err);

#endif
