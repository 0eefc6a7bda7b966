/* SPDX-License-Identifier: MIT
 *
 * Downloads from a pretended hub that redirects, cuts lines, stalls and lies.
 */
#include "base/clock.h"
#include "base/file.h"
#include "support_hub.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int setup(void **state) {
    *state = world_create(true);
    return 0;
}

static int teardown(void **state) {
    world_destroy(*state);
    return 0;
}

static vo_status resolve(const hub_world *w, const char *owner, vo_error *err) {
    vo_hub_context context = world_context(w);
    char *path = NULL;
    memset(err, 0, sizeof *err);
    vo_status status = vo_hub_resolve_entry(fake_entry(owner, false), &context, &path, err);
    assert_int_equal(status == VO_OK, path != NULL);
    vo_free(path);
    return status;
}

/* The model is in place, its bytes are right, and nothing else is left. */
static void expect_model(const hub_world *w) {
    char *dir = in_root(w, "models/fake"), *partial = in_root(w, "models/fake.partial");
    char *note = in_root(w, "models/fake/.source");
    assert_content(dir, "model.bin", 300000);
    assert_content(dir, "config.json", 100);
    assert_false(vo_path_exists(partial));
    assert_false(vo_path_exists(note));
    vo_free(dir);
    vo_free(partial);
    vo_free(note);
}

static void expect_no_model(const hub_world *w) {
    char *dir = in_root(w, "models/fake");
    assert_false(vo_path_exists(dir));
    vo_free(dir);
}

static int asked(const hub_world *w, const char *a, const char *b) {
    char *log = read_text(w->log);
    int count = count_lines_with(log, a, b);
    vo_free(log);
    return count;
}

static void plain(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "plain", &err), VO_OK);
    expect_model(w);
    assert_int_equal(asked(w, "/plain/m/resolve/" COMMIT "/model.bin", "auth=None"), 1);
    assert_int_equal(asked(w, "vocabulary.json", ""), 1); /* 404, and optional */
    /* The second time nothing is asked, online or not. */
    int before = asked(w, "", "");
    assert_int_equal(resolve(w, "plain", &err), VO_OK);
    setenv("HF_HUB_OFFLINE", "1", 1);
    assert_int_equal(resolve(w, "plain", &err), VO_OK);
    assert_int_equal(asked(w, "", ""), before);
}

static void token_stays_with_the_hub(void **state) {
    const hub_world *w = *state;
    vo_error err;
    setenv("HF_TOKEN", "secret", 1);
    assert_int_equal(resolve(w, "moved", &err), VO_OK);
    expect_model(w);
    assert_int_equal(asked(w, "hub ", "/moved/m/resolve/" COMMIT "/model.bin auth=Bearer secret"),
                     1);
    assert_int_equal(asked(w, "storage ", "/storage/model.bin auth=None"), 1);
    assert_int_equal(asked(w, "storage ", "secret"), 0);
}

static void token_stays_with_the_host_name(void **state) {
    const hub_world *w = *state;
    vo_error err;
    setenv("HF_TOKEN", "secret", 1);
    assert_int_equal(resolve(w, "renamed", &err), VO_OK);
    assert_int_equal(asked(w, "localhost:", "/plain/x/resolve/y/model.bin auth=None"), 1);
    assert_int_equal(asked(w, "localhost:", "secret"), 0);
}

static void token_follows_within_the_hub(void **state) {
    const hub_world *w = *state;
    vo_error err;
    setenv("HF_TOKEN", "secret", 1);
    assert_int_equal(resolve(w, "relative", &err), VO_OK);
    assert_int_equal(asked(w, "/plain/x/resolve/y/model.bin", "auth=Bearer secret"), 1);
}

static void private_repository(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "private", &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "HF_TOKEN"));
    char *file = in_root(w, ".cache/huggingface/token");
    write_text(file, "secret\n");
    vo_free(file);
    assert_int_equal(resolve(w, "private", &err), VO_OK);
    expect_model(w);
}

static void cut_line_is_resumed(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "drop", &err), VO_OK);
    expect_model(w);
    assert_int_equal(asked(w, "/model.bin", "range=None"), 1);
    assert_int_equal(asked(w, "/model.bin", "range=bytes=100000-"), 1);
    assert_int_equal(asked(w, "/model.bin", "range=bytes=200000-"), 1);
}

static void cut_line_without_ranges(void **state) {
    const hub_world *w = *state;
    vo_error err;
    assert_int_equal(resolve(w, "norange", &err), VO_OK);
    expect_model(w);
}

