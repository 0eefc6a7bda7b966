/* SPDX-License-Identifier: MIT
 *
 * A child process, fed and drained by one poll loop: whoever waits for output also passes on
 * input and collects complaints, so that no full pipe can stop both sides.
 *
 * The child leads a process group of its own, so that a timeout takes its children too.
 */
#define _GNU_SOURCE /* pipe2 */
#include "base/process.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/system.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { INPUT_CHUNK = 1 << 16, COMPLAINT_BYTES = 2048, EXIT_POLL_MS = 2 };

struct vo_process {
    char *program;
    pid_t pid;
    bool running;           /* not yet reaped */
    int exit_status;        /* from waitpid */
    int in, out, complaint; /* our ends; -1: closed */
    const char *input;      /* bytes still to feed */
    size_t input_left;
    int64_t (*read_input)(void *user, void *data, size_t size);
    void *user;
    char *chunk;              /* [INPUT_CHUNK], for read_input only */
    double timeout, deadline; /* deadline 0: none */
    vo_status failed;         /* sticky: the child was killed for this */
    size_t complaint_size;
    char complaints[COMPLAINT_BYTES]; /* the end of its standard error */
};

static void close_fd(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Close-on-exec from the start, and out of the way of 0..2, which may be closed in a daemon and
 * which the child overwrites. */
static bool make_pipe(int ends[2]) {
    int raw[2];
    ends[0] = ends[1] = -1;
#if defined(__linux__)
    if (pipe2(raw, O_CLOEXEC) != 0) return false;
#else
    if (pipe(raw) != 0) return false;
    (void)fcntl(raw[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(raw[1], F_SETFD, FD_CLOEXEC);
#endif
    bool good = true;
    for (int i = 0; i < 2; i++) {
        ends[i] = raw[i];
        if (raw[i] > 2) continue;
        ends[i] = fcntl(raw[i], F_DUPFD_CLOEXEC, 3);
        int code = errno;
        close(raw[i]);
        if (ends[i] < 0) {
            good = false;
            errno = code;
        }
    }
    return good;
}

static bool is_program(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The file that a program name stands for, in fresh memory; NULL: none (or out of memory). */
static char *find_program(const char *name) {
    if (name[0] == '\0') return NULL;
    if (strchr(name, '/') != NULL) return is_program(name) ? vo_strdup(name) : NULL;
    const char *path = getenv("PATH");
    if (path == NULL) path = "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t n = strcspn(path, ":");
        char *full = n == 0 ? vo_format("./%s", name) : vo_format("%.*s/%s", (int)n, path, name);
        if (full != NULL && is_program(full)) return full;
        vo_free(full);
        if (path[n] == '\0') return NULL;
        path += n + 1;
    }
}

bool vo_process_available(const char *program) {
    char *full = find_program(program);
    vo_free(full);
    return full != NULL;
}

/* What the child does before it becomes the program. Only calls that are safe after fork in a
 * process with threads. */
static void become(const char *path, const char *const *argv, const int fds[3], size_t memory_limit,
                   int report) {
    struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    sigemptyset(&plain.sa_mask);
    sigemptyset(&none);
    setpgid(0, 0);
    sigaction(SIGPIPE, &plain, NULL);
    struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    bool good = true;
    if (memory_limit > 0) {
        struct rlimit limit;
        good = getrlimit(RLIMIT_AS, &limit) == 0;
        if (limit.rlim_max == RLIM_INFINITY || limit.rlim_max > memory_limit) {
            limit.rlim_max = memory_limit;
        }
        limit.rlim_cur = limit.rlim_max;
        good = good && setrlimit(RLIMIT_AS, &limit) == 0;
    }
    for (int i = 0; i < 3; i++) good = good && dup2(fds[i], i) == i;
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (good) {
        union { /* execv promises not to write, its type does not */
            const char *const *in;
            char *const *out;
        } list = {argv};
        execv(path, list.out);
    }
    int code = errno;
    ssize_t told = write(report, &code, sizeof code);
    _exit(told == (ssize_t)sizeof code ? 127 : 126);
}

/* Forks and waits until the program runs; returns 0 or an errno value. */
static int spawn(vo_process *p, const char *path, const char *const *argv, const int fds[3],
                 size_t memory_limit) {
    int report[2];
    if (!make_pipe(report)) {
        int code = errno;
        close_fd(&report[0]);
        close_fd(&report[1]);
        return code;
    }
    p->pid = fork();
    if (p->pid == 0) become(path, argv, fds, memory_limit, report[1]);
    int code = p->pid < 0 ? errno : 0;
    close_fd(&report[1]);
    if (p->pid > 0) {
        p->running = true;
        setpgid(p->pid, p->pid); /* both sides, since either may come first */
        int sent;
        ssize_t n;
        do {
            n = read(report[0], &sent, sizeof sent); /* ends when exec closes the other side */
        } while (n < 0 && errno == EINTR);
        if (n == (ssize_t)sizeof sent) code = sent;
    }
    close_fd(&report[0]);
    return code;
}

static vo_status start_with_pipes(vo_process *p, const char *path, const vo_process_params *params,
                                  vo_error *err) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, complaint[2] = {-1, -1}, code = 0;
    bool fed = params->input != NULL || params->read_input != NULL;
    if (fed) {
        if (!make_pipe(in)) code = errno;
    } else {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (null >= 0) in[0] = fcntl(null, F_DUPFD_CLOEXEC, 3);
        if (in[0] < 0) code = errno;
        close_fd(&null);
    }
    if (code == 0 && (!make_pipe(out) || !make_pipe(complaint))) code = errno;
    if (code == 0) {
        int fds[3] = {in[0], out[1], complaint[1]};
        code = spawn(p, path, params->argv, fds, params->memory_limit);
    }
    close_fd(&in[0]);
    close_fd(&out[1]);
    close_fd(&complaint[1]);
    p->in = in[1];
    p->out = out[0];
    p->complaint = complaint[0];
    if (code != 0) return vo_fail_system(err, code, "cannot start", p->program);
    const int ours[3] = {p->in, p->out, p->complaint};
    for (int i = 0; i < 3; i++) {
        if (ours[i] >= 0 && fcntl(ours[i], F_SETFL, O_NONBLOCK) != 0) {
            return vo_fail_system(err, errno, "cannot start", p->program);
        }
    }
    return VO_OK;
}

vo_status vo_process_start(const vo_process_params *params, vo_process **process, vo_error *err) {
    vo_status status = VO_OK;
    *process = NULL;
    if (params->argv == NULL || params->argv[0] == NULL) {
        return vo_fail(err, VO_ERR_ARGUMENT, "no program to run was named");
    }
    const char *name = params->argv[0];
    char *path = find_program(name);
    if (path == NULL)
        return vo_fail(err, VO_ERR_NOT_FOUND, "the program %s is not installed", name);
    vo_process *p = vo_alloc(sizeof *p);
    if (p == NULL) goto memory;
    p->in = p->out = p->complaint = -1;
    p->program = vo_strdup(name);
    if (p->program == NULL) goto memory;
    if (params->read_input != NULL) {
        p->chunk = vo_alloc_uninitialized(INPUT_CHUNK);
        if (p->chunk == NULL) goto memory;
    } else {
        p->input = params->input;
        p->input_left = params->input_size;
    }
    p->read_input = params->read_input;
    p->user = params->user;
    p->timeout = params->timeout_seconds;
    if (p->timeout > 0) p->deadline = vo_clock_seconds() + p->timeout;
    status = start_with_pipes(p, path, params, err);
    if (status != VO_OK) goto fail;
    vo_free(path);
    *process = p;
    return VO_OK;
memory:
    status = vo_fail(err, VO_ERR_MEMORY, "out of memory while starting %s", name);
fail:
    vo_free(path);
    vo_process_destroy(p);
    return status;
}

/* The child and what it started end now. */
static void kill_group(vo_process *p) {
    if (!p->running) return;
    if (kill(-p->pid, SIGKILL) != 0) kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &p->exit_status, 0) < 0 && errno == EINTR) {}
    p->running = false;
}

