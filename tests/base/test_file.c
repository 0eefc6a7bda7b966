/* SPDX-License-Identifier: MIT
 *
 * Files and folders on a real file system, with the ways they go wrong.
 */
#include "base/file.h"
#include "base/harness.h"
#include "base/memory.h"
#include "base/support_scratch.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void map_shows_the_file(void **state) {
    enum { BYTES = 100000 };
    static unsigned char want[BYTES];
    uint64_t seed = 3;
    for (int i = 0; i < BYTES; i++) want[i] = (unsigned char)next_random(&seed);
    const char *path = scratch_path(*state, "data");
    vo_error err = {0};
    assert_int_equal(vo_file_write_atomic(path, want, BYTES, &err), VO_OK);
    vo_map map;
    assert_int_equal(vo_map_open(path, &map, &err), VO_OK);
    assert_int_equal(map.size, BYTES);
    assert_memory_equal(map.data, want, BYTES);
    vo_map_forget(&map, map.data + 5, BYTES - 5);
    vo_map_forget(&map, map.data + 5, 10);
    vo_map_forget(&map, map.data, BYTES + 1); /* too many: nothing happens */
    assert_memory_equal(map.data, want, BYTES);
    assert_int_equal(unlink(path), 0);
    assert_memory_equal(map.data, want, BYTES); /* lives on without its name */
    vo_map_close(&map);
    assert_null(map.data);
    vo_map_close(&map);
}

static void map_refuses(void **state) {
    vo_map map;
    vo_error err = {0};
    assert_int_equal(vo_map_open(scratch_path(*state, "none"), &map, &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "none"));
    assert_non_null(strstr(err.message, "No such file"));
    vo_map_close(&map);
    err = (vo_error){0};
    assert_int_equal(vo_map_open(*state, &map, &err), VO_ERR_IO); /* a folder */
    assert_int_equal(mkfifo(scratch_path(*state, "pipe"), 0600), 0);
    assert_int_equal(vo_map_open(scratch_path(*state, "pipe"), &map, NULL), VO_ERR_IO);
    scratch_write(*state, "empty", "");
    assert_int_equal(vo_map_open(scratch_path(*state, "empty"), &map, NULL), VO_OK);
    assert_null(map.data);
    assert_int_equal(map.size, 0);
    vo_map_close(&map);
}

static void read_whole_files(void **state) {
    char *data;
    size_t size;
    vo_error err = {0};
    scratch_write(*state, "text", "hello\n");
    scratch_write(*state, "empty", "");
    const char *path = scratch_path(*state, "text");
    assert_int_equal(vo_file_read(path, 6, &data, &size, &err), VO_OK);
    assert_int_equal(size, 6);
    assert_string_equal(data, "hello\n");
    vo_free(data);
    assert_int_equal(vo_file_read(path, 5, &data, &size, &err), VO_ERR_LIMIT);
    assert_null(data);
    assert_non_null(strstr(err.message, "text"));
    assert_int_equal(vo_file_read(scratch_path(*state, "empty"), 0, &data, &size, NULL), VO_OK);
    assert_int_equal(size, 0);
    assert_string_equal(data, "");
    vo_free(data);
    assert_int_equal(vo_file_read(scratch_path(*state, "x"), 9, &data, &size, NULL),
                     VO_ERR_NOT_FOUND);
    assert_int_equal(vo_file_read(*state, 9, &data, &size, NULL), VO_ERR_IO);
    /* a file without a size beforehand, and one without an end */
    assert_int_equal(vo_file_read("/proc/self/status", 1 << 20, &data, &size, NULL), VO_OK);
    assert_true(size > 100);
    assert_int_equal(strlen(data), size);
    vo_free(data);
    assert_int_equal(vo_file_read("/dev/zero", 1 << 20, &data, &size, NULL), VO_ERR_LIMIT);
}

static vo_status count_entries(void *user, const char *name, bool is_dir) {
    (*(int *)user)++;
    return VO_OK;
}

static void writing_is_all_or_nothing(void **state) {
    char *data;
    size_t size;
    int entries = 0;
    vo_error err = {0};
    const char *path = scratch_path(*state, "target");
    assert_int_equal(vo_file_write_atomic(path, "one", 3, &err), VO_OK);
    assert_int_equal(vo_file_write_atomic(path, "twotwo", 6, &err), VO_OK);
    assert_int_equal(vo_file_read(path, 100, &data, &size, &err), VO_OK);
    assert_string_equal(data, "twotwo");
    vo_free(data);
    assert_int_equal(vo_make_dirs(scratch_path(*state, "folder/inner"), &err), VO_OK);
    assert_int_equal(vo_file_write_atomic(scratch_path(*state, "folder"), "x", 1, &err), VO_ERR_IO);
    assert_non_null(strstr(err.message, "folder"));
    assert_int_equal(vo_file_write_atomic(scratch_path(*state, "no/such/place"), "x", 1, NULL),
                     VO_ERR_NOT_FOUND);
    assert_int_equal(vo_dir_list(*state, count_entries, &entries, NULL), VO_OK);
    assert_int_equal(entries, 2); /* no temporary file stayed behind */
}

