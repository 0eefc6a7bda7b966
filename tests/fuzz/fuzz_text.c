/* SPDX-License-Identifier: MIT
 *
 * Any bytes as text: encoding must give them back, and normalisers, error rates and compression
 * ratio must survive them. The same bytes as numbers are decoded as ids, and as a file they are
 * read as a vocabulary. Seeds: any text; tests/data/text is a good corpus.
 */
#include "base/memory.h"
#include "base/utf8.h"
#include "text/bpe.h"
#include "text/text.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition) {
    if (!condition) abort();
}

static void fuzz_tokenizer(const vo_tokenizer *t, const char *bytes, size_t size) {
    vo_error err = {0};
    int32_t *ids;
    int n;
    size_t pos = 0;
    require(vo_tokenizer_encode(t, bytes, size, &ids, &n, &err) == VO_OK);
    for (int i = 0; i < n; i++) {
        size_t length;
        const char *token = vo_tokenizer_token(t, ids[i], &length);
        require(length > 0 && length <= size - pos && memcmp(token, bytes + pos, length) == 0);
        pos += length;
    }
    require(pos == size);
    vo_free(ids);

    n = (int)(size / sizeof ids[0]);
    ids = vo_alloc_array((size_t)n, sizeof ids[0]);
    require(ids != NULL);
    if (n > 0) memcpy(ids, bytes, (size_t)n * sizeof ids[0]);
    for (int i = 0; i < n; i++)
        if (i % 2) ids[i] &= 0xffff; /* mostly ids that exist */
    char *text = vo_tokenizer_decode(t, ids, n);
    require(text && vo_utf8_valid(text, strlen(text)));
    vo_free(text);
    vo_free(ids);
}

static void fuzz_normalizers(const char *text) {
    char *results[5] = {vo_normalize_english(text)};
    for (int k = 0; k < 4; k++) results[k + 1] = vo_normalize_basic(text, k & 1, k & 2);
    for (int k = 0; k < 5; k++) {
        require(results[k] && vo_utf8_valid(results[k], strlen(results[k])));
        vo_error_rate rate;
        vo_error err = {0};
        require(vo_word_errors(text, results[k], &rate, &err) == VO_OK);
        require(rate.substitutions >= 0 && rate.deletions >= 0 && rate.insertions >= 0);
        require(vo_char_errors(results[k], text, &rate, &err) == VO_OK);
        require(rate.substitutions + rate.deletions <= rate.reference);
    }
    for (int k = 0; k < 5; k++) vo_free(results[k]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static vo_tokenizer *tokenizers[2];
    for (int k = 0; k < 2; k++) {
        if (!tokenizers[k]) require(vo_tokenizer_create(51864 + k, &tokenizers[k], NULL) == VO_OK);
        fuzz_tokenizer(tokenizers[k], (const char *)data, size);
    }
    char *text = vo_strndup((const char *)data, size);
    require(text != NULL);
    fuzz_normalizers(text);
    vo_free(text);
    require(vo_compression_ratio((const char *)data, size) >= 0);
    vo_bpe bpe;
    if (vo_bpe_load(&bpe, (const char *)data, size, 1, NULL) == VO_OK) vo_bpe_free(&bpe);
    return 0;
}
