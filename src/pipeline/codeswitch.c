/* SPDX-License-Identifier: MIT
 *
 * The decoder is asked once for all parts of a window: each sees, of the window that is encoded
 * anyway, its own positions of audio only (models/whisper/listen.c). So a window of one language
 * costs little more than without, and knows nothing of its neighbours but the language before it.
 */
#include "pipeline/codeswitch.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

#define LONGEST_PART     3.0 /* seconds */
#define SHORT_PART       1.0 /* joins what is beside it */
#define NEAR             0.3 /* pauses that are no reason for a new part */
#define APART            1.0 /* and those that always are */
#define SEARCH           0.75
#define FULL_WEIGHT      2.0    /* seconds from which a part counts fully */
#define FLOOR            (-4.6) /* log-probability: no part is surer than 99 % */
#define CHANGE           2.0    /* price of a change, in log-probability */
#define SUPPORT          0.4    /* parts that a language must have to be considered */
#define DOUBT            2.3 /* log-probability by which a stretch must outdo the language before */
#define SHORTEST_STRETCH 0.5 /* seconds of speech in one language */

/* ---- parts ---------------------------------------------------------------------------------- */

/* The quietest moment around a time: speech without a pause is cut there. */
static double quietest(const vo_voice *voice, double time) {
    const int64_t from = (int64_t)((time - SEARCH) / VO_VOICE_STEP),
                  to = (int64_t)((time + SEARCH) / VO_VOICE_STEP);
    int64_t best = -1;
    for (int64_t i = from > 0 ? from : 0; i < to && i < voice->n; i++)
        if (best < 0 || voice->levels[i] < voice->levels[best]) best = i;
    return best < 0 ? time : ((double)best + 0.5) * VO_VOICE_STEP;
}

static bool joins(const vocis_span *last, double start, double end) {
    const bool is_short = last->end - last->start < SHORT_PART || end - start < SHORT_PART;
    return end - last->start <= LONGEST_PART && start - last->end < APART &&
           (is_short || start - last->end < NEAR);
}

int vo_codeswitch_parts(const vo_voice *voice, double from, double to,
                        vocis_span parts[VO_CODESWITCH_PARTS]) {
    int n = 0;
    for (int i = vo_voice_first(voice, from); i < voice->n_spans; i++) {
        const double start = fmax(voice->spans[i].start, from), end = fmin(voice->spans[i].end, to);
        if (start >= to) break;
        if (n > 0 && joins(&parts[n - 1], start, end)) {
            parts[n - 1].end = end;
            continue;
        }
        const int pieces = (int)ceil((end - start) / LONGEST_PART);
        double at = start;
        for (int k = 1; k <= pieces; k++) {
            const double cut =
                k < pieces ? quietest(voice, start + (end - start) * k / pieces) : end;
            if (n < VO_CODESWITCH_PARTS)
                parts[n++] = (vocis_span){at, cut};
            else
                parts[n - 1].end = cut; /* the last one takes what is left */
            at = cut;
        }
    }
    return n;
}

/* ---- the path ------------------------------------------------------------------------------- */

double vo_codeswitch_price(const vo_language_set *set) {
    return CHANGE + log(fmax(set->n - 1, 1)) / 2;
}

void vo_codeswitch_path(const float (*logprobs)[VO_MAX_LANGUAGES], const double *weights, int n,
                        const vo_language_set *set, const double *initial, int *path) {
    double score[VO_MAX_LANGUAGES];
    uint8_t from[VO_CODESWITCH_PARTS][VO_MAX_LANGUAGES];
    const double price = vo_codeswitch_price(set);
    int best = 0;
    memcpy(score, initial, sizeof score);
    for (int i = 0; i < n; i++) {
        const double changed = score[best] - price;
        const int leader = best;
        for (int l = 0; l < VO_MAX_LANGUAGES; l++) {
            if (!set->has[l]) continue;
            const bool changes = i > 0 && changed > score[l];
            from[i][l] = (uint8_t)(changes ? leader : l);
            score[l] =
                (changes ? changed : score[l]) + weights[i] * fmax((double)logprobs[i][l], FLOOR);
        }
        best = -1;
        for (int l = 0; l < VO_MAX_LANGUAGES; l++)
            if (set->has[l] && (best < 0 || score[l] > score[best])) best = l;
    }
    for (int i = n - 1; i >= 0; i--) {
        path[i] = best;
        best = from[i][best];
    }
}

