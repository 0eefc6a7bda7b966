/* SPDX-License-Identifier: MIT
 *
 * What vo_decode promises beyond the right tokens: no allocation, clean errors, damaged logits,
 * parts of a prompt, rows left as documented.
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
#include "decode/search.h"
#include "decode/support_toy.h"

enum { VOCAB = 100, EOT = 60, ROWS = 6, LENGTH = 48, N_PROMPT = 4 };
static const int32_t prompt[N_PROMPT] = {61, 5, 17, 62};

static const toy_params toy_default = {.seed = 77,
                                       .n_vocab = VOCAB,
                                       .scale = 8.0f,
                                       .eot = EOT,
                                       .eot_bias = -3.0f,
                                       .eot_slope = 0.25f,
                                       .special_begin = VOCAB};

typedef struct fixture {
    toy *model;
    vo_decoder *decoder;
    vo_decode_params params;
    vo_decode_result result;
    vo_error err;
} fixture;

static int set_up(void **state) {
    static fixture f;
    f = (fixture){.model = toy_create(toy_default, ROWS, LENGTH)};
    f.decoder = vo_decoder_create(&f.model->lm, &f.err);
    f.params = vo_decode_default_params();
    f.params.eot = EOT;
    *state = &f;
    return f.decoder ? 0 : -1;
}

static int tear_down(void **state) {
    fixture *f = *state;
    vo_decoder_destroy(f->decoder);
    toy_destroy(f->model);
    return 0;
}

static vo_status decode(fixture *f, int n_fed) {
    toy_reset(f->model, prompt, n_fed);
    f->err = (vo_error){0};
    return vo_decode(f->decoder, prompt, N_PROMPT, n_fed, &f->params, &f->result, &f->err);
}

/* 0: greedy, 1: beam, 2: samples */
static void set_method(fixture *f, int method) {
    f->params.beam_size = method == 1 ? 5 : 1;
    f->params.temperature = method == 2 ? 0.8f : 0.0f;
    f->params.best_of = method == 2 ? 5 : 1;
    f->params.seed = 3;
}

/* The result as text that can be compared after the next call. */
static void keep(const fixture *f, char *text, size_t size) {
    vo_buf buf = {0};
    for (int i = 0; i < f->result.n_tokens; i++) {
        vo_buf_printf(&buf, "%d:%a ", f->result.tokens[i], (double)f->result.logprobs[i]);
    }
    vo_buf_printf(&buf, "%a %a", f->result.sum_logprob, f->result.avg_logprob);
    assert_true(!buf.failed && buf.size < size);
    memcpy(text, buf.data, buf.size + 1);
    vo_buf_free(&buf);
}

static void test_any_part_of_the_prompt_may_be_fed(void **state) {
    fixture *f = *state;
    for (int method = 0; method < 3; method++) {
        char first[4096], again[4096];
        set_method(f, method);
        assert_int_equal(decode(f, N_PROMPT - 1), VO_OK);
        assert_true(f->result.n_tokens > 1);
        keep(f, first, sizeof(first));
        for (int n_fed = 0; n_fed < N_PROMPT - 1; n_fed++) {
            assert_int_equal(decode(f, n_fed), VO_OK);
            keep(f, again, sizeof(again));
            assert_string_equal(first, again);
        }
    }
}

static void test_row_0_can_be_rewound_and_continued(void **state) {
    fixture *f = *state;
    for (int method = 0; method < 3; method++) {
        char first[4096], again[4096];
        set_method(f, method);
        assert_int_equal(decode(f, 0), VO_OK);
        keep(f, first, sizeof(first));
        const vo_lm *lm = &f->model->lm;
        assert_true(f->model->rows[0].alive && f->model->rows[0].length >= N_PROMPT);
        assert_memory_equal(f->model->rows[0].tokens, prompt, sizeof(prompt));
        assert_int_equal(lm->rewind(lm->self, 0, N_PROMPT - 1, &f->err), VO_OK);
        assert_int_equal(
            vo_decode(f->decoder, prompt, N_PROMPT, N_PROMPT - 1, &f->params, &f->result, &f->err),
            VO_OK);
        keep(f, again, sizeof(again));
        assert_string_equal(first, again);
    }
}

static void test_decoding_allocates_nothing(void **state) {
    fixture *f = *state;
    uint64_t before = vo_memory_get_stats().allocations;
    assert_true(before > 0);
    for (int round = 0; round < 3; round++) {
        for (int method = 0; method < 3; method++) {
            set_method(f, method);
            assert_int_equal(decode(f, 0), VO_OK);
        }
    }
    assert_int_equal(vo_memory_get_stats().allocations, before);
}

