/* SPDX-License-Identifier: MIT
 *
 * Whisper's language-independent normaliser (openai/whisper, normalizers/basic.py) and the
 * steps that the English one shares with it.
 */
#include "text/normalize.h"

#include "base/utf8.h"
#include "text/text.h"
#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

bool vo_word_at(const char *s, size_t size, size_t pos) {
    return vo_is_word(vo_char_at(s, size, pos));
}

bool vo_word_before(const char *s, size_t pos) {
    return vo_is_word(vo_char_before(s, pos));
}

size_t vo_find_byte(const char *s, size_t size, size_t from, char c) {
    const char *p = from < size ? memchr(s + from, c, size - from) : NULL;
    return p ? (size_t)(p - s) : size;
}

bool vo_next_word(const char *s, size_t size, size_t *pos, const char **word, size_t *length) {
    size_t i = *pos, start = size;
    while (i < size) {
        size_t here = i;
        bool space = vo_is_python_space(vo_read_char(s, size, &i));
        if (!space && start == size) start = here;
        if (space && start < size) {
            i = here;
            break;
        }
    }
    *pos = i;
    *word = start < size ? s + start : "";
    *length = i - start;
    return start < size;
}

void vo_remove_brackets(const char *s, size_t size, vo_buf *out) {
    size_t close = 0; /* the next closing bracket at or behind i, once looked for */
    for (size_t i = 0; i < size; i++) {
        if (s[i] == '<' || s[i] == '[') {
            if (close <= i) {
                close = i + 1;
                while (close < size && s[close] != '>' && s[close] != ']') close++;
            }
            if (close < size) {
                i = close;
                continue;
            }
        }
        vo_buf_append(out, s + i, 1);
    }
}

void vo_remove_parentheses(const char *s, size_t size, vo_buf *out) {
    size_t close = 0;
    for (size_t i = 0; i < size; i++) {
        if (s[i] == '(') {
            if (close <= i) close = vo_find_byte(s, size, i + 1, ')');
            if (close < size && close > i + 1) { /* "()" stays */
                i = close;
                continue;
            }
        }
        vo_buf_append(out, s + i, 1);
    }
}

static const char *spelt_in_ascii(int32_t cp) {
    switch (cp) {
    case 0x153: /* œ */
        return "oe";
    case 0x152:
        return "OE";
    case 0xf8: /* ø */
        return "o";
    case 0xd8:
        return "O";
    case 0xe6: /* æ */
        return "ae";
    case 0xc6:
        return "AE";
    case 0xdf: /* ß */
        return "ss";
    case 0x1e9e:
        return "SS";
    case 0x111: /* đ */
    case 0xf0:  /* ð */
        return "d";
    case 0x110:
    case 0xd0:
        return "D";
    case 0xfe: /* þ; the reference has lower case for both */
    case 0xde:
        return "th";
    case 0x142: /* ł */
        return "l";
    case 0x141:
        return "L";
    default:
        return NULL;
    }
}

static bool contains(const char *set, uint32_t cp) {
    size_t size = strlen(set);
    for (size_t i = 0; i < size;)
        if (vo_read_char(set, size, &i) == cp) return true;
    return false;
}

void vo_remove_diacritics(const char *s, size_t size, const char *keep, vo_buf *out) {
    for (size_t i = 0; i < size;) {
        int32_t parts[VO_MAX_DECOMPOSED];
        int n = vo_decompose(vo_read_char(s, size, &i), parts);
        /* Canonical order is not needed: whatever it could swap is dropped or becomes a space. */
        for (int k = 0; k < n; k++) {
            uint32_t cp = (uint32_t)parts[k];
            const char *ascii = spelt_in_ascii(parts[k]);
            if (ascii) {
                vo_buf_puts(out, ascii);
            } else if (!vo_is_symbol_or_mark(cp) || contains(keep, cp)) {
                vo_append_char(out, cp);
            } else if (!vo_is_nonspacing_mark(cp)) {
                vo_buf_append(out, " ", 1);
            }
        }
    }
}

static void remove_symbols(const char *s, size_t size, vo_buf *out) {
    size_t n;
    int32_t *composed = vo_compose(s, size, &n);
    if (!composed) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t cp = (uint32_t)composed[i];
        vo_append_char(out, vo_is_symbol_or_mark(cp) ? ' ' : cp);
    }
    vo_free(composed);
}

/* A space between any two grapheme clusters. */
static void split_graphemes(const char *s, size_t size, vo_buf *out) {
    uint32_t before = 0;
    utf8proc_int32_t state = 0;
    for (size_t i = 0; i < size;) {
        bool first = i == 0;
        uint32_t cp = vo_read_char(s, size, &i);
        if (!first && utf8proc_grapheme_break_stateful((utf8proc_int32_t)before,
                                                       (utf8proc_int32_t)cp, &state))
            vo_buf_append(out, " ", 1);
        vo_append_char(out, cp);
        before = cp;
    }
}

void vo_collapse_spaces(const char *s, size_t size, vo_buf *out) {
    bool after_space = false;
    for (size_t i = 0; i < size;) {
        size_t start = i;
        bool space = vo_is_python_space(vo_read_char(s, size, &i));
        if (!space) vo_buf_append(out, s + start, i - start);
        if (space && !after_space) vo_buf_append(out, " ", 1);
        after_space = space;
    }
}

static void swap(vo_buf *a, vo_buf *b) {
    vo_buf t = *a;
    *a = *b;
    *b = t;
    vo_buf_clear(b);
}

char *vo_normalize_basic(const char *text, bool remove_diacritics, bool split_letters) {
    vo_buf a = {0}, b = {0};
    size_t size;
    char *valid = vo_utf8_sanitize(text, strlen(text), &size), *result = NULL;
    if (!valid) return NULL;
    vo_append_lower(valid, size, &a);
    vo_remove_brackets(a.data, a.size, &b), swap(&a, &b);
    vo_remove_parentheses(a.data, a.size, &b), swap(&a, &b);
    if (remove_diacritics)
        vo_remove_diacritics(a.data, a.size, "", &b);
    else
        remove_symbols(a.data, a.size, &b);
    swap(&a, &b);
    vo_append_lower(a.data, a.size, &b), swap(&a, &b);
    if (split_letters) split_graphemes(a.data, a.size, &b), swap(&a, &b);
    vo_collapse_spaces(a.data, a.size, &b);
    if (!a.failed && !b.failed) result = vo_strndup(b.size ? b.data : "", b.size);
    vo_buf_free(&a);
    vo_buf_free(&b);
    vo_free(valid);
    return result;
}
