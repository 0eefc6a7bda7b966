/* SPDX-License-Identifier: MIT
 *
 * UTF-8 after table 3-7 of the Unicode standard. One scanner serves all: it tells a valid
 * sequence from the longest prefix of one ("maximal subpart"), which is the unit that becomes
 * one U+FFFD.
 */
#include "base/utf8.h"
#include "base/memory.h"

/* Returns the length of the valid sequence at s, or 0 and in *bad the length of the maximal
 * subpart there (at least 1). *cut: the subpart was valid so far and ended only with s. */
static int scan(const unsigned char *s, size_t size, uint32_t *cp, int *bad, bool *cut) {
    *bad = 1;
    *cut = false;
    unsigned lead = s[0];
    int need;
    unsigned low = 0x80, high = 0xbf; /* range of the second byte */
    uint32_t value;
    if (lead < 0x80) {
        *cp = lead;
        return 1;
    }
    if (lead < 0xc2 || lead > 0xf4) return 0;
    if (lead < 0xe0) {
        need = 2;
        value = lead & 0x1f;
    } else if (lead < 0xf0) {
        need = 3;
        value = lead & 0x0f;
        if (lead == 0xe0) low = 0xa0;  /* shorter forms exist below */
        if (lead == 0xed) high = 0x9f; /* surrogates above */
    } else {
        need = 4;
        value = lead & 0x07;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f; /* U+110000 above */
    }
    for (int i = 1; i < need; i++) {
        *bad = i;
        if ((size_t)i >= size) {
            *cut = true;
            return 0;
        }
        if (s[i] < low || s[i] > high) return 0;
        value = value << 6 | (s[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *cp = value;
    return need;
}

int vo_utf8_next(const char *s, size_t size, uint32_t *cp) {
    int bad;
    bool cut;
    if (size == 0) return 0;
    return scan((const unsigned char *)s, size, cp, &bad, &cut);
}

int vo_utf8_put(uint32_t cp, char out[4]) {
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) return 0;
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

bool vo_utf8_valid(const char *s, size_t size) {
    uint32_t cp;
    for (size_t i = 0; i < size;) {
        int n = vo_utf8_next(s + i, size - i, &cp);
        if (n == 0) return false;
        i += (size_t)n;
    }
    return true;
}

char *vo_utf8_sanitize(const char *s, size_t size, size_t *out_size) {
    size_t room;
    if (!vo_mul_size(size, 3, &room) || !vo_add_size(room, 1, &room)) return NULL;
    if (vo_utf8_valid(s, size)) room = size + 1; /* else each byte may become three */
    char *out = vo_alloc_uninitialized(room);
    if (out == NULL) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        uint32_t cp;
        int bad;
        bool cut;
        int len = scan((const unsigned char *)s + i, size - i, &cp, &bad, &cut);
        n += (size_t)vo_utf8_put(len > 0 ? cp : 0xfffd, out + n);
        i += (size_t)(len > 0 ? len : bad);
    }
    out[n] = '\0';
    if (out_size != NULL) *out_size = n;
    return out;
}

int vo_utf8_incomplete_tail(const char *s, size_t size) {
    for (size_t k = size < 3 ? size : 3; k > 0; k--) {
        uint32_t cp;
        int bad;
        bool cut;
        if (scan((const unsigned char *)s + size - k, k, &cp, &bad, &cut) == 0 && cut)
            return (int)k;
    }
    return 0;
}
