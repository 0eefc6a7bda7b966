/* SPDX-License-Identifier: MIT
 *
 * Files of records, cut at every byte and with every byte changed: what is read is always a
 * beginning of what was written. Then locks, full disks, and processes that are killed.
 */
#include "base/file.h"
#include "base/harness.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/records.h"
#include "base/support_scratch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char magic[] = "magic of a test\n";
static const char text[] = "abcdefghijklmnopqrstuvwxyz";
enum { N = 12 };

static vo_records *open_records(const char *path) {
    vo_error err = {0};
    vo_records *r = NULL;
    if (vo_records_open(path, magic, &r, &err) != VO_OK) fail_msg("%s", err.message);
    return r;
}

static void append(vo_records *r, int from, int to) {
    for (int i = from; i < to; i++)
        assert_int_equal(vo_records_append(r, (uint32_t)i + 1, text, (size_t)i, NULL), VO_OK);
}

/* How many of the N records there are; what they hold must be right. */
static int count(const vo_records *r) {
    vo_record record;
    size_t at = 0;
    int n = 0;
    for (; vo_records_next(r, &at, &record); n++) {
        assert_int_equal(record.type, n + 1);
        assert_int_equal(record.size, n);
        assert_memory_equal(record.data, text, record.size);
        assert_int_equal((uintptr_t)record.data % 8, 0);
    }
    assert_true(n <= N);
    return n;
}

static int count_file(const char *path) {
    vo_records *r = open_records(path);
    const int n = count(r);
    vo_records_close(r);
    return n;
}

static char *read_file(const char *path, size_t *size) {
    char *data;
    assert_int_equal(vo_file_read(path, 1 << 20, &data, size, NULL), VO_OK);
    return data;
}

static void write_file(const char *path, const char *data, size_t size) {
    assert_int_equal(vo_file_write_atomic(path, data, size, NULL), VO_OK);
}

