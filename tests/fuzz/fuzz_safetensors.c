/* SPDX-License-Identifier: MIT
 *
 * Seeds: make_corpus.py's safetensors folder.
 */
#include "fuzz/support_weights.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_weights(data, size);
    return 0;
}
