/* SPDX-License-Identifier: MIT
 *
 * Layout of subtitles in three steps: words become units that no line break divides, units are
 * grouped into cues and lines, cues get their times. Cues, and the lines of a cue, are the
 * cheapest division of the whole text (a shortest path over its units, as TeX breaks paragraphs:
 * Knuth and Plass, 1981), so that a bad break later on can move an earlier one.
 */
#include "pipeline/subtitles.h"

#include "base/utf8.h"
#include "pipeline/prompt.h"
#include "pipeline/write.h"
#include "text/unicode.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    UNITS_OF_CUE = 1024, /* at most */
    PAUSE_MS = 500,      /* shorter ones are not heard as such */
    ROOM_MS = 1000000000 /* as good as for ever */
};
static const double LONG_PAUSE = 3.0; /* seconds; as openai-whisper has it */

/* ---- rules ---------------------------------------------------------------------------------- */

static const struct style {
    const char *name;
    int max_line_width, max_line_count;
    float max_chars_per_second, min_duration, max_duration, min_gap;
} styles[] = {
    {.name = "whisper"},
    /* What broadcasters and streaming services ask for: 20 frames at least, 2 between, of 24. */
    {"broadcast", 42, 2, 20, 20 / 24.0f, 7, 2 / 24.0f},
};

static const struct style *find_style(const char *name) {
    for (size_t i = 0; i < sizeof styles / sizeof *styles; i++)
        if (strcmp(name ? name : "whisper", styles[i].name) == 0) return &styles[i];
    return NULL;
}

bool vo_subtitle_style_known(const char *name) {
    return find_style(name) != NULL;
}

typedef struct rules {
    bool plain;              /* none at all: a segment is a cue */
    bool own;                /* more than openai-whisper has */
    bool preserve;           /* cues end where segments do, unless both sizes of a cue are known */
    int width, lines, words; /* lines, words: 0 for any number */
    int64_t min_duration, max_duration, min_gap; /* milliseconds; 0 for none */
    int64_t columns_per_kilosecond;              /* 0 for any speed */
} rules;

static int pick(int value, int otherwise, int most) {
    value = value > 0 ? value : otherwise;
    return value < most ? value : most;
}

/* In thousandths. */
static int64_t pick_real(float value, float otherwise) {
    double picked = (double)(value > 0 ? value : otherwise);
    return (int64_t)nearbyint(fmin(picked, 1e6) * 1000);
}

static rules read_rules(const vocis_write_params *p) {
    const struct style *style = find_style(p->subtitle_style);
    rules r = {
        .width = pick(p->max_line_width, style->max_line_width, 10000),
        .lines = pick(p->max_line_count, style->max_line_count, 1000),
        .words = pick(p->max_words_per_line, 0, 1000),
        .min_duration = pick_real(p->min_duration, style->min_duration),
        .max_duration = pick_real(p->max_duration, style->max_duration),
        .min_gap = pick_real(p->min_gap, style->min_gap),
        .columns_per_kilosecond = pick_real(p->max_chars_per_second, style->max_chars_per_second),
    };
    r.own = r.min_duration || r.max_duration || r.min_gap || r.columns_per_kilosecond;
    r.plain = !r.own && !r.width && !r.lines && !r.words && !p->highlight_words && !p->karaoke;
    r.preserve = !r.width || !r.lines;
    if (!r.width) r.width = 1000; /* as openai-whisper, which has no other limit either */
    return r;
}

/* ---- words ---------------------------------------------------------------------------------- */

typedef struct word {
    size_t begin, end; /* bytes of the text */
    int visible;       /* characters that are no blanks */
    double start, stop;
    int segment, speaker;
    bool estimated; /* it is a whole segment without words */
} word;

typedef struct layout {
    rules rules;
    bool labels;
    word *words;
    int n_words, capacity; /* capacity: of units */
    vo_subtitles *out;
} layout;

static bool is_blank(uint32_t cp) {
    return cp < 0x20 || cp == 0x7f || vo_is_python_space(cp);
}

static double known_time(double seconds, double otherwise) {
    return isfinite(seconds) ? fmin(fmax(seconds, 0), 3.6e8) : otherwise;
}

/* Appends a word without its times. False when memory is short. */
static bool append_word(layout *l, const char *text, word w) {
    vo_buf *all = &l->out->text;
    size_t size = strlen(text);
    char *clean = vo_utf8_sanitize(text, size, &size);
    if (!clean) return false;
    w.begin = all->size;
    for (size_t at = 0; at < size;) w.visible += !is_blank(vo_read_char(clean, size, &at));
    const char *piece = l->rules.plain ? vo_strip(clean, &size) : clean;
    vo_buf_append(all, piece, size);
    vo_free(clean);
    w.end = all->size;
    l->words[l->n_words++] = w;
    return !all->failed;
}

