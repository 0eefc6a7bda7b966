/* SPDX-License-Identifier: MIT
 *
 * The table of models is consistent, and names that could leave a folder are refused.
 */
#include "base/file.h"
#include "hub/hub_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void names_and_aliases(void **state) {
    (void)state;
    static const char *const expected[] = {
        "tiny",     "tiny.en",        "base",           "base.en",  "small",
        "small.en", "medium",         "medium.en",      "large-v1", "large-v2",
        "large-v3", "large-v3-turbo", "distil-large-v3"};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const vo_hub_model *model = vo_hub_find(expected[i]);
        assert_non_null(model);
        assert_string_equal(model->name, expected[i]);
    }
    assert_string_equal(vo_hub_find("large")->name, "large-v3");
    assert_string_equal(vo_hub_find("turbo")->name, "large-v3-turbo");
    assert_string_equal(vo_hub_find("Systran/faster-whisper-base")->name, "base");
    assert_string_equal(vo_hub_find("dropbox-dash/faster-whisper-large-v3-turbo")->name,
                        "large-v3-turbo");
    assert_null(vo_hub_find("larg"));
    assert_null(vo_hub_find("large-turbo2"));
    assert_null(vo_hub_find(""));
    assert_null(vo_hub_find(NULL));
    assert_null(vo_hub_at(-1));
    assert_null(vo_hub_at(vo_hub_count()));
}

static void check_file(const vo_hub_entry *entry, const vo_hub_file *file) {
    assert_true(vo_hub_file_name_is_safe(file->name));
    assert_true(file->bytes > 0);
    assert_ptr_equal(vo_hub_find_file(entry, file->name), file);
    if (!file->sha256) return;
    assert_int_equal(strlen(file->sha256), 64);
    assert_int_equal(strspn(file->sha256, "0123456789abcdef"), 64);
}

static void entries_are_consistent(void **state) {
    (void)state;
    for (int i = 0; i < vo_hub_count(); i++) {
        const vo_hub_model *model = vo_hub_at(i);
        const vo_hub_entry *entry = vo_hub_find_entry(model->name);
        int64_t bytes = 0;
        assert_ptr_equal(&entry->model, model); /* so no two have one name */
        assert_true(vo_hub_name_is_safe(model->name) && !strchr(model->name, '/'));
        assert_true(vo_hub_name_is_safe(model->repo) && strchr(model->repo, '/'));
        assert_true(vo_hub_revision_is_safe(entry->revision));
        assert_int_equal(strlen(entry->revision), 40);
        for (const vo_hub_file *f = entry->files; f->name; f++) {
            check_file(entry, f);
            bytes += f->bytes;
        }
        assert_int_equal(bytes, model->bytes);
        const vo_hub_file *weights = vo_hub_find_file(entry, "model.bin");
        assert_true(weights && weights->sha256);
        for (const vo_hub_part *p = entry->parts; p && p->file; p++) {
            const vo_hub_file *f = vo_hub_find_file(entry, p->file);
            assert_true(f && f->sha256);
        }
    }
    assert_non_null(vo_hub_find_entry("base")->parts);
    assert_non_null(vo_hub_find_entry("tiny.en")->parts);
}

/* docs/models/index.md shows each model with its repository and size. */
static void the_page_agrees(void **state) {
    (void)state;
    char *page = NULL;
    size_t size = 0;
    assert_int_equal(vo_file_read("docs/models/index.md", 1 << 20, &page, &size, NULL), VO_OK);
    const char *table = strstr(page, "## The table");
    assert_non_null(table);
    for (int i = 0; i < vo_hub_count(); i++) {
        const vo_hub_model *model = vo_hub_at(i);
        char *start = vo_format("\n| `%s` | ", model->name);
        char *megabytes = vo_format("| %.1f |", (double)model->bytes / 1e6);
        const char *line = strstr(table, start);
        assert_non_null(line);
        char *copy = vo_strndup(line + 1, strcspn(line + 1, "\n"));
        assert_non_null(strstr(copy, model->repo));
        assert_non_null(strstr(copy, megabytes));
        assert_non_null(strstr(copy, model->description));
        vo_free(start);
        vo_free(megabytes);
        vo_free(copy);
    }
    vo_free(page);
}

static void hostile_names(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",       ".",      "..",        "../x",     "x/..",      "/x",         "x/",
        "a/b/c",  "a//b",   ".x",        "a/.git",   "-x",        "a/-b",       "a--b",
        "a/b--c", "a/b..c", "a b",       "a\\b",     "a\nb",      "a%2f..",     "a?b",
        "a#b",    "a:b",    "b\xc3\xa9", "a/b.lock", "x.partial", "a/b.partial"};
    static const char *const good[] = {"base", "tiny.en", "a/b", "Systran/faster-whisper-base.en",
                                       "a_b/C.d-e_1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(vo_hub_name_is_safe(bad[i]));
        vo_error err = {0};
        char *path = NULL;
        if (strspn(bad[i], "./") == strlen(bad[i]) && bad[i][0]) continue; /* folders that exist */
        assert_int_not_equal(vo_hub_resolve(bad[i], NULL, &path, &err), VO_OK);
        assert_null(path);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(vo_hub_name_is_safe(good[i]));
    assert_false(vo_hub_name_is_safe(NULL));
    assert_false(vo_hub_file_name_is_safe("a/b"));
    assert_false(vo_hub_file_name_is_safe("model.bin.incomplete"));
    assert_false(vo_hub_file_name_is_safe(".source"));
    char longest[200];
    memset(longest, 'a', sizeof longest);
    longest[199] = '\0';
    assert_false(vo_hub_name_is_safe(longest));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_aliases), cmocka_unit_test(entries_are_consistent),
        cmocka_unit_test(the_page_agrees), cmocka_unit_test(hostile_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