static vo_status say_failed(vo_process *p, vo_error *err) {
    if (p->failed == VO_ERR_LIMIT) {
        return vo_fail(err, VO_ERR_LIMIT, "%s took longer than %g seconds", p->program, p->timeout);
    }
    if (p->failed == VO_ERR_ABORTED) {
        return vo_fail(err, VO_ERR_ABORTED, "the input for %s broke off", p->program);
    }
    return vo_fail(err, p->failed, "the exchange with %s failed", p->program);
}

static vo_status give_up(vo_process *p, vo_status status, vo_error *err) {
    p->failed = status;
    kill_group(p);
    return say_failed(p, err);
}

/* write() to a pipe whose reader may be gone, without a SIGPIPE for the program we live in: the
 * signal is held back, and taken away if it was ours. */
static ssize_t write_quietly(int fd, const void *data, size_t size) {
    sigset_t pipe_only, old, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigemptyset(&pending);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    if (pthread_sigmask(SIG_BLOCK, &pipe_only, &old) != 0) return -1;
    ssize_t n = write(fd, data, size);
    int code = errno;
    if (n < 0 && code == EPIPE && !was_pending) {
        int signal_number;
        if (sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1) {
            sigwait(&pipe_only, &signal_number);
        }
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = code;
    return n;
}

static vo_status feed(vo_process *p, vo_error *err) {
    if (p->input_left == 0 && p->read_input != NULL) {
        int64_t n = p->read_input(p->user, p->chunk, INPUT_CHUNK);
        if (n < 0 || n > INPUT_CHUNK) return give_up(p, VO_ERR_ABORTED, err);
        p->input = p->chunk;
        p->input_left = (size_t)n;
    }
    if (p->input_left == 0) {
        close_fd(&p->in);
        return VO_OK;
    }
    ssize_t n = write_quietly(p->in, p->input, p->input_left);
    if (n >= 0) {
        p->input += n;
        p->input_left -= (size_t)n;
    } else if (errno != EAGAIN && errno != EINTR) {
        close_fd(&p->in); /* it wants no more, which is its right; the exit status tells */
    }
    return VO_OK;
}

/* Returns whether there was anything. */
static bool listen_to_complaints(vo_process *p) {
    char piece[COMPLAINT_BYTES];
    ssize_t got = read(p->complaint, piece, sizeof piece);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) close_fd(&p->complaint);
    if (got <= 0) return false;
    size_t n = (size_t)got, room = COMPLAINT_BYTES - p->complaint_size;
    if (n > room) {
        memmove(p->complaints, p->complaints + (n - room), p->complaint_size - (n - room));
        p->complaint_size -= n - room;
    }
    memcpy(p->complaints + p->complaint_size, piece, n);
    p->complaint_size += n;
    return true;
}

