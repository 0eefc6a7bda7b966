/* SPDX-License-Identifier: MIT
 *
 * Phrase boosting on a model whose opinions are written down: what a phrase may cost, that a phrase
 * which breaks leaves no trace, and that no list does damage.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "decode/decode.h"
#include "decode/support_toy.h"

enum { VOCAB = 100, EOT = 60, ROWS = 6, LENGTH = 48 };
static const int32_t prompt[2] = {61, 62};

/* After `before` (the last token; -1: any), `token` has this logit; all others have -10. Where no
 * rule says anything, eot has 0. */
typedef struct rule {
    int32_t before, token;
    float logit;
} rule;

typedef struct script {
    const rule *rules;
    int n;
} script;

static void follow(void *user, const toy_row *row, float *logits, int n_vocab) {
    const script *s = user;
    const int32_t last = row->tokens[row->length - 1];
    bool said = false;
    for (int i = 0; i < n_vocab; i++) logits[i] = -10;
    for (int i = 0; i < s->n; i++) {
        if (s->rules[i].before >= 0 && s->rules[i].before != last) continue;
        logits[s->rules[i].token] = s->rules[i].logit;
        said = true;
    }
    if (!said) logits[EOT] = 0;
}

typedef struct fixture {
    toy *model;
    vo_decoder *decoder;
    vo_boost *boost;
    vo_decode_params params;
    vo_decode_result result;
    script script;
    int32_t tokens[LENGTH];
    float logprobs[LENGTH];
    double sum;
    vo_error err;
} fixture;

static int set_up(void **state) {
    static fixture f;
    const toy_params params = {.seed = 7,
                               .n_vocab = VOCAB,
                               .scale = 8.0f,
                               .eot = EOT,
                               .eot_bias = -3.0f,
                               .eot_slope = 0.25f,
                               .special_begin = VOCAB};
    f = (fixture){.model = toy_create(params, ROWS, LENGTH)};
    f.decoder = vo_decoder_create(&f.model->lm, &f.err);
    f.params = vo_decode_default_params();
    f.params.eot = EOT;
    *state = &f;
    return f.decoder ? 0 : -1;
}

static int tear_down(void **state) {
    fixture *f = *state;
    vo_boost_destroy(f->boost);
    vo_decoder_destroy(f->decoder);
    toy_destroy(f->model);
    return 0;
}

static void set_rules(fixture *f, const rule *rules, int n) {
    f->script = (script){rules, n};
    f->model->edit = follow;
    f->model->edit_user = &f->script;
}

/* Tokens from 40 on go on inside words, at both of their ends those from 50 on. */
static void fill_kinds(uint8_t kinds[EOT]) {
    for (int i = 0; i < EOT; i++)
        kinds[i] = (uint8_t)(VO_TOKEN_ENDS_INSIDE | (i >= 40 ? VO_TOKEN_BEGINS_INSIDE : 0));
}

static void set_phrases(fixture *f, const vo_boost_phrase *phrases, int n) {
    uint8_t kinds[EOT];
    fill_kinds(kinds);
    vo_boost_destroy(f->boost);
    assert_int_equal(vo_boost_create(phrases, n, kinds, EOT, &f->boost, &f->err), VO_OK);
    f->params.boost = f->boost;
}

/* 0: greedy, 1: beam, 2: samples */
static void set_method(fixture *f, int method) {
    f->params.beam_size = method == 1 ? 4 : 1;
    f->params.patience = method == 1 ? 4.0f : 1.0f; /* so that bad short answers do not end it */
    f->params.temperature = method == 2 ? 0.8f : 0.0f;
    f->params.best_of = method == 2 ? 4 : 1;
    f->params.seed = 3;
}

static void decode(fixture *f) {
    toy_reset(f->model, NULL, 0);
    f->err = (vo_error){0};
    if (vo_decode(f->decoder, prompt, 2, 0, &f->params, &f->result, &f->err) != VO_OK)
        fail_msg("%s", f->err.message);
}

