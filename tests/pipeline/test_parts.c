/* SPDX-License-Identifier: MIT
 *
 * Segments are parted where their words leave speech out, and only there; no token is lost, and
 * stretched words go to what follows.
 */
#include "pipeline/parts.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { EOT = 100, TIME = 200, MOST = 16 };

/* Two segments with timestamps around them; the marks of the first were merged into its words, so
 * that its texts have holes and tokens. */
static const int32_t tokens[] = {TIME, 1, 2, 3, 4, 5, 6, TIME + 1, TIME + 1, 7, TIME + 2};
static char one[] = " one,", two[] = " two", three[] = " three", nothing[] = "", four[] = " four";
static const vo_text_word texts[] = {{one, 2}, {nothing, 0}, {two, 1}, {three, 3}, {four, 1}};

typedef struct scene {
    vocis_word words[4];
    vo_word_list list;
    vo_draft_segment drafts[MOST];
    int n;
} scene;

static void set(scene *s, const double times[8]) {
    *s = (scene){.n = 2};
    const char *const names[] = {one, two, three, four};
    for (int i = 0; i < 4; i++)
        s->words[i] =
            (vocis_word){.text = names[i], .start = times[2 * i], .end = times[2 * i + 1]};
    s->list = (vo_word_list){.texts = (vo_text_word *)texts, .words = s->words, .n = 5};
    s->drafts[0] = (vo_draft_segment){.from = 0,
                                      .to = 8,
                                      .n_text = 6,
                                      .start = times[0],
                                      .end = times[5],
                                      .words = s->words,
                                      .n_words = 3};
    s->drafts[1] = (vo_draft_segment){.from = 8,
                                      .to = 11,
                                      .n_text = 1,
                                      .start = times[6],
                                      .end = times[7],
                                      .words = s->words + 3,
                                      .n_words = 1};
}

static void part(scene *s, vocis_span *speech, int n_speech) {
    const vo_voice voice = {.spans = speech, .n_spans = n_speech};
    vo_words_part(&voice, &s->list, tokens, EOT, s->drafts, &s->n);
    int at = 0, words = 0;
    for (int i = 0; i < s->n; i++) { /* nothing is lost, nothing is there twice */
        const vo_draft_segment *d = &s->drafts[i];
        int text = 0;
        assert_int_equal(d->from, at);
        at = d->to;
        for (int k = d->from; k < d->to; k++) text += tokens[k] < EOT;
        assert_int_equal(d->n_text, text);
        assert_ptr_equal(d->words, s->words + words);
        words += d->n_words;
        assert_true(d->end > d->start);
    }
    assert_int_equal(at, 11);
    assert_int_equal(words, 4);
}

static void expect(const vo_draft_segment *d, int n_words, int n_tokens, double start, double end) {
    assert_int_equal(d->n_words, n_words);
    assert_int_equal(d->to - d->from, n_tokens);
    assert_true(fabs(d->start - start) < 1e-9 && fabs(d->end - end) < 1e-9);
}

static void test_gap(void **state) {
    scene s;
    vocis_span all[] = {{0, 20}}, short_one[] = {{0, 3.5}, {9, 20}};
    const double times[] = {1, 2, 3, 3.2, 8, 8.5, 9, 10};
    set(&s, times);
    part(&s, all, 1); /* between `two` and `three`; 1 s between `one` and `two` is a pause */
    assert_int_equal(s.n, 3);
    expect(&s.drafts[0], 2, 4, 1, 3.2);
    expect(&s.drafts[1], 1, 4, 8, 8.5);
    expect(&s.drafts[2], 1, 3, 9, 10);
    set(&s, times);
    part(&s, short_one, 2); /* nobody speaks in the gap */
    assert_int_equal(s.n, 2);
    set(&s, times);
    s.drafts[0].whole = true;
    part(&s, all, 1);
    assert_int_equal(s.n, 2);
    expect(&s.drafts[0], 3, 8, 1, 8.5);
}

/* Words that were stretched over what is left out. */
static void test_stretched(void **state) {
    scene s;
    vocis_span all[] = {{0, 40}};
    set(&s, (const double[]){1, 2, 2.2, 6, 6, 12, 13, 14});
    part(&s, all, 1);
    assert_int_equal(s.n, 3);
    expect(&s.drafts[0], 1, 3, 1, 2);
    expect(&s.drafts[1], 2, 5, 11, 12); /* both wait for what follows */
    assert_true(s.words[1].start == 11 && s.words[1].end == 11.5 && s.words[2].start == 11.5);
    set(&s, (const double[]){1, 9, 9, 9.4, 9.5, 10, 13, 14});
    part(&s, all, 1); /* at the beginning: the segment begins later */
    assert_int_equal(s.n, 2);
    expect(&s.drafts[0], 3, 8, 8.5, 10);
}

/* A number is long because it is one. */
static void test_numbers(void **state) {
    scene s;
    vocis_span all[] = {{0, 40}};
    static const char number[] = " 1,234,567";
    set(&s, (const double[]){1, 2, 2, 6.5, 6.5, 7, 8, 9});
    s.words[1].text = number;
    part(&s, all, 1);
    assert_int_equal(s.n, 2);
    assert_true(s.words[1].start == 2);
}

/* A part without length would not be reported. */
static void test_no_length(void **state) {
    scene s;
    vocis_span all[] = {{0, 40}};
    set(&s, (const double[]){1, 1, 5, 6, 6, 7, 8, 9});
    part(&s, all, 1);
    assert_int_equal(s.n, 2);
}

static void test_sparse(void **state) {
    vocis_span speech[] = {{0, 4}, {5, 10}};
    const vo_voice voice = {.spans = speech, .n_spans = 2};
    const vo_draft_segment few = {.start = 0, .end = 10, .n_text = 20},
                           enough = {.start = 0, .end = 10, .n_text = 24},
                           brief = {.start = 0, .end = 2, .n_text = 1};
    assert_true(vo_is_sparse(&voice, &few)); /* 9 s of speech for 6 */
    assert_false(vo_is_sparse(&voice, &enough));
    assert_false(vo_is_sparse(&voice, &brief));
}

static void test_dense(void **state) {
    vocis_span speech[] = {{0, 4}, {5, 10}};
    const vo_voice voice = {.spans = speech, .n_spans = 2};
    const vo_draft_segment wrong = {.start = 3.9, .end = 5.1, .n_text = 12},
                           right = {.start = 4, .end = 6, .n_text = 12},
                           few = {.start = 4.3, .end = 4.7, .n_text = 7};
    assert_true(vo_is_dense(&voice, &wrong)); /* 0.6 s for 12 tokens */
    assert_false(vo_is_dense(&voice, &right));
    assert_false(vo_is_dense(&voice, &few));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gap),     cmocka_unit_test(test_stretched),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_no_length),
        cmocka_unit_test(test_sparse),  cmocka_unit_test(test_dense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