static bool append_segment(layout *l, const vocis_segment *s, int index) {
    bool good = true;
    int before = l->n_words, visible = 0;
    size_t size = l->out->text.size;
    for (int i = 0; good && !l->rules.plain && i < s->n_words; i++) {
        const vocis_word *w = &s->words[i];
        double last = l->n_words ? l->words[l->n_words - 1].stop : 0;
        double start = known_time(w->start, last);
        good = append_word(l, w->text,
                           (word){.start = start,
                                  .stop = known_time(w->end, start),
                                  .segment = index,
                                  .speaker = w->speaker >= 0 ? w->speaker : s->speaker});
        visible += l->words[l->n_words - 1].visible;
    }
    if (!good || visible) return good;
    l->n_words = before;
    l->out->text.size = size;
    word whole = {.start = s->start,
                  .stop = s->end,
                  .segment = index,
                  .speaker = s->speaker,
                  .estimated = true};
    if (!l->rules.plain) {
        whole.start = known_time(s->start, l->n_words ? l->words[l->n_words - 1].stop : 0);
        whole.stop = known_time(s->end, whole.start);
    }
    return append_word(l, s->text, whole);
}

static bool append_words(layout *l, const vocis_result *r) {
    size_t n = 1;
    for (int i = 0; i < r->n_segments; i++) n += (size_t)r->segments[i].n_words + 1;
    l->words = n <= INT_MAX ? vo_alloc_array(n, sizeof *l->words) : NULL;
    bool good = l->words != NULL;
    vo_buf_puts(&l->out->text, "");
    for (int i = 0; good && i < r->n_segments; i++) {
        vo_buf_puts(&l->out->text, " "); /* for segments that bring no blank of their own */
        good = append_segment(l, &r->segments[i], i);
    }
    return good && !l->out->text.failed;
}

/* ---- units ---------------------------------------------------------------------------------- */

static vo_unit *push_unit(layout *l) {
    vo_subtitles *s = l->out;
    if (s->n_units == l->capacity) {
        int capacity = l->capacity ? l->capacity * 2 : 256;
        size_t bytes;
        vo_unit *grown =
            l->capacity <= INT_MAX / 2 && vo_mul_size((size_t)capacity, sizeof *grown, &bytes)
                ? vo_realloc(s->units, bytes)
                : NULL;
        if (!grown) return NULL;
        s->units = grown;
        l->capacity = capacity;
    }
    s->units[s->n_units] = (vo_unit){0};
    return &s->units[s->n_units++];
}

/* NULL when memory is short. */
static vo_unit *begin_unit(layout *l, const word *w, size_t at) {
    vo_subtitles *s = l->out;
    vo_unit *u = push_unit(l);
    if (!u) return NULL;
    u->text = s->text.data + at;
    u->segment = w->segment;
    u->speaker = w->speaker;
    const vo_unit *last = s->n_units > 1 ? u - 1 : NULL;
    if (l->labels && u->speaker >= 0 && (!last || last->speaker != u->speaker)) {
        int columns = snprintf(NULL, 0, "Speaker %lld: ", (long long)u->speaker + 1);
        u->label = !l->rules.own || columns + 2 <= l->rules.width;
        u->columns = u->label ? columns : 0;
    }
    return u;
}

/* When so many of a word's visible characters are spoken. */
static double time_in(const word *w, int characters) {
    if (characters >= w->visible) return w->stop;
    return w->start + (w->stop - w->start) * characters / w->visible;
}

/* Reads characters into units: where a segment is. */
typedef struct reader {
    int word, spoken; /* words of the layout; visible characters of this one so far */
    size_t gap;       /* bytes of blanks since the last visible character */
    int gap_columns;  /* and their width */
    int last_word;    /* of the last visible character */
    uint32_t last;    /* that character */
    vo_unit *unit;    /* it is in; NULL: none yet */
} reader;

static bool begins_unit(const layout *l, const reader *d, const vo_grapheme *g) {
    const word *w = &l->words[d->word];
    if (!d->unit || d->unit->speaker != w->speaker) return true;
    if (!l->rules.own) return w->estimated ? d->gap > 0 : d->word != d->last_word;
    return d->gap > 0 || vo_may_break(d->last, g->first) ||
           d->unit->columns + g->columns > l->rules.width;
}