static void test_all_memory_is_given_back(void **state) {
    fixture *f = *state;
    size_t before = vo_memory_get_stats().active_bytes;
    vo_decoder *decoder = vo_decoder_create(&f->model->lm, &f->err);
    assert_non_null(decoder);
    assert_true(vo_memory_get_stats().active_bytes > before);
    vo_decoder_destroy(decoder);
    vo_decoder_destroy(NULL);
    assert_int_equal(vo_memory_get_stats().active_bytes, before);
}

static void test_greedy_steps_one_row_and_never_forks(void **state) {
    fixture *f = *state;
    assert_int_equal(decode(f, 0), VO_OK);
    assert_int_equal(f->model->rows_stepped, f->result.steps);
    assert_int_equal(f->model->forks, 0);
    assert_true(f->result.ended);
    assert_int_equal(f->result.steps, f->result.n_tokens + 1);
}

static void test_beam_starts_from_one_row(void **state) {
    fixture *f = *state;
    set_method(f, 1);
    f->params.max_tokens = 2;
    assert_int_equal(decode(f, 0), VO_OK);
    assert_int_equal(f->result.steps, 2);
    assert_int_equal(f->model->rows_stepped, 1 + 5);
    assert_int_equal(f->model->forks, 1);
}

static void test_seeds_matter(void **state) {
    fixture *f = *state;
    char first[4096], other[4096];
    set_method(f, 2);
    f->params.best_of = 1;
    assert_int_equal(decode(f, 0), VO_OK);
    keep(f, first, sizeof(first));
    int different = 0;
    for (uint64_t seed = 100; seed < 110; seed++) {
        f->params.seed = seed;
        assert_int_equal(decode(f, 0), VO_OK);
        keep(f, other, sizeof(other));
        different += strcmp(first, other) != 0;
    }
    assert_true(different >= 9);
}

typedef struct countdown {
    int left, polls;
} countdown;

static bool abort_at_zero(void *user) {
    countdown *c = user;
    c->polls++;
    return c->left-- == 0;
}

static void test_abort_is_polled_every_step(void **state) {
    fixture *f = *state;
    static countdown c;
    f->params.abort = abort_at_zero;
    f->params.abort_user = &c;
    for (int method = 0; method < 3; method++) {
        set_method(f, method);
        for (int at = 0; at < 3; at++) {
            c = (countdown){.left = at};
            assert_int_equal(decode(f, 0), VO_ERR_ABORTED);
            assert_int_equal(f->model->steps, at);
            assert_true(f->err.message[0] != '\0');
            assert_int_equal(f->result.n_tokens, 0);
            assert_null(f->result.tokens);
        }
        c = (countdown){.left = -1};
        assert_int_equal(decode(f, 0), VO_OK);
        assert_int_equal(c.polls, f->result.steps);
    }
}

static void test_errors_of_the_model_are_passed_on(void **state) {
    fixture *f = *state;
    for (int method = 0; method < 3; method++) {
        set_method(f, method);
        for (int at = 0; at < 3; at++) {
            toy_reset(f->model, prompt, 0);
            f->model->fail_at = at;
            f->err = (vo_error){0};
            vo_status status =
                vo_decode(f->decoder, prompt, N_PROMPT, 0, &f->params, &f->result, &f->err);
            assert_int_equal(status, VO_ERR_IO);
            assert_string_equal(f->err.message, "the toy broke");
            assert_int_equal(f->model->steps, at + 1);
            assert_null(f->result.tokens);
        }
        assert_int_equal(decode(f, 0), VO_OK);
    }
}

static void expect_refused(fixture *f, int n_prompt, int n_fed) {
    toy_reset(f->model, prompt, n_fed > 0 && n_fed <= N_PROMPT ? n_fed : 0);
    f->err = (vo_error){0};
    vo_status status =
        vo_decode(f->decoder, prompt, n_prompt, n_fed, &f->params, &f->result, &f->err);
    assert_int_equal(status, VO_ERR_ARGUMENT);
    assert_true(f->err.message[0] != '\0');
    assert_int_equal(f->model->steps, 0);
    f->params = vo_decode_default_params();
    f->params.eot = EOT;
}

