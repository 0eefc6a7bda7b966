/* SPDX-License-Identifier: MIT
 *
 * For tests of the library that need its internals or a model: linked with its parts instead of
 * the shared library, on a tiny Whisper that is made when the test starts.
 */
#ifndef VO_TESTS_API_INSIDE_H
#define VO_TESTS_API_INSIDE_H

#include "vocis.h"

enum { INSIDE_SECONDS = 2, INSIDE_SAMPLES = INSIDE_SECONDS * VOCIS_SAMPLE_RATE };

/* Writes the model and fills the samples once; group set-up and tear-down. */
int inside_begin(void **state);
int inside_end(void **state);

const char *inside_model_path(void);
const float *inside_samples(void); /* [INSIDE_SAMPLES] noise that grows and fades */
vocis_engine *inside_engine(int threads);
vocis_model *inside_model(vocis_engine *engine);
vocis_session *inside_session(vocis_model *model, int max_sequences);

#endif
