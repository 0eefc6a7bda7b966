/* SPDX-License-Identifier: MIT
 *
 * Three judges have a say: the text itself, the voice detector, and the model's own
 * probabilities. Text goes only when two of them are against it.
 */
#include "pipeline/guards.h"

#include "base/memory.h"
#include "pipeline/coverage.h"
#include "pipeline/prompt.h"

#include <math.h>
#include <string.h>

#define NEAR         1.0     /* seconds that a segment's times may be wrong */
#define FAR          12.0    /* and those of a sentence that the model puts elsewhere */
#define NO_VOICE     0.3f    /* the voice detector's probabilities stay below it: nobody speaks */
#define LOUD         0.5     /* of a segment */
#define NOTHING      1e-4f   /* 80 dB below full scale: no microphone is there */
#define SLOW         10.0    /* characters in a second */
#define UNSURE       (-0.5f) /* average log-probability of text that the model doubts */
#define SILENT       0.3f    /* probability of no speech that counts */
#define HOPELESS     (-1.0f) /* text that the model doubts even after the last temperature, */
#define MUTE         0.6f    /* and a window that it would call silent were the text less likely */
#define FASTEST      60.0    /* characters in a second of speech; clips in music reach 47 */
#define FREE         30.0 /* characters that need none: short speech is heard late or not at all */
#define PAUSE        0.3  /* seconds between two utterances */
#define EARLY        0.5  /* seconds that a word may be before its voice */
#define BRIEF        0.1  /* the shortest word, and more than there is between words in a row */
#define DRAWLED      0.7  /* seconds a word that nobody speaks */
#define ECHO_LEAST   4    /* tokens; fewer are said twice in any second */
#define ECHO_FASTEST 30.0 /* characters in a second of speech; people say up to 25 */

/* ---- loops ---------------------------------------------------------------------------------- */

/* How often a phrase of so many tokens comes in a row before nobody speaks like that. */
static int too_often(int period) {
    return period >= 6 ? 3 : period >= 3 ? 5 : 8;
}

bool vo_loop_find(const int32_t *tokens, int n, vo_loop *loop) {
    int most = 0;
    for (int period = 1; period <= n / 3; period++) {
        int same = 0; /* tokens[i - same, i) are those of one period before */
        for (int i = period; i <= n; i++) {
            if (i < n && tokens[i] == tokens[i - period]) {
                same++;
                continue;
            }
            const int times = same / period + 1;
            if (times >= too_often(period) && times * period > most) {
                most = times * period;
                *loop = (vo_loop){i - same - period, period, times};
            }
            same = 0;
        }
    }
    return most > 0;
}

static bool is_alike(double a, double b) {
    return fabs(a - b) <= 0.1 + 0.25 * fmax(a, b);
}

/* Speech between two pauses, from span *at on, of those that lie between two times for the most
 * part; false after the last. */
static bool next_utterance(const vo_voice *voice, double start, double end, int *at,
                           double *seconds) {
    const vocis_span *first = NULL, *last = NULL;
    for (; *at < voice->n_spans; (*at)++) {
        const vocis_span *s = &voice->spans[*at];
        const double middle = (s->start + s->end) / 2;
        if (s->start >= end || (last && s->start - last->end >= PAUSE)) break;
        if (middle < start || middle > end) continue;
        if (!first) first = s;
        last = s;
    }
    if (first) *seconds = last->end - first->start;
    return first;
}

bool vo_loop_is_spoken(const vo_voice *voice, double start, double end, int times) {
    const int first = vo_voice_first(voice, start);
    int behind = first, ahead = first, n = 0;
    double before, after;
    while (next_utterance(voice, start, end, &ahead, &after)) n++;
    if (times <= 0 || n == 0 || n % times != 0) return false;
    ahead = first;
    for (int i = 0; i < n / times; i++) next_utterance(voice, start, end, &ahead, &after);
    while (next_utterance(voice, start, end, &ahead, &after) &&
           next_utterance(voice, start, end, &behind, &before))
        if (!is_alike(after, before)) return false;
    return true;
}

/* ---- silence -------------------------------------------------------------------------------- */

