/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_SUPPORT_WEIGHTS_H
#define TESTS_FUZZ_SUPPORT_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

/* Opens the bytes as a weight file and reads through every view that comes out. Aborts when the
 * reader breaks its word: an error without a sentence, a view that cannot be read, a leak. */
void fuzz_weights(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
