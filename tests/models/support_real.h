/* SPDX-License-Identifier: MIT
 *
 * What the tests on real weights share: an engine, models by name from VOCIS_TEST_MODELS, golden
 * JSON and .npy files from VOCIS_TEST_DATA.
 */
#ifndef VO_TESTS_SUPPORT_REAL_H
#define VO_TESTS_SUPPORT_REAL_H

#include "audio/audio.h"
#include "pipeline/engine.h"
#include "pipeline/result.h"

#include <jansson.h>

/* Path below an environment variable's folder in a static buffer, or NULL when it is not set or
 * the file does not exist. */
const char *real_data(const char *relative);
const char *real_model(const char *name);

vocis_engine *real_engine(int threads, const char *cpu);
void real_engine_destroy(vocis_engine *engine);
vocis_session *real_session(vocis_engine *engine, const char *model_path, int rows);
void real_session_destroy(vocis_session *session); /* and its model */

/* Temperature 0 without fallback and second looks, as the goldens were made. */
vocis_transcribe_params real_params(int beam_size);
/* Transcribes an audio file; the caller destroys the result. */
vocis_result *real_transcribe(vocis_session *session, const char *path,
                              const vocis_transcribe_params *params);
/* The Kennedy clip that is shipped with the tests: 11 s of English. */
#define REAL_JFK "tests/data/audio/jfk.wav"
/* Transcribes samples in a session of its own, of so many windows; fails the running test. */
vocis_result *real_run(vocis_model *model, const float *samples, int64_t n_samples, int windows,
                       const vocis_transcribe_params *params);
/* A clip of read speech by its name; fails the running test when it is not there. */
vo_audio real_clip(const char *name);
/* Names of such clips that fill about a window, and their words. */
enum { REAL_SENTENCES = 6 };
extern const char *const real_sentences[REAL_SENTENCES];
extern const char real_sentences_text[];
/* A whole file; samples are NULL after a failure. vo_audio_free. */
vo_audio real_audio(const char *path);
/* Encodes samples, at most 30 s, padded with silence to 30 s; fails the running test on error. */
void real_encode(vocis_session *session, const float *samples, int64_t n_samples);

/* Ids of a JSON array, of all segments of a result; at most `capacity`. */
int real_json_ids(const json_t *array, int32_t *ids, int capacity);
int real_result_ids(const vocis_result *result, int32_t *ids, int capacity);
/* Fails the running test with the first difference. */
void real_assert_ids(const char *what, const int32_t *have, int n_have, const int32_t *want,
                     int n_want);
/* Word errors of text against a reference, both through the English normaliser. */
int real_word_errors(const char *reference, const char *text);

/* f32 C-order .npy: data (vo_free) and number of elements. */
float *real_npy(const char *path, int64_t *count);

#endif