/* ---- a window ------------------------------------------------------------------------------- */

/* The positions of audio that a part has in the track's window. */
static vo_whisper_positions positions_of(const vo_track *t, const vocis_span *part) {
    const int all = t->plan->session->model->whisper->dims.n_audio_ctx;
    const double begin = (double)t->seek * VO_SECONDS_PER_FRAME;
    int from = (int)((part->start - begin) / VO_SECONDS_PER_TOKEN),
        to = (int)ceil((part->end - begin) / VO_SECONDS_PER_TOKEN);
    if (to > all) to = all;
    if (to < 1) to = 1;
    if (from >= to) from = to - 1;
    if (from < 0) from = 0;
    return (vo_whisper_positions){from, to - from};
}

/* Logits, or log-probabilities, of n languages become log-probabilities among those of the set. */
static void share_among(float *x, int n, const vo_language_set *set) {
    for (int l = 0; l < n; l++)
        if (!set->has[l]) x[l] = -INFINITY;
    const float norm = vo_logsumexp(x, n);
    for (int l = 0; l < n; l++) x[l] -= norm;
}

/* Log-probabilities of the languages of each part, among those that are allowed. */
static vo_status listen(const vo_track *t, const vocis_span *parts, int n,
                        float (*logprobs)[VO_MAX_LANGUAGES], vo_error *err) {
    const vo_whisper_ids *ids = t->plan->ids;
    vo_whisper_positions heard[VO_WHISPER_MAX_PARTS];
    vo_status status = VO_OK;
    for (int i = 0, many; status == VO_OK && i < n; i += many) {
        const float *const *logits;
        many = n - i < VO_WHISPER_MAX_PARTS ? n - i : VO_WHISPER_MAX_PARTS;
        for (int k = 0; k < many; k++) heard[k] = positions_of(t, &parts[i + k]);
        status = vo_whisper_listen(t->lane->worker->state, t->lane->window, ids->sot, heard, many,
                                   &logits, err);
        for (int k = 0; status == VO_OK && k < many; k++) {
            memcpy(logprobs[i + k], logits[k] + ids->first_language,
                   (size_t)ids->n_languages * sizeof **logprobs);
            share_among(logprobs[i + k], ids->n_languages, &t->plan->allowed);
        }
    }
    return status;
}

/* Takes those languages out of the running that no part of some length is likely to be in: what
 * many unlikely ones share would make every part unsure. Log-probabilities become those among the
 * rest. */
static void drop_unlikely(float (*logprobs)[VO_MAX_LANGUAGES], const double *weights, int n,
                          const double *initial, vo_language_set *set) {
    double sums[VO_MAX_LANGUAGES] = {0}, most = 0;
    for (int l = 0; l < VO_MAX_LANGUAGES; l++) {
        for (int i = 0; set->has[l] && i < n; i++)
            sums[l] += weights[i] * exp((double)logprobs[i][l]);
        most = fmax(most, sums[l]);
    }
    for (int l = 0; l < VO_MAX_LANGUAGES; l++) {
        if (!set->has[l] || !(initial[l] < 0) || sums[l] >= fmin(SUPPORT, most / 2)) continue;
        set->has[l] = false;
        set->n--;
    }
    for (int i = 0; i < n; i++) share_among(logprobs[i], VO_MAX_LANGUAGES, set);
}

/* Of its track; a second look goes on from its window. */
static bool is_first(const vo_track *t) {
    return t->counts.windows == 1 && !t->parent;
}

/* What speaks against a beginning in each language: in a first window what that sounds like as a
 * whole, whose log-probabilities are given, else the price of a change. Both languages of a change
 * that was heard before cost nothing. */
static void begin_path(const vo_track *t, const float *whole, double *initial) {
    const int first = t->plan->ids->first_language;
    for (int l = 0; l < VO_MAX_LANGUAGES; l++) {
        if (is_first(t))
            initial[l] = t->plan->allowed.has[l] ? fmax((double)whole[l], FLOOR) : FLOOR;
        else if (l == t->language - first || l == t->expected - first)
            initial[l] = 0;
        else
            initial[l] = -vo_codeswitch_price(&t->plan->allowed);
    }
}