static void questions_about_paths(void **state) {
    scratch_write(*state, "file", "12345");
    assert_true(vo_path_exists(*state));
    assert_true(vo_path_is_dir(*state));
    assert_true(vo_path_exists(scratch_path(*state, "file")));
    assert_false(vo_path_is_dir(scratch_path(*state, "file")));
    assert_false(vo_path_exists(scratch_path(*state, "none")));
    assert_int_equal(vo_file_size(scratch_path(*state, "file")), 5);
    assert_int_equal(vo_file_size(scratch_path(*state, "none")), -1);
    assert_int_equal(vo_file_size(*state), -1);
}

static void folders_are_made_deeply(void **state) {
    vo_error err = {0};
    assert_int_equal(vo_make_dirs(scratch_path(*state, "a/b//c/"), &err), VO_OK);
    assert_true(vo_path_is_dir(scratch_path(*state, "a/b/c")));
    assert_int_equal(vo_make_dirs(scratch_path(*state, "a/b/c"), &err), VO_OK);
    assert_int_equal(vo_make_dirs("/", &err), VO_OK);
    scratch_write(*state, "file", "");
    assert_int_not_equal(vo_make_dirs(scratch_path(*state, "file/d"), &err), VO_OK);
    assert_non_null(strstr(err.message, "file/d"));
    assert_int_not_equal(vo_make_dirs(scratch_path(*state, "file"), NULL), VO_OK);
}

static void rename_and_remove(void **state) {
    vo_error err = {0};
    scratch_write(*state, "from", "x");
    const char *from = scratch_path(*state, "from"), *to = scratch_path(*state, "to");
    assert_int_equal(vo_rename(from, to, &err), VO_OK);
    assert_false(vo_path_exists(from));
    assert_int_equal(vo_rename(from, to, &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "from to "));
    assert_int_equal(vo_remove_file(to, NULL), VO_OK);
    assert_int_equal(vo_remove_file(to, NULL), VO_ERR_NOT_FOUND);
    assert_int_equal(vo_remove_file(*state, NULL), VO_ERR_IO);
}

static void trees_go_but_not_what_links_point_to(void **state) {
    vo_error err = {0};
    scratch_write(*state, "keep/precious", "x");
    scratch_write(*state, "tree/a/b/c/file", "x");
    scratch_write(*state, "tree/file", "x");
    assert_int_equal(symlink(scratch_path(*state, "keep"), scratch_path(*state, "tree/a/link")), 0);
    assert_int_equal(symlink("nowhere", scratch_path(*state, "tree/dangling")), 0);
    assert_int_equal(vo_remove_tree(scratch_path(*state, "tree"), &err), VO_OK);
    assert_false(vo_path_exists(scratch_path(*state, "tree")));
    assert_true(vo_path_exists(scratch_path(*state, "keep/precious")));
    assert_int_equal(symlink(scratch_path(*state, "keep"), scratch_path(*state, "top")), 0);
    assert_int_equal(vo_remove_tree(scratch_path(*state, "top"), &err), VO_OK);
    assert_true(vo_path_exists(scratch_path(*state, "keep/precious")));
    assert_int_equal(vo_remove_tree(scratch_path(*state, "never"), &err), VO_OK);
    assert_int_equal(vo_remove_tree(scratch_path(*state, "keep/precious/x"), &err),
                     VO_ERR_NOT_FOUND);
}

typedef struct listing {
    char text[256];
    int stop_after;
} listing;

static vo_status note_entry(void *user, const char *name, bool is_dir) {
    listing *l = user;
    strcat(l->text, name);
    strcat(l->text, is_dir ? "/ " : " ");
    return --l->stop_after == 0 ? VO_ERR_ABORTED : VO_OK;
}

