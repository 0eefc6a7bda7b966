/* SPDX-License-Identifier: MIT */
#include "pipeline/parts.h"

#include "pipeline/coverage.h"

#include <math.h>
#include <string.h>

#define TOKEN       0.3  /* seconds; few people speak slower for long */
#define LEFT_OUT    2.0  /* seconds of speech beyond that which are too many */
#define DENSE       8    /* tokens; with fewer the voice detector may be wrong */
#define DENSE_TOKEN 0.06 /* seconds; nobody speaks so fast */
#define LATE        0.2  /* seconds that times may be wrong */
#define HOLE        0.8  /* seconds of speech between words that hold another one */
#define BESIDE      0.3  /* seconds beside a word that may still belong to it */
#define SHRUNK      0.5  /* length of a word that was stretched */
#define DIGIT       0.5  /* seconds: numbers are long words */

bool vo_is_sparse(const vo_voice *voice, const vo_draft_segment *d) {
    return vo_voice_seconds(voice, d->start, d->end) > TOKEN * d->n_text + LEFT_OUT;
}

bool vo_is_dense(const vo_voice *voice, const vo_draft_segment *d) {
    return d->n_text >= DENSE &&
           vo_voice_seconds(voice, d->start - LATE, d->end + LATE) < DENSE_TOKEN * d->n_text;
}

static double longest(const vocis_word *w) {
    int digits = 0;
    for (const char *c = w->text; *c; c++) digits += *c >= '0' && *c <= '9';
    return VO_LONGEST_WORD + DIGIT * digits;
}

static bool is_hole(const vo_voice *voice, double from, double to) {
    return vo_voice_seconds(voice, from + BESIDE, to - BESIDE) >= HOLE;
}

/* A stretched word belongs to what follows: the words before it were heard in their place, and the
 * attention waits for it through what was left out. Several in a row wait together. */
static void shrink_words(const vo_voice *voice, vocis_word *words, int n) {
    double next = NAN; /* where a shrunk word begins */
    for (int i = n - 1; i >= 0; i--) {
        vocis_word *w = &words[i];
        if (w->end - w->start <= longest(w) || !is_hole(voice, w->start, w->end - SHRUNK)) {
            next = NAN;
            continue;
        }
        if (!isnan(next)) w->end = next;
        next = w->start = w->end - SHRUNK;
    }
}

/* Draft i is cut before its word k, which `n_text` text tokens precede. False where a part would
 * take no time: nobody would report it. */
static bool cut(vo_draft_segment *drafts, int *n, int i, int k, int n_text, const int32_t *tokens,
                int32_t eot) {
    vo_draft_segment left = drafts[i], right = drafts[i];
    left.end = left.words[k - 1].end;
    left.n_words = k;
    left.n_text = n_text;
    for (left.to = left.from; n_text > 0; left.to++) n_text -= tokens[left.to] < eot;
    right.start = right.words[k].start;
    right.words += k;
    right.n_words -= k;
    right.n_text -= left.n_text;
    right.from = left.to;
    if (!(left.end > left.start) || !(right.end > right.start)) return false;
    memmove(drafts + i + 2, drafts + i + 1, (size_t)(*n - i - 1) * sizeof *drafts);
    drafts[i] = left;
    drafts[i + 1] = right;
    ++*n;
    return true;
}

void vo_words_part(const vo_voice *voice, const vo_word_list *list, const int32_t *tokens,
                   int32_t eot, vo_draft_segment *drafts, int *n) {
    for (int i = 0, at = 0; i < *n; i++) {
        vo_draft_segment *d = &drafts[i];
        if (!d->whole && d->n_words > 0) {
            shrink_words(voice, d->words, d->n_words);
            d->start = fmax(d->start, d->words[0].start);
        }
        int word = -1;
        for (int passed = 0; at < list->n && passed < d->n_text; at++) {
            word += list->texts[at].text[0] != 0;
            if (!d->whole && word > 0 && list->texts[at].text[0] &&
                is_hole(voice, d->words[word - 1].end, d->words[word].start) &&
                cut(drafts, n, i, word, passed, tokens, eot))
                break;
            passed += list->texts[at].n_ids;
        }
    }
}
