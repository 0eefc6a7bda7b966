/* SPDX-License-Identifier: MIT
 *
 * Child processes that behave, flood, hang, complain, stop reading and leave children behind.
 */
#include "base/clock.h"
#include "base/harness.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/support_scratch.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Runs to the end; the output, at most `size` bytes of it, goes to out. */
static vo_status run(const vo_process_params *params, char *out, size_t size, size_t *total,
                     vo_error *err) {
    vo_process *p;
    char piece[5000];
    size_t got = 0;
    *total = 0;
    vo_status status = vo_process_start(params, &p, err);
    if (status != VO_OK) return status;
    do {
        status = vo_process_read(p, piece, sizeof piece, &got, err);
        for (size_t i = 0; i < got; i++, (*total)++) {
            if (*total < size) out[*total] = piece[i];
        }
    } while (status == VO_OK && got > 0);
    if (status == VO_OK) status = vo_process_finish(p, err);
    vo_process_destroy(p);
    return status;
}

static vo_status shell(const char *script, char *out, size_t size, vo_error *err) {
    const char *argv[] = {"sh", "-c", script, NULL};
    vo_process_params params = {.argv = argv, .timeout_seconds = 30};
    size_t total;
    memset(out, 0, size);
    return run(&params, out, size - 1, &total, err);
}

static int open_descriptors(void) {
    int n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (dir != NULL && readdir(dir) != NULL) n++;
    if (dir != NULL) closedir(dir);
    return n;
}

static void output_and_exit(void **state) {
    char out[100];
    vo_error err = {0};
    assert_int_equal(shell("echo hello; cat", out, sizeof out, &err), VO_OK); /* no input */
    assert_string_equal(out, "hello\n");
    assert_int_equal(
        shell("echo first >&2; echo \"  the reason  \" >&2; exit 3", out, sizeof out, &err),
        VO_ERR_FORMAT);
    assert_string_equal(err.message, "sh failed (exit code 3): the reason");
    err = (vo_error){0};
    assert_int_equal(shell("exit 1", out, sizeof out, &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "no reason"));
    err = (vo_error){0};
    assert_int_equal(shell("kill -SEGV $$", out, sizeof out, &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "signal 11"));
}

static void complaints_are_cleaned_and_cut(void **state) {
    char out[100];
    vo_error err = {0};
    assert_int_equal(shell("i=0; while [ $i -lt 3000 ]; do echo \"line $i of the flood\" >&2; "
                           "i=$((i+1)); done; printf 'bad \\377 \\001end' >&2; exit 1",
                           out, sizeof out, &err),
                     VO_ERR_FORMAT);
    assert_string_equal(err.message, "sh failed (exit code 1): bad \xef\xbf\xbd  end");
}

static void input_flows_through(void **state) {
    enum { BYTES = 3000000 }; /* far more than the pipes hold */
    char *in = vo_alloc(BYTES), *out = vo_alloc(BYTES);
    uint64_t seed = 5;
    size_t total;
    vo_error err = {0};
    for (int i = 0; i < BYTES; i++) in[i] = (char)next_random(&seed);
    const char *argv[] = {"cat", NULL};
    vo_process_params params = {.argv = argv, .input = in, .input_size = BYTES};
    assert_int_equal(run(&params, out, BYTES, &total, &err), VO_OK);
    assert_int_equal(total, BYTES);
    assert_memory_equal(in, out, BYTES);
    params.input_size = 0; /* an empty pipe is not /dev/null, but reads alike */
    assert_int_equal(run(&params, out, BYTES, &total, &err), VO_OK);
    assert_int_equal(total, 0);
    vo_free(in);
    vo_free(out);
}

typedef struct source {
    int64_t left, fail_at;
    unsigned char next;
} source;

static int64_t produce(void *user, void *data, size_t size) {
    source *s = user;
    int64_t n = s->left < (int64_t)size ? s->left : (int64_t)size;
    if (n > 7001) n = 7001; /* short pieces are allowed */
    if (s->left <= s->fail_at) return -1;
    for (int64_t i = 0; i < n; i++) ((unsigned char *)data)[i] = s->next++;
    s->left -= n;
    return n;
}

static void input_from_a_callback(void **state) {
    enum { BYTES = 2000000 };
    unsigned char *out = vo_alloc(BYTES);
    size_t total;
    vo_error err = {0};
    source s = {.left = BYTES, .fail_at = -1}, broken = {.left = BYTES, .fail_at = BYTES / 2};
    const char *argv[] = {"cat", NULL};
    vo_process_params params = {.argv = argv, .read_input = produce, .user = &s};
    assert_int_equal(run(&params, (char *)out, BYTES, &total, &err), VO_OK);
    assert_int_equal(total, BYTES);
    for (int i = 0; i < BYTES; i++) assert_int_equal(out[i], i & 255);
    params.user = &broken;
    assert_int_equal(run(&params, (char *)out, BYTES, &total, &err), VO_ERR_ABORTED);
    assert_string_equal(err.message, "the input for cat broke off");
    vo_free(out);
}

