/* SPDX-License-Identifier: MIT
 *
 * Models that other tools have put into the Hugging Face cache are found, half ones are not,
 * and the cache stays as it was.
 */
#include "base/file.h"
#include "support_hub.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define OTHER "ffffffffffffffffffffffffffffffffffffffff"

static int setup(void **state) {
    *state = world_create(false);
    return 0;
}

static int teardown(void **state) {
    world_destroy(*state);
    return 0;
}

/* A file as the tools lay it down: the bytes under blobs, a link in the snapshot. */
static void put(const hub_world *w, const char *hub, const char *commit, const char *name,
                size_t size) {
    unsigned char *data = fake_content(name, size);
    char *blob = vo_format("%s/%s/models--plain--m/blobs/%s-blob", w->root, hub, name);
    char *link = vo_format("%s/%s/models--plain--m/snapshots/%s/%s", w->root, hub, commit, name);
    char *target = vo_format("../../blobs/%s-blob", name);
    write_text(blob, "");
    assert_int_equal(vo_file_write_atomic(blob, data, size, NULL), VO_OK);
    char *dir = vo_strndup(link, (size_t)(vo_path_base(link) - link - 1));
    assert_int_equal(vo_make_dirs(dir, NULL), VO_OK);
    assert_int_equal(symlink(target, link), 0);
    vo_free(data);
    vo_free(blob);
    vo_free(link);
    vo_free(target);
    vo_free(dir);
}

static void expect_snapshot(const hub_world *w, const char *hub, const char *commit) {
    vo_hub_context context = world_context(w);
    context.params.offline = true;
    vo_error err = {0};
    char *path = NULL;
    char *wanted = vo_format("%s/%s/models--plain--m/snapshots/%s", w->root, hub, commit);
    assert_int_equal(vo_hub_resolve_entry(fake_entry("plain", false), &context, &path, &err),
                     VO_OK);
    assert_string_equal(path, wanted);
    vo_free(path);
    path = NULL;
    assert_int_equal(vo_hub_resolve("plain/m", &context.params, &path, &err), VO_OK);
    assert_string_equal(path, wanted);
    vo_free(path);
    vo_free(wanted);
}

static void expect_nothing(const hub_world *w) {
    vo_hub_context context = world_context(w);
    context.params.offline = true;
    vo_error err = {0};
    char *path = NULL;
    assert_int_equal(vo_hub_resolve_entry(fake_entry("plain", false), &context, &path, &err),
                     VO_ERR_NOT_FOUND);
    assert_null(path);
    assert_non_null(strstr(err.message, "downloads are switched off"));
}

static void put_ref(const hub_world *w, const char *hub, const char *commit) {
    char *ref = vo_format("%s/%s/models--plain--m/refs/main", w->root, hub);
    write_text(ref, commit);
    vo_free(ref);
}

static void pinned_snapshot(void **state) {
    const char *hub = ".cache/huggingface/hub";
    expect_nothing(*state);
    put(*state, hub, COMMIT, "model.bin", 300000);
    expect_nothing(*state);
    put(*state, hub, COMMIT, "config.json", 100);
    put_ref(*state, hub, COMMIT "\n");
    expect_snapshot(*state, hub, COMMIT);
}

static void main_branch(void **state) {
    const char *hub = ".cache/huggingface/hub";
    put(*state, hub, OTHER, "model.bin", 300000);
    put(*state, hub, OTHER, "config.json", 100);
    expect_nothing(*state); /* no ref names it */
    put_ref(*state, hub, OTHER);
    expect_snapshot(*state, hub, OTHER);
}

static void another_size_is_another_model(void **state) {
    const char *hub = ".cache/huggingface/hub";
    put(*state, hub, COMMIT, "model.bin", 299999);
    put(*state, hub, COMMIT, "config.json", 100);
    expect_nothing(*state);
}

static void dangling_link(void **state) {
    const hub_world *w = *state;
    const char *hub = ".cache/huggingface/hub";
    put(w, hub, COMMIT, "model.bin", 300000);
    put(w, hub, COMMIT, "config.json", 100);
    char *blob = in_root(w, ".cache/huggingface/hub/models--plain--m/blobs/model.bin-blob");
    assert_int_equal(vo_remove_file(blob, NULL), VO_OK);
    vo_free(blob);
    expect_nothing(w);
}

static void hostile_ref(void **state) {
    const hub_world *w = *state;
    const char *hub = ".cache/huggingface/hub";
    put(w, hub, "../../elsewhere", "model.bin", 300000);
    put(w, hub, "../../elsewhere", "config.json", 100);
    put_ref(w, hub, "../../elsewhere");
    expect_nothing(w);
}

static void places(void **state) {
    const hub_world *w = *state;
    put(w, "home/hub", COMMIT, "model.bin", 300000);
    put(w, "home/hub", COMMIT, "config.json", 100);
    put_ref(w, "home/hub", COMMIT);
    char *home = in_root(w, "home"), *direct = in_root(w, "home/hub");
    expect_nothing(w);
    setenv("HF_HOME", "~/home", 1);
    expect_snapshot(w, "home/hub", COMMIT);
    setenv("HF_HOME", "/nonexistent", 1);
    setenv("HF_HUB_CACHE", direct, 1);
    expect_snapshot(w, "home/hub", COMMIT);
    unsetenv("HF_HUB_CACHE");
    unsetenv("HF_HOME");
    char *xdg = in_root(w, "home/xdg"), *from = in_root(w, "home/hub");
    char *to = in_root(w, "home/xdg/huggingface/hub"), *parent = in_root(w, "home/xdg/huggingface");
    assert_int_equal(vo_make_dirs(parent, NULL), VO_OK);
    assert_int_equal(vo_rename(from, to, NULL), VO_OK);
    setenv("XDG_CACHE_HOME", xdg, 1);
    expect_snapshot(w, "home/xdg/huggingface/hub", COMMIT);
    vo_free(home);
    vo_free(direct);
    vo_free(xdg);
    vo_free(from);
    vo_free(to);
    vo_free(parent);
}

static void tokens(void **state) {
    const hub_world *w = *state;
    assert_null(vo_hf_token());
    char *file = in_root(w, ".cache/huggingface/token"), *other = in_root(w, "other");
    write_text(file, "  from-file\n");
    write_text(other, "from-other");
    char *token = vo_hf_token();
    assert_string_equal(token, "from-file");
    vo_free(token);
    setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
    assert_null(vo_hf_token());
    unsetenv("HF_HUB_DISABLE_IMPLICIT_TOKEN");
    setenv("HF_TOKEN_PATH", other, 1);
    token = vo_hf_token();
    assert_string_equal(token, "from-other");
    vo_free(token);
    setenv("HF_TOKEN", "from-environment", 1);
    token = vo_hf_token();
    assert_string_equal(token, "from-environment");
    vo_free(token);
    setenv("HF_TOKEN", "two\r\nX-Evil: lines", 1);
    assert_null(vo_hf_token());
    vo_free(file);
    vo_free(other);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(pinned_snapshot), TEST(main_branch), TEST(another_size_is_another_model),
        TEST(dangling_link),   TEST(hostile_ref), TEST(places),
        TEST(tokens)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
