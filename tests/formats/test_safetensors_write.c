/* SPDX-License-Identifier: MIT
 *
 * What the writer writes is what the reader reads, whatever the order of the pieces; and a file
 * that is not committed, or cannot be written, never appears.
 */
#define _DEFAULT_SOURCE /* geteuid */
#include "formats/support_weights.h"

#include "formats/safetensors_write.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static int setup(void **state) {
    strcpy(folder, "/tmp/vocis-test-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    return 0;
}

static int teardown(void **state) {
    return vo_remove_tree(folder, NULL) == VO_OK ? 0 : -1;
}

static vo_status count_entry(void *user, const char *name, bool is_dir) {
    ++*(int *)user;
    return VO_OK;
}

static int files(void) {
    int n = 0;
    assert_int_equal(vo_dir_list(folder, count_entry, &n, NULL), VO_OK);
    return n;
}

static vo_safetensors_writer *begin(bool replace) {
    vo_safetensors_writer *w;
    vo_error err = {0};
    if (vo_safetensors_create(path, replace, &w, &err) != VO_OK) fail_msg("%s", err.message);
    return w;
}

static size_t add(vo_safetensors_writer *w, const char *name, vo_dtype dtype, int64_t a, int64_t b,
                  int rank) {
    size_t index;
    vo_error err = {0};
    if (vo_safetensors_add(w, name, dtype, (int64_t[]){a, b}, rank, &index, &err) != VO_OK)
        fail_msg("%s", err.message);
    return index;
}

static void there_and_back(void **state) {
    static const uint8_t bytes[3] = {1, 2, 3};
    static const float floats[6] = {1, -2, 0.5f, 4, 1e-30f, 6};
    static const uint16_t halves[4] = {0x3c00, 0x4000, 0, 0x8000};
    static const int64_t wide[2] = {-5, 1ll << 40};
    vo_error err = {0};
    vo_safetensors_writer *w = begin(false);
    assert_int_equal(vo_safetensors_metadata(w, "format", "mlx \"quoted\"", &err), VO_OK);
    size_t b = add(w, "bytes", VO_U8, 3, 0, 1), f = add(w, "a.\"b\"\\", VO_F32, 2, 3, 2),
           h = add(w, "halves", VO_F16, 4, 0, 1), i = add(w, "wide", VO_I64, 2, 0, 1),
           s = add(w, "scalar", VO_BF16, 0, 0, 0), none = add(w, "none", VO_F32, 0, 5, 2);
    assert_int_equal(vo_safetensors_begin(w, &err), VO_OK);
    assert_int_equal(vo_safetensors_bytes(w), 3 + 24 + 8 + 16 + 2);
    /* pieces of several tensors in turn */
    assert_int_equal(vo_safetensors_write(w, s, halves, 2, &err), VO_OK);
    assert_int_equal(vo_safetensors_write(w, f, floats, 8, &err), VO_OK);
    assert_int_equal(vo_safetensors_write(w, b, bytes, 3, &err), VO_OK);
    assert_int_equal(vo_safetensors_write(w, i, wide, 16, &err), VO_OK);
    assert_int_equal(vo_safetensors_write(w, f, floats + 2, 16, &err), VO_OK);
    assert_int_equal(vo_safetensors_write(w, h, halves, 8, &err), VO_OK);
    assert_int_equal(vo_safetensors_write(w, none, halves, 0, &err), VO_OK);
    assert_false(vo_path_exists(path));
    assert_int_equal(vo_safetensors_commit(w, &err), VO_OK);
    vo_safetensors_destroy(w);
    assert_int_equal(files(), 1);

    vo_weights *read = open_or_fail(path);
    assert_string_equal(vo_weights_string(read, "format"), "mlx \"quoted\"");
    assert_int_equal(vo_weights_count(read), 6);
    const vo_view *v = vo_weights_find(read, "a.\"b\"\\");
    assert_non_null(v);
    assert_true(v->dtype == VO_F32 && v->rank == 2 && v->shape[0] == 2 && v->shape[1] == 3);
    assert_memory_equal(v->data, floats, sizeof floats);
    assert_memory_equal(vo_weights_find(read, "bytes")->data, bytes, sizeof bytes);
    assert_memory_equal(vo_weights_find(read, "halves")->data, halves, sizeof halves);
    assert_memory_equal(vo_weights_find(read, "wide")->data, wide, sizeof wide);
    assert_memory_equal(vo_weights_find(read, "scalar")->data, halves, 2);
    assert_int_equal(vo_weights_find(read, "none")->bytes, 0);
    for (size_t k = 0; k < vo_weights_count(read); k++) { /* maps begin at a page */
        v = vo_weights_at(read, k);
        int width = vo_dtype_get_info(v->dtype)->block_bytes;
        assert_int_equal((uintptr_t)v->data % (uintptr_t)width, 0);
    }
    vo_weights_close(read);
}

static void existing_files_stay(void **state) {
    vo_safetensors_writer *w = begin(false);
    size_t t = add(w, "t", VO_U8, 1, 0, 1);
    assert_int_equal(vo_safetensors_begin(w, NULL), VO_OK);
    assert_int_equal(vo_safetensors_write(w, t, "x", 1, NULL), VO_OK);
    /* one that appears meanwhile stays, too */
    assert_int_equal(vo_file_write_atomic(path, "mine", 4, NULL), VO_OK);
    vo_error err = {0};
    assert_int_equal(vo_safetensors_commit(w, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "exists already"));
    vo_safetensors_destroy(w);
    assert_int_equal(vo_safetensors_create(path, false, &w, NULL), VO_ERR_ARGUMENT);
    assert_null(w);
    assert_int_equal(vo_file_size(path), 4);
    w = begin(true);
    assert_int_equal(vo_safetensors_begin(w, NULL), VO_OK);
    assert_int_equal(vo_file_size(path), 4);
    assert_int_equal(vo_safetensors_commit(w, NULL), VO_OK);
    vo_safetensors_destroy(w);
    vo_weights *read = open_or_fail(path);
    assert_int_equal(vo_weights_count(read), 0);
    vo_weights_close(read);
    assert_int_equal(files(), 1);
}

