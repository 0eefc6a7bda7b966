/* SPDX-License-Identifier: MIT
 *
 * Character classes, lower case and normalisation forms over utf8proc's tables. Canonical
 * ordering is done here because that of utf8proc takes quadratic time on long runs of marks.
 */
#include "text/unicode.h"

#include "base/utf8.h"

#include <string.h>
#include <utf8proc.h>

static utf8proc_category_t category(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp);
}

bool vo_is_letter(uint32_t cp) {
    if (cp < 128) return (cp | 32) >= 'a' && (cp | 32) <= 'z';
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

bool vo_is_number(uint32_t cp) {
    if (cp < 128) return cp >= '0' && cp <= '9';
    utf8proc_category_t c = category(cp);
    return c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO;
}

bool vo_is_digit(uint32_t cp) {
    if (cp < 128) return cp >= '0' && cp <= '9';
    return category(cp) == UTF8PROC_CATEGORY_ND;
}

bool vo_is_symbol_or_mark(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return (c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME) ||
           (c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_SO);
}

bool vo_is_nonspacing_mark(uint32_t cp) {
    return cp >= 128 && category(cp) == UTF8PROC_CATEGORY_MN;
}

bool vo_is_word(uint32_t cp) {
    return vo_is_letter(cp) || vo_is_number(cp) || cp == '_';
}

bool vo_is_white_space(uint32_t cp) {
    if (cp < 128) return cp == ' ' || (cp >= 9 && cp <= 13);
    return cp == 0x85 || cp == 0xa0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200a) ||
           cp == 0x2028 || cp == 0x2029 || cp == 0x202f || cp == 0x205f || cp == 0x3000;
}

bool vo_is_python_space(uint32_t cp) {
    return vo_is_white_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

int vo_digit_value(uint32_t cp) {
    if (cp < 128) return (int)cp - '0';
    /* Digits come in runs of ten (or several tens), so the distance from the start of the run
     * says the value. */
    uint32_t first = cp;
    while (first > 128 && cp - first < 50 && vo_is_digit(first - 1)) first--;
    return (int)((cp - first) % 10);
}

uint32_t vo_read_char(const char *s, size_t size, size_t *pos) {
    unsigned char c = (unsigned char)s[*pos];
    uint32_t cp = c;
    int length = 1;
    if (c >= 128) length = vo_utf8_next(s + *pos, size - *pos, &cp);
    if (length == 0) { /* only where the caller broke the promise of valid text */
        cp = 0xfffd;
        length = 1;
    }
    *pos += (size_t)length;
    return cp;
}

uint32_t vo_char_before(const char *s, size_t pos) {
    if (pos == 0) return 0;
    size_t start = pos - 1;
    while (start > 0 && pos - start < 4 && ((unsigned char)s[start] & 0xc0) == 0x80) start--;
    return vo_read_char(s, pos, &start);
}

uint32_t vo_char_at(const char *s, size_t size, size_t pos) {
    return pos < size ? vo_read_char(s, size, &pos) : 0;
}

void vo_append_char(vo_buf *out, uint32_t cp) {
    char bytes[4];
    int length = vo_utf8_put(cp, bytes);
    vo_buf_append(out, bytes, (size_t)length);
}

/* The property Cased, for characters that are not case-ignorable. */
static bool is_cased(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT ||
           cp == 0xaa || cp == 0xba || (cp >= 0x2160 && cp <= 0x217f) ||
           (cp >= 0x24b6 && cp <= 0x24e9) || (cp >= 0x1f130 && cp <= 0x1f149) ||
           (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

/* The property Case_Ignorable. */
static bool is_case_ignorable(uint32_t cp) {
    switch (cp) {
    case '\'':
    case '.':
    case ':':
    case 0xb7:
    case 0x387:
    case 0x55f:
    case 0x5f4:
    case 0x2018:
    case 0x2019:
    case 0x2024:
    case 0x2027:
    case 0xfe13:
    case 0xfe52:
    case 0xfe55:
    case 0xff07:
    case 0xff0e:
    case 0xff1a:
        return true;
    default:
        break;
    }
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_ME || c == UTF8PROC_CATEGORY_CF ||
           c == UTF8PROC_CATEGORY_LM || c == UTF8PROC_CATEGORY_SK;
}

static bool cased_follows(const char *s, size_t size, size_t pos) {
    while (pos < size) {
        uint32_t cp = vo_read_char(s, size, &pos);
        if (!is_case_ignorable(cp)) return is_cased(cp);
    }
    return false;
}

void vo_append_lower(const char *s, size_t size, vo_buf *out) {
    bool after_cased = false; /* the last character that is not case-ignorable was cased */
    for (size_t i = 0; i < size;) {
        uint32_t cp = vo_read_char(s, size, &i);
        if (cp < 128) {
            char c = cp >= 'A' && cp <= 'Z' ? (char)(cp + 32) : (char)cp;
            vo_buf_append(out, &c, 1);
        } else if (cp == 0x3a3) {
            bool final = after_cased && !cased_follows(s, size, i);
            vo_append_char(out, final ? 0x3c2 : 0x3c3);
        } else if (cp == 0x130) {
            vo_buf_append(out, "i\xcc\x87", 3);
        } else {
            vo_append_char(out, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
        }
        if (!is_case_ignorable(cp)) after_cased = is_cased(cp);
    }
}

int vo_decompose(uint32_t cp, int32_t out[VO_MAX_DECOMPOSED]) {
    int last_class = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, out, VO_MAX_DECOMPOSED,
                                                 UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE, &last_class);
    if (n < 0 || n > VO_MAX_DECOMPOSED) {
        out[0] = (int32_t)cp;
        return 1;
    }
    return (int)n;
}

static int combining_class(int32_t cp) {
    return cp < 0x300 ? 0 : utf8proc_get_property(cp)->combining_class;
}

/* Stable sort by combining class of one run of marks, by counting; temp has room for n. */
static void order_marks(int32_t *marks, size_t n, int32_t *temp) {
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[combining_class(marks[i]) + 1]++;
    for (int c = 0; c < 256; c++) start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++) temp[start[combining_class(marks[i])]++] = marks[i];
    memcpy(marks, temp, n * sizeof marks[0]);
}

static bool order_canonically(int32_t *text, size_t n) {
    int32_t *temp = NULL;
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && combining_class(text[end]) != 0) end++;
        if (end - i > 1) {
            if (!temp) temp = vo_alloc_array(n, sizeof temp[0]);
            if (!temp) return false;
            order_marks(text + i, end - i, temp);
        }
        i = end + 1;
    }
    vo_free(temp);
    return true;
}

int32_t *vo_compose(const char *s, size_t size, size_t *n) {
    vo_buf text = {0};
    int32_t one[VO_MAX_DECOMPOSED];
    for (size_t i = 0; i < size;) {
        int count = vo_decompose(vo_read_char(s, size, &i), one);
        vo_buf_append(&text, one, (size_t)count * sizeof one[0]);
    }
    *n = text.size / sizeof one[0];
    if (!text.data && !text.failed) return vo_alloc(sizeof one[0]);
    if (text.failed || !order_canonically((int32_t *)(void *)text.data, *n)) {
        vo_buf_free(&text);
        return NULL;
    }
    utf8proc_ssize_t length =
        utf8proc_normalize_utf32((utf8proc_int32_t *)(void *)text.data, (utf8proc_ssize_t)*n,
                                 UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_STABLE);
    if (length < 0) length = 0;
    *n = (size_t)length;
    return (int32_t *)(void *)text.data;
}
