/* SPDX-License-Identifier: MIT */
#ifndef VO_PIPELINE_MEASURE_H
#define VO_PIPELINE_MEASURE_H

#include "base/status.h"
#include "vocis.h"

/* Medians over `runs` runs on synthetic input. */
vo_status vo_benchmark(vocis_session *session, int runs, vocis_benchmark *out, vo_error *err);

#endif
