/* SPDX-License-Identifier: MIT
 *
 * Whisper's English normaliser (openai/whisper, normalizers/english.py): a fixed order of
 * rewrites, each one pass over the text, so that two transcripts which differ only in style
 * become equal. Where the reference's regular expressions do something odd, so does this.
 */
#include "text/normalize.h"

#include "base/utf8.h"
#include "text/embed.h"
#include "text/text.h"
#include "text/unicode.h"

#include <string.h>

/* The text and the buffer for the next step. */
typedef struct state {
    vo_buf text, next;
} state;

static void advance(state *s) {
    vo_buf t = s->text;
    s->text = s->next;
    s->next = t;
    vo_buf_clear(&s->next);
    vo_buf_append(&s->text, "", 0); /* so that the pointer is valid for an empty text too */
}

/* Rewrites in the order in which they are applied. A pattern ends at a word boundary; one that
 * begins with a letter begins at one too, but for "n't". */
static const char *const rewrites[][2] = {
    {"hmm", ""},
    {"mm", ""},
    {"mhm", ""},
    {"mmm", ""},
    {"uh", ""},
    {"um", ""},
    {NULL, NULL}, /* here spaces before apostrophes go */
    {"won't", "will not"},
    {"can't", "can not"},
    {"let's", "let us"},
    {"ain't", "aint"},
    {"y'all", "you all"},
    {"wanna", "want to"},
    {"gotta", "got to"},
    {"gonna", "going to"},
    {"i'ma", "i am going to"},
    {"imma", "i am going to"},
    {"woulda", "would have"},
    {"coulda", "could have"},
    {"shoulda", "should have"},
    {"ma'am", "madam"},
    {"mr", "mister "},
    {"mrs", "missus "},
    {"st", "saint "},
    {"dr", "doctor "},
    {"prof", "professor "},
    {"capt", "captain "},
    {"gov", "governor "},
    {"ald", "alderman "},
    {"gen", "general "},
    {"sen", "senator "},
    {"rep", "representative "},
    {"pres", "president "},
    {"rev", "reverend "},
    {"hon", "honorable "},
    {"asst", "assistant "},
    {"assoc", "associate "},
    {"lt", "lieutenant "},
    {"col", "colonel "},
    {"jr", "junior "},
    {"sr", "senior "},
    {"esq", "esquire "},
    {"'d been", " had been"},
    {"'s been", " has been"},
    {"'d gone", " had gone"},
    {"'s gone", " has gone"},
    {"'d done", " had done"},
    {"'s got", " has got"},
    {"n't", " not"},
    {"'re", " are"},
    {"'s", " is"},
    {"'d", " would"},
    {"'ll", " will"},
    {"'t", " not"},
    {"'ve", " have"},
    {"'m", " am"},
};

static void rewrite(state *s, const char *pattern, const char *replacement) {
    const char *text = s->text.data;
    size_t size = s->text.size, length = strlen(pattern), copied = 0;
    bool boundary = pattern[0] != '\'' && strcmp(pattern, "n't") != 0;
    for (size_t i = 0; (i = vo_find_byte(text, size, i, pattern[0])) + length <= size;) {
        if (memcmp(text + i, pattern, length) != 0 || (boundary && vo_word_before(text, i)) ||
            vo_word_at(text, size, i + length)) {
            i++;
            continue;
        }
        vo_buf_append(&s->next, text + copied, i - copied);
        vo_buf_puts(&s->next, replacement);
        copied = i += length;
    }
    if (copied == 0) return;
    vo_buf_append(&s->next, text + copied, size - copied);
    advance(s);
}

static void remove_spaces_before_apostrophes(state *s) {
    size_t run = 0; /* where, in the output, the white space at its end begins */
    for (size_t i = 0; i < s->text.size;) {
        size_t start = i;
        uint32_t cp = vo_read_char(s->text.data, s->text.size, &i);
        if (cp == '\'' && !s->next.failed) s->next.size = run;
        vo_buf_append(&s->next, s->text.data + start, i - start);
        if (!vo_is_python_space(cp)) run = s->next.size;
    }
    advance(s);
}

/* "1,000" -> "1000"; a digit that closed one pair does not open the next. */
static void remove_commas_between_digits(state *s) {
    const char *text = s->text.data;
    size_t size = s->text.size;
    for (size_t i = 0; i < size;) {
        size_t start = i;
        bool digit = vo_is_digit(vo_read_char(text, size, &i));
        vo_buf_append(&s->next, text + start, i - start);
        if (!digit || i + 1 >= size || text[i] != ',') continue;
        size_t after = i + 1;
        if (!vo_is_digit(vo_read_char(text, size, &after))) continue;
        vo_buf_append(&s->next, text + i + 1, after - i - 1);
        i = after;
    }
    advance(s);
}