int vo_guard_characters(const vocis_segment *s) {
    int n = 0;
    for (const char *c = s->text; *c; c++) n += ((unsigned char)*c & 0xC0) != 0x80;
    return n;
}

/* Whether what stands out from the sound that is always there may be its voice: of a sentence said
 * slowly at the end, too, since the model may begin far too early. */
static bool is_loud(const vocis_segment *s, const vo_voice *voice) {
    const double said = fmax(s->start, s->end - vo_guard_characters(s) / SLOW);
    return vo_voice_loud_seconds(voice, s->start, s->end) > LOUD * (s->end - s->start) ||
           vo_voice_loud_seconds(voice, said, s->end) > LOUD * (s->end - said);
}

bool vo_guard_is_unspoken(const vocis_segment *s, const vo_voice *voice) {
    const double start = s->start - NEAR, end = s->end + NEAR;
    const bool unsure = s->avg_logprob < UNSURE;
    if (vo_voice_seconds(voice, start, end) > 0) return false;
    if (!vo_voice_audible(voice, start, end, NOTHING)) return true;
    if (vo_voice_peak(voice, start, end) < NO_VOICE && !is_loud(s, voice))
        return unsure || s->no_speech_prob > SILENT;
    return s->avg_logprob < HOPELESS || (unsure && s->no_speech_prob > MUTE);
}

bool vo_guard_is_too_fast(const vocis_segment *s, const vo_voice *voice) {
    const double start = s->start - NEAR, end = s->end + NEAR;
    double seconds = vo_voice_seconds(voice, start, end);
    if (is_loud(s, voice)) seconds = fmax(seconds, vo_voice_loud_seconds(voice, start, end));
    return s->avg_logprob < UNSURE && vo_guard_characters(s) > FREE + FASTEST * seconds;
}

/* ---- echoes --------------------------------------------------------------------------------- */

/* The last text token of tokens[0, *n), or -1; *n becomes its index. */
static int32_t last_text(const int32_t *tokens, int *n, int32_t first_special) {
    while (--*n >= 0)
        if (tokens[*n] < first_special) return tokens[*n];
    return -1;
}

bool vo_guard_is_echo(const vocis_segment *s, const int32_t *before, int n_before,
                      int32_t first_special, double seek, const vo_voice *voice) {
    int n = s->n_tokens, same = 0;
    for (;; same++) {
        const int32_t token = last_text(s->tokens, &n, first_special);
        if (token < 0) break;
        if (token != last_text(before, &n_before, first_special)) return false;
    }
    return same >= ECHO_LEAST &&
           vo_guard_characters(s) > ECHO_FASTEST * vo_voice_seconds(voice, seek, s->end);
}

/* ---- segments ------------------------------------------------------------------------------- */

/* Text tokens of a segment without its timestamps: [n_tokens] at out; returns how many. */
static int text_tokens(const vocis_segment *s, int32_t first_special, int32_t *out, int *index) {
    int n = 0;
    for (int i = 0; i < s->n_tokens; i++) {
        if (s->tokens[i] >= first_special) continue;
        index[n] = i;
        out[n++] = s->tokens[i];
    }
    return n;
}

/* Keeps a loop's first round, if anybody speaks. */
static vo_status shorten_loop(vocis_result *r, int at, const vo_voice *voice,
                              const vo_tokenizer *tokenizer, vo_error *err) {
    const vocis_segment *s = &r->segments[at];
    const int32_t eot = vo_tokenizer_ids(tokenizer)->eot;
    const size_t room = (size_t)s->n_tokens + 1;
    int32_t *text = vo_alloc_array(room, sizeof *text);
    int *index = vo_alloc_array(room, sizeof *index);
    vo_loop loop;
    vo_status status = VO_OK;
    if (!text || !index) {
        status = vo_fail(err, VO_ERR_MEMORY, "no memory for a segment");
    } else {
        const int n = text_tokens(s, eot, text, index);
        const double pace = (s->end - s->start) / (n > 0 ? n : 1);
        const bool loops = vo_loop_find(text, n, &loop);
        if (loops && vo_voice_seconds(voice, s->start - NEAR, s->end + NEAR) <= 0) {
            status = vo_result_remove(r, at, VO_REMOVED_LOOP, err);
        } else if (loops &&
                   !vo_loop_is_spoken(voice, s->start + pace * loop.from,
                                      s->start + pace * (loop.from + loop.period * loop.times),
                                      loop.times)) {
            const int last = loop.from + loop.period, keep = index[last - 1] + 1;
            const double end = s->start + pace * last;
            char *kept = vo_tokenizer_decode(tokenizer, s->tokens, keep);
            status = kept ? vo_result_shorten(r, at, keep, kept, end, VO_REMOVED_LOOP, err)
                          : vo_fail(err, VO_ERR_MEMORY, "no memory for text");
            vo_free(kept);
        }
    }
    vo_free(text);
    vo_free(index);
    return status;
}