static void keep(fixture *f) {
    memcpy(f->tokens, f->result.tokens, (size_t)f->result.n_tokens * sizeof(int32_t));
    memcpy(f->logprobs, f->result.logprobs, (size_t)f->result.n_tokens * sizeof(float));
    f->sum = f->result.sum_logprob;
}

static void assert_tokens(const fixture *f, const int32_t *tokens, int n) {
    assert_int_equal(f->result.n_tokens, n);
    assert_memory_equal(f->result.tokens, tokens, (size_t)n * sizeof *tokens);
}

/* The model writes 1, or with a gap of 1.5 the phrase 5 6. */
static const rule whole[] = {{62, 1, 5}, {62, 5, 3.5f}, {5, 6, 5}, {1, 2, 5}};

static void test_a_phrase_within_its_budget_is_taken(void **state) {
    fixture *f = *state;
    const int32_t listed[] = {5, 6}, own[] = {1, 2};
    set_rules(f, whole, 4);
    for (int method = 0; method < 2; method++) {
        set_method(f, method);
        set_phrases(f, &(vo_boost_phrase){listed, 2, 1.4f}, 1);
        decode(f);
        assert_tokens(f, own, 2);
        assert_true(f->result.boost == 0);
        set_phrases(f, &(vo_boost_phrase){listed, 2, 1.6f}, 1);
        decode(f);
        assert_tokens(f, listed, 2);
        assert_true(fabs(f->result.boost - 1.5) < 1e-6);
        /* Log-probabilities are the model's: 98 of -10, 5 and 3.5. */
        const double all = log(98 * exp(-10) + exp(5) + exp(3.5));
        assert_true(fabs((double)f->result.logprobs[0] - (3.5 - all)) < 1e-5);
    }
}

static void test_gaps_add_up(void **state) {
    fixture *f = *state;
    const rule rules[] = {{62, 1, 5}, {62, 5, 4}, {5, 3, 5}, {5, 6, 4},
                          {3, 4, 5},  {1, 2, 5},  {1, 7, 5}};
    const int32_t listed[] = {5, 6}, own[] = {1, 2};
    set_rules(f, rules, 7);
    for (int method = 0; method < 2; method++) {
        set_method(f, method);
        set_phrases(f, &(vo_boost_phrase){listed, 2, 1.9f}, 1);
        decode(f);
        /* A beam may go on with 6 at its own cost. */
        if (method == 0) assert_tokens(f, own, 2);
        set_phrases(f, &(vo_boost_phrase){listed, 2, 2.1f}, 1);
        decode(f);
        assert_tokens(f, listed, 2);
    }
}

/* The phrase that begins with 5 does not go on as listed; what was paid for 5 must not help it. */
static void test_a_phrase_that_breaks_leaves_no_trace(void **state) {
    fixture *f = *state;
    const rule rules[] = {{62, 1, 5}, {62, 5, 3.5f}, {5, 9, 5}, {1, 2, 5}, {9, 3, 5}};
    const int32_t listed[] = {5, 6, 7};
    set_rules(f, rules, 5);
    for (int method = 0; method < 3; method++) {
        set_method(f, method);
        f->params.boost = NULL;
        decode(f);
        keep(f);
        const int steps = f->result.steps;
        set_phrases(f, &(vo_boost_phrase){listed, 3, 3}, 1);
        decode(f);
        assert_tokens(f, f->tokens, f->result.n_tokens);
        assert_memory_equal(f->result.logprobs, f->logprobs,
                            (size_t)f->result.n_tokens * sizeof(float));
        assert_true(f->result.sum_logprob == f->sum);
        assert_true(f->result.boost == 0);
        if (method == 0) assert_int_equal(f->result.steps, steps + 1);
    }
}

static void test_the_next_plausible_phrase_is_tried(void **state) {
    fixture *f = *state;
    const rule rules[] = {{62, 1, 5}, {62, 5, 4}, {62, 7, 3.5f}, {5, 9, 5}, {7, 8, 5}};
    const int32_t first[] = {5, 6}, second[] = {7, 8};
    const vo_boost_phrase phrases[] = {{first, 2, 3}, {second, 2, 3}};
    set_rules(f, rules, 5);
    set_phrases(f, phrases, 2);
    decode(f);
    assert_tokens(f, second, 2);
}

