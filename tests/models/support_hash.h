/* SPDX-License-Identifier: MIT
 *
 * Tiny Whispers whose weights are a hash of their names, so that nothing has to be stored: the
 * same as tools/golden/whisper.py makes for its goldens.
 */
#ifndef VO_TESTS_SUPPORT_HASH_H
#define VO_TESTS_SUPPORT_HASH_H

#include <stdbool.h>

/* Two layers of two heads of 16 on each side. Writes a safetensors file with OpenAI's names. */
bool hash_write_whisper(const char *path, int n_mels, int n_vocab);
/* The same without the second layer of either side. */
bool hash_write_small_whisper(const char *path, int n_mels, int n_vocab);

/* Fixtures of cmocka: a folder of our own with such a model, of 80 mels, at "hash". */
int hash_folder_set_up(void **state);
int hash_folder_tear_down(void **state);
/* "folder/name" in one of a few static buffers. */
const char *hash_folder_at(const char *name);

#endif
