/* SPDX-License-Identifier: MIT
 *
 * The smallest program: prints what is said in a file.
 *
 *     cc transcribe.c -o transcribe $(pkg-config --cflags --libs vocis)
 *     ./transcribe speech.wav [model]
 */
#include <stdio.h>
#include <vocis.h>

int main(int argc, char **argv) {
    vocis_error err = {0};
    vocis_engine *engine = NULL;
    vocis_model *model = NULL;
    vocis_session *session = NULL;
    vocis_result *result = NULL;
    if (argc < 2) return fprintf(stderr, "usage: %s FILE [MODEL]\n", argv[0]), 2;
    const char *name = argc > 2 ? argv[2] : "base";

    /* An err that holds a failure is left alone: the first one is what is printed. */
    if (vocis_engine_create(vocis_engine_default_params(), &engine, &err) == VOCIS_OK &&
        vocis_model_open(engine, name, vocis_model_default_params(), &model, &err) == VOCIS_OK &&
        vocis_session_create(model, vocis_session_default_params(), &session, &err) == VOCIS_OK)
        vocis_transcribe_file(session, argv[1], vocis_transcribe_default_params(), &result, &err);

    if (err.status == VOCIS_OK)
        puts(vocis_result_text(result));
    else
        fprintf(stderr, "%s\n", err.message);
    vocis_result_destroy(result);
    vocis_session_destroy(session);
    vocis_model_destroy(model);
    vocis_engine_destroy(engine);
    return err.status == VOCIS_OK ? 0 : 1;
}