static void test_words_are_not_cut(void **state) {
    fixture *f = *state;
    /* 5 is listed, but the word goes on with 41; or 42 is, which would begin inside a word. */
    const rule after[] = {{62, 1, 5}, {62, 5, 4}, {5, 41, 5}, {1, 2, 5}};
    const rule before[] = {{62, 1, 5}, {1, 2, 5}, {1, 42, 4}};
    const int32_t own[] = {1, 2}, five = 5, inside = 42;
    for (int method = 0; method < 2; method++) {
        set_method(f, method);
        set_rules(f, after, 4);
        set_phrases(f, &(vo_boost_phrase){&five, 1, 3}, 1);
        decode(f);
        assert_tokens(f, own, 2);
        set_rules(f, before, 3);
        set_phrases(f, &(vo_boost_phrase){&inside, 1, 3}, 1);
        decode(f);
        assert_tokens(f, own, 2);
    }
}

static void test_the_end_is_not_put_off(void **state) {
    fixture *f = *state;
    const rule rules[] = {{62, 1, 5}, {-1, 5, 0}, {1, EOT, 1}, {5, EOT, 3}};
    const int32_t own = 1, listed = 5;
    set_rules(f, rules, 4);
    set_phrases(f, &(vo_boost_phrase){&listed, 1, 100}, 1);
    f->params.max_tokens = 20;
    for (int method = 0; method < 2; method++) {
        set_method(f, method);
        decode(f);
        /* 5 pays 5 instead of 1, but nothing instead of the end. */
        assert_tokens(f, &listed, 1);
        assert_true(f->result.ended);
        set_phrases(f, &(vo_boost_phrase){&listed, 1, 4.9f}, 1);
        decode(f);
        assert_tokens(f, &own, 1);
        set_phrases(f, &(vo_boost_phrase){&listed, 1, 100}, 1);
    }
}

/* The model would write 1 for ever; the phrase must not take its place for ever. */
static void test_a_phrase_is_not_repeated_for_its_budget(void **state) {
    fixture *f = *state;
    const rule rules[] = {{-1, 1, 5}, {-1, 5, 4}};
    const int32_t listed = 5;
    set_rules(f, rules, 2);
    set_phrases(f, &(vo_boost_phrase){&listed, 1, 3}, 1);
    f->params.max_tokens = 40;
    decode(f);
    assert_int_equal(f->result.n_tokens, 40);
    int count = 0;
    for (int i = 0; i < 40; i++) {
        count += f->result.tokens[i] == 5;
        assert_false(i > 0 && f->result.tokens[i] == 5 && f->result.tokens[i - 1] == 5);
    }
    assert_true(count > 0 && count <= 20);
}

static void test_a_shorter_phrase_is_kept_when_a_longer_one_breaks(void **state) {
    fixture *f = *state;
    const rule rules[] = {{62, 1, 5}, {62, 5, 4}, {5, 6, 5}, {6, 3, 5}, {3, 2, 5}};
    const int32_t longer[] = {5, 6, 7}, wanted[] = {5, 6, 3, 2};
    const vo_boost_phrase phrases[] = {{longer, 1, 2}, {longer, 3, 2}};
    set_rules(f, rules, 5);
    set_phrases(f, phrases, 2);
    for (int method = 0; method < 2; method++) {
        set_method(f, method);
        decode(f);
        assert_tokens(f, wanted, 4);
    }
}

static uint32_t next_random(uint32_t *x) {
    *x = *x * 1664525u + 1013904223u;
    return *x >> 8;
}