static void wrong_content(void **state) {
    const hub_world *w = *state;
    vo_error err;
    const vo_hub_entry *entry = fake_entry("wrong", false);
    assert_int_equal(resolve(w, "wrong", &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, entry->files[0].sha256));
    assert_non_null(strstr(err.message, "its sha256 is "));
    expect_no_model(w);
    char *bad = in_root(w, "models/fake.partial/model.bin.incomplete");
    assert_false(vo_path_exists(bad));
    vo_free(bad);
}

static void longer_than_stated(void **state) {
    vo_error err;
    assert_int_equal(resolve(*state, "long", &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "300000"));
    expect_no_model(*state);
}

static void hash_stated_by_the_hub(void **state) {
    const hub_world *w = *state;
    vo_error err = {0};
    vo_hub_file files[] = {{"model.bin", 0, NULL, false}, {NULL, 0, NULL, false}};
    vo_hub_entry entry = *fake_entry("liar", false);
    vo_hub_context context = world_context(w);
    char *path = NULL;
    entry.files = files;
    assert_int_equal(vo_hub_resolve_entry(&entry, &context, &path, &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "abababababababab"));
    entry.model.repo = "moved/m";
    memset(&err, 0, sizeof err);
    assert_int_equal(vo_hub_resolve_entry(&entry, &context, &path, &err), VO_OK);
    assert_content(path, "model.bin", 300000);
    vo_free(path);
}

static void stalled_line(void **state) {
    vo_error err;
    double start = vo_clock_seconds();
    assert_int_equal(resolve(*state, "stall", &err), VO_ERR_NETWORK);
    assert_true(vo_clock_seconds() - start < 25);
    expect_no_model(*state);
}

static void busy_server(void **state) {
    vo_error err;
    assert_int_equal(resolve(*state, "busy", &err), VO_OK);
    expect_model(*state);
}

static void endless_and_foreign_redirects(void **state) {
    vo_error err;
    assert_int_equal(resolve(*state, "loop", &err), VO_ERR_NETWORK);
    assert_non_null(strstr(err.message, "without end"));
    assert_int_equal(resolve(*state, "file", &err), VO_ERR_NETWORK);
    expect_no_model(*state);
}

static void missing_file(void **state) {
    const hub_world *w = *state;
    vo_error err = {0};
    const vo_hub_file files[] = {{"absent.bin", 0, NULL, false}, {NULL, 0, NULL, false}};
    vo_hub_entry entry = *fake_entry("plain", false);
    vo_hub_context context = world_context(w);
    char *path = NULL;
    entry.files = files;
    assert_int_equal(vo_hub_resolve_entry(&entry, &context, &path, &err), VO_ERR_NOT_FOUND);
    /* A second name of the repository is tried as well. */
    assert_int_equal(asked(w, "/plain/m/", "absent.bin"), 1);
    entry.also_repo = "second/m";
    memset(&err, 0, sizeof err);
    assert_int_equal(vo_hub_resolve_entry(&entry, &context, &path, &err), VO_ERR_NOT_FOUND);
    assert_int_equal(asked(w, "/second/m/", "absent.bin"), 1);
    char *partial = in_root(w, "models/fake.partial");
    assert_false(vo_path_exists(partial)); /* nothing came, nothing stays */
    vo_free(partial);
}

typedef struct watcher {
    int64_t stop_at, last;
    int calls;
    bool shrank;
} watcher;

static bool watch(void *user, const char *file, int64_t done, int64_t total) {
    watcher *w = user;
    w->calls++;
    if (strcmp(file, "model.bin") != 0) return true;
    if (total) assert_int_equal(total, 300000);
    w->shrank = w->shrank || done < w->last;
    w->last = done;
    return !(w->stop_at > 0 && done >= w->stop_at);
}

static void stopped_and_resumed(void **state) {
    const hub_world *w = *state;
    vo_hub_context context = world_context(w);
    vo_error err = {0};
    char *path = NULL;
    watcher seen = {.stop_at = 1};
    context.params.progress = watch;
    context.params.progress_user = &seen;
    /* The first two answers are cut after 100000 bytes; we stop in the pause between. */
    assert_int_equal(vo_hub_resolve_entry(fake_entry("drop", false), &context, &path, &err),
                     VO_ERR_ABORTED);
    char *part = in_root(w, "models/fake.partial/model.bin.incomplete");
    int64_t kept = vo_file_size(part);
    assert_true(kept > 0 && kept < 300000);
    seen = (watcher){0};
    assert_int_equal(vo_hub_resolve_entry(fake_entry("drop", false), &context, &path, &err), VO_OK);
    expect_model(w);
    assert_false(seen.shrank);
    assert_int_equal(seen.last, 300000);
    assert_int_equal(asked(w, "/model.bin", "range=None"), 1);
    vo_free(path);
    vo_free(part);
}

