/* SPDX-License-Identifier: MIT
 *
 * How much memory of its own (file maps aside) a process takes that transcribes one recording at a
 * time with base, at every point where it is largest: after loading, after planning, within and
 * after the work.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "models/support_real.h"

/* Private bytes of this process now, or 0 where the system does not tell. */
static int64_t private_bytes(void) {
    long long kilobytes = 0;
    char line[128];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %lld kB", &kilobytes) == 1) break;
    if (status) fclose(status);
    return kilobytes * 1024;
}

static int64_t most;

static void look(void) {
    const int64_t now = private_bytes();
    most = now > most ? now : most;
}

static bool look_between_steps(void *user) {
    (void)user;
    look();
    return false;
}

static int64_t most_with(const char *compute) {
    vo_error err = {0};
    vocis_model *model;
    vocis_session *session;
    vocis_result *result;
    most = 0;
    vocis_engine *engine = real_engine(1, NULL);
    assert_non_null(engine);
    assert_int_equal(vo_model_load(engine, real_model("base"), compute, &model, &err), VO_OK);
    look();
    assert_int_equal(
        vo_session_create(
            model, (vocis_session_params){.max_sequences = 1, .max_windows = 1, .max_workers = 1},
            &session, &err),
        VO_OK);
    look();
    vo_audio audio = real_audio(REAL_JFK);
    vocis_transcribe_params params = real_params(1);
    params.on_abort = look_between_steps;
    assert_int_equal(
        vo_transcribe(session, audio.samples, audio.n_samples, NULL, &params, &result, &err),
        VO_OK);
    look();
    print_message("base, %s: %.1f million bytes\n", compute, (double)most / 1e6);
    vo_result_destroy(result);
    vo_audio_free(&audio);
    real_session_destroy(session);
    real_engine_destroy(engine);
    return most;
}

static void need(void) {
    if (!real_model("base") || private_bytes() == 0) skip();
}

static void test_int8(void **state) {
    need();
    assert_true(most_with("int8") <= 110 * 1000 * 1000);
}

static void test_int4(void **state) {
    need();
    assert_true(most_with("int4") <= 100 * 1000 * 1000);
}

int main(void) {
    /* The tighter one first: what was given back may stay with the process. */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_int8), cmocka_unit_test(test_int4)};
    return cmocka_run_group_tests_name("models: memory", tests, NULL, NULL);
}
