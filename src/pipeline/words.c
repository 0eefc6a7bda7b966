/* SPDX-License-Identifier: MIT
 *
 * Words of a window: the decoder reads its own text once more, what its attention looked at gives
 * every token a time, tokens become words, and rules of thumb mend what is plainly wrong. Words
 * then say more exactly than timestamps where segments are and where the next window begins, and
 * their lengths and probabilities give text away that was invented in silence.
 */
#include "pipeline/words.h"

#include "base/clock.h"
#include "base/memory.h"
#include "decode/align.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double to_seconds(int64_t frames) {
    return (double)frames * VO_MEL_HOP / VOCIS_SAMPLE_RATE;
}
static int64_t to_frames(double seconds) {
    return (int64_t)nearbyint(seconds * VO_MEL_FRAMES_PER_SECOND);
}
/* To hundredths; what comes here is never between two of them. */
static double rounded(double seconds) {
    return nearbyint(seconds * 100) / 100;
}

void vo_word_list_free(vo_word_list *list) {
    vo_text_words_free(list->texts, list->n);
    vo_free(list->words);
    *list = (vo_word_list){0};
}

/* ---- times that are plainly wrong ------------------------------------------------------------ */

static double duration(const vocis_word *w) {
    return w->end - w->start;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of all words that take time, at most 0.7 s; 0 without any. */
static vo_status find_median(const vo_word_list *list, double *median, vo_error *err) {
    double *lengths = vo_alloc_array((size_t)list->n, sizeof *lengths);
    int n = 0;
    if (!lengths) return vo_fail(err, VO_ERR_MEMORY, "no memory for words");
    for (int i = 0; i < list->n; i++)
        if (duration(&list->words[i]) != 0) lengths[n++] = duration(&list->words[i]);
    qsort(lengths, (size_t)n, sizeof *lengths, ascending);
    *median = n == 0 ? 0 : n % 2 ? lengths[n / 2] : (lengths[n / 2 - 1] + lengths[n / 2]) / 2;
    if (*median > 0.7) *median = 0.7;
    vo_free(lengths);
    return VO_OK;
}

/* A mark at the end of a sentence, or the word after it, is not longer than two median words. */
static void shorten_at_sentence_ends(vo_word_list *list, double longest) {
    static const char marks[] = ".\u3002!\uff01?\uff1f";
    for (int i = 1; longest > 0 && i < list->n; i++) {
        vocis_word *w = &list->words[i];
        if (duration(w) <= longest) continue;
        if (strstr(marks, list->texts[i].text))
            w->end = w->start + longest;
        else if (strstr(marks, list->texts[i - 1].text))
            w->start = w->end - longest;
    }
}

/* The first two words after a pause are not longer than two median words each. */
static void shorten_after_pause(vocis_word *words, int n, double last_speech, double median) {
    const double longest = 2 * median;
    vocis_word *a = &words[0], *b = &words[1];
    if (!(a->end - last_speech > 4 * median)) return;
    if (!(duration(a) > longest || (n > 1 && b->end - a->start > 2 * longest))) return;
    if (n > 1 && duration(b) > longest) a->end = b->start = fmax(b->end / 2, b->end - longest);
    a->start = fmax(0, a->end - longest);
}

/* Words and segment agree on where they begin and end; the segment is right where the word is more
 * than half a second longer. */
static void fit_segment(vo_draft_segment *d, double median) {
    vocis_word *first = &d->words[0], *last = &d->words[d->n_words - 1];
    if (d->start < first->end && d->start - 0.5 > first->start)
        first->start = fmax(0, fmin(first->end - median, d->start));
    else
        d->start = first->start;
    if (d->end > last->start && d->end + 0.5 < last->end)
        last->end = fmax(last->start + median, d->end);
    else
        d->end = last->end;
}

vo_status vo_words_assign(const vo_word_window *w, vo_word_list *list, vo_draft_segment *drafts,
                          int n, const char *prepended, const char *appended, vo_error *err) {
    const double offset = to_seconds(w->seek);
    double median = 0, last_speech = w->last_speech;
    vo_status status = find_median(list, &median, err);
    if (status != VO_OK) return status;
    shorten_at_sentence_ends(list, 2 * median);
    status = vo_merge_punctuations(list->texts, list->n, prepended, appended, err);
    int at = 0, kept = 0; /* words that are merged away leave; the others move up */
    for (int i = 0; status == VO_OK && i < n; i++) {
        vo_draft_segment *d = &drafts[i];
        d->words = list->words + kept;
        d->n_words = 0;
        for (int passed = 0; at < list->n && passed < d->n_text; at++) {
            const vocis_word *word = &list->words[at];
            passed += list->texts[at].n_ids;
            if (!list->texts[at].text[0]) continue;
            list->words[kept++] = (vocis_word){.text = list->texts[at].text,
                                               .start = rounded(offset + word->start),
                                               .end = rounded(offset + word->end),
                                               .probability = word->probability,
                                               .speaker = -1};
            d->n_words++;
        }
        if (d->n_words == 0) continue;
        shorten_after_pause(d->words, d->n_words, last_speech, median);
        if (!d->whole) fit_segment(d, median);
        last_speech = d->end;
    }
    return status;
}

/* ---- where the next window begins ------------------------------------------------------------ */

/* Where the last word ends, else the last segment; NaN without either. */
static double end_of(const vo_draft_segment *drafts, int n) {
    for (int i = n - 1; i >= 0; i--)
        if (drafts[i].n_words) return drafts[i].words[drafts[i].n_words - 1].end;
    return n ? drafts[n - 1].end : NAN;
}

/* How odd a word is: unlikely, or very short or long. */
static double oddness(const vocis_word *w) {
    double odd = (double)w->probability < 0.15 ? 1 : 0;
    if (duration(w) < 0.133) odd += (0.133 - duration(w)) * 15;
    if (duration(w) > 2.0) odd += duration(w) - 2.0;
    return odd;
}

/* Whether the first eight words, but for marks, are so odd that nobody may have said them. */
static bool looks_invented(const vo_draft_segment *d) {
    static const char marks[] =
        "\"'\u201c\u00bf([{-\"'.\u3002,\uff0c!\uff01?\uff1f:\uff1a\u201d)]}\u3001";
    double sum = 0;
    int n = 0;
    if (!d || !d->n_words) return false;
    for (int i = 0; i < d->n_words && n < 8; i++) {
        if (strstr(marks, d->words[i].text)) continue;
        sum += oddness(&d->words[i]);
        n++;
    }
    return sum >= 3 || sum + 0.01 >= n;
}

/* The first draft from i on that has words, or NULL. */
static const vo_draft_segment *with_words(const vo_draft_segment *drafts, int n, int i) {
    for (; i < n; i++)
        if (drafts[i].n_words) return &drafts[i];
    return NULL;
}

/* Drops the first draft that looks invented between silences, or more of its kind, and all after
 * it: the next window begins there. */
static void drop_invented(vo_word_window *w, const vo_draft_segment *drafts, int *n) {
    const double offset = to_seconds(w->seek), window_end = to_seconds(w->seek + w->window_frames);
    const double origin = to_seconds(w->first), finish = to_seconds(w->last);
    double before = w->last_speech; /* where what is before the draft ends */
    for (int i = 0; i < *n; i++) {
        const vo_draft_segment *d = &drafts[i];
        if (!d->n_words) continue;
        if (looks_invented(d)) {
            const vo_draft_segment *next = with_words(drafts, *n, i + 1);
            const double after = next ? next->words[0].start : offset + to_seconds(w->size);
            const bool silence_before = d->start - before > w->threshold ||
                                        d->start - origin < w->threshold || d->start - offset < 2;
            const bool silence_after =
                after - d->end > w->threshold || looks_invented(next) || window_end - d->end < 2;
            if (silence_before && silence_after) {
                w->next = to_frames(fmax(offset + 1, d->start));
                if (finish - d->end < w->threshold) w->next = w->last;
                *n = i;
                return;
            }
        }
        before = d->end;
    }
}

static void skip_silence(vo_word_window *w, const vo_draft_segment *drafts, int *n) {
    const double offset = to_seconds(w->seek), end = end_of(drafts, *n);
    if (!w->single_ending && end > offset) {
        const double rest = to_seconds(w->seek + w->window_frames) - end;
        w->next = rest > w->threshold ? to_frames(end) : w->seek + w->size;
    }
    const vo_draft_segment *first = with_words(drafts, *n, 0);
    if (looks_invented(first) && first->start - offset > w->threshold) {
        w->next = w->seek + to_frames(first->start - offset);
        w->again = true;
        return;
    }
    drop_invented(w, drafts, n);
}

void vo_words_follow(vo_word_window *w, const vo_draft_segment *drafts, int *n) {
    const double end = end_of(drafts, *n);
    w->again = false;
    if (!w->single_ending && end > to_seconds(w->seek)) w->next = to_frames(end);
    if (!isnan(w->threshold)) skip_silence(w, drafts, n);
    if (w->again)
        *n = 0;
    else if (*n > 0)
        w->last_speech = end_of(drafts, *n);
    /* The reference would decode such a window for ever. */
    if (w->next <= w->seek) w->next = w->seek + w->size;
}

/* ---- asking the model ------------------------------------------------------------------------ */

#define POSITIONS_PER_SECOND (VO_MEL_FRAMES_PER_SECOND / 2.0)

/* What the decoder reads: start, text, end; and what comes of it. */
typedef struct reading {
    int32_t *tokens; /* [n] */
    int n, first, n_text;
    float *weights;       /* [heads][n][n_seen] */
    float *probabilities; /* [n_text] */
    int32_t *start;       /* [n_text + 1] audio positions */
    int n_seen;
} reading;

static void free_reading(reading *r) {
    vo_free(r->tokens);
    vo_free(r->weights);
    vo_free(r->probabilities);
    vo_free(r->start);
}

static vo_status make_reading(const vo_track *t, const vo_draft_segment *drafts, int n_drafts,
                              reading *r, vo_error *err) {
    const vo_track_plan *plan = t->plan;
    const vo_whisper *model = plan->session->model->whisper;
    int32_t start[VO_MAX_START];
    r->first = vo_start_tokens(plan->session, plan->params, t->language, start);
    start[r->first++] = plan->ids->no_timestamps;
    for (int i = 0; i < n_drafts; i++) r->n_text += drafts[i].n_text;
    r->n = r->first + r->n_text + 1;
    r->n_seen = (int)(t->size / 2);
    size_t cells;
    bool fits = vo_mul_size((size_t)r->n, (size_t)r->n_seen, &cells) &&
                vo_mul_size(cells, (size_t)model->n_alignment_heads * sizeof(float), &cells);
    r->tokens = vo_alloc_array((size_t)r->n, sizeof *r->tokens);
    r->weights = fits ? vo_alloc_uninitialized(cells) : NULL;
    r->probabilities = vo_alloc_array((size_t)r->n_text, sizeof *r->probabilities);
    r->start = vo_alloc_array((size_t)r->n_text + 1, sizeof *r->start);
    if (!r->tokens || !r->weights || !r->probabilities || !r->start)
        return vo_fail(err, VO_ERR_MEMORY, "no memory for times of words");
    memcpy(r->tokens, start, (size_t)r->first * sizeof *start);
    for (int i = 0, to = r->first; i < n_drafts; i++)
        for (int k = drafts[i].from; k < drafts[i].to; k++)
            if (t->decoded.tokens[k] < plan->ids->eot) r->tokens[to++] = t->decoded.tokens[k];
    r->tokens[r->n - 1] = plan->ids->eot;
    return VO_OK;
}

static vo_status read_again(vo_track *t, reading *r, vo_error *err) {
    static const int first_row = 0;
    const vo_lane *lane = t->lane;
    const vo_lm *lm = &lane->lm;
    const double begin = vo_clock_seconds();
    const vo_whisper_alignment job = {.feed = {.row = lane->first_row,
                                               .window = lane->window,
                                               .n_tokens = r->n,
                                               .tokens = r->tokens},
                                      .n_seen = r->n_seen,
                                      .first = r->first,
                                      .n_scored = r->n_text,
                                      .n_text_ids = t->plan->ids->eot,
                                      .weights = r->weights,
                                      .probabilities = r->probabilities};
    /* Beams and samples give their places in the cache back. */
    vo_status status = lm->rewind(lm->self, 0, 0, err);
    if (status == VO_OK) status = lm->fork(lm->self, &first_row, 1, err);
    if (status == VO_OK) status = vo_whisper_align(lane->worker->state, &job, err);
    /* The token before the first one of the text decides when that begins. */
    if (status == VO_OK)
        status = vo_align_tokens(r->weights, t->plan->session->model->whisper->n_alignment_heads,
                                 r->n, r->n_seen, r->first - 1, r->n_text + 1, r->start, err);
    lane->worker->timings.decode += vo_clock_seconds() - begin;
    return status;
}

/* Texts, and their times and probabilities in seconds of the window. */
static vo_status list_words(const vo_track *t, const reading *r, vo_word_list *list,
                            vo_error *err) {
    const vo_track_plan *plan = t->plan;
    const char *language =
        plan->ids->multilingual ? vo_language_code(t->language - plan->ids->first_language) : NULL;
    vo_status status = vo_split_words(plan->session->model->tokenizer, r->tokens + r->first,
                                      r->n_text, language, &list->texts, &list->n, err);
    if (status != VO_OK) return status;
    list->words = vo_alloc_array((size_t)list->n + 1, sizeof *list->words);
    if (!list->words) return vo_fail(err, VO_ERR_MEMORY, "no memory for words");
    for (int i = 0, at = 0; i < list->n; i++) {
        const int n = list->texts[i].n_ids;
        double sum = 0;
        for (int k = 0; k < n; k++) sum += (double)r->probabilities[at + k];
        list->words[i] = (vocis_word){.start = r->start[at] / POSITIONS_PER_SECOND,
                                      .end = r->start[at + n] / POSITIONS_PER_SECOND,
                                      .probability = (float)(sum / n)};
        at += n;
    }
    return VO_OK;
}

vo_status vo_words_add(vo_track *t, const vo_word_window *window, vo_draft_segment *drafts,
                       int n_drafts, vo_word_list *list, vo_error *err) {
    reading r = {0};
    vo_status status = make_reading(t, drafts, n_drafts, &r, err);
    if (status == VO_OK && r.n_text > 0 && r.n_seen > 0) {
        status = read_again(t, &r, err);
        if (status == VO_OK) status = list_words(t, &r, list, err);
    } else if (status == VO_OK) {
        list->words = vo_alloc(sizeof *list->words); /* none, but they were looked for */
        if (!list->words) status = vo_fail(err, VO_ERR_MEMORY, "no memory for words");
    }
    free_reading(&r);
    const vocis_transcribe_params *p = t->plan->params;
    if (status == VO_OK)
        status = vo_words_assign(window, list, drafts, n_drafts,
                                 p->prepend_punctuations ? p->prepend_punctuations : "",
                                 p->append_punctuations ? p->append_punctuations : "", err);
    return status;
}
