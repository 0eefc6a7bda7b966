/* SPDX-License-Identifier: MIT
 *
 * Tokens are bytes, so a character may need several: tokens are first grouped until their bytes are
 * whole characters, then groups become words where a space or a mark begins one.
 */
#include "text/words.h"

#include "base/memory.h"
#include "text/unicode.h"

#include <string.h>

static vo_status no_memory(vo_error *err) {
    return vo_fail(err, VO_ERR_MEMORY, "no memory for words");
}

void vo_text_words_free(vo_text_word *words, int n) {
    for (int i = 0; words && i < n; i++) vo_free(words[i].text);
    vo_free(words);
}

/* Without white space at its ends, as Python's strip(): where it begins, and its bytes. */
static const char *strip(const char *text, size_t *size) {
    size_t begin = 0, end = 0, all = strlen(text);
    for (size_t pos = 0; pos < all;) {
        const size_t at = pos;
        if (vo_is_python_space(vo_read_char(text, all, &pos))) {
            if (end == 0) begin = pos;
        } else {
            if (end == 0) begin = at;
            end = pos;
        }
    }
    *size = end > begin ? end - begin : 0;
    return text + begin;
}

/* Whether the stripped text is a part of the list. */
static bool is_part(const char *text, const char *list) {
    size_t size;
    const char *word = strip(text, &size), *at = list;
    for (const size_t all = strlen(list); size <= (size_t)(list + all - at); at++)
        if (memcmp(at, word, size) == 0) return true;
    return false;
}

/* ---- groups of whole characters -------------------------------------------------------------- */

static const char broken[] = "\xef\xbf\xbd"; /* U+FFFD, in place of bytes that are no character */

static int64_t count_characters(const char *text, const char *end) {
    int64_t n = 0;
    for (; text < end; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

/* Where character i of the text is; its end when there is none. */
static const char *find_character(const char *text, int64_t i) {
    for (; *text; text++)
        if ((*text & 0xc0) != 0x80 && i-- == 0) break;
    return text;
}

/* Whether text, at character `at` of the whole text, is whole, or as broken as that is. */
static bool is_whole(const char *text, const char *all, int64_t at) {
    const char *found = strstr(text, broken);
    if (!found) return true;
    return strncmp(find_character(all, at + count_characters(text, found)), broken, 3) == 0;
}

/* Groups become words of `words`, [n_ids] large. */
static vo_status group(const vo_tokenizer *tokenizer, const int32_t *ids, int n_ids,
                       vo_text_word *words, int *n, vo_error *err) {
    char *all = vo_tokenizer_decode(tokenizer, ids, n_ids);
    int64_t passed = 0; /* characters in groups that have ended */
    vo_status status = all ? VO_OK : no_memory(err);
    for (int first = 0, i = 0; status == VO_OK && i < n_ids; i++) {
        char *text = vo_tokenizer_decode(tokenizer, ids + first, i + 1 - first);
        if (!text) {
            status = no_memory(err);
        } else if (is_whole(text, all, passed)) {
            words[(*n)++] = (vo_text_word){text, i + 1 - first};
            passed += count_characters(text, text + strlen(text));
            first = i + 1;
        } else {
            vo_free(text);
        }
    }
    vo_free(all);
    return status;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The text of `from` moves to the beginning or the end of `to`. */
static vo_status merge(vo_text_word *to, vo_text_word *from, bool before, vo_error *err) {
    char *joined =
        before ? vo_format("%s%s", from->text, to->text) : vo_format("%s%s", to->text, from->text);
    if (!joined) return no_memory(err);
    vo_free(to->text);
    to->text = joined;
    to->n_ids += from->n_ids;
    from->text[0] = '\0';
    from->n_ids = 0;
    return VO_OK;
}

/* Groups become words of `ids`; the end of text begins one. */
static vo_status join(vo_text_word *words, int *n, const int32_t *ids, int32_t eot, vo_error *err) {
    static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    const int groups = *n;
    vo_status status = VO_OK;
    int kept = 0;
    for (int i = 0, at = 0; i < groups; i++) {
        vo_text_word *word = &words[i];
        const bool begins =
            ids[at] >= eot || word->text[0] == ' ' || kept == 0 || is_part(word->text, marks);
        at += word->n_ids;
        if (status == VO_OK && !begins) {
            status = merge(&words[kept - 1], word, false, err);
            if (status == VO_OK) vo_free(word->text);
            if (status == VO_OK) continue;
        }
        words[kept++] = *word;
        if (kept - 1 < i) word->text = NULL;
    }
    *n = kept;
    return status;
}

static bool has_spaces(const char *language) {
    static const char *const without[] = {"zh", "ja", "th", "lo", "my", "yue"};
    for (size_t i = 0; language && i < sizeof without / sizeof *without; i++)
        if (strcmp(language, without[i]) == 0) return false;
    return true;
}

vo_status vo_split_words(const vo_tokenizer *tokenizer, const int32_t *ids, int n_ids,
                         const char *language, vo_text_word **out, int *n_out, vo_error *err) {
    const int32_t eot = vo_tokenizer_ids(tokenizer)->eot;
    const size_t count = (size_t)n_ids + 1;
    int32_t *ended = vo_alloc_array(count, sizeof *ended);
    vo_text_word *words = vo_alloc_array(count, sizeof *words);
    int n = 0;
    *out = NULL;
    *n_out = 0;
    vo_status status = ended && words ? VO_OK : no_memory(err);
    if (status == VO_OK) {
        if (n_ids > 0) memcpy(ended, ids, (size_t)n_ids * sizeof *ids);
        ended[n_ids] = eot;
        status = group(tokenizer, ended, n_ids + 1, words, &n, err);
    }
    if (status == VO_OK && has_spaces(language)) status = join(words, &n, ended, eot, err);
    vo_free(ended);
    if (status == VO_OK && n > 1) { /* the last one is the end of text, or goes with it */
        vo_free(words[n - 1].text);
        words[n - 1].text = NULL;
        *out = words;
        *n_out = n - 1;
        return VO_OK;
    }
    vo_text_words_free(words, n);
    return status;
}

/* ---- punctuation ----------------------------------------------------------------------------- */

vo_status vo_merge_punctuations(vo_text_word *words, int n, const char *prepended,
                                const char *appended, vo_error *err) {
    vo_status status = VO_OK;
    for (int i = n - 2, to = n - 1; status == VO_OK && i >= 0; i--) {
        if (words[i].text[0] == ' ' && is_part(words[i].text, prepended))
            status = merge(&words[to], &words[i], true, err);
        else
            to = i;
    }
    for (int i = 1, to = 0; status == VO_OK && i < n; i++) {
        const size_t size = strlen(words[to].text);
        const bool spaced = size > 0 && words[to].text[size - 1] == ' ';
        if (!spaced && strstr(appended, words[i].text))
            status = merge(&words[to], &words[i], false, err);
        else
            to = i;
    }
    return status;
}