/* Random lists on a random model: the answer is one the model could give, sums are sums. */
static void test_no_list_does_damage(void **state) {
    fixture *f = *state;
    static int32_t pool[200][6];
    static vo_boost_phrase phrases[200];
    uint32_t x = 5;
    for (int round = 0; round < 150; round++) {
        for (int i = 0; i < 200; i++) {
            const int n = (int)(next_random(&x) % 7);
            for (int k = 0; k < n; k++) pool[i][k] = (int32_t)(next_random(&x) % EOT);
            phrases[i] = (vo_boost_phrase){pool[i], n, (float)(next_random(&x) % 8)};
        }
        set_phrases(f, phrases, round % 201);
        set_method(f, round % 3);
        f->params.seed = (uint64_t)round;
        f->params.max_tokens = round % 5 ? 30 : 5;
        uint64_t before = vo_memory_get_stats().allocations;
        decode(f);
        assert_int_equal(vo_memory_get_stats().allocations, before);
        double sum = 0;
        for (int i = 0; i < f->result.n_tokens; i++) {
            assert_true(f->result.logprobs[i] <= 0);
            sum += (double)f->result.logprobs[i];
        }
        assert_true(f->result.n_tokens <= f->params.max_tokens);
        assert_true(f->result.ended || fabs(sum - f->result.sum_logprob) < 1e-4);
        assert_true(f->result.sum_logprob <= sum + 1e-4);
        assert_true(f->result.boost >= -1e-4 && f->result.boost <= -sum + 1e-3);
    }
}

static void test_phrases_without_budget_change_nothing(void **state) {
    fixture *f = *state;
    int32_t ids[EOT];
    vo_boost_phrase phrases[EOT];
    for (int i = 0; i < EOT; i++) {
        ids[i] = i;
        phrases[i] = (vo_boost_phrase){&ids[i], 1, 0};
    }
    for (int method = 0; method < 3; method++) {
        set_method(f, method);
        f->params.boost = NULL;
        decode(f);
        keep(f);
        const int n = f->result.n_tokens;
        set_phrases(f, phrases, EOT);
        decode(f);
        assert_tokens(f, f->tokens, n);
        assert_true(f->result.sum_logprob == f->sum);
    }
}

static void test_impossible_phrases_are_refused(void **state) {
    uint8_t kinds[EOT];
    fill_kinds(kinds);
    const int32_t good = 1, high = EOT, low = -1;
    const vo_boost_phrase bad[] = {{&high, 1, 1},  {&low, 1, 1},    {&good, -1, 1},
                                   {&good, 1, -1}, {&good, 1, NAN}, {&good, 1, INFINITY}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        vo_boost *boost = NULL;
        vo_error err = {0};
        assert_int_equal(vo_boost_create(&bad[i], 1, kinds, EOT, &boost, &err), VO_ERR_ARGUMENT);
        assert_null(boost);
        assert_true(err.message[0]);
    }
}

static void test_memory_may_be_short(void **state) {
    fixture *f = *state;
    uint8_t kinds[EOT];
    fill_kinds(kinds);
    const int32_t tokens[] = {1, 2, 3};
    const vo_boost_phrase phrases[] = {{tokens, 3, 1}, {tokens + 1, 2, 1}};
    const size_t before = vo_memory_get_stats().active_bytes;
    vo_status status = VO_ERR_MEMORY;
    int failures = 0;
    for (; status != VO_OK; failures++) {
        vo_boost *boost = NULL;
        f->err = (vo_error){0};
        vo_memory_fail_after(failures, false);
        status = vo_boost_create(phrases, 2, kinds, EOT, &boost, &f->err);
        vo_memory_fail_after(-1, false);
        assert_true(status == VO_OK || (status == VO_ERR_MEMORY && !boost));
        vo_boost_destroy(boost);
        assert_int_equal(vo_memory_get_stats().active_bytes, before);
    }
    assert_true(failures > 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_phrase_within_its_budget_is_taken),
        TEST(test_gaps_add_up),
        TEST(test_a_phrase_that_breaks_leaves_no_trace),
        TEST(test_the_next_plausible_phrase_is_tried),
        TEST(test_words_are_not_cut),
        TEST(test_the_end_is_not_put_off),
        TEST(test_a_phrase_is_not_repeated_for_its_budget),
        TEST(test_a_shorter_phrase_is_kept_when_a_longer_one_breaks),
        TEST(test_no_list_does_damage),
        TEST(test_phrases_without_budget_change_nothing),
        TEST(test_impossible_phrases_are_refused),
        TEST(test_memory_may_be_short),
    };
    return cmocka_run_group_tests_name("boost", tests, NULL, NULL);
}
