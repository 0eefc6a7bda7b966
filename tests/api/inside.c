/* SPDX-License-Identifier: MIT
 *
 * One model file per test program, removed at its end.
 */
#include "api/inside.h"

#include "models/support_hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/vocis-inside-XXXXXX";
static float samples[INSIDE_SAMPLES];

int inside_begin(void **state) {
    uint32_t random = 1;
    for (int i = 0; i < INSIDE_SAMPLES; i++) {
        random = random * 1664525u + 1013904223u;
        float x = (float)(random >> 8) / 16777216.0f - 0.5f;
        samples[i] = x * (float)sin(3.14159265 * i / INSIDE_SAMPLES * 3);
    }
    int fd = mkstemp(path);
    return fd >= 0 && close(fd) == 0 && hash_write_whisper(path, 80, 51865) ? 0 : -1;
}

int inside_end(void **state) {
    return unlink(path);
}

const char *inside_model_path(void) {
    return path;
}
const float *inside_samples(void) {
    return samples;
}

vocis_engine *inside_engine(int threads) {
    vocis_engine *engine = NULL;
    vocis_engine_params params = vocis_engine_default_params();
    vocis_error err = {0};
    params.threads = threads;
    if (vocis_engine_create(params, &engine, &err) != VOCIS_OK) fail_msg("%s", err.message);
    return engine;
}

vocis_model *inside_model(vocis_engine *engine) {
    vocis_model *model = NULL;
    vocis_error err = {0};
    if (vocis_model_open(engine, path, vocis_model_default_params(), &model, &err) != VOCIS_OK)
        fail_msg("%s", err.message);
    return model;
}

vocis_session *inside_session(vocis_model *model, int max_sequences) {
    vocis_session *session = NULL;
    vocis_session_params params = {.max_sequences = max_sequences};
    vocis_error err = {0};
    if (vocis_session_create(model, params, &session, &err) != VOCIS_OK)
        fail_msg("%s", err.message);
    return session;
}