static void listing_is_sorted_by_bytes(void **state) {
    listing all = {{0}, 0}, some = {{0}, 2};
    vo_error err = {0};
    const char *names[] = {"b", "a", "Z", "\xc3\xa9", ".hidden", "a0"};
    for (int i = 0; i < 6; i++) scratch_write(*state, names[i], "");
    assert_int_equal(vo_make_dirs(scratch_path(*state, "m"), &err), VO_OK);
    assert_int_equal(vo_dir_list(*state, note_entry, &all, &err), VO_OK);
    assert_string_equal(all.text, ".hidden Z a a0 b m/ \xc3\xa9 ");
    assert_int_equal(vo_dir_list(*state, note_entry, &some, &err), VO_ERR_ABORTED);
    assert_string_equal(some.text, ".hidden Z ");
    assert_int_equal(vo_dir_list(scratch_path(*state, "none"), note_entry, &all, &err),
                     VO_ERR_NOT_FOUND);
}

static void check_join(const char *dir, const char *name, const char *want) {
    char *path = vo_path_join(dir, name);
    assert_string_equal(path, want);
    vo_free(path);
}

static void paths(void **state) {
    check_join("a", "b", "a/b");
    check_join("a/", "b", "a/b");
    check_join("", "b", "b");
    check_join("a", "/b", "/b");
    check_join("/", "b", "/b");
    assert_string_equal(vo_path_base("/a/b.c"), "b.c");
    assert_string_equal(vo_path_base("b.c"), "b.c");
    assert_string_equal(vo_path_base("a/"), "");
}

static void check_cache(const char *own, const char *xdg, const char *home, const char *want) {
    setenv("VOCIS_CACHE", own, 1);
    setenv("XDG_CACHE_HOME", xdg, 1);
    setenv("HOME", home, 1);
    char *dir = vo_cache_dir();
    assert_string_equal(dir, want);
    vo_free(dir);
}

static void cache_folder_by_environment(void **state) {
    check_cache("/own", "/xdg", "/home/me", "/own");
    check_cache("", "/xdg", "/home/me", "/xdg/vocis");
    check_cache("", "relative", "/home/me", "/home/me/.cache/vocis");
    check_cache("", "", "/home/me", "/home/me/.cache/vocis");
    unsetenv("HOME");
    char *dir = vo_cache_dir();
    assert_non_null(strstr(dir, ".cache/vocis"));
    vo_free(dir);
}

typedef struct rival {
    const char *path;
    atomic_int *inside;
    int failures;
} rival;

static void *take_lock_often(void *arg) {
    rival *r = arg;
    for (int i = 0; i < 100; i++) {
        vo_lock *lock;
        if (vo_lock_acquire(r->path, &lock, NULL) != VO_OK) {
            r->failures++;
            continue;
        }
        if (atomic_fetch_add(r->inside, 1) != 0) r->failures++;
        nanosleep(&(struct timespec){0, 1000}, NULL);
        atomic_fetch_sub(r->inside, 1);
        vo_lock_release(lock);
    }
    return NULL;
}

static void lock_excludes_threads(void **state) {
    atomic_int inside = 0;
    rival rivals[3];
    pthread_t threads[3];
    char path[1024];
    strcpy(path, scratch_path(*state, "lock"));
    for (int i = 0; i < 3; i++) {
        rivals[i] = (rival){path, &inside, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, take_lock_often, &rivals[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(rivals[i].failures, 0);
    }
}

static void lock_excludes_processes(void **state) {
    vo_lock *lock;
    vo_error err = {0};
    const char *path = scratch_path(*state, "lock");
    assert_int_equal(vo_lock_acquire(path, &lock, &err), VO_OK);
    pid_t child = fork();
    if (child == 0) { /* gets no lock while we hold it; the alarm ends the wait */
        vo_lock *other;
        alarm(1);
        _exit(vo_lock_acquire(path, &other, NULL) == VO_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    vo_lock_release(lock);
    vo_lock_release(NULL);
    assert_int_equal(vo_lock_acquire(path, &lock, &err), VO_OK);
    vo_lock_release(lock);
    assert_int_equal(vo_lock_acquire(scratch_path(*state, "no/lock"), &lock, &err),
                     VO_ERR_NOT_FOUND);
    assert_null(lock);
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(map_shows_the_file),
        SCRATCH_TEST(map_refuses),
        SCRATCH_TEST(read_whole_files),
        SCRATCH_TEST(writing_is_all_or_nothing),
        SCRATCH_TEST(questions_about_paths),
        SCRATCH_TEST(folders_are_made_deeply),
        SCRATCH_TEST(rename_and_remove),
        SCRATCH_TEST(trees_go_but_not_what_links_point_to),
        SCRATCH_TEST(listing_is_sorted_by_bytes),
        cmocka_unit_test(paths),
        cmocka_unit_test(cache_folder_by_environment),
        SCRATCH_TEST(lock_excludes_threads),
        SCRATCH_TEST(lock_excludes_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
