/* SPDX-License-Identifier: MIT
 *
 * Columns, breaks and stops from the tables of utf8proc and a few lists that it has not.
 */
#include "text/lines.h"

#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

static utf8proc_category_t category(uint32_t cp) {
    return utf8proc_category((utf8proc_int32_t)cp);
}

vo_grapheme vo_grapheme_at(const char *s, size_t size, size_t pos) {
    vo_grapheme g = {0};
    utf8proc_int32_t state = 0;
    for (size_t at = pos; at < size;) {
        uint32_t cp = vo_read_char(s, size, &at);
        if (g.code_points && utf8proc_grapheme_break_stateful((utf8proc_int32_t)g.last,
                                                              (utf8proc_int32_t)cp, &state))
            break;
        /* U+FE0F asks for the picture of a character that also has a narrow form. */
        int columns = cp == 0xfe0f ? 2 : utf8proc_charwidth((utf8proc_int32_t)cp);
        g.columns = g.columns + columns < 2 ? g.columns + columns : 2;
        if (!g.code_points++) g.first = cp;
        g.last = cp;
        g.size = at - pos;
    }
    return g;
}

typedef struct range {
    uint32_t first, last;
} range;

static bool is_in(uint32_t cp, const range *ranges, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (cp >= ranges[i].first && cp <= ranges[i].last) return true;
    return false;
}
#define IS_IN(cp, ranges) is_in(cp, ranges, sizeof(ranges) / sizeof *(ranges))

bool vo_is_spaceless(uint32_t cp) {
    static const range ranges[] = {
        {0x0e00, 0x0fff},   /* Thai, Lao, Tibetan */
        {0x1000, 0x109f},   /* Myanmar */
        {0x1780, 0x17ff},   /* Khmer */
        {0x2e80, 0x312f},   /* radicals, ideographic punctuation, kana, bopomofo */
        {0x31a0, 0x4dbf},   /* bopomofo, kana, enclosed and CJK A */
        {0x4e00, 0xa4cf},   /* CJK, Yi */
        {0xf900, 0xfaff},   /* CJK compatibility */
        {0xfe30, 0xfe4f},   /* vertical forms */
        {0xff01, 0xff9f},   /* full width forms, kana of half width */
        {0x1b000, 0x1b16f}, /* kana supplements */
        {0x20000, 0x3ffff}, /* CJK B and later */
    };
    return IS_IN(cp, ranges);
}

/* Nothing begins a line with it. */
static bool is_closing(uint32_t cp) {
    static const range letters[] = {
        {0x0e2f, 0x0e30}, {0x0e32, 0x0e33}, {0x0e45, 0x0e46}, /* Thai vowels and signs */
        {0x0eaf, 0x0eb0}, {0x0eb2, 0x0eb3}, {0x0ec6, 0x0ec6}, /* Lao */
        {0x3041, 0x3041}, {0x3043, 0x3043}, {0x3045, 0x3045}, {0x3047, 0x3047},
        {0x3049, 0x3049}, {0x3063, 0x3063}, {0x3083, 0x3083}, {0x3085, 0x3085},
        {0x3087, 0x3087}, {0x308e, 0x308e}, {0x3095, 0x3096}, /* small hiragana */
        {0x30a1, 0x30a1}, {0x30a3, 0x30a3}, {0x30a5, 0x30a5}, {0x30a7, 0x30a7},
        {0x30a9, 0x30a9}, {0x30c3, 0x30c3}, {0x30e3, 0x30e3}, {0x30e5, 0x30e5},
        {0x30e7, 0x30e7}, {0x30ee, 0x30ee}, {0x30f5, 0x30f6}, /* small katakana */
        {0x31f0, 0x31ff}, {0xff67, 0xff70},
    };
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return true;
    default:
        return IS_IN(cp, letters);
    }
}

/* Nothing ends a line with it: brackets, quotes whose side is not known, vowels of Thai and Lao
 * that are written before their consonant. */
static bool is_opening(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_PS || c == UTF8PROC_CATEGORY_PI || cp == '"' || cp == '\'' ||
           (cp >= 0x0e40 && cp <= 0x0e44) || (cp >= 0x0ec0 && cp <= 0x0ec4);
}

bool vo_may_break(uint32_t before, uint32_t after) {
    return (vo_is_spaceless(before) || vo_is_spaceless(after)) && !is_opening(before) &&
           !is_closing(after) &&
           utf8proc_grapheme_break((utf8proc_int32_t)before, (utf8proc_int32_t)after);
}

/* ---- stops ---------------------------------------------------------------------------------- */

static bool is_one_of(uint32_t cp, const uint32_t *list) {
    while (*list && *list != cp) list++;
    return *list != 0;
}

/* "Mr." and its like stand before a name. text: all up to the stop, without it. */
static bool is_title(const char *text, size_t size) {
    static const char *const titles[] = {"Mr", "Mrs", "Ms", "Dr", "Prof", "St"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strlen(titles[i]) == size && memcmp(titles[i], text, size) == 0) return true;
    return false;
}

vo_stop vo_stop_of(const char *s, size_t size, uint32_t next) {
    static const uint32_t sentence[] = {'.',    '!',    '?',    0x2026, 0x3002, 0xff01,
                                        0xff1f, 0xff0e, 0xff61, 0x061f, 0x06d4, 0x0964,
                                        0x0965, 0x0589, 0x1362, 0x203c, 0x2049, 0};
    static const uint32_t clause[] = {',',    ';',    ':',    0x3001, 0xff0c, 0xff1b, 0xff1a,
                                      0xff64, 0x060c, 0x061b, 0x2013, 0x2014, 0x1363, 0};
    uint32_t cp = vo_char_before(s, size);
    utf8proc_category_t c = category(cp);
    while (cp == '"' || cp == '\'' || c == UTF8PROC_CATEGORY_PE || c == UTF8PROC_CATEGORY_PF) {
        char bytes[4];
        size -= (size_t)utf8proc_encode_char((utf8proc_int32_t)cp, (utf8proc_uint8_t *)bytes);
        cp = vo_char_before(s, size);
        c = category(cp);
    }
    if (is_one_of(cp, clause)) return VO_STOP_CLAUSE;
    if (!is_one_of(cp, sentence)) return VO_STOP_NONE;
    if (category(next) == UTF8PROC_CATEGORY_LL) return VO_STOP_CLAUSE;
    if (cp != '.' || !next) return VO_STOP_SENTENCE;
    uint32_t letter = vo_char_before(s, size - 1);
    size_t at = size > 1 ? size - 2 : 0;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80) at--;
    if (is_title(s, size - 1)) return VO_STOP_NONE;
    bool single = vo_is_letter(letter) && !vo_is_word(vo_char_before(s, at));
    return single ? VO_STOP_CLAUSE : VO_STOP_SENTENCE;
}