static int milliseconds_left(const vo_process *p, int most) {
    if (p->deadline <= 0) return most;
    double left = (p->deadline - vo_clock_seconds()) * 1e3 + 1;
    if (left < 0) return 0;
    return most < 0 || left < most ? (int)(left < 1e9 ? left : 1e9) : most;
}

/* Waits up to `most` ms (-1: for ever) for something to do, and does it. Output goes to data;
 * *got is -1 when there was none, 0 at its end. */
static vo_status exchange(vo_process *p, void *data, size_t size, int most, ssize_t *got,
                          vo_error *err) {
    *got = -1;
    if (p->deadline > 0 && vo_clock_seconds() >= p->deadline) return give_up(p, VO_ERR_LIMIT, err);
    struct pollfd fds[3] = {{.fd = p->out, .events = POLLIN},
                            {.fd = p->complaint, .events = POLLIN},
                            {.fd = p->in, .events = POLLOUT}}; /* negative ones are skipped */
    if (poll(fds, 3, milliseconds_left(p, most)) < 0) {
        return errno == EINTR ? VO_OK : give_up(p, VO_ERR_IO, err);
    }
    if (fds[1].revents != 0) listen_to_complaints(p);
    if (fds[0].revents != 0) {
        *got = read(p->out, data, size);
        if (*got == 0) close_fd(&p->out);
        if (*got < 0 && errno != EAGAIN && errno != EINTR) return give_up(p, VO_ERR_IO, err);
        return VO_OK;
    }
    return fds[2].revents != 0 ? feed(p, err) : VO_OK;
}

