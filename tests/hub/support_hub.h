/* SPDX-License-Identifier: MIT
 *
 * A temporary home without any setting of the user's, a pretended hub, and models to ask for.
 */
#ifndef TESTS_HUB_SUPPORT_HUB_H
#define TESTS_HUB_SUPPORT_HUB_H

#include "hub/hub_internal.h"

#include <sys/types.h>

#define COMMIT "0123456789abcdef0123456789abcdef01234567"

typedef struct hub_world {
    char *root;  /* temporary folder, HOME */
    char *cache; /* cache_dir of params */
    char *log;   /* what the server was asked */
    pid_t server;
    int server_input;
    int port;
} hub_world;

/* Makes the folder and clears the environment; with_server also starts the hub and points
 * HF_ENDPOINT to it. */
hub_world *world_create(bool with_server);
void world_destroy(hub_world *world);

/* Context with short time limits and the world's cache folder. */
vo_hub_context world_context(const hub_world *world);

/* A model of model.bin (300000 bytes), config.json and an optional vocabulary.json at
 * "<owner>/m", with the right hashes; parts of packages fake-model-part{1,2} if wanted.
 * Valid until the next call. */
const vo_hub_entry *fake_entry(const char *owner, bool packages);

/* The bytes that server.py makes for a name, in fresh memory. */
unsigned char *fake_content(const char *name, size_t size);

/* Whole small file as text in fresh memory, "" when there is none. */
char *read_text(const char *path);
void write_text(const char *path, const char *text);
/* root/name in fresh memory. */
char *in_root(const hub_world *world, const char *name);
int count_lines_with(const char *text, const char *a, const char *b);
/* Fails the test unless the file holds what server.py makes for its name. */
void assert_content(const char *dir, const char *name, size_t size);

#endif
