/* SPDX-License-Identifier: MIT
 *
 * GPT-2's split pattern as a hand-written scanner: after contractions and one optional space,
 * a piece is a longest run of one class (letters, numbers, other); white space gives its last
 * character to the piece that follows.
 */
#include "text/split.h"

#include "base/utf8.h"
#include "text/unicode.h"

enum char_class { CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE, CLASS_OTHER };

static enum char_class classify(const char *s, size_t size, size_t *length) {
    uint32_t cp = (unsigned char)s[0];
    *length = 1;
    if (cp >= 128) {
        int n = vo_utf8_next(s, size, &cp);
        if (n == 0) return CLASS_OTHER;
        *length = (size_t)n;
    }
    if (vo_is_letter(cp)) return CLASS_LETTER;
    if (vo_is_number(cp)) return CLASS_NUMBER;
    return vo_is_white_space(cp) ? CLASS_SPACE : CLASS_OTHER;
}

static size_t contraction(const char *s, size_t size) {
    if (s[0] != '\'' || size < 2) return 0;
    if (s[1] == 's' || s[1] == 't' || s[1] == 'm' || s[1] == 'd') return 2;
    if (size < 3) return 0;
    bool two = (s[1] == 'r' && s[2] == 'e') || (s[1] == 'v' && s[2] == 'e') ||
               (s[1] == 'l' && s[2] == 'l');
    return two ? 3 : 0;
}

size_t vo_split_gpt2(const char *s, size_t size) {
    size_t pos = contraction(s, size), length;
    if (pos) return pos;
    enum char_class kind = classify(s, size, &length);
    if (s[0] == ' ' && size > 1) {
        size_t after;
        enum char_class next = classify(s + 1, size - 1, &after);
        if (next != CLASS_SPACE) {
            kind = next;
            length += after;
        }
    }
    size_t last = 0; /* where the last character of the run begins */
    pos = length;
    while (pos < size && classify(s + pos, size - pos, &length) == kind) {
        last = pos;
        pos += length;
    }
    return kind == CLASS_SPACE && pos < size && last > 0 ? last : pos;
}