/* Every stretch of one language in the path is heard once more, as a whole: a language that is not
 * ten times as likely then as the one before gives way to that. certain: [n] probabilities of the
 * path. */
static vo_status confirm(const vo_track *t, const vocis_span *parts, int n, int *path,
                         double *certain, vo_error *err) {
    const int first = t->plan->ids->first_language;
    int before = path[0] == t->expected - first || is_first(t) ? path[0] : t->language - first;
    vocis_span stretches[VO_CODESWITCH_PARTS] = {{0}};
    float logprobs[VO_CODESWITCH_PARTS][VO_MAX_LANGUAGES];
    int of[VO_CODESWITCH_PARTS], many = 0;
    for (int i = 0; i < n; i++) {
        if (i == 0 || path[i] != path[i - 1]) stretches[many++] = parts[i];
        stretches[many - 1].end = parts[i].end;
        of[i] = many - 1;
    }
    const vo_status status = listen(t, stretches, many, logprobs, err);
    for (int i = 0; status == VO_OK && i < n; i++) {
        const float *p = logprobs[of[i]];
        int language = path[i];
        if ((double)(p[before] - p[language]) > -DOUBT) language = before;
        certain[i] = exp((double)p[language]);
        path[i] = before = language;
    }
    return status;
}

/* How many parts from the first on have its language. What is too short for a word, before or after
 * a change, belongs to the other side. */
static int first_stretch(const vocis_span *parts, int *path, int n) {
    int many = 0;
    double seconds = 0, rest = 0;
    for (int i = 0; i < n; i++) {
        if (path[i] != path[0] && seconds < SHORTEST_STRETCH)
            for (int k = 0; k < i; k++) path[k] = path[i];
        if (path[i] != path[0]) break;
        seconds += parts[i].end - parts[i].start;
        many++;
    }
    for (int i = many; i < n; i++) rest += parts[i].end - parts[i].start;
    return rest < SHORTEST_STRETCH ? n : many;
}

vo_status vo_codeswitch_window(vo_track *t, vo_error *err) {
    const vo_track_plan *plan = t->plan;
    const int first = plan->ids->first_language;
    vocis_span parts[VO_CODESWITCH_PARTS + 1]; /* and the whole window */
    float logprobs[VO_CODESWITCH_PARTS + 1][VO_MAX_LANGUAGES];
    double weights[VO_CODESWITCH_PARTS] = {0}, certain[VO_CODESWITCH_PARTS] = {0};
    double initial[VO_MAX_LANGUAGES];
    int path[VO_CODESWITCH_PARTS];
    const vocis_span window = {(double)t->seek * VO_SECONDS_PER_FRAME,
                               (double)(t->seek + t->size) * VO_SECONDS_PER_FRAME};
    const int n = vo_codeswitch_parts(plan->speech, window.start, window.end, parts);
    if (n == 0) return VO_OK; /* nobody speaks: as before */
    const double begin = vo_clock_seconds();
    parts[n] = window;
    vo_status status = listen(t, parts, n + is_first(t), logprobs, err);
    if (status != VO_OK) return status;
    for (int i = 0; i < n; i++) weights[i] = fmin(1, (parts[i].end - parts[i].start) / FULL_WEIGHT);
    vo_language_set set = plan->allowed;
    begin_path(t, logprobs[n], initial);
    drop_unlikely(logprobs, weights, n, initial, &set);
    vo_codeswitch_path((const float(*)[VO_MAX_LANGUAGES])logprobs, weights, n, &set, initial, path);
    status = confirm(t, parts, n, path, certain, err);
    const int many = first_stretch(parts, path, n);
    double seconds = 0, sum = 0;
    for (int i = 0; i < many; i++) {
        seconds += parts[i].end - parts[i].start;
        sum += (parts[i].end - parts[i].start) * certain[i];
    }
    t->language = t->expected = first + path[0];
    t->language_probability = seconds > 0 ? (float)(sum / seconds) : 0;
    t->lane->worker->timings.decode += vo_clock_seconds() - begin;
    if (status != VO_OK || many == n) return status;
    t->cut = (int64_t)((parts[many - 1].end + parts[many].start) / 2 / VO_SECONDS_PER_FRAME);
    t->size = t->cut - t->seek;
    t->after_cut = first + path[many];
    return vo_encode_frames(plan, t->lane, t->seek, t->size, err);
}