/* How many segments from `at` on say the same. */
static int count_same(const vocis_result *r, int at) {
    size_t n, m;
    const char *text = vo_strip(r->segments[at].text, &n);
    int same = 1;
    for (; at + same < r->n_segments; same++) {
        const char *next = vo_strip(r->segments[at + same].text, &m);
        if (m != n || memcmp(text, next, n) != 0) break;
    }
    return same;
}

vo_status vo_guard_segments(vocis_result *r, const vo_voice *voice, const vo_tokenizer *tokenizer,
                            vo_error *err) {
    vo_status status = VO_OK;
    for (int i = 0; status == VO_OK && i < r->n_segments; i++) {
        const int same = count_same(r, i);
        const bool loops =
            same >= too_often(r->segments[i].n_tokens) &&
            !vo_loop_is_spoken(voice, r->segments[i].start, r->segments[i + same - 1].end, same);
        for (int k = 1; status == VO_OK && loops && k < same; k++)
            status = vo_result_remove(r, i + 1, VO_REMOVED_LOOP, err);
        const int n = r->n_segments;
        if (status == VO_OK) status = shorten_loop(r, i, voice, tokenizer, err);
        i -= n - r->n_segments;
    }
    for (int i = r->n_segments - 1; status == VO_OK && i >= 0; i--)
        if (vo_guard_is_unspoken(&r->segments[i], voice))
            status = vo_result_remove(r, i, VO_REMOVED_UNSPOKEN, err);
        else if (vo_guard_is_too_fast(&r->segments[i], voice))
            status = vo_result_remove(r, i, VO_REMOVED_TOO_FAST, err);
    return status;
}

/* ---- starts in pauses ----------------------------------------------------------------------- */

/* Where the voice, or sound that may be one, begins within or after a word that begins well before
 * it in a pause; else its start. */
static double voice_of(const vocis_word *word, const vo_voice *voice) {
    int i = vo_voice_first(voice, word->start);
    const int k = vo_voice_first_sound(voice, word->start);
    /* Too long for a word: it was stretched from the end of the speech before. */
    if (word->end - word->start > VO_LONGEST_WORD && i < voice->n_spans &&
        voice->spans[i].end <= word->start + EARLY)
        i++;
    double onset = word->start;
    if (i < voice->n_spans) onset = vo_voice_onset(voice, voice->spans[i].start, word->start);
    if (k < voice->n_sounds && (i == voice->n_spans || voice->sounds[k].start < onset))
        onset = voice->sounds[k].start;
    return onset > word->start + EARLY ? onset : word->start;
}

/* How many words, one right after the other, fill the pause before `onset` and reach behind it far
 * enough to have room there; 0 if they do not, or if it may be their voice that is loud there. */
static int stretched_words(const vocis_word *words, int n, double onset, const vo_voice *voice) {
    const double pause = onset - words[0].start;
    int i = 0, unspoken = 0;
    for (; words[i].end < onset + (i + 1) * BRIEF; i++) {
        if (i + 1 >= n && words[i].end > onset) break; /* little room is better than none */
        if (i + 1 >= n || words[i + 1].start > words[i].end + BRIEF) return 0;
        if (words[i].end <= onset) unspoken++;
    }
    if (unspoken * DRAWLED > pause) return 0;
    if (vo_voice_loud_seconds(voice, words[0].start, onset) > LOUD * pause) return 0;
    return i + 1;
}