static bool ascii_digit(uint32_t cp) {
    return cp >= '0' && cp <= '9';
}

/* A period that no digit follows becomes a space; what follows is passed over with it. */
static void remove_periods(state *s) {
    const char *text = s->text.data;
    size_t size = s->text.size;
    for (size_t i = 0; i < size;) {
        size_t start = i;
        if (text[i] == '.' && !(i + 1 < size && ascii_digit((unsigned char)text[i + 1]))) {
            vo_buf_append(&s->next, " ", 1);
            start = ++i;
            if (i >= size) break;
        }
        vo_read_char(text, size, &i);
        vo_buf_append(&s->next, text + start, i - start);
    }
    advance(s);
}

/* Bytes of the currency sign or period at s[pos], 0 if there is none. */
static size_t currency_or_period(const char *s, size_t size, size_t pos) {
    size_t start = pos;
    switch (vo_read_char(s, size, &pos)) {
    case '.':
    case '$':
    case 0xa2:   /* ¢ */
    case 0x20ac: /* € */
    case 0xa3:   /* £ */
        return pos - start;
    default:
        return 0;
    }
}

/* Currency signs and periods with no digit behind them, and percent signs with none before,
 * become spaces. Two passes, as in the reference. */
static void remove_stray_signs(state *s) {
    size_t size = s->text.size, i, start;
    for (i = start = 0; i < size; start = i) {
        size_t sign = currency_or_period(s->text.data, size, i);
        if (sign && i + sign < size && !ascii_digit((unsigned char)s->text.data[i + sign])) {
            vo_buf_append(&s->next, " ", 1);
            start = i += sign;
        }
        vo_read_char(s->text.data, size, &i);
        vo_buf_append(&s->next, s->text.data + start, i - start);
    }
    advance(s);
    size = s->text.size;
    for (i = start = 0; i < size; start = i) {
        uint32_t cp = vo_read_char(s->text.data, size, &i);
        vo_buf_append(&s->next, s->text.data + start, i - start);
        if (!ascii_digit(cp) && i < size && s->text.data[i] == '%') {
            vo_buf_append(&s->next, " ", 1);
            i++;
        }
    }
    advance(s);
}

/* Looks a word up in the sorted "british american" lines; NULL if it is not there. */
static const char *american_spelling(const char *word, size_t length, size_t *size) {
    vo_embedded map = vo_embedded_english_spelling();
    size_t low = 0, high = map.size; /* both at the beginning of a line */
    while (low < high) {
        size_t line = low + (high - low) / 2;
        while (line > low && map.data[line - 1] != '\n') line--;
        size_t end = vo_find_byte(map.data, map.size, line, '\n');
        size_t key = vo_find_byte(map.data, end, line, ' ') - line;
        int order = memcmp(map.data + line, word, key < length ? key : length);
        if (order == 0) order = key < length ? -1 : key > length;
        if (order == 0) {
            size_t value = line + key + 1;
            *size = end - value;
            return map.data + value;
        }
        if (order < 0)
            low = end + 1;
        else
            high = line;
    }
    return NULL;
}

static void standardize_spelling(state *s) {
    const char *word;
    size_t pos = 0, length;
    while (vo_next_word(s->text.data, s->text.size, &pos, &word, &length)) {
        size_t size;
        const char *american = american_spelling(word, length, &size);
        if (s->next.size) vo_buf_append(&s->next, " ", 1);
        vo_buf_append(&s->next, american ? american : word, american ? size : length);
    }
    advance(s);
}

char *vo_normalize_english(const char *text) {
    state s = {0};
    size_t size;
    char *valid = vo_utf8_sanitize(text, strlen(text), &size), *result = NULL;
    if (!valid) return NULL;
    vo_append_lower(valid, size, &s.text);
    vo_free(valid);
    vo_remove_brackets(s.text.data, s.text.size, &s.next);
    advance(&s);
    vo_remove_parentheses(s.text.data, s.text.size, &s.next);
    advance(&s);
    for (size_t i = 0; i < sizeof rewrites / sizeof rewrites[0]; i++) {
        if (rewrites[i][0])
            rewrite(&s, rewrites[i][0], rewrites[i][1]);
        else
            remove_spaces_before_apostrophes(&s);
    }
    remove_commas_between_digits(&s);
    remove_periods(&s);
    vo_remove_diacritics(s.text.data, s.text.size, ".%$¢€£", &s.next);
    advance(&s);
    vo_normalize_numbers(s.text.data, s.text.size, &s.next);
    advance(&s);
    standardize_spelling(&s);
    remove_stray_signs(&s);
    vo_collapse_spaces(s.text.data, s.text.size, &s.next);
    if (!s.text.failed && !s.next.failed)
        result = vo_strndup(s.next.size ? s.next.data : "", s.next.size);
    vo_buf_free(&s.text);
    vo_buf_free(&s.next);
    return result;
}