static volatile sig_atomic_t pipe_signals;
static void on_pipe(int number) {
    pipe_signals++;
}

/* A reader that goes away early is its own business: no SIGPIPE, no error. */
static void child_that_stops_reading(void **state) {
    static char in[1000000];
    char out[10];
    size_t total;
    vo_error err = {0};
    struct sigaction count = {.sa_handler = on_pipe}, old;
    sigaction(SIGPIPE, &count, &old);
    const char *argv[] = {"head", "-c", "5", NULL};
    vo_process_params params = {.argv = argv, .input = in, .input_size = sizeof in};
    memset(in, 'x', sizeof in);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(run(&params, out, sizeof out, &total, &err), VO_OK);
        assert_int_equal(total, 5);
    }
    assert_int_equal(pipe_signals, 0);
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    assert_int_equal(sigismember(&now, SIGPIPE), 0);
    sigaction(SIGPIPE, &old, NULL);
}

static void finish_without_reading(void **state) {
    vo_process *p;
    vo_error err = {0};
    const char *argv[] = {"sh", "-c", "head -c 1000000 /dev/zero; cat >/dev/null; exit 4", NULL};
    source s = {.left = 500000, .fail_at = -1};
    vo_process_params params = {.argv = argv, .read_input = produce, .user = &s};
    assert_int_equal(vo_process_start(&params, &p, &err), VO_OK);
    assert_int_equal(vo_process_finish(p, &err), VO_ERR_FORMAT);
    assert_non_null(strstr(err.message, "exit code 4"));
    assert_int_equal(s.left, 0);
    assert_int_equal(vo_process_finish(p, NULL), VO_ERR_FORMAT); /* stays so */
    vo_process_destroy(p);
}

static bool gone(pid_t pid) {
    for (int i = 0; i < 400; i++) {
        if (kill(pid, 0) != 0 && errno == ESRCH) return true;
        /* a container's init may never collect orphans: a zombie is gone, too */
        char path[64], line[256] = "";
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        FILE *file = fopen(path, "r");
        if (file != NULL) {
            if (fgets(line, sizeof line, file) == NULL) line[0] = '\0';
            fclose(file);
        }
        if (strstr(line, ") Z ") != NULL) return true;
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    }
    return false;
}

static void timeout_ends_the_whole_group(void **state) {
    vo_process *p;
    vo_error err = {0};
    char text[64] = "";
    size_t got;
    const char *argv[] = {"sh", "-c", "sleep 60 & echo $!; wait", NULL};
    vo_process_params params = {.argv = argv, .timeout_seconds = 0.5};
    double begin = vo_clock_seconds();
    assert_int_equal(vo_process_start(&params, &p, &err), VO_OK);
    assert_int_equal(vo_process_read(p, text, sizeof text - 1, &got, &err), VO_OK);
    pid_t grandchild = (pid_t)strtol(text, NULL, 10);
    assert_true(grandchild > 1);
    assert_false(kill(grandchild, 0) != 0);
    assert_int_equal(vo_process_read(p, text, sizeof text, &got, &err), VO_ERR_LIMIT);
    assert_string_equal(err.message, "sh took longer than 0.5 seconds");
    assert_in_range((vo_clock_seconds() - begin) * 1000, 450, 20000);
    assert_true(gone(grandchild));
    assert_int_equal(vo_process_read(p, text, sizeof text, &got, NULL), VO_ERR_LIMIT);
    assert_int_equal(vo_process_finish(p, NULL), VO_ERR_LIMIT);
    vo_process_destroy(p);
    assert_int_equal(vo_process_start(&params, &p, &err), VO_OK); /* also while finishing */
    assert_int_equal(vo_process_finish(p, NULL), VO_ERR_LIMIT);
    vo_process_destroy(p);
}

/* A daemon that keeps our pipes open must not keep us. */
static void grandchild_may_outlive(void **state) {
    vo_process *p;
    vo_error err = {0};
    char text[64] = "";
    size_t got;
    const char *argv[] = {"sh", "-c", "sleep 20 & echo $!", NULL};
    vo_process_params params = {.argv = argv};
    double begin = vo_clock_seconds();
    assert_int_equal(vo_process_start(&params, &p, &err), VO_OK);
    assert_int_equal(vo_process_read(p, text, sizeof text - 1, &got, &err), VO_OK);
    assert_int_equal(vo_process_finish(p, &err), VO_OK);
    assert_true(vo_clock_seconds() - begin < 15);
    vo_process_destroy(p);
    kill((pid_t)strtol(text, NULL, 10), SIGKILL);
}