/* As long as their letters are many */
static void spread_words(vocis_word *words, int n, double start, double end) {
    size_t letters = 0, said = 0;
    for (int i = 0; i < n; i++) letters += strlen(words[i].text);
    const double each = (end - start) / (double)letters;
    for (int i = 0; i < n; i++) {
        words[i].start = start + (double)said * each;
        said += strlen(words[i].text);
        words[i].end = i + 1 < n ? start + (double)said * each : end;
    }
}

static void start_with_voice(vocis_word *words, int n, const vo_voice *voice) {
    const double onset = voice_of(&words[0], voice);
    if (onset <= words[0].start) return;
    const int stretched = stretched_words(words, n, onset, voice);
    if (stretched > 1)
        spread_words(words, stretched, onset, words[stretched - 1].end);
    else if (words[0].end > onset)
        words[0].start = onset;
}

void vo_guard_starts(vocis_result *result, const vo_voice *voice) {
    for (int i = 0; i < result->n_segments; i++) {
        vocis_segment *s = &result->segments[i];
        vocis_word *words = (vocis_word *)s->words;
        for (int k = 0; k < s->n_words; k++) start_with_voice(words + k, s->n_words - k, voice);
        if (s->n_words > 0) s->start = fmax(s->start, fmin(words[0].start, s->end));
    }
}

/* ---- said already --------------------------------------------------------------------------- */

/* Lower-case letters and digits and all of other scripts, one blank between words. */
static void put_plain(vo_buf *out, const char *text) {
    bool blank = true;
    if (out->size == 0) vo_buf_puts(out, " ");
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        const bool upper = c >= 'A' && c <= 'Z';
        const bool letter = upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c >= 0x80;
        const char put = upper ? (char)(c + 'a' - 'A') : (char)c;
        if (letter) vo_buf_append(out, &put, 1);
        if (!letter && !blank) vo_buf_puts(out, " ");
        blank = !letter;
    }
    if (!blank) vo_buf_puts(out, " ");
}

/* Words of plain text: where each begins in it, fresh memory. */
static const char **split(const vo_buf *text, int *n) {
    const char **words = vo_alloc_array(text->size / 2 + 1, sizeof *words);
    *n = 0;
    for (size_t i = 0; words && i + 1 < text->size; i++)
        if (text->data[i] == ' ' && text->data[i + 1] != ' ') words[(*n)++] = text->data + i + 1;
    return words;
}

static bool same_word(const char *a, const char *b) {
    while (*a == *b && *a != ' ' && *a) a++, b++;
    return (*a == ' ' || !*a) && (*b == ' ' || !*b);
}

/* The most words in a row that two texts have in common; n_a gets the number of the first one's. */
static int common_run(const vo_buf *a, const vo_buf *b, int *n_a) {
    int n_b = 0, best = 0;
    const char **in_a = split(a, n_a), **in_b = split(b, &n_b);
    int *runs = vo_alloc_array((size_t)n_b + 1, sizeof *runs);
    for (int i = 0; in_a && in_b && runs && i < *n_a; i++)
        for (int k = n_b - 1; k >= 0; k--) { /* runs[k + 1] ends at word k */
            runs[k + 1] = same_word(in_a[i], in_b[k]) ? runs[k] + 1 : 0;
            if (runs[k + 1] > best) best = runs[k + 1];
        }
    vo_free(in_a);
    vo_free(in_b);
    vo_free(runs);
    return best;
}

bool vo_guard_is_said(const vocis_segment *s, const vocis_segment *others, int n) {
    vo_buf near_text = {0}, text = {0};
    int n_words = 0;
    put_plain(&text, s->text);
    for (int i = 0; i < n; i++)
        if (&others[i] != s && others[i].start < s->end + FAR && others[i].end > s->start - FAR)
            put_plain(&near_text, others[i].text);
    bool said = false;
    if (!text.failed && !near_text.failed && text.data && near_text.data) {
        const int run = common_run(&text, &near_text, &n_words);
        said = n_words > 0 && (run == n_words || (run >= 5 && run >= 0.6 * n_words));
    }
    vo_buf_free(&near_text);
    vo_buf_free(&text);
    return said;
}
