/* SPDX-License-Identifier: MIT
 *
 * The languages of Whisper. Their order is the order of the language ids in the vocabulary;
 * the hundredth (Cantonese) exists in the vocabulary of large-v3 only.
 */
#include "text/tokenizer.h"

static const char *const languages[][2] = {
    {"en", "english"},        {"zh", "chinese"},     {"de", "german"},        {"es", "spanish"},
    {"ru", "russian"},        {"ko", "korean"},      {"fr", "french"},        {"ja", "japanese"},
    {"pt", "portuguese"},     {"tr", "turkish"},     {"pl", "polish"},        {"ca", "catalan"},
    {"nl", "dutch"},          {"ar", "arabic"},      {"sv", "swedish"},       {"it", "italian"},
    {"id", "indonesian"},     {"hi", "hindi"},       {"fi", "finnish"},       {"vi", "vietnamese"},
    {"he", "hebrew"},         {"uk", "ukrainian"},   {"el", "greek"},         {"ms", "malay"},
    {"cs", "czech"},          {"ro", "romanian"},    {"da", "danish"},        {"hu", "hungarian"},
    {"ta", "tamil"},          {"no", "norwegian"},   {"th", "thai"},          {"ur", "urdu"},
    {"hr", "croatian"},       {"bg", "bulgarian"},   {"lt", "lithuanian"},    {"la", "latin"},
    {"mi", "maori"},          {"ml", "malayalam"},   {"cy", "welsh"},         {"sk", "slovak"},
    {"te", "telugu"},         {"fa", "persian"},     {"lv", "latvian"},       {"bn", "bengali"},
    {"sr", "serbian"},        {"az", "azerbaijani"}, {"sl", "slovenian"},     {"kn", "kannada"},
    {"et", "estonian"},       {"mk", "macedonian"},  {"br", "breton"},        {"eu", "basque"},
    {"is", "icelandic"},      {"hy", "armenian"},    {"ne", "nepali"},        {"mn", "mongolian"},
    {"bs", "bosnian"},        {"kk", "kazakh"},      {"sq", "albanian"},      {"sw", "swahili"},
    {"gl", "galician"},       {"mr", "marathi"},     {"pa", "punjabi"},       {"si", "sinhala"},
    {"km", "khmer"},          {"sn", "shona"},       {"yo", "yoruba"},        {"so", "somali"},
    {"af", "afrikaans"},      {"oc", "occitan"},     {"ka", "georgian"},      {"be", "belarusian"},
    {"tg", "tajik"},          {"sd", "sindhi"},      {"gu", "gujarati"},      {"am", "amharic"},
    {"yi", "yiddish"},        {"lo", "lao"},         {"uz", "uzbek"},         {"fo", "faroese"},
    {"ht", "haitian creole"}, {"ps", "pashto"},      {"tk", "turkmen"},       {"nn", "nynorsk"},
    {"mt", "maltese"},        {"sa", "sanskrit"},    {"lb", "luxembourgish"}, {"my", "myanmar"},
    {"bo", "tibetan"},        {"tl", "tagalog"},     {"mg", "malagasy"},      {"as", "assamese"},
    {"tt", "tatar"},          {"haw", "hawaiian"},   {"ln", "lingala"},       {"ha", "hausa"},
    {"ba", "bashkir"},        {"jw", "javanese"},    {"su", "sundanese"},     {"yue", "cantonese"},
};

#define N_LANGUAGES ((int)(sizeof languages / sizeof languages[0]))

static const char *const aliases[][2] = {
    {"burmese", "my"},  {"valencian", "ca"},     {"flemish", "nl"},   {"haitian", "ht"},
    {"pushto", "ps"},   {"letzeburgesch", "lb"}, {"panjabi", "pa"},   {"moldavian", "ro"},
    {"moldovan", "ro"}, {"sinhalese", "si"},     {"castilian", "es"}, {"mandarin", "zh"},
};

/* Compares without regard to the case of ASCII letters, whatever the locale says. */
static bool same_word(const char *name, const char *lower) {
    for (; *name && *lower; name++, lower++) {
        char c = *name >= 'A' && *name <= 'Z' ? (char)(*name + ('a' - 'A')) : *name;
        if (c != *lower) return false;
    }
    return *name == *lower;
}

int vo_language_find(const char *name) {
    if (!name) return -1;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        if (same_word(name, aliases[i][0])) {
            name = aliases[i][1];
            break;
        }
    }
    for (int i = 0; i < N_LANGUAGES; i++)
        if (same_word(name, languages[i][0]) || same_word(name, languages[i][1])) return i;
    return -1;
}

const char *vo_language_code(int index) {
    return index >= 0 && index < N_LANGUAGES ? languages[index][0] : NULL;
}

const char *vo_language_name(int index) {
    return index >= 0 && index < N_LANGUAGES ? languages[index][1] : NULL;
}