vo_status vo_process_read(vo_process *p, void *data, size_t size, size_t *got, vo_error *err) {
    *got = 0;
    if (p->failed != VO_OK) return say_failed(p, err);
    while (p->out >= 0 && size > 0) {
        ssize_t n;
        vo_status status = exchange(p, data, size, -1, &n, err);
        if (status != VO_OK) return status;
        if (n > 0) {
            *got = (size_t)n;
            break;
        }
    }
    return VO_OK;
}

/* The last line that is not empty, cleaned for people: valid UTF-8 without control bytes. */
static char *last_complaint(const vo_process *p) {
    size_t end = p->complaint_size;
    while (end > 0 && (unsigned char)p->complaints[end - 1] <= ' ') end--;
    size_t begin = end;
    while (begin > 0 && p->complaints[begin - 1] != '\n' && p->complaints[begin - 1] != '\r')
        begin--;
    while (begin < end && (unsigned char)p->complaints[begin] <= ' ') begin++;
    char *line = vo_utf8_sanitize(p->complaints + begin, end - begin, NULL);
    for (char *c = line; c != NULL && *c != '\0'; c++) {
        if ((unsigned char)*c < ' ') *c = ' ';
    }
    return line;
}

static vo_status judge_exit(const vo_process *p, vo_error *err) {
    if (WIFEXITED(p->exit_status) && WEXITSTATUS(p->exit_status) == 0) return VO_OK;
    char *line = last_complaint(p);
    const char *text = line != NULL && line[0] != '\0' ? line : "it gave no reason";
    vo_status status;
    if (WIFSIGNALED(p->exit_status)) {
        status = vo_fail(err, VO_ERR_FORMAT, "%s was ended by signal %d: %s", p->program,
                         WTERMSIG(p->exit_status), text);
    } else {
        status = vo_fail(err, VO_ERR_FORMAT, "%s failed (exit code %d): %s", p->program,
                         WEXITSTATUS(p->exit_status), text);
    }
    vo_free(line);
    return status;
}

vo_status vo_process_finish(vo_process *p, vo_error *err) {
    char dropped[4096];
    ssize_t n;
    if (p->failed != VO_OK) return say_failed(p, err);
    if (!p->running) return judge_exit(p, err);
    /* The pipes may outlive the child in a grandchild, and the child its pipes: look at both. */
    for (;;) {
        pid_t done = waitpid(p->pid, &p->exit_status, WNOHANG);
        if (done < 0 && errno != EINTR) {
            p->running = false;
            return vo_fail_system(err, errno, "cannot wait for", p->program);
        }
        if (done == p->pid) break;
        vo_status status = exchange(p, dropped, sizeof dropped, EXIT_POLL_MS, &n, err);
        if (status != VO_OK) return status;
    }
    p->running = false;
    /* What it wrote last; the pipe holds 64 KiB, and a grandchild must not keep us here. */
    for (int i = 0; i < 64 && p->complaint >= 0 && listen_to_complaints(p); i++) {}
    return judge_exit(p, err);
}

void vo_process_destroy(vo_process *p) {
    if (p == NULL) return;
    close_fd(&p->in);
    close_fd(&p->out);
    close_fd(&p->complaint);
    kill_group(p);
    vo_free(p->chunk);
    vo_free(p->program);
    vo_free(p);
}