static void misuse_is_refused(void **state) {
    vo_safetensors_writer *w = begin(false);
    size_t index, t = add(w, "t", VO_F32, 2, 0, 1);
    const int64_t shape[] = {2, 33};
    assert_int_equal(vo_safetensors_add(w, "t", VO_F32, shape, 1, &index, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_safetensors_add(w, "__metadata__", VO_F32, shape, 1, &index, NULL),
                     VO_ERR_ARGUMENT);
    assert_int_equal(vo_safetensors_add(w, "q", VO_Q4_0, shape, 1, &index, NULL), VO_ERR_ARGUMENT);
    assert_int_equal(vo_safetensors_add(w, "q", VO_AFFINE, shape, 1, &index, NULL),
                     VO_ERR_ARGUMENT);
    assert_int_equal(vo_safetensors_add(w, "q", VO_F32, (int64_t[]){INT64_MAX, 8}, 2, &index, NULL),
                     VO_ERR_ARGUMENT);
    assert_int_equal(vo_safetensors_add(w, "q", VO_F32, (int64_t[]){-1}, 1, &index, NULL),
                     VO_ERR_ARGUMENT);
    assert_int_equal(vo_safetensors_write(w, t, shape, 4, NULL), VO_ERR_INTERNAL);
    assert_int_equal(vo_safetensors_commit(w, NULL), VO_ERR_INTERNAL);
    assert_int_equal(vo_safetensors_begin(w, NULL), VO_OK);
    assert_int_equal(vo_safetensors_add(w, "u", VO_F32, shape, 1, &index, NULL), VO_ERR_INTERNAL);
    assert_int_equal(vo_safetensors_write(w, t + 1, shape, 4, NULL), VO_ERR_INTERNAL);
    assert_int_equal(vo_safetensors_write(w, t, shape, 4, NULL), VO_OK);
    assert_int_equal(vo_safetensors_write(w, t, shape, 8, NULL), VO_ERR_ARGUMENT);
    vo_error err = {0};
    assert_int_equal(vo_safetensors_commit(w, &err), VO_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "t is missing"));
    vo_safetensors_destroy(w);
    vo_safetensors_destroy(NULL);
    assert_int_equal(files(), 0);
}

/* The limit on the size of files stands for a full disk. */
static void full_disk(void **state) {
    static char zeros[1 << 16];
    struct rlimit before, small = {.rlim_cur = 100 * 1024};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    vo_safetensors_writer *w = begin(false);
    size_t t = add(w, "t", VO_U8, sizeof zeros, 4, 2);
    assert_int_equal(vo_safetensors_begin(w, NULL), VO_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    vo_error err = {0};
    vo_status first = vo_safetensors_write(w, t, zeros, sizeof zeros, &err);
    vo_status second = vo_safetensors_write(w, t, zeros, sizeof zeros, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, old);
    assert_int_equal(first, VO_OK);
    assert_int_equal(second, VO_ERR_IO);
    assert_non_null(strstr(err.message, "cannot write"));
    assert_non_null(strstr(err.message, "File too large"));
    vo_safetensors_destroy(w);
    assert_int_equal(files(), 0);
}

static void places_that_cannot_be_written(void **state) {
    vo_safetensors_writer *w;
    vo_error err = {0};
    char inside[128];
    snprintf(inside, sizeof inside, "%s/missing/x", folder);
    assert_int_equal(vo_safetensors_create(inside, true, &w, &err), VO_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "missing/x"));
    assert_null(w);
    if (geteuid() == 0) skip(); /* who may write everywhere */
    assert_int_equal(chmod(folder, 0500), 0);
    err = (vo_error){0};
    assert_int_equal(vo_safetensors_create(path, true, &w, &err), VO_ERR_IO);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_non_null(strstr(err.message, "Permission denied"));
}

/* Every allocation fails once. */
static void short_memory(void **state) {
    for (int n = 0;; n++) {
        size_t before = vo_memory_get_stats().active_bytes, index;
        vo_safetensors_writer *w = NULL;
        vo_memory_fail_after(n, false);
        vo_status status = vo_safetensors_create(path, true, &w, NULL);
        if (status == VO_OK)
            status = vo_safetensors_add(w, "t", VO_U8, (int64_t[]){1}, 1, &index, NULL);
        if (status == VO_OK) status = vo_safetensors_begin(w, NULL);
        if (status == VO_OK) status = vo_safetensors_write(w, index, "x", 1, NULL);
        if (status == VO_OK) status = vo_safetensors_commit(w, NULL);
        bool failed = vo_memory_fail_after(-1, false);
        vo_safetensors_destroy(w);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
        if (status == VO_OK && !failed) break;
        if (status != VO_OK) assert_int_equal(status, VO_ERR_MEMORY);
        if (status != VO_OK) assert_int_equal(files(), 0);
        assert_true(n < 100);
    }
    assert_int_equal(files(), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_and_back, setup, teardown),
        cmocka_unit_test_setup_teardown(existing_files_stay, setup, teardown),
        cmocka_unit_test_setup_teardown(misuse_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(places_that_cannot_be_written, setup, teardown),
        cmocka_unit_test_setup_teardown(short_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