/* Takes one visible character. False when memory is short. */
static bool read_visible(layout *l, reader *d, const vo_grapheme *g, size_t at) {
    const word *w = &l->words[d->word];
    if (begins_unit(l, d, g)) {
        bool first = !d->unit, words_meet = d->word != d->last_word || d->gap > 0;
        vo_unit *u = begin_unit(l, w, at);
        if (!u) return false;
        if (first && !d->gap && l->rules.own && !vo_is_spaceless(g->first)) {
            const char *text = l->out->text.data;
            bool joins = w->begin > 1 && vo_is_spaceless(vo_char_before(text, w->begin - 1));
            d->gap = d->gap_columns = !joins;
        }
        u->lead = d->gap;
        u->lead_columns = d->gap_columns;
        u->start = time_in(w, d->spoken);
        u->begins_word = first || words_meet;
        d->unit = u;
    } else {
        d->unit->columns += d->gap_columns;
    }
    vo_unit *u = d->unit;
    u->size = (size_t)(l->out->text.data + at - u->text) + g->size;
    u->columns += l->rules.own ? g->columns : g->code_points;
    d->spoken += g->code_points;
    u->end = time_in(w, d->spoken);
    d->last_word = d->word;
    d->last = g->last;
    d->gap = 0;
    d->gap_columns = 0;
    return true;
}

/* Words [first, end) of one segment. */
static bool read_segment(layout *l, int first, int end) {
    const char *text = l->out->text.data;
    size_t size = l->words[end - 1].end;
    reader d = {.word = first, .last_word = first};
    for (size_t at = l->words[first].begin; at < size;) {
        vo_grapheme g = vo_grapheme_at(text, size, at);
        while (d.word + 1 < end && l->words[d.word + 1].begin <= at) {
            d.word++;
            d.spoken = 0;
            if (!l->rules.own) d.gap = d.gap_columns = 0; /* blank words count for nothing */
        }
        if (is_blank(g.first) && is_blank(g.last)) {
            d.gap += g.size;
            bool control = g.first < 0x20 || g.first == 0x7f; /* will be a blank */
            d.gap_columns += l->rules.own && !control ? g.columns : g.code_points;
        } else if (!read_visible(l, &d, &g, at)) {
            return false;
        }
        at += g.size;
    }
    return true;
}

/* A whole segment, also if there is nothing in it. */
static bool read_plain(layout *l, const word *w) {
    vo_unit *u = begin_unit(l, w, w->begin);
    if (!u) return false;
    u->size = w->end - w->begin;
    u->start = w->start;
    u->end = w->stop;
    return true;
}

/* Times never run backwards, and a unit ends before the next one begins. */
static void order_times(vo_subtitles *s) {
    for (int i = 0; i < s->n_units; i++) {
        vo_unit *u = &s->units[i], *last = i ? u - 1 : NULL;
        if (last) u->start = fmax(u->start, last->start);
        if (last) last->end = fmin(last->end, u->start);
        u->end = fmax(u->end, u->start);
    }
}

static bool make_units(layout *l) {
    for (int i = 0, end; i < l->n_words; i = end) {
        end = i + 1;
        while (end < l->n_words && l->words[end].segment == l->words[i].segment) end++;
        if (!(l->rules.plain ? read_plain(l, &l->words[i]) : read_segment(l, i, end))) return false;
    }
    vo_subtitles *s = l->out;
    if (!l->rules.plain) order_times(s);
    for (int i = 0; l->rules.own && i < s->n_units; i++) {
        vo_unit *u = &s->units[i], *next = i + 1 < s->n_units ? u + 1 : NULL;
        size_t at = 0;
        u->stop =
            vo_stop_of(u->text, u->size, next ? vo_read_char(next->text, next->size, &at) : 0);
    }
    return true;
}

/* ---- cues as openai-whisper makes them ------------------------------------------------------ */

static vo_cue make_cue(const vo_subtitles *s, int first, int end) {
    int64_t from = vo_milliseconds(s->units[first].start);
    int64_t to = vo_milliseconds(s->units[end - 1].end);
    return (vo_cue){first, end - first, from, to > from ? to : from};
}