static void damaged_beginning(void **state) {
    const hub_world *w = *state;
    vo_error err;
    char *part = in_root(w, "models/fake.partial/model.bin.incomplete");
    char *note = in_root(w, "models/fake.partial/.source");
    write_text(note, "plain/m " COMMIT "\n");
    write_text(part, "these bytes belong to nothing");
    assert_int_equal(resolve(w, "plain", &err), VO_OK);
    expect_model(w);
    assert_int_equal(asked(w, "/model.bin", "range=bytes=29-"), 1);
    assert_int_equal(asked(w, "/model.bin", "range=None"), 1);
    vo_free(part);
    vo_free(note);
}

static void beginning_of_another_commit(void **state) {
    const hub_world *w = *state;
    vo_error err;
    char *part = in_root(w, "models/fake.partial/model.bin.incomplete");
    char *note = in_root(w, "models/fake.partial/.source");
    write_text(note, "plain/m ffff\n");
    write_text(part, "these bytes belong to nothing");
    assert_int_equal(resolve(w, "plain", &err), VO_OK);
    assert_int_equal(asked(w, "/model.bin", "range=bytes"), 0);
    vo_free(part);
    vo_free(note);
}

static void half_a_model_is_replaced(void **state) {
    const hub_world *w = *state;
    vo_error err;
    char *model = in_root(w, "models/fake/model.bin");
    write_text(model, "too short");
    vo_free(model);
    assert_int_equal(resolve(w, "plain", &err), VO_OK);
    expect_model(w);
}

static void two_processes(void **state) {
    const hub_world *w = *state;
    pid_t children[3];
    for (int i = 0; i < 3; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] > 0) continue;
        vo_hub_context context = world_context(w);
        vo_error err = {0};
        char *path = NULL;
        _exit(vo_hub_resolve_entry(fake_entry("slow", false), &context, &path, &err));
    }
    for (int i = 0; i < 3; i++) {
        int result = -1;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    expect_model(w);
    assert_int_equal(asked(w, "/model.bin", ""), 1);
}

/* A child process that may write no more than 50 kB a file stands for a full disk. */
static void full_disk(void **state) {
    const hub_world *w = *state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit limit = {50000, 50000};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        vo_error err = {0};
        vo_status status = resolve(w, "plain", &err);
        _exit(status == VO_ERR_IO && strstr(err.message, "model.bin") ? 42 : 1);
    }
    int result = -1;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 42);
    expect_no_model(w);
}

static void unusable_cache(void **state) {
    const hub_world *w = *state;
    vo_error err;
    write_text(w->cache, "a file where the folder should be");
    assert_int_equal(resolve(w, "plain", &err), VO_ERR_IO);
    assert_non_null(strstr(err.message, w->cache));
}

static void offline(void **state) {
    const hub_world *w = *state;
    vo_error err;
    setenv("HF_HUB_OFFLINE", "true", 1);
    assert_int_equal(resolve(w, "plain", &err), VO_ERR_NOT_FOUND);
    assert_int_equal(asked(w, "", ""), 0);
    vo_hub_params params = {.cache_dir = w->cache, .offline = true};
    char *path = NULL;
    unsetenv("HF_HUB_OFFLINE");
    memset(&err, 0, sizeof err);
    assert_int_equal(vo_hub_resolve("list/ctranslate2", &params, &path, &err), VO_ERR_NOT_FOUND);
    assert_int_equal(asked(w, "", ""), 0);
}

static void nobody_there(void **state) {
    vo_error err;
    setenv("HF_ENDPOINT", "http://127.0.0.1:9", 1);
    double start = vo_clock_seconds();
    assert_int_equal(resolve(*state, "plain", &err), VO_ERR_NETWORK);
    assert_true(vo_clock_seconds() - start < 3);
    setenv("HF_ENDPOINT", "file:///etc", 1);
    assert_int_equal(resolve(*state, "plain", &err), VO_ERR_ARGUMENT);
}

/* ---- owner/repo ---- */