static void destroy_kills(void **state) {
    vo_process *p;
    vo_error err = {0};
    char text[64] = "";
    size_t got;
    const char *argv[] = {"sh", "-c", "echo $$; exec sleep 60", NULL};
    vo_process_params params = {.argv = argv};
    assert_int_equal(vo_process_start(&params, &p, &err), VO_OK);
    assert_int_equal(vo_process_read(p, text, sizeof text - 1, &got, &err), VO_OK);
    vo_process_destroy(p);
    vo_process_destroy(NULL);
    assert_true(gone((pid_t)strtol(text, NULL, 10)));
}

static void limits_reach_the_child(void **state) {
    char out[100] = "";
    size_t total;
    vo_error err = {0};
    const char *argv[] = {"sh", "-c", "ulimit -v; ulimit -c", NULL};
    vo_process_params params = {.argv = argv, .memory_limit = (size_t)300 << 20};
    assert_int_equal(run(&params, out, sizeof out - 1, &total, &err), VO_OK);
    assert_string_equal(out, "307200\n0\n");
}

static void child_gets_no_stray_descriptors(void **state) {
    char out[200];
    vo_error err = {0};
    int before = open_descriptors();
    vo_process *other;
    const char *argv[] = {"cat", NULL};
    vo_process_params params = {.argv = argv, .input = "x", .input_size = 1};
    assert_int_equal(vo_process_start(&params, &other, &err), VO_OK);
    int ours = open_descriptors() - before;
    assert_int_equal(ours, 3);
    /* those of the first child must not be seen by the second */
    assert_int_equal(shell("ls /proc/self/fd | wc -l", out, sizeof out, &err), VO_OK);
    int seen = (int)strtol(out, NULL, 10), inherited = before - 3 - 3; /* . .. opendir; 0 1 2 */
    assert_in_range(seen, 3, 4 + inherited);
    vo_process_destroy(other);
    assert_int_equal(open_descriptors(), before);
}

/* As in a daemon that closed its standard streams. */
static void works_without_standard_streams(void **state) {
    char out[100];
    vo_error err = {0};
    int saved[3];
    for (int i = 0; i < 3; i++) saved[i] = dup(i);
    for (int i = 0; i < 3; i++) close(i);
    vo_status status = shell("echo out; echo err >&2; exit 5", out, sizeof out, &err);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    assert_int_equal(status, VO_ERR_FORMAT);
    assert_string_equal(out, "out\n");
    assert_string_equal(err.message, "sh failed (exit code 5): err");
}

static void programs_are_looked_up(void **state) {
    vo_process *p;
    vo_error err = {0};
    const char *argv[] = {"vocis-no-such-program", NULL}, *none[] = {NULL}, *dir[] = {"/tmp", NULL};
    vo_process_params params = {.argv = argv};
    int before = open_descriptors();
    assert_true(vo_process_available("sh"));
    assert_true(vo_process_available("/bin/sh"));
    assert_false(vo_process_available("/tmp"));
    assert_false(vo_process_available(""));
    assert_false(vo_process_available(argv[0]));
    assert_int_equal(vo_process_start(&params, &p, &err), VO_ERR_NOT_FOUND);
    assert_null(p);
    assert_string_equal(err.message, "the program vocis-no-such-program is not installed");
    params.argv = none;
    assert_int_equal(vo_process_start(&params, &p, NULL), VO_ERR_ARGUMENT);
    params.argv = dir;
    assert_int_equal(vo_process_start(&params, &p, NULL), VO_ERR_NOT_FOUND);
    /* a file that may be executed but is no program: exec itself fails */
    scratch_write(*state, "tool",
                  "\x7f"
                  "ELF, it says");
    assert_int_equal(chmod(scratch_path(*state, "tool"), 0755), 0);
    const char *broken[] = {"tool", NULL};
    char *path = vo_format("%s:/nonexistent:%s", (char *)*state, getenv("PATH"));
    setenv("PATH", path, 1);
    params.argv = broken;
    err = (vo_error){0};
    assert_true(vo_process_available("tool"));
    assert_int_equal(vo_process_start(&params, &p, &err), VO_ERR_IO);
    assert_non_null(strstr(err.message, "cannot start tool: "));
    assert_null(p);
    vo_free(path);
    assert_int_equal(open_descriptors(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_exit),
        cmocka_unit_test(complaints_are_cleaned_and_cut),
        cmocka_unit_test(input_flows_through),
        cmocka_unit_test(input_from_a_callback),
        cmocka_unit_test(child_that_stops_reading),
        cmocka_unit_test(finish_without_reading),
        cmocka_unit_test(timeout_ends_the_whole_group),
        cmocka_unit_test(grandchild_may_outlive),
        cmocka_unit_test(destroy_kills),
        cmocka_unit_test(limits_reach_the_child),
        cmocka_unit_test(child_gets_no_stray_descriptors),
        cmocka_unit_test(works_without_standard_streams),
        cmocka_unit_test_setup_teardown(programs_are_looked_up, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