static void test_impossible_parameters_are_refused(void **state) {
    fixture *f = *state;
    expect_refused(f, 0, 0);
    expect_refused(f, LENGTH + 1, 0);
    expect_refused(f, N_PROMPT, N_PROMPT);
    expect_refused(f, N_PROMPT, -1);
    f->params.eot = -1;
    expect_refused(f, N_PROMPT, 0);
    f->params.eot = VOCAB;
    expect_refused(f, N_PROMPT, 0);
    f->params.max_tokens = 0;
    expect_refused(f, N_PROMPT, 0);
    f->params.beam_size = ROWS + 1;
    expect_refused(f, N_PROMPT, 0);
    f->params.beam_size = 0;
    expect_refused(f, N_PROMPT, 0);
    f->params.patience = 0;
    expect_refused(f, N_PROMPT, 0);
    f->params.patience = NAN;
    expect_refused(f, N_PROMPT, 0);
    f->params.temperature = -0.1f;
    expect_refused(f, N_PROMPT, 0);
    f->params.temperature = NAN;
    expect_refused(f, N_PROMPT, 0);
    f->params.temperature = 1;
    f->params.best_of = ROWS + 1;
    expect_refused(f, N_PROMPT, 0);
    f->params.length_penalty = INFINITY;
    expect_refused(f, N_PROMPT, 0);
    f->params.n_filters = 1;
    expect_refused(f, N_PROMPT, 0);
    vo_lm broken = f->model->lm;
    broken.n_vocab = 0;
    assert_null(vo_decoder_create(&broken, &f->err));
    assert_int_equal(f->err.status, VO_ERR_ARGUMENT);
}

static void spoil_some(void *user, const toy_row *row, float *logits, int n_vocab) {
    float with = *(float *)user;
    for (int i = row->length % 3; i < n_vocab; i += 3) {
        if (i != EOT) logits[i] = with;
    }
}

static void test_nan_counts_as_minus_infinity(void **state) {
    fixture *f = *state;
    for (int method = 0; method < 3; method++) {
        char want[4096], got[4096];
        static float with;
        with = -INFINITY;
        f->model->edit = spoil_some;
        f->model->edit_user = &with;
        set_method(f, method);
        assert_int_equal(decode(f, 0), VO_OK);
        keep(f, want, sizeof(want));
        with = NAN;
        assert_int_equal(decode(f, 0), VO_OK);
        keep(f, got, sizeof(got));
        assert_string_equal(want, got);
        with = INFINITY;
        assert_int_equal(decode(f, 0), VO_OK);
        assert_true(f->result.n_tokens > 0 && isfinite(f->result.sum_logprob));
    }
}

/* Nothing is possible once a row has 8 tokens. */
static void spoil_late(void *user, const toy_row *row, float *logits, int n_vocab) {
    for (int i = 0; row->length >= 8 && i < n_vocab; i++) logits[i] = i % 2 ? NAN : -INFINITY;
}

static void test_rows_without_any_token_end(void **state) {
    fixture *f = *state;
    toy_destroy(f->model);
    toy_params params = toy_default;
    params.eot_bias = -30.0f;
    f->model = toy_create(params, ROWS, LENGTH);
    vo_decoder_destroy(f->decoder);
    f->decoder = vo_decoder_create(&f->model->lm, &f->err);
    assert_non_null(f->decoder);
    f->model->edit = spoil_late;
    for (int method = 0; method < 3; method++) {
        set_method(f, method);
        assert_int_equal(decode(f, 0), VO_OK);
        assert_int_equal(f->result.n_tokens, 8 - N_PROMPT);
        assert_true(f->result.ended);
        assert_true(f->result.sum_logprob == -INFINITY);
    }
    /* more finished sequences are wanted than live ones were left */
    set_method(f, 1);
    f->params.patience = 3;
    assert_int_equal(decode(f, 0), VO_OK);
    assert_int_equal(f->result.n_tokens, 8 - N_PROMPT);
}

static void level(void *user, const toy_row *row, float *logits, int n_vocab) {
    for (int i = 0; i < n_vocab; i++) logits[i] = i == EOT ? -INFINITY : 0.0f;
}

static void test_ties_go_to_the_first(void **state) {
    fixture *f = *state;
    f->model->edit = level;
    f->params.max_tokens = 6;
    for (int method = 0; method < 2; method++) {
        set_method(f, method);
        assert_int_equal(decode(f, 0), VO_OK);
        assert_int_equal(f->result.n_tokens, 6);
        for (int i = 0; i < 6; i++) assert_int_equal(f->result.tokens[i], 0);
    }
    char one[4096], five[4096];
    set_method(f, 2);
    assert_int_equal(decode(f, 0), VO_OK);
    keep(f, five, sizeof(five));
    f->params.best_of = 1;
    assert_int_equal(decode(f, 0), VO_OK);
    keep(f, one, sizeof(one));
    assert_string_equal(one, five);
}

/* Ids by descending likelihood; only the likeliest path can end, and does so at every step. */
static void end_one_path(void *user, const toy_row *row, float *logits, int n_vocab) {
    bool likeliest = true;
    for (int i = N_PROMPT; i < row->length; i++) likeliest = likeliest && row->tokens[i] == 0;
    for (int i = 0; i < n_vocab; i++) logits[i] = (float)i * -8.0f;
    logits[EOT] = likeliest ? -4.0f : -INFINITY;
}