static void repository_by_name(void **state) {
    const hub_world *w = *state;
    vo_hub_params params = {.cache_dir = w->cache};
    vo_error err = {0};
    char *path = NULL, *wanted = in_root(w, "models/list--ctranslate2");
    assert_null(vo_hub_lookup("list/ctranslate2", &params));
    assert_int_equal(vo_hub_resolve("list/ctranslate2", &params, &path, &err), VO_OK);
    assert_string_equal(path, wanted);
    assert_content(path, "model.bin", 300000);
    assert_content(path, "tokenizer.json", 5000);
    char *log = read_text(w->log);
    assert_int_equal(count_lines_with(log, "resolve/" COMMIT "/", ""), 3);
    assert_int_equal(count_lines_with(log, "evil", ""), 0);
    assert_int_equal(count_lines_with(log, "onnx", ""), 0);
    vo_free(log);
    vo_free(path);
    path = vo_hub_lookup("list/ctranslate2", &params);
    assert_string_equal(path, wanted);
    vo_free(path);
    vo_free(wanted);
}

static void sharded_repository(void **state) {
    const hub_world *w = *state;
    vo_hub_params params = {.cache_dir = w->cache};
    vo_error err = {0};
    char *path = NULL;
    assert_int_equal(vo_hub_resolve("list/sharded", &params, &path, &err), VO_OK);
    assert_content(path, "model-00001-of-00002.safetensors", 4000);
    assert_content(path, "model-00002-of-00002.safetensors", 3000);
    vo_free(path);
    char *shard = in_root(w, "models/list--sharded/model-00002-of-00002.safetensors");
    assert_int_equal(vo_remove_file(shard, NULL), VO_OK);
    vo_free(shard);
    assert_null(vo_hub_lookup("list/sharded", &params)); /* no longer whole */
}

static void repositories_without_a_model(void **state) {
    const hub_world *w = *state;
    vo_hub_params params = {.cache_dir = w->cache};
    vo_error err = {0};
    char *path = NULL;
    assert_int_equal(vo_hub_resolve("list/none", &params, &path, &err), VO_ERR_UNSUPPORTED);
    memset(&err, 0, sizeof err);
    assert_int_equal(vo_hub_resolve("list/absent", &params, &path, &err), VO_ERR_NOT_FOUND);
    memset(&err, 0, sizeof err);
    assert_int_equal(vo_hub_resolve("nonesuch", &params, &path, &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "large-v3-turbo"));
    assert_null(path);
}

static void paths(void **state) {
    const hub_world *w = *state;
    vo_hub_params params = {.cache_dir = w->cache, .offline = true};
    vo_error err = {0};
    char *path = NULL;
    assert_int_equal(vo_hub_resolve(w->root, &params, &path, &err), VO_OK);
    assert_string_equal(path, w->root);
    vo_free(path);
    path = NULL;
    /* A folder that bears the name of a model is reached as ./name only. */
    char *here = in_root(w, "base/config.json"), *before = getcwd(NULL, 0);
    write_text(here, "{}");
    assert_int_equal(chdir(w->root), 0);
    assert_int_equal(vo_hub_resolve("base", &params, &path, &err), VO_ERR_NOT_FOUND);
    assert_int_equal(vo_hub_resolve("./base", &params, &path, &err), VO_OK);
    assert_string_equal(path, "./base");
    assert_int_equal(chdir(before), 0);
    free(before);
    vo_free(path);
    vo_free(here);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(plain),
                                       TEST(token_stays_with_the_hub),
                                       TEST(token_stays_with_the_host_name),
                                       TEST(token_follows_within_the_hub),
                                       TEST(private_repository),
                                       TEST(cut_line_is_resumed),
                                       TEST(cut_line_without_ranges),
                                       TEST(wrong_content),
                                       TEST(longer_than_stated),
                                       TEST(hash_stated_by_the_hub),
                                       TEST(stalled_line),
                                       TEST(busy_server),
                                       TEST(endless_and_foreign_redirects),
                                       TEST(missing_file),
                                       TEST(stopped_and_resumed),
                                       TEST(damaged_beginning),
                                       TEST(beginning_of_another_commit),
                                       TEST(half_a_model_is_replaced),
                                       TEST(two_processes),
                                       TEST(full_disk),
                                       TEST(unusable_cache),
                                       TEST(offline),
                                       TEST(nobody_there),
                                       TEST(repository_by_name),
                                       TEST(sharded_repository),
                                       TEST(repositories_without_a_model),
                                       TEST(paths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
