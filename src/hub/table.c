/* SPDX-License-Identifier: MIT
 *
 * The table of models that have a name. All facts are in models.def.
 */
#include "hub/hub_internal.h"

#include <string.h>

#define NEEDED(name, bytes, sha256)                                                                \
    { name, bytes, sha256, false }
#define OPTIONAL(name, bytes, sha256)                                                              \
    { name, bytes, sha256, true }

/* Models that share a vocabulary share these files byte for byte. */
#define MULTILINGUAL_TEXT                                                                          \
    NEEDED("tokenizer.json", 2203239,                                                              \
           "fb7b63191e9bb045082c79fd742a3106a12c99513ab30df4a0d47fa6cb6fd0ab"),                    \
        NEEDED("vocabulary.txt", 459861,                                                           \
               "34ce3fe1c5041027b3f8d42912270993f986dbc4bb34cf27f951e34a1e453913")
#define ENGLISH_TEXT                                                                               \
    NEEDED("tokenizer.json", 2128466,                                                              \
           "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df"),                    \
        NEEDED("vocabulary.txt", 422309,                                                           \
               "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf")
#define V3_VOCABULARY                                                                              \
    NEEDED("vocabulary.json", 1068114,                                                             \
           "c69260f2ab26d659b7c398f9a2b2b48ed0df16c3b47d7326782fd9cba71690c1")
/* The model file itself says how many mel bands it wants. */
#define V3_FEATURES                                                                                \
    OPTIONAL("preprocessor_config.json", 340,                                                      \
             "7ccc62c6f2765af1f3b46c00c9b5894426835a05021c8b9c01eecb6dfb542711")

#define FILES(...) ((const vo_hub_file[]){__VA_ARGS__, {NULL, 0, NULL, false}})
#define PARTS(...) ((const vo_hub_part[]){__VA_ARGS__, {NULL, NULL, NULL, NULL}})

static const vo_hub_entry table[] = {
#include "hub/models.def"
};

enum { TABLE_SIZE = sizeof table / sizeof table[0] };

int vo_hub_count(void) {
    return TABLE_SIZE;
}

const vo_hub_model *vo_hub_at(int index) {
    return index >= 0 && index < TABLE_SIZE ? &table[index].model : NULL;
}

static bool list_has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *p = list; p && *p;) {
        size_t n = strcspn(p, " ");
        if (n == length && memcmp(p, word, n) == 0) return true;
        p += n;
        p += strspn(p, " ");
    }
    return false;
}

const vo_hub_entry *vo_hub_find_entry(const char *name) {
    if (!name || !*name) return NULL;
    for (int i = 0; i < TABLE_SIZE; i++) {
        const vo_hub_entry *e = &table[i];
        if (strcmp(e->model.name, name) == 0 || list_has_word(e->aliases, name) ||
            strcmp(e->model.repo, name) == 0 || (e->also_repo && strcmp(e->also_repo, name) == 0))
            return e;
    }
    return NULL;
}

const vo_hub_model *vo_hub_find(const char *name) {
    const vo_hub_entry *entry = vo_hub_find_entry(name);
    return entry ? &entry->model : NULL;
}

const vo_hub_file *vo_hub_find_file(const vo_hub_entry *entry, const char *name) {
    for (const vo_hub_file *f = entry->files; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}
