/* SPDX-License-Identifier: MIT
 *
 * Results own everything they show.
 */
#include "pipeline/result.h"

#include "base/memory.h"

#include <limits.h>
#include <string.h>

vocis_result *vo_result_create(void) {
    return vo_alloc(sizeof(vocis_result));
}

static void free_segment(vocis_segment *s) {
    vo_free((void *)s->text);
    vo_free((void *)s->tokens);
    vo_free((void *)s->token_logprobs);
    vo_free((void *)s->words);
}

static void *copy(const void *data, size_t bytes) {
    void *p = vo_alloc(bytes);
    if (p && bytes) memcpy(p, data, bytes);
    return p;
}

/* Words and, behind them, their text: one piece of memory. NULL when there is not enough. */
static vocis_word *copy_words(const vocis_word *words, int n) {
    size_t bytes = (size_t)n * sizeof *words;
    for (int i = 0; i < n; i++) bytes += strlen(words[i].text) + 1;
    vocis_word *copies = vo_alloc(bytes);
    char *text = (char *)(copies + n);
    for (int i = 0; copies && i < n; i++) {
        const size_t size = strlen(words[i].text) + 1;
        copies[i] = words[i];
        copies[i].text = memcpy(text, words[i].text, size);
        text += size;
    }
    return copies;
}

/* Room for n segments more. */
static vo_status reserve(vocis_result *r, int n, vo_error *err) {
    int capacity = r->capacity ? r->capacity : 16;
    while (capacity - r->n_segments < n && capacity <= INT_MAX / 2) capacity *= 2;
    if (capacity == r->capacity) return VO_OK;
    vocis_segment *grown = capacity - r->n_segments < n
                               ? NULL
                               : vo_realloc(r->segments, (size_t)capacity * sizeof *grown);
    if (!grown) return vo_fail(err, VO_ERR_MEMORY, "no memory for another segment");
    r->segments = grown;
    r->capacity = capacity;
    return VO_OK;
}

vo_status vo_result_add(vocis_result *r, const vocis_segment *segment, vo_error *err) {
    if (reserve(r, 1, err) != VO_OK) return VO_ERR_MEMORY;
    vocis_segment *s = &r->segments[r->n_segments];
    size_t n = (size_t)segment->n_tokens;
    *s = *segment;
    s->id = r->n_segments;
    s->text = vo_strdup(segment->text);
    s->tokens = copy(segment->tokens, n * sizeof *s->tokens);
    s->token_logprobs = copy(segment->token_logprobs, n * sizeof *s->token_logprobs);
    s->words = segment->words ? copy_words(segment->words, s->n_words) : NULL;
    if (!s->text || !s->tokens || !s->token_logprobs || (segment->words && !s->words)) {
        free_segment(s);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for another segment");
    }
    r->n_segments++;
    return VO_OK;
}

static const char *const reasons[] = {"loop", "nobody speaks", "misplaced", "too fast",
                                      "other script"};

const char *vo_removal_reason(int index) {
    const int n = sizeof reasons / sizeof *reasons;
    return reasons[index >= 0 && index < n ? index : 0];
}

int vo_removal_find(const char *reason) {
    int i = sizeof reasons / sizeof *reasons - 1;
    while (i > 0 && strcmp(reason, reasons[i]) != 0) i--;
    return i;
}

/* Takes the text over, also on failure. */
static vo_status note_removed(vocis_result *r, vocis_removed removed, vo_error *err) {
    vocis_removed *grown = removed.text && r->n_removed < INT_MAX / 2
                               ? vo_realloc(r->removed, (size_t)(r->n_removed + 1) * sizeof *grown)
                               : NULL;
    if (!grown) {
        vo_free((void *)removed.text);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for what was removed");
    }
    r->removed = grown;
    r->removed[r->n_removed++] = removed;
    return VO_OK;
}

vo_status vo_result_note_removed(vocis_result *r, double start, double end, const char *text,
                                 const char *reason, vo_error *err) {
    return note_removed(r, (vocis_removed){start, end, vo_strdup(text), reason}, err);
}

vo_status vo_result_move(vocis_result *r, vocis_result *from, vo_error *err) {
    if (reserve(r, from->n_segments, err) != VO_OK) return VO_ERR_MEMORY;
    for (int i = 0; i < from->n_removed; i++) {
        const vocis_removed removed = from->removed[i];
        from->removed[i].text = NULL;
        if (note_removed(r, removed, err) != VO_OK) return VO_ERR_MEMORY;
    }
    from->n_removed = 0;
    for (int i = 0; i < VO_MAX_LANGUAGES; i++) {
        r->foreign[i] += from->foreign[i];
        from->foreign[i] = 0;
    }
    for (int i = 0; i < from->n_segments; i++) {
        r->segments[r->n_segments] = from->segments[i];
        r->segments[r->n_segments].id = r->n_segments;
        r->n_segments++;
    }
    from->n_segments = 0;
    return VO_OK;
}

