/* SPDX-License-Identifier: MIT */
#include "pipeline/agree.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <string.h>

/* Scripts that set no blanks between words: CJK, Thai, Lao, Burmese, Khmer. */
static bool stands_alone(uint32_t c) {
    return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) ||
           (c >= 0x1780 && c <= 0x17FF) || (c >= 0x2E80 && c <= 0xA4CF) ||
           (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFFEF) || c >= 0x20000;
}

/* Bytes of the next word. */
static size_t word_length(const char *text) {
    const size_t size = strlen(text);
    size_t at = strspn(text, " ");
    const size_t begin = at;
    while (at < size && text[at] != ' ') {
        uint32_t c = 0;
        const int n = vo_utf8_next(text + at, size - at, &c);
        const bool alone = stands_alone(c);
        if (alone && at > begin) break;
        at += n > 0 ? (size_t)n : 1;
        if (alone) break;
    }
    return at;
}

/* Bytes of the words that both begin with. The last word of either may still grow: blanks or the
 * end behind it do not say. */
static size_t common_words(const char *a, const char *b) {
    size_t at = 0;
    for (;;) {
        const size_t n = word_length(a + at);
        if (n == 0 || word_length(b + at) != n || memcmp(a + at, b + at, n) != 0) return at;
        at += n;
    }
}

vo_status vo_agree(vo_agreement *a, const char *continuation, vo_error *err) {
    const size_t agreed = a->rest ? common_words(a->rest, continuation) : 0;
    const char *before = a->stable ? a->stable : "";
    char *stable = vo_format("%s%.*s", before, (int)agreed, continuation);
    char *rest = vo_strdup(continuation + agreed);
    if (!stable || !rest) {
        vo_free(stable);
        vo_free(rest);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for text");
    }
    vo_agreement_clear(a);
    *a = (vo_agreement){stable, rest};
    return VO_OK;
}

void vo_agreement_clear(vo_agreement *a) {
    vo_free(a->stable);
    vo_free(a->rest);
    *a = (vo_agreement){0};
}