static void test_patience_counts_finished_sequences(void **state) {
    fixture *f = *state;
    /* round(5 patience), half to even */
    const struct {
        float patience;
        int steps;
    } cases[] = {{0.2f, 1}, {0.5f, 2}, {0.7f, 4}, {1.0f, 5}, {1.3f, 6}, {1.5f, 8}, {3.0f, 15}};
    f->model->edit = end_one_path;
    set_method(f, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        f->params.patience = cases[i].patience;
        assert_int_equal(decode(f, 0), VO_OK);
        assert_int_equal(f->result.steps, cases[i].steps);
    }
}

static void test_rank_is_the_documented_formula(void **state) {
    vo_search search = {.params = vo_decode_default_params(), .n_prompt = 3};
    vo_path path = {.n = 3 + 7, .sum = -14.0};
    assert_true(fabs(vo_search_rank(&search, &path) - -2.0) < 1e-12);
    search.params.length_penalty = 0.5f;
    assert_true(fabs(vo_search_rank(&search, &path) - -14.0 / sqrt(2.0)) < 1e-12);
    search.params.length_penalty = 0;
    assert_true(fabs(vo_search_rank(&search, &path) - -14.0) < 1e-12);
    path.n = 3;
    search.params.length_penalty = NAN;
    assert_true(fabs(vo_search_rank(&search, &path) - -14.0) < 1e-12);
}

static void test_a_vocabulary_smaller_than_the_beam(void **state) {
    toy_params params = {
        .seed = 5, .n_vocab = 3, .scale = 2.0f, .eot = 2, .eot_bias = -1.0f, .special_begin = 3};
    toy *model = toy_create(params, 8, 30);
    vo_error err = {0};
    vo_decoder *decoder = vo_decoder_create(&model->lm, &err);
    assert_non_null(decoder);
    vo_decode_params p = vo_decode_default_params();
    p.eot = 2;
    p.beam_size = 8;
    const int32_t start = 1;
    vo_decode_result result;
    assert_int_equal(vo_decode(decoder, &start, 1, 0, &p, &result, &err), VO_OK);
    assert_true(isfinite(result.sum_logprob) && result.sum_logprob < 0);
    vo_decoder_destroy(decoder);
    toy_destroy(model);
}

typedef struct witness {
    int calls, first;
    bool wrong;
} witness;

static void watch(const void *self, float *logits, int n_vocab, const int32_t *tokens, int n,
                  int begin) {
    witness *w = *(witness *const *)self;
    w->calls++;
    w->first += n == begin;
    if (n_vocab != VOCAB || begin != N_PROMPT || n < begin) w->wrong = true;
    if (memcmp(tokens, prompt, sizeof(prompt)) != 0) w->wrong = true;
    /* the filter before this one must have run */
    if (logits[9] != -INFINITY) w->wrong = true;
}

static void test_filters_see_the_tokens_in_order(void **state) {
    fixture *f = *state;
    const int32_t ids[4] = {9, -5, VOCAB, 2000000000};
    vo_suppress_filter suppress = {.ids = ids, .n_ids = 4};
    for (int method = 0; method < 3; method++) {
        witness seen = {0}, *self = &seen;
        vo_logit_filter filters[2] = {vo_filter_suppress(&suppress), {watch, &self}};
        set_method(f, method);
        f->params.filters = filters;
        f->params.n_filters = 2;
        assert_int_equal(decode(f, 0), VO_OK);
        assert_false(seen.wrong);
        assert_int_equal(seen.first, 1);
        assert_int_equal(seen.calls, f->model->rows_stepped);
        f->params.n_filters = 0;
        f->params.filters = NULL;
        for (int i = 0; i < f->result.n_tokens; i++) assert_int_not_equal(f->result.tokens[i], 9);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_any_part_of_the_prompt_may_be_fed),
        TEST(test_row_0_can_be_rewound_and_continued),
        TEST(test_decoding_allocates_nothing),
        TEST(test_all_memory_is_given_back),
        TEST(test_greedy_steps_one_row_and_never_forks),
        TEST(test_beam_starts_from_one_row),
        TEST(test_seeds_matter),
        TEST(test_abort_is_polled_every_step),
        TEST(test_errors_of_the_model_are_passed_on),
        TEST(test_impossible_parameters_are_refused),
        TEST(test_nan_counts_as_minus_infinity),
        TEST(test_rows_without_any_token_end),
        TEST(test_ties_go_to_the_first),
        TEST(test_patience_counts_finished_sequences),
        TEST(test_rank_is_the_documented_formula),
        TEST(test_a_vocabulary_smaller_than_the_beam),
        TEST(test_filters_see_the_tokens_in_order),
    };
    return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
