/* SPDX-License-Identifier: MIT
 *
 * Word and character errors by edit distance (Levenshtein; Wagner and Fischer 1974). Only one
 * row of the table is kept, and no way back: the difference of insertions and deletions follows
 * from the two lengths, so a cell needs to carry two numbers, errors and substitutions, and they
 * fit one integer. The table is cut to a band around the diagonal, for a number of errors that is
 * doubled until it suffices (Ukkonen 1985), so similar texts cost little.
 */
#include "text/text.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "text/normalize.h"
#include "text/unicode.h"

#include <string.h>

/* errors * ONE_ERROR - substitutions: among the cheapest alignments the smallest number is the
 * one with most substitutions. */
#define ONE_ERROR    ((uint64_t)1 << 32)
#define SUBSTITUTION (ONE_ERROR - 1)
#define OUTSIDE      ((uint64_t)1 << 63)

typedef struct units {
    int32_t *ids; /* equal units have equal ids */
    size_t n;
} units;

static uint64_t smaller(uint64_t x, uint64_t y) {
    return x < y ? x : y;
}

/* Cheapest way from a to b (a.n >= b.n) with at most `limit` errors, or OUTSIDE. Whoever makes
 * at most `limit` errors strays at most (limit - (a.n - b.n)) / 2 from the diagonals between the
 * two corners. row has b.n + 1 cells, row[j] for the first i units of a and j units of b. */
static uint64_t bounded_distance(units a, units b, size_t limit, uint64_t *row) {
    size_t surplus = a.n - b.n, stray = (limit - surplus) / 2, below = surplus + stray;
    for (size_t j = 0; j <= b.n; j++) row[j] = j <= stray ? j * ONE_ERROR : OUTSIDE;
    for (size_t i = 1; i <= a.n; i++) {
        size_t first = i > below ? i - below : 0;
        size_t last = stray < b.n && i < b.n - stray ? i + stray : b.n;
        uint64_t diagonal = row[first ? first - 1 : 0], left = OUTSIDE, least = OUTSIDE;
        if (first == 0) {
            least = left = row[0] = i * ONE_ERROR;
            first = 1;
        }
        int32_t unit = a.ids[i - 1];
        for (size_t j = first; j <= last; j++) {
            uint64_t replaced = diagonal + (unit == b.ids[j - 1] ? 0 : SUBSTITUTION);
            diagonal = row[j];
            uint64_t best = smaller(replaced, diagonal + ONE_ERROR);
            row[j] = left = smaller(best, left + ONE_ERROR);
            least = smaller(least, left);
        }
        if (least > limit * ONE_ERROR) return OUTSIDE;
    }
    return row[b.n];
}

static vo_status count_errors(units reference, units hypothesis, vo_error_rate *out,
                              vo_error *err) {
    units a = reference, b = hypothesis;
    memset(out, 0, sizeof *out);
    out->reference = (int64_t)reference.n;
    while (a.n && b.n && a.ids[0] == b.ids[0]) a.ids++, a.n--, b.ids++, b.n--;
    while (a.n && b.n && a.ids[a.n - 1] == b.ids[b.n - 1]) a.n--, b.n--;
    if (a.n < b.n) { /* the row runs over the shorter one */
        units t = a;
        a = b;
        b = t;
    }
    uint64_t *row = vo_alloc_array(b.n + 1, sizeof row[0]);
    if (!row) return vo_fail(err, VO_ERR_MEMORY, "Out of memory while counting errors.");
    uint64_t distance = OUTSIDE, errors = 0;
    for (size_t limit = a.n - b.n + 32; distance == OUTSIDE; limit *= 2) {
        if (limit > a.n) limit = a.n;
        distance = bounded_distance(a, b, limit, row);
        errors = (distance + ONE_ERROR - 1) / ONE_ERROR;
        if (errors > limit) distance = OUTSIDE;
    }
    vo_free(row);
    int64_t substitutions = (int64_t)(errors * ONE_ERROR - distance);
    int64_t gaps = (int64_t)errors - substitutions;
    int64_t surplus = (int64_t)reference.n - (int64_t)hypothesis.n; /* deletions - insertions */
    out->substitutions = substitutions;
    out->deletions = (gaps + surplus) / 2;
    out->insertions = (gaps - surplus) / 2;
    return VO_OK;
}

/* Words get numbers through a hash table that both texts share. */
typedef struct word_slot {
    const char *word;
    size_t length;
    int32_t id;
} word_slot;

