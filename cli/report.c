/* SPDX-License-Identifier: MIT
 *
 * Messages, the progress bar, and writing that notices when it fails.
 */
#include "report.h"

#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool quiet, json_errors;
    bool terminal, color; /* of standard error */
    bool bar_shown, output_failed;
    double bar_time;
} state;
static volatile sig_atomic_t signals;

static void on_signal(int number) {
    if (signals++) _exit(EXIT_INTERRUPTED);
}

void report_start(void) {
    struct sigaction stop = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    const int wanted[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        struct sigaction old;
        /* nohup and background jobs of simple shells ask for signals to be ignored */
        if (sigaction(wanted[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(wanted[i], &stop, NULL);
    }
    sigaction(SIGPIPE, &ignore, NULL); /* a closed pipe is an error of write() */
    const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
    state.terminal = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
    state.color = state.terminal && !(no_color && *no_color);
}

void report_configure(bool quiet, bool json_errors) {
    state.quiet = quiet;
    state.json_errors = json_errors;
}

bool interrupted(void) {
    return signals > 0;
}

/* ---- text ----------------------------------------------------------------------------------- */

void *checked(void *memory) {
    if (memory) return memory;
    fputs("vocis: out of memory\n", stderr);
    exit(EXIT_FAILED);
}

char *format_text(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    char *text = checked(n < 0 ? NULL : malloc((size_t)n + 1));
    vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

/* Bytes of the valid UTF-8 sequence at s, 0 if there is none (RFC 3629, table of section 4). */
static int sequence_length(const unsigned char *s) {
    unsigned char low = 0x80, high = 0xbf;
    int n = s[0] < 0x80                    ? 1
            : s[0] >= 0xc2 && s[0] <= 0xdf ? 2
            : s[0] >= 0xe0 && s[0] <= 0xef ? 3
            : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                           : 0;
    if (s[0] == 0xe0) low = 0xa0;
    if (s[0] == 0xed) high = 0x9f;
    if (s[0] == 0xf0) low = 0x90;
    if (s[0] == 0xf4) high = 0x8f;
    for (int i = 1; i < n; i++, low = 0x80, high = 0xbf)
        if (s[i] < low || s[i] > high) return 0;
    return n;
}

char *clean_line(const char *text) {
    char *out = checked(malloc(3 * strlen(text) + 1)), *to = out;
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = sequence_length(s);
        if (n == 0) {
            memcpy(to, "\xef\xbf\xbd", 3);
            to += 3;
            s++;
            continue;
        }
        /* U+0080..U+009F are control characters to some terminals */
        bool control = *s < 0x20 || *s == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
        if (control)
            *to++ = ' ';
        else
            memcpy(to, s, (size_t)n), to += n;
        s += n;
    }
    while (to > out && to[-1] == ' ') to--;
    *to = '\0';
    size_t blanks = strspn(out, " ");
    memmove(out, out + blanks, strlen(out + blanks) + 1);
    return out;
}

void format_bytes(int64_t bytes, char *out, size_t size) {
    double value = (double)bytes;
    const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int unit = 0;
    for (; value >= 999.5 && unit < 4; unit++) value /= 1000;
    snprintf(out, size, unit > 0 && value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void print_json(const char *name, const char *status, const char *message) {
    char *file = clean_line(name ? name : ""), *text = clean_line(message);
    json_t *o = json_pack("{s:o, s:s, s:s}", "file", name ? json_string(file) : json_null(),
                          "status", status, "message", text);
    char *line = checked(o ? json_dumps(o, JSON_COMPACT) : NULL);
    fprintf(stderr, "%s\n", line);
    free(line);
    json_decref(o);
    free(file);
    free(text);
}

static void print_message(const char *kind, const char *color, const char *name,
                          const char *message) {
    char *shown = name ? clean_line(name) : NULL, *text = clean_line(message);
    fprintf(stderr, "%svocis:%s%s%s %s%s%s\n", state.color ? color : "", kind[0] ? " " : "", kind,
            state.color ? "\033[0m" : "", shown ? shown : "", shown ? ": " : "", text);
    free(shown);
    free(text);
}

void report_error(const char *name, vocis_status status, const char *message) {
    progress_clear();
    if (state.json_errors)
        print_json(name, vocis_status_name(status), message);
    else
        print_message("", "\033[31m", name, message);
}

void report_warning(const char *name, const char *sentence) {
    progress_clear();
    if (state.json_errors)
        print_json(name, "warning", sentence);
    else
        print_message("warning:", "\033[33m", name, sentence);
}

void report_note(const char *format, ...) {
    va_list args;
    if (!state.terminal || state.quiet) return;
    progress_clear();
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

void report_log(void *user, vocis_log_level level, const char *line) {
    if (level >= VOCIS_LOG_WARN) report_warning(NULL, line);
}

/* ---- the bar -------------------------------------------------------------------------------- */

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int width_of(int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) return size.ws_col;
    return 80;
}

void progress_draw(const char *label, double fraction, const char *behind) {
    enum { LABEL = 24, MAX_BAR = 30 };
    double time = now();
    if (!state.terminal || state.quiet || (state.bar_shown && time - state.bar_time < 0.1)) return;
    char bar[MAX_BAR + 1];
    if (!(fraction > 0)) fraction = 0;
    if (fraction > 1) fraction = 1;
    int cells = width_of(STDERR_FILENO) - LABEL - (int)strlen(behind) - 12;
    if (cells > MAX_BAR) cells = MAX_BAR;
    if (cells < 0) cells = 0;
    int full = (int)(fraction * cells);
    memset(bar, '-', (size_t)cells);
    memset(bar, '#', (size_t)full);
    bar[cells] = '\0';
    char *name = clean_line(label);
    /* cut between characters, not within one */
    size_t length = strlen(name);
    if (length > LABEL) {
        length = LABEL;
        while (length > 0 && ((unsigned char)name[length] & 0xc0) == 0x80) length--;
    }
    fprintf(stderr, "\r\033[K%.*s %s%s%s %3d%% %s", (int)length, name,
            state.color ? "\033[36m" : "", bar, state.color ? "\033[0m" : "", (int)(100 * fraction),
            behind);
    fflush(stderr);
    free(name);
    state.bar_shown = true;
    state.bar_time = time;
}

void progress_clear(void) {
    if (!state.bar_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    state.bar_shown = false;
}

bool progress_download(void *user, const char *file, int64_t done, int64_t total) {
    char have[16], all[16], behind[48];
    format_bytes(done, have, sizeof have);
    format_bytes(total, all, sizeof all);
    snprintf(behind, sizeof behind, "%s of %s", have, total > 0 ? all : "?");
    progress_draw(file, total > 0 ? (double)done / (double)total : 0, behind);
    return !interrupted();
}

/* ---- standard output ------------------------------------------------------------------------ */

static bool output_check(bool good) {
    if (good || state.output_failed) return !state.output_failed;
    state.output_failed = true;
    report_error("standard output", VOCIS_ERR_IO, strerror(errno));
    return false;
}

bool output_write(const char *data, size_t size) {
    if (state.output_failed) return false;
    progress_clear();
    return output_check(fwrite(data, 1, size, stdout) == size);
}

bool output_puts(const char *text) {
    return output_write(text, strlen(text));
}

bool output_printf(const char *format, ...) {
    va_list args;
    if (state.output_failed) return false;
    progress_clear();
    va_start(args, format);
    bool good = vfprintf(stdout, format, args) >= 0;
    va_end(args);
    return output_check(good);
}

bool output_flush(void) {
    return !state.output_failed && output_check(fflush(stdout) == 0);
}

bool output_sync(void) {
    if (!output_flush()) return false;
    /* pipes, terminals and what was never open cannot be flushed any further */
    bool good = fsync(STDOUT_FILENO) == 0 || errno == EINVAL || errno == ENOTSUP ||
                errno == EROFS || errno == EBADF;
    return output_check(good);
}

bool output_failed(void) {
    return state.output_failed;
}

int output_width(void) {
    return width_of(STDOUT_FILENO);
}

int output_finish(int status) {
    progress_clear();
    bool earlier = ferror(stdout) != 0;
    errno = 0;
    /* A descriptor that was closed from the start matters only if something was written. */
    bool good = fflush(stdout) == 0 && !earlier;
    if (!good && errno == 0) errno = EIO;
    good = output_check(good);
    if (good && fclose(stdout) != 0 && errno != EBADF) good = output_check(false);
    return !good && status == EXIT_DONE ? EXIT_FAILED : status;
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* The temporary of a document has the same name every time, so that the next run uses up what a
 * killed one has left. Who holds its lock may write it; -1 and errno. */
static int open_temporary(const char *path) {
    struct stat mine, named;
    for (;;) {
        int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666), locked;
        if (fd < 0) return -1;
        do locked = flock(fd, LOCK_EX);
        while (locked != 0 && errno == EINTR);
        if (locked == 0 && fstat(fd, &mine) == 0) {
            /* who held it before has given it the document's name */
            bool same = stat(path, &named) == 0 && named.st_dev == mine.st_dev &&
                        named.st_ino == mine.st_ino;
            if (same && ftruncate(fd, 0) == 0) return fd;
            if (!same) {
                close(fd);
                continue;
            }
        }
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
}

/* Makes a new name survive a power cut; not every file system can. */
static void sync_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? format_text("%.*s", (int)(slash - path) + 1, path) : format_text(".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

bool file_write_atomic(const char *name, const char *path, const char *data, size_t size) {
    char *temporary = format_text("%s.vocis-tmp", path);
    int fd = open_temporary(temporary);
    bool good = fd >= 0;
    if (good) {
        good = write_all(fd, data, size) && fsync(fd) == 0 && rename(temporary, path) == 0;
        int saved = errno;
        if (!good) unlink(temporary);
        if (close(fd) != 0 && good) good = false, saved = errno;
        errno = saved;
    }
    if (good) {
        sync_folder_of(path);
    } else {
        char *message = format_text("cannot write %s: %s", path, strerror(errno));
        report_error(name, VOCIS_ERR_IO, message);
        free(message);
    }
    free(temporary);
    return good;
}

bool make_folders(const char *path) {
    char *copy = format_text("%s", path);
    bool good = true;
    for (char *p = copy + 1; good && *copy; p++) {
        if (*p != '/' && *p != '\0') continue;
        char c = *p;
        *p = '\0';
        struct stat info;
        good = mkdir(copy, 0777) == 0 || (stat(copy, &info) == 0 && S_ISDIR(info.st_mode));
        *p = c;
        if (c == '\0') break;
    }
    if (!good) report_error(path, VOCIS_ERR_IO, "this folder cannot be made");
    free(copy);
    return good;
}

char *file_read_all(const char *path, size_t *size) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    size_t capacity = 1 << 16, n = 0, got = 1;
    char *data = checked(malloc(capacity));
    while (file && got > 0) {
        if (capacity - n < 2) data = checked(realloc(data, capacity *= 2));
        got = fread(data + n, 1, capacity - n - 1, file);
        n += got;
    }
    bool failed = !file || ferror(file);
    if (failed) report_error(path, file ? VOCIS_ERR_IO : VOCIS_ERR_NOT_FOUND, strerror(errno));
    if (file && file != stdin) fclose(file);
    data[n] = '\0';
    *size = n;
    if (failed) free(data);
    return failed ? NULL : data;
}
