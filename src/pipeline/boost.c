/* SPDX-License-Identifier: MIT
 *
 * Spells boosted phrases as a model may write them, and says of every token whether it begins and
 * ends inside a word.
 */
#include "pipeline/boost.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

#include <math.h>
#include <string.h>

/* Natural logarithms that a phrase of weight 1 may cost. */
static const float usual_budget = 4.0f;

enum { SPELLINGS = 4 };

typedef struct spellings {
    vo_boost_phrase *phrases; /* [n]; tokens are owned */
    int n;
} spellings;

/* ---- tokens --------------------------------------------------------------------------------- */

/* Letters and digits of scripts that put spaces between words. Of those that do not, and of tokens
 * that are a part of a character, any may begin a word. */
static bool is_inside(uint32_t cp) {
    return cp < 0x2000 && (vo_is_word(cp) || vo_is_nonspacing_mark(cp));
}

static uint8_t kind_of(const char *text, size_t size) {
    uint32_t cp;
    size_t last = size;
    int kind = 0;
    if (vo_utf8_next(text, size, &cp) && is_inside(cp)) kind |= VO_TOKEN_BEGINS_INSIDE;
    while (last > 0 && size - last < 4 && (last == size || ((uint8_t)text[last] & 0xC0) == 0x80))
        last--;
    if (vo_utf8_next(text + last, size - last, &cp) && is_inside(cp)) kind |= VO_TOKEN_ENDS_INSIDE;
    return (uint8_t)kind;
}

static uint8_t *create_kinds(const vo_tokenizer *tokenizer) {
    const int n = vo_tokenizer_ids(tokenizer)->eot;
    uint8_t *kinds = vo_alloc((size_t)n);
    for (int i = 0; kinds && i < n; i++) {
        size_t size;
        const char *text = vo_tokenizer_token(tokenizer, i, &size);
        kinds[i] = kind_of(text, size);
    }
    return kinds;
}

/* ---- phrases -------------------------------------------------------------------------------- */

/* " phrase" with single spaces between its words; whether there is a word at all. */
static bool spell(const char *phrase, vo_buf *out) {
    const size_t size = strlen(phrase);
    bool blank = true, words = false;
    vo_buf_clear(out);
    for (size_t pos = 0; pos < size;) {
        const uint32_t cp = vo_read_char(phrase, size, &pos);
        const bool space = vo_is_white_space(cp) || cp < 0x20 || cp == 0x7F;
        if (!space && blank) vo_buf_puts(out, " ");
        if (!space) vo_append_char(out, cp);
        words = words || vo_is_letter(cp) || vo_is_number(cp);
        blank = space;
    }
    return words;
}

static vo_status add_spelling(const vo_tokenizer *tokenizer, const char *text, size_t size,
                              float budget, spellings *list, vo_error *err) {
    int32_t *ids;
    int n;
    vo_status status = vo_tokenizer_encode(tokenizer, text, size, &ids, &n, err);
    if (status != VO_OK) return status;
    list->phrases[list->n++] = (vo_boost_phrase){.tokens = ids, .n = n, .budget = budget};
    return VO_OK;
}

static vo_status add_phrase(const vo_tokenizer *tokenizer, const vocis_boost *phrase, vo_buf *text,
                            spellings *list, vo_error *err) {
    const float budget = usual_budget * phrase->weight;
    if (!(budget > 0) || !spell(phrase->phrase, text)) return VO_OK;
    if (text->failed) return vo_fail(err, VO_ERR_MEMORY, "no memory for boosted phrases");
    vo_status status = add_spelling(tokenizer, text->data, text->size, budget, list, err);
    if (status == VO_OK)
        status = add_spelling(tokenizer, text->data + 1, text->size - 1, budget, list, err);
    if (status != VO_OK || text->data[1] < 'a' || text->data[1] > 'z') return status;
    text->data[1] = (char)(text->data[1] - 'a' + 'A');
    status = add_spelling(tokenizer, text->data, text->size, budget, list, err);
    if (status == VO_OK)
        status = add_spelling(tokenizer, text->data + 1, text->size - 1, budget, list, err);
    return status;
}

static vo_status check(const vocis_boost *phrases, int n, vo_error *err) {
    if (n < 0 || n > VOCIS_MAX_BOOST || (n > 0 && !phrases))
        return vo_fail(err, VO_ERR_ARGUMENT, "between 0 and %d phrases can be boosted, not %d",
                       VOCIS_MAX_BOOST, n);
    for (int i = 0; i < n; i++) {
        const char *text = phrases[i].phrase;
        const float weight = phrases[i].weight;
        const size_t size = text ? strnlen(text, VOCIS_MAX_BOOST_BYTES + 1) : 0;
        if (!text || size > VOCIS_MAX_BOOST_BYTES || !vo_utf8_valid(text, size))
            return vo_fail(err, VO_ERR_ARGUMENT,
                           "boosted phrase %d is not valid UTF-8 of at most %d bytes", i + 1,
                           VOCIS_MAX_BOOST_BYTES);
        if (!(weight >= 0 && weight <= VOCIS_MAX_BOOST_WEIGHT))
            return vo_fail(err, VO_ERR_ARGUMENT,
                           "the weight of boosted phrase %d is not between 0 and %d", i + 1,
                           VOCIS_MAX_BOOST_WEIGHT);
    }
    return VO_OK;
}

vo_status vo_boost_phrases(const vo_tokenizer *tokenizer, const vocis_boost *phrases, int n,
                           vo_boost **boost, vo_error *err) {
    *boost = NULL;
    vo_status status = check(phrases, n, err);
    if (status != VO_OK || n == 0) return status;
    vo_buf text = {0};
    spellings list = {.phrases = vo_alloc_array((size_t)n * SPELLINGS, sizeof *list.phrases)};
    uint8_t *kinds = create_kinds(tokenizer);
    if (!list.phrases || !kinds)
        status = vo_fail(err, VO_ERR_MEMORY, "no memory for boosted phrases");
    for (int i = 0; i < n && status == VO_OK; i++)
        status = add_phrase(tokenizer, &phrases[i], &text, &list, err);
    if (status == VO_OK && list.n > 0)
        status = vo_boost_create(list.phrases, list.n, kinds, vo_tokenizer_ids(tokenizer)->eot,
                                 boost, err);
    for (int i = 0; i < list.n; i++) vo_free((void *)list.phrases[i].tokens);
    vo_free(list.phrases);
    vo_free(kinds);
    vo_buf_free(&text);
    return status;
}