/* Line after line while words fit. A pause counts from the beginning of the word before it. */
static void group_as_whisper(layout *l) {
    const rules *r = &l->rules;
    vo_subtitles *s = l->out;
    int first = 0, column = 0, lines = 1, of_segment = 0, most_words = r->words ? r->words : 1000;
    for (int i = 0; i < s->n_units; i++) {
        vo_unit *u = &s->units[i], *last = i ? u - 1 : u;
        of_segment = i && last->segment == u->segment ? of_segment + 1 : 0;
        bool pause = !r->preserve && u->start - last->start > LONG_PAUSE;
        bool full = column + u->lead_columns + u->columns > r->width;
        bool apart = i > first &&
                     ((r->preserve && of_segment % most_words == 0) || last->speaker != u->speaker);
        if (column > 0 && !full && !pause && !apart) {
            column += u->lead_columns + u->columns;
            continue;
        }
        if (apart || (i > first && r->lines && (pause || lines >= r->lines))) {
            s->cues[s->n_cues++] = make_cue(s, first, i);
            first = i;
            lines = 1;
        } else if (column > 0) {
            u->newline = true;
            lines++;
        }
        column = u->columns;
    }
    if (s->n_units) s->cues[s->n_cues++] = make_cue(s, first, s->n_units);
}

/* ---- cues by our rules ---------------------------------------------------------------------- */

/* A line that is being filled. */
typedef struct line {
    int number, columns, words; /* number: 0 before the first one */
} line;

/* Adds a unit, in a new line if it has to; false if that is one line too many. */
static bool fill(const rules *r, line *f, const vo_unit *u) {
    int columns = f->columns + u->lead_columns + u->columns, words = f->words + u->begins_word;
    if (f->number && columns <= r->width && (!r->words || words <= r->words))
        *f = (line){f->number, columns, words};
    else
        *f = (line){f->number + 1, u->columns, 1};
    return !r->lines || f->number <= r->lines;
}

static int64_t pause_before(const vo_unit *u) {
    return vo_milliseconds(u->start) - vo_milliseconds(u[-1].end);
}

/* u is not the first unit. */
static bool begins_cue(const rules *r, const vo_unit *u) {
    return u->speaker != u[-1].speaker || u->start - u[-1].end > LONG_PAUSE ||
           (r->preserve && u->segment != u[-1].segment);
}

static int64_t time_to_read(const rules *r, int columns) {
    int64_t speed = r->columns_per_kilosecond;
    int64_t time = speed ? ((int64_t)columns * 1000000 + speed - 1) / speed : 0;
    return time > r->min_duration ? time : r->min_duration;
}

/* Of ending a cue before a unit. */
static int64_t cost_of_end(const rules *r, const vo_unit *next) {
    static const int64_t costs[] = {
        [VO_STOP_NONE] = 250, [VO_STOP_CLAUSE] = 40, [VO_STOP_SENTENCE] = 0};
    if (begins_cue(r, next)) return 0;
    int64_t cost = costs[next[-1].stop];
    return pause_before(next) > PAUSE_MS && cost > 40 ? 40 : cost;
}

/* Of units [i, j) as a cue, in hundredths of what a cue costs by being there. columns: its text. */
static int64_t cost_of_cue(const layout *l, int i, int j, int columns) {
    const rules *r = &l->rules;
    const vo_unit *u = l->out->units;
    int64_t start = vo_milliseconds(u[i].start), room = ROOM_MS;
    int64_t most = (int64_t)r->width * (r->lines ? r->lines : 1);
    int64_t cost = 100 + 50 * (int64_t)columns * columns / (most * most);
    if (j < l->out->n_units) {
        cost += cost_of_end(r, &u[j]);
        int64_t until = vo_milliseconds(u[j].start) - r->min_gap - start;
        room = until < room ? until : room;
    }
    if (r->max_duration && room > r->max_duration) room = r->max_duration;
    if (room < 0) room = 0;
    int64_t excess = columns - r->columns_per_kilosecond * room / 1000000;
    if (r->columns_per_kilosecond && excess > 0) cost += 20 * excess;
    if (room < r->min_duration) cost += 200 * (r->min_duration - room) / r->min_duration;
    return cost;
}

/* cost, from: [n_units + 1]; from[j]: where the cue begins that ends before unit j. */
static void choose_cues(layout *l, int64_t *cost, int *from) {
    const rules *r = &l->rules;
    const vo_unit *u = l->out->units;
    int n = l->out->n_units;
    for (int i = 0; i <= n; i++) cost[i] = i ? INT64_MAX : 0;
    for (int i = 0; i < n; i++) {
        line f = {0};
        int columns = u[i].columns;
        int64_t pauses = 0;
        fill(r, &f, &u[i]);
        for (int j = i + 1;; j++) {
            int64_t total = cost[i] + cost_of_cue(l, i, j, columns) + pauses;
            if (total < cost[j]) {
                cost[j] = total;
                from[j] = i;
            }
            if (j == n || j - i == UNITS_OF_CUE || begins_cue(r, &u[j]) || !fill(r, &f, &u[j]))
                break;
            if (r->max_duration &&
                vo_milliseconds(u[j].end) - vo_milliseconds(u[i].start) > r->max_duration)
                break;
            /* Text is not shown long before it is spoken. */
            int64_t pause = pause_before(&u[j]) - PAUSE_MS;
            pauses += pause > 0 ? pause / 10 : 0;
            columns += u[j].lead_columns + u[j].columns;
        }
    }
}