void vo_result_forget_removed(vocis_result *r, int from) {
    while (r->n_removed > from) vo_free((void *)r->removed[--r->n_removed].text);
}

void vo_result_sort(vocis_result *r, int from) {
    for (int i = from + 1; i < r->n_segments; i++) { /* nearly sorted */
        const vocis_segment s = r->segments[i];
        int at = i;
        for (; at > from && r->segments[at - 1].start > s.start; at--)
            r->segments[at] = r->segments[at - 1];
        r->segments[at] = s;
    }
    for (int i = from; i < r->n_segments; i++) r->segments[i].id = i;
}

void vo_result_drop(vocis_result *r, int index) {
    free_segment(&r->segments[index]);
    r->n_segments--;
    for (int i = index; i < r->n_segments; i++) {
        r->segments[i] = r->segments[i + 1];
        r->segments[i].id = i;
    }
}

vo_status vo_result_remove(vocis_result *r, int index, vo_removal why, vo_error *err) {
    vocis_segment *s = &r->segments[index];
    const vocis_removed removed = {s->start, s->end, s->text, reasons[why]};
    s->text = NULL;
    vo_result_drop(r, index);
    return note_removed(r, removed, err);
}

/* Words of the first `bytes` of their text stay, and the segment ends with the last of them. */
static void shorten_words(vocis_segment *s, size_t bytes) {
    size_t size = 0;
    int n = 0;
    for (; n < s->n_words && size + strlen(s->words[n].text) <= bytes; n++)
        size += strlen(s->words[n].text);
    s->n_words = n;
    if (n > 0) s->end = s->words[n - 1].end;
}

vo_status vo_result_shorten(vocis_result *r, int index, int n_tokens, const char *text, double end,
                            vo_removal why, vo_error *err) {
    vocis_segment *s = &r->segments[index];
    const char *before = s->text;
    const size_t kept = strlen(text), all = strlen(before);
    char *copied = vo_strdup(text);
    if (!copied) return vo_fail(err, VO_ERR_MEMORY, "no memory for a segment");
    vocis_removed removed = {
        .end = s->end, .text = vo_strdup(before + (kept < all ? kept : 0)), .reason = reasons[why]};
    s->text = copied;
    s->n_tokens = n_tokens;
    s->end = end;
    shorten_words(s, kept);
    removed.start = s->end;
    vo_free((void *)before);
    return note_removed(r, removed, err);
}

void vo_result_swap(vocis_result *a, vocis_result *b) {
    vocis_segment *segments = a->segments;
    char *text = a->text;
    const int n = a->n_segments, capacity = a->capacity;
    a->segments = b->segments;
    a->n_segments = b->n_segments;
    a->capacity = b->capacity;
    a->text = b->text;
    b->segments = segments;
    b->n_segments = n;
    b->capacity = capacity;
    b->text = text;
}

void vo_counts_add(vocis_timings *to, const vocis_timings *from) {
    to->windows += from->windows;
    to->fallbacks += from->fallbacks;
    to->steps += from->steps;
    to->tokens += from->tokens;
    to->proposed += from->proposed;
    to->accepted += from->accepted;
}

vo_status vo_result_finish(vocis_result *r, vo_error *err) {
    vo_buf joined = {0};
    vo_buf_puts(&joined, "");
    for (int i = 0; i < r->n_segments; i++) vo_buf_puts(&joined, r->segments[i].text);
    if (joined.failed || !joined.data) {
        vo_buf_free(&joined);
        return vo_fail(err, VO_ERR_MEMORY, "no memory for the text");
    }
    char *begin = joined.data, *end = begin + joined.size;
    while (*begin == ' ') begin++;
    while (end > begin && end[-1] == ' ') end--;
    vo_free(r->text);
    r->text = vo_strndup(begin, (size_t)(end - begin));
    vo_buf_free(&joined);
    return r->text ? VO_OK : vo_fail(err, VO_ERR_MEMORY, "no memory for the text");
}

void vo_result_destroy(vocis_result *r) {
    if (!r) return;
    for (int i = 0; i < r->n_segments; i++) free_segment(&r->segments[i]);
    for (int i = 0; i < r->n_removed; i++) vo_free((void *)r->removed[i].text);
    vo_free(r->removed);
    vo_free(r->account);
    vo_free(r->segments);
    vo_free(r->text);
    vo_free(r);
}