static int32_t word_id(word_slot *table, size_t mask, int32_t *n_words, const char *word,
                       size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)word[i]) * 0x100000001b3u;
    size_t slot = (size_t)(hash ^ (hash >> 32)) & mask;
    for (; table[slot].word; slot = (slot + 1) & mask)
        if (table[slot].length == length && memcmp(table[slot].word, word, length) == 0)
            return table[slot].id;
    table[slot].word = word;
    table[slot].length = length;
    table[slot].id = (*n_words)++;
    return table[slot].id;
}

static size_t count_words(const char *text, size_t size) {
    const char *word;
    size_t pos = 0, length, n = 0;
    while (vo_next_word(text, size, &pos, &word, &length)) n++;
    return n;
}

static vo_status words_of(const char *const text[2], const size_t size[2], units out[2],
                          vo_error *err) {
    size_t n[2] = {count_words(text[0], size[0]), count_words(text[1], size[1])}, slots = 16;
    while (slots < 2 * (n[0] + n[1])) slots *= 2;
    word_slot *table = vo_alloc_array(slots, sizeof table[0]);
    out[0].ids = vo_alloc_array(n[0], sizeof out[0].ids[0]);
    out[1].ids = vo_alloc_array(n[1], sizeof out[1].ids[0]);
    vo_status status = VO_OK;
    if (table && out[0].ids && out[1].ids) {
        int32_t n_words = 0;
        for (int k = 0; k < 2; k++) {
            const char *word;
            size_t pos = 0, length;
            while (vo_next_word(text[k], size[k], &pos, &word, &length))
                out[k].ids[out[k].n++] = word_id(table, slots - 1, &n_words, word, length);
        }
    } else {
        status = vo_fail(err, VO_ERR_MEMORY, "Out of memory while counting words.");
    }
    vo_free(table);
    return status;
}

/* Code points, without the white space at both ends. */
static vo_status characters_of(const char *text, size_t size, units *out, vo_error *err) {
    size_t pos = 0, first = 0, end = 0;
    out->ids = vo_alloc_array(size, sizeof out->ids[0]);
    if (!out->ids) return vo_fail(err, VO_ERR_MEMORY, "Out of memory while counting characters.");
    while (pos < size) {
        uint32_t cp = vo_read_char(text, size, &pos);
        out->ids[out->n++] = (int32_t)cp;
        if (!vo_is_python_space(cp))
            end = out->n;
        else if (end == 0)
            first = out->n;
    }
    out->n = end > first ? end - first : 0;
    memmove(out->ids, out->ids + first, out->n * sizeof out->ids[0]);
    return VO_OK;
}

static vo_status compare_texts(const char *reference, const char *hypothesis, bool by_words,
                               vo_error_rate *out, vo_error *err) {
    units parts[2] = {{NULL, 0}, {NULL, 0}};
    size_t size[2] = {0, 0};
    vo_status status = VO_ERR_MEMORY;
    memset(out, 0, sizeof *out);
    char *text[2] = {vo_utf8_sanitize(reference, strlen(reference), &size[0]),
                     vo_utf8_sanitize(hypothesis, strlen(hypothesis), &size[1])};
    if (!text[0] || !text[1]) {
        vo_fail(err, status, "Out of memory while comparing two texts.");
        goto done;
    }
    if (size[0] > INT32_MAX || size[1] > INT32_MAX) {
        status = vo_fail(err, VO_ERR_LIMIT, "The texts to compare are too long.");
        goto done;
    }
    if (by_words) {
        status = words_of((const char *const *)text, size, parts, err);
    } else {
        status = characters_of(text[0], size[0], &parts[0], err);
        if (!status) status = characters_of(text[1], size[1], &parts[1], err);
    }
    if (!status) status = count_errors(parts[0], parts[1], out, err);
done:
    for (int k = 0; k < 2; k++) {
        vo_free(parts[k].ids);
        vo_free(text[k]);
    }
    return status;
}

vo_status vo_word_errors(const char *reference, const char *hypothesis, vo_error_rate *out,
                         vo_error *err) {
    return compare_texts(reference, hypothesis, true, out, err);
}

vo_status vo_char_errors(const char *reference, const char *hypothesis, vo_error_rate *out,
                         vo_error *err) {
    return compare_texts(reference, hypothesis, false, out, err);
}
