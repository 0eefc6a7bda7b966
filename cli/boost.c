/* SPDX-License-Identifier: MIT
 *
 * Files of phrases to boost: PHRASE or PHRASE<TAB>WEIGHT, one a line. A mark of byte order at the
 * beginning and CR before LF are passed over.
 */
#include "report.h"
#include "speech.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r";

/* Length of the UTF-8 sequence at s, 0 when it is none: no overlong forms, no surrogates. */
static int sequence(const unsigned char *s) {
    const int n = s[0] < 0x80 ? 1 : s[0] < 0xC2 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    if (n == 0 || s[0] > 0xF4) return 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if (n < 3) return n;
    const int second = (s[0] & 0xF) << 8 | s[1];
    if (n == 3) return second < 0xA0 || (second >= 0xDA0 && second < 0xE00) ? 0 : 3;
    return second < 0x90 || second >= 0x490 ? 0 : 4;
}

static bool is_utf8(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        const int n = sequence(s);
        if (n == 0) return false;
        s += n;
    }
    return true;
}

/* What is wrong with the text of a weight, NULL when nothing is. */
static const char *read_weight(const char *text, float *weight) {
    char *end;
    errno = 0;
    const double value = strtod(text, &end);
    if (end == text || end[strspn(end, blanks)]) return "behind the tab stands no weight";
    if (!(value >= 0 && value <= VOCIS_MAX_BOOST_WEIGHT)) return "the weight is not from 0 to 4";
    *weight = (float)value;
    return NULL;
}

/* Adds the phrase of a line, unless it is blank or a comment. What is wrong with it, or NULL. */
static const char *read_line(char *line, boost_list *list) {
    const char *wrong = NULL;
    line += strspn(line, blanks);
    vocis_boost phrase = {.phrase = line, .weight = 1};
    if (!*line || *line == '#') return NULL;
    if (!is_utf8(line)) return "the line is not UTF-8";
    char *tab = strchr(line, '\t');
    if (tab) *tab++ = '\0';
    if (tab && tab[strspn(tab, blanks)]) wrong = read_weight(tab, &phrase.weight);
    if (!wrong && strlen(line) > VOCIS_MAX_BOOST_BYTES)
        wrong = "the phrase is longer than 256 bytes";
    if (!wrong && list->n == VOCIS_MAX_BOOST) wrong = "this is one phrase more than 10000";
    if (!wrong) list->phrases[list->n++] = phrase;
    return wrong;
}

bool boost_read(const speech_options *o, boost_list *list, vocis_transcribe_params *params) {
    size_t size;
    int number = 1;
    const char *wrong = NULL;
    *list = (boost_list){0};
    if (!o->boost) return true;
    list->text = file_read_all(o->boost, &size);
    if (!list->text) return false;
    list->phrases = checked(malloc(VOCIS_MAX_BOOST * sizeof *list->phrases));
    char *line = list->text, *const end = list->text + size;
    if (strncmp(line, "\xEF\xBB\xBF", 3) == 0) line += 3;
    for (; line < end && !wrong; number++) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        if (!next) next = end;
        *next = '\0';
        wrong = strlen(line) < (size_t)(next - line) ? "the line holds a NUL byte"
                                                     : read_line(line, list);
        line = next + 1;
    }
    if (wrong) {
        char *where = format_text("%s:%d", o->boost, number - 1);
        report_error(where, VOCIS_ERR_FORMAT, wrong);
        free(where);
        boost_free(list);
        return false;
    }
    params->boost = list->phrases;
    params->n_boost = list->n;
    return true;
}

void boost_free(boost_list *list) {
    free(list->text);
    free(list->phrases);
    *list = (boost_list){0};
}
