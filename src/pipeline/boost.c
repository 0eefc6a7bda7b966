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

/* Natural logarithms that a phrase of weight 1 may cost. Several tokens confirm each other; one
 * alone is taken on trust. Both were chosen on 72 recordings (docs/results.md). */
static const float usual_budget = 4.0f, single_budget = 2.0f;

enum {
    SPELLINGS = 4,
    MANY_PHRASES = 100,
    /* Ids of byte-pair encoding go by how frequent a token was: what the model writes as one token
     * of the first thousand it knows without help. */
    FREQUENT_ID = 1000,
    RARE_ID = 8000
};

typedef struct speller {
    const vo_tokenizer *tokenizer;
    const uint8_t *kinds;     /* of its tokens */
    float discount;           /* of every budget, for the number of phrases */
    vo_buf text;              /* of a phrase */
    vo_boost_phrase *phrases; /* [n]; tokens are owned */
    int n;
} speller;

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

/* From 0, a phrase of nothing but the most frequent words, to 1. */
static float rarity(const uint8_t *kinds, const int32_t *ids, int n) {
    float most = 0;
    for (int i = 0; i < n; i++) {
        const bool begins = i == 0 || !(kinds[ids[i]] & VO_TOKEN_BEGINS_INSIDE);
        const bool ends = i + 1 == n || !(kinds[ids[i + 1]] & VO_TOKEN_BEGINS_INSIDE);
        const float id = fminf(fmaxf((float)ids[i], FREQUENT_ID), RARE_ID);
        const float word = logf(id / FREQUENT_ID) / logf((float)RARE_ID / FREQUENT_ID);
        most = fmaxf(most, begins && ends ? word : 1.0f);
    }
    return most;
}

/* What a phrase may cost: budget[0] as one token, budget[1] as several. */
static vo_status find_budgets(const speller *s, const char *text, size_t size, float weight,
                              float budget[2], vo_error *err) {
    int32_t *ids;
    int n;
    vo_status status = vo_tokenizer_encode(s->tokenizer, text, size, &ids, &n, err);
    if (status != VO_OK) return status;
    const float one = n == 1 ? single_budget : usual_budget, scale = rarity(s->kinds, ids, n);
    budget[0] = fminf(budget[0], weight * scale * single_budget - s->discount);
    budget[1] = fminf(budget[1], weight * scale * one - s->discount);
    vo_free(ids);
    return VO_OK;
}

static vo_status add_spellings(speller *s, const char *text, size_t size, const float budget[2],
                               vo_error *err) {
    vo_status status = VO_OK;
    for (size_t i = 0; i < 2 && status == VO_OK; i++) {
        int32_t *ids;
        int n;
        status = vo_tokenizer_encode(s->tokenizer, text + i, size - i, &ids, &n, err);
        if (status == VO_OK) s->phrases[s->n++] = (vo_boost_phrase){ids, n, budget[n > 1]};
    }
    return status;
}

static vo_status add_phrase(speller *s, const vocis_boost *phrase, vo_error *err) {
    vo_buf *text = &s->text;
    if (!spell(phrase->phrase, text)) return VO_OK;
    if (text->failed) return vo_fail(err, VO_ERR_MEMORY, "no memory for boosted phrases");
    char *first = text->data + 1;
    const char given = *first;
    float budget[2] = {INFINITY, INFINITY};
    vo_status status = find_budgets(s, text->data, text->size, phrase->weight, budget, err);
    /* A frequent word is one with a capital letter as well. */
    if (given >= 'A' && given <= 'Z') *first = (char)(given - 'A' + 'a');
    if (status == VO_OK)
        status = find_budgets(s, text->data, text->size, phrase->weight, budget, err);
    *first = given;
    if (status != VO_OK || !(budget[1] > 0)) return status;
    budget[0] = fmaxf(budget[0], 0);
    status = add_spellings(s, text->data, text->size, budget, err);
    if (status != VO_OK || given < 'a' || given > 'z') return status;
    *first = (char)(given - 'a' + 'A');
    return add_spellings(s, text->data, text->size, budget, err);
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
    speller s = {.tokenizer = tokenizer};
    s.phrases = vo_alloc_array((size_t)n * SPELLINGS, sizeof *s.phrases);
    /* The more phrases, the less likely is each of them: half of what a uniform prior would say. */
    s.discount = n > MANY_PHRASES ? 0.5f * logf((float)n / MANY_PHRASES) : 0;
    uint8_t *kinds = create_kinds(tokenizer);
    s.kinds = kinds;
    if (!s.phrases || !kinds) status = vo_fail(err, VO_ERR_MEMORY, "no memory for boosted phrases");
    for (int i = 0; i < n && status == VO_OK; i++) status = add_phrase(&s, &phrases[i], err);
    if (status == VO_OK && s.n > 0)
        status =
            vo_boost_create(s.phrases, s.n, kinds, vo_tokenizer_ids(tokenizer)->eot, boost, err);
    for (int i = 0; i < s.n; i++) vo_free((void *)s.phrases[i].tokens);
    vo_free(s.phrases);
    vo_free(kinds);
    vo_buf_free(&s.text);
    return status;
}
