/* SPDX-License-Identifier: MIT
 *
 * Folders for tests, made with stdio and mkdtemp, so that files are tested by other means than
 * themselves; only the removal is ours.
 */
#include "base/support_scratch.h"
#include "base/file.h"
#include "base/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int scratch_setup(void **state) {
    static char folder[64];
    strcpy(folder, "/tmp/vocis-test-XXXXXX");
    *state = mkdtemp(folder);
    return *state == NULL;
}

int scratch_teardown(void **state) {
    return vo_remove_tree(*state, NULL) != VO_OK;
}

const char *scratch_path(const char *folder, const char *name) {
    static char paths[5][1024];
    static int next;
    char *path = paths[next++ % 5];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void scratch_write(const char *folder, const char *name, const char *text) {
    char path[1024];
    strcpy(path, scratch_path(folder, name));
    char *slash = strrchr(path, '/');
    *slash = '\0';
    assert_int_equal(vo_make_dirs(path, NULL), VO_OK);
    *slash = '/';
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}
