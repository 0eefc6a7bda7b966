/* SPDX-License-Identifier: MIT
 *
 * Names of documents.
 */
#include "names.h"

#include "report.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* As Python's os.path.splitext: a leading dot begins no extension. */
static char *stem_of(const char *input) {
    if (strcmp(input, "-") == 0) return format_text("stdin");
    const char *slash = strrchr(input, '/'), *base = slash ? slash + 1 : input;
    const char *first = base + strspn(base, "."), *dot = strrchr(first, '.');
    size_t length = dot ? (size_t)(dot - base) : strlen(base);
    return format_text("%.*s", (int)length, base);
}

/* Numbered names stay off the plain stems of all inputs, so that a-2.wav keeps its own. */
static bool is_taken(const char *name, char *const *names, char *const *plain, int n, int index) {
    for (int i = 0; i < index; i++)
        if (strcmp(names[i], name) == 0) return true;
    for (int i = 0; i < n; i++)
        if (i != index && strcmp(plain[i], name) == 0 && strcmp(plain[index], name) != 0)
            return true;
    return false;
}

char **names_of_documents(const char *const *inputs, int n) {
    char **names = checked(calloc((size_t)n + 1, sizeof *names));
    char **plain = checked(calloc((size_t)n + 1, sizeof *plain));
    for (int i = 0; i < n; i++) plain[i] = stem_of(inputs[i]);
    for (int i = 0; i < n; i++) {
        char *name = format_text("%s", plain[i]);
        for (int number = 2; is_taken(name, names, plain, n, i); number++) {
            free(name);
            name = format_text("%s-%d", plain[i], number);
        }
        names[i] = name;
    }
    for (int i = 0; i < n; i++) free(plain[i]);
    free(plain);
    return names;
}

const char *names_same_file(const char *path, const char *const *inputs, int n) {
    struct stat target, input;
    if (stat(path, &target) != 0) return NULL;
    for (int i = 0; i < n; i++)
        if (stat(inputs[i], &input) == 0 && input.st_dev == target.st_dev &&
            input.st_ino == target.st_ino)
            return inputs[i];
    return NULL;
}