/* Of ending a line after a unit, in squares of columns like the raggedness of lines. */
static int64_t cost_of_break(const rules *r, const vo_unit *u) {
    int64_t square = (int64_t)r->width * r->width;
    return u->stop == VO_STOP_SENTENCE ? 0 : u->stop == VO_STOP_CLAUSE ? square / 16 : square / 4;
}

/* As few lines as there can be, then the best breaks and the most even lines. */
static void choose_lines(layout *l, const vo_cue *cue, int64_t *cost, int *from) {
    const int64_t of_line = INT64_C(1) << 50;
    const rules *r = &l->rules;
    vo_unit *u = l->out->units + cue->first;
    for (int i = 0; i <= cue->n; i++) cost[i] = i ? INT64_MAX : 0;
    for (int i = 0; i < cue->n; i++) {
        line f = {0};
        for (int j = i + 1; j <= cue->n; j++) {
            fill(r, &f, &u[j - 1]);
            if (f.number > 1) break;
            int64_t width = f.columns < r->width ? f.columns : r->width;
            int64_t total = cost[i] + of_line + width * width;
            if (j < cue->n) total += cost_of_break(r, &u[j - 1]);
            if (total >= cost[j]) continue;
            cost[j] = total;
            from[j] = i;
        }
    }
    for (int j = from[cue->n]; j > 0; j = from[j]) u[j].newline = true;
}

static int columns_of(const vo_subtitles *s, const vo_cue *cue) {
    int columns = 0;
    for (int i = 0; i < cue->n; i++) {
        const vo_unit *u = &s->units[cue->first + i];
        columns += u->columns + (i ? u->lead_columns : 0);
    }
    return columns;
}

/* Every cue lasts for a millisecond at least, also where its words have no time. */
static void set_times(layout *l) {
    const rules *r = &l->rules;
    vo_subtitles *s = l->out;
    for (int i = 1; i < s->n_cues; i++)
        if (s->cues[i].start <= s->cues[i - 1].start) s->cues[i].start = s->cues[i - 1].start + 1;
    for (int i = 0; i < s->n_cues; i++) {
        vo_cue *c = &s->cues[i];
        int64_t next = i + 1 < s->n_cues ? c[1].start : INT64_MAX;
        int64_t wanted = c->start + time_to_read(r, columns_of(s, c));
        if (c->end < wanted) c->end = wanted;
        if (r->max_duration && c->end > c->start + r->max_duration)
            c->end = c->start + r->max_duration;
        int64_t latest = next - r->min_gap > c->start ? next - r->min_gap : next;
        if (c->end > latest) c->end = latest;
        if (c->end <= c->start) c->end = c->start + 1;
    }
}

static bool group_by_rules(layout *l) {
    vo_subtitles *s = l->out;
    size_t n = (size_t)s->n_units + 1;
    int64_t *cost = vo_alloc_array(n, sizeof *cost);
    int *from = vo_alloc_array(n, sizeof *from);
    bool good = cost && from;
    if (good) {
        choose_cues(l, cost, from);
        for (int j = s->n_units; j > 0; j = from[j]) s->n_cues++;
        for (int j = s->n_units, i = s->n_cues; j > 0; j = from[j])
            s->cues[--i] = make_cue(s, from[j], j);
        for (int i = 0; i < s->n_cues; i++) choose_lines(l, &s->cues[i], cost, from);
        set_times(l);
    }
    vo_free(cost);
    vo_free(from);
    return good;
}

/* ---- all of it ------------------------------------------------------------------------------ */

bool vo_subtitles_create(const vocis_result *result, const vocis_write_params *params, bool labels,
                         vo_subtitles *out) {
    *out = (vo_subtitles){0};
    layout l = {.rules = read_rules(params), .labels = labels, .out = out};
    bool good = append_words(&l, result) && make_units(&l);
    if (good) out->cues = vo_alloc_array((size_t)out->n_units + 1, sizeof *out->cues);
    good = good && out->cues;
    if (good && l.rules.own)
        good = group_by_rules(&l);
    else if (good)
        group_as_whisper(&l);
    vo_free(l.words);
    return good;
}

void vo_subtitles_destroy(vo_subtitles *s) {
    vo_free(s->units);
    vo_free(s->cues);
    vo_buf_free(&s->text);
    *s = (vo_subtitles){0};
}
