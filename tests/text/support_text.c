/* SPDX-License-Identifier: MIT
 *
 * JSON goldens for the text tests.
 */
#include "text/support_text.h"

json_t *load_json(const char *path) {
    json_error_t error;
    json_t *value = json_load_file(path, 0, &error);
    if (!value) fail_msg("%s: %s", path, error.text);
    return value;
}

const char *get_string(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no string \"%s\" in a golden", key);
    return text;
}

void visit_texts(const json_t *value, void (*visit)(void *user, const char *text), void *user) {
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach((json_t *)(uintptr_t)value, key, member) {
        bool text = strcmp(key, "text") == 0 || strcmp(key, "reference") == 0;
        if (text && json_is_string(member))
            visit(user, json_string_value(member));
        else
            visit_texts(member, visit, user);
    }
    json_array_foreach(value, i, member) visit_texts(member, visit, user);
}

const char *test_data(const char *name, char path[1024]) {
    const char *root = getenv("VOCIS_TEST_DATA");
    if (!root || !*root) {
        print_message("VOCIS_TEST_DATA is not set: %s is not tested\n", name);
        skip();
    }
    snprintf(path, 1024, "%s/%s", root, name);
    return path;
}