static void published_checksum(void **state) {
    assert_int_equal(vo_crc32c(0, "123456789", 9), 0xe3069283u); /* and RFC 3720, B.4 */
    assert_int_equal(vo_crc32c(vo_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
    static const char zeros[32];
    assert_int_equal(vo_crc32c(0, zeros, 32), 0x8a9136aau);
}

static void records_stay(void **state) {
    const char *path = scratch_path(*state, "r");
    assert_int_equal(count_file(path), 0);
    for (int i = 0; i < N; i++) {
        vo_records *r = open_records(path);
        assert_int_equal(count(r), i);
        append(r, i, i + 1);
        vo_records_close(r);
    }
    vo_records *r = open_records(path);
    assert_int_equal(count(r), N);
    assert_int_equal(vo_records_clear(r, NULL), VO_OK);
    assert_int_equal(count(r), 0);
    append(r, 0, 2);
    vo_records_close(r);
    assert_int_equal(count_file(path), 2);
    vo_records_close(NULL);
}

/* A file that was cut anywhere holds the records before the cut, and takes new ones. */
static void cut_at_every_byte(void **state) {
    size_t size, after;
    const char *path = scratch_path(*state, "r"), *cut = scratch_path(*state, "cut");
    vo_records *r = open_records(path);
    append(r, 0, N);
    vo_records_close(r);
    char *data = read_file(path, &size);
    int last = 0;
    for (size_t n = 0; n <= size; n++) {
        write_file(cut, data, n);
        r = open_records(cut);
        const int whole = count(r);
        assert_true(whole == last || whole == last + 1);
        last = whole;
        append(r, whole, N);
        vo_records_close(r);
        char *repaired = read_file(cut, &after);
        assert_int_equal(after, size);
        assert_memory_equal(repaired, data, size);
        vo_free(repaired);
    }
    assert_int_equal(last, N);
    vo_free(data);
}

/* Every changed byte ends the file at its record, or is no such file at all. */
static void change_every_byte(void **state) {
    size_t size;
    const char *path = scratch_path(*state, "r"), *bad = scratch_path(*state, "bad");
    vo_records *r = open_records(path);
    append(r, 0, N);
    vo_records_close(r);
    char *data = read_file(path, &size);
    int last = 0;
    for (size_t n = 0; n < size; n++) {
        for (int bit = 0; bit < 8; bit++) {
            data[n] = (char)(data[n] ^ 1 << bit);
            write_file(bad, data, size);
            data[n] = (char)(data[n] ^ 1 << bit);
            if (n < VO_RECORDS_MAGIC) {
                vo_error err = {0};
                assert_int_equal(vo_records_open(bad, magic, &r, &err), VO_ERR_FORMAT);
                assert_null(r);
                assert_int_equal(vo_file_size(bad), size);
                continue;
            }
            const int whole = count_file(bad);
            assert_true(whole < N && (whole == last || whole == last + 1));
            last = whole;
        }
    }
    assert_int_equal(last, N - 1);
    vo_free(data);
}

static void any_bytes(void **state) {
    uint64_t seed = 5;
    unsigned char bytes[256];
    for (int i = 0; i < 20000; i++) {
        vo_record record;
        size_t at = 0, size = (size_t)(next_random(&seed) % sizeof bytes);
        for (size_t k = 0; k < size; k++) bytes[k] = (unsigned char)(next_random(&seed) >> 40);
        if (i % 2 && size > 8) memset(bytes + 1, 0, 3); /* sizes that may fit */
        while (vo_record_read(bytes, size, &at, &record)) assert_true(at <= size);
        at = size + 1;
        assert_false(vo_record_read(bytes, size, &at, &record));
    }
}

/* Whatever else lies at the path is refused and stays as it is. */
static void other_files(void **state) {
    vo_records *r;
    vo_error err = {0};
    scratch_write(*state, "letter", "Dear Sir or Madam, ...");
    scratch_write(*state, "short", "Dear");
    for (int i = 0; i < 2; i++) {
        const char *path = scratch_path(*state, i ? "letter" : "short");
        const int64_t size = vo_file_size(path);
        err = (vo_error){0};
        assert_int_equal(vo_records_open(path, magic, &r, &err), VO_ERR_FORMAT);
        assert_non_null(strstr(err.message, "left as it is"));
        assert_int_equal(vo_file_size(path), size);
    }
    assert_int_equal(vo_records_open(*state, magic, &r, NULL), VO_ERR_IO);
    assert_int_equal(vo_records_open("/dev/full", magic, &r, NULL), VO_ERR_IO);
    assert_int_equal(mkfifo(scratch_path(*state, "pipe"), 0600), 0);
    assert_int_equal(vo_records_open(scratch_path(*state, "pipe"), magic, &r, NULL), VO_ERR_IO);
    assert_int_equal(vo_records_open(scratch_path(*state, "no/r"), magic, &r, NULL),
                     VO_ERR_NOT_FOUND);
    r = open_records(scratch_path(*state, "r"));
    static char large[16];
    assert_int_equal(vo_records_append(r, 1, large, (size_t)VO_RECORDS_MAX_ONE + 1, NULL),
                     VO_ERR_LIMIT);
    vo_records_close(r);
}

static void one_at_a_time(void **state) {
    const char *path = scratch_path(*state, "r");
    vo_records *r = open_records(path), *other;
    vo_error err = {0};
    assert_int_equal(vo_records_open(path, magic, &other, &err), VO_ERR_IO);
    assert_null(other);
    assert_non_null(strstr(err.message, "in use"));
    pid_t child = fork();
    if (child == 0) _exit(vo_records_open(path, magic, &other, NULL) == VO_ERR_IO ? 0 : 1);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    vo_records_close(r);
    assert_int_equal(count_file(path), 0);
}

/* The limit on a file's size stands for a full disk. */
static void full_disk(void **state) {
    const char *path = scratch_path(*state, "r");
    struct rlimit old, limit;
    vo_error err = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_IGN);
    vo_records *r = open_records(path);
    append(r, 0, 5);
    const int64_t size = vo_file_size(path);
    limit = (struct rlimit){(rlim_t)size + 20, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(vo_records_append(r, 6, text, 5, &err), VO_ERR_IO);
    assert_non_null(strstr(err.message, path));
    assert_int_equal(vo_file_size(path), size); /* no piece of it stays */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    append(r, 5, N);
    vo_records_close(r);
    assert_int_equal(count_file(path), N);
    signal(SIGXFSZ, SIG_DFL);
}

/* What append has returned for survives SIGKILL; the lock goes with the process. */
static void killed(void **state) {
    const char *path = scratch_path(*state, "r");
    uint64_t seed = 11;
    int pipes[2], done = 0;
    for (int round = 0; round < 20; round++) {
        char said;
        assert_int_equal(pipe(pipes), 0);
        pid_t child = fork();
        if (child == 0) {
            vo_records *r = NULL;
            vo_record record;
            size_t at = 0;
            int n = 0;
            if (vo_records_open(path, magic, &r, NULL) != VO_OK) _exit(1);
            while (vo_records_next(r, &at, &record)) n++;
            for (;; n++)
                if (vo_records_append(r, (uint32_t)n, &n, sizeof n, NULL) != VO_OK ||
                    write(pipes[1], "x", 1) != 1)
                    _exit(1);
        }
        close(pipes[1]);
        assert_int_equal(read(pipes[0], &said, 1), 1);
        nanosleep(&(struct timespec){0, (long)(next_random(&seed) % 2000000)}, NULL);
        kill(child, SIGKILL);
        done++;
        while (read(pipes[0], &said, 1) == 1) done++;
        close(pipes[0]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        vo_records *r = open_records(path);
        vo_record record;
        size_t at = 0;
        int n = 0;
        for (; vo_records_next(r, &at, &record); n++) assert_memory_equal(record.data, &n, 4);
        /* one may have been written and not said */
        assert_true(n == done || n == done + 1);
        done = n;
        vo_records_close(r);
    }
}

static void memory_fails(void **state) {
    const char *path = scratch_path(*state, "r");
    vo_records *r = open_records(path);
    append(r, 0, 3);
    vo_records_close(r);
    const size_t before = vo_memory_get_stats().active_bytes;
    int failures = 0;
    for (int n = 0;; n++) {
        vo_memory_fail_after(n, false);
        vo_status status = vo_records_open(path, magic, &r, NULL);
        if (status == VO_OK) status = vo_records_append(r, 4, text, 3, NULL);
        const bool failed = vo_memory_fail_after(-1, false);
        vo_records_close(r);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
        if (!failed) break;
        assert_int_equal(status, VO_ERR_MEMORY);
        assert_int_equal(count_file(path), 3);
        failures++;
    }
    assert_true(failures > 3);
    assert_int_equal(count_file(path), 4);
}

#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_setup, scratch_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_checksum),
        cmocka_unit_test(any_bytes),
        IN_SCRATCH(records_stay),
        IN_SCRATCH(cut_at_every_byte),
        IN_SCRATCH(change_every_byte),
        IN_SCRATCH(other_files),
        IN_SCRATCH(one_at_a_time),
        IN_SCRATCH(full_disk),
        IN_SCRATCH(killed),
        IN_SCRATCH(memory_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
