/* SPDX-License-Identifier: MIT
 *
 * Scripts by blocks of Unicode (Blocks.txt of version 15), of which only letters count: digits and
 * punctuation in a block belong to nobody.
 */
#include "text/script.h"

#include "base/utf8.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

#include <string.h>

enum {
    LATIN,
    GREEK,
    CYRILLIC,
    ARMENIAN,
    HEBREW,
    ARABIC,
    DEVANAGARI,
    BENGALI,
    GURMUKHI,
    GUJARATI,
    TAMIL,
    TELUGU,
    KANNADA,
    MALAYALAM,
    SINHALA,
    THAI,
    LAO,
    TIBETAN,
    MYANMAR,
    GEORGIAN,
    HANGUL,
    ETHIOPIC,
    KHMER,
    KANA,
    HAN
};

/* Ascending. */
static const struct {
    uint32_t first, last;
    int script;
} blocks[] = {
    {0x0041, 0x024f, LATIN},      {0x0250, 0x02af, LATIN},     {0x0370, 0x03ff, GREEK},
    {0x0400, 0x052f, CYRILLIC},   {0x0530, 0x058f, ARMENIAN},  {0x0590, 0x05ff, HEBREW},
    {0x0600, 0x06ff, ARABIC},     {0x0750, 0x077f, ARABIC},    {0x08a0, 0x08ff, ARABIC},
    {0x0900, 0x097f, DEVANAGARI}, {0x0980, 0x09ff, BENGALI},   {0x0a00, 0x0a7f, GURMUKHI},
    {0x0a80, 0x0aff, GUJARATI},   {0x0b80, 0x0bff, TAMIL},     {0x0c00, 0x0c7f, TELUGU},
    {0x0c80, 0x0cff, KANNADA},    {0x0d00, 0x0d7f, MALAYALAM}, {0x0d80, 0x0dff, SINHALA},
    {0x0e00, 0x0e7f, THAI},       {0x0e80, 0x0eff, LAO},       {0x0f00, 0x0fff, TIBETAN},
    {0x1000, 0x109f, MYANMAR},    {0x10a0, 0x10ff, GEORGIAN},  {0x1100, 0x11ff, HANGUL},
    {0x1200, 0x139f, ETHIOPIC},   {0x1780, 0x17ff, KHMER},     {0x1c90, 0x1cbf, GEORGIAN},
    {0x1e00, 0x1eff, LATIN},      {0x1f00, 0x1fff, GREEK},     {0x2d00, 0x2d2f, GEORGIAN},
    {0x2d80, 0x2ddf, ETHIOPIC},   {0x3040, 0x30ff, KANA},      {0x3130, 0x318f, HANGUL},
    {0x31f0, 0x31ff, KANA},       {0x3400, 0x4dbf, HAN},       {0x4e00, 0x9fff, HAN},
    {0xa9e0, 0xa9ff, MYANMAR},    {0xaa60, 0xaa7f, MYANMAR},   {0xac00, 0xd7a3, HANGUL},
    {0xf900, 0xfaff, HAN},        {0xfb1d, 0xfb4f, HEBREW},    {0xfb50, 0xfdff, ARABIC},
    {0xfe70, 0xfeff, ARABIC},     {0xff21, 0xff5a, LATIN},     {0xff66, 0xff9f, KANA},
    {0x20000, 0x323af, HAN},
};
enum { N_BLOCKS = sizeof blocks / sizeof *blocks };

#define BIT(script) ((vo_scripts)1 << (script))

/* What is not written in Latin letters alone. */
static const struct {
    const char *language;
    vo_scripts scripts;
} written[] = {
    {"zh", BIT(HAN)},
    {"yue", BIT(HAN)},
    {"ja", BIT(HAN) | BIT(KANA)},
    {"ko", BIT(HANGUL) | BIT(HAN)},
    {"ru", BIT(CYRILLIC)},
    {"uk", BIT(CYRILLIC)},
    {"bg", BIT(CYRILLIC)},
    {"mk", BIT(CYRILLIC)},
    {"be", BIT(CYRILLIC)},
    {"tg", BIT(CYRILLIC)},
    {"ba", BIT(CYRILLIC)},
    {"tt", BIT(CYRILLIC) | BIT(LATIN)},
    {"kk", BIT(CYRILLIC) | BIT(LATIN)},
    {"mn", BIT(CYRILLIC) | BIT(LATIN)},
    {"sr", BIT(CYRILLIC) | BIT(LATIN)},
    {"bs", BIT(CYRILLIC) | BIT(LATIN)},
    {"az", BIT(CYRILLIC) | BIT(LATIN)},
    {"uz", BIT(CYRILLIC) | BIT(LATIN)},
    {"tk", BIT(CYRILLIC) | BIT(LATIN)},
    {"el", BIT(GREEK)},
    {"hy", BIT(ARMENIAN)},
    {"ka", BIT(GEORGIAN)},
    {"he", BIT(HEBREW)},
    {"yi", BIT(HEBREW)},
    {"ar", BIT(ARABIC)},
    {"fa", BIT(ARABIC)},
    {"ur", BIT(ARABIC)},
    {"ps", BIT(ARABIC)},
    {"sd", BIT(ARABIC) | BIT(DEVANAGARI)},
    {"pa", BIT(GURMUKHI) | BIT(ARABIC)},
    {"hi", BIT(DEVANAGARI)},
    {"mr", BIT(DEVANAGARI)},
    {"ne", BIT(DEVANAGARI)},
    {"sa", BIT(DEVANAGARI)},
    {"bn", BIT(BENGALI)},
    {"as", BIT(BENGALI)},
    {"gu", BIT(GUJARATI)},
    {"ta", BIT(TAMIL)},
    {"te", BIT(TELUGU)},
    {"kn", BIT(KANNADA)},
    {"ml", BIT(MALAYALAM)},
    {"si", BIT(SINHALA)},
    {"th", BIT(THAI)},
    {"lo", BIT(LAO)},
    {"bo", BIT(TIBETAN)},
    {"my", BIT(MYANMAR)},
    {"am", BIT(ETHIOPIC)},
    {"km", BIT(KHMER)},
    {"ms", BIT(LATIN) | BIT(ARABIC)},
    {"ha", BIT(LATIN) | BIT(ARABIC)},
};

vo_scripts vo_script_of(uint32_t cp) {
    int low = 0, high = N_BLOCKS;
    while (low < high) { /* the first block that does not end before cp */
        const int middle = (low + high) / 2;
        if (blocks[middle].last < cp)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == N_BLOCKS || cp < blocks[low].first || !vo_is_letter(cp)) return 0;
    return BIT(blocks[low].script);
}

vo_scripts vo_language_scripts(int language) {
    const char *code = vo_language_code(language);
    for (size_t i = 0; code && i < sizeof written / sizeof *written; i++)
        if (strcmp(written[i].language, code) == 0) return written[i].scripts;
    return BIT(LATIN);
}

vo_letters vo_count_letters(const char *text, size_t size, vo_scripts scripts) {
    vo_letters letters = {0};
    for (size_t at = 0; at < size;) {
        uint32_t cp;
        const int bytes = vo_utf8_next(text + at, size - at, &cp);
        const vo_scripts script = bytes ? vo_script_of(cp) : 0;
        at += bytes ? (size_t)bytes : 1;
        letters.all += script != 0;
        letters.inside += (script & scripts) != 0;
    }
    return letters;
}
